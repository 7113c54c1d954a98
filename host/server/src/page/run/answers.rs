//! The answers and other messages that a run received: who sent them, when, and what they say.

use crate::page::{brief, moment};
use maud::{Markup, html};
use opcell_engine::{
    Event,
    event::{Answer, CallAnswer, GrantScope, Recorded, Signal},
};
use opcell_types::{InputAnswer, Value};

/// Renders messages, the oldest first. `here` is the address of the run's page.
pub(super) fn shown<'a>(messages: impl Iterator<Item = &'a Recorded>, here: &str) -> Markup {
    let rows: Vec<Markup> = messages.filter_map(|recorded| row(recorded, here)).collect();
    html! { @if !rows.is_empty() {
        h2 #answers { "Answers" }
        ul.answers { @for row in rows { (row) } }
    } }
}

fn row(recorded: &Recorded, here: &str) -> Option<Markup> {
    let (what, by, data) = said(&recorded.event)?;
    let whole = format!("{here}/events/{}", recorded.seq);
    Some(html! { li {
        b { (what) } " by " (by.unwrap_or("an unnamed sender"))
        span.quiet { " · " (moment(&recorded.at.to_text())) " UTC · "
            a href={ (here) "/events?after=" (recorded.seq - 1) } { "event " (recorded.seq) } }
        @if let Some(data) = data { (brief(data, &whole)) }
    } })
}

/// The content of a message, who sent it, and its data.
fn said(event: &Event) -> Option<(String, Option<&str>, Option<&Value>)> {
    Some(match event {
        Event::SignalReceived(signal) => return Some(of_signal(signal)),
        Event::Answered { effect, answer, by } => {
            let answer = match answer {
                Answer::Retry => "executed again",
                Answer::Skip => "skipped",
                Answer::Fail => "failed",
            };
            (format!("Effect {} {answer}", effect.0), by.as_deref(), None)
        }
        Event::GrantAnswered { grant, by, .. } => {
            let grant = match grant {
                Some(GrantScope::Once) => "Granted once",
                Some(GrantScope::Run) => "Granted for this run",
                None => "Grant refused",
            };
            (grant.to_owned(), by.as_deref(), None)
        }
        Event::InputAnswered { answer, by, .. } => {
            let (word, data) = match answer {
                InputAnswer::Accept(values) => ("Input given", Some(values)),
                InputAnswer::Decline => ("Input declined", None),
                InputAnswer::Cancel => ("Input cancelled", None),
            };
            (word.to_owned(), by.as_deref(), data)
        }
        Event::CallAnswered { answer, by, .. } => match answer {
            CallAnswer::Approve { arguments, run } => {
                let word = if *run { "Call approved for this run" } else { "Call approved" };
                (word.to_owned(), by.as_deref(), Some(arguments).filter(|arguments| !arguments.is_nullish()))
            }
            CallAnswer::Refuse { reason } => {
                let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                (format!("Call refused{reason}"), by.as_deref(), None)
            }
        },
        Event::CancelRequested { reason, by } => (format!("Cancelled: {reason}"), by.as_deref(), None),
        Event::RunRepinned(moved) => {
            let names: Vec<&str> = moved.pins.keys().map(AsRef::as_ref).collect();
            (format!("Moved to other versions of {}", names.join(", ")), moved.by.as_deref(), None)
        }
        _ => return None,
    })
}

fn of_signal(signal: &Signal) -> (String, Option<&str>, Option<&Value>) {
    let by = signal.by.as_deref();
    let why = signal.data.get("why").and_then(Value::as_str).filter(|why| !why.is_empty());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    match (signal.may_approve, signal.data.get("approved")) {
        (Some(true), Some(Value::Bool(true))) => (format!("{} approved{why}", signal.name), by, None),
        (Some(true), Some(Value::Bool(false))) => (format!("{} refused{why}", signal.name), by, None),
        _ => (format!("Signal {}", signal.name), by, Some(&signal.data).filter(|data| !data.is_nullish())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    #[test]
    fn an_approval_is_told_from_a_signal_that_only_looks_like_one() {
        let signal = |may: &str| {
            let json = format!(r#"{{"id":1,"name":"ship","data":{{"approved":true,"why":"good"}},"by":"ann"{may}}}"#);
            let signal: Signal = serde_json::from_str(&json).unwrap();
            let (what, by, data) = of_signal(&signal);
            (what, by.map(str::to_owned), data.is_some())
        };
        let by = Some("ann".to_owned());
        assert_eq!(signal(r#","may-approve":true"#), ("ship approved: good".to_owned(), by.clone(), false));
        assert_eq!(signal(r#","may-approve":false"#), ("Signal ship".to_owned(), by, true));
    }
}
