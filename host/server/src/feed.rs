//! Events of runs as they happen, for any number of readers: a run is read from its journal once, whoever drives it.
//!
//! A reader first pages through what has happened, then listens. One that is too slow to listen pages again: it loses
//! nothing, and what waits for it is bounded.

use crate::problem::Problem;
use opcell_engine::{Engine, RunError, event::Recorded};
use opcell_journal::RunId;
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::broadcast;

/// Events that are read at once.
pub(crate) const PAGE: u64 = 256;

/// Batches that wait for the slowest listener before it has to page.
const WAITING: usize = 32;

/// How often a run is looked at that has a listener.
const POLL: Duration = Duration::from_millis(50);

/// How long a reader waits for news before it looks for itself.
const DOUBT: Duration = Duration::from_secs(2);

/// One event, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub seq: u64,
    pub is_last: bool,
    pub kind: &'static str,
    pub json: Arc<str>,
}

impl Frame {
    pub(crate) fn of(recorded: &Recorded) -> Self {
        let kind = recorded.event.kind();
        let head = json!({"seq": recorded.seq, "at": recorded.at.to_text(), "kind": kind}).to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let json = format!("{head},\"event\":{}}}", recorded.event.to_json());
        Self { seq: recorded.seq, is_last: kind == "run-finished", kind, json: json.into() }
    }

    /// As a server-sent event; JSON text has no line breaks.
    pub(crate) fn to_sse(&self) -> String {
        format!("id: {}\nevent: {}\ndata: {}\n\n", self.seq, self.kind, self.json)
    }
}

type Batch = Arc<[Frame]>;
type Followed = Arc<Mutex<HashMap<RunId, broadcast::Sender<Batch>>>>;

/// The runs that have listeners.
pub(crate) struct Feeds {
    engine: Engine,
    followed: Followed,
}

impl Feeds {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, followed: Followed::default() }
    }

    /// A reader of a run's events after one of them.
    pub(crate) fn reader(&self, run: RunId, after: u64) -> Reader {
        let (engine, followed) = (self.engine.clone(), self.followed.clone());
        Reader { engine, followed, run, last: after, ended: false, live: None }
    }

    /// How many runs are followed now.
    pub(crate) fn len(&self) -> usize {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Reads one run.
pub(crate) struct Reader {
    engine: Engine,
    followed: Followed,
    run: RunId,
    last: u64,
    ended: bool,
    live: Option<broadcast::Receiver<Batch>>,
}

impl Reader {
    /// The next events, in order, none twice and none left out; `None` after the last event of the run.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Frame>>, Problem> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let page = self.engine.events_after(&self.run, self.last, PAGE).await?;
            if !page.is_empty() {
                return Ok(Some(self.take(page.iter().map(Frame::of).collect())));
            }
            let Some(live) = &mut self.live else {
                // What happens between the look above and this is seen by the look after it.
                self.live = Some(self.listen());
                continue;
            };
            match tokio::time::timeout(DOUBT, live.recv()).await {
                Ok(Ok(batch)) => {
                    let fresh: Vec<Frame> = batch.iter().filter(|frame| frame.seq > self.last).cloned().collect();
                    let follows = fresh.first().is_some_and(|first| first.seq == self.last + 1);
                    if follows {
                        return Ok(Some(self.take(fresh)));
                    }
                }
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => {}
                Ok(Err(broadcast::error::RecvError::Closed)) => self.live = None,
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, frames: Vec<Frame>) -> Vec<Frame> {
        if let Some(last) = frames.last() {
            self.last = last.seq;
            self.ended = last.is_last;
        }
        frames
    }

    fn listen(&self) -> broadcast::Receiver<Batch> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = followed.get(&self.run) {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(WAITING);
        followed.insert(self.run.clone(), sender.clone());
        let (engine, all, run, last) = (self.engine.clone(), self.followed.clone(), self.run.clone(), self.last);
        tokio::spawn(async move {
            if let Err(error) = follow(&engine, &all, &run, last, &sender).await {
                tracing::warn!(%run, %error, "a run can no longer be followed");
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        });
        receiver
    }
}

/// Sends what happens in a run until it ends or no one listens.
async fn follow(
    engine: &Engine,
    all: &Followed,
    run: &RunId,
    mut last: u64,
    sender: &broadcast::Sender<Batch>,
) -> Result<(), RunError> {
    loop {
        let page = engine.events_after(run, last, PAGE).await?;
        let frames: Batch = page.iter().map(Frame::of).collect();
        if let Some(newest) = frames.last() {
            last = newest.seq;
            let is_last = newest.is_last;
            let _ = sender.send(frames);
            if is_last {
                return Ok(());
            }
            continue;
        }
        tokio::time::sleep(POLL).await;
        // Under the lock, so that no reader joins a feed that has just ended.
        let mut followed = all.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.receiver_count() == 0 {
            followed.remove(run);
            return Ok(());
        }
    }
}
