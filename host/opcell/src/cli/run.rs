//! `opcell run`.

use super::{Exit, Failure, Global, Terminal, input, progress::StepProgress};
use crate::{report, run::Workflow};
use clap::Args;
use futures_util::StreamExt as _;
use opcell_engine::outcome::{RunOutcome, Status};
use opcell_workflow::Value;
use serde_json::json;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A document, or the name of a workflow of the project.
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// What the run is given: JSON, a text, `@FILE`, `-`, or `key=value`, repeated.
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    /// Takes warnings for errors.
    #[arg(long)]
    strict: bool,
}

pub async fn run(global: &Global, args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let given = input::run_input(&args.input)?;
    let host = global.host().await?;
    let workflow = host.open(&args.workflow)?;
    if args.strict
        && let Some(rejected) = workflow.document().and_then(|document| document.rejection(true))
    {
        return Err(rejected.into());
    }
    show_warnings(&workflow, terminal);

    let run = host.start(&workflow, given).await?;
    let interrupted = {
        let run = run.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                run.cancel("interrupted");
            }
            // Whoever interrupts twice does not want to wait.
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        })
    };
    let mut progress = StepProgress::new(terminal, workflow.ir().steps.iter().map(|step| step.name.clone()).collect());
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        progress.observe(&recorded);
    }
    let outcome = run.outcome().await?;
    interrupted.abort();
    progress.finish();
    show(&outcome, &progress.receipts, terminal)
}

fn show_warnings(workflow: &Workflow, terminal: &Terminal) {
    if terminal.json {
        return;
    }
    if let Some(document) = workflow.document() {
        for warning in &document.diagnostics {
            terminal.note(report::render(Some(&document.source), warning, terminal.color).trim_end());
        }
    }
}

fn show(outcome: &RunOutcome, receipts: &[Value], terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&json!({
            "run": outcome.run, "status": outcome.status, "reason": outcome.reason, "message": outcome.message,
            "step": outcome.step, "result": outcome.result, "details": outcome.details, "used": outcome.used,
            "questions": outcome.questions, "receipts": receipts,
        }))?;
    } else if outcome.status == Status::Completed {
        match outcome.result.as_str() {
            Some(text) => terminal.line(text)?,
            None => terminal.json(&serde_json::Value::from(&outcome.result))?,
        }
    } else {
        let step = outcome.step.as_ref().map(|step| format!(" at step `{step}`")).unwrap_or_default();
        let reason = outcome.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = outcome.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        terminal.failed(&format!("{}{reason}{step}{message}", outcome.status));
    }
    Ok(match outcome.status {
        Status::Completed => Exit::Done,
        _ => Exit::RunFailed,
    })
}
