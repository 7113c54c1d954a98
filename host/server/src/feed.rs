//! Events of runs as they happen, for any number of readers: a run is read from its journal once, whoever drives it,
//! and its readers share the text of what they are sent.
//!
//! The newest events of a run that has readers are kept, up to a size. A reader that is further behind reads pieces of
//! its own, which those who are at the same place share; few are read at a time. So a reader loses nothing, and one
//! that is slow, or has stopped reading, holds one piece and no more.

use crate::problem::Problem;
use axum::body::Bytes;
use opcell_engine::{
    Engine, RunError,
    event::{Event, Recorded},
};
use opcell_journal::RunId;
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::{Notify, Semaphore, watch};

/// Events that are read at once.
pub(crate) const PAGE: u64 = 256;

/// Bytes of JSON after which a page is full, however few events it has: one event may say megabytes, and many readers
/// may ask at once.
const PAGE_BYTES: usize = 4 << 20;

/// Bytes after which a piece of a stream is full; an event that says more is a piece of its own.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes of JSON with which as many events are read as were asked for.
const MAX_SHORT_READ_BYTES: usize = 512 << 10;

/// Events that are read before their size is known.
const FIRST: u64 = 8;

/// Bytes of a run's newest events that are kept for its readers; the last piece whatever it has.
const RECENT_BYTES: usize = 1 << 20;

/// Pieces that are read at the same time for the readers of one tenant that are behind.
const READING: usize = 4;

/// The interval at which a run that has a reader is polled.
const POLL: Duration = Duration::from_millis(50);

/// The first pause after an answer: each one that follows is twice as long, up to [`POLL`].
const SHORTEST_POLL: Duration = Duration::from_millis(1);

/// One event, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub seq: u64,
    pub is_last: bool,
    pub kind: &'static str,
    pub json: Arc<str>,
    /// The step that was entered with it.
    step: Option<Arc<str>>,
}

impl Frame {
    pub(crate) fn of(recorded: &Recorded) -> Self {
        let kind = recorded.event.kind();
        let head = json!({"seq": recorded.seq, "at": recorded.at.to_text(), "kind": kind}).to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let json = format!("{head},\"event\":{}}}", recorded.event.to_json());
        let step = match &recorded.event {
            Event::StepEntered { name, .. } | Event::StepCalled { name, .. } => Some(name.clone()),
            _ => None,
        };
        Self { seq: recorded.seq, is_last: kind == "run-finished", kind, json: json.into(), step }
    }
}

/// Events of a run after one of them: this many, or as many as fit the bytes, one at least where there is one. The flag
/// says whether a reader has to ask again for what it asked for.
async fn read(
    engine: &Engine,
    run: &RunId,
    after: u64,
    limit: u64,
    most_bytes: usize,
) -> Result<(Vec<Frame>, bool), RunError> {
    let (mut frames, mut bytes, mut last) = (Vec::<Frame>::new(), 0_usize, after);
    let mut wanted = FIRST;
    loop {
        let left = limit.saturating_sub(frames.len() as u64);
        let asked = wanted.min(left);
        let read = if asked == 0 { Vec::new() } else { engine.events_after(run, last, asked).await? };
        let before = bytes;
        let is_short = (read.len() as u64) < asked;
        for recorded in &read {
            let frame = Frame::of(recorded);
            bytes = bytes.saturating_add(frame.json.len());
            last = frame.seq;
            frames.push(frame);
            if bytes >= most_bytes {
                return Ok((frames, true));
            }
        }
        // Events of few bytes are fewer than were asked for only where the run ends.
        let is_end = read.is_empty() || (is_short && bytes - before < MAX_SHORT_READ_BYTES);
        if is_end || (asked == left && !is_short) {
            return Ok((frames, false));
        }
        // As many as fit, if they are like those before.
        let each = bytes.checked_div(frames.len()).unwrap_or(0).max(1);
        wanted = u64::try_from((most_bytes - bytes) / each).unwrap_or(u64::MAX).max(1);
    }
}

/// Events of a run after one of them as a page of JSON has them.
///
/// # Errors
/// The journal's.
pub(crate) async fn page(engine: &Engine, run: &RunId, after: u64, limit: u64) -> Result<(Vec<Frame>, bool), RunError> {
    read(engine, run, after, limit, PAGE_BYTES).await
}

/// Events of a run, one after the other, as server-sent events. All readers share the text.
#[derive(Debug)]
struct Piece {
    /// Number of its first event.
    first: u64,
    /// The offset of each event in the text.
    begins: Vec<usize>,
    text: Bytes,
    /// The steps that were entered, each with the number of its event.
    steps: Vec<(u64, Arc<str>)>,
    /// `true` if the run has no more events.
    is_end: bool,
}

impl Piece {
    /// None of no events.
    fn of(frames: &[Frame]) -> Option<Self> {
        let (first, last) = (frames.first()?, frames.last()?);
        let (mut text, mut begins) = (String::new(), Vec::with_capacity(frames.len()));
        for frame in frames {
            begins.push(text.len());
            // JSON text has no line breaks.
            let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", frame.seq, frame.kind, frame.json);
        }
        text.shrink_to_fit();
        let steps = frames.iter().filter_map(|frame| Some((frame.seq, frame.step.clone()?))).collect();
        Some(Self { first: first.seq, begins, text: text.into(), steps, is_end: last.is_last })
    }

    fn last(&self) -> u64 {
        self.first + self.begins.len().saturating_sub(1) as u64
    }

    /// Returns the text after an event, if that is the one before the first or one of these.
    fn after(&self, seq: u64) -> Option<Bytes> {
        let skipped = usize::try_from((seq + 1).checked_sub(self.first)?).ok()?;
        Some(self.text.slice(*self.begins.get(skipped)?..))
    }
}

/// The newest events of a run that has readers.
struct Followed {
    recent: Mutex<VecDeque<Arc<Piece>>>,
    /// Number of the newest event.
    news: watch::Sender<u64>,
    /// Told when someone has answered the run.
    answered: Notify,
}

/// The answer to a reader from the newest events.
enum Found {
    Piece(Arc<Piece>),
    /// It has had everything.
    Nothing,
    /// The next events are not kept any more.
    Gone,
}

impl Followed {
    fn new(last: u64) -> Self {
        Self { recent: Mutex::default(), news: watch::Sender::new(last), answered: Notify::new() }
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Arc<Piece>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, piece: Piece) {
        let last = piece.last();
        {
            let mut recent = self.recent();
            recent.push_back(Arc::new(piece));
            let mut bytes: usize = recent.iter().map(|piece| piece.text.len()).sum();
            while bytes > RECENT_BYTES && recent.len() > 1 {
                bytes -= recent.pop_front().map_or(0, |oldest| oldest.text.len());
            }
        }
        self.news.send_replace(last);
    }

    fn after(&self, seq: u64) -> Found {
        let recent = self.recent();
        let at = recent.partition_point(|piece| piece.last() <= seq);
        match recent.get(at) {
            Some(piece) if piece.first <= seq + 1 => Found::Piece(piece.clone()),
            Some(_) => Found::Gone,
            None if *self.news.borrow() > seq => Found::Gone,
            None => Found::Nothing,
        }
    }
}

/// The runs of a tenant that have readers.
pub(crate) struct Feeds {
    engine: Engine,
    followed: Mutex<HashMap<RunId, Arc<Followed>>>,
    /// Pieces that readers hold who are behind, by the event before the first.
    behind: Mutex<HashMap<(RunId, u64), Weak<Piece>>>,
    reading: Semaphore,
}

impl Feeds {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        let reading = Semaphore::new(READING);
        Arc::new(Self { engine, followed: Mutex::default(), behind: Mutex::default(), reading })
    }

    /// A reader of a run's events after one of them.
    pub(crate) fn reader(self: &Arc<Self>, run: RunId, after: u64) -> Reader {
        Reader { feeds: self.clone(), run, last: after, ended: false, live: None, held: None, held_after: after }
    }

    /// Ends the pause of whoever reads this run: it was answered, so that its next events are due. A shorter interval
    /// would do so as well, but for all runs that are read, of which most wait for something else.
    pub(crate) fn answered(&self, run: &RunId) {
        if let Some(followed) = self.followed().get(run) {
            followed.answered.notify_one();
        }
    }

    /// Returns the number of runs that are followed now.
    pub(crate) fn len(&self) -> usize {
        self.followed().len()
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Followed>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn behind(&self) -> MutexGuard<'_, HashMap<(RunId, u64), Weak<Piece>>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The piece after an event: the one that another reader holds, or one that is read now. None at the end.
    async fn piece(&self, run: &RunId, after: u64) -> Result<Option<Arc<Piece>>, Problem> {
        let _reading = self.reading.acquire().await.map_err(|_| gone())?;
        let place = (run.clone(), after);
        if let Some(held) = self.behind().get(&place).and_then(Weak::upgrade) {
            return Ok(Some(held));
        }
        let (frames, _) = read(&self.engine, run, after, PAGE, PIECE_BYTES).await?;
        let piece = Piece::of(&frames).map(Arc::new);
        if let Some(piece) = &piece {
            let mut behind = self.behind();
            if behind.len() == behind.capacity() {
                behind.retain(|_, piece| piece.strong_count() > 0);
            }
            behind.insert(place, Arc::downgrade(piece));
        }
        Ok(piece)
    }

    /// Follows a run for one more reader.
    fn listen(self: &Arc<Self>, run: &RunId, last: u64) -> Live {
        let mut followed = self.followed();
        if let Some(known) = followed.get(run) {
            return Live { news: known.news.subscribe(), followed: Arc::downgrade(known) };
        }
        let fresh = Arc::new(Followed::new(last));
        followed.insert(run.clone(), fresh.clone());
        let live = Live { news: fresh.news.subscribe(), followed: Arc::downgrade(&fresh) };
        let (feeds, run) = (self.clone(), run.clone());
        tokio::spawn(async move {
            if let Err(error) = feeds.follow(&run, last, &fresh).await {
                tracing::warn!(%run, %error, "a run can no longer be followed");
                feeds.forget(&run, &fresh);
            }
        });
        live
    }

    /// Keeps what happens in a run until it ends or no one reads.
    async fn follow(&self, run: &RunId, mut last: u64, followed: &Arc<Followed>) -> Result<(), RunError> {
        let (mut is_end, mut pause) = (false, POLL);
        loop {
            if !is_end {
                let (frames, _) = read(&self.engine, run, last, PAGE, PIECE_BYTES).await?;
                if let Some(piece) = Piece::of(&frames) {
                    last = piece.last();
                    is_end = piece.is_end;
                    followed.push(piece);
                    continue;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(POLL),
                () = followed.answered.notified() => pause = SHORTEST_POLL,
            }
            // Under the lock, so that no reader joins a feed that has just ended.
            let mut all = self.followed();
            if followed.news.receiver_count() == 0 {
                all.remove(run);
                return Ok(());
            }
        }
    }

    fn forget(&self, run: &RunId, followed: &Arc<Followed>) {
        let mut all = self.followed();
        if all.get(run).is_some_and(|known| Arc::ptr_eq(known, followed)) {
            all.remove(run);
        }
    }
}

fn gone() -> Problem {
    Problem::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping")
}

/// The events that a reader follows. It ends with whoever follows the run.
struct Live {
    news: watch::Receiver<u64>,
    followed: Weak<Followed>,
}

/// Reads one run.
pub(crate) struct Reader {
    feeds: Arc<Feeds>,
    run: RunId,
    last: u64,
    ended: bool,
    live: Option<Live>,
    /// The piece that was given last: it may be on its way still, and a reader at the same place gets the same one.
    held: Option<Arc<Piece>>,
    /// The event that it came after.
    held_after: u64,
}

impl Reader {
    /// The next events, in order, none twice and none left out; `None` after the last event of the run.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        self.held = None;
        loop {
            if self.ended {
                return Ok(None);
            }
            let mut is_behind = false;
            if let Some(live) = &mut self.live {
                // What comes between the look and the waiting is news.
                live.news.borrow_and_update();
                match live.followed.upgrade().map(|followed| followed.after(self.last)) {
                    Some(Found::Piece(piece)) => return Ok(self.take(piece)),
                    Some(Found::Nothing) if live.news.changed().await.is_ok() => continue,
                    Some(Found::Gone) => is_behind = true,
                    _ => self.live = None,
                }
            }
            if let Some(piece) = self.feeds.piece(&self.run, self.last).await? {
                return Ok(self.take(piece));
            }
            if is_behind {
                // What was kept is of a run that is not there any more, and another one has its name.
                tokio::time::sleep(POLL).await;
            }
            // What happens between the look above and this is what is followed.
            self.live = Some(self.feeds.listen(&self.run, self.last));
        }
    }

    /// The steps that were entered in what was given last.
    pub(crate) fn entered(&self) -> impl Iterator<Item = Arc<str>> + use<> {
        let (after, held) = (self.held_after, self.held.clone());
        let steps = held.map(|held| held.steps.clone()).unwrap_or_default();
        steps.into_iter().filter(move |(seq, _)| *seq > after).map(|(_, step)| step)
    }

    fn take(&mut self, piece: Arc<Piece>) -> Option<Bytes> {
        let text = piece.after(self.last)?;
        self.held_after = self.last;
        self.last = piece.last();
        self.ended = piece.is_end;
        self.held = Some(piece);
        Some(text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use crate::{
        access::{Admitted, Caller},
        api,
        tenant::{Tenant, TenantLimits},
    };
    use opcell::{Host, ResumeOptions, RunOptions, Value, Workflow, document};
    use opcell_engine::Wanted;
    use std::path::Path;
    use tokio::time::Instant;

    const ASKS: &str = r#"{:name "asks" :description "Asks"
        :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Ship?"}]}"#;

    /// A tenant with one run that asks, and a reader who has read all that it has so far.
    async fn asked() -> (Admitted, RunId, Reader) {
        let host = Host::builder().build().await.unwrap();
        let workflow = Workflow::of(document::compile(Path::new("asks.edn"), ASKS.to_owned())).unwrap();
        let run: RunId = "asks-1".into();
        let options = RunOptions { run: Some("asks-1".parse().unwrap()), detach: true, ..RunOptions::default() };
        host.start_with(&workflow, Value::Null, options).await.unwrap().finished().await.unwrap();
        let tenant = Arc::new(Tenant::new("default", host, TenantLimits::default()));
        let caller = Caller { name: "ann".into(), tenant: None, scopes: None };
        let mut reader = tenant.feeds.reader(run.clone(), 0);
        reader.next().await.unwrap().unwrap();
        (Admitted { tenant, caller }, run, reader)
    }

    /// Time until a reader, in the middle of a pause, sees the end of a run that is continued 5 ms after `answer`.
    async fn seen_after(admitted: &Admitted, run: &RunId, reader: &mut Reader, answer: impl Future) -> Duration {
        let asked = Instant::now();
        let mut ended = None;
        let reading = async {
            while reader.next().await.unwrap().is_some() {}
            ended = Some(asked.elapsed());
        };
        let continuing = async {
            // The reader's pause has begun.
            tokio::time::sleep(Duration::from_millis(3)).await;
            answer.await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let host = admitted.tenant.host.now();
            host.resume(run, ResumeOptions::default()).await.unwrap().finished().await.unwrap();
        };
        tokio::join!(reading, continuing);
        ended.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_pause_of_a_runs_readers() {
        let (admitted, run, mut reader) = asked().await;
        let answer = async {
            let sent = api::answer(&admitted, run.clone(), Wanted::default(), true, None).await;
            sent.map(drop).unwrap();
        };
        let took = seen_after(&admitted, &run, &mut reader, answer).await;
        // Continued after 8 ms; the pauses that follow the answer are of 1, 2, 4 and 8 ms.
        assert!(took < Duration::from_millis(20), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_no_one_answered_is_polled_as_seldom_as_before() {
        let (admitted, run, mut reader) = asked().await;
        let elsewhere = async {
            // Another process has answered.
            let engine = admitted.tenant.host.engine();
            let data = Value::object([("approved", Value::from(true))]);
            engine.signal(&run, &"ship".into(), data, None).await.unwrap();
        };
        let took = seen_after(&admitted, &run, &mut reader, elsewhere).await;
        assert!(took >= Duration::from_millis(40) && took <= POLL * 2, "{took:?}");
    }
}
