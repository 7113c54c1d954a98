//! Requests of a server for input (`input_required`): the forms that a person can fill in, and the answers to them.
//!
//! A form is untrusted: what is shown of it is printable and bounded, and its schema is put together anew from the parts
//! that the protocol has, so that checking with it costs little. Texts that go back to the server as they are (keys,
//! names of fields, choices) are refused unless a person sees exactly them.

use opcell_types::{
    GivenInput, InputAnswer, InputForm, Value,
    text::{one_line, printable},
};
use rmcp::model::InputResponses;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

mod fields;

/// Forms of one request.
const MAX_FORMS: usize = 8;

/// Bytes of a question.
const QUESTION_BYTES: usize = 4 << 10;

/// Bytes of the server's name for a form.
const KEY_BYTES: usize = 256;

/// Bytes of the text with which a call continues: it is kept in the journal of the run.
const STATE_BYTES: usize = 64 << 10;

/// Bytes of a text of the server that a sentence repeats.
const QUOTED_BYTES: usize = 200;

/// The kind of a result that is not the end of a call.
const INPUT_REQUIRED: &str = "input_required";

/// The request for input in a result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Required {
    /// Forms, and the text with which the call continues.
    Forms(Vec<InputForm>, Option<Arc<str>>),
    /// The same call once more, with this text: no person is asked.
    Again(Arc<str>),
    /// Input that no person can give; the rest of a sentence says why.
    Unusable(String),
}

/// Reads a result, where it is a request for input.
pub(super) fn required(result: &Json) -> Option<Required> {
    if result.get("resultType").and_then(Json::as_str) != Some(INPUT_REQUIRED) || result.get("content").is_some() {
        return None;
    }
    Some(read(result).unwrap_or_else(Required::Unusable))
}

fn read(result: &Json) -> Result<Required, String> {
    let state: Option<Arc<str>> = match result.get("requestState") {
        None | Some(Json::Null) => None,
        Some(Json::String(state)) if state.len() <= STATE_BYTES => Some(state.as_str().into()),
        Some(Json::String(_)) => return Err(format!("asks for input with a state of more than {STATE_BYTES} bytes")),
        Some(_) => return Err("asks for input with a state that is not a string".to_owned()),
    };
    let requests = match result.get("inputRequests") {
        None | Some(Json::Null) => None,
        Some(Json::Object(requests)) => Some(requests).filter(|requests| !requests.is_empty()),
        Some(_) => return Err("asks for input with a list of requests that is not an object".to_owned()),
    };
    match (requests, state) {
        (Some(requests), _) if requests.len() > MAX_FORMS => {
            Err(format!("asks for input with {} forms at once; at most {MAX_FORMS} are shown", requests.len()))
        }
        (Some(requests), state) => {
            let forms: Result<Vec<InputForm>, String> =
                requests.iter().map(|(key, request)| form(key, request)).collect();
            Ok(Required::Forms(forms?, state))
        }
        (None, Some(state)) => Ok(Required::Again(state)),
        (None, None) => Err("asks for input and does not say for which".to_owned()),
    }
}

fn form(key: &str, request: &Json) -> Result<InputForm, String> {
    if key.len() > KEY_BYTES {
        return Err(format!("asks for input under a name of more than {KEY_BYTES} bytes"));
    }
    let method = request.get("method").and_then(Json::as_str).unwrap_or_default();
    if method != "elicitation/create" {
        let method = one_line(method, QUOTED_BYTES);
        return Err(format!("asks for `{method}`, which this client does not offer; it offers forms"));
    }
    let none = Map::new();
    let params = request.get("params").and_then(Json::as_object).unwrap_or(&none);
    match params.get("mode").and_then(Json::as_str) {
        None | Some("form") => {}
        Some("url") => {
            let url = params.get("url").and_then(Json::as_str).unwrap_or_default();
            let url = one_line(url, QUOTED_BYTES);
            return Err(format!(
                "asks for the page `{url}` to be opened, which this client does not do; it offers forms"
            ));
        }
        Some(mode) => {
            let mode = one_line(mode, QUOTED_BYTES);
            return Err(format!("asks for input in the mode `{mode}`; this client offers forms"));
        }
    }
    let message = params.get("message").and_then(Json::as_str).unwrap_or_default();
    let message = printable(message.trim(), QUESTION_BYTES);
    let message = if message.is_empty() { "The server gives no question.".to_owned() } else { message };
    let schema = fields::schema(params.get("requestedSchema").unwrap_or(&Json::Null))?;
    Ok(InputForm { key: key.into(), message: message.into(), schema: Value::from(schema) })
}

/// The answers as a request has them.
pub(super) fn responses(given: &GivenInput) -> InputResponses {
    let response = |answer: &InputAnswer| match answer {
        InputAnswer::Accept(values) => json!({"action": answer.action(), "content": Json::from(values)}),
        InputAnswer::Decline | InputAnswer::Cancel => json!({"action": answer.action()}),
    };
    given.answers.iter().map(|(key, answer)| (key.to_string(), response(answer))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(params: Json) -> Json {
        let request = json!({"method": "elicitation/create", "params": params});
        json!({"resultType": "input_required", "inputRequests": {"who": request}, "requestState": "s-1"})
    }

    fn named() -> Json {
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    }

    #[test]
    fn a_form_has_a_printable_question_and_the_state_stays_as_it_is() {
        let result = asks(json!({"message": " Who\u{202e}? ", "requestedSchema": named()}));
        let Some(Required::Forms(forms, state)) = required(&result) else { panic!("{:?}", required(&result)) };
        assert_eq!((&*forms[0].key, &*forms[0].message, state.as_deref()), ("who", "Who\u{fffd}?", Some("s-1")));
        let again = json!({"resultType": "input_required", "requestState": "s-2"});
        assert_eq!(required(&again), Some(Required::Again("s-2".into())));
        assert_eq!(required(&json!({"content": [], "resultType": "input_required"})), None);
        assert_eq!(required(&json!({"content": []})), None);
    }

    #[test]
    fn input_that_no_person_can_give_in_a_form_is_refused_with_a_sentence() {
        let long = "x".repeat(STATE_BYTES + 1);
        let many: Map<String, Json> = (0..=MAX_FORMS).map(|at| (at.to_string(), json!({}))).collect();
        for (result, sentence) in [
            (json!({"resultType": "input_required"}), "does not say for which"),
            (json!({"resultType": "input_required", "inputRequests": [7]}), "not an object"),
            (json!({"resultType": "input_required", "inputRequests": many}), "9 forms at once"),
            (json!({"resultType": "input_required", "requestState": long}), "more than 65536 bytes"),
            (json!({"resultType": "input_required", "requestState": 7}), "not a string"),
            (
                json!({"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/createMessage"}}}),
                "asks for `sampling/createMessage`",
            ),
            (asks(json!({"mode": "url", "url": "https://a.example/\u{1b}"})), "the page `https://a.example/\u{fffd}`"),
            (asks(json!({"mode": "voice"})), "the mode `voice`"),
            (asks(json!({"message": "m"})), "without a form"),
        ] {
            let Some(Required::Unusable(why)) = required(&result) else { panic!("{result}") };
            assert!(why.starts_with("asks for") && why.contains(sentence), "{why}");
        }
    }

    #[test]
    fn answers_go_back_under_the_names_of_the_server() {
        let values = Value::from_json(r#"{"name":"Ada"}"#).unwrap();
        let answers = vec![
            ("a".into(), InputAnswer::Accept(values)),
            ("b".into(), InputAnswer::Decline),
            ("c".into(), InputAnswer::Cancel),
        ];
        let responses = responses(&GivenInput { state: None, answers, task: None });
        assert_eq!(
            json!(responses),
            json!({"a": {"action": "accept", "content": {"name": "Ada"}}, "b": {"action": "decline"}, "c": {"action": "cancel"}})
        );
    }
}
