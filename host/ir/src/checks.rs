//! Static checks beyond what any reference runtime makes: the ways through a workflow ([`flow`]), and the names it uses
//! ([`names`]).
//!
//! What a reference runtime accepts is a warning here; a strict caller treats warnings as errors.

mod arguments;
mod callees;
mod graph;

use crate::{
    diagnostic::{Diagnostic, did_you_mean},
    ir::{
        Contribution, DelegateTarget, Form, Goto, Invoke, Judge, Printing, Session, SourceRef, SourceSpec, Step,
        WorkflowIr,
    },
    names::Outcome,
    validate::references,
};
use graph::Graph;
use indexmap::IndexSet;
use std::{
    cell::{LazyCell, OnceCell},
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The code of a finding about an operation that the host does not have.
pub const UNKNOWN_OPERATION: &str = "unknown-operation";

/// The operations, tools, skills and workflows that a host has. `None` means unknown, and disables the checks that need
/// it.
pub trait Catalog {
    /// Ids of operations, and of judges that are called like operations.
    fn operations(&self) -> Option<Vec<String>> {
        None
    }
    /// Names of workflows.
    fn workflows(&self) -> Option<Vec<String>> {
        None
    }
    /// Names of skills.
    fn skills(&self) -> Option<Vec<String>> {
        None
    }
    /// Names of tools.
    fn tools(&self) -> Option<Vec<String>> {
        None
    }
    /// A workflow by name.
    fn workflow(&self, _name: &str) -> Option<Arc<WorkflowIr>> {
        None
    }
    /// The operation that a tool is bound to although no plugin offers it, and what would help.
    fn broken_binding(&self, _tool: &str) -> Option<(String, Option<String>)> {
        None
    }
    /// The JSON Schema of what an operation or a judge takes.
    fn arguments(&self, _id: &str) -> Option<serde_json::Value> {
        None
    }
    /// Returns `true` if an id is a judge's, which steps cannot invoke.
    fn is_judge(&self, _id: &str) -> bool {
        false
    }
    /// The problems that keep a session from opening here, names of tools, skills and workflows aside.
    fn session_problems(&self, _session: &Session) -> Vec<SessionProblem> {
        Vec::new()
    }
    /// Every outcome that a judge's call can give.
    fn outcomes(&self, _call: &Invoke) -> Option<Vec<Outcome>> {
        None
    }
}

/// A problem that keeps a session from opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionProblem {
    /// The session's key, `model`.
    pub key: &'static str,
    /// Stable, kebab-case.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
}

/// Checks the ways through a workflow: duplicate names, transitions to steps that do not exist, steps that nothing
/// reaches, references to steps that some way there never runs, loops without a bound. Time is about linear in steps
/// and transitions.
#[must_use]
pub fn flow(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut found = duplicate_names(ir);
    found.extend(unknown_targets(ir));
    let graph = Graph::of(ir);
    let reached = graph.reached();
    for (i, step) in ir.steps.iter().enumerate() {
        if !reached.contains(&i) {
            let message = format!("Step '{}': no path reaches it", step.name);
            found.push(Diagnostic::warning("unreachable-step", message).path(format!("steps[{i}]")));
        }
    }
    found.extend(unset_references(ir, &graph, &reached));
    found.extend(nothing_asked(ir));
    if ir.dialect.printing == Printing::Edn {
        found.extend(arguments::inputs(ir));
    }
    if ir.limits.total_visits.is_none() {
        found.extend(graph.unbounded_loops(&reached).into_iter().map(|members| {
            let names: Vec<String> =
                members.iter().filter_map(|i| ir.steps.get(*i)).map(|step| format!("'{}'", step.name)).collect();
            let first = members.first().copied().unwrap_or_default();
            let message = format!("steps {} form a loop without a bound", names.join(", "));
            Diagnostic::warning("unbounded-loop", message)
                .path(format!("steps[{first}]"))
                .help("set :max-iterations on a transition of the loop or on one of its steps")
        }));
    }
    found
}

/// Conversations that end with what a model said: the model that is given them continues from its own words, and no one
/// asks it anything.
fn nothing_asked(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let steps = LazyCell::new(|| by_name(ir));
    let is_transcript = |contribution: &Contribution| {
        let Contribution::Source(SourceSpec { from: SourceRef::Output { step, output, .. }, .. }) = contribution else {
            return false;
        };
        let spec = steps.get(step.as_ref()).and_then(|step| step.outputs.get(output));
        spec.and_then(|spec| spec.source.as_deref()).is_some_and(|source| source.ends_with("/transcript"))
    };
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        let mut asked: Vec<(String, &[Contribution])> = Vec::new();
        if let Form::Session { session } = &step.form {
            asked.push((format!("steps[{i}].session.contributions"), &session.contributions));
            for (j, group) in session.prompts.iter().enumerate() {
                asked.push((format!("steps[{i}].session.prompts[{j}].contributions"), &group.contributions));
            }
        }
        if let Some(Judge::Llm { session, .. }) = &step.judge {
            asked.push((format!("steps[{i}].judge.session.contributions"), &session.contributions));
        }
        for (path, contributions) in asked {
            let Some(last) =
                contributions.len().checked_sub(1).filter(|at| contributions.get(*at).is_some_and(is_transcript))
            else {
                continue;
            };
            let message =
                format!("Step '{}': the conversation ends with a transcript, and asks nothing after it", step.name);
            let warning = Diagnostic::warning("nothing-asked", message).path(format!("{path}[{last}]"));
            found.push(warning.help("add a {:type :template :text \"…\"} that says what is asked"));
        }
    }
    found
}

/// The steps by their names; the first of one name.
fn by_name(ir: &WorkflowIr) -> HashMap<&str, &Step> {
    ir.steps.iter().rev().map(|step| (step.name.as_ref(), step)).collect()
}

fn duplicate_names(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let mut seen = HashSet::new();
    let duplicates = ir.steps.iter().enumerate().filter(|(_, step)| !seen.insert(&step.name));
    duplicates
        .map(|(i, step)| {
            let message = format!(
                "Step '{}': another step has the same name; references and transitions find only one",
                step.name
            );
            Diagnostic::warning("duplicate-step-name", message).path(format!("steps[{i}].name"))
        })
        .collect()
}

fn unknown_targets(ir: &WorkflowIr) -> Vec<Diagnostic> {
    let names: HashSet<&str> = ir.steps.iter().map(|step| step.name.as_ref()).collect();
    let mut found = Vec::new();
    let mut check = |target: &str, step: &str, path: String| {
        if names.contains(target) {
            return;
        }
        let warning = Diagnostic::warning("unknown-step", format!("Step '{step}': goto names unknown step '{target}'"));
        let warning = warning.path(path);
        found.push(match did_you_mean(target, ir.steps.iter().map(|step| step.name.as_ref())) {
            Some(near) => warning.help(format!("did you mean '{near}'?")),
            None => warning,
        });
    };
    let first = ir.steps.iter().position(|step| !step.grouped);
    let mut nowhere = Vec::new();
    for (i, step) in ir.steps.iter().enumerate() {
        for (j, route) in step.on.iter().enumerate() {
            for (goto, key) in [(Some(&route.goto), "goto"), (route.on_max_iterations.as_ref(), "on-max-iterations")] {
                if goto == Some(&Goto::Previous) && first == Some(i) {
                    let message =
                        format!("Step '{}': there is no step before it, and a run that goes there fails", step.name);
                    let warning = Diagnostic::warning("no-previous-step", message);
                    nowhere.push(warning.path(format!("steps[{i}].on[{j}].{key}")).help("name a step, or :done"));
                }
                if let Some(Goto::Step(target)) = goto {
                    check(target, &step.name, format!("steps[{i}].on[{j}].{key}"));
                }
            }
        }
        if let Some(target) = &step.on_max_visits {
            check(target, &step.name, format!("steps[{i}].on-max-visits"));
        }
        match &step.form {
            Form::Branch { branch } => {
                for target in branch.then.iter().chain(&branch.otherwise) {
                    check(target, &step.name, format!("steps[{i}].branch"));
                }
            }
            Form::Parallel { parallel } => {
                for target in parallel.branches.iter().flatten() {
                    check(target, &step.name, format!("steps[{i}].parallel.branches"));
                }
            }
            _ => {}
        }
    }
    found.extend(nowhere);
    found
}

/// References to steps that some way to the reader never runs: they give null there.
fn unset_references(ir: &WorkflowIr, graph: &Graph, reached: &HashSet<usize>) -> Vec<Diagnostic> {
    let index: HashMap<&str, usize> = ir.steps.iter().enumerate().map(|(i, step)| (step.name.as_ref(), i)).collect();
    let dominance = graph.dominance();
    let mut found = Vec::new();
    for (i, step) in ir.steps.iter().enumerate().filter(|(i, _)| reached.contains(i)) {
        let mut reported = HashSet::new();
        for reference in references::of(step) {
            let (SourceRef::Output { step: target, .. } | SourceRef::Yield { step: target, .. }) = reference.source
            else {
                continue;
            };
            let Some(&target_index) = index.get(target.as_ref()) else { continue };
            if target_index == i || dominance.is_before(target_index, i) || !reported.insert(target_index) {
                continue;
            }
            let message = format!(
                "Step '{}': references step '{target}', which some path to this step skips; the value is null then",
                step.name
            );
            found.push(
                Diagnostic::warning("possibly-unset-ref", message).path(format!("steps[{i}].{}", reference.path)),
            );
        }
    }
    found
}

/// Checks the names that a workflow uses against what a host has.
#[must_use]
pub fn names(ir: &WorkflowIr, catalog: &dyn Catalog) -> Vec<Diagnostic> {
    opcell_types::suggest::bounded(|| all_names(ir, catalog))
}

fn all_names(ir: &WorkflowIr, catalog: &dyn Catalog) -> Vec<Diagnostic> {
    let mut check = Names {
        catalog,
        own: &ir.workflows,
        operations: OnceCell::new(),
        workflows: OnceCell::new(),
        skills: OnceCell::new(),
        tools: OnceCell::new(),
        found: Vec::new(),
    };
    steps(ir, "", catalog, &mut check);
    check.found.extend(callees::check(ir, "", catalog));
    check.found.extend(arguments::calls(ir, "", catalog));
    for (at, own) in ir.workflows.iter().enumerate() {
        check.found.extend(arguments::calls(own, &format!("workflows[{at}]."), catalog));
        steps(own, &format!("workflows[{at}]."), catalog, &mut check);
    }
    check.found
}

fn steps(ir: &WorkflowIr, place: &str, catalog: &dyn Catalog, check: &mut Names<'_>) {
    for (i, step) in ir.steps.iter().enumerate() {
        let at = |path: &str| format!("{place}steps[{i}].{path}");
        match &step.form {
            Form::Invoke { invoke } if catalog.is_judge(&invoke.operation) => {
                let message =
                    format!("Step '{}': `{}` is a judge, and a step invokes operations", step.name, invoke.operation);
                let warning = Diagnostic::warning("judge-as-operation", message).path(at("invoke.operation"));
                // Only documents in EDN route by judges that are code.
                let help = match ir.dialect.printing {
                    Printing::Edn => "give it to a step as its :judge {:type :invoke :operation …}",
                    Printing::Javascript | Printing::Go => "name an operation instead of a judge",
                };
                check.found.push(warning.help(help));
            }
            Form::Invoke { invoke } => check.operation(&invoke.operation, at("invoke.operation")),
            Form::Session { session } => check.session(session, &at("session"), catalog),
            Form::Delegate { delegate } => {
                check.session(&delegate.session, &at("delegate.session"), catalog);
                if let DelegateTarget::Name(name) = &delegate.target {
                    check.workflow(name, at("delegate.target"));
                }
            }
            _ => {}
        }
        let possible = match &step.judge {
            Some(Judge::Invoke { invoke }) => {
                check.operation(&invoke.operation, at("judge.invoke.operation"));
                catalog.outcomes(invoke)
            }
            Some(Judge::Llm { session, .. }) => {
                check.session(session, &at("judge.session"), catalog);
                None
            }
            _ => None,
        };
        let Some(possible) = possible else { continue };
        for (j, route) in step.on.iter().enumerate().filter(|(_, route)| !possible.contains(&route.outcome)) {
            let listed: Vec<String> = possible.iter().map(ToString::to_string).collect();
            let message = format!("Step '{}': the judge never returns {}", step.name, route.outcome);
            let warning = Diagnostic::warning("impossible-outcome", message).path(at(&format!("on[{j}]")));
            check.found.push(warning.help(format!("it gives {}", listed.join(", "))));
        }
        for outcome in possible.iter().filter(|outcome| step.on.iter().all(|route| route.outcome != **outcome)) {
            let message = format!(
                "Step '{}': the judge may return {outcome}, which :on does not route; the run fails then",
                step.name
            );
            check.found.push(Diagnostic::warning("unrouted-outcome", message).path(at("on")));
        }
    }
}

/// The names of one kind that a host has, in its order; `None` if it does not say. A list is made when a document first
/// needs it: made for each document of a project, the names of its workflows alone would cost the square of their number.
type Known = OnceCell<Option<IndexSet<String>>>;

fn known(cell: &Known, names: impl FnOnce() -> Option<Vec<String>>) -> Option<&IndexSet<String>> {
    cell.get_or_init(|| names().map(|names| names.into_iter().collect())).as_ref()
}

struct Names<'c> {
    catalog: &'c dyn Catalog,
    /// The workflows that the document itself defines.
    own: &'c [Arc<WorkflowIr>],
    operations: Known,
    workflows: Known,
    skills: Known,
    tools: Known,
    found: Vec<Diagnostic>,
}

impl Names<'_> {
    fn session(&mut self, session: &Session, path: &str, catalog: &dyn Catalog) {
        for SessionProblem { key, code, message } in catalog.session_problems(session) {
            self.found.push(Diagnostic::warning(code, message).path(format!("{path}.{key}")));
        }
        for (i, name) in session.tools.iter().flatten().enumerate() {
            let before = self.found.len();
            let tools = known(&self.tools, || self.catalog.tools());
            unknown("tool", name, tools, format!("{path}.tools[{i}]"), &mut self.found);
            if session.tool_shapes.contains_key(name)
                && let Some(unbound) = self.found.get_mut(before)
            {
                unbound.help =
                    Some(format!("bind it under [tools] of the project: \"{name}\" = \"namespace/operation\""));
            }
            self.explain_binding(name, before);
        }
        for (i, name) in session.skills.iter().flatten().enumerate() {
            let skills = known(&self.skills, || self.catalog.skills());
            unknown("skill", name, skills, format!("{path}.skills[{i}]"), &mut self.found);
        }
        for (i, name) in session.workflows.iter().flatten().enumerate() {
            self.workflow(name, format!("{path}.workflows[{i}]"));
        }
    }

    fn workflow(&mut self, name: &str, path: String) {
        if self.catalog.workflow(name).is_some() {
            return;
        }
        let workflows = known(&self.workflows, || {
            let mut names = self.catalog.workflows()?;
            names.extend(self.own.iter().map(|own| own.name.to_string()));
            Some(names)
        });
        unknown("workflow", name, workflows, path, &mut self.found);
    }

    fn operation(&mut self, name: &str, path: String) {
        let before = self.found.len();
        let operations = known(&self.operations, || self.catalog.operations());
        unknown("operation", name, operations, path, &mut self.found);
        self.explain_binding(name, before);
    }

    /// A tool whose operation is missing is known: the finding is about its binding.
    fn explain_binding(&mut self, name: &str, finding: usize) {
        let Some(finding) = self.found.get_mut(finding) else { return };
        if let Some((target, help)) = self.catalog.broken_binding(name) {
            finding.message = format!("[tools] binds `{name}` to `{target}`, which no plugin of the project offers");
            finding.help = help;
        }
    }
}

fn unknown(what: &str, name: &str, known: Option<&IndexSet<String>>, path: String, found: &mut Vec<Diagnostic>) {
    let Some(known) = known.filter(|known| !known.contains(name)) else { return };
    let code = match what {
        "tool" => "unknown-tool",
        "skill" => "unknown-skill",
        "workflow" => "unknown-workflow",
        _ => UNKNOWN_OPERATION,
    };
    let warning = Diagnostic::warning(code, format!("there is no {what} `{name}` in this project")).path(path);
    found.push(match did_you_mean(name, known.iter().map(String::as_str)) {
        Some(near) => warning.help(format!("did you mean `{near}`?")),
        None => warning,
    });
}
