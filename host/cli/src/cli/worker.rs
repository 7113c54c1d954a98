//! `opcell worker`: drives the runnable runs of a journal, a bounded number at a time, a slice each.

#[cfg(feature = "restate")]
mod restate;

use super::{
    Exit, Failure, Global, Terminal,
    args::{StopArgs, StoreArgs},
    live,
    stop::Stop,
    units::counted,
};
use clap::Args;
use opcell::{HostBuilder, LiveHost};
use opcell_engine::{
    RunOutcome, Status,
    ports::{SystemTimer, Timer as _},
    worker::{Worker, WorkerEvent, WorkerOptions},
};
#[cfg(feature = "server")]
use opcell_server::{Meter, Probes};
use serde_json::json;
#[cfg(feature = "server")]
use std::net::SocketAddr;

#[derive(Debug, Args)]
pub struct WorkerArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Maximum number of runs to drive concurrently.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Exit as soon as no run is runnable, instead of waiting for one.
    #[arg(long)]
    until_idle: bool,
    /// Answer `/health`, `/ready` and `/metrics` (for Prometheus) over HTTP. They have no content of runs, and need no
    /// token.
    #[cfg(feature = "server")]
    #[arg(long, value_name = "ADDRESS:PORT")]
    health: Option<SocketAddr>,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    restate: restate::RestateArgs,
    #[command(flatten)]
    stop: StopArgs,
}

pub async fn worker(global: &Global, args: &WorkerArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = args.store.config(global)?;
    let journal = config.journal.as_ref().map(|journal| journal.place.to_string()).unwrap_or_default();
    #[cfg(feature = "server")]
    let meter = Meter::default();
    let with = |builder: HostBuilder| {
        #[cfg(feature = "server")]
        let builder = builder.log(meter.clone()).journal_log(meter.clone());
        builder
    };
    let host = crate::cli::host_with(config, with, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let host = LiveHost::new(host);
    let stop = Stop::listen(args.stop, true, terminal)?;
    #[cfg(feature = "server")]
    let probes = match args.health {
        Some(address) => Some(Probes::listen(address, host.clone(), meter, stop.token())?),
        None => None,
    };
    #[cfg(feature = "server")]
    if let Some(probes) = &probes {
        terminal.note(&format!("health and metrics at http://{}", probes.address()));
    }
    let mut options = WorkerOptions::default();
    options.concurrency = usize::from(args.concurrency);
    options.until_idle = args.until_idle;
    options.grace = args.stop.grace();
    if !args.until_idle {
        terminal.note(&format!("driving the runs of {journal}; Ctrl-C or SIGTERM stops, and gives them back"));
    }
    let report = |event: WorkerEvent| {
        #[cfg(feature = "server")]
        if let (Some(probes), WorkerEvent::Turn(outcome)) = (&probes, &event) {
            probes.stopped(outcome);
        }
        report(terminal, event)
    };
    let following = live::follow(&host, live::project(global), terminal, terminal.json);
    #[cfg(feature = "restate")]
    if let Some(options) = args.restate.options(&options) {
        let working = restate::work(host.clone(), options, stop.token(), report, terminal);
        return tokio::select! { worked = working => worked, () = following => Ok(Exit::Done) };
    }
    let working = Worker::new(host.clone(), options).run(stop.token(), report);
    let end = tokio::select! { end = working => end?, () = following => return Ok(Exit::Done) };
    if end.released > 0 {
        terminal.note(&format!("stopped; {} given back to the journal", counted(end.released as u64, "run")));
    }
    Ok(if end.refused > 0 && args.until_idle { Exit::RunFailed } else { Exit::Done })
}

fn report(terminal: &Terminal, event: WorkerEvent) -> Result<(), Failure> {
    match event {
        WorkerEvent::Turn(outcome) => {
            tracing::info!(run = %outcome.run, status = %outcome.status, reason = outcome.reason.as_deref(), "drove a run");
            turned(terminal, &outcome)?;
        }
        WorkerEvent::Refused { run, why } if terminal.json => {
            terminal.line(&json!({"run": run, "error": why}).to_string())?;
        }
        WorkerEvent::Refused { run, why } => terminal.failed(&format!("{run}  cannot go on: {why}")),
        WorkerEvent::LeaseLost { run } => {
            terminal.note(&format!("{run}  stopped here: the lease was lost, and another worker may drive it"));
        }
        WorkerEvent::Unreachable { why } => terminal.note(&format!("{why}; trying again")),
        WorkerEvent::Reachable => terminal.note("answering again"),
        _ => {}
    }
    Ok(())
}

fn turned(terminal: &Terminal, outcome: &RunOutcome) -> Result<(), Failure> {
    if terminal.json {
        let line = json!({
            "at": SystemTimer.now().to_text(), "run": outcome.run, "workflow": outcome.workflow, "status": outcome.status,
            "reason": outcome.reason, "message": outcome.message, "step": outcome.step, "result": outcome.result,
            "questions": outcome.questions, "denial": outcome.denial, "used": outcome.used,
        });
        terminal.line(&line.to_string())?;
    } else if outcome.status.has_ended() || outcome.status == Status::Suspended {
        let step = outcome.step.as_deref().map(|step| format!(" at step `{step}`")).unwrap_or_default();
        let reason = outcome.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        terminal.line(&format!("{}  {}{step}{reason}", outcome.run, outcome.status))?;
    }
    Ok(())
}
