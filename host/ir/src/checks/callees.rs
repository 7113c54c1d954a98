//! Checks of what a delegate's callee yields, as far as its definition says it, against the references to the delegate.

use super::{Catalog, by_name};
use crate::{
    diagnostic::Diagnostic,
    ir::{Delegate, DelegateTarget, Form, Goto, Lifecycle, SourceRef, Step, WorkflowIr, Yields},
    validate::references,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The depth to which callees are followed.
const MAX_DEPTH: usize = 16;

/// The kinds of values that a workflow can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kinds {
    data: bool,
    text: bool,
}

impl Kinds {
    const DATA: Self = Self { data: true, text: false };
    const TEXT: Self = Self { data: false, text: true };

    fn has(self, field: &str) -> bool {
        match field {
            "data" => self.data,
            "text" => self.text,
            _ => true,
        }
    }

    fn and(self, other: Self) -> Self {
        Self { data: self.data || other.data, text: self.text || other.text }
    }
}

/// References to what a callee never yields are errors: they would be null in every run.
pub(super) fn check(ir: &WorkflowIr, place: &str, catalog: &dyn Catalog) -> Vec<Diagnostic> {
    let find = |name: &str| {
        let own = ir.workflows.iter().find(|own| own.name.as_ref() == name).cloned();
        own.or_else(|| catalog.workflow(name))
    };
    let steps = by_name(ir);
    let mut known = HashMap::new();
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        for reference in references::of(step) {
            let SourceRef::Yield { step: target, field } = reference.source else { continue };
            let target_step = steps.get(target.as_ref()).copied();
            let yields = known.entry(target.clone()).or_insert_with(|| yielded(target_step?, &find));
            let Some((callee, kinds)) = yields.clone() else { continue };
            let path = format!("{place}steps[{i}].{}", reference.path);
            match kinds {
                Kinds { data: false, text: false } => {}
                kinds if !kinds.has(field) => {
                    let (is, not) = if kinds.data { ("data", "text") } else { ("text", "data") };
                    let message = format!(
                        "Step '{}': workflow `{callee}`, which step '{target}' calls, yields {is} and no {not}",
                        step.name
                    );
                    let error = Diagnostic::error("missing-yield-field", message).path(path);
                    found.push(error.help(format!("read {{:step \"{target}\" :yield :{is}}}")));
                }
                Kinds { data: true, text: true } if matches!(field.as_ref(), "data" | "text") => {
                    let message = format!(
                        "Step '{}': workflow `{callee}`, which step '{target}' calls, yields data on some paths and text on others; \
                         the step fails where there is no {field}",
                        step.name
                    );
                    found.push(Diagnostic::warning("maybe-other-yield", message).path(path));
                }
                _ => {}
            }
        }
    }
    found.extend(missing_handoffs(ir, place, &find));
    found.extend(missing_outputs(ir, place, &find));
    found.extend(unread_contract(ir, place, &find));
    found
}

/// Maps a delegate's output to that of its callee, `text` for `delegate/text`.
fn part<'a>(step: &'a Step, output: &'a str) -> &'a str {
    let source = step.outputs.get(output).and_then(|spec| spec.source.as_deref()).unwrap_or(output);
    source.rsplit('/').next().unwrap_or(source)
}

/// Whoever reads the handoff of a callee that has no terminal contract gets null in every run.
fn missing_handoffs(ir: &WorkflowIr, place: &str, find: &dyn Fn(&str) -> Option<Arc<WorkflowIr>>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut read = |reader: &Step, path: String, step: &Step, output: &str| {
        let Some(name) = callee(step).filter(|_| part(step, output) == "handoff") else { return };
        if find(name).is_none_or(|callee| callee.terminal_contract.is_some()) {
            return;
        }
        let message = format!(
            "Step '{}': workflow `{name}`, which step '{}' calls, has no terminal contract: its handoff is null",
            reader.name, step.name
        );
        let warning = Diagnostic::warning("handoff-without-contract", message).path(path);
        found.push(
            warning.help(format!("add :terminal-contract {{:handoff {{:type :markdown-handoff-data}}}} to `{name}`")),
        );
    };
    let steps = by_name(ir);
    for (i, step) in ir.steps.iter().enumerate() {
        for reference in references::of(step) {
            let SourceRef::Output { step: target, output, prompt: None } = reference.source else { continue };
            if let Some(target) = steps.get(target.as_ref()) {
                read(step, format!("{place}steps[{i}].{}", reference.path), target, output);
            }
        }
        if let Some(Yields::Data { data: output } | Yields::Text { text: output }) = &step.yields {
            read(step, format!("{place}steps[{i}].yields"), step, output);
        }
    }
    found
}

/// A delegate's own outputs that name what its callee never yields.
fn missing_outputs(ir: &WorkflowIr, place: &str, find: &dyn Fn(&str) -> Option<Arc<WorkflowIr>>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        let texts: Vec<&Arc<str>> =
            step.outputs.keys().filter(|key| matches!(part(step, key), "text" | "final-llm-reply")).collect();
        let Some(name) = callee(step).filter(|_| !texts.is_empty()) else { continue };
        let Some(kinds) = of_workflow(name, find).filter(|kinds| kinds.data) else { continue };
        for key in texts {
            let message = format!("Step '{}': output :{key} is the text of workflow `{name}`, which yields", step.name);
            let path = format!("{place}steps[{i}].outputs.{key}.source");
            found.push(if kinds.text {
                let message = format!("{message} data on some paths; it is null there");
                Diagnostic::warning("maybe-other-yield", message).path(path)
            } else {
                let error = Diagnostic::error("missing-yield-field", format!("{message} data and no text")).path(path);
                error.help("read {:source :delegate/data}")
            });
        }
    }
    found
}

/// The workflow that a delegate calls, where its document says which.
fn callee(step: &Step) -> Option<&Arc<str>> {
    match &step.form {
        Form::Delegate { delegate: Delegate { target: DelegateTarget::Name(name), .. } } if step.each.is_none() => {
            Some(name)
        }
        _ => None,
    }
}

/// A contract for the text that a run ends with, where runs end with data: nothing ever reads it.
fn unread_contract(ir: &WorkflowIr, place: &str, find: &dyn Fn(&str) -> Option<Arc<WorkflowIr>>) -> Option<Diagnostic> {
    ir.terminal_contract.as_ref()?;
    let this = Arc::new(ir.clone());
    let kinds = of_workflow(&ir.name, &|name| if name == ir.name.as_ref() { Some(this.clone()) } else { find(name) })?;
    (kinds == Kinds::DATA).then(|| {
        let message = format!(
            "Workflow `{}` ends with data: its terminal contract is about a string, and is never checked",
            ir.name
        );
        Diagnostic::warning("contract-without-text", message)
            .path(format!("{place}terminal-contract"))
            .help("end with a step that yields text, or take the contract out")
    })
}

/// The callee of a delegate that yields what its callee does, and what that can be; `None` where no one knows.
fn yielded(step: &Step, find: &dyn Fn(&str) -> Option<Arc<WorkflowIr>>) -> Option<(Arc<str>, Kinds)> {
    let name = callee(step).filter(|_| matches!(step.yields, Some(Yields::Delegated) | None))?;
    Some((name.clone(), of_workflow(name, find)?))
}

/// Returns the kinds of values that a workflow can end with, callees of its last steps included. An explicit list:
/// workflows may call one another.
fn of_workflow(name: &str, find: &dyn Fn(&str) -> Option<Arc<WorkflowIr>>) -> Option<Kinds> {
    let mut kinds = Kinds::default();
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    let mut open: Vec<(Arc<str>, usize)> = vec![(name.into(), 0)];
    while let Some((name, depth)) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let ir = find(&name).filter(|_| depth < MAX_DEPTH)?;
        if ir.dialect.lifecycle == Lifecycle::Sequential || !ir.outputs.is_empty() {
            kinds = kinds.and(Kinds::DATA);
            continue;
        }
        for step in ir.steps.iter().enumerate().filter_map(|(at, step)| ends(&ir, at, step).then_some(step)) {
            if step.each.is_some() {
                kinds = kinds.and(Kinds::DATA);
                continue;
            }
            match (&step.yields, &step.form) {
                (Some(Yields::Text { .. }), _) | (None, Form::Session { .. }) => kinds = kinds.and(Kinds::TEXT),
                (Some(Yields::Error { .. }), _) => {}
                (Some(Yields::Delegated) | None, Form::Delegate { delegate }) => match &delegate.target {
                    DelegateTarget::Name(callee) => open.push((callee.clone(), depth + 1)),
                    DelegateTarget::Dynamic(_) => return None,
                },
                _ => kinds = kinds.and(Kinds::DATA),
            }
        }
    }
    Some(kinds)
}

/// Returns `true` if a run may end with the value that this step yields.
fn ends(ir: &WorkflowIr, at: usize, step: &Step) -> bool {
    if let Some(result) = &ir.result {
        return *result == step.name;
    }
    let is_last = !step.grouped && ir.steps.iter().skip(at + 1).all(|later| later.grouped);
    let leaves = |goto: &Goto| matches!(goto, Goto::Done) || (is_last && matches!(goto, Goto::Next));
    matches!(step.form, Form::Exit { .. })
        || step.terminal
        || (is_last && step.judge.is_none())
        || step.on.iter().any(|route| leaves(&route.goto) || route.on_max_iterations.as_ref().is_some_and(leaves))
}
