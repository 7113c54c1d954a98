//! Budgets of a pack, looked at before each call of a model and of a tool; what they end keeps its artifacts.

use crate::support::*;
use opcell_engine::{
    Program, RunOptions, RunOutcome, Status,
    conversation::{Message, Role},
};
use opcell_ir::{SourceFile, ir::RunLimits};
use opcell_types::Value;
use opcell_workflow::promptpack;
use std::sync::Arc;

/// A state that notes, looks and never moves on, under this budget.
fn desk(budget: &str) -> Arc<Program> {
    let text = format!(
        r#"{{"id":"b","name":"B","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Look.","tools":["look"]}}}},
        "tools":{{"look":{{"name":"look","description":"Looks.","parameters":{{"type":"object","properties":{{}}}}}}}},
        "workflow":{{"version":2,"entry":"a","engine":{{"budget":{budget}}},"states":{{
            "a":{{"prompt_task":"p","on_event":{{"Done":"z"}},"artifacts":{{"note":{{"type":"text/plain"}}}}}},
            "z":{{"prompt_task":"p","terminal":true}}}}}}}}"#
    );
    Program::new(promptpack::compile(&SourceFile::new("b.pack.json", text)).ir.unwrap()).unwrap()
}

const NOTE: (&str, &str) = ("workflow__set_artifact", r#"{"name":"note","value":"kept"}"#);
const LOOK: (&str, &str) = ("look", "{}");

/// A model that answers with these calls, round by round, and says something when it has made them.
fn script(rounds: &[&[(&str, &str)]]) -> Script {
    let script = Script::new().tool("look", r#""a book""#);
    script.world().script(rounds.iter().map(|calls| calling(calls)).chain([Message::assistant("that is all")]));
    script
}

fn assert_exhausted(outcome: &RunOutcome, limit: &str) {
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")), "{outcome:?}");
    let reached = outcome.details.as_ref().and_then(|details| details.get("limit"));
    assert_eq!(reached, Some(&Value::from(limit)));
    assert_eq!(outcome.artifacts.get("note"), Some(&Value::from("kept")), "what was gathered is there");
    assert_eq!(outcome.step.as_deref(), Some("a"), "the state where it ended");
}

#[tokio::test]
async fn the_second_of_two_calls_of_one_round_is_not_made_when_the_first_used_up_the_budget() {
    let script = script(&[&[NOTE], &[LOOK, LOOK]]);
    let outcome = script.run(&desk(r#"{"max_tool_calls":2}"#), r#""hello""#).await;
    assert_exhausted(&outcome, "tool-calls");
    assert_eq!(script.called(), ["look {}"]);
}

#[tokio::test]
async fn no_model_is_asked_when_a_tool_used_up_the_wall_time() {
    let script = script(&[&[NOTE], &[LOOK], &[LOOK]]).tools_take(2);
    let outcome = script.run(&desk(r#"{"max_wall_time_sec":2}"#), r#""hello""#).await;
    assert_exhausted(&outcome, "wall-time-seconds");
    assert_eq!((script.called().len(), script.world().rounds.len()), (1, 2));
}

#[tokio::test]
async fn no_tool_is_called_when_the_one_before_used_up_the_wall_time() {
    let script = script(&[&[NOTE, LOOK, LOOK, LOOK]]).tools_take(2);
    let outcome = script.run(&desk(r#"{"max_wall_time_sec":3}"#), r#""hello""#).await;
    assert_exhausted(&outcome, "wall-time-seconds");
    assert_eq!(script.called().len(), 2, "the first ended within the time, the second beyond it");
}

#[tokio::test]
async fn a_run_that_a_steps_timeout_ends_is_on_its_callers_account() {
    let session = r#"{"name":"s","type":"session","timeout-ms":30,
        "session":{"tools":["start"],"contributions":[{"type":"template","text":"go","vars":{}}]},
        "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"yields":{"type":"text","text":"final-llm-reply"}}"#;
    let script = Script::new();
    script.world().script([calling(&[("start", "{}")]), Message::assistant("it took too long")]);
    let outcome = script.run(&routed(session), "{}").await;
    let answer = script.world().rounds[1].messages.last().unwrap().content.clone();
    assert!(answer.contains("did not stop within 30 ms"), "{answer}");
    assert_eq!(outcome.used.tokens, 2 * 15 + 70, "its two rounds, and what the run used that it started");
}

#[tokio::test]
async fn calls_that_go_on_beside_each_other_share_what_is_left() {
    let session = r#"{"name":"s","type":"session","each":{"over":"$inputs.xs","concurrency":3},
        "session":{"tools":["slow-start"],"contributions":[{"type":"template","text":"go","vars":{}}]},
        "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"yields":{"type":"text","text":"final-llm-reply"}}"#;
    let script = Script::new().tool("slow-start", r#""done""#);
    let script = script.answers(|round| match round.messages.iter().any(|message| message.role == Role::Tool) {
        false => calling(&[("slow-start", "{}")]),
        true => Message::assistant("that is all"),
    });
    let limits = RunLimits { tokens: Some(300), tool_calls: Some(5), ..RunLimits::default() };
    let options = RunOptions { limits, detach: true, ..RunOptions::default() };
    let outcome = script.run_with(&routed(session), r#"{"xs":[1,2,3]}"#, options).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let left = script.world().left.clone();
    let tokens: Vec<u64> = left.iter().map(|left| left.tokens.unwrap()).collect();
    assert_eq!(tokens, [100, 100, 100], "what each may use, together no more than the run");
    let calls: u64 = left.iter().map(|left| left.tool_calls.unwrap()).sum();
    assert!(calls <= 4, "{left:?}");
}

/// Each round of the scripted model uses 15 tokens and half a dollar.
#[tokio::test]
async fn no_model_is_asked_when_tokens_or_cost_are_used_up() {
    let limits = [
        (RunLimits { tokens: Some(30), ..RunLimits::default() }, "tokens"),
        (RunLimits { cost: Some(1.0), ..RunLimits::default() }, "cost"),
    ];
    for (limits, name) in limits {
        let script = script(&[&[NOTE], &[LOOK], &[LOOK]]);
        let options = RunOptions { limits, detach: true, ..RunOptions::default() };
        let outcome = script.run_with(&desk("{}"), r#""hello""#, options).await;
        assert_exhausted(&outcome, name);
        assert_eq!((script.called().len(), script.world().rounds.len()), (1, 2), "{name}");
    }
}

#[tokio::test]
async fn a_budget_that_is_not_used_up_does_not_end_a_run() {
    let script = script(&[&[NOTE], &[LOOK]]).tools_take(2);
    let limits = RunLimits { tokens: Some(46), cost: Some(1.6), ..RunLimits::default() };
    let options = RunOptions { limits, detach: true, ..RunOptions::default() };
    let program = desk(r#"{"max_tool_calls":3,"max_wall_time_sec":3,"max_total_visits":2}"#);
    let outcome = script.run_with(&program, r#""hello""#, options).await;
    assert_eq!((outcome.status, script.world().rounds.len()), (Status::Suspended, 3), "{outcome:?}");
}
