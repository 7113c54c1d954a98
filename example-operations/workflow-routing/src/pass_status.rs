//! `PASS_STATUS:` lines: how reviews and implementation passes say whether work remains.

use crate::{Routed, route, text};
use opcell_sdk::Failure;
use serde_json::{Map, Value, json};

const PREFIX: &str = "PASS_STATUS:";

/// What a review may say.
const FEEDBACK: [&str; 2] = ["ACTIONABLE_FEEDBACK", "REVIEW_COMPLETE"];

fn route_of(status: &str) -> Option<&'static str> {
    match status {
        "REVIEW_COMPLETE" | "IMPLEMENTATION_COMPLETE" => Some("DONE"),
        "ACTIONABLE_FEEDBACK" | "MORE_WORK_REMAINS" => Some("REPEAT"),
        _ => None,
    }
}

/// The route that the one status line of `text` asks for. An empty `allowed` allows every known status.
pub fn parse<S: AsRef<str>>(text: &str, allowed: &[S]) -> Result<&'static str, Failure> {
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(PREFIX)).collect();
    let line = match lines.as_slice() {
        [] => {
            return Err(
                Failure::new("missing-pass-status", "PASS_STATUS missing").with_details(json!({ "text": text }))
            );
        }
        [only] => only,
        several => {
            return Err(Failure::new("ambiguous-pass-status", "Multiple PASS_STATUS lines found")
                .with_details(json!({ "text": text, "pass-status-lines": several })));
        }
    };
    let raw = line.strip_prefix(PREFIX).unwrap_or_default();
    let value = text::trim(raw);
    let exact = raw.strip_prefix(' ') == Some(value);
    let Some(route) = route_of(value).filter(|_| exact) else {
        return Err(Failure::new("malformed-pass-status", "PASS_STATUS line must contain exactly one known token")
            .with_details(json!({ "text": text, "line": line, "value": value })));
    };
    let allowed: Vec<&str> = allowed.iter().map(AsRef::as_ref).collect();
    if !allowed.is_empty() && !allowed.contains(&value) {
        return Err(Failure::new("invalid-pass-status", "PASS_STATUS token is not valid for this workflow step")
            .with_details(json!({ "text": text, "line": line, "value": value, "allowed-statuses": allowed })));
    }
    Ok(route)
}

/// Whether any of several reviews asks for work. One reply that cannot be read fails them all.
pub fn parse_replies(replies: &Map<String, Value>) -> Result<Routed, Failure> {
    if replies.is_empty() {
        let message = "workflow/pass-feedback-routing requires at least one reply";
        let failure = Failure::new("empty-pass-feedback", message).with_details(json!({ "args": {} }));
        return Err(Failure::new("invalid-pass-feedback", message)
            .with_details(json!({ "validation-failures": { "feedback-inputs": tagged(&failure) } })));
    }
    let mut invalid = Map::new();
    let mut actionable = Vec::new();
    for (name, reply) in replies {
        let parsed = reply.as_str().map_or_else(
            || {
                let message = "workflow/pass-feedback-routing reply must be a string";
                Err(Failure::new("non-string-pass-feedback", message).with_details(json!({ "text": reply })))
            },
            |text| parse(text, &FEEDBACK),
        );
        match parsed {
            Ok("REPEAT") => actionable.push(name.as_str()),
            Ok(_) => {}
            Err(failure) => _ = invalid.insert(name.clone(), tagged(&failure)),
        }
    }
    if !invalid.is_empty() {
        return Err(Failure::new("invalid-pass-feedback", "workflow/pass-feedback-routing replies are invalid")
            .with_details(json!({ "validation-failures": invalid })));
    }
    let name = if actionable.is_empty() { "DONE" } else { "REPEAT" };
    Ok(route(name).with_details(json!({ "actionable-keys": actionable })))
}

/// A failure inside details, shaped as psi's tagged results are.
fn tagged(failure: &Failure) -> Value {
    json!({ "status": "error", "reason": failure.reason, "message": failure.message, "details": failure.details })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pass_feedback_routing, pass_status_routing};
    use opcell_sdk::testing::invoke;

    const ANY: [&str; 0] = [];

    #[test]
    fn a_status_says_whether_work_remains() {
        for (status, route) in [
            ("REVIEW_COMPLETE", "DONE"),
            ("IMPLEMENTATION_COMPLETE", "DONE"),
            ("ACTIONABLE_FEEDBACK", "REPEAT"),
            ("MORE_WORK_REMAINS", "REPEAT"),
        ] {
            assert_eq!(parse(&format!("Looks fine.\nPASS_STATUS: {status}\n"), &ANY), Ok(route));
        }
    }

    #[test]
    fn anything_but_one_exact_line_fails_with_its_reason() {
        for (text, reason) in [
            ("", "missing-pass-status"),
            (" PASS_STATUS: REVIEW_COMPLETE", "missing-pass-status"),
            ("pass_status: REVIEW_COMPLETE", "missing-pass-status"),
            ("PASS_STATUS: REVIEW_COMPLETE\nPASS_STATUS: REVIEW_COMPLETE", "ambiguous-pass-status"),
            ("PASS_STATUS:REVIEW_COMPLETE", "malformed-pass-status"),
            ("PASS_STATUS:  REVIEW_COMPLETE", "malformed-pass-status"),
            ("PASS_STATUS: REVIEW_COMPLETE ", "malformed-pass-status"),
            ("PASS_STATUS: REVIEW_COMPLETE, nearly", "malformed-pass-status"),
            ("PASS_STATUS: UNKNOWN", "malformed-pass-status"),
        ] {
            assert_eq!(parse(text, &ANY).unwrap_err().reason, reason, "{text:?}");
        }
    }

    #[test]
    fn a_status_of_another_step_is_refused() {
        let arguments = json!({ "text": "PASS_STATUS: MORE_WORK_REMAINS", "allowed-statuses": ["REVIEW_COMPLETE"] });

        let failure = invoke::<pass_status_routing>(&arguments).unwrap_err();

        assert_eq!(failure.reason, "invalid-pass-status");
        assert_eq!(failure.details.unwrap()["value"], "MORE_WORK_REMAINS");
    }

    #[test]
    fn an_absent_text_misses_its_status() {
        assert_eq!(invoke::<pass_status_routing>(&json!({})).unwrap_err().message, "PASS_STATUS missing");
    }

    #[test]
    fn one_review_that_asks_for_work_repeats_the_pass() {
        let done = json!("PASS_STATUS: REVIEW_COMPLETE");
        let work = json!("PASS_STATUS: ACTIONABLE_FEEDBACK");

        let all_done = invoke::<pass_feedback_routing>(&json!({ "a": done, "b": done })).unwrap();
        let one_left = invoke::<pass_feedback_routing>(&json!({ "a": done, "b": work, "c": work })).unwrap();

        assert_eq!((all_done.data, all_done.details), (json!("DONE"), Some(json!({ "actionable-keys": [] }))));
        assert_eq!(
            (one_left.data, one_left.details),
            (json!("REPEAT"), Some(json!({ "actionable-keys": ["b", "c"] })))
        );
    }

    #[test]
    fn one_unreadable_review_fails_them_all_by_name() {
        let arguments =
            json!({ "a": "PASS_STATUS: REVIEW_COMPLETE", "b": "fine", "c": 3, "d": "PASS_STATUS: MORE_WORK_REMAINS" });

        let failure = invoke::<pass_feedback_routing>(&arguments).unwrap_err();

        assert_eq!(failure.message, "workflow/pass-feedback-routing replies are invalid");
        let failures = &failure.details.unwrap()["validation-failures"];
        assert_eq!(failures.as_object().unwrap().len(), 3);
        assert_eq!(failures["b"]["reason"], "missing-pass-status");
        assert_eq!(failures["c"]["reason"], "non-string-pass-feedback");
        assert_eq!(failures["d"]["reason"], "invalid-pass-status");
    }

    #[test]
    fn no_review_at_all_is_not_a_complete_pass() {
        let failure = invoke::<pass_feedback_routing>(&json!({})).unwrap_err();

        assert_eq!(failure.reason, "invalid-pass-feedback");
        assert_eq!(failure.details.unwrap()["validation-failures"]["feedback-inputs"]["reason"], "empty-pass-feedback");
    }
}
