//! Every reference that a step makes to something the run has.

use crate::ir::{
    Contribution, DelegateTarget, Form, Judge, PathSegment, PromptString, SourceRef, SourceSpec, Step, Template,
    ValueSpec,
};

/// A reference and where it is in its step.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference<'a> {
    /// To what.
    pub source: &'a SourceRef,
    /// The part of it that is named, if any is.
    pub within: Option<&'a [PathSegment]>,
    /// Path below the step, `session.contributions[0].from`.
    pub path: String,
    /// `true` if the step's judge makes it, after the step has run.
    pub in_judge: bool,
}

/// All references of a step: its body's first, then its judge's.
#[must_use]
pub fn of(step: &Step) -> Vec<Reference<'_>> {
    let mut collector = Collector { found: Vec::new(), in_judge: false };
    collector.form(&step.form);
    for (key, output) in &step.outputs {
        if let Some(spec) = &output.value {
            collector.value(spec, format!("outputs.{key}.value"));
        }
    }
    collector.in_judge = true;
    match &step.judge {
        Some(Judge::Llm { session, .. }) => {
            collector.contributions(&session.contributions, "judge.session.contributions");
        }
        Some(Judge::Invoke { invoke }) => collector.values(&invoke.args, "judge.invoke.args"),
        Some(Judge::Event { .. } | Judge::Expression { .. }) | None => {}
    }
    collector.found
}

struct Collector<'a> {
    found: Vec<Reference<'a>>,
    in_judge: bool,
}

impl<'a> Collector<'a> {
    fn form(&mut self, form: &'a Form) {
        match form {
            Form::Invoke { invoke } => self.values(&invoke.args, "invoke.args"),
            Form::Session { session } => {
                self.contributions(&session.contributions, "session.contributions");
                for (i, group) in session.prompts.iter().enumerate() {
                    self.contributions(&group.contributions, &format!("session.prompts[{i}].contributions"));
                }
                self.values(&session.variables, "session.variables");
            }
            Form::Delegate { delegate } => {
                if let DelegateTarget::Dynamic(spec) = &delegate.target {
                    self.source(spec, "delegate.target");
                }
                match &delegate.prompt_string {
                    PromptString::Text(_) => {}
                    PromptString::Template(template) => self.template(template, "delegate.prompt-string"),
                    PromptString::Fields { fields } => self.values(fields, "delegate.prompt-string.fields"),
                    PromptString::Source(spec) => self.source(spec, "delegate.prompt-string"),
                }
                self.contributions(&delegate.context, "delegate.context");
            }
            Form::Transform { transform } => self.values(&transform.inputs, "transform.inputs"),
            Form::Branch { branch } => self.values(&branch.inputs, "branch.inputs"),
            Form::Exit { exit } => {
                if let Some(output) = &exit.output {
                    self.value(output, "exit.output".to_owned());
                }
                self.values(&exit.inputs, "exit.inputs");
            }
            Form::Wait { wait } => {
                if let Some(question) = &wait.question {
                    self.template(question, "wait.question");
                }
            }
            Form::Parallel { .. } => {}
        }
    }

    fn contributions(&mut self, contributions: &'a [Contribution], path: &str) {
        for (i, contribution) in contributions.iter().enumerate() {
            match contribution {
                Contribution::Source(spec) => self.source(spec, &format!("{path}[{i}]")),
                Contribution::Template(template) => self.template(template, &format!("{path}[{i}]")),
                Contribution::Value { value } => self.value(value, format!("{path}[{i}].value")),
            }
        }
    }

    fn template(&mut self, template: &'a Template, path: &str) {
        for (name, spec) in &template.vars {
            self.source(spec, &format!("{path}.vars.{name}"));
        }
    }

    fn source(&mut self, spec: &'a SourceSpec, path: &str) {
        let within = spec.path.as_deref();
        let path = format!("{path}.from");
        self.found.push(Reference { source: &spec.from, within, path, in_judge: self.in_judge });
    }

    fn values(&mut self, specs: impl IntoIterator<Item = (impl std::fmt::Display, &'a ValueSpec)>, path: &str) {
        for (name, spec) in specs {
            self.value(spec, format!("{path}.{name}"));
        }
    }

    /// An explicit stack: specs nest as deep as their document does.
    fn value(&mut self, spec: &'a ValueSpec, path: String) {
        let mut open = vec![(spec, path)];
        while let Some((spec, path)) = open.pop() {
            match spec {
                ValueSpec::Source(spec) => self.source(spec, &path),
                ValueSpec::Template(template) => self.template(template, &path),
                ValueSpec::Fields { fields } => {
                    open.extend(fields.iter().rev().map(|(name, spec)| (spec, format!("{path}.fields.{name}"))));
                }
                ValueSpec::Items { items } => {
                    let items = items.iter().enumerate().rev();
                    open.extend(items.map(|(i, spec)| (spec, format!("{path}.items[{i}]"))));
                }
                ValueSpec::Literal { .. } | ValueSpec::Expression { .. } | ValueSpec::Interpolation { .. } => {}
            }
        }
    }
}
