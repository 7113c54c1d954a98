//! `opcell worker`: drives the runnable runs of a journal, a bounded number at a time, a slice each.

use super::{
    Exit, Failure, Global, Terminal,
    runs::StoreArgs,
    stop::{Stop, StopArgs},
};
use clap::Args;
use opcell::host::Host;
use opcell_engine::{ResumeOptions, RunError, RunOutcome};
use opcell_journal::{JournalError, RunId};
use serde_json::json;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

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
    #[command(flatten)]
    stop: StopArgs,
}

/// How often the journal is polled for runnable runs.
const POLL: Duration = Duration::from_millis(200);

/// How long a run is driven while others wait: one slice.
const SLICE: Duration = Duration::from_secs(2);

/// A run whose timer ends within this time stays loaded.
const PARK: Duration = Duration::from_secs(1);

/// Back-off after a run could not be resumed: the first one, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub async fn worker(global: &Global, args: &WorkerArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(args.store.config(global)?, terminal).await?;
    let mut worker = Worker {
        host,
        terminal,
        concurrency: usize::from(args.concurrency),
        slices: JoinSet::new(),
        driven: HashMap::new(),
        refused: HashMap::new(),
    };
    let stop = Stop::listen(args.stop, true, terminal)?;
    while !stop.is_asked() {
        let waiting = worker.fill_slots().await?;
        if worker.slices.is_empty() && args.until_idle {
            return Ok(worker.exit());
        }
        worker.release_expired(waiting);
        tokio::select! {
            () = stop.asked() => {}
            Some(done) = worker.slices.join_next(), if !worker.slices.is_empty() => worker.ended(done)?,
            () = tokio::time::sleep(POLL) => {}
        }
    }
    let (host, driven) = (worker.host.clone(), worker.driven.len());
    stop.shut_down_now(&host).await;
    while let Some(done) = worker.slices.join_next().await {
        worker.ended(done)?;
    }
    if driven > 0 {
        terminal.note(&format!("stopped; {driven} runs given back to the journal"));
    }
    Ok(Exit::Done)
}

/// One run's slice.
struct Slice {
    since: Instant,
    release: CancellationToken,
}

/// A run that could not be resumed.
struct Refused {
    until: Instant,
    wait: Duration,
    why: String,
}

type Ended = (RunId, Result<RunOutcome, RunError>);

struct Worker<'a> {
    host: Host,
    terminal: &'a Terminal,
    concurrency: usize,
    slices: JoinSet<Ended>,
    driven: HashMap<RunId, Slice>,
    refused: HashMap<RunId, Refused>,
}

impl Worker<'_> {
    /// Fills the free slots with the runs that have waited longest; returns whether more are runnable.
    async fn fill_slots(&mut self) -> Result<bool, Failure> {
        let now = Instant::now();
        let held = self.refused.len() as u64;
        let runnable = self.host.engine().runnable(self.concurrency as u64 + 1 + held).await?;
        for run in runnable {
            if self.driven.contains_key(&run) || self.refused.get(&run).is_some_and(|refused| refused.until > now) {
                continue;
            }
            if self.driven.len() >= self.concurrency {
                return Ok(true);
            }
            let release = CancellationToken::new();
            self.driven.insert(run.clone(), Slice { since: now, release: release.clone() });
            let options = ResumeOptions { detach: true, park: Some(PARK), release, ..ResumeOptions::default() };
            let host = self.host.clone();
            self.slices.spawn(async move {
                let ended = match host.resume(&run, options).await {
                    Ok(taken) => taken.outcome().await,
                    Err(error) => Err(error),
                };
                (run, ended)
            });
        }
        Ok(false)
    }

    /// A run whose slice is over is released as soon as none of its effects is in flight.
    fn release_expired(&self, waiting: bool) {
        for slice in self.driven.values().filter(|slice| waiting && slice.since.elapsed() >= SLICE) {
            slice.release.cancel();
        }
    }

    fn ended(&mut self, done: Result<Ended, tokio::task::JoinError>) -> Result<(), Failure> {
        let (run, ended) = done.map_err(anyhow::Error::from)?;
        self.driven.remove(&run);
        match ended {
            Ok(outcome) => {
                self.refused.remove(&run);
                self.report(&outcome)
            }
            // The signal came while the run was being resumed.
            Err(RunError::ShuttingDown) => Ok(()),
            // Another worker was faster.
            Err(RunError::Journal(error)) if matches!(*error, JournalError::Held { .. }) => Ok(()),
            Err(error) => self.refuse(run, &error),
        }
    }

    fn report(&self, outcome: &RunOutcome) -> Result<(), Failure> {
        if self.terminal.json {
            let line = json!({
                "run": outcome.run, "status": outcome.status, "reason": outcome.reason, "step": outcome.step,
                "result": outcome.result, "questions": outcome.questions,
            });
            self.terminal.line(&line.to_string())?;
        } else if outcome.status.has_ended() || outcome.status == opcell_engine::Status::Suspended {
            let step = outcome.step.as_deref().map(|step| format!(" at step `{step}`")).unwrap_or_default();
            let reason = outcome.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            self.terminal.line(&format!("{}  {}{step}{reason}", outcome.run, outcome.status))?;
        }
        Ok(())
    }

    /// Reported once per reason, and retried with a growing back-off.
    fn refuse(&mut self, run: RunId, error: &RunError) -> Result<(), Failure> {
        let why = error.to_string();
        let before = self.refused.get(&run);
        if before.is_none_or(|before| before.why != why) {
            if self.terminal.json {
                self.terminal.line(&json!({"run": run, "error": why}).to_string())?;
            } else {
                self.terminal.failed(&format!("{run}  cannot go on: {why}"));
            }
        }
        let wait = before.map_or(BACKOFF.0, |before| (before.wait * 2).min(BACKOFF.1));
        self.refused.insert(run, Refused { until: Instant::now() + wait, wait, why });
        Ok(())
    }

    fn exit(&self) -> Exit {
        if self.refused.is_empty() { Exit::Done } else { Exit::RunFailed }
    }
}
