//! The tools that a state's model is offered by the core itself, which answers their calls as part of deciding.

use crate::{dialogue, program::Program};
use opcell_ir::{
    ir::{Form, Orchestration, Session, Step},
    routing::EventTable as _,
    state_tools::{self, StateTool},
};
use opcell_types::ToolDescription;

pub use crate::results::READ_RESULT;
pub(crate) use opcell_ir::state_tools::{ARTIFACT_TOOL, SKILL_TOOL, TRANSITION_TOOL};

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
    if let Form::Session { session } = &step.form {
        tools.extend(skill_tool(session));
    }
    tools.into_iter().map(description).collect()
}

/// The tool by which a model reads one of the document's own skills, if there are any that it has not read at the
/// start.
fn skill_tool(session: &Session) -> Option<StateTool> {
    let unread = session.own_skills.iter().filter(|(_, skill)| !skill.preload);
    state_tools::skill(unread.map(|(name, skill)| (name.as_str(), skill.description.as_str())))
}

fn description(tool: StateTool) -> ToolDescription {
    ToolDescription::new(tool.name, tool.description, tool.parameters)
}
