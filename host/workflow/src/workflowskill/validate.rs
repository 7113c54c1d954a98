//! The reference's validator: every error it finds, in its order, with its paths and texts. References are found by
//! pattern, not by parsing; what that misses is for the static checks.

use super::{
    Issue,
    definition::{Body, Definition, StepDefinition},
};
use opcell_types::Value;
use std::collections::{HashMap, HashSet};

const STEP_OUTPUT: &str = "Step output \"value\" must use \"$result\" to map from the raw executor result, not \"$steps\" references. Use \"$steps\" in workflow outputs or step input values.";
const WORKFLOW_OUTPUT: &str = "\"$result\" is not valid in workflow output \"value\" — use \"$steps.<id>.output\" instead. \"$result\" is only valid in step output \"value\".";

/// The names after every `prefix` in a text.
fn names_after<'a>(text: &'a str, prefix: &'static str) -> impl Iterator<Item = &'a str> {
    text.match_indices(prefix).filter_map(move |(at, _)| {
        let rest = text.get(at + prefix.len()..)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        rest.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    })
}

/// The steps that a text refers to, each once.
pub(super) fn step_references(text: &str) -> Vec<&str> {
    let mut seen = HashSet::new();
    let names = names_after(text, "$steps.").chain(names_after(text, "${steps."));
    names.filter(|name| seen.insert(*name)).collect()
}

/// Returns `true` if the reference looks for references in a value at all.
pub(super) fn is_scanned(value: &str) -> bool {
    value.starts_with("$steps.") || value.contains("${steps.")
}

/// Cycles that are reported, each with the steps in it.
const MAX_CYCLES: usize = 100;

struct Validator<'a> {
    definition: &'a Definition,
    /// The place of the last step of each name.
    order: HashMap<&'a str, usize>,
    grouped: HashSet<&'a str>,
    issues: Vec<Issue>,
}

/// Every error; none: the workflow is valid. Tools are checked only where there is something to check them against.
pub(super) fn validate(definition: &Definition, tools: Option<&dyn Fn(&str) -> bool>) -> Vec<Issue> {
    let mut validator = Validator { definition, order: HashMap::new(), grouped: HashSet::new(), issues: Vec::new() };
    for (index, step) in definition.steps.iter().enumerate() {
        if validator.order.insert(&step.id.text, index).is_some() {
            validator.issue(format!("steps[{index}].id"), format!("Duplicate step ID \"{}\"", step.id.text));
        }
        validator.grouped.extend(step.branch_steps().map(|text| text.text.as_ref()));
    }
    for (index, step) in definition.steps.iter().enumerate() {
        validator.step(step, &format!("steps[{index}]"), tools);
    }
    validator.outputs();
    validator.cycles();
    validator.issues
}

impl<'a> Validator<'a> {
    fn issue(&mut self, path: String, message: impl Into<String>) {
        self.issues.push(Issue { path, message: message.into() });
    }

    fn step(&mut self, step: &'a StepDefinition, path: &str, tools: Option<&dyn Fn(&str) -> bool>) {
        let each = StepDefinition::present(step.each.as_ref());
        match step.kind() {
            kind @ ("exit" | "conditional") if each.is_some() => {
                self.issue(format!("{path}.each"), format!("\"each\" is not valid on {kind} steps"));
            }
            _ => {}
        }
        if StepDefinition::present(step.delay.as_ref()).is_some() && each.is_none() {
            self.issue(format!("{path}.delay"), "\"delay\" requires \"each\" to be present");
        }
        if let (Body::Tool { tool }, Some(is_registered)) = (&step.body, tools)
            && !is_registered(&tool.text)
        {
            self.issue(format!("{path}.tool"), format!("Tool \"{}\" is not registered", tool.text));
        }
        for input in &step.inputs {
            if let Some(Value::String(value)) = &input.value
                && is_scanned(value)
            {
                self.references(step, value, &format!("{path}.inputs.{}.value", input.name.text));
            }
        }
        for output in &step.outputs {
            if let Some(Value::String(value)) = &output.value
                && is_scanned(value)
            {
                self.issue(format!("{path}.outputs.{}.value", output.name.text), STEP_OUTPUT);
            }
        }
        if let Some(condition) = &step.condition {
            self.references(step, &condition.text, &format!("{path}.condition"));
        }
        if let Some(each) = &step.each {
            self.references(step, &each.text, &format!("{path}.each"));
        }
        match &step.body {
            Body::Conditional { then, otherwise } => {
                for (key, names) in [("then", Some(then)), ("else", otherwise.as_ref())] {
                    for name in names
                        .into_iter()
                        .flatten()
                        .filter(|name| !self.order.contains_key(name.text.as_ref()))
                        .collect::<Vec<_>>()
                    {
                        self.issue(
                            format!("{path}.{key}"),
                            format!("Branch references undefined step \"{}\"", name.text),
                        );
                    }
                }
            }
            Body::Exit { output: Some(Value::String(output)), .. } => {
                self.references(step, output, &format!("{path}.output"))
            }
            Body::Exit { output: Some(Value::Object(entries)), .. } => {
                for (key, value) in entries.iter() {
                    if let Value::String(value) = value
                        && value.starts_with('$')
                    {
                        self.references(step, value, &format!("{path}.output.{key}"));
                    }
                }
            }
            _ => {}
        }
    }

    fn references(&mut self, step: &StepDefinition, text: &str, path: &str) {
        let own = self.order.get(step.id.text.as_ref()).copied();
        for name in step_references(text) {
            match self.order.get(name).copied() {
                None => self.issue(path.to_owned(), format!("References undefined step \"{name}\"")),
                Some(at) if Some(at) >= own && !self.grouped.contains(step.id.text.as_ref()) => {
                    let message =
                        format!("Step \"{}\" references step \"{name}\" which is not declared before it", step.id.text);
                    self.issue(path.to_owned(), message);
                }
                Some(_) => {}
            }
        }
    }

    fn outputs(&mut self) {
        for output in &self.definition.outputs {
            let Some(Value::String(value)) = &output.value else { continue };
            let path = format!("outputs.{}.value", output.name.text);
            if value.starts_with("$result") || value.contains("${result.") || value.contains("${result[") {
                self.issue(path.clone(), WORKFLOW_OUTPUT);
            }
            if is_scanned(value) {
                for name in
                    step_references(value).into_iter().filter(|name| !self.order.contains_key(name)).collect::<Vec<_>>()
                {
                    self.issue(path.clone(), format!("References undefined step \"{name}\""));
                }
            }
        }
    }

    /// Depth first along references, in the reference's order but with a stack of its own.
    fn cycles(&mut self) {
        let mut dependencies: HashMap<&str, Vec<&str>> = HashMap::new();
        for step in &self.definition.steps {
            let values = step.inputs.iter().filter_map(|input| input.value.as_ref().and_then(Value::as_str));
            let texts =
                values.chain([&step.condition, &step.each].into_iter().flatten().map(|text| text.text.as_ref()));
            let mut seen = HashSet::new();
            let names = texts.flat_map(step_references).filter(|name| self.order.contains_key(name));
            dependencies.insert(&step.id.text, names.filter(|name| seen.insert(*name)).collect());
        }
        let (mut visited, mut cycles) = (HashSet::new(), 0_usize);
        for step in &self.definition.steps {
            let mut path: Vec<(&str, usize)> = Vec::new();
            let mut on_path = HashSet::new();
            if visited.insert(step.id.text.as_ref()) {
                on_path.insert(step.id.text.as_ref());
                path.push((&step.id.text, 0));
            }
            while let Some((name, next)) = path.last_mut() {
                let Some(dependency) = dependencies.get(name).and_then(|names| names.get(*next)).copied() else {
                    on_path.remove(name);
                    path.pop();
                    continue;
                };
                *next += 1;
                if on_path.contains(dependency) {
                    // Each may be as long as the workflow.
                    cycles += 1;
                    if cycles > MAX_CYCLES {
                        continue;
                    }
                    let cycle: Vec<&str> = path
                        .iter()
                        .map(|(name, _)| *name)
                        .skip_while(|name| *name != dependency)
                        .chain([dependency])
                        .collect();
                    let message = format!("Cycle detected: {}", cycle.join(" → "));
                    self.issues.push(Issue { path: "steps".to_owned(), message });
                } else if visited.insert(dependency) {
                    on_path.insert(dependency);
                    path.push((dependency, 0));
                }
            }
        }
    }
}
