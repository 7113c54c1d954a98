//! The offers of runs to Restate.

use crate::{
    admin::{Accepted, Server},
    contact::Contact,
    object,
};
use opcell_engine::{Engine, RunError, worker::WorkerEvent};
use opcell_journal::RunId;
use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The time between two looks at a journal that gives no notice by itself.
const POLL: Duration = Duration::from_millis(700);

/// A run that no worker takes within this time is offered again: the server may have lost the call with its disk.
const RETRY_DELAY: Duration = Duration::from_secs(15);

/// Workers that see the same run at the same time offer it once: the key of an offer changes this often.
const SAME: Duration = Duration::from_secs(2);

/// Runs that are offered between two looks.
const MAX_OFFERS: u64 = 1_000;

/// Asks for a turn of each run that can go on and has no driver, as the journal lists them: a run that was just made,
/// one with a message, one whose timer is due or whose worker is gone.
pub struct Offers {
    server: Server,
    engine: Engine,
    /// The URL of the workers.
    workers: Url,
    /// `true` if the server was told of them, and has answered since: one that lost its disk knows no workers.
    registered: bool,
    /// The runs that are listed and were offered, with when.
    offered: HashMap<RunId, Instant>,
}

impl Offers {
    pub(crate) fn new(server: Server, engine: Engine, workers: Url) -> Self {
        Self { server, engine, workers, registered: false, offered: HashMap::new() }
    }

    /// Offers runs until `stop` is cancelled.
    pub(crate) async fn run<F: Fn(WorkerEvent)>(mut self, stop: CancellationToken, mut contact: Contact<F>) {
        while !stop.is_cancelled() {
            let offered = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                offered = self.offer_all(&contact) => offered,
            };
            match offered {
                Ok(()) => {
                    contact.held();
                    let journal = self.engine.journal().clone();
                    tokio::select! { biased; () = stop.cancelled() => {} () = journal.changed(POLL) => {} }
                }
                Err(why) => {
                    self.registered = false;
                    contact.lost(why, &stop).await;
                }
            }
        }
    }

    async fn offer_all<F: Fn(WorkerEvent)>(&mut self, contact: &Contact<F>) -> Result<(), String> {
        if !self.registered {
            self.server.register(&self.workers).await?;
            self.registered = true;
        }
        let listed = self.engine.runnable(MAX_OFFERS).await.map_err(|error: RunError| error.to_string())?;
        // What is listed no more was taken.
        let mut before = std::mem::take(&mut self.offered);
        for run in listed {
            match before.remove(&run) {
                Some(at) if at.elapsed() < RETRY_DELAY => drop(self.offered.insert(run, at)),
                _ => match self.server.offer(object::NAME, &run, &key(&run)).await? {
                    Accepted::Now => drop(self.offered.insert(run, Instant::now())),
                    Accepted::Before => {}
                    // Others are not kept waiting by it.
                    Accepted::Refused(why) => {
                        contact.say(WorkerEvent::Refused { run: run.clone(), why });
                        self.offered.insert(run, Instant::now());
                    }
                },
            }
        }
        Ok(())
    }
}

fn key(run: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{run}@{}", now.as_secs() / SAME.as_secs())
}
