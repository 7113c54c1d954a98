//! The expansion of the macros over functions.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use opcell_sdk::testing::{context, invoke, judge as ask};
use opcell_sdk::{Context, Effects, Failure, Judge, Operation, Outcome, Success, Verdict, judge, operation, plugin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Greeting {
    text: String,
    /// The number of times that this was said.
    times: u32,
}

/// Greets by name.
///
/// What follows the first paragraph is for readers of the source.
#[operation("greet/whole", effects = pure)]
fn whole(arguments: Named, context: &Context) -> Success<Greeting> {
    let greeting = Greeting { text: format!("hello {}", arguments.name), times: context.visit };
    Success::new(greeting).with_summary("greeted").with_details(json!({ "step": context.step }))
}

#[operation("greet/parts", effects = idempotent, summary = "Greets by parts")]
fn parts(
    /// The person who is greeted.
    full_name: String,
    exclamation_marks: Option<u8>,
) -> Result<String, Failure> {
    match exclamation_marks {
        Some(9..) => Err(Failure::new("too-loud", "at most eight").with_details(json!({ "asked": exclamation_marks }))),
        marks => Ok(full_name + &"!".repeat(marks.unwrap_or(0).into())),
    }
}

/// Echoes one key.
#[operation("greet/one", effects = pure)]
fn one(text: String) -> String {
    text
}

/// Takes nothing and returns nothing.
#[operation("greet/nobody", effects = once)]
fn nobody() {}

/// Fails in its own way.
#[operation("greet/own-error", effects = pure)]
fn own_error() -> Result<(), OwnError> {
    Err(OwnError)
}

struct OwnError;

impl From<OwnError> for Failure {
    fn from(_: OwnError) -> Self {
        Self::new("own", "my own")
    }
}

/// Judges a mood.
#[judge("mood/gate", outcomes = ["good", keyword("bad")])]
fn gate(mood: Option<String>, strict: Option<bool>) -> Result<Verdict, Failure> {
    match (mood.as_deref(), strict) {
        (Some("sunny"), _) => Ok(Verdict::text("good").because("the sun shines")),
        (Some("rain"), _) => Ok(Verdict::keyword("bad")),
        (Some(_), Some(true)) => Err(Failure::new("unknown-mood", "unknown mood")),
        (Some(mood), _) => Ok(Verdict::text(mood)),
        (None, _) => Ok(Verdict::text("bad")),
    }
}

/// Judges without saying what it may decide.
#[judge("mood/open")]
fn open(arguments: Named) -> Outcome {
    Outcome::Keyword(arguments.name)
}

plugin! {
    capabilities: {
        tool "clock.now": "gives the current time",
        skill "manners": "greets politely",
        files "guests" read: "knows the guests",
        files "book" read-write: "writes them down",
    },
    limits: { wall-time: 500, host-calls: 10 },
    operations: [whole, parts, one, nobody, own_error],
    judges: [gate, open],
}

#[test]
fn a_description_comes_from_attribute_and_doc_comment() {
    assert_eq!((whole::ID, whole::SUMMARY, whole::EFFECTS), ("greet/whole", "Greets by name.", Effects::Pure));
    assert_eq!((parts::SUMMARY, parts::EFFECTS), ("Greets by parts", Effects::Idempotent));
    assert_eq!(nobody::EFFECTS, Effects::Once);
    assert_eq!((gate::ID, gate::SUMMARY), ("mood/gate", "Judges a mood."));
}

#[test]
fn schemas_are_derived_and_self_contained() {
    let schema = whole::data_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["times"]["description"], "The number of times that this was said.");
    assert_eq!(schema["required"], json!(["text", "times"]));

    let schema = parts::arguments_schema();
    assert_eq!(
        schema["properties"]["full-name"],
        json!({ "type": "string", "description": "The person who is greeted." })
    );
    assert_eq!(schema["required"], json!(["full-name"]));
    assert_eq!(schema["additionalProperties"], false);

    // The host refuses what the function could not read.
    let times = &opcell_sdk::plugin::arguments_schema::<Greeting>()["properties"]["times"];
    assert_eq!((times["minimum"].as_u64(), times["maximum"].as_u64()), (Some(0), Some(u64::from(u32::MAX))), "{times}");

    assert_eq!(nobody::arguments_schema()["type"], "object");
    assert_eq!(nobody::data_schema()["type"], "null");
}

#[test]
fn arguments_can_be_taken_as_a_whole_with_the_context_beside() {
    let success = invoke::<whole>(&json!({ "name": "Ada" })).unwrap();

    assert_eq!(success.data, json!({ "text": "hello Ada", "times": 1 }));
    assert_eq!(success.summary.as_deref(), Some("greeted"));
    assert_eq!(success.details, Some(json!({ "step": context().step })));
}

#[test]
fn parameters_are_the_keys_of_the_arguments() {
    assert_eq!(invoke::<one>(&json!({ "text": "hi" })).unwrap().data, "hi");
    assert_eq!(invoke::<parts>(&json!({ "full-name": "Ada", "exclamation-marks": 2 })).unwrap().data, "Ada!!");
    assert_eq!(invoke::<parts>(&json!({ "full-name": "Ada" })).unwrap().data, "Ada");
    assert_eq!(parts("Ada".to_owned(), Some(1)).unwrap(), "Ada!", "the function itself stays as it was");
}

#[test]
fn arguments_that_do_not_fit_are_a_failure() {
    for wrong in [json!({}), json!({ "full-name": 1 }), json!({ "full-name": "Ada", "extra": 1 }), json!([])] {
        assert_eq!(invoke::<parts>(&wrong).unwrap_err().reason, "invalid-arguments", "{wrong}");
    }
    assert_eq!(invoke::<nobody>(&json!({ "extra": 1 })).unwrap_err().reason, "invalid-arguments");
    assert_eq!(invoke::<nobody>(&json!({})).unwrap().data, json!(null));
}

#[test]
fn failures_come_as_they_are_and_other_errors_convert() {
    let failure = invoke::<parts>(&json!({ "full-name": "Ada", "exclamation-marks": 9 })).unwrap_err();

    assert_eq!((failure.reason.as_str(), failure.details), ("too-loud", Some(json!({ "asked": 9 }))));
    assert_eq!(invoke::<own_error>(&json!({})).unwrap_err().reason, "own");
}

#[test]
fn a_judge_decides_by_text_or_keyword() {
    let decided = ask::<gate>(&json!({ "mood": "sunny" })).unwrap();
    assert_eq!(
        (decided.outcome, decided.rationale.as_deref()),
        (Outcome::Text("good".to_owned()), Some("the sun shines"))
    );
    assert_eq!(ask::<gate>(&json!({ "mood": "rain" })).unwrap().outcome, Outcome::Keyword("bad".to_owned()));
    assert_eq!(ask::<gate>(&json!({ "mood": "odd", "strict": true })).unwrap_err().reason, "unknown-mood");
    assert_eq!(ask::<open>(&json!({ "name": "any" })).unwrap().outcome, Outcome::Keyword("any".to_owned()));
}

#[test]
fn a_verdict_outside_of_the_declared_outcomes_is_a_failure() {
    let decide = |arguments: &str| opcell_sdk::plugin::judge(TABLE, "mood/gate", arguments, &context());

    assert!(decide(r#"{ "mood": "sunny" }"#).is_ok());
    for undeclared in [r#"{ "mood": "odd" }"#, "{}"] {
        assert_eq!(
            decide(undeclared).unwrap_err().reason,
            "undeclared-outcome",
            "a text is not the keyword of its name"
        );
    }
}

const TABLE: &[opcell_sdk::plugin::JudgeEntry] = &[opcell_sdk::plugin::JudgeEntry::of::<gate>()];

#[test]
fn an_unknown_id_lists_the_known_ones() {
    let failure = opcell_sdk::plugin::judge(TABLE, "mood/gat", "{}", &context()).unwrap_err();

    assert_eq!(
        (failure.reason.as_str(), failure.message.as_str()),
        ("unknown-judge", "no judge mood/gat; this plugin has mood/gate")
    );
}
