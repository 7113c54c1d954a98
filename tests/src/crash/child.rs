//! The process that drives the run, and dies.

use super::{
    deadly::{Deadly, Death, Side, die},
    recorder::Recorder,
    world,
};
use crate::journey;
use anyhow::Result;
use opcell_engine::{Engine, Program, ResumeOptions, RunError, RunHandle, RunOptions};
use opcell_journal::JournalError;
use opcell_types::{NewRunId, Value};
use serde::{Deserialize, Serialize};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// The run's name.
pub const RUN: &str = "r";

/// The report of a child that lived, on stdout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Journal writes of this process.
    pub writes: u64,
    /// `true` if the run has ended.
    pub ended: bool,
}

/// Starts the run or takes it up, and drives it until it ends or waits.
///
/// # Errors
/// When the world or the journal cannot be opened, or the run cannot be driven.
pub async fn live(directory: &Path, cache: &Path, death: Option<&str>) -> Result<Report> {
    let death = death.map(str::parse::<Death>).transpose().map_err(anyhow::Error::msg)?;
    let recorder = Arc::new(Recorder::open(directory)?);
    let is_full = death.is_some_and(|death| death.side == Side::Full);
    // A file that may not grow is an error, and not the end of the process.
    let too_large = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let _too_large = is_full.then(|| signal(too_large)).transpose()?;
    let (journal, writes) = Deadly::open(&directory.join("runs.db"), recorder.clone(), death)?;
    let world = Arc::new(world::open(directory, cache, recorder).await?);
    let engine = Engine::builder()
        .operations(world.clone())
        .judges(world.clone())
        .sessions(world.clone())
        .workflows(world)
        .journal(Arc::new(journal))
        .build();
    let driven = async {
        let handle = taken(&engine, journey::program()?, journey::input()?, true).await?;
        anyhow::Ok(handle.finished().await?)
    };
    let outcome = match driven.await {
        // The disk was full, and the second fault comes before anyone has cleared it.
        Err(_) if is_full => die(),
        driven => driven?,
    };
    Ok(Report { writes: writes.load(Ordering::SeqCst), ended: outcome.status.has_ended() })
}

/// Starts the run, or takes it up where it was left. `detach`: it is left when it is suspended.
pub(super) async fn taken(engine: &Engine, program: Arc<Program>, input: Value, detach: bool) -> Result<RunHandle> {
    // The signal's own timeout is long; whoever waits for it is let go.
    let park = Some(Duration::from_secs(60));
    let options = ResumeOptions { detach, park, ..ResumeOptions::default() };
    match engine.resume(&RUN.into(), options).await {
        Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => {
            let run = Some(NewRunId::derived(RUN));
            Ok(engine.start(program, input, RunOptions { run, detach, park, ..RunOptions::default() }).await?)
        }
        taken => Ok(taken?),
    }
}
