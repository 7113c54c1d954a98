//! Questions of runs as elicitations: which of them a client may answer, in which form, and what an answer says.

use super::caller::Client;
use opcell_engine::{
    MESSAGE_SIGNAL,
    event::{EffectId, GrantScope},
    outcome::Question,
};
use opcell_types::{InputAnswer, Value, text::printable};
use rmcp::model::{InputRequest, InputRequests};
use serde_json::{Value as Json, json};
use std::{collections::HashSet, sync::Arc};

/// Bytes of what a question says, as a client shows it.
const QUESTION_BYTES: usize = 4 << 10;

/// Bytes of the reason that is recorded with an approval.
const REASON_BYTES: usize = 2 << 10;

/// The reason that is recorded where a user declines.
const DECLINED: &str = "declined";

/// A question that a client may answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// Names the question, over the whole life of the run.
    pub(super) id: Arc<str>,
    kind: Kind,
    message: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Approval,
    Signal(Arc<str>),
    Grant(EffectId),
    /// The form of another server, with its schema.
    Form(Json),
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// To an approval.
    Approval(Value),
    /// A signal with its data.
    Signal(Arc<str>, Value),
    /// To a grant: its extent, or none for a refusal for good.
    Grant(EffectId, Option<GrantScope>),
    /// To the form of another server.
    Form(InputAnswer),
    /// The user gave none: the question stays open.
    Open,
}

impl Asked {
    /// The question as a client may answer it; `None` for what its caller may not decide, and for what takes more than
    /// a form.
    pub(super) fn of(question: &Question, client: &Client) -> Option<Self> {
        let (name, step, question, approval, id) = match question {
            Question::Signal { name, step, question, approval, id, .. } => (name, step, question, approval, id),
            Question::Grant { effect, step, what, denial, why, id, .. } if client.may_administer() => {
                let why = why.as_ref().map(|why| format!(" It says why: {why}")).unwrap_or_default();
                let message =
                    format!("Step `{step}`, {what}, was refused `{}`: {}.{why}", denial.capability, denial.rule);
                let message = printable(&message, QUESTION_BYTES);
                return Some(Self { id: id.clone(), kind: Kind::Grant(*effect), message });
            }
            Question::Input { step, server, tool, message, schema, id, .. } if client.may_approve() => {
                let message = format!("Step `{step}`, tool `{tool}` of MCP server `{server}`: {message}");
                let (message, mut schema) = (printable(&message, QUESTION_BYTES), Json::from(schema));
                if let Some(schema) = schema.as_object_mut() {
                    schema.remove("additionalProperties");
                }
                return Some(Self { id: id.clone(), kind: Kind::Form(schema), message });
            }
            // An effect in doubt takes a look at what it may have done.
            _ => return None,
        };
        let kind = match approval {
            true if !client.may_approve() => return None,
            true => Kind::Approval,
            false => Kind::Signal(name.clone()),
        };
        let message = match question {
            Some(question) => question.clone(),
            None if *approval => format!("Step `{step}` asks for the approval `{name}`."),
            None => format!("Step `{step}` waits for `{name}`."),
        };
        Some(Self { id: id.clone(), kind, message: printable(&message, QUESTION_BYTES) })
    }

    fn field(&self) -> &'static str {
        match &self.kind {
            Kind::Approval => "approved",
            Kind::Signal(name) if **name == *MESSAGE_SIGNAL => "message",
            Kind::Signal(_) => "data",
            Kind::Grant(_) => "grant",
            Kind::Form(_) => "",
        }
    }

    fn schema(&self) -> Json {
        let field = self.field();
        let properties = match &self.kind {
            Kind::Approval => json!({
                "approved": {"type": "boolean", "title": "Approve"},
                "why": {"type": "string", "title": "Reason", "description": "Recorded with the answer"},
            }),
            Kind::Grant(_) => json!({
                field: {"type": "string", "title": "Grant", "enum": ["once", "run", "refuse"]},
            }),
            Kind::Signal(name) => json!({field: {"type": "string", "title": printable(name, 200)}}),
            Kind::Form(schema) => return schema.clone(),
        };
        json!({"type": "object", "properties": properties, "required": [field]})
    }

    fn request(&self) -> Option<InputRequest> {
        let params = json!({"mode": "form", "message": self.message, "requestedSchema": self.schema()});
        serde_json::from_value(json!({"method": "elicitation/create", "params": params})).ok()
    }

    /// Reads a client's answer.
    ///
    /// # Errors
    /// With a sentence, when it does not fit what was asked.
    pub(super) fn answer(&self, said: &Json) -> Result<Answer, String> {
        let wrong = |what: &str| format!("the answer to `{}` {what}", self.id);
        match said.get("action").and_then(Json::as_str) {
            Some("accept") => {}
            Some("decline") => {
                return Ok(match self.kind {
                    Kind::Approval => Answer::Approval(Value::object([
                        ("approved", Value::from(false)),
                        ("why", Value::from(DECLINED)),
                    ])),
                    Kind::Grant(effect) => Answer::Grant(effect, None),
                    Kind::Form(_) => Answer::Form(InputAnswer::Decline),
                    Kind::Signal(_) => Answer::Open,
                });
            }
            Some("cancel") => return Ok(Answer::Open),
            _ => return Err(wrong("must have the `action` accept, decline or cancel")),
        }
        let content = said.get("content").and_then(Json::as_object);
        let content = content.ok_or_else(|| wrong("was accepted and has no `content`"))?;
        if let Kind::Form(_) = &self.kind {
            let values = Json::Object(content.clone());
            return Ok(Answer::Form(InputAnswer::Accept(values.into())));
        }
        let field = self.field();
        if let Some(unknown) = content.keys().find(|key| *key != field && !(*key == "why" && field == "approved")) {
            return Err(wrong(&format!("has `{}`, which was not asked for", printable(unknown, 100))));
        }
        let found = content.get(field);
        match &self.kind {
            Kind::Approval => {
                let approved = found.and_then(Json::as_bool).ok_or_else(|| wrong("needs `approved`: true or false"))?;
                let why = match content.get("why") {
                    None | Some(Json::Null) => None,
                    Some(Json::String(why)) => Some(printable(why, REASON_BYTES)),
                    Some(_) => return Err(wrong("has a `why` that is no text")),
                };
                let mut data = vec![("approved", Value::from(approved))];
                data.extend(why.filter(|why| !why.is_empty()).map(|why| ("why", Value::from(why))));
                Ok(Answer::Approval(Value::object(data)))
            }
            Kind::Grant(effect) => match found.and_then(Json::as_str) {
                Some("once") => Ok(Answer::Grant(*effect, Some(GrantScope::Once))),
                Some("run") => Ok(Answer::Grant(*effect, Some(GrantScope::Run))),
                Some("refuse") => Ok(Answer::Grant(*effect, None)),
                _ => Err(wrong("needs `grant`: once, run or refuse")),
            },
            Kind::Signal(name) => {
                let text = found.and_then(Json::as_str).ok_or_else(|| wrong(&format!("needs `{field}`: a string")))?;
                Ok(Answer::Signal(name.clone(), Value::from(text)))
            }
            Kind::Form(_) => Ok(Answer::Open),
        }
    }
}

/// The questions of a run that a client may answer.
pub(super) fn asked(questions: &[Question], client: &Client) -> Vec<Asked> {
    // A step that waits for one of several signals is asked for the first of them: a client answers every form.
    let mut places = HashSet::new();
    let first = questions.iter().filter(|question| match question {
        Question::Signal { path, visit, .. } => places.insert((path.clone(), *visit)),
        _ => true,
    });
    first.filter_map(|question| Asked::of(question, client)).collect()
}

/// The questions as requests of the protocol.
pub(super) fn requests(asked: &[Asked]) -> InputRequests {
    asked.iter().filter_map(|asked| Some((asked.id.to_string(), asked.request()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: &str, approval: bool) -> Question {
        Question::Signal {
            name: name.into(),
            step: "ship".into(),
            question: Some("Ship\u{202e} it?".to_owned()),
            approval,
            id: "0123".into(),
            path: "ship".into(),
            visit: 1,
            again: false,
        }
    }

    #[test]
    fn a_question_is_asked_only_of_whom_may_answer_it() {
        let approval = [question("ship", true)];
        let ask = |may_approve| asked(&approval, &Client::with_rights(may_approve, false));
        assert!(ask(false).is_empty());
        let requests = serde_json::to_value(requests(&ask(true))).unwrap();
        let expected = json!({"0123": {"method": "elicitation/create", "params": {
            "mode": "form", "message": "Ship\u{fffd} it?",
            "requestedSchema": {"type": "object", "required": ["approved"], "properties": {
                "approved": {"type": "boolean", "title": "Approve"},
                "why": {"type": "string", "title": "Reason", "description": "Recorded with the answer"},
            }},
        }}});
        assert_eq!(requests, expected);
        assert_eq!(asked(&[question("message", false)], &Client::with_rights(false, false)).len(), 1);
    }

    #[test]
    fn an_answer_is_what_was_asked_for_or_refused_with_a_sentence() {
        let of = |name: &str, approval, said: Json| {
            let asked = Asked::of(&question(name, approval), &Client::with_rights(true, false)).unwrap();
            asked.answer(&said)
        };
        let accept = |content: Json| json!({"action": "accept", "content": content});
        let approval = |text: &str| Ok(Answer::Approval(Value::from_json(text).unwrap()));
        assert_eq!(of("ship", true, accept(json!({"approved": true}))), approval(r#"{"approved":true}"#));
        assert_eq!(
            of("ship", true, accept(json!({"approved": false, "why": "late"}))),
            approval(r#"{"approved":false,"why":"late"}"#)
        );
        assert_eq!(of("ship", true, json!({"action": "decline"})), approval(r#"{"approved":false,"why":"declined"}"#));
        assert_eq!(of("ship", true, json!({"action": "cancel"})), Ok(Answer::Open));
        assert_eq!(of("go", false, json!({"action": "decline"})), Ok(Answer::Open));
        assert_eq!(of("go", false, accept(json!({"data": "x"}))), Ok(Answer::Signal("go".into(), "x".into())));
        for (said, sentence) in [
            (json!({}), "must have the `action`"),
            (json!("accept"), "must have the `action`"),
            (json!({"action": "accept"}), "has no `content`"),
            (accept(json!({})), "needs `approved`"),
            (accept(json!({"approved": "true"})), "needs `approved`"),
            (accept(json!({"approved": true, "why": 7})), "`why` that is no text"),
            (accept(json!({"approved": true, "admin": true})), "which was not asked for"),
        ] {
            assert!(of("ship", true, said.clone()).unwrap_err().contains(sentence), "{said}");
        }
    }
}
