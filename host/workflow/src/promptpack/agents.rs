//! Agents of a pack as tools of one another (RFC 0007, 0011).
//!
//! A prompt that lists the key of another member among its tools may call it: "the topology is implicit in tool
//! references". A member is its prompt, asked once, or the pack's workflow from the member's state on. Each becomes a
//! workflow that the pack brings along, and a call of it a run of its own: it has the tools of its own prompt and none
//! of its caller's.

use super::compile::{artifact_slots, state_step};
use super::pack::{Agent, Pack, Prompt};
use super::rules;
use super::skills::Skills;
use super::speaker;
use super::spec::State;
use indexmap::{IndexMap, IndexSet};
use opcell_ir::ir::{AgentTool, Control, Judge, WorkflowIr};
use std::sync::Arc;

/// The members that a prompt may call, by the names under which it does.
pub(super) fn tools_of(pack: &Pack, key: &str) -> IndexMap<String, AgentTool> {
    let Some(prompt) = pack.prompts.get(key) else { return IndexMap::new() };
    let called = prompt.tools.iter().filter(|tool| !prompt.tool_policy.is_blocked(tool));
    called
        .filter_map(|tool| {
            let description = description(pack.agent_tool(key, tool)?, pack.prompts.get(tool)?);
            Some((tool.clone(), AgentTool { description, workflow: name(pack, tool) }))
        })
        .collect()
}

fn description(agent: &Agent, prompt: &Prompt) -> String {
    agent.description.clone().or_else(|| prompt.description.clone()).unwrap_or_else(|| prompt.name.clone())
}

fn name(pack: &Pack, key: &str) -> Arc<str> {
    format!("{}/agents/{key}", pack.id).into()
}

/// The members that these prompts may call, and those that they may call in turn.
pub(super) fn reached<'p>(pack: &'p Pack, prompts: impl IntoIterator<Item = &'p str>) -> IndexSet<&'p str> {
    let states = |state: &str| pack.workflow.as_ref().is_some_and(|spec| spec.states.contains_key(state));
    let mut reached = IndexSet::new();
    let mut waiting: Vec<&str> = prompts.into_iter().collect();
    while let Some(key) = waiting.pop() {
        for tool in pack.prompts.get(key).into_iter().flat_map(|prompt| &prompt.tools) {
            let Some(agent) = pack.agent_tool(key, tool) else { continue };
            // A state leads on to prompts that the workflow speaks with anyway.
            let is_state = agent.state.as_deref().is_some_and(states);
            if reached.insert(tool.as_str()) && !is_state {
                waiting.push(tool);
            }
        }
    }
    reached
}

/// A member as a workflow: the pack's own from the member's state on, or its prompt, asked once.
pub(super) fn workflow(pack: &Pack, key: &str, whole: &WorkflowIr, skills: &Skills) -> WorkflowIr {
    let agent = pack.agents.as_ref().and_then(|agents| agents.members.get(key));
    let state = agent.and_then(|agent| agent.state.as_deref()).filter(|state| whole.step(state).is_some());
    let mut ir = WorkflowIr { name: name(pack, key), advertise: false, workflows: Vec::new(), ..whole.clone() };
    if let Some(state) = state {
        ir.entry = Some(state.into());
        // No one is there who could speak between two states: an agent is asked once.
        for step in &mut ir.steps {
            if let Some(Judge::Event { control, .. }) = &mut step.judge {
                *control = Control::Agent;
            }
        }
        return ir;
    }
    let state = State { prompt_task: key.to_owned(), terminal: true, ..State::default() };
    ir.steps = vec![state_step(pack, key, &state, skills)];
    ir.entry = Some(key.into());
    ir.inputs = speaker::inputs(pack.prompts.get(key));
    ir.input_schema = rules::input_schema(&ir.inputs);
    ir.limits = opcell_ir::ir::RunLimits::default();
    ir.artifacts = artifact_slots([]);
    ir
}
