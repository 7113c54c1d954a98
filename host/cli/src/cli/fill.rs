//! Forms of tools that ask for input: how they are shown, and how a person at the terminal fills them in.

use super::{Failure, Terminal, terminal::typed};
use opcell::Host;
use opcell_engine::{RunError, RunOutcome, outcome::Question};
use opcell_types::{
    InputAnswer, Value,
    input::{Field, FieldKind, fields},
    text::one_line,
};
use std::{fmt::Write as _, sync::Arc};

/// Bytes of a text of a form on one line.
const LINE_BYTES: usize = 300;

/// Everything that is shown of a form, without the command that answers.
pub fn shown(question: &Question) -> String {
    let Question::Input { step, path, visit, server, tool, message, schema, round, .. } = question else {
        return String::new();
    };
    let at = if path.is_empty() { step } else { path };
    let visit = if *visit > 1 { format!(", visit {visit}") } else { String::new() };
    let again = if *round > 1 { format!(" (request {round} of this call)") } else { String::new() };
    let mut text = format!("step `{at}`{visit}: tool `{tool}` of MCP server `{server}` asks for input{again}:\n");
    message.lines().for_each(|line| {
        let _ = writeln!(text, "    {line}");
    });
    for field in fields(schema) {
        let _ = writeln!(text, "  {}", described(&field));
    }
    text
}

/// A field on one line: its name, its kind, and its explanation.
fn described(field: &Field<'_>) -> String {
    let listed = |choices: &[opcell_types::input::Choice<'_>]| {
        let shown = choices.iter().map(|choice| match choice.title {
            title if title == choice.value => title.to_owned(),
            title => format!("{} ({title})", choice.value),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let kind = match &field.kind {
        FieldKind::Text(None) => "text".to_owned(),
        FieldKind::Text(Some(format)) => format!("text, {format}"),
        FieldKind::Number => "number".to_owned(),
        FieldKind::Integer => "whole number".to_owned(),
        FieldKind::Boolean => "yes or no".to_owned(),
        FieldKind::Choice(choices) => format!("one of: {}", listed(choices)),
        FieldKind::Choices(choices) => format!("some of: {}", listed(choices)),
    };
    let needed = if field.required { "" } else { "; optional" };
    let default = field.default.map(|value| format!("; default {}", value.to_json())).unwrap_or_default();
    let about = [field.title, field.description].into_iter().flatten().filter(|text| *text != field.name);
    let about = about.collect::<Vec<_>>().join(": ");
    let about = if about.is_empty() { String::new() } else { format!("  {about}") };
    one_line(&format!("{} [{kind}{needed}{default}]{about}", field.name), LINE_BYTES)
}

/// The form as it is shown, and the command that answers it.
pub fn ask(run: &str, question: &Question) -> String {
    let id = question.id().map_or("", |id| id);
    format!("{}  opcell runs answer {run} {id} --value NAME=VALUE    # or --decline, or --cancel", shown(question))
}

/// The forms that a run asks to be filled in.
pub fn forms(questions: &[Question]) -> Vec<&Question> {
    questions.iter().filter(|question| matches!(question, Question::Input { .. })).collect()
}

/// Sends the answers of a person to forms. Returns `true` if one was sent.
pub async fn answer(
    host: &Host,
    outcome: &RunOutcome,
    (by, from): (Option<&Arc<str>>, &str),
    declines: bool,
    terminal: &Terminal,
) -> Result<bool, Failure> {
    let mut sent = false;
    for question in forms(&outcome.questions) {
        let Some(id) = question.id() else { continue };
        if !declines {
            terminal.failed(&shown(question));
        }
        loop {
            let answer = if declines { Some(InputAnswer::Decline) } else { asked(question, terminal)? };
            let Some(answer) = answer else { return Ok(sent) };
            let answered = host.engine().answer_input(&outcome.run, id, &answer, by.cloned(), Some(from.into())).await;
            match answered {
                Err(RunError::AnswerNotTaken { problem, .. }) if !declines => terminal.failed(&problem),
                answered => {
                    answered?;
                    sent = true;
                    break;
                }
            }
        }
    }
    Ok(sent)
}

/// The answer of a person; `None` when they give none.
fn asked(question: &Question, terminal: &Terminal) -> Result<Option<InputAnswer>, Failure> {
    let Question::Input { schema, .. } = question else { return Ok(None) };
    loop {
        let Some(word) = typed("[f]ill in, [d]ecline, [c]ancel the question, [q]uit: ")? else { return Ok(None) };
        match word.as_str() {
            "f" => return filled(schema, terminal),
            "d" => return Ok(Some(InputAnswer::Decline)),
            "c" => return Ok(Some(InputAnswer::Cancel)),
            "q" => return Ok(None),
            _ => {}
        }
    }
}

/// Asks for each field. An empty line leaves it out, or gives its default.
fn filled(schema: &Value, terminal: &Terminal) -> Result<Option<InputAnswer>, Failure> {
    let mut values = Vec::new();
    for field in fields(schema) {
        let value = loop {
            let Some(text) = typed(&format!("{}: ", described(&field)))? else { return Ok(None) };
            if text.is_empty() && (!field.required || field.default.is_some()) {
                break None;
            }
            match field.read(&text) {
                Ok(value) => break Some(value),
                Err(problem) => terminal.failed(&problem),
            }
        };
        values.extend(value.map(|value| (field.name, value)));
    }
    Ok(Some(InputAnswer::Accept(Value::object(values))))
}

/// Values for a form from `NAME=VALUE`.
///
/// # Errors
/// With a sentence, where the form has no such field, or the field takes no such value.
pub fn values(schema: &Value, given: &[String]) -> Result<Value, String> {
    let fields = fields(schema);
    let mut values = Vec::new();
    for pair in given {
        let (name, text) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not NAME=VALUE"))?;
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            return Err(format!("the form has no field `{name}`; it has: {}", known.join(", ")));
        };
        values.push((field.name, field.read(text)?));
    }
    Ok(Value::object(values))
}
