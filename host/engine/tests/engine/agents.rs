//! Agents that a model calls as tools (PromptPack RFC 0007).

use super::support::*;
use opcell_engine::{RunOptions, event::EffectId, ports::Effects};

/// The effects of repeating each effect of a run with one call of a tool, seen from every point of its past.
async fn repeating(more: &str) -> Vec<Effects> {
    let step = format!(
        r#"{{"name":"talk","type":"session","session":{{"tools":["clerk"],"contributions":[{{"type":"template","text":"x","vars":{{}}}}]{more}}}}}"#
    );
    let script = Script::new().tool("clerk", r#"{"response":"done"}"#).calls_tool("1", "clerk", "{}").says(["bye"]);
    let engine = script.engine();
    let handle = engine.start(routed(&step), json("{}"), RunOptions::default()).await.unwrap();
    let run = handle.finished().await.unwrap().run;
    let mut found = Vec::new();
    for at in 1..=engine.history(&run).await.unwrap().len() as u64 {
        let state = engine.state_at(&run, Some(at)).await.unwrap();
        found.extend(state.wanted(EffectId(0)).map(|id| state.repeatable(id, engine.ports())));
    }
    found
}

#[tokio::test]
async fn a_call_of_an_agent_that_a_crash_cut_short_is_made_again_without_asking() {
    let agents = r#","agents":{"clerk":{"description":"Keeps the books.","workflow":"house/agents/clerk"}}"#;
    assert!(repeating(agents).await.contains(&Effects::Idempotent));
    assert!(!repeating("").await.contains(&Effects::Idempotent), "what the host says of another tool counts");
}
