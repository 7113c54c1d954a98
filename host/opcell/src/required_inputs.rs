//! The inputs that a run needs, found before it starts: a state that is reached late must not be the first to miss one.

use crate::run::Workflow;
use opcell_ir::{
    Diagnostic,
    ir::{Form, PathSegment, SourceRef, SourceSpec, ValueSpec},
};
use opcell_schema::Schema;
use opcell_types::{FollowUp, Value};
use opcell_workflow::document::Language;

/// Steps that the check of one variable may take.
const MAX_STEPS: u64 = 5_000_000;

/// The prompts of a pack of which a run has to choose one.
pub(crate) fn unchosen(workflow: &Workflow) -> Option<Diagnostic> {
    let ir = workflow.ir();
    if ir.entry.as_deref() != Some("") {
        return None;
    }
    let keys: Vec<&str> = ir.steps.iter().map(|step| step.name.as_ref()).collect();
    let message =
        format!("`{}` has {} prompts and no workflow: a run has to say which one is asked", ir.name, keys.len());
    let first = keys.first().copied().unwrap_or_default();
    let choose_prompt = FollowUp::ChoosePrompt(first.to_owned());
    let help = format!("choose one, such as {choose_prompt}; its prompts are: {}", keys.join(", "));
    Some(Diagnostic::error("no-entry", message).help(help))
}

/// The variables of a pack's prompts that are given and break their rules. (Other workflows check what they are given
/// when they begin; a pack does as well, for those who start it otherwise.)
pub(crate) fn unfit(workflow: &Workflow, input: &Value) -> Option<Diagnostic> {
    let is_pack = workflow.document().is_some_and(|document| document.language == Some(Language::PromptPack));
    let declared = workflow.ir().inputs.iter().filter(|_| is_pack);
    let mut wrong: Vec<String> = Vec::new();
    for (name, declared) in declared {
        let Some(given) = input.get(name).filter(|given| !given.is_nullish()) else { continue };
        let Some(schema) = declared.schema.as_ref() else { continue };
        let found = match Schema::shared(schema) {
            Ok(schema) => schema.problems(given, MAX_STEPS, 1).into_iter().next(),
            Err(problem) => Some(problem),
        };
        wrong.extend(found.map(|problem| format!("`{name}`, which is declared `{}`: {problem}", declared.kind)));
    }
    if wrong.is_empty() {
        return None;
    }
    let message = format!("the input breaks the rules of the pack's variables: {}", wrong.join("; "));
    Some(Diagnostic::error("invalid-input", message))
}

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
            let name = name.trim();
            if needed == Some(name) && !is_given(name) && !missing.contains(&name) {
                missing.push(name);
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let message = format!("missing required variables: [{}]", missing.join(" "));
    // What is left of them are blocks of other template languages, which no run is given.
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let (names, blocks): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|name| !name.is_empty() && *name != "else" && is_name(name));
    let mut help: Vec<String> = Vec::new();
    if !names.is_empty() {
        let names = names.into_iter().map(str::to_owned).collect();
        help.push(format!("give them when the run starts: {}", FollowUp::GiveInputs(names)));
    }
    if !blocks.is_empty() {
        let tokens: Vec<String> = blocks.iter().map(|block| format!("{{{{{block}}}}}")).collect();
        help.push(format!("write the prompt without {}, which only other template languages run", tokens.join(", ")));
    }
    Some(Diagnostic::error("missing-variables", message).help(help.join("; ")))
}
