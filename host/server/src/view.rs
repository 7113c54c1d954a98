//! Runs as they were when someone looked last: the state, the spans, where models were spoken to, what was denied.
//!
//! Everything here follows from the events. It is kept for a while, so that whoever looks again, or looks at a run that
//! continues, reads only what has happened since; and few read at the same time, so that what the server holds is
//! bounded however long runs are and however many look at them.

use crate::{
    api::{Draw, GraphFormat, Path},
    problem::Problem,
    spans::{Span, SpanKind, Spans},
};
use axum::http::StatusCode;
use opcell::{Denial, remedy};
use opcell_engine::{
    Engine, ReadSoFar, RunError,
    event::{EffectReply, Event, Recorded},
    retry::RetryPoints,
    state::State as RunFold,
};
use opcell_journal::RunId;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Runs that are read at the same time for one tenant, from their first event to their last.
const READERS: usize = 4;

/// Traces that are sent at the same time for one tenant: each holds the spans of its run.
const TRACES: usize = 4;

/// Requests that wait until they may read.
const WAITING: usize = 1_024;

/// The time for which words on what a run waits for are shown again: they also depend on plugins and claims, which
/// change without an event of the run.
const WAIT_TTL: Duration = Duration::from_secs(10);

/// Runs of one tenant whose words are remembered.
const MAX_WAITS: usize = 1_000;

/// Events that are read at once.
const EVENTS_PER_READ: u64 = 256;

/// Events that a page waits for, of those of a run that no one has looked at: some 50 ms. The rest is read while the
/// page is looked at.
const GLANCE: u64 = 10_240;

/// Events after which whoever reads a run for a page lets others have the view.
const STRETCH: u64 = 2_048;

/// Views that are kept for one tenant, and the events that they have read altogether, the one that was used last aside:
/// some 600 bytes each.
const VIEWS: usize = 64;
const EVENTS: u64 = 200_000;

/// Bytes of an event that counts as one of them.
const EVENT_BYTES: u64 = 2_048;

/// The time for which an unused view is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Different denials of a run that are kept, and the newest receipts.
const DENIALS: usize = 200;
const RECEIPTS: usize = 20;

/// Answers and other messages of a run that are kept, the newest.
const ANSWERS: usize = 100;

/// Events that are far apart are not read together.
const GAP: u64 = 64;

/// An event of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// Its number.
    pub(crate) seq: u64,
    /// The step whose session it is.
    pub(crate) step: Arc<str>,
    /// The tool that answered.
    pub(crate) tool: Option<Arc<str>>,
}

/// The view of one run.
pub(crate) struct View {
    run: RunId,
    state: RunFold,
    spans: Spans,
    /// Indexes of the spans in the order of their tree; made again when there are more.
    order: Vec<usize>,
    failed: Vec<usize>,
    said: Vec<Said>,
    receipts: VecDeque<u64>,
    answers: VecDeque<u64>,
    denials: Vec<Denial>,
    path: Option<Box<dyn Path>>,
    last: Option<Recorded>,
    so_far: ReadSoFar,
    retries: RetryPoints,
}

impl View {
    fn new(run: &RunId, draw: Option<Draw>) -> Self {
        Self {
            run: run.clone(),
            state: RunFold::default(),
            spans: Spans::without_receipts(),
            order: Vec::new(),
            failed: Vec::new(),
            said: Vec::new(),
            receipts: VecDeque::new(),
            answers: VecDeque::new(),
            denials: Vec::new(),
            path: draw.map(|draw| draw()),
            last: None,
            so_far: ReadSoFar::nothing(),
            retries: RetryPoints::default(),
        }
    }

    /// Returns what it takes of [`EVENTS`]: events that say much count as several.
    fn weight(&self) -> u64 {
        self.state.seq().max(self.so_far.event_bytes() / EVENT_BYTES)
    }

    /// The fold of its events.
    pub(crate) fn state(&self) -> &RunFold {
        &self.state
    }

    /// Its last event.
    pub(crate) fn last(&self) -> Option<&Recorded> {
        self.last.as_ref()
    }

    /// The last event before the call with which it failed.
    pub(crate) fn before_failure(&self) -> Option<u64> {
        self.retries.before_failure()
    }

    /// Its spans, in the order in which they began.
    pub(crate) fn spans(&self) -> &[Span] {
        self.spans.all()
    }

    /// The events with which something was said to models, or by them.
    pub(crate) fn said(&self) -> &[Said] {
        &self.said
    }

    /// Numbers of the events that brought the newest receipts.
    pub(crate) fn receipts(&self) -> impl Iterator<Item = u64> {
        self.receipts.iter().copied()
    }

    /// Numbers of the events with which someone answered, sent a signal, or moved or cancelled the run; the newest.
    pub(crate) fn answers(&self) -> impl Iterator<Item = u64> {
        self.answers.iter().copied()
    }

    /// The index of a span by its [ID](Span::id).
    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        let (seq, place) = id.split_once('.').unwrap_or((id, "0"));
        let (seq, place): (u64, usize) = (seq.parse().ok()?, place.parse().ok()?);
        let all = self.spans.all();
        let index = all.partition_point(|span| span.seq < seq).checked_add(place)?;
        all.get(index).filter(|span| span.seq == seq).map(|_| index)
    }

    /// The step that a span belongs to, with its element where there are several.
    pub(crate) fn step_of(&self, span: &Span) -> String {
        self.spans.step_of(span)
    }

    /// The first calls right below a span, and how many there are.
    pub(crate) fn calls_of(&self, index: usize, most: usize) -> (Vec<Span>, usize) {
        let is_call = |span: &&Span| matches!(span.kind, SpanKind::Cell | SpanKind::Tool) && span.parent == Some(index);
        let calls = || self.spans.all().iter().skip(index).filter(is_call);
        (calls().take(most).cloned().collect(), calls().count())
    }

    /// The events of a span's conversation, each with its index among those of the run.
    pub(crate) fn said_in(&self, span: &Span) -> impl Iterator<Item = (usize, &Said)> {
        let step = self.spans.step_of(span);
        let (first, last) = match span.kind {
            SpanKind::Step | SpanKind::Part => (span.seq, span.ended_at.unwrap_or(u64::MAX)),
            SpanKind::Round | SpanKind::Wait => (span.ended_at.unwrap_or(u64::MAX), span.ended_at.unwrap_or(0)),
            _ => (1, 0),
        };
        let is_within = move |said: &Said| match said.step.strip_prefix(step.as_str()) {
            Some(rest) => rest.is_empty() || rest.starts_with(' '),
            None => false,
        };
        let begin = self.said.partition_point(|said| said.seq < first);
        let said = self.said.iter().enumerate().skip(begin).take_while(move |(_, said)| said.seq <= last);
        said.filter(move |(_, said)| is_within(said))
    }

    /// Returns its denials, each once.
    pub(crate) fn denials(&self) -> &[Denial] {
        &self.denials
    }

    /// A part of its spans as a tree is read, or of those that failed, and how many there are.
    pub(crate) fn window(&mut self, failed: bool, from: usize, most: usize) -> (Vec<Span>, usize) {
        let all = self.spans.all();
        if self.order.len() != all.len() {
            self.order = crate::spans::nested(all);
        }
        let order = if failed {
            // What failed may have begun long ago.
            let has_failed = |at: &&usize| all.get(**at).is_some_and(|span| span.failure.is_some());
            self.failed = self.order.iter().filter(has_failed).copied().collect();
            &self.failed
        } else {
            &self.order
        };
        let shown = order.iter().skip(from).take(most).filter_map(|at| all.get(*at)).cloned();
        (shown.collect(), order.len())
    }

    /// Returns the number of spans that failed.
    pub(crate) fn failures(&self) -> usize {
        self.spans.all().iter().filter(|span| span.failure.is_some()).count()
    }

    /// Draws its workflow with the path that it took.
    ///
    /// # Errors
    /// Why it cannot be drawn.
    pub(crate) fn draw(&self, format: GraphFormat) -> Result<String, String> {
        let program = self.state.program().ok_or("the run has no first event")?;
        let path = self.path.as_ref().ok_or("this server draws no graphs")?;
        path.draw(program.ir(), format)
    }

    fn observe(&mut self, recorded: Recorded) -> Result<(), RunError> {
        self.state.apply(&recorded).map_err(|source| RunError::Replay { run: self.run.clone(), source })?;
        for part in recorded.parts() {
            self.spans.observe(&part);
            if let Some(path) = &mut self.path {
                path.observe(&part.event);
            }
        }
        self.retries.observe(&recorded);
        let span = self.spans.of_event(&recorded.event);
        let is_augmenter = is_call(&recorded.event) && span.is_some_and(|span| self.spans.is_augmenter(span));
        if is_said(&recorded.event) || is_augmenter {
            let step = span.map(|span| self.spans.step_of(span)).unwrap_or_default();
            // A name is kept once for a conversation.
            let step = match self.said.last() {
                Some(last) if *last.step == *step => last.step.clone(),
                _ => step.into(),
            };
            let is_tool =
                matches!(&recorded.event, Event::Replied { reply, .. } if matches!(**reply, EffectReply::Tool(_)));
            let tool = span.filter(|_| is_tool || is_augmenter).map(|span| span.name.as_str().into());
            self.said.push(Said { seq: recorded.seq, step, tool });
        }
        if let Some(receipt) = recorded.event.receipt() {
            if self.receipts.len() == RECEIPTS {
                self.receipts.pop_front();
            }
            self.receipts.push_back(recorded.seq);
            if self.denials.len() < DENIALS {
                let fresh = remedy::of_receipt(receipt);
                let fresh = fresh.into_iter().filter(|denial| !self.denials.contains(denial));
                self.denials.extend(fresh.collect::<Vec<_>>());
            }
        }
        if is_answer(&recorded.event) {
            if self.answers.len() == ANSWERS {
                self.answers.pop_front();
            }
            self.answers.push_back(recorded.seq);
        }
        self.last = Some(recorded);
        Ok(())
    }

    /// Returns `true` if the run has more spans than are kept of one.
    pub(crate) fn is_cut(&self) -> bool {
        self.spans.is_cut()
    }

    /// Reads what has happened since, at most this many events; whether that was all.
    async fn catch_up(&mut self, engine: &Engine, draw: Option<Draw>, most: u64) -> Result<bool, RunError> {
        if let Some(last) = &self.last {
            // The last one again: by now, a run of this name may be another one, or a damaged end may have been cut.
            let again = engine.events_after(&self.run, last.seq - 1, 1).await;
            if !again.as_ref().is_ok_and(|again| again.first() == Some(last)) {
                let run = self.run.clone();
                *self = Self::new(&run, draw);
                again?;
            }
        }
        let until = self.state.seq().saturating_add(most);
        while self.state.seq() < until {
            let page = engine.events_held(&self.run, self.state.seq(), EVENTS_PER_READ, &mut self.so_far).await?;
            let is_end = page.is_empty() || self.so_far.is_end();
            for recorded in page {
                self.observe(recorded)?;
            }
            if is_end {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_said(event: &Event) -> bool {
    match event {
        Event::Replied { reply, .. } => {
            matches!(**reply, EffectReply::Open(Ok(_)) | EffectReply::Round(Ok(_)) | EffectReply::Tool(_))
        }
        Event::TurnStarted { .. } | Event::Interjected { .. } => true,
        _ => false,
    }
}

/// Returns `true` if a call of an operation ended.
fn is_call(event: &Event) -> bool {
    matches!(event, Event::Replied { reply, .. } if matches!(**reply, EffectReply::Invoke(_)))
}

/// Returns `true` for what a person or another program sent to the run.
fn is_answer(event: &Event) -> bool {
    matches!(
        event,
        Event::SignalReceived(_)
            | Event::Answered { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAnswered { .. }
            | Event::CallAnswered { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
    )
}

struct CachedView {
    view: Arc<AsyncMutex<View>>,
    events: u64,
    used: Instant,
    /// `true` if a request reads the rest of the run.
    is_read: bool,
}

/// The runs of one tenant that were looked at.
pub(crate) struct Views {
    engine: Engine,
    draw: OnceLock<Draw>,
    room: Semaphore,
    waiting: Semaphore,
    traces: Arc<Semaphore>,
    kept: Mutex<HashMap<RunId, CachedView>>,
    waits: Mutex<HashMap<RunId, CachedWait>>,
}

/// Words on what a run waits for.
struct CachedWait {
    /// Events of the run at that time.
    records: u64,
    read: Instant,
    text: String,
}

impl Views {
    pub(crate) fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self {
            engine,
            draw: OnceLock::new(),
            room: Semaphore::new(READERS),
            waiting: Semaphore::new(WAITING),
            traces: Arc::new(Semaphore::new(TRACES)),
            kept: Mutex::default(),
            waits: Mutex::default(),
        })
    }

    /// Draws graphs with this from now on.
    pub(crate) fn draw_with(&self, draw: Draw) {
        let _ = self.draw.set(draw);
    }

    /// Returns what was said of a run a moment ago, if it has no more events than then.
    pub(crate) fn wait_of(&self, run: &RunId, records: u64) -> Option<String> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = waits.get(run)?;
        (wait.records == records && wait.read.elapsed() < WAIT_TTL).then(|| wait.text.clone())
    }

    /// Notes the wait of a run that has this number of events.
    pub(crate) fn note_wait(&self, run: &RunId, records: u64, text: String) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|_, wait| wait.read.elapsed() < WAIT_TTL);
        if waits.len() < MAX_WAITS {
            waits.insert(run.clone(), CachedWait { records, read: Instant::now(), text });
        }
    }

    /// The right to read a run from its first event to its last, or to hold all of it.
    ///
    /// # Errors
    /// 503 when too many others wait for it.
    pub(crate) async fn room(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let busy = || {
            let detail =
                "as many runs are being read as the tenant may have at a time, and as many requests wait as may";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
            Problem { retry_after: Some(1), ..problem }.remedy("try again in a moment")
        };
        let _place = self.waiting.try_acquire().map_err(|_| busy())?;
        self.room.acquire().await.map_err(|_| busy())
    }

    /// The right to hold the spans of a run for as long as a client takes to read them.
    pub(crate) fn trace(&self) -> Option<OwnedSemaphorePermit> {
        self.traces.clone().try_acquire_owned().ok()
    }

    /// A run as it is now. Others who look at the same run wait as long as the view is held.
    ///
    /// # Errors
    /// When the journal does not have the run or cannot read it, or too many read at the same time.
    pub(crate) async fn of(&self, run: &RunId) -> Result<OwnedMutexGuard<View>, Problem> {
        let view = self.view(run);
        let (held, _) = self.read(run, view, u64::MAX).await?;
        Ok(held)
    }

    /// A run as far as it can be shown soon, and whether that is all of it. If not, the rest is read from now on, as
    /// long as someone looks.
    ///
    /// # Errors
    /// As [`Views::of`].
    pub(crate) async fn glance(self: &Arc<Self>, run: &RunId) -> Result<(OwnedMutexGuard<View>, bool), Problem> {
        let view = self.view(run);
        let is_read = self.lock().get(run).is_some_and(|kept| kept.is_read);
        // What is read already need not be waited for.
        let most = if is_read { 0 } else { GLANCE };
        let (held, is_all) = self.read(run, view.clone(), most).await?;
        if !is_all && !is_read {
            self.read_rest(run, Arc::downgrade(&view));
        }
        Ok((held, is_all))
    }

    fn read_rest(self: &Arc<Self>, run: &RunId, view: Weak<AsyncMutex<View>>) {
        match self.lock().get_mut(run) {
            Some(kept) if !kept.is_read => kept.is_read = true,
            _ => return,
        }
        let (views, run) = (Arc::downgrade(self), run.clone());
        tokio::spawn(async move {
            loop {
                let Some((views, view)) = views.upgrade().zip(view.upgrade()) else { return };
                let is_wanted = views.lock().get(&run).is_some_and(|kept| kept.used.elapsed() < IDLE);
                let is_done = match is_wanted {
                    true => views.read(&run, view, STRETCH).await.is_ok_and(|(_, is_all)| is_all),
                    false => true,
                };
                if is_done {
                    if let Some(kept) = views.lock().get_mut(&run) {
                        kept.is_read = false;
                    }
                    return;
                }
                // The page that waits for the view gets it.
                tokio::task::yield_now().await;
            }
        });
    }

    /// Returns the view of a run, and marks it as used.
    fn view(&self, run: &RunId) -> Arc<AsyncMutex<View>> {
        let draw = self.draw.get().copied();
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.used.elapsed() < IDLE);
        let fresh = || Arc::new(AsyncMutex::new(View::new(run, draw)));
        let now = Instant::now();
        let found = kept.entry(run.clone()).or_insert_with(|| CachedView {
            view: fresh(),
            events: 0,
            used: now,
            is_read: false,
        });
        found.used = now;
        found.view.clone()
    }

    async fn read(
        &self,
        run: &RunId,
        view: Arc<AsyncMutex<View>>,
        most: u64,
    ) -> Result<(OwnedMutexGuard<View>, bool), Problem> {
        let mut held = view.clone().lock_owned().await;
        let read = {
            let _room = self.room().await?;
            held.catch_up(&self.engine, self.draw.get().copied(), most).await
        };
        match read {
            Ok(is_all) => {
                self.keep(run, view, held.weight());
                Ok((held, is_all))
            }
            Err(error) => {
                self.lock().remove(run);
                Err(error.into())
            }
        }
    }

    fn keep(&self, run: &RunId, view: Arc<AsyncMutex<View>>, events: u64) {
        let mut kept = self.lock();
        match kept.get_mut(run) {
            Some(known) if Arc::ptr_eq(&known.view, &view) => known.events = events,
            _ => drop(kept.insert(run.clone(), CachedView { view, events, used: Instant::now(), is_read: false })),
        }
        // The run that is looked at stays, however long it is: it would be read again for each of its pages.
        while kept.len() > 1
            && (kept.len() > VIEWS || kept.values().map(|kept| kept.events).sum::<u64>() > EVENTS.max(events))
        {
            let others = kept.iter().filter(|(other, _)| *other != run);
            let oldest = others.min_by_key(|(_, kept)| kept.used).map(|(other, _)| other.clone());
            let Some(oldest) = oldest else { return };
            kept.remove(&oldest);
        }
    }

    /// Some events of a run by their numbers.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) async fn events(&self, run: &RunId, mut wanted: Vec<u64>) -> Result<BTreeMap<u64, Recorded>, RunError> {
        wanted.sort_unstable();
        wanted.dedup();
        let (mut found, mut rest) = (BTreeMap::new(), wanted.as_slice());
        // All of them are held at the same time.
        let mut so_far = ReadSoFar::nothing();
        while let Some(first) = rest.first() {
            let together = rest.partition_point(|seq| *seq < first + GAP);
            let (now, later) = rest.split_at(together);
            let most = now.last().map_or(1, |last| last - first + 1);
            let read = self.engine.events_held(run, first.saturating_sub(1), most, &mut so_far).await?;
            let read_to = read.last().map(|last| last.seq);
            let named = read.into_iter().filter(|recorded| now.binary_search(&recorded.seq).is_ok());
            found.extend(named.map(|recorded| (recorded.seq, recorded)));
            // A page of events that say much ends before the last one that was asked for.
            rest = match read_to {
                Some(read_to) => rest.get(rest.partition_point(|seq| *seq <= read_to)..).unwrap_or_default(),
                None => later,
            };
        }
        Ok(found)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, CachedView>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
