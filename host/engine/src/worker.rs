//! Drives the runnable runs of a journal: a bounded number at a time, a slice each, the longest waiting first.
//!
//! A *driver* decides which run gets a turn and when. What every driver does with it is [`Turns::turn`]: take the run,
//! drive it to its next wait, give it back. [`Worker`] drives whatever its journal lists, on one machine (a file, owned
//! by a lock) and on many (PostgreSQL, owned by a lease) alike; a durable engine that hosts turns calls [`Turns::turn`]
//! itself.

use crate::{
    engine::{Engine, ResumeOptions},
    error::RunError,
};
use opcell_core::RunOutcome;
use opcell_journal::{JournalError, RunId};
use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// The time after which the worker looks for runnable runs without being asked.
const POLL: Duration = Duration::from_millis(700);

/// The interval at which a full worker looks whether other runs wait.
const CROWD_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Back-off after a run could not be resumed, or the journal did not answer: the first one, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
const RECONNECT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The options of a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The maximum number of runs driven at a time; 16 by default.
    pub concurrency: usize,
    /// The time for which a run is driven while others wait; 2 s by default.
    pub slice: Duration,
    /// A run whose timer ends within this time stays loaded; 1 s by default.
    pub park: Duration,
    /// `true` to return as soon as no run is runnable.
    pub until_idle: bool,
    /// The time that effects in flight may take to end after the worker is asked to stop; 10 s by default.
    pub grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: 16,
            slice: Duration::from_secs(2),
            park: Duration::from_secs(1),
            until_idle: false,
            grace: Duration::from_secs(10),
        }
    }
}

/// An event of a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// A turn of a run ended: the run has ended, is suspended, or waits for its next turn.
    Turn(Box<RunOutcome>),
    /// A run cannot be resumed here. Said once per reason; the worker tries again with a growing back-off.
    Refused {
        /// ID of the run.
        run: RunId,
        /// Why it cannot be driven, as a sentence.
        why: String,
    },
    /// The lease on a run was lost: its cells were stopped, and whoever has it now continues.
    LeaseLost {
        /// ID of the run.
        run: RunId,
    },
    /// The journal does not answer, or the server that gives turns. Said once; the worker tries again.
    Unreachable {
        /// The reason.
        why: String,
    },
    /// The store or server answers again.
    Reachable,
}

/// The end of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerEnd {
    /// Runs that were given back to the journal because the worker was asked to stop.
    pub released: usize,
    /// Runs that could not be resumed at the last attempt.
    pub refused: usize,
}

/// A party that can give runs their turns: an engine, or a host that knows the plugins that runs pinned.
pub trait Turns: Clone + Send + Sync + 'static {
    /// The engine that drives the runs.
    fn engine(&self) -> &Engine;

    /// Takes a run, drives it until it ends, is suspended, parked or released, and gives it back.
    ///
    /// # Errors
    /// [`JournalError::Held`] when another process drives it; as [`Engine::resume`] otherwise.
    fn turn(&self, run: &RunId, options: ResumeOptions) -> impl Future<Output = Result<RunOutcome, RunError>> + Send;
}

impl Turns for Engine {
    fn engine(&self) -> &Engine {
        self
    }

    async fn turn(&self, run: &RunId, options: ResumeOptions) -> Result<RunOutcome, RunError> {
        self.resume(run, options).await?.finished().await
    }
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

/// Drives the runnable runs of a journal.
pub struct Worker<T> {
    turns_of: T,
    options: WorkerOptions,
    turns: JoinSet<Ended>,
    driven: HashMap<RunId, Slice>,
    refused: HashMap<RunId, Refused>,
    /// The time for which a journal that does not answer is left alone.
    unreachable: Option<Duration>,
    looked: Option<Instant>,
}

impl<T> std::fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<T: Turns> Worker<T> {
    /// A worker that has not begun.
    #[must_use]
    pub fn new(turns_of: T, options: WorkerOptions) -> Self {
        Self {
            turns_of,
            options,
            turns: JoinSet::new(),
            driven: HashMap::new(),
            refused: HashMap::new(),
            unreachable: None,
            looked: None,
        }
    }

    /// Drives runs until `stop` is cancelled; then the engine shuts down, and every run is given back to the journal.
    ///
    /// # Errors
    /// The journal's, if it never answered, or refuses for a reason that does not pass; and those of `report`.
    pub async fn run<E: From<RunError>>(
        mut self,
        stop: CancellationToken,
        mut report: impl FnMut(WorkerEvent) -> Result<(), E>,
    ) -> Result<WorkerEnd, E> {
        while !stop.is_cancelled() {
            let waiting = match self.fill().await {
                Ok(waiting) => {
                    if self.unreachable.take().is_some() {
                        report(WorkerEvent::Reachable)?;
                    }
                    waiting
                }
                // The journal has answered before: its server restarts, or the network is cut.
                Err(error) if self.looked.is_some() && is_storage(&error) => {
                    if self.unreachable.is_none() {
                        report(WorkerEvent::Unreachable { why: error.to_string() })?;
                    }
                    let pause = self.unreachable.map_or(RECONNECT.0, |pause| (pause * 2).min(RECONNECT.1));
                    self.unreachable = Some(pause);
                    tokio::select! { biased; () = stop.cancelled() => {} () = tokio::time::sleep(pause) => {} }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if self.turns.is_empty() && self.options.until_idle {
                return Ok(self.end(0));
            }
            self.release_expired(waiting);
            let journal = self.turns_of.engine().journal().clone();
            let pause = if waiting { CROWD_CHECK_INTERVAL } else { POLL };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(done) = self.turns.join_next(), if !self.turns.is_empty() => self.ended(done, &mut report)?,
                () = journal.changed(pause) => {}
            }
        }
        let released = self.driven.len();
        self.turns_of.engine().shutdown(self.options.grace).await;
        while let Some(done) = self.turns.join_next().await {
            self.ended(done, &mut report)?;
        }
        Ok(self.end(released))
    }

    fn end(&self, released: usize) -> WorkerEnd {
        WorkerEnd { released, refused: self.refused.len() }
    }

    /// Gives the free slots to the runs that have waited longest; returns whether more are runnable.
    async fn fill(&mut self) -> Result<bool, RunError> {
        let now = Instant::now();
        let full = self.driven.len() >= self.options.concurrency;
        if full && self.looked.is_some_and(|looked| now.duration_since(looked) < CROWD_CHECK_INTERVAL) {
            return Ok(true);
        }
        let held = self.refused.len() + self.driven.len();
        let wanted = (self.options.concurrency + 1 + held) as u64;
        let runnable = self.turns_of.engine().runnable(wanted).await?;
        self.looked = Some(now);
        for run in runnable {
            if self.driven.contains_key(&run) || self.refused.get(&run).is_some_and(|refused| refused.until > now) {
                continue;
            }
            if self.driven.len() >= self.options.concurrency {
                return Ok(true);
            }
            let release = CancellationToken::new();
            self.driven.insert(run.clone(), Slice { since: now, release: release.clone() });
            let park = Some(self.options.park);
            let options = ResumeOptions { detach: true, park, release, ..ResumeOptions::default() };
            let turns_of = self.turns_of.clone();
            self.turns.spawn(async move {
                let ended = turns_of.turn(&run, options).await;
                (run, ended)
            });
        }
        Ok(false)
    }

    /// A run whose slice is over is released as soon as none of its effects is in flight.
    fn release_expired(&self, waiting: bool) {
        let slice = self.options.slice;
        for driven in self.driven.values().filter(|driven| waiting && driven.since.elapsed() >= slice) {
            driven.release.cancel();
        }
    }

    fn ended<E: From<RunError>>(
        &mut self,
        done: Result<Ended, tokio::task::JoinError>,
        report: &mut impl FnMut(WorkerEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        // A turn is never aborted, and what panics in it is caught: one that is lost all the same leaves its slice.
        let Ok((run, ended)) = done else { return Ok(()) };
        self.driven.remove(&run);
        match ended {
            Ok(outcome) => {
                self.refused.remove(&run);
                report(WorkerEvent::Turn(Box::new(outcome)))
            }
            // The signal came while the run was being resumed.
            Err(RunError::ShuttingDown) => Ok(()),
            Err(RunError::Journal(error)) => match &*error {
                // Another worker was faster.
                JournalError::Held { .. } => Ok(()),
                JournalError::LeaseLost { .. } | JournalError::Fenced { .. } => report(WorkerEvent::LeaseLost { run }),
                _ => self.refuse(run, &RunError::Journal(Arc::clone(&error)), report),
            },
            Err(error) => self.refuse(run, &error, report),
        }
    }

    fn refuse<E>(
        &mut self,
        run: RunId,
        error: &RunError,
        report: &mut impl FnMut(WorkerEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let why = error.to_string();
        let before = self.refused.get(&run);
        let (wait, is_new) = match before {
            Some(before) => ((before.wait * 2).min(BACKOFF.1), before.why != why),
            None => (BACKOFF.0, true),
        };
        // A journal that does not answer says nothing about the run.
        let wait = if is_storage(error) { BACKOFF.0 } else { wait };
        self.refused.insert(run.clone(), Refused { until: Instant::now() + wait, wait, why: why.clone() });
        if is_new { report(WorkerEvent::Refused { run, why }) } else { Ok(()) }
    }
}

fn is_storage(error: &RunError) -> bool {
    matches!(error, RunError::Journal(error) if matches!(**error, JournalError::Storage(_)))
}
