//! The form of a tool that asks for input, on the page of its run.

use crate::{
    access::tokens::Scope,
    api::{self, At},
    page::{door::Visitor, run_place},
    problem::Problem,
};
use axum::{
    Form,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use opcell_engine::outcome::Question;
use opcell_types::{
    InputAnswer, Value,
    input::{Choice, Field, FieldKind, fields},
    text::{one_line, printable},
};

/// Bytes of a title and of a choice, and of an explanation.
const TITLE_BYTES: usize = 200;
const ABOUT_BYTES: usize = 1_000;

/// Before the name of a field of the tool's form, so that it is none of the page's own.
const PREFIX: &str = "value-";

/// The place of a form on the page.
pub(super) struct FormPlace<'a> {
    pub here: &'a str,
    pub proof: &'a str,
    pub may_answer: bool,
}

/// A form of a tool: who asks, the question, and the fields.
pub(super) fn shown(question: &Question, place: &FormPlace<'_>) -> Markup {
    let Question::Input { id, step, path, visit, server, tool, message, schema, round, .. } = question else {
        return html! {};
    };
    html! {
        div.box id={ "q-" (id) } {
            p { b { "Tool " code { (one_line(tool, TITLE_BYTES)) } " of MCP server " code { (one_line(server, TITLE_BYTES)) } " asks for input" } }
            p { (printable(message, ABOUT_BYTES * 4)) }
            p.quiet { "Step " code { @if path.is_empty() { (step) } @else { (path) } } @if *visit > 1 { ", visit " (visit) }
                @if *round > 1 { " · request " (round) " of this call" }
                " · the server gets what you enter, and the journal keeps it" }
            @if place.may_answer {
                form method="post" action={ (place.here) "/input" } {
                    input type="hidden" name="proof" value=(place.proof);
                    input type="hidden" name="question" value=(id);
                    @for field in fields(schema) { (entry(id, &field)) }
                    p { button.yes name="action" value="accept" { "Send" } " "
                        button.no name="action" value="decline" formnovalidate { "Decline" } " "
                        button name="action" value="cancel" formnovalidate { "Cancel the question" } }
                }
            } @else { p.quiet { "Your token does not have the scope " code { "approve" } "." } }
        }
    }
}

/// A field with its label.
fn entry(question: &str, field: &Field<'_>) -> Markup {
    let (id, name) = (format!("f-{question}-{}", field.name), format!("{PREFIX}{}", field.name));
    let title = one_line(field.title.unwrap_or(field.name), TITLE_BYTES);
    let default = field.default.map(|value| value.as_str().map_or_else(|| value.to_json(), str::to_owned));
    let is_chosen = |value: &str| match field.default {
        Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(value)),
        _ => default.as_deref() == Some(value),
    };
    html! {
        p {
            label for=(id) { (title) @if !field.required { " (optional)" } } br;
            @match &field.kind {
                FieldKind::Text(format) => {
                    input id=(id) name=(name) type=(input_type(*format)) value=[default.as_deref()] required[field.required];
                }
                FieldKind::Number => {
                    input id=(id) name=(name) type="number" step="any" value=[default.as_deref()] required[field.required];
                }
                FieldKind::Integer => {
                    input id=(id) name=(name) type="number" step="1" value=[default.as_deref()] required[field.required];
                }
                FieldKind::Boolean => {
                    select id=(id) name=(name) required[field.required] {
                        option value="" {}
                        option value="true" selected[is_chosen("true")] { "Yes" }
                        option value="false" selected[is_chosen("false")] { "No" }
                    }
                }
                FieldKind::Choice(choices) => {
                    select id=(id) name=(name) required[field.required] {
                        option value="" {}
                        (options(choices, &is_chosen))
                    }
                }
                FieldKind::Choices(choices) => {
                    select id=(id) name=(name) multiple required[field.required] { (options(choices, &is_chosen)) }
                }
            }
            @if let Some(about) = field.description { br; span.quiet { (printable(about, ABOUT_BYTES)) } }
        }
    }
}

fn options(choices: &[Choice<'_>], is_chosen: &dyn Fn(&str) -> bool) -> Markup {
    html! {
        @for choice in choices {
            option value=(choice.value) selected[is_chosen(choice.value)] { (one_line(choice.title, TITLE_BYTES)) }
        }
    }
}

/// The kind of an entry for texts of a format. A moment is typed as text: what browsers send of one has no zone.
fn input_type(format: Option<&str>) -> &'static str {
    match format {
        Some("email") => "email",
        Some("uri") => "url",
        Some("date") => "date",
        _ => "text",
    }
}

/// The values that a browser sent, by the fields of the form. An empty entry is none.
fn values(schema: &Value, sent: &[(String, String)]) -> Result<Value, String> {
    let mut values = Vec::new();
    for field in fields(schema) {
        let of_field = sent.iter().filter(|(name, _)| name.strip_prefix(PREFIX) == Some(field.name));
        let texts: Vec<&str> = of_field.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
        let value = match (&field.kind, texts.as_slice()) {
            // A choice may have commas of its own.
            (FieldKind::Choices(_), texts) => Value::array(texts.iter().map(|text| Value::from(*text))),
            (_, []) => continue,
            (_, [text, ..]) => field.read(text)?,
        };
        values.push((field.name, value));
    }
    Ok(Value::object(values))
}

/// Answers a form.
pub(in crate::page) async fn answer(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(sent): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let of = |name: &str| sent.iter().find(|(key, _)| key == name).map_or("", |(_, text)| text.as_str());
    visitor.check(of("proof"))?;
    let admitted = visitor.admit(&tenant, Scope::Approve)?;
    let question = of("question");
    let answer = match of("action") {
        "accept" => {
            let view = admitted.tenant.views.of(&run.as_str().into()).await?;
            let questions = view.state().questions();
            let asked = questions.iter().find_map(|asked| match asked {
                Question::Input { id, schema, .. } if **id == *question => Some(schema),
                _ => None,
            });
            let none = Value::Null;
            let values = values(asked.unwrap_or(&none), &sent);
            InputAnswer::Accept(values.map_err(|problem| Problem::bad_request("invalid-answer", problem))?)
        }
        "decline" => InputAnswer::Decline,
        "cancel" => InputAnswer::Cancel,
        _ => return Err(Problem::bad_request("invalid-answer", "an answer to a form is accept, decline or cancel")),
    };
    let _sent = api::answer_input(&admitted, run.as_str().into(), question, &answer, "page").await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Question {
        let schema = r#"{"type":"object","required":["name"],"properties":{
            "name":{"type":"string","title":"<b>Name</b>","default":"Ada"},
            "count":{"type":"integer"},
            "kind":{"type":"string","oneOf":[{"const":"a,b","title":"AB"}],"default":"a,b"},
            "many":{"type":"array","items":{"type":"string","oneOf":[{"const":"a,b"},{"const":"c"}]}},
            "sure":{"type":"boolean"}}}"#;
        Question::Input {
            effect: opcell_engine::event::EffectId(1),
            id: "0123".into(),
            step: "s".into(),
            path: "s".into(),
            visit: 1,
            server: "notes".into(),
            tool: "add".into(),
            message: "Who\u{202e}?".into(),
            schema: Value::from_json(schema).unwrap(),
            round: 2,
        }
    }

    #[test]
    fn a_form_shows_who_asks_and_its_fields_and_only_to_whom_may_answer_it() {
        let of = |may_answer| shown(&form(), &FormPlace { here: "/r", proof: "p", may_answer }).into_string();
        let page = of(true);
        for part in [
            "MCP server <code>notes</code>",
            "Who\u{fffd}?",
            "&lt;b&gt;Name&lt;/b&gt;",
            r#"name="value-name" type="text" value="Ada" required"#,
            r#"<option value="a,b" selected>AB</option>"#,
            "request 2",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!of(false).contains("<form") && of(false).contains("does not have the scope"));
    }

    #[test]
    fn what_a_browser_sends_becomes_values_of_the_fields() {
        let Question::Input { schema, .. } = form() else { panic!() };
        let sent = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            values(&schema, &pairs).map(|values| values.to_json())
        };
        assert_eq!(
            sent(&[
                ("value-name", "Eve"),
                ("value-count", "7"),
                ("value-kind", ""),
                ("value-many", "a,b"),
                ("value-many", "c"),
                ("value-sure", "true"),
                ("value-admin", "1"),
                ("proof", "x")
            ]),
            Ok(r#"{"name":"Eve","count":7,"many":["a,b","c"],"sure":true}"#.to_owned())
        );
        assert_eq!(sent(&[("value-count", "x")]), Err("`count` takes a whole number".to_owned()));
    }
}
