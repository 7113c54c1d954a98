//! The decisions that differ by the lifecycle of the IR; everything else is one rule for all.

mod routed;
mod sequential;

use super::At;
use crate::{event::Event, failure::Failure, program::Program, state::Accepted};
use opcell_ir::{
    ir::{self, Exit, Form, Step},
    resolve::ResolveError,
};
use opcell_types::Value;
use std::sync::Arc;

/// The decisions of a lifecycle.
pub(super) trait Lifecycle {
    /// The end of a main line after its last step, or after `step`, which routed to `:done`.
    fn done(&self, at: &At<'_>, step: Option<u32>) -> Event;

    /// The end of a main line whose step failed.
    fn failed(&self, at: &At<'_>, step: u32, failure: &Failure) -> Event;

    /// The end of a main line at an exit step.
    fn exited(&self, at: &At<'_>) -> Event;

    /// Returns `true` if a step that fails inside of a group halts the run, whichever group it is in.
    fn failure_in_group_halts(&self) -> bool;

    /// Returns the events that follow when a guard or an `each` has no value.
    fn give_up(&self, at: &At<'_>, step: u32, failure: Failure) -> Vec<Event>;

    /// Returns the events that follow when the input `name` of the step at `place` cannot be resolved.
    fn unresolved(&self, at: &At<'_>, place: u32, step: &Step, name: &Arc<str>, error: &ResolveError) -> Vec<Event>;

    /// Returns `true` if a step with `each` resolves its inputs once before its first element, to record them.
    fn resolves_each_up_front(&self) -> bool;

    /// The output of one element of an `each`.
    fn element_output(&self, accepted: &Accepted, step: &Step) -> Value;

    /// The value of a declared output without an expression, beside one that has one; `None`: it is left out.
    fn unmapped_output(&self, result: &Value, name: &str) -> Option<Value>;
}

/// The lifecycle of a program.
pub(super) fn of(program: &Program) -> &'static dyn Lifecycle {
    match program.lifecycle() {
        ir::Lifecycle::Routed => &routed::Routed,
        ir::Lifecycle::Sequential => &sequential::Sequential,
    }
}

fn exited<'a>(at: &At<'a>) -> Option<(&'a Exit, &'a Arc<str>, &'a Accepted)> {
    let index = at.instance.exited?;
    let step = at.instance.program.step(index)?;
    let Form::Exit { exit } = &step.form else { return None };
    Some((exit, &step.name, at.instance.memory.get(index as usize)?.accepted.as_ref()?))
}
