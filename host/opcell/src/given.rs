//! What a run must be given, found before it starts: a state that is reached late must not be the first to miss it.

use crate::run::Workflow;
use opcell_types::Value;
use opcell_workflow::{
    Diagnostic,
    ir::{Form, PathSegment, SourceRef, SourceSpec, ValueSpec},
};

/// The required variables of a workflow's sessions that an input does not give.
pub(crate) fn missing(workflow: &Workflow, input: &Value) -> Option<Diagnostic> {
    let ir = workflow.ir();
    let is_given = |name: &str| {
        let default = ir.inputs.get(name).and_then(|declared| declared.default.as_ref());
        input.get(name).or(default).is_some_and(|value| !value.is_nullish())
    };
    let mut missing: Vec<&str> = Vec::new();
    for step in &ir.steps {
        let Form::Session { session } = &step.form else { continue };
        for (name, spec) in &session.variables {
            let needed = match spec {
                ValueSpec::Expression { expression } => expression.text().strip_prefix("$inputs."),
                ValueSpec::Source(SourceSpec { from: SourceRef::WorkflowInput, path: Some(path), .. }) => {
                    match path.as_slice() {
                        [PathSegment::Key(key)] => Some(key.as_ref()),
                        _ => None,
                    }
                }
                _ => None,
            };
            if needed == Some(name.as_ref()) && !is_given(name) && !missing.contains(&name.as_ref()) {
                missing.push(name);
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let message = format!("missing required variables: [{}]", missing.join(" "));
    let flags: Vec<String> = missing.iter().map(|name| format!("--input {name}=VALUE")).collect();
    Some(
        Diagnostic::error("missing-variables", message)
            .help(format!("give them when the run starts: {}", flags.join(" "))),
    )
}
