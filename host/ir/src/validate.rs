//! Validation of an IR: its shape first, then the meaning of its parts together.
//!
//! The rules, their codes and their messages are psi's (`psi.workflow-runtime.ir`). They hold for documents of every
//! language; the ones about what a step must declare (`:yields`, prompts, the `read` tool for skills) hold where the
//! dialect says so. Paths in diagnostics are paths into the IR's JSON; a compiler that knows the source turns them into
//! places ([`crate::source::SourceMap::locate`]).

pub mod references;
mod structure;

use crate::{
    diagnostic::{Diagnostic, Severity, did_you_mean},
    ir::{Declarations, Form, Judge, OutputSpec, SourceRef, Step, StructuredOutput, WorkflowIr, Yields},
    print::quoted,
};
use indexmap::IndexMap;
use references::Reference;
use std::{collections::HashMap, sync::Arc};

/// Everything that is wrong with a workflow: its shape, or, when that is right, its meaning.
#[must_use]
pub fn validate(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut found = structure::check(ir);
    if found.iter().all(|finding| finding.severity == Severity::Warning) {
        found.extend(meaning(ir));
    }
    found
}

fn meaning(ir: &WorkflowIr) -> Vec<Diagnostic> {
    // Of two steps with one name the later counts, as in psi; the name itself is a finding of the static checks.
    let index: HashMap<&str, (usize, &Step)> =
        ir.steps.iter().enumerate().map(|(i, step)| (step.name.as_ref(), (i, step))).collect();
    let explicit = ir.dialect.declarations == Declarations::Explicit;
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        let mut check = StepCheck { step, position: i, index: &index, explicit, found: &mut found };
        check.routing();
        check.yields();
        check.skills();
        check.structured_outputs();
        check.output_sources();
        check.prompts();
        check.judge_asks();
        for reference in references::of(step) {
            check.reference(&reference);
        }
    }
    found.extend(reused_schemas(ir));
    found
}

/// A schema that is named and versioned says the same wherever the workflow uses it.
fn reused_schemas(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut known: HashMap<(&str, Option<u64>), (&Step, &StructuredOutput)> = HashMap::new();
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        let of_judge = match &step.judge {
            Some(Judge::Llm { outputs, .. }) => Some(outputs),
            _ => None,
        };
        let outputs = step.outputs.iter().map(|output| ("outputs", output));
        let of_judge = of_judge.into_iter().flatten().map(|output| ("judge.outputs", output));
        for (path, (key, spec)) in outputs.chain(of_judge) {
            let Some(contract) = &spec.structured else { continue };
            let Some(id) = contract.schema_id.as_deref() else { continue };
            let (first, other) = *known.entry((id, contract.schema_version)).or_insert((step, contract));
            if other.json_schema != contract.json_schema || other.malli_schema != contract.malli_schema {
                let version = contract.schema_version.map(|version| format!(" version {version}")).unwrap_or_default();
                let message = format!(
                    "Step '{}': structured output :{key} uses schema :{id}{version} with another content than step '{}'",
                    step.name, first.name
                );
                let finding = Diagnostic::error("reusable-structured-output-schema-mismatch", message);
                let finding = finding.path(format!("steps[{i}].{path}.{key}"));
                found.push(finding.help("give one of them a different :schema-id or :schema-version"));
            }
        }
    }
    found
}

/// The checks of one step.
struct StepCheck<'a> {
    step: &'a Step,
    position: usize,
    index: &'a HashMap<&'a str, (usize, &'a Step)>,
    /// `true` if the step has to declare everything.
    explicit: bool,
    found: &'a mut Vec<Diagnostic>,
}

impl StepCheck<'_> {
    fn error(&mut self, code: &'static str, path: &str, message: &str, help: Option<String>) {
        let message = format!("Step '{}': {message}", self.step.name);
        let path = match path {
            "" => format!("steps[{}]", self.position),
            path => format!("steps[{}].{path}", self.position),
        };
        self.found.push(Diagnostic { help, ..Diagnostic::error(code, message).path(path) });
    }

    fn routing(&mut self) {
        match (&self.step.judge, self.step.on.is_empty()) {
            (None, false) => {
                let help = "add a :judge that gives the outcomes, or remove :on".to_owned();
                self.error("routing-without-judge", "on", "routing table (:on) requires a judge", Some(help));
            }
            (Some(_), true) => {
                let help = "say where each outcome goes: :on {\"DONE\" {:goto :done}}".to_owned();
                let message = "judge requires a non-empty routing table (:on)";
                self.error("judge-without-routing", "judge", message, Some(help));
            }
            _ => {}
        }
    }

    fn yields(&mut self) {
        let executes = matches!(self.step.form, Form::Invoke { .. } | Form::Session { .. } | Form::Delegate { .. });
        let key = match &self.step.yields {
            None if self.explicit && executes => {
                self.error("missing-yields", "", "missing :yields", None);
                return;
            }
            Some(Yields::Data { data: key } | Yields::Text { text: key }) => key,
            _ => return,
        };
        if !self.step.outputs.contains_key(key) {
            let message = format!(
                "yield references output key :{key} which is not declared in :outputs (available: {})",
                keywords(self.step.outputs.keys())
            );
            let near = did_you_mean(key, self.step.outputs.keys().map(AsRef::as_ref))
                .map(|near| format!("did you mean :{near}?"));
            self.error("missing-local-yield-output-key", "yields", &message, near);
        }
    }

    fn skills(&mut self) {
        let Form::Session { session } = &self.step.form else { return };
        // A session that declares no tools has the host's, `read` among them.
        let lacks_read = session.tools.as_ref().is_some_and(|tools| !tools.iter().any(|tool| tool == "read"));
        if self.explicit && session.skills.as_ref().is_some_and(|skills| !skills.is_empty()) && lacks_read {
            let message = "skills require the 'read' tool to be present in :tools";
            let help = "a model reads a skill's text through the `read` tool: add \"read\" to :tools".to_owned();
            self.error("skills-without-read-tool", "session.skills", message, Some(help));
        }
    }

    fn structured_outputs(&mut self) {
        let of_judge = match &self.step.judge {
            Some(Judge::Llm { outputs, .. }) => Some(outputs),
            _ => None,
        };
        for (outputs, scope, path) in
            [(Some(&self.step.outputs), "step", "outputs"), (of_judge, "judge", "judge.outputs")]
        {
            let structured = |spec: &OutputSpec| spec.structured.is_some();
            let keys: Vec<&Arc<str>> =
                outputs.into_iter().flatten().filter(|(_, spec)| structured(spec)).map(|(key, _)| key).collect();
            if keys.len() > 1 {
                let message = format!(
                    "{scope} declares multiple structured outputs {}; declare one structured output and group fields in its schema",
                    keywords(keys)
                );
                self.error("multiple-structured-outputs", path, &message, None);
            }
        }
    }

    /// psi takes any source; one that nothing produces gives null forever.
    fn output_sources(&mut self) {
        let (form, parts): (&str, &[&str]) = match &self.step.form {
            Form::Invoke { .. } => ("invoke", &["data", "summary", "details", "result"]),
            Form::Session { .. } => (
                "session",
                &["final-llm-reply", "text", "json-or-text", "transcript", "structured-output", "logprobs", "result"],
            ),
            Form::Delegate { .. } => ("delegate", &["handoff", "data", "text", "final-llm-reply", "result"]),
            Form::Transform { .. } => ("transform", &["data", "result"]),
            Form::Wait { .. } => ("wait", &["data", "result"]),
            Form::Parallel { .. } => ("parallel", &["data", "result"]),
            Form::Branch { .. } | Form::Exit { .. } => return,
        };
        let known: Vec<String> = parts.iter().map(|part| format!("{form}/{part}")).collect();
        for (key, spec) in &self.step.outputs {
            let Some(source) = spec.source.as_deref().filter(|source| !known.iter().any(|known| known == source))
            else {
                continue;
            };
            let message = format!(
                "Step '{}': output :{key} has the source :{source}, which this step never gives",
                self.step.name
            );
            let help = match did_you_mean(source, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean :{near}?"),
                None => format!("it gives {}", keywords(&known)),
            };
            let path = format!("steps[{}].outputs.{key}.source", self.position);
            self.found.push(Diagnostic::warning("unknown-output-source", message).path(path).help(help));
        }
    }

    /// A judge that is asked nothing cannot decide.
    fn judge_asks(&mut self) {
        if let Some(Judge::Llm { session, .. }) = &self.step.judge
            && session.contributions.is_empty()
        {
            let message = "an LLM judge requires :contributions; without them its model is asked nothing";
            let help = ":contributions [{:type :template :text \"Is this done? Answer YES or NO.\"}]".to_owned();
            self.error("judge-without-contributions", "judge", message, Some(help));
        }
    }

    fn prompts(&mut self) {
        let Form::Session { session } = &self.step.form else { return };
        let groups = &session.prompts;
        match (session.contributions.is_empty(), groups.is_empty()) {
            (false, false) => {
                let message = "session step declares both :contributions and :prompts; a session step carries exactly one prompt \
                               source (use :contributions for a single prompt or :prompts for a named queue, never both)";
                self.error("session-contributions-and-prompts", "session", message, None);
            }
            // A system prompt alone still gives the model something to do.
            (true, true)
                if session.system_prompt.is_none() && session.replace_system_prompt.is_none() && self.explicit =>
            {
                let message = "session step declares neither :contributions nor :prompts; a session step requires exactly one \
                               prompt source (:contributions for a single prompt or :prompts for a named queue)";
                self.error("session-without-prompt-source", "session", message, None);
            }
            _ => {}
        }
        if let Some(nameless) = groups.iter().position(|group| group.name.is_empty()) {
            let message = "a :prompts group is missing its :name; every prompt group in :prompts must be named";
            self.error("unnamed-prompt-group", &format!("session.prompts[{nameless}]"), message, None);
        }
        let mut counts: IndexMap<&str, usize> = IndexMap::new();
        for group in groups.iter().filter(|group| !group.name.is_empty()) {
            *counts.entry(group.name.as_ref()).or_default() += 1;
        }
        let twice: Vec<String> = counts.iter().filter(|(_, n)| **n > 1).map(|(name, _)| quoted(name)).collect();
        if !twice.is_empty() {
            let message = format!(
                ":prompts declares duplicate prompt-group name(s) [{}]; prompt-group names must be unique within a step",
                twice.join(" ")
            );
            self.error("duplicate-prompt-group-name", "session.prompts", &message, None);
        }
    }

    fn reference(&mut self, reference: &Reference<'_>) {
        let target_name = match reference.source {
            SourceRef::Output { step, .. } | SourceRef::Yield { step, .. } => step,
            SourceRef::WorkflowInput
            | SourceRef::WorkflowOriginal
            | SourceRef::Handover
            | SourceRef::Artifact { .. } => return,
        };
        let path = reference.path.as_str();
        let Some(&(target_position, target)) = self.index.get(target_name.as_ref()) else {
            let near =
                did_you_mean(target_name, self.index.keys().copied()).map(|near| format!("did you mean '{near}'?"));
            let message = format!("references unknown step '{target_name}'");
            self.error("missing-step-ref", path, &message, near);
            return;
        };
        let same_step = target.name == self.step.name;
        let own_invoke_judge = reference.in_judge && matches!(self.step.judge, Some(Judge::Invoke { .. }));
        let not_prior =
            format!("references step '{target_name}' which is not prior (forward/self references are not allowed)");
        match reference.source {
            SourceRef::Output { prompt: Some(group), output, .. } => {
                if !self.prompt_reference(path, target, group, output) {
                    return;
                }
                if same_step && !reference.in_judge {
                    let message = ":prompt ref targets the same step being assembled (sibling-group refs are only permitted in the \
                                   step's own post-drain judge)";
                    self.error("prompt-ref-same-step", path, message, None);
                } else if !same_step && target_position >= self.position {
                    self.error("non-prior-step-ref", path, &not_prior, None);
                }
            }
            // A step's own invoke judge runs after the step, and sees its declared outputs.
            SourceRef::Output { output, .. }
                if same_step && own_invoke_judge && target.outputs.contains_key(output) => {}
            _ if target_position >= self.position => {
                self.error("non-prior-step-ref", path, &not_prior, None);
            }
            SourceRef::Output { output, .. } if !target.outputs.contains_key(output) => {
                let message = format!(
                    "references output key :{output} of step '{target_name}' but that key is not declared (available: {})",
                    keywords(target.outputs.keys())
                );
                let near = did_you_mean(output, target.outputs.keys().map(AsRef::as_ref));
                self.error("missing-output-key", path, &message, near.map(|near| format!("did you mean :{near}?")));
            }
            SourceRef::Yield { field, .. } if !yield_fields(target).contains(&field.as_ref()) => {
                let message = format!(
                    "references yield field :{field} of step '{target_name}' but that field is not available (available: {})",
                    keywords(yield_fields(target))
                );
                self.error("missing-yield-field", path, &message, None);
            }
            _ => {}
        }
    }

    /// Checks a `:prompt` reference apart from its order; returns `true` when nothing is wrong.
    fn prompt_reference(&mut self, path: &str, target: &Step, group: &str, output: &str) -> bool {
        const SURFACES: [&str; 2] = ["final-llm-reply", "transcript"];
        let name = &target.name;
        let Form::Session { session } = &target.form else {
            let message = format!(":prompt ref targets step '{name}' which is not a :session step");
            self.error("prompt-ref-non-session-step", path, &message, None);
            return false;
        };
        if session.prompts.is_empty() {
            let message = format!(":prompt ref targets single-prompt step '{name}' which has no named prompt groups");
            self.error("prompt-ref-single-prompt-step", path, &message, None);
            return false;
        }
        let groups = || session.prompts.iter().map(|group| group.name.as_ref());
        if !groups().any(|name| name == group) {
            let available: Vec<String> = groups().map(quoted).collect();
            let message = format!(
                ":prompt ref names group {} which is not a declared group of step '{name}' (available: [{}])",
                quoted(group),
                available.join(" ")
            );
            let near = did_you_mean(group, groups()).map(|near| format!("did you mean {}?", quoted(near)));
            self.error("prompt-ref-unknown-group", path, &message, near);
            return false;
        }
        if !SURFACES.contains(&output) {
            let message = format!(
                ":prompt ref output key :{output} is not a per-prompt text surface (available: {})",
                keywords(SURFACES)
            );
            self.error("prompt-ref-non-text-surface", path, &message, None);
            return false;
        }
        true
    }
}

/// The fields of a step's yielded value.
fn yield_fields(step: &Step) -> &'static [&'static str] {
    match step.yields {
        Some(Yields::Data { .. }) => &["data"],
        Some(Yields::Text { .. }) => &["text"],
        // What the callee yields; which of the two is known where the callee is (`checks::callees`).
        Some(Yields::Delegated) => &["data", "text"],
        Some(Yields::Error { .. }) => &["reason", "message", "details"],
        None => &[],
    }
}

/// Names that one message lists: each of a document's messages may list them.
const LISTED: usize = 20;

/// `[:a :b]`; of very many, the first.
fn keywords<K: AsRef<str>>(names: impl IntoIterator<Item = K>) -> String {
    let mut names = names.into_iter();
    let mut listed: Vec<String> = names.by_ref().take(LISTED).map(|name| format!(":{}", name.as_ref())).collect();
    if names.next().is_some() {
        listed.push("…".to_owned());
    }
    format!("[{}]", listed.join(" "))
}

#[cfg(test)]
mod tests;
