//! The input, the result and the answers of a composition, held to the schemas that it names (PromptPack RFC 0010).

use super::support::*;
use opcell_engine::{Program, RunOutcome, Status};
use opcell_ir::{SourceFile, ir::Form};
use opcell_types::Value;
use opcell_workflow::promptpack;
use std::sync::Arc;

/// A pack whose only state runs a composition with these fields. Its schemas are the shapes of its tools.
fn composed(fields: &str) -> Arc<Program> {
    let text = format!(
        r##"{{"id":"c","name":"C","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief."}}}},
        "tools":{{
            "letter":{{"name":"letter","description":"A shape.","parameters":
                {{"type":"object","properties":{{"text":{{"type":"string","minLength":2}}}},"required":["text"]}}}},
            "topic":{{"name":"topic","description":"A shape.","parameters":
                {{"type":"object","properties":{{"topic":{{"enum":["bill","other"]}}}},"required":["topic"]}}}}}},
        "compositions":{{"work":{{"version":1,{fields}}}}},
        "workflow":{{"version":2,"entry":"a","states":{{"a":{{"orchestration":"composition","composition":"work","terminal":true}}}}}}}}"##
    );
    let compiled = promptpack::compile(&SourceFile::new("c.pack.json", text));
    Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap()
}

const LETTER: &str = r##""input_schema":"#/tools/letter/parameters""##;
const TOPIC: &str = r##""output_schema":"#/tools/topic/parameters""##;

/// A step that asks for the topic.
fn ask(more: &str) -> String {
    format!(r#"{{"id":"ask","kind":"prompt","prompt_task":"p","input":"${{input.text}}"{more}}}"#)
}

fn why(outcome: &RunOutcome) -> (&str, &str) {
    (outcome.reason.as_deref().unwrap_or_default(), outcome.message.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn an_input_that_does_not_fit_ends_the_composition_before_its_first_step() {
    let program = composed(&format!(r#"{LETTER},"steps":[{}]"#, ask("")));
    for (input, violation) in [
        (r#"{"text":5}"#, r#"at `/text`: 5 is not of type "string""#),
        (r#"{"body":"x"}"#, r#""text" is a required property"#),
    ] {
        let script = Script::new().says(["never"]);
        let outcome = script.run(&program, input).await;
        assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
        let expected = format!("The input does not match the input schema of `c/work`: {violation}");
        assert!(why(&outcome).1.ends_with(&expected), "{}", why(&outcome).1);
        assert!(script.world().opened.is_empty() && script.world().rounds.is_empty());
    }
    let script = Script::new().says(["bill"]);
    assert_eq!(script.run(&program, r#"{"text":"to pay","more":1}"#).await.result, Value::from("bill"));
}

#[tokio::test]
async fn what_the_user_said_is_part_of_the_input_that_is_checked() {
    let program = composed(&format!(r#"{LETTER},"steps":[{}]"#, ask("")));
    let script = Script::new().says(["bill"]);
    assert_eq!(script.run(&program, r#""to pay""#).await.status, Status::Completed);
    let outcome = Script::new().says(["never"]).run(&program, r#""x""#).await;
    assert!(why(&outcome).1.contains(r#"at `/text`: "x" is shorter than 2 characters"#), "{outcome:?}");
}

#[tokio::test]
async fn an_output_that_does_not_fit_fails_the_composition_at_its_end() {
    let program = composed(&format!(r#"{TOPIC},"steps":[{}]"#, ask("")));
    let outcome = Script::new().says(["a bill"]).run(&program, r#"{"text":"to pay"}"#).await;
    assert_eq!(outcome.status, Status::Failed);
    let expected = r#"The output does not match the output schema of `c/work`: "a bill" is not of type "object""#;
    assert!(why(&outcome).1.ends_with(expected), "{}", why(&outcome).1);
    let script = Script::new().says([r#"{"topic":"bill"}"#]);
    assert_eq!(script.run(&program, r#"{"text":"to pay"}"#).await.result, json(r#"{"topic":"bill"}"#));
    assert_eq!(script.world().rounds[0].schema, None, "only a step's schema is asked of the provider");
}

#[tokio::test]
async fn a_step_asks_the_provider_for_its_schema_and_fails_when_the_answer_does_not_fit() {
    let program = composed(&format!(r#""steps":[{}]"#, ask(&format!(",{TOPIC}"))));
    let script = Script::new().says([r#"{"topic":"rent"}"#]);
    let outcome = script.run(&program, r#"{"text":"to pay"}"#).await;
    let (name, schema) = script.world().rounds[0].schema.clone().unwrap();
    assert_eq!((name.as_str(), schema.get("required")), ("#/tools/topic/parameters", Some(&json(r#"["topic"]"#))));
    assert_eq!(outcome.status, Status::Failed);
    assert!(why(&outcome).1.ends_with(r#"at `/topic`: "rent" is not one of "bill" or "other""#), "{}", why(&outcome).1);
    let outcome = Script::new().says(["a bill"]).run(&program, r#"{"text":"to pay"}"#).await;
    assert!(why(&outcome).1.contains("The answer is not JSON"), "{}", why(&outcome).1);
}

#[tokio::test]
async fn the_retry_of_a_step_counts_answers_that_do_not_fit() {
    let more = format!(r#",{TOPIC},"modifiers":{{"retry":{{"max_attempts":2}}}}"#);
    let program = composed(&format!(r#""steps":[{}]"#, ask(&more)));
    let script = Script::new().says(["a bill", r#"{"topic":"bill"}"#]);
    let outcome = script.run(&program, r#"{"text":"to pay"}"#).await;
    assert_eq!(outcome.result, json(r#"{"topic":"bill"}"#), "{outcome:?}");
    let script = Script::new().says(["a bill", "a bill", r#"{"topic":"bill"}"#]);
    assert_eq!(script.run(&program, r#"{"text":"to pay"}"#).await.status, Status::Failed, "two attempts in all");
}

#[tokio::test]
async fn the_result_of_an_agent_s_last_tool_is_its_answer_and_must_fit() {
    let agent = |result| {
        let steps = format!(
            r#"{{"id":"do","kind":"agent","prompt_task":"p","input":"go","tools":["topic"],"termination":{{"tool_called":"topic"}},{TOPIC}}}"#
        );
        let script = Script::new().tool("topic", result).calls_tool("1", "topic", r#"{"topic":"bill"}"#);
        (script, composed(&format!(r#""steps":[{steps}]"#)))
    };
    let (script, program) = agent(r#"{"topic":"bill"}"#);
    assert_eq!(script.run(&program, "{}").await.result, json(r#"{"topic":"bill"}"#));
    let (script, program) = agent(r#"{"topic":"rent"}"#);
    assert_eq!(script.run(&program, "{}").await.status, Status::Failed);
}

#[tokio::test]
async fn a_value_that_would_take_for_ever_to_check_is_refused() {
    let mut ir = composed(&format!(r#""steps":[{}]"#, ask(""))).ir().workflows[0].as_ref().clone();
    let twice = r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"additionalProperties":{"$ref":"#"}}]}"##;
    ir.input_schema = Some(json(twice));
    assert!(matches!(ir.steps[0].form, Form::Session { .. }));
    let program = Program::new(Arc::new(ir)).unwrap();
    let began = std::time::Instant::now();
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    let outcome = Script::new().run(&program, &deep).await;
    assert_eq!(why(&outcome).0, "invalid-input");
    assert!(why(&outcome).1.contains("too long to check"), "{}", why(&outcome).1);
    assert!(began.elapsed() < std::time::Duration::from_secs(2));
}
