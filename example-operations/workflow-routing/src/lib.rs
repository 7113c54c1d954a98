//! The routing operations that psi builds in, as a plugin.
//!
//! They read what a model or a person wrote, and answer with the route that a workflow maps in `on`. Anything that is
//! not exactly what was agreed upon is a failure with a stable reason, never a guess.

mod artifact;
mod block;
mod marker;
mod pass_status;
mod text;

use artifact::{BlockArguments, FreshBlockArguments, ScopeGateArguments, TaskArtifactArguments};
use marker::MarkerArguments;
use opcell_sdk::{Failure, Success, operation, plugin};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A success as psi's routing operations shape it: the route is the data and the summary.
type Routed = Success<String>;

fn route(name: impl Into<String>) -> Routed {
    let name = name.into();
    Success::new(name.clone()).with_summary(name)
}

/// What `workflow/constant-routing` takes.
#[derive(Deserialize, JsonSchema)]
struct ConstantArguments {
    /// The route to take, a string.
    #[serde(default)]
    route: Value,
}

/// Always takes the given route.
#[operation("workflow/constant-routing", effects = pure)]
fn constant_routing(arguments: ConstantArguments) -> Result<Routed, Failure> {
    match arguments.route {
        Value::String(name) => Ok(route(name)),
        other => Err(Failure::new("invalid-route", "route must be a string").with_details(json!({ "route": other }))),
    }
}

/// What `workflow/pass-status-routing` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct PassStatusArguments {
    /// A reply that ends with a `PASS_STATUS:` line.
    #[serde(default)]
    text: Option<String>,
    /// Only these tokens are valid here; without it, every known one.
    #[serde(default)]
    allowed_statuses: Option<Vec<String>>,
}

/// Routes to DONE or REPEAT by the one `PASS_STATUS:` line of a reply.
#[operation("workflow/pass-status-routing", effects = pure)]
fn pass_status_routing(arguments: PassStatusArguments) -> Result<Routed, Failure> {
    let allowed = arguments.allowed_statuses.unwrap_or_default();
    pass_status::parse(arguments.text.as_deref().unwrap_or_default(), &allowed).map(route)
}

/// Routes to REPEAT when any of the named review replies asks for work, and to DONE when none does.
#[operation("workflow/pass-feedback-routing", effects = pure)]
fn pass_feedback_routing(arguments: Map<String, Value>) -> Result<Routed, Failure> {
    pass_status::parse_replies(&arguments)
}

/// Routes by the one `LABEL: TOKEN` line of a text, and checks the fields that the route requires or forbids.
#[operation("workflow/exact-marker-routing", effects = pure)]
fn exact_marker_routing(arguments: MarkerArguments) -> Result<Routed, Failure> {
    marker::parse(&arguments)
}

/// What `workflow/munera-open-task-path-routing` takes.
#[derive(Deserialize, JsonSchema)]
struct TaskPathArguments {
    /// What may be a path such as `munera/open/012-tidy-up`.
    #[serde(default)]
    text: Value,
}

/// Routes to DONE when the text is the path of an open task, and to REPEAT otherwise.
#[operation("workflow/munera-open-task-path-routing", effects = pure)]
fn munera_open_task_path_routing(arguments: TaskPathArguments) -> Routed {
    let is_path = arguments.text.as_str().is_some_and(|text| text::is_open_task_path(text::trim(text)));
    if is_path {
        return route("DONE");
    }
    route("REPEAT").with_details(json!({ "reason": "invalid-munera-open-task-path", "text": arguments.text }))
}

/// Routes by whether a task's artifact still has unchecked items that begin with a marker.
#[operation("workflow/scope-question-gate-routing", effects = idempotent)]
fn scope_question_gate_routing(arguments: ScopeGateArguments) -> Result<Routed, Failure> {
    artifact::scope_gate(&arguments)
}

/// Reads a task's artifact; null when the task or the artifact does not exist.
#[operation("workflow/task-artifact-content-read", effects = idempotent)]
fn task_artifact_content_read(arguments: TaskArtifactArguments) -> Result<Success<Option<String>>, Failure> {
    let content = artifact::read(arguments.task_path.as_str(), &arguments.artifact)?;
    Ok(Success::new(content).with_summary("DONE"))
}

/// Routes on when a task's artifact holds a complete block of the given shape, the last of which is the record.
#[operation("workflow/final-complete-block-routing", effects = idempotent)]
fn final_complete_block_routing(arguments: BlockArguments) -> Result<Routed, Failure> {
    artifact::final_block(&arguments)
}

/// As final-complete-block-routing, for exactly one block that was appended since the artifact was captured.
#[operation("workflow/fresh-final-complete-block-routing", effects = idempotent)]
fn fresh_final_complete_block_routing(arguments: FreshBlockArguments) -> Result<Routed, Failure> {
    artifact::fresh_final_block(&arguments)
}

plugin! {
    capabilities: {
        files "workspace" read: "reads the artifacts of tasks, below munera/open",
    },
    operations: [
        constant_routing,
        pass_status_routing,
        pass_feedback_routing,
        exact_marker_routing,
        munera_open_task_path_routing,
        scope_question_gate_routing,
        task_artifact_content_read,
        final_complete_block_routing,
        fresh_final_complete_block_routing,
    ],
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::testing::invoke;

    #[test]
    fn a_constant_route_is_taken_as_it_is() {
        let success = invoke::<constant_routing>(&json!({ "route": "DONE" })).unwrap();

        assert_eq!((success.data, success.summary), (json!("DONE"), Some("DONE".to_owned())));
    }

    #[test]
    fn a_route_that_is_no_string_is_refused() {
        for arguments in [json!({}), json!({ "route": null }), json!({ "route": 1 })] {
            let failure = invoke::<constant_routing>(&arguments).unwrap_err();
            assert_eq!(
                (failure.reason.as_str(), failure.message.as_str()),
                ("invalid-route", "route must be a string")
            );
        }
    }

    #[test]
    fn only_a_whole_path_of_an_open_task_is_one() {
        for (text, expected) in [
            (json!("munera/open/012-tidy-up"), "DONE"),
            (json!("  munera/open/012-tidy\n"), "DONE"),
            (json!("munera/open/12-tidy"), "REPEAT"),
            (json!("munera/open/012-Tidy"), "REPEAT"),
            (json!("munera/open/012-tidy-"), "REPEAT"),
            (json!("munera/closed/012-tidy"), "REPEAT"),
            (json!("see munera/open/012-tidy"), "REPEAT"),
            (json!("012-tidy"), "REPEAT"),
            (json!(null), "REPEAT"),
        ] {
            assert_eq!(
                invoke::<munera_open_task_path_routing>(&json!({ "text": text })).unwrap().data,
                expected,
                "{text}"
            );
        }
    }
}
