//! The parts of a state: running workflows, the frames of their lines, steps and elements, and effects that have not
//! ended.

use super::{
    Asked, ConversationStage, ConversationStore, Each, Groups, InnerCalls, Inputs, Judging, Stage, Work,
    memory::StepMemory,
};
use crate::{
    conversation::Messages,
    event::{FrameId, InstanceId, Request, Timestamp},
    outcome::Used,
    program::Program,
    wire,
};
use opcell_ir::ir::{RunLimits, Session};
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

/// A running workflow: the run's own, or a delegated one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    pub program: Arc<Program>,
    /// The step or element that delegated.
    pub parent: Option<FrameId>,
    pub depth: u32,
    #[serde(with = "wire")]
    pub input: Value,
    #[serde(with = "wire")]
    pub original: Value,
    /// `$inputs`.
    #[serde(with = "wire")]
    pub inputs: Value,
    /// `$steps`: `{output}` by step name.
    #[serde(with = "wire")]
    pub outputs: Value,
    pub memory: Vec<StepMemory>,
    /// The main step that ran or was skipped last.
    pub last: Option<u32>,
    /// The exit step that ended it.
    pub exited: Option<u32>,
    /// The step that failed last, other than by what a group of its own did.
    pub failed: Option<u32>,
    /// The settings that sessions inherit from the delegating step.
    pub inherited: Option<Session>,
    /// The conversation that continues from state to state.
    pub log: Messages,
    /// The summaries and results beside its messages.
    #[serde(default)]
    pub kept: ConversationStore,
    /// The context that the last event left for the state it led to.
    pub brief: Arc<str>,
    /// When it began.
    pub since: Timestamp,
    /// The usage, where it has limits of its own.
    pub used: Used,
}

impl Instance {
    /// Returns `true` if the step is skipped: a branch did not choose it, or all that it depends on was skipped.
    pub(crate) fn passes_by(&self, step: u32) -> bool {
        let memory = |step: u32| self.memory.get(step as usize);
        if memory(step).is_some_and(|memory| memory.excluded) {
            return true;
        }
        let depends_on = self.program.step(step).map_or(&[][..], |step| &step.depends_on);
        !depends_on.is_empty()
            && depends_on.iter().all(|name| {
                self.program.index(name).and_then(memory).is_some_and(|memory| memory.passed_by || memory.excluded)
            })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub parent: Option<FrameId>,
    pub instance: InstanceId,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Body {
    Line(Line),
    Step(Box<StepFrame>),
    Element(Box<Element>),
}

/// Steps one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The group of the parent step; `None` is a main line.
    pub group: Option<u32>,
    pub at: LineAt,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum LineAt {
    /// A main line: the step to enter. A group: the position in its list. Past the last one the line is at its end.
    Before(u32),
    /// A step is at work.
    In(u32),
    /// A step reached `:done`.
    Done(u32),
    /// A step failed.
    Failed(u32, Box<crate::failure::Failure>),
    /// A step was an exit.
    Exited(u32),
}

/// One entry into a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepFrame {
    pub step: u32,
    pub visit: u32,
    /// The position at which its line continues: the step itself, or the position in the group.
    pub at: u32,
    /// When it was entered.
    pub since: Timestamp,
    pub phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Nothing has been decided yet.
    Entered,
    /// One execution.
    Work(Work),
    /// One execution per element.
    Each(Each),
    /// Groups of steps.
    Groups(Groups),
    /// The step is done; its judge decides.
    Judging(Judging),
}

/// One element of a step with `each`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Element {
    pub index: u32,
    #[serde(with = "wire")]
    pub item: Value,
    pub work: Work,
}

impl Frame {
    /// Returns `true` if it waits for a signal.
    pub(crate) fn is_waiting(&self) -> bool {
        match &self.body {
            Body::Step(step) if matches!(step.phase, Phase::Judging(Judging::Waiting { .. })) => true,
            _ => self.work().is_some_and(|work| match &work.stage {
                Stage::Waiting { .. } => true,
                Stage::Talking(talk) => matches!(talk.stage, ConversationStage::Waiting { .. }),
                _ => false,
            }),
        }
    }

    /// Returns `true` if a person is asked about calls of its model.
    pub(crate) fn is_asking(&self) -> bool {
        let talk = match &self.body {
            Body::Step(step) => match &step.phase {
                Phase::Work(Work { stage: Stage::Talking(talk), .. }) | Phase::Judging(Judging::Llm(talk)) => talk,
                _ => return false,
            },
            Body::Element(element) => match &element.work.stage {
                Stage::Talking(talk) => talk,
                _ => return false,
            },
            Body::Line(_) => return false,
        };
        talk.asks.iter().any(|ask| ask.answer.is_none())
    }

    pub(super) fn came_mut(&mut self) -> Option<&mut bool> {
        let stage = match &mut self.body {
            Body::Step(step) => match &mut step.phase {
                Phase::Judging(Judging::Waiting { came }) => return Some(came),
                Phase::Work(work) => &mut work.stage,
                _ => return None,
            },
            Body::Element(element) => &mut element.work.stage,
            Body::Line(_) => return None,
        };
        match stage {
            Stage::Waiting { came, .. } => Some(came),
            Stage::Talking(talk) => match &mut talk.stage {
                ConversationStage::Waiting { came } => Some(came),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn work(&self) -> Option<&Work> {
        match &self.body {
            Body::Element(element) => Some(&element.work),
            Body::Step(step) => match &step.phase {
                Phase::Work(work) => Some(work),
                _ => None,
            },
            Body::Line(_) => None,
        }
    }

    pub(crate) fn work_mut(&mut self) -> Option<&mut Work> {
        match &mut self.body {
            Body::Element(element) => Some(&mut element.work),
            Body::Step(step) => match &mut step.phase {
                Phase::Work(work) => Some(work),
                _ => None,
            },
            Body::Line(_) => None,
        }
    }

    /// Returns `true` if the frame has something to decide now, rather than something to wait for.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.body {
            Body::Line(line) => !matches!(line.at, LineAt::In(_)),
            Body::Element(element) => element.work.is_ready(),
            Body::Step(step) => match &step.phase {
                Phase::Entered => true,
                Phase::Work(work) => work.is_ready(),
                Phase::Each(each) => each.is_ready(),
                Phase::Groups(groups) => groups.is_ready(),
                Phase::Judging(judging) => judging.is_ready(),
            },
        }
    }
}

/// An effect that is wanted and has not ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub frame: FrameId,
    pub request: Request,
    /// When it was requested.
    pub at: Timestamp,
    /// It waits for a person's answer: it may have happened, was refused something, or asks for input.
    pub in_doubt: bool,
    /// The reply, and the plugin's reason for what it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Box<Asked>>,
    /// The input that its tool asked a person for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Inputs>>,
    /// The calls of its cell, where they are journaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<InnerCalls>>,
    /// The part of the caller's limits that a run may use which this call starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Box<RunLimits>>,
}

/// Frames that have something to decide, oldest first. There are few at a time, they come at the end and go at the
/// beginning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Ready(VecDeque<FrameId>);

impl Ready {
    pub(crate) fn first(&self) -> Option<FrameId> {
        self.0.front().copied()
    }

    /// The only one.
    pub(crate) fn only(&self) -> Option<FrameId> {
        if self.0.len() == 1 { self.first() } else { None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, id: FrameId) {
        if let Err(at) = self.0.binary_search(&id) {
            self.0.insert(at, id);
        }
    }

    pub(super) fn remove(&mut self, id: FrameId) {
        if let Ok(at) = self.0.binary_search(&id) {
            self.0.remove(at);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
