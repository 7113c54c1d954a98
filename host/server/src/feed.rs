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

/// Bytes of JSON after which a page is full, however few events it has: one event may say megabytes, and many readers
/// may ask at once.
const PAGE_BYTES: usize = 4 << 20;

/// Events that are read before their size is known.
const FIRST: u64 = 8;

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

/// Events of a run after one of them: so many, or as many as fit a page, one at least where there is one. The flag says
/// whether a reader has to ask again for what it asked for.
///
/// # Errors
/// The journal's.
pub(crate) async fn page(engine: &Engine, run: &RunId, after: u64, limit: u64) -> Result<(Vec<Frame>, bool), RunError> {
    let (mut frames, mut bytes, mut last) = (Vec::<Frame>::new(), 0_usize, after);
    let mut wanted = FIRST;
    loop {
        let left = limit.saturating_sub(frames.len() as u64);
        let asked = wanted.min(left);
        let read = if asked == 0 { Vec::new() } else { engine.events_after(run, last, asked).await? };
        let is_end = (read.len() as u64) < asked;
        for recorded in &read {
            let frame = Frame::of(recorded);
            bytes = bytes.saturating_add(frame.json.len());
            last = frame.seq;
            frames.push(frame);
            if bytes >= PAGE_BYTES {
                return Ok((frames, true));
            }
        }
        if is_end || asked == left {
            return Ok((frames, false));
        }
        // As many as fit, if they are like those before.
        let each = bytes.checked_div(frames.len()).unwrap_or(0).max(1);
        wanted = u64::try_from((PAGE_BYTES - bytes) / each).unwrap_or(u64::MAX).max(1);
    }
}

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
            let (page, _) = page(&self.engine, &self.run, self.last, PAGE).await?;
            if !page.is_empty() {
                return Ok(Some(self.take(page)));
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
        let (page, _) = page(engine, run, last, PAGE).await?;
        let frames: Batch = page.into();
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
