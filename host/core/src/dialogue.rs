//! States that speak: which steps they are, and how the user reaches them.

use opcell_ir::ir::{Control, Form, Judge, Orchestration, Step};

/// The signal by which a host passes on what the user says; its data is the text.
pub const MESSAGE_SIGNAL: &str = "message";

/// Returns the parties that may raise events and that speak next, if the step is a conversational state.
pub(crate) fn of(step: &Step) -> Option<(Orchestration, Control)> {
    match (&step.form, &step.judge) {
        (Form::Session { .. }, Some(Judge::Event { orchestration, control })) => Some((*orchestration, *control)),
        _ => None,
    }
}
