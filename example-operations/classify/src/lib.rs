//! The judge `workflow/classify-result`: what a result says about itself.
//!
//! | the result | outcome |
//! | --- | --- |
//! | nothing: null, blank text, an empty list or object | `"EMPTY"` |
//! | says that it went well | `"OK"` |
//! | says that it did not | `"FAILED"` |
//!
//! What says so, in this order: `true` or `false`; in an object the first of its keys `ok`, `success`, `status`,
//! `state`, `result`, `exit-code` and `errors` that there is; in text a known word, alone in the last line that is not
//! blank, or after its colon. A result that says nothing of the kind is a failure: a judge that guesses sends a run the
//! wrong way.

use opcell_sdk::{Failure, Verdict, judge, plugin};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const OK: &str = "OK";
const FAILED: &str = "FAILED";
const EMPTY: &str = "EMPTY";

const GOOD_WORDS: [&str; 11] = [
    "ok",
    "pass",
    "passed",
    "success",
    "successful",
    "succeeded",
    "done",
    "complete",
    "completed",
    "approved",
    "green",
];
const BAD_WORDS: [&str; 11] =
    ["error", "errors", "fail", "failed", "failure", "broken", "rejected", "cancelled", "timeout", "aborted", "red"];

/// What the judge takes.
#[derive(Deserialize, JsonSchema)]
struct ClassifyArguments {
    /// The result of a step, of any type.
    #[serde(default)]
    result: Value,
}

/// Says whether a result is empty, says that it went well, or says that it failed.
#[judge("workflow/classify-result", outcomes = ["OK", "FAILED", "EMPTY"])]
fn classify_result(arguments: ClassifyArguments) -> Result<Verdict, Failure> {
    classify(&arguments.result).ok_or_else(|| {
        Failure::new(
            "unclassifiable-result",
            "the result does not say whether it went well; see the plugin's README for what does",
        )
        .with_details(json!({ "type": type_of(&arguments.result) }))
    })
}

fn classify(result: &Value) -> Option<Verdict> {
    match result {
        Value::Null => Some(Verdict::text(EMPTY).because("the result is null")),
        Value::Bool(good) => Some(verdict(*good, format!("the result is {good}"))),
        Value::Number(_) => None,
        Value::String(text) => classify_text(text),
        Value::Array(items) => items.is_empty().then(|| Verdict::text(EMPTY).because("the list is empty")),
        Value::Object(entries) if entries.is_empty() => Some(Verdict::text(EMPTY).because("the object is empty")),
        Value::Object(entries) => classify_object(entries),
    }
}

fn classify_text(text: &str) -> Option<Verdict> {
    let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) else {
        return Some(Verdict::text(EMPTY).because("the text is blank"));
    };
    let word = line.rsplit_once(':').map_or(line, |(_, word)| word);
    word_is_good(word).map(|good| verdict(good, format!("the text ends with {:?}", line.trim())))
}

fn classify_object(entries: &Map<String, Value>) -> Option<Verdict> {
    let says = |key: &str, value: &Value| match (key, value) {
        ("ok" | "success", Value::Bool(good)) => Some(*good),
        ("status" | "state" | "result", Value::String(word)) => word_is_good(word),
        ("exit-code" | "exit_code" | "exit", Value::Number(code)) => Some(code.as_i64() == Some(0)),
        ("error" | "errors", Value::Null) => Some(true),
        ("error" | "errors", Value::Array(errors)) => Some(errors.is_empty()),
        ("error" | "errors", _) => Some(false),
        _ => None,
    };
    let keys = ["ok", "success", "status", "state", "result", "exit-code", "exit_code", "exit", "error", "errors"];
    let mut present = keys.iter().filter_map(|key| entries.get(*key).map(|value| (*key, value)));
    let (key, value) = present.next()?;
    says(key, value).map(|good| verdict(good, format!("{key} is {value}")))
}

fn word_is_good(word: &str) -> Option<bool> {
    let word = word.trim().trim_start_matches(':').trim_end_matches(['.', '!']).to_lowercase();
    if GOOD_WORDS.contains(&word.as_str()) {
        return Some(true);
    }
    BAD_WORDS.contains(&word.as_str()).then_some(false)
}

fn verdict(good: bool, why: String) -> Verdict {
    Verdict::text(if good { OK } else { FAILED }).because(why)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

plugin! { judges: [classify_result] }

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::Outcome;
    use opcell_sdk::testing::judge;

    fn outcome(result: Value) -> Result<Outcome, String> {
        let verdict = judge::<classify_result>(&json!({ "result": result }));
        verdict.map(|verdict| verdict.outcome).map_err(|failure| failure.reason)
    }

    #[test]
    fn nothing_is_empty() {
        for nothing in [json!(null), json!(" \n"), json!([]), json!({})] {
            assert_eq!(outcome(nothing.clone()), Ok(Outcome::Text("EMPTY".to_owned())), "{nothing}");
        }
        assert_eq!(judge::<classify_result>(&json!({})).unwrap().rationale.as_deref(), Some("the result is null"));
    }

    #[test]
    fn a_result_that_says_so_went_well() {
        for good in [
            json!(true),
            json!("Passed"),
            json!("ran 12 tests\n\nResult: SUCCESS.\n"),
            json!({ "ok": true, "errors": ["ignored, for ok comes first"] }),
            json!({ "status": ":completed" }),
            json!({ "exit-code": 0 }),
            json!({ "errors": [] }),
            json!({ "error": null }),
        ] {
            assert_eq!(outcome(good.clone()), Ok(Outcome::Text("OK".to_owned())), "{good}");
        }
    }

    #[test]
    fn a_result_that_says_so_failed() {
        for bad in [
            json!(false),
            json!("status: failed"),
            json!({ "success": false }),
            json!({ "state": "ERROR" }),
            json!({ "exit": 101 }),
            json!({ "errors": ["one"] }),
            json!({ "error": "no such file" }),
        ] {
            assert_eq!(outcome(bad.clone()), Ok(Outcome::Text("FAILED".to_owned())), "{bad}");
        }
    }

    #[test]
    fn a_result_that_says_nothing_is_no_outcome() {
        for silent in [
            json!(3),
            json!([1]),
            json!("it was failed once, and then passed somehow"),
            json!({ "files": 3 }),
            json!({ "status": "odd" }),
        ] {
            assert_eq!(outcome(silent.clone()), Err("unclassifiable-result".to_owned()), "{silent}");
        }
    }
}
