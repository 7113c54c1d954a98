//! The two tools through which a model moves a workflow and sets its artifacts.

use crate::machine::{StateMachine, TransitionError, TransitionResult};
use opcell_ir::state_tools::{self, StateTool};
use opcell_workflow::promptpack::arguments;
use opcell_workflow::promptpack::decode::{DecodeError, Decoder, Struct};
use opcell_workflow::promptpack::spec::{Spec, State, sorted_events};

pub use opcell_ir::state_tools::{ARTIFACT_TOOL, TRANSITION_TOOL};

use jiff::Timestamp;
use opcell_types::value::{Map, Object, Value};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The mode by which a host recognises the transition tool's executor.
pub const TRANSITION_MODE: &str = "workflow-transition";
/// The mode by which a host recognises the artifact tool's executor.
pub const ARTIFACT_MODE: &str = "workflow-artifact";

/// Description of a tool for a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolDescriptor {
    /// The name that the model calls.
    pub name: String,
    /// Whose tool it is.
    pub namespace: String,
    /// The executor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// The description of its effect.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: serde_json::Value,
}

/// The transition tool for a state with these events.
#[must_use]
pub fn transition_tool(events: &[String]) -> ToolDescriptor {
    descriptor(state_tools::transition(events), TRANSITION_MODE)
}

fn descriptor(tool: StateTool, mode: &str) -> ToolDescriptor {
    ToolDescriptor {
        name: tool.name.to_owned(),
        namespace: "workflow".to_owned(),
        mode: mode.to_owned(),
        description: tool.description.into_owned(),
        input_schema: (&tool.parameters).into(),
    }
}

/// The artifact tool for a workflow: it offers every artifact that some state declares.
#[must_use]
pub fn artifact_tool(spec: &Spec) -> ToolDescriptor {
    let names: BTreeSet<&str> =
        spec.states.values().flat_map(|state| state.artifacts.keys().map(String::as_str)).collect();
    // Its mode is set when it is registered, as in the reference.
    descriptor(state_tools::artifact(&names.into_iter().collect::<Vec<_>>()), "")
}

/// The tools that one run offers its model. Each run has its own.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, ToolDescriptor>,
}

/// Why a tool call never reached its executor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    /// There is no such tool now.
    #[error("tool not found: {0}")]
    NotFound(String),
    /// The arguments do not fit.
    #[error("tool {tool} validation error (args_invalid): argument validation failed: [{}]", .errors.join(" "))]
    Arguments {
        /// The tool.
        tool: String,
        /// Each with its place.
        errors: Vec<String>,
    },
}

impl ToolSet {
    /// Offers a tool, in place of an earlier one of its name.
    pub fn register(&mut self, tool: ToolDescriptor) {
        self.tools.insert(tool.name.clone(), tool);
    }

    /// Offers a tool no longer.
    pub fn unregister(&mut self, name: &str) {
        self.tools.remove(name);
    }

    /// A tool by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ToolDescriptor> {
        self.tools.get(name)
    }

    /// Offers the transition tool as a state needs it: with its events, or not at all in a terminal state.
    /// An externally orchestrated state leaves the set alone, as in the reference.
    pub fn register_transition(&mut self, state: &State) {
        if state.orchestration == "external" {
            return;
        }
        if state.is_terminal() {
            self.unregister(TRANSITION_TOOL);
        } else {
            self.register(transition_tool(&sorted_events(&state.on_event)));
        }
    }

    /// Offers the artifact tool if some state declares an artifact.
    pub fn register_artifact(&mut self, spec: &Spec) {
        if spec.states.values().any(|state| !state.artifacts.is_empty()) {
            self.register(ToolDescriptor { mode: ARTIFACT_MODE.to_owned(), ..artifact_tool(spec) });
        }
    }

    /// Fits a call's arguments to the tool's schema (`arguments::fit`) and checks them, before it is executed.
    ///
    /// # Errors
    /// When there is no such tool, or the arguments do not pass its schema.
    pub fn admit(&self, tool: &str, arguments: &Value) -> Result<Value, ToolSetError> {
        let descriptor = self.get(tool).ok_or_else(|| ToolSetError::NotFound(tool.to_owned()))?;
        arguments::admit(&descriptor.input_schema, &serde_json::Value::from(arguments))
            .map(Value::from)
            .map_err(|errors| ToolSetError::Arguments { tool: tool.to_owned(), errors })
    }
}

/// A transition that waits for the end of the model's round.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct PendingTransition {
    /// The event that the model raised.
    pub event: String,
    /// The summary for the next state.
    pub context: String,
    /// Further arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub host_extras: Map,
}

/// The answer to a model that has raised an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransitionScheduled {
    /// Always `transition_scheduled`.
    pub status: &'static str,
    /// The event that it raised.
    pub event: String,
    /// The target of the *current* state's event; absent when it has no such event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_state: Option<String>,
}

/// The answer to a model that has set an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactSet {
    /// Always `artifact_set`.
    pub status: &'static str,
    /// Name of the artifact.
    pub artifact: String,
}

/// Why a tool's executor refused its arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolArgumentsError {
    /// The transition tool's arguments have a wrong type.
    #[error("failed to parse transition args: decode typed args: {0}")]
    Transition(DecodeError),
    /// The artifact tool's arguments have a wrong type.
    #[error("failed to parse set_artifact args: {0}")]
    Artifact(DecodeError),
    /// The artifact has no name.
    #[error("artifact name is required")]
    ArtifactName,
}

const TRANSITION_ARGUMENTS: Struct = Struct {
    full: "struct { Event string \"json:\\\"event\\\"\"; Context string \"json:\\\"context\\\"\" }",
    name: "",
    fields: &["event", "context"],
};

const ARTIFACT_ARGUMENTS: Struct = Struct {
    full: "struct { Name string \"json:\\\"name\\\"\"; Value string \"json:\\\"value\\\"\" }",
    name: "",
    fields: &["name", "value"],
};

/// Executes the transition tool. A call only *schedules* an event; [`Self::commit_pending`] applies it once the model's
/// round is over.
#[derive(Debug, Clone, Default)]
pub struct TransitionExecutor {
    pending: Option<PendingTransition>,
}

impl TransitionExecutor {
    /// Schedules an event; the last one of a round wins. Whether the event may happen shows at the commit.
    ///
    /// # Errors
    /// When the arguments have a wrong type.
    pub fn execute(
        &mut self,
        machine: &StateMachine,
        arguments: &Value,
    ) -> Result<TransitionScheduled, ToolArgumentsError> {
        let mut pending = PendingTransition::default();
        let mut decoder = Decoder::default();
        decoder.object(arguments, TRANSITION_ARGUMENTS, |d, field, value| match field {
            "event" => d.string(value, &mut pending.event),
            "context" => d.string(value, &mut pending.context),
            _ => {}
        });
        decoder.finish().map_err(ToolArgumentsError::Transition)?;
        pending.host_extras = arguments.as_object().map(Object::to_map).unwrap_or_default();
        pending.host_extras.retain(|key, _| !TRANSITION_ARGUMENTS.fields.contains(&key.as_ref()));
        let target =
            machine.spec().states.get(machine.current_state()).and_then(|state| state.on_event.get(&pending.event));
        let scheduled = TransitionScheduled {
            status: "transition_scheduled",
            event: pending.event.clone(),
            target_state: target.cloned(),
        };
        self.pending = Some(pending);
        Ok(scheduled)
    }

    /// Returns the scheduled transition.
    #[must_use]
    pub fn pending(&self) -> Option<&PendingTransition> {
        self.pending.as_ref()
    }

    /// Drops what is scheduled.
    pub fn clear_pending(&mut self) {
        self.pending = None;
    }

    /// Applies what is scheduled, and forgets it either way. Nothing scheduled is not a transition.
    ///
    /// # Errors
    /// When the event may not happen.
    pub fn commit_pending(
        &mut self,
        machine: &mut StateMachine,
        now: Timestamp,
    ) -> Result<Option<TransitionResult>, TransitionError> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let mut result = machine.process_event(&pending.event, now)?;
        result.host_extras = pending.host_extras;
        Ok(Some(result))
    }
}

/// Executes the artifact tool: at once, not at the end of the round.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArtifactExecutor;

impl ArtifactExecutor {
    /// Sets an artifact.
    ///
    /// # Errors
    /// When the arguments have a wrong type or name no artifact.
    pub fn execute(self, machine: &mut StateMachine, arguments: &Value) -> Result<ArtifactSet, ToolArgumentsError> {
        let (mut name, mut value) = (String::new(), String::new());
        let mut decoder = Decoder::default();
        decoder.object(arguments, ARTIFACT_ARGUMENTS, |d, field, item| match field {
            "name" => d.string(item, &mut name),
            "value" => d.string(item, &mut value),
            _ => {}
        });
        decoder.finish().map_err(ToolArgumentsError::Artifact)?;
        if name.is_empty() {
            return Err(ToolArgumentsError::ArtifactName);
        }
        machine.set_artifact(&name, &value);
        Ok(ArtifactSet { status: "artifact_set", artifact: name })
    }
}
