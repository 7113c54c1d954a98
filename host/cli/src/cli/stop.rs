//! SIGINT and SIGTERM: the first one ends a command in order, the second one ends it at once.

use super::{Terminal, args::StopArgs};
use opcell::{Host, Run, RunOutcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Hears the signals of this process.
#[derive(Clone)]
pub struct Stop {
    asked: CancellationToken,
    /// `true` if nothing is in flight: the command waits for a line of input.
    idle: Arc<AtomicBool>,
    grace: Duration,
    /// `true` if runs outlive this process: then they are given back to their journal, else they are cancelled.
    keeps_runs: bool,
}

/// The exit code of a process that a signal ended, as a shell has it: 128 and the signal's number.
const INTERRUPTED: i32 = 130;
const TERMINATED: i32 = 143;

impl Stop {
    /// From now on, the first signal asks to stop and the second one ends the process.
    pub fn listen(args: StopArgs, keeps_runs: bool, terminal: &Terminal) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let stop = Self { asked: CancellationToken::new(), idle: Arc::default(), grace: args.grace(), keeps_runs };
        let (heard, terminal) = (stop.clone(), *terminal);
        tokio::spawn(async move {
            loop {
                let code = tokio::select! {
                    Some(()) = interrupt.recv() => INTERRUPTED,
                    Some(()) = terminate.recv() => TERMINATED,
                    else => return,
                };
                if heard.asked.is_cancelled() || heard.idle.load(Ordering::SeqCst) {
                    std::process::exit(code);
                }
                terminal.note(&format!(
                    "stopping: no new work starts; what is running has {} s to finish. Interrupt again to exit at once",
                    heard.grace.as_secs()
                ));
                heard.asked.cancel();
            }
        });
        Ok(stop)
    }

    /// Waits until someone asks.
    pub async fn asked(&self) {
        self.asked.cancelled().await;
    }

    /// Cancelled when someone asks.
    pub fn token(&self) -> CancellationToken {
        self.asked.clone()
    }

    /// Returns `true` if a stop has been requested.
    pub fn is_asked(&self) -> bool {
        self.asked.is_cancelled()
    }

    /// Reads a line; a signal meanwhile ends the process, for nothing is under way.
    pub fn while_idle<T>(&self, read: impl FnOnce() -> T) -> T {
        self.idle.store(true, Ordering::SeqCst);
        let read = read();
        self.idle.store(false, Ordering::SeqCst);
        read
    }

    /// Ends a run in order once someone asks; dropping the handle changes nothing.
    pub fn end_of(&self, host: &Host, run: &Run) -> AbortHandle {
        let (stop, host, run) = (self.clone(), host.clone(), run.clone());
        let ending = tokio::spawn(async move {
            stop.asked().await;
            if stop.keeps_runs {
                host.close(stop.grace).await;
            } else {
                run.cancel("interrupted");
            }
        });
        ending.abort_handle()
    }

    /// Returns the message about a run that was stopped and can be resumed.
    pub fn resumable(&self, outcome: &RunOutcome) -> Option<String> {
        let stopped = self.is_asked() && self.keeps_runs && !outcome.status.has_ended();
        stopped.then(|| format!("stopped; to continue: opcell runs resume {}", outcome.run))
    }
}
