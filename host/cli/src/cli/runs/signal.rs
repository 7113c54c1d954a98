//! `opcell runs signal`: a signal to a run, whoever drives it.

use super::{Exit, Failure, Open, Terminal, delivery::sent};
use crate::cli::{approve, args::Sender, conversation, input};
use clap::Args;
use opcell_engine::{Delivery, MESSAGE_SIGNAL, State};
use opcell_ir::{
    Diagnostic,
    ir::{Form, Judge},
};
use opcell_types::Value;

#[derive(Debug, Args)]
pub struct SignalArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Name of the signal.
    #[arg(value_name = "NAME")]
    name: String,
    /// Data of the signal: JSON, text, `@FILE` or `-` for standard input. Defaults to null.
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    #[command(flatten)]
    sender: Sender,
}

pub async fn signal(open: &Open, args: &SignalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let data = args.data.as_deref().map(input::value).transpose()?.unwrap_or(Value::Null);
    let state = open.engine.shown_state(&run, None).await?;
    // What approves is for people, by whichever command it is sent.
    let may_approve = match approve::given_by_a_person() {
        Ok(()) => true,
        Err(refused) if state.signals().approvals.contains(args.name.as_str()) => return Err(refused),
        Err(_) => false,
    };
    if let Some(why) = refused(&state, &args.name) {
        return Err(Diagnostic::error("event-not-taken", why).help("`opcell runs show` shows where the run is").into());
    }
    let sender = opcell_engine::Sender { by: args.sender.name(), key: None, may_approve };
    let delivery = open.engine.signal_from(&run, &args.name.as_str().into(), data, sender).await?;
    let delivery = delivery.unwrap_or(Delivery::Queued);
    sent(open, &run, &delivery, terminal).await
}

/// Why the state that a run is in does not take an event from outside: kept, it would happen in a later state.
fn refused(state: &State, name: &str) -> Option<String> {
    let program = state.program()?;
    let mut current = state.current_steps().into_iter().filter_map(|(step, _)| program.ir().step(&step));
    let speaking = current.find(|step| {
        matches!(step.form, Form::Session { .. })
            && matches!(step.judge, Some(Judge::Event { .. }))
            && name != MESSAGE_SIGNAL
    })?;
    conversation::refuses(Some(speaking), name)
}
