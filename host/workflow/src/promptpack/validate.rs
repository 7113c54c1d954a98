//! The reference's own validation of a workflow: the same findings in the same words, sorted.
//!
//! What it overlooks is in [`checks`](mod@super::checks).

use super::spec::{Spec, State};
use opcell_ir::print::go::quote;
use std::collections::{BTreeMap, BTreeSet};

/// The findings about a workflow or a composition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValidationResult {
    /// It does not run; sorted.
    pub errors: Vec<String>,
    /// It runs; sorted.
    pub warnings: Vec<String>,
}

impl ValidationResult {
    /// Returns `true` if an error keeps it from running.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(super) fn sorted(mut self) -> Self {
        self.errors.sort();
        self.warnings.sort();
        self
    }
}

/// Checks a workflow against the pack's prompt keys.
#[must_use]
pub fn validate(spec: &Spec, prompt_keys: &[String]) -> ValidationResult {
    let mut found = ValidationResult::default();
    if spec.version != 1 && spec.version != 2 {
        found.errors.push(format!("workflow.version must be 1 or 2, got {}", spec.version));
    }
    if spec.states.is_empty() {
        found.errors.push("workflow.states must be non-empty".to_owned());
        return found;
    }
    if !spec.states.contains_key(&spec.entry) {
        found.errors.push(format!("workflow.entry {} does not reference a key in states", quote(&spec.entry)));
    }
    let prompts: BTreeSet<&str> = prompt_keys.iter().map(String::as_str).collect();
    for (name, state) in &spec.states {
        let place = format!("workflow.states[{}]", quote(name));
        check_prompt(&place, state, &prompts, &mut found);
        check_events(&place, spec, state, &mut found);
        check_words(&place, state, &mut found);
        check_composition(&place, state, &mut found);
        check_loop_guards(&place, spec, state, &mut found);
    }
    found.warnings.extend(cycles(spec).into_iter().map(|cycle| format!("workflow contains a cycle: {cycle}")));
    found.sorted()
}

fn check_prompt(place: &str, state: &State, prompts: &BTreeSet<&str>, found: &mut ValidationResult) {
    if !state.is_composition() && !prompts.contains(state.prompt_task.as_str()) {
        let prompt = quote(&state.prompt_task);
        found.errors.push(format!("{place}.prompt_task {prompt} does not reference a valid prompt"));
    }
}

fn check_events(place: &str, spec: &Spec, state: &State, found: &mut ValidationResult) {
    for (event, target) in &state.on_event {
        let place = format!("{place}.on_event[{}]", quote(event));
        if !spec.states.contains_key(target) {
            found.errors.push(format!("{place} target {} does not exist in states", quote(target)));
        }
        if !is_pascal_case(event) {
            found.warnings.push(format!("{place}: event name should be PascalCase"));
        }
    }
}

fn is_pascal_case(event: &str) -> bool {
    event.starts_with(|c: char| c.is_ascii_uppercase()) && event.chars().all(|c| c.is_ascii_alphanumeric())
}

fn check_words(place: &str, state: &State, found: &mut ValidationResult) {
    if !matches!(state.persistence.as_str(), "" | "transient" | "persistent") {
        found.errors.push(format!(
            "{place}.persistence {} is not valid (must be \"transient\" or \"persistent\")",
            quote(&state.persistence)
        ));
    }
    if !matches!(state.orchestration.as_str(), "" | "internal" | "external" | "hybrid" | "composition") {
        found.errors.push(format!(
            "{place}.orchestration {} is not valid (must be \"internal\", \"external\", \"hybrid\", or \"composition\")",
            quote(&state.orchestration)
        ));
    }
}

fn check_composition(place: &str, state: &State, found: &mut ValidationResult) {
    if state.is_composition() && state.composition.is_empty() {
        found.errors.push(format!("{place}: orchestration composition requires a composition"));
    }
    if !state.is_composition() && !state.composition.is_empty() {
        found.errors.push(format!("{place}: composition is only valid with orchestration composition"));
    }
}

fn check_loop_guards(place: &str, spec: &Spec, state: &State, found: &mut ValidationResult) {
    if state.terminal && !state.on_event.is_empty() {
        found.warnings.push(format!("{place}: terminal state has on_event transitions (they will never fire)"));
    }
    if !state.on_max_visits.is_empty() {
        let fallback = quote(&state.on_max_visits);
        match spec.states.get(&state.on_max_visits) {
            None => found.errors.push(format!("{place}.on_max_visits {fallback} does not exist in states")),
            Some(target) if target.max_visits > 0 => found.warnings.push(format!(
                "{place}.on_max_visits target {fallback} also has max_visits — potential redirect chain"
            )),
            Some(_) => {}
        }
    }
    if spec.version >= 2 && !state.terminal && state.on_event.is_empty() && state.max_visits == 0 {
        found.warnings.push(format!(
            "{place}: non-terminal state has no on_event and no max_visits (mark terminal: true to silence)"
        ));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    OnPath,
    Done,
}

/// Back edges of a depth-first walk over events, states and events in sorted order, each as `from -> to`.
fn cycles(spec: &Spec) -> Vec<String> {
    let mut colours: BTreeMap<&str, Colour> = BTreeMap::new();
    let mut found = Vec::new();
    for start in spec.states.keys() {
        if colours.contains_key(start.as_str()) {
            continue;
        }
        let mut path = vec![(start.as_str(), targets(spec, start))];
        colours.insert(start, Colour::OnPath);
        while let Some((state, rest)) = path.last_mut() {
            let state = *state;
            let Some(target) = rest.next() else {
                colours.insert(state, Colour::Done);
                path.pop();
                continue;
            };
            match colours.get(target) {
                Some(Colour::OnPath) => found.push(format!("{state} -> {target}")),
                Some(Colour::Done) => {}
                None => {
                    colours.insert(target, Colour::OnPath);
                    path.push((target, targets(spec, target)));
                }
            }
        }
    }
    found
}

fn targets<'s>(spec: &'s Spec, state: &str) -> std::vec::IntoIter<&'s str> {
    let targets: Vec<&str> =
        spec.states.get(state).map(|state| state.on_event.values().map(String::as_str).collect()).unwrap_or_default();
    targets.into_iter()
}
