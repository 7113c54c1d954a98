//! The tools through which the model of a state that speaks moves the workflow and sets its artifacts. Whoever runs the
//! workflow offers them and answers their calls.

use opcell_types::Value;
use std::{borrow::Cow, fmt::Write as _};

/// The name of the tool that raises an event of the state.
pub const TRANSITION_TOOL: &str = "workflow__transition";

/// The name of the tool that sets an artifact.
pub const ARTIFACT_TOOL: &str = "workflow__set_artifact";

/// The name of the tool that reads a skill of the document (PromptPack RFC 0008).
pub const SKILL_TOOL: &str = "skill__activate";

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateTool {
    /// The name that the model calls.
    pub name: &'static str,
    /// The description of its effect.
    pub description: Cow<'static, str>,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// The tool that raises one of these events.
#[must_use]
pub fn transition<T: AsRef<str>>(events: &[T]) -> StateTool {
    StateTool {
        name: TRANSITION_TOOL,
        description:
            "Transition the workflow to a new state by triggering an event. Use this when the conversation requires \
                      escalation, resolution, or any state change."
                .into(),
        parameters: object([
            ("event", choice(events, "The workflow event to trigger.")),
            ("context", text("Summary of relevant context to carry forward.")),
        ]),
    }
}

/// The tool that sets one of the artifacts of these names.
#[must_use]
pub fn artifact<T: AsRef<str>>(names: &[T]) -> StateTool {
    StateTool {
        name: ARTIFACT_TOOL,
        description: "Set a workflow artifact value. Artifacts persist across state transitions.".into(),
        parameters: object([
            ("name", choice(names, "The artifact name to set.")),
            ("value", text("The artifact value.")),
        ]),
    }
}

/// The tool that reads one of these skills, each a name and a description; `None` without any.
pub fn skill<'a>(skills: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<StateTool> {
    let mut description = "Activate a skill to load its instructions.\n".to_owned();
    let mut names = Vec::new();
    for (name, about) in skills {
        let _ = write!(description, "\n- {name}: {about}");
        names.push(name);
    }
    (!names.is_empty()).then(|| StateTool {
        name: SKILL_TOOL,
        description: description.into(),
        parameters: object([("name", choice(&names, "Name of the skill to activate."))]),
    })
}

fn choice<T: AsRef<str>>(of: &[T], description: &str) -> Value {
    Value::object([
        ("type", Value::from("string")),
        ("enum", Value::array(of.iter().map(|one| Value::from(one.as_ref())))),
        ("description", Value::from(description)),
    ])
}

fn text(description: &str) -> Value {
    Value::object([("type", Value::from("string")), ("description", Value::from(description))])
}

/// An object of which every property is required.
fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let required = Value::array(properties.iter().map(|(name, _)| Value::from(*name)));
    Value::object([("type", Value::from("object")), ("properties", Value::object(properties)), ("required", required)])
}
