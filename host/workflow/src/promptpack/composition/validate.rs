//! The reference's validation of compositions: the same findings in the same words, sorted.

use super::{COMPARISONS, Composition, Predicate, Reducer, Step};
use crate::promptpack::validate::ValidationResult;
use opcell_ir::print::go::quote;
use opcell_ir::state_tools::{ARTIFACT_TOOL, TRANSITION_TOOL};
use opcell_types::Value;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Names that no composition may have.
pub const RESERVED_NAMES: [&str; 2] = [TRANSITION_TOOL, ARTIFACT_TOOL];

/// The names that a composition may refer to.
#[derive(Debug, Clone, Default)]
pub struct Available {
    /// Prompt keys.
    pub prompts: BTreeSet<String>,
    /// Tool keys.
    pub tools: BTreeSet<String>,
    /// Eval ids.
    pub evals: BTreeSet<String>,
}

/// Validates every composition of a pack.
#[must_use]
pub fn validate_all(compositions: &BTreeMap<String, Composition>, available: &Available) -> ValidationResult {
    let mut all = ValidationResult::default();
    for (name, composition) in compositions {
        if RESERVED_NAMES.contains(&name.as_str()) {
            all.errors.push(format!("compositions[{}]: name collides with a reserved runtime name", quote(name)));
        }
        let found = validate(name, composition, available);
        all.errors.extend(found.errors);
        all.warnings.extend(found.warnings);
    }
    all.sorted()
}

/// Validates one composition.
#[must_use]
pub fn validate(name: &str, composition: &Composition, available: &Available) -> ValidationResult {
    let mut found = ValidationResult::default();
    let place = format!("compositions[{}]", quote(name));
    if composition.version != 1 {
        found.errors.push(format!("{place}: version must be 1, got {}", composition.version));
    }
    let steps = composition.all_steps();
    let ids = check_ids(&place, &steps, &mut found);
    for step in &steps {
        let place = format!("{place}.steps[{}]", quote(&step.id));
        check_references(&place, step, available, &mut found);
        check_roots(&place, step, &ids, &mut found);
        check_kind(&place, step, &mut found);
        check_targets(&place, step, &ids, &mut found);
    }
    if has_cycle(composition) {
        found.errors.push(format!("{place}: step graph contains a cycle"));
    }
    if !composition.output.is_empty() && !ids.contains(composition.output.as_str()) {
        found.errors.push(format!("{place}: output {} does not reference a step", quote(&composition.output)));
    }
    for pair in composition.steps.windows(2) {
        let [before, step] = pair else { continue };
        if matches!(before.kind.as_str(), "branch" | "parallel") && step.depends_on.is_empty() {
            found.warnings.push(format!(
                "{place}.steps[{}]: step follows a {}; declare depends_on to mark the join point",
                quote(&step.id),
                before.kind
            ));
        }
    }
    found.sorted()
}

fn is_identifier(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_ids<'c>(place: &str, steps: &[&'c Step], found: &mut ValidationResult) -> BTreeSet<&'c str> {
    let mut ids = BTreeSet::new();
    for step in steps {
        if !is_identifier(&step.id) {
            found
                .errors
                .push(format!("{place}.steps: step id {} must match ^[a-zA-Z_][a-zA-Z0-9_]*$", quote(&step.id)));
        }
        if !ids.insert(step.id.as_str()) {
            found.errors.push(format!("{place}.steps: duplicate step id {}", quote(&step.id)));
        }
    }
    ids
}

fn check_references(place: &str, step: &Step, available: &Available, found: &mut ValidationResult) {
    let mut check = |what: &str, name: &str, article: &str, known: &BTreeSet<String>| {
        if !known.contains(name) {
            found.errors.push(format!("{place}: {what} {} does not reference a valid {article}", quote(name)));
        }
    };
    match step.kind.as_str() {
        "prompt" | "agent" if !step.prompt_task.is_empty() => {
            check("prompt_task", &step.prompt_task, "prompt", &available.prompts);
        }
        "tool" if !step.tool.is_empty() => check("tool", &step.tool, "tool", &available.tools),
        _ => {}
    }
    step.tools.iter().for_each(|tool| check("tool", tool, "tool", &available.tools));
    for eval in step.modifiers.iter().flat_map(|modifiers| &modifiers.eval) {
        check("eval", eval, "eval", &available.evals);
    }
}

#[expect(clippy::expect_used, reason = "a literal pattern, which every test of this module compiles")]
static ROOT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{[\t\n\x0c\r ]*([a-zA-Z_][a-zA-Z0-9_]*)[^}]*\}").expect("a literal pattern"));

/// The first names of all references in a value; bounded by the depth of the JSON value, with a stack of its own.
pub(super) fn roots(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                found.extend(
                    ROOT.captures_iter(text).filter_map(|root| root.get(1).map(|root| root.as_str().to_owned())),
                );
            }
            Value::Array(items) => waiting.extend(items.iter()),
            Value::Object(entries) => waiting.extend(entries.values()),
            _ => {}
        }
    }
    found
}

fn check_roots(place: &str, step: &Step, ids: &BTreeSet<&str>, found: &mut ValidationResult) {
    // Input, arguments and predicate are reported one by one, so a name that is wrong in two of them is reported twice.
    let paths = Value::array(predicates(step).iter().map(|predicate| predicate.path.as_str().into()));
    let arguments = Value::from(step.args.clone());
    for root in [&step.input, &arguments, &paths].into_iter().flat_map(roots) {
        if root != "input" && !ids.contains(root.as_str()) {
            found.errors.push(format!("{place}: references unknown {} (not 'input' or a step id)", quote(&root)));
        }
    }
}

/// A step's predicate and all that it is made of.
pub(super) fn predicates(step: &Step) -> Vec<&Predicate> {
    let mut found = Vec::new();
    let mut waiting: Vec<&Predicate> = step.predicate.iter().collect();
    while let Some(predicate) = waiting.pop() {
        found.push(predicate);
        waiting.extend(predicate.all_of.iter().chain(&predicate.any_of).flatten());
        waiting.extend(predicate.not.as_deref());
    }
    found
}

fn check_kind(place: &str, step: &Step, found: &mut ValidationResult) {
    let allowed: &[&str] = match step.kind.as_str() {
        "prompt" => &["prompt_task", "input", "output_schema"],
        "agent" => &["prompt_task", "input", "output_schema", "tools", "termination"],
        "tool" => &["tool", "args"],
        "branch" => &["predicate", "then", "else"],
        "parallel" => &["branches", "reduce"],
        other => return found.errors.push(format!("{place}: unknown kind {}", quote(other))),
    };
    for field in present_fields(step).into_iter().filter(|field| !allowed.contains(field)) {
        let (field, kind) = (quote(field), quote(&step.kind));
        found.errors.push(format!("{place}: field {field} not allowed for kind {kind}"));
    }
    let mut error = |text: &str| found.errors.push(format!("{place}: {text}"));
    match step.kind.as_str() {
        "agent"
            if step.termination.as_ref().is_none_or(|until| until.max_steps == 0 && until.tool_called.is_empty()) =>
        {
            error("agent step must declare termination (max_steps or tool_called)");
        }
        "parallel" => {
            if step.branches.len() < 2 {
                error("parallel step must have at least two branches");
            }
            check_reducer(step.reduce.as_ref(), &mut error);
        }
        "branch" => {
            if step.then.is_empty() {
                error("branch step must declare then");
            }
            if step.predicate.is_none() {
                error("branch step must declare predicate");
            }
            predicates(step).into_iter().for_each(|predicate| check_predicate(predicate, &mut error));
        }
        _ => {}
    }
}

fn present_fields(step: &Step) -> Vec<&'static str> {
    [
        ("prompt_task", !step.prompt_task.is_empty()),
        ("input", !step.input.is_nullish()),
        ("output_schema", !step.output_schema.is_empty()),
        ("tools", !step.tools.is_empty()),
        ("termination", step.termination.is_some()),
        ("tool", !step.tool.is_empty()),
        ("args", !step.args.is_empty()),
        ("predicate", step.predicate.is_some()),
        ("then", !step.then.is_empty()),
        ("else", !step.otherwise.is_empty()),
        ("branches", !step.branches.is_empty()),
        ("reduce", step.reduce.is_some()),
    ]
    .into_iter()
    .filter_map(|(field, present)| present.then_some(field))
    .collect()
}

fn check_reducer(reducer: Option<&Reducer>, error: &mut impl FnMut(&str)) {
    let Some(reducer) = reducer else { return error("parallel step must declare reduce") };
    if !matches!(reducer.strategy.as_str(), "append" | "replace" | "barrier") {
        error(&format!("reduce.strategy {} is not valid (append|replace|barrier)", quote(&reducer.strategy)));
    }
    if reducer.into.is_empty() {
        error("reduce.into is required");
    }
}

fn check_predicate(predicate: &Predicate, error: &mut impl FnMut(&str)) {
    let compares = !predicate.op.is_empty() || !predicate.value.is_nullish();
    let several = |list: &Option<Vec<Predicate>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let variants = [
        compares,
        predicate.exists.is_some(),
        several(&predicate.all_of),
        several(&predicate.any_of),
        predicate.not.is_some(),
    ];
    if variants.into_iter().filter(|set| *set).count() != 1 {
        error("predicate must set exactly one variant (compare|exists|all_of|any_of|not)");
    }
    if compares && predicate.path.is_empty() {
        error("compare predicate must declare path");
    }
    if compares && !COMPARISONS.contains(&predicate.op.as_str()) {
        error(&format!("predicate op {} is not valid", quote(&predicate.op)));
    }
}

fn check_targets(place: &str, step: &Step, ids: &BTreeSet<&str>, found: &mut ValidationResult) {
    let mut check = |field: &str, target: &str| {
        if !ids.contains(target) {
            found.errors.push(format!("{place}: {field} {} does not reference a step", quote(target)));
        }
    };
    for (field, target) in [("then", &step.then), ("else", &step.otherwise)] {
        if !target.is_empty() {
            check(field, target);
        }
    }
    step.depends_on.iter().for_each(|target| check("depends_on", target));
}

/// Returns the predecessors of each step: `depends_on`, or else the step before in the list; branches come before their
/// targets.
fn predecessors(composition: &Composition) -> BTreeMap<&str, Vec<&str>> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut previous = None;
    for step in &composition.steps {
        let own = before.entry(&step.id).or_default();
        if step.depends_on.is_empty() {
            own.extend(previous);
        } else {
            own.extend(step.depends_on.iter().map(String::as_str));
        }
        for target in [&step.then, &step.otherwise].into_iter().filter(|target| !target.is_empty()) {
            before.entry(target).or_default().push(&step.id);
        }
        previous = Some(step.id.as_str());
    }
    let nested = composition.all_steps();
    let top: BTreeSet<*const Step> = composition.steps.iter().map(std::ptr::from_ref).collect();
    for step in nested.into_iter().filter(|step| !top.contains(&std::ptr::from_ref(*step))) {
        before.entry(&step.id).or_default().extend(step.depends_on.iter().map(String::as_str));
    }
    before
}

fn has_cycle(composition: &Composition) -> bool {
    let before = predecessors(composition);
    let edges = |id: &str| before.get(id).cloned().unwrap_or_default().into_iter();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in before.keys().copied() {
        let mut path = vec![(start, edges(start))];
        let mut on_path = BTreeSet::from([start]);
        while let Some((id, rest)) = path.last_mut() {
            let id = *id;
            match rest.next() {
                Some(next) if on_path.contains(next) => return true,
                Some(next) if done.contains(next) => {}
                Some(next) => {
                    on_path.insert(next);
                    path.push((next, edges(next)));
                }
                None => {
                    on_path.remove(id);
                    done.insert(id);
                    path.pop();
                }
            }
        }
    }
    false
}
