//! The tools that a state's model is offered by the core itself, which answers their calls as part of deciding.

use crate::{dialogue, program::Program};
use opcell_types::{ToolDescription, Value};
use opcell_workflow::{
    ir::{Form, Orchestration, Session, Step},
    routing::EventTable as _,
    state_tools::{self, StateTool},
};

pub(crate) use opcell_workflow::state_tools::{ARTIFACT_TOOL, TRANSITION_TOOL};

/// The tool by which a model reads a skill of the document (PromptPack RFC 0008).
pub(crate) const SKILL_TOOL: &str = "skill__activate";

/// The tools that the engine itself offers to a state's model.
#[must_use]
pub fn tools(program: &Program, step: &Step) -> Vec<ToolDescription> {
    let Some((orchestration, _)) = dialogue::of(step) else { return Vec::new() };
    let mut tools = Vec::new();
    if orchestration != Orchestration::External && !program.is_terminal(&step.name) {
        tools.push(state_tools::transition(&program.events(&step.name)));
    }
    let artifacts = &program.ir().artifacts;
    if !artifacts.is_empty() {
        let mut names: Vec<&str> = artifacts.keys().map(AsRef::as_ref).collect();
        names.sort_unstable();
        tools.push(state_tools::artifact(&names));
    }
    let mut tools: Vec<ToolDescription> = tools.into_iter().map(description).collect();
    if let Form::Session { session } = &step.form {
        tools.extend(skill_tool(session));
    }
    tools
}

/// The tool by which a model reads one of the document's own skills, if there are any that it has not read at the
/// start.
fn skill_tool(session: &Session) -> Option<ToolDescription> {
    let skills = || session.own_skills.iter().filter(|(_, skill)| !skill.preload);
    let index: Vec<String> = skills().map(|(name, skill)| format!("- {name}: {}", skill.description)).collect();
    let names: Vec<Value> = skills().map(|(name, _)| Value::from(name.as_str())).collect();
    let name = Value::object([
        ("type", Value::from("string")),
        ("enum", Value::array(names)),
        ("description", Value::from("Name of the skill to activate.")),
    ]);
    (!index.is_empty()).then(|| {
        let description = format!("Activate a skill to load its instructions.\n\n{}", index.join("\n"));
        let parameters = Value::object([
            ("type", Value::from("object")),
            ("properties", Value::object([("name", name)])),
            ("required", Value::array([Value::from("name")])),
        ]);
        ToolDescription::new(SKILL_TOOL, description, parameters)
    })
}

fn description(tool: StateTool) -> ToolDescription {
    ToolDescription::new(tool.name, tool.description, tool.parameters)
}
