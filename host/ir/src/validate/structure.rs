//! Checks of the IR's shape that its types cannot express: ranges, and fields that exclude or need each other.

use crate::{
    diagnostic::Diagnostic,
    ir::{Contribution, Form, Judge, PromptString, Session, SourceSpec, Template, ValueSpec, WorkflowIr},
    names::{self, MAX_NAME_BYTES},
    template,
};

pub(super) fn check(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut shape = Shape { found: Vec::new() };
    if ir.steps.is_empty() {
        shape.invalid("steps".to_owned(), "expected at least one step");
    }
    for (i, step) in ir.steps.iter().enumerate() {
        let at = |path: &str| format!("steps[{i}].{path}");
        if step.name.is_empty() {
            shape.invalid(at("name"), "expected a name that is not empty");
        }
        if step.name.len() > MAX_NAME_BYTES {
            shape.invalid(at("name"), "expected a name of at most 1,024 bytes");
        }
        if step.max_iterations == Some(0) {
            shape.invalid(at("max-iterations"), "expected an integer from 1");
        }
        if step.timeout_ms == Some(0) {
            shape.invalid(at("timeout-ms"), "expected an integer from 1");
        }
        for (j, route) in step.on.iter().enumerate() {
            if route.max_iterations == Some(0) {
                shape.invalid(at(&format!("on[{j}].max-iterations")), "expected an integer from 1");
            }
            if route.on_max_iterations.is_some() && route.max_iterations.is_none() {
                shape.invalid(at(&format!("on[{j}].on-max-iterations")), "`on-max-iterations` needs `max-iterations`");
            }
        }
        match &step.form {
            Form::Session { session } => {
                shape.session(session, &at("session"));
                shape.contributions(&session.contributions, &at("session.contributions"));
                for (j, group) in session.prompts.iter().enumerate() {
                    shape.contributions(&group.contributions, &at(&format!("session.prompts[{j}].contributions")));
                }
            }
            Form::Delegate { delegate } => {
                shape.session(&delegate.session, &at("delegate.session"));
                if is_conversation(&delegate.session) {
                    let expected = "a delegate sets how its callee's sessions run, not what they say";
                    shape.invalid(at("delegate.session"), expected);
                }
                if let PromptString::Template(template) = &delegate.prompt_string {
                    shape.template(template, &at("delegate.prompt-string"));
                }
                for (j, contribution) in delegate.context.iter().enumerate() {
                    match contribution {
                        Contribution::Source(spec) => shape.source(spec, &at(&format!("delegate.context[{j}]"))),
                        Contribution::Template(_) | Contribution::Value { .. } => {
                            shape.invalid(
                                at(&format!("delegate.context[{j}]")),
                                "expected a source: context is forwarded as it is",
                            );
                        }
                    }
                }
            }
            Form::Invoke { invoke } => shape.values(&invoke.args, &at("invoke.args")),
            Form::Parallel { parallel } if parallel.branches.len() < 2 => {
                shape.invalid(at("parallel.branches"), "expected at least two branches");
            }
            _ => {}
        }
        match &step.judge {
            Some(Judge::Llm { session, .. }) => {
                shape.session(session, &at("judge.session"));
                shape.contributions(&session.contributions, &at("judge.session.contributions"));
            }
            Some(Judge::Invoke { invoke }) => shape.values(&invoke.args, &at("judge.invoke.args")),
            _ => {}
        }
    }
    shape.found
}

/// Returns `true` if a session has settings that only a session step uses.
fn is_conversation(session: &Session) -> bool {
    !(session.contributions.is_empty()
        && session.prompts.is_empty()
        && session.variables.is_empty()
        && session.agents.is_empty()
        && session.own_skills.is_empty()
        && session.tool_shapes.is_empty()
        && session.final_tool.is_none()
        && session.replace_system_prompt.is_none())
}

struct Shape {
    found: Vec<Diagnostic>,
}

impl Shape {
    fn invalid(&mut self, path: String, expected: &str) {
        let message = format!("Structural error at [{}]: invalid value", edn_path(&path));
        self.found.push(Diagnostic::error("structural-error", message).path(path).help(expected));
    }

    fn session(&mut self, session: &Session, path: &str) {
        if session.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            self.invalid(format!("{path}.temperature"), "expected a number from 0.0 to 2.0");
        }
        if session.top_logprobs.is_some_and(|n| !(1..=20).contains(&n)) {
            self.invalid(format!("{path}.top-logprobs"), "expected an integer from 1 to 20");
        }
        if session.session_profile.as_ref().is_some_and(|name| !names::is_profile_name(name)) {
            self.invalid(
                format!("{path}.session-profile"),
                "session-profile must match /session-profile token grammar and must not be reserved",
            );
        }
    }

    fn contributions(&mut self, contributions: &[Contribution], path: &str) {
        for (i, contribution) in contributions.iter().enumerate() {
            match contribution {
                Contribution::Source(spec) => self.source(spec, &format!("{path}[{i}]")),
                Contribution::Template(template) => self.template(template, &format!("{path}[{i}]")),
                Contribution::Value { value } => self.value(value, &format!("{path}[{i}].value")),
            }
        }
    }

    fn template(&mut self, template: &Template, path: &str) {
        for (name, spec) in &template.vars {
            self.source(spec, &format!("{path}.vars.{name}"));
        }
        for token in template::tokens(&template.text, |name| template.vars.contains_key(name)) {
            if !template.vars.contains_key(token.name) {
                let message = format!("Template token {{{{{}}}}} is not bound in :vars", token.name);
                self.found.push(Diagnostic::warning("unbound-token", message).path(format!("{path}.text")));
            }
        }
    }

    fn source(&mut self, spec: &SourceSpec, path: &str) {
        if spec.path.is_some() && spec.projection.is_some() {
            self.invalid(path.to_owned(), "source-spec cannot contain both :path and :projection");
        }
    }

    fn values<'a>(&mut self, specs: impl IntoIterator<Item = (&'a std::sync::Arc<str>, &'a ValueSpec)>, path: &str) {
        for (name, spec) in specs {
            self.value(spec, &format!("{path}.{name}"));
        }
    }

    fn value(&mut self, spec: &ValueSpec, path: &str) {
        match spec {
            ValueSpec::Source(spec) => self.source(spec, path),
            ValueSpec::Template(template) => self.template(template, path),
            _ => {}
        }
    }
}

/// `steps[0].session.model` as psi writes it: `:steps 0 :session :model`.
fn edn_path(path: &str) -> String {
    let segments: Vec<String> = path
        .split(['.', '[', ']'])
        .filter(|segment| !segment.is_empty())
        .map(
            |segment| {
                if segment.bytes().all(|b| b.is_ascii_digit()) { segment.to_owned() } else { format!(":{segment}") }
            },
        )
        .collect();
    segments.join(" ")
}
