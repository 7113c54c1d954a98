//! Arguments of calls against what their operations take, and paths into inputs against what the workflow declares.

use super::Catalog;
use crate::{
    diagnostic::{Diagnostic, did_you_mean},
    ir::{Form, Invoke, Judge, PathSegment, SourceRef, WorkflowIr},
    validate::references,
};
use serde_json::Value as Json;

/// Keys of an input that is a text as a whole, declared or not.
const WHOLE_INPUT: [&str; 2] = ["input", "original"];

/// Checks the calls of every step, its judge's included.
pub(super) fn calls(ir: &WorkflowIr, place: &str, catalog: &dyn Catalog) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        if let Form::Invoke { invoke } = &step.form {
            call(invoke, &step.name, &format!("{place}steps[{i}].invoke"), catalog, &mut found);
        }
        if let Some(Judge::Invoke { invoke }) = &step.judge {
            call(invoke, &step.name, &format!("{place}steps[{i}].judge.invoke"), catalog, &mut found);
        }
    }
    found
}

fn call(invoke: &Invoke, step: &str, path: &str, catalog: &dyn Catalog, found: &mut Vec<Diagnostic>) {
    let Some(schema) = catalog.arguments(&invoke.operation) else { return };
    let names = |key: &str| -> Vec<&str> {
        match schema.get(key) {
            Some(Json::Object(properties)) => properties.keys().map(String::as_str).collect(),
            Some(Json::Array(listed)) => listed.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        }
    };
    let known = names("properties");
    // A schema that is put together of others takes what this does not see.
    let is_whole =
        ["allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties"].iter().all(|key| schema.get(key).is_none());
    let is_closed = schema.get("additionalProperties") == Some(&Json::Bool(false)) && is_whole;
    let is_given = |name: &str| invoke.args.keys().any(|given| given.as_ref() == name);
    for given in invoke.args.keys().filter(|given| !known.contains(&given.as_ref())) {
        // One that was meant is not given yet.
        let near = did_you_mean(given, known.iter().copied().filter(|name| !is_given(name)));
        if !is_closed && (near.is_none() || !is_whole) {
            continue;
        }
        let message = format!("Step '{step}': `{}` takes no argument `{given}`", invoke.operation);
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it takes no arguments".to_owned(),
            None => format!("it takes: {}", known.join(", ")),
        };
        found.push(Diagnostic::warning("unknown-argument", message).path(format!("{path}.args.{given}")).help(help));
    }
    for required in names("required").into_iter().filter(|name| !is_given(name)) {
        let message =
            format!("Step '{step}': `{}` needs the argument `{required}`, and every call would fail", invoke.operation);
        found.push(Diagnostic::warning("missing-argument", message).path(path.to_owned()));
    }
}

/// References to inputs that a workflow, which declares its inputs, does not declare: they are null in every run.
pub(super) fn inputs(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if ir.inputs.is_empty() {
        return found;
    }
    for (i, step) in ir.steps.iter().enumerate() {
        for reference in references::of(step) {
            let (SourceRef::WorkflowInput, Some([PathSegment::Key(key), ..])) = (reference.source, reference.within)
            else {
                continue;
            };
            if ir.inputs.contains_key(key) || WHOLE_INPUT.contains(&key.as_ref()) {
                continue;
            }
            let message = format!("Step '{}': the workflow declares no input `{key}`", step.name);
            let warning = Diagnostic::warning("unknown-input", message).path(format!("steps[{i}].{}", reference.path));
            let declared = ir.inputs.keys().map(AsRef::as_ref);
            found.push(match did_you_mean(key, declared) {
                Some(near) => warning.help(format!("did you mean `{near}`?")),
                None => warning.help("declare it under :inputs"),
            });
        }
    }
    found
}
