//! The ways through a workflow as a graph.

use crate::ir::{Form, Goto, Step, StepName, WorkflowIr};
use petgraph::{
    algo::{dominators, kosaraju_scc},
    graph::{DiGraph, NodeIndex},
    visit::{Dfs, EdgeFiltered, EdgeRef},
};
use std::collections::{HashMap, HashSet};

/// Nodes are steps in authored order, then the end, then one node per step that follows the groups it runs.
pub(super) struct Graph {
    /// An edge says whether it can be taken only so often.
    edges: DiGraph<(), bool>,
    steps: usize,
    entry: NodeIndex,
}

impl Graph {
    pub(super) fn of(ir: &WorkflowIr) -> Self {
        let mut edges = DiGraph::with_capacity(2 * ir.steps.len() + 1, 2 * ir.steps.len());
        for _ in 0..=2 * ir.steps.len() {
            edges.add_node(());
        }
        let mut builder = Builder {
            index: ir.steps.iter().enumerate().rev().map(|(i, step)| (step.name.as_ref(), i)).collect(),
            main: ir.steps.iter().enumerate().filter(|(_, step)| !step.grouped).map(|(i, _)| i).collect(),
            edges,
            ir,
        };
        for (i, step) in ir.steps.iter().enumerate() {
            builder.step(i, step);
        }
        let entry = ir.entry.as_ref().and_then(|name| builder.index.get(name.as_ref()).copied());
        let entry = entry.or(builder.main.first().copied()).unwrap_or(ir.steps.len());
        Self { edges: builder.edges, steps: ir.steps.len(), entry: NodeIndex::new(entry) }
    }

    /// The steps that some path reaches.
    pub(super) fn reached(&self) -> HashSet<usize> {
        let mut search = Dfs::new(&self.edges, self.entry);
        let mut reached = HashSet::new();
        while let Some(node) = search.next(&self.edges) {
            if node.index() < self.steps {
                reached.insert(node.index());
            }
        }
        reached
    }

    pub(super) fn dominance(&self) -> Dominance {
        let tree = dominators::simple_fast(&self.edges, self.entry);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.edges.node_count()];
        for node in self.edges.node_indices() {
            if let Some(parent) = tree.immediate_dominator(node)
                && let Some(siblings) = children.get_mut(parent.index())
            {
                siblings.push(node.index());
            }
        }
        // Numbers the tree so that a node precedes another exactly when its interval holds the other's.
        let mut spans = vec![None; children.len()];
        let mut clock = 0;
        let mut open = vec![(self.entry.index(), false)];
        while let Some((node, left)) = open.pop() {
            clock += 1;
            if let Some(span) = spans.get_mut(node) {
                match (*span, left) {
                    (Some((start, _)), true) => *span = Some((start, clock)),
                    _ => *span = Some((clock, clock)),
                }
            }
            if !left {
                open.push((node, true));
                open.extend(children.get(node).into_iter().flatten().map(|child| (*child, false)));
            }
        }
        Dominance { spans }
    }

    /// The loops that can go on forever, each with its steps in authored order.
    pub(super) fn unbounded_loops(&self, reached: &HashSet<usize>) -> Vec<Vec<usize>> {
        let free = EdgeFiltered::from_fn(&self.edges, |edge| !*edge.weight());
        let mut loops: Vec<Vec<usize>> = kosaraju_scc(&free)
            .into_iter()
            .filter(|component| match component.as_slice() {
                [node] => self.edges.edges(*node).any(|edge| edge.target() == *node && !*edge.weight()),
                _ => true,
            })
            .map(|component| {
                let steps = component.into_iter().map(NodeIndex::index);
                let mut steps: Vec<usize> = steps.filter(|i| *i < self.steps && reached.contains(i)).collect();
                steps.sort_unstable();
                steps
            })
            .filter(|steps| !steps.is_empty())
            .collect();
        loops.sort_unstable();
        loops
    }
}

/// The dominance relation: which steps have always run when another starts.
pub(super) struct Dominance {
    spans: Vec<Option<(usize, usize)>>,
}

impl Dominance {
    /// Returns `true` if every path to `later` runs `earlier` first.
    pub(super) fn is_before(&self, earlier: usize, later: usize) -> bool {
        match (self.spans.get(earlier), self.spans.get(later)) {
            (Some(Some(outer)), Some(Some(inner))) => outer.0 <= inner.0 && inner.1 <= outer.1,
            _ => false,
        }
    }
}

struct Builder<'a> {
    ir: &'a WorkflowIr,
    /// Places of steps by name; of two with one name, that of the first, as in [`WorkflowIr::step_index`].
    index: HashMap<&'a str, usize>,
    /// The steps of the main sequence.
    main: Vec<usize>,
    edges: DiGraph<(), bool>,
}

impl Builder<'_> {
    fn end(&self) -> usize {
        self.ir.steps.len()
    }

    fn step(&mut self, i: usize, step: &Step) {
        let out = match &step.form {
            Form::Branch { branch } => {
                let out = self.end() + 1 + i;
                self.chain(i, &branch.then, out);
                self.chain(i, &branch.otherwise, out);
                out
            }
            Form::Parallel { parallel } => {
                // All groups run, so for what has run afterwards one may as well follow the other.
                let all: Vec<StepName> = parallel.branches.iter().flatten().cloned().collect();
                let out = self.end() + 1 + i;
                self.chain(i, &all, out);
                out
            }
            Form::Exit { .. } => {
                self.edge(i, self.end(), false);
                return;
            }
            _ => i,
        };
        if step.grouped {
            return;
        }
        if step.terminal {
            self.edge(out, self.end(), false);
            return;
        }
        if step.on.is_empty() {
            self.edge(out, self.neighbour(i, true), false);
            return;
        }
        for route in &step.on {
            let bounded = route.max_iterations.is_some();
            for (goto, bounded) in [(Some(&route.goto), bounded), (route.on_max_iterations.as_ref(), false)] {
                let target = match goto {
                    Some(Goto::Next) => Some(self.neighbour(i, true)),
                    // Before the first step there is nothing: the run fails.
                    Some(Goto::Previous) => Some(self.neighbour(i, false)).filter(|target| *target != self.end()),
                    Some(Goto::Done) => Some(self.end()),
                    Some(Goto::Step(name)) => self.index.get(name.as_ref()).copied(),
                    None => None,
                };
                if let Some(target) = target {
                    self.edge(out, target, bounded);
                }
            }
        }
    }

    /// The step beside one in the main sequence, or the end.
    fn neighbour(&self, i: usize, after: bool) -> usize {
        let position = self.main.partition_point(|step| *step < i);
        let beside = if after { Some(position + 1) } else { position.checked_sub(1) };
        beside.and_then(|position| self.main.get(position)).copied().unwrap_or(self.end())
    }

    /// The steps of a group, one after the other. Steps of the main sequence stay in their own place.
    fn chain(&mut self, from: usize, group: &[StepName], to: usize) {
        let mut last = from;
        for name in group {
            let member = self.index.get(name.as_ref()).copied();
            if let Some(member) = member.filter(|member| self.ir.steps.get(*member).is_some_and(|step| step.grouped)) {
                self.edge(last, member, false);
                // A step that runs groups of its own is left after them.
                let groups = self.ir.steps.get(member).map(|step| &step.form);
                last = match groups {
                    Some(Form::Branch { .. } | Form::Parallel { .. }) => self.end() + 1 + member,
                    _ => member,
                };
            }
        }
        self.edge(last, to, false);
    }

    fn edge(&mut self, from: usize, to: usize, bounded: bool) {
        let target = self.ir.steps.get(to);
        let bounded = bounded || target.is_some_and(|step| step.max_iterations.is_some() || step.max_visits.is_some());
        self.edges.add_edge(NodeIndex::new(from), NodeIndex::new(to), bounded);
        let instead =
            target.and_then(|step| step.on_max_visits.as_ref()).and_then(|name| self.index.get(name.as_ref()));
        if let Some(instead) = instead.copied() {
            self.edges.add_edge(NodeIndex::new(from), NodeIndex::new(instead), false);
        }
    }
}
