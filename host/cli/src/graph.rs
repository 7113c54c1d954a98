//! A workflow as a picture: its steps, its judges' outcomes on the edges, and, after a run, the way that the run took.
//!
//! [`Drawing`] is what there is to draw; [`Drawing::mermaid`], [`Drawing::dot`] and [`Drawing::svg`] write it.

mod canvas;
mod dot;
mod mermaid;
mod path;
mod svg;
#[cfg(test)]
mod tests;

pub use path::{Path, Taken};
pub use svg::Undrawable;

use opcell_ir::{
    WorkflowIr,
    ir::{DelegateTarget, Form, Goto, Judge, Orchestration, Route, RunLimits, Step},
    names::Outcome,
};
use std::collections::HashMap;

/// A picture before it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// The steps, in authored order.
    pub nodes: Vec<Node>,
    /// Every way that control can take, in authored order.
    pub edges: Vec<Edge>,
    /// The step that a run starts with.
    pub entry: usize,
}

/// A step.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name, and what it executes.
    pub lines: Vec<String>,
    /// The outline, by the kind of work.
    pub shape: Shape,
    /// The number of times the run entered it; absent without a run.
    pub visits: Option<u32>,
    /// The state of the step in the run.
    pub mark: Mark,
}

/// The state of a step in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The run has not reached it, or there is no run.
    Plain,
    /// It ended.
    Done,
    /// It is being executed.
    Running,
    /// It waits: for a person, a signal or a timer.
    Waiting,
    /// Its guard was false.
    Skipped,
    /// The run ended here with a failure.
    Failed,
}

impl Mark {
    /// The word that a picture shows, so that colour is not the only difference.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Done => None,
            Self::Running => Some("running"),
            Self::Waiting => Some("waiting"),
            Self::Skipped => Some("skipped"),
            Self::Failed => Some("failed"),
        }
    }

    /// The colours and the line.
    fn tone(self) -> &'static Tone {
        let index = match self {
            Self::Plain => 0,
            Self::Done => 1,
            Self::Running => 2,
            Self::Waiting => 3,
            Self::Skipped => 4,
            Self::Failed => 5,
        };
        TONES.get(index).unwrap_or(&TONES[0])
    }
}

/// The colours of a [`Mark`] as `0xrrggbb`, on light and on dark ground.
#[derive(Debug, PartialEq, Eq)]
struct Tone {
    /// The name of its class.
    name: &'static str,
    line: u32,
    fill: u32,
    dark_line: u32,
    dark_fill: u32,
    /// Lengths of dashes and gaps; empty for a whole line.
    dashes: &'static str,
}

/// In the order of [`Mark::tone`]. No two have one line colour: the canvas recognizes them by it.
const TONES: [Tone; 6] = [
    tone("plain", (0x57_65_75, 0xff_ff_ff), (0x8b_96_a5, 0x1d_21_27), ""),
    tone("done", (0x1a_7f_37, 0xdc_f5_e3), (0x3f_b9_50, 0x12_30_1c), ""),
    tone("running", (0x0b_57_d0, 0xdb_e8_fd), (0x8a_b4_f8, 0x14_27_4a), ""),
    tone("waiting", (0x8a_53_00, 0xff_f0_d0), (0xfd_bb_4b, 0x3a_2a_0c), "6 3"),
    tone("skipped", (0x6b_77_86, 0xf0_f1_f3), (0x7c_87_95, 0x23_27_2e), "2 3"),
    tone("failed", (0xcf_22_2e, 0xff_e1_df), (0xf2_87_7f, 0x3f_17_13), ""),
];

const fn tone(name: &'static str, light: (u32, u32), dark: (u32, u32), dashes: &'static str) -> Tone {
    Tone { name, line: light.0, fill: light.1, dark_line: dark.0, dark_fill: dark.1, dashes }
}

/// The outline of a step, by its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An operation.
    Operation,
    /// A model conversation.
    Session,
    /// Another workflow.
    Delegate,
    /// Native work: transform.
    Transform,
    /// A choice.
    Branch,
    /// Several groups at once.
    Parallel,
    /// An end.
    Exit,
    /// Waiting for someone.
    Wait,
}

/// A way that control can take.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// From which step.
    pub from: usize,
    /// Destination.
    pub to: Target,
    /// The judge's outcome that leads this way, who decides, and what bounds it; empty where nothing decides.
    pub lines: Vec<String>,
    /// The name of the edge in [`Path`].
    taken_as: Option<Taken>,
    /// The number of times the run took this route; absent without a run.
    pub taken: Option<u32>,
}

/// The target of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A step.
    Step(usize),
    /// The end.
    Done,
    /// A step that the workflow does not have.
    Unknown,
}

impl Drawing {
    /// Returns the graph of a workflow; with a path, marked with that of a run.
    #[must_use]
    pub fn of(workflow: &WorkflowIr, path: Option<&Path>) -> Self {
        let entry = workflow.entry.as_ref().and_then(|name| workflow.step_index(name)).unwrap_or(0);
        let node = |(index, step): (usize, &Step)| Node {
            lines: [step.name.as_ref().to_owned(), what(&step.form)]
                .into_iter()
                .chain(step.max_visits.map(|max| format!("at most {max} visits")))
                .chain(budget("at most", &step.limits.into()))
                .chain(budget("budget:", &workflow.limits).filter(|_| index == entry))
                .collect(),
            shape: shape(&step.form),
            visits: path.map(|path| path.visits(index)),
            mark: path.map_or(Mark::Plain, |path| path.mark(index)),
        };
        let mut edges = Edges { workflow, after: continuations(workflow), found: Vec::new() };
        for (index, step) in workflow.steps.iter().enumerate() {
            edges.of_step(index, step);
        }
        let mut edges = edges.found;
        if let Some(path) = path {
            for edge in &mut edges {
                edge.taken = Some(edge.taken_as.as_ref().map_or(0, |taken| path.count(taken)));
            }
        }
        Self { nodes: workflow.steps.iter().enumerate().map(node).collect(), edges, entry }
    }

    /// Returns `true` if a run entered anything.
    fn is_started(&self) -> bool {
        self.nodes.iter().any(|node| node.visits.is_some_and(|visits| visits > 0))
    }

    /// Returns `true` if there is an edge to a step that does not exist.
    fn has_unknown(&self) -> bool {
        self.edges.iter().any(|edge| edge.to == Target::Unknown)
    }
}

impl Edge {
    /// The label: its lines, then how often the run went this way if it did.
    fn label(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.clone();
        if let Some(count) = self.taken.filter(|count| *count > 1) {
            lines.push(format!("×{count}"));
        }
        lines
    }

    fn is_taken(&self) -> bool {
        self.taken.is_some_and(|count| count > 0)
    }
}

fn shape(form: &Form) -> Shape {
    match form {
        Form::Invoke { .. } => Shape::Operation,
        Form::Session { .. } => Shape::Session,
        Form::Delegate { .. } => Shape::Delegate,
        Form::Transform { .. } => Shape::Transform,
        Form::Branch { .. } => Shape::Branch,
        Form::Parallel { .. } => Shape::Parallel,
        Form::Exit { .. } => Shape::Exit,
        Form::Wait { .. } => Shape::Wait,
    }
}

fn what(form: &Form) -> String {
    match form {
        Form::Invoke { invoke } => invoke.operation.as_ref().to_owned(),
        Form::Session { .. } => "session".to_owned(),
        Form::Delegate { delegate } => match &delegate.target {
            DelegateTarget::Name(name) => format!("delegate {name}"),
            DelegateTarget::Dynamic(_) => "delegate".to_owned(),
        },
        Form::Transform { .. } => "transform".to_owned(),
        Form::Branch { .. } => "branch".to_owned(),
        Form::Parallel { .. } => "parallel".to_owned(),
        Form::Exit { .. } => "exit".to_owned(),
        Form::Wait { wait } => format!("wait for {}", wait.signal),
    }
}

/// Limits as a step says them: its own, and the first one those of the whole run.
fn budget(what: &str, limits: &RunLimits) -> Option<String> {
    let parts: Vec<String> = [
        limits.total_visits.map(|max| format!("{max} visits")),
        limits.tool_calls.map(|max| format!("{max} tool calls")),
        limits.wall_time_seconds.map(|max| format!("{max} s")),
        limits.tokens.map(|max| format!("{max} tokens")),
        limits.cost.map(|max| format!("{max} USD")),
        limits.host_calls.map(|max| format!("{max} host calls")),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("{what} {}", parts.join(", ")))
}

/// Returns the label of an edge for a judge.
fn judge(judge: &Judge) -> String {
    match judge {
        Judge::Llm { .. } => "LLM judge".to_owned(),
        Judge::Invoke { invoke } => invoke.operation.as_ref().to_owned(),
        Judge::Event { orchestration, .. } => match orchestration {
            Orchestration::Internal => "event".to_owned(),
            Orchestration::External => "event from outside".to_owned(),
            Orchestration::Hybrid => "event, from outside too".to_owned(),
        },
        Judge::Expression { expression } => expression.text().to_owned(),
    }
}

/// Returns the step at which each step continues by default: the next of the main line; inside a group the next of the
/// group, and after its last the step after the one that chose the group.
fn continuations(workflow: &WorkflowIr) -> Vec<Target> {
    let mut after = vec![Target::Done; workflow.steps.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut next = Target::Done;
    for (index, step) in workflow.steps.iter().enumerate().rev() {
        if !step.grouped {
            if let Some(slot) = after.get_mut(index) {
                *slot = next;
            }
            next = Target::Step(index);
            open.push(index);
        }
    }
    let mut placed = vec![false; workflow.steps.len()];
    while let Some(index) = open.pop() {
        let rest = after.get(index).copied().unwrap_or(Target::Done);
        let Some(step) = workflow.steps.get(index) else { continue };
        for group in groups(step) {
            let members: Vec<usize> = group.iter().filter_map(|name| workflow.step_index(name)).collect();
            let followers = members.iter().skip(1).map(|next| Target::Step(*next)).chain([rest]);
            for (member, follower) in members.iter().zip(followers) {
                // A document that names a step in two groups must not go round forever.
                if let (Some(slot), Some(placed)) = (after.get_mut(*member), placed.get_mut(*member))
                    && !std::mem::replace(placed, true)
                {
                    *slot = follower;
                    open.push(*member);
                }
            }
        }
    }
    after
}

/// The groups of steps that a step runs in its own place.
fn groups(step: &Step) -> Vec<&[opcell_ir::ir::StepName]> {
    match &step.form {
        Form::Branch { branch } if !branch.in_place => vec![&branch.then, &branch.otherwise],
        Form::Parallel { parallel } => parallel.branches.iter().map(Vec::as_slice).collect(),
        _ => Vec::new(),
    }
}

struct Edges<'a> {
    workflow: &'a WorkflowIr,
    after: Vec<Target>,
    found: Vec<Edge>,
}

impl Edges<'_> {
    fn of_step(&mut self, index: usize, step: &Step) {
        let after = self.after.get(index).copied().unwrap_or(Target::Done);
        let decider = step.judge.as_ref().map(judge);
        for route in &step.on {
            self.of_route(index, route, decider.as_deref());
        }
        if let Some(instead) = &step.on_max_visits {
            let max = step.max_visits.map(|max| format!("after {max} visits")).unwrap_or_default();
            self.add(index, self.by_name(instead), vec![max], None);
        }
        match &step.form {
            Form::Branch { branch } => {
                let to = |group: &[opcell_ir::ir::StepName]| match group.first() {
                    Some(first) => self.by_name(first),
                    None => after,
                };
                let (then, otherwise) = (to(&branch.then), to(&branch.otherwise));
                self.add(index, then, vec!["then".to_owned()], Some(Taken::Group { step: index, group: 0 }));
                self.add(index, otherwise, vec!["else".to_owned()], Some(Taken::Group { step: index, group: 1 }));
                return;
            }
            Form::Parallel { parallel } => {
                let firsts: Vec<_> = parallel.branches.iter().map(|group| group.first().cloned()).collect();
                for (group, first) in firsts.into_iter().enumerate() {
                    let to = first.map_or(after, |first| self.by_name(&first));
                    self.add(index, to, vec!["at once".to_owned()], Some(Taken::Group { step: index, group }));
                }
                return;
            }
            _ => {}
        }
        if step.terminal || matches!(step.form, Form::Exit { .. }) {
            self.add(index, Target::Done, Vec::new(), Some(Taken::plain(index, Target::Done)));
        } else if step.on.is_empty() {
            self.add(index, after, Vec::new(), Some(Taken::plain(index, after)));
        }
    }

    fn of_route(&mut self, index: usize, route: &Route, decider: Option<&str>) {
        let outcome = match &route.outcome {
            Outcome::Text(text) => text.as_ref().to_owned(),
            Outcome::Keyword(name) => format!(":{name}"),
        };
        let mut lines = vec![outcome];
        lines.extend(decider.map(str::to_owned));
        let exhausted = lines.clone();
        lines.extend(route.max_iterations.map(|max| format!("at most {max} times")));
        let taken = |to, redirected| Taken::Route { step: index, to, outcome: Some(route.outcome.clone()), redirected };
        let to = self.target(index, &route.goto);
        self.add(index, to, lines, Some(taken(to, false)));
        if let Some(instead) = &route.on_max_iterations {
            let to = self.target(index, instead);
            let mut lines = exhausted;
            lines.push("when exhausted".to_owned());
            self.add(index, to, lines, Some(taken(to, true)));
        }
    }

    fn target(&self, index: usize, goto: &Goto) -> Target {
        match goto {
            Goto::Next => self.after.get(index).copied().unwrap_or(Target::Done),
            Goto::Previous => index.checked_sub(1).map_or(Target::Unknown, Target::Step),
            Goto::Done => Target::Done,
            Goto::Step(name) => self.by_name(name),
        }
    }

    fn by_name(&self, name: &str) -> Target {
        self.workflow.step_index(name).map_or(Target::Unknown, Target::Step)
    }

    fn add(&mut self, from: usize, to: Target, lines: Vec<String>, taken_as: Option<Taken>) {
        self.found.push(Edge { from, to, lines, taken_as, taken: None });
    }
}

/// Edges between the same two ends, together.
fn merged(edges: &[Edge]) -> Vec<(usize, Target, Vec<&Edge>)> {
    let mut order: Vec<(usize, Target, Vec<&Edge>)> = Vec::new();
    let mut places: HashMap<(usize, Target), usize> = HashMap::new();
    for edge in edges {
        let place = *places.entry((edge.from, edge.to)).or_insert(order.len());
        match order.get_mut(place) {
            Some((_, _, several)) => several.push(edge),
            None => order.push((edge.from, edge.to, vec![edge])),
        }
    }
    order
}
