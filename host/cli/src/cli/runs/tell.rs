//! `opcell runs signal`, `approve` and `cancel`: what a run can be told, whoever drives it.

use super::{Exit, Failure, Open, Teller, Terminal};
use crate::cli::input;
use clap::Args;
use opcell_engine::{
    Message, ResumeOptions, RunError, Status, Taker,
    outcome::{Question, RunOutcome},
};
use opcell_journal::{JournalError, RunId};
use opcell_types::Value;
use opcell_workflow::Diagnostic;
use serde_json::json;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct SignalArgs {
    /// The run: its name, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// The signal's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// What it says: JSON, a text, `@FILE` or `-`; null unless given.
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    #[command(flatten)]
    teller: Teller,
}

pub async fn signal(open: &Open, args: &SignalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let data = args.data.as_deref().map(input::value).transpose()?.unwrap_or(Value::Null);
    let taker = open.engine.signal(&run, &args.name.as_str().into(), data, args.teller.name()).await?;
    told(open, &run, &taker, terminal).await
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The run: its name, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Which approval, if the run asks for several.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Refuses instead: the step that asks fails.
    #[arg(long)]
    refuse: bool,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    teller: Teller,
}

pub async fn approve(open: &Open, args: &ApproveArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let state = open.engine.state_at(&run, None).await?;
    let wanted = |name: &Arc<str>| args.name.as_deref().is_none_or(|wanted| wanted == name.as_ref());
    let asked: Vec<Arc<str>> = state
        .questions()
        .into_iter()
        .filter_map(|question| match question {
            Question::Signal { name, approval: true, .. } if wanted(&name) => Some(name),
            _ => None,
        })
        .collect();
    let name = match asked.as_slice() {
        [name] => name.clone(),
        [] => {
            let what =
                args.name.as_deref().map_or_else(|| "an approval".to_owned(), |name| format!("approval `{name}`"));
            let message = format!("run `{run}` does not wait for {what}; it is {}", state.status());
            return Err(Diagnostic::error("nothing-to-approve", message).into());
        }
        several => {
            let message = format!("run `{run}` asks for {} approvals: {}", several.len(), several.join(", "));
            return Err(Diagnostic::error("which-approval", message).help("name one of them".to_owned()).into());
        }
    };
    let mut data = vec![("approved", Value::from(!args.refuse))];
    data.extend(args.why.as_deref().map(|why| ("why", Value::from(why))));
    let taker = open.engine.signal(&run, &name, Value::object(data), args.teller.name()).await?;
    told(open, &run, &taker, terminal).await
}

async fn told(open: &Open, run: &RunId, taker: &Taker, terminal: &Terminal) -> Result<Exit, Failure> {
    let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
    if terminal.json {
        let step = match taker {
            Taker::Waits(step) => Some(step),
            Taker::Later => None,
        };
        terminal.json(&json!({"ok": true, "run": run, "step": step, "kept": step.is_none(), "driven": driven}))?;
        return Ok(Exit::Done);
    }
    terminal.note(&match taker {
        Taker::Waits(step) => format!("step `{step}` of run `{run}` takes it"),
        Taker::Later => format!("nobody waits for it yet; run `{run}` keeps it until a step does"),
    });
    if !driven {
        terminal
            .note(&format!("nobody drives the run: `opcell runs resume {run}`, or `opcell worker`, goes on with it"));
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The run: its name, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Why.
    #[arg(long, value_name = "TEXT", default_value = "cancelled")]
    reason: String,
    #[command(flatten)]
    teller: Teller,
}

/// A run that nobody drives is ended here: cancelling needs no plugin, since nothing begins any more.
pub async fn cancel(open: &Open, args: &CancelArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let message = Message::Cancel { reason: args.reason.as_str().into(), by: args.teller.name() };
    open.engine.tell(&run, &message).await?;
    let options = ResumeOptions { unpinned: true, ..ResumeOptions::default() };
    match open.engine.resume(&run, options).await {
        Ok(handle) => cancelled(&run, Some(handle.finished().await?), terminal),
        Err(RunError::Journal(error)) if matches!(*error, JournalError::Held { .. }) => cancelled(&run, None, terminal),
        Err(error) => Err(error.into()),
    }
}

fn cancelled(run: &RunId, outcome: Option<RunOutcome>, terminal: &Terminal) -> Result<Exit, Failure> {
    let status = outcome.as_ref().map(|outcome| outcome.status);
    if terminal.json {
        terminal.json(&json!({"ok": true, "run": run, "status": status}))?;
    } else {
        terminal.note(&match status {
            Some(Status::Cancelled) => format!("run `{run}` is cancelled"),
            Some(status) => format!("run `{run}` is {status}"),
            None => format!("the process that drives run `{run}` was told to stop it"),
        });
    }
    Ok(Exit::Done)
}
