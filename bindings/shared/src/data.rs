//! Runs as data.

use crate::error::denial;
use opcell::{Answer, Outcome, Question, Recorded, RunOutcome, RunUpdate, Value, consent::Requests};

/// An update of a run: an object with `event`, or one with `questions`.
#[must_use]
pub fn update(update: &RunUpdate) -> Value {
    match update {
        RunUpdate::Happened(recorded) => Value::object([("event", event(recorded))]),
        RunUpdate::Suspended(open) => Value::object([("questions", questions(open))]),
        _ => Value::object::<&str>([]),
    }
}

/// Every event of a history.
#[must_use]
pub fn history(history: &[Recorded]) -> Value {
    Value::from(history.iter().map(event).collect::<Vec<_>>())
}

/// An event of a run, with the receipt that it brings.
#[must_use]
pub fn event(recorded: &Recorded) -> Value {
    let receipt = recorded.event.receipt().map(|receipt| (**receipt).clone());
    Value::object([
        ("seq", Value::from(recorded.seq)),
        ("at", Value::from(recorded.at.to_text())),
        ("kind", Value::from(recorded.event.kind())),
        ("data", Value::from_json(&recorded.event.to_json()).unwrap_or_default()),
        ("receipt", Value::from(receipt)),
    ])
}

/// Questions of a run, each with its kind, so that a program need not look for it.
#[must_use]
pub fn questions(questions: &[Question]) -> Value {
    let flat = questions.iter().map(|question| {
        let written = Value::of(question).unwrap_or_default();
        let Some((kind, Value::Object(fields))) = written.as_object().and_then(|one| one.iter().next()) else {
            return written;
        };
        let mut fields = fields.clone();
        fields.insert("kind", Value::from(kind));
        if let Question::Grant { denial: refused, .. } = question {
            fields.insert("denial", denial(refused));
        }
        Value::Object(fields)
    });
    Value::from(flat.collect::<Vec<_>>())
}

/// The answer to an effect in doubt, by its name.
///
/// # Errors
/// When it is not one, with a sentence.
pub fn settlement(name: &str) -> Result<Answer, String> {
    match name {
        "retry" => Ok(Answer::Retry),
        "skip" => Ok(Answer::Skip),
        "fail" => Ok(Answer::Fail),
        other => Err(format!("`{other}` does not settle an effect in doubt; `retry`, `skip` and `fail` do")),
    }
}

/// The state of a run: how it ended, or the questions that it waits for.
#[must_use]
pub fn outcome(outcome: RunOutcome) -> Value {
    let status = match Outcome::from(outcome.clone()) {
        Outcome::Ended(_) | Outcome::Suspended(_) => outcome.status.as_str(),
        _ => "released",
    };
    Value::object([
        ("run", Value::from(outcome.run)),
        ("workflow", Value::from(outcome.workflow)),
        ("status", Value::from(status)),
        ("result", outcome.result),
        ("source", Value::from(outcome.source.map(|source| source.as_str()))),
        ("reason", Value::from(outcome.reason)),
        ("message", Value::from(outcome.message)),
        ("step", Value::from(outcome.step)),
        ("handoff", Value::from(outcome.handoff)),
        ("details", Value::from(outcome.details)),
        ("denial", Value::from(outcome.denial.as_deref().map(denial))),
        ("receipt", Value::from(outcome.receipt.map(|receipt| (*receipt).clone()))),
        ("artifacts", outcome.artifacts),
        ("used", Value::of(&outcome.used).unwrap_or_default()),
        ("questions", questions(&outcome.questions)),
        ("events", Value::from(outcome.events)),
    ])
}

/// The requests of a project file that reach outside of its folder, with the digest that a consent names.
#[must_use]
pub fn requests(requests: &Requests) -> Value {
    let listed = requests.iter().map(|request| Value::from(request.to_string())).collect::<Vec<_>>();
    Value::object([("digest", Value::from(requests.digest().to_string())), ("requests", Value::from(listed))])
}
