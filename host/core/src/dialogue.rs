//! States that speak: which steps they are, and how the user reaches them.

use opcell_workflow::ir::{Control, Form, Judge, Orchestration, Step};

/// The signal by which a host passes on what the user says; its data is the text.
pub const MESSAGE_SIGNAL: &str = "message";

/// Who may raise events and who speaks next, if the step is a state that speaks.
pub(crate) fn of(step: &Step) -> Option<(Orchestration, Control)> {
    match (&step.form, &step.judge) {
        (Form::Session { .. }, Some(Judge::Event { orchestration, control })) => Some((*orchestration, *control)),
        _ => None,
    }
}
