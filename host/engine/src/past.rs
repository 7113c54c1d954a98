//! The past of runs in a journal, whichever process drives them: history, the state at any event, replay, forks.

use crate::{
    engine::Engine,
    error::RunError,
    record::{ReadSoFar, Reader, fold, read_history, to_record},
};
use opcell_core::{
    Next, RunOutcome, State, Status, decide,
    decide::called_again,
    event::{Event, ForkOrigin, Recorded},
    large::{LargeValues, ReadLimits},
    retry::RetryPoints,
};
use opcell_journal::{Driver, NewRun, RunEntry, RunId, RunQuery, RunState, StatusTally};
use opcell_types::NewRunId;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Events that are read at once where each is done with when the next one comes: what a long run says need not be in
/// memory as a whole.
const EVENTS_PER_PAGE: u64 = 1_000;

/// Bytes of text with which a journal gives as many records as were asked for.
const MAX_SHORT_PAGE_BYTES: u64 = 1 << 20;

/// The time to wait for news of a run that another process drives before it is looked at again.
const END_POLL: Duration = Duration::from_millis(200);

/// An event at which today's code would have decided otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// The record in the journal.
    pub recorded: Recorded,
    /// The decision of today; absent: none.
    pub decided: Option<Event>,
}

impl Engine {
    /// Every run of the journal, newest first.
    ///
    /// # Errors
    /// The journal's.
    pub async fn runs(&self) -> Result<Vec<RunEntry>, RunError> {
        Ok(self.journal.runs().await?)
    }

    /// The runs that a query asks for, newest first; its `now` is this engine's.
    ///
    /// # Errors
    /// When [`RunQuery::before`] names no run, or the journal's.
    pub async fn runs_page(&self, query: RunQuery) -> Result<Vec<RunEntry>, RunError> {
        Ok(self.journal.page(RunQuery { now: self.ports.timer.now().0, ..query }).await?)
    }

    /// Returns the number of runs of each status.
    ///
    /// # Errors
    /// The journal's.
    pub async fn runs_by_status(&self) -> Result<BTreeMap<String, StatusTally>, RunError> {
        Ok(self.journal.tally(self.ports.timer.now().0).await?)
    }

    /// Living processes that have the journal open, the busiest first.
    ///
    /// # Errors
    /// The journal's.
    pub async fn drivers(&self) -> Result<Vec<Driver>, RunError> {
        Ok(self.journal.drivers().await?)
    }

    /// Up to `limit` runnable runs without a driver, the one that has waited longest first.
    ///
    /// # Errors
    /// The journal's.
    pub async fn runnable(&self, limit: u64) -> Result<Vec<RunId>, RunError> {
        Ok(self.journal.runnable(self.ports.timer.now().0, limit).await?)
    }

    /// A run's events, without owning it.
    ///
    /// # Errors
    /// When the journal does not have the run, or one of them cannot be read; [`RunError::TooLarge`] when they take
    /// more than 512 MiB, and as unreadable when their values take more than 256 MiB.
    pub async fn history(&self, run: &RunId) -> Result<Vec<Recorded>, RunError> {
        read_history(self.reader(ReadLimits::DECIDED, run), u64::MAX).await
    }

    /// A run's events up to its `seq`th, or all of them.
    ///
    /// # Errors
    /// As [`Engine::history`]; what is broken after `seq` does not matter.
    pub async fn history_up_to(&self, run: &RunId, seq: Option<u64>) -> Result<Vec<Recorded>, RunError> {
        self.history_within(ReadLimits::DECIDED, run, seq).await
    }

    /// As [`Engine::history_up_to`], for showing a run: of values beyond 64 MiB, each counted once, there is `…`.
    ///
    /// # Errors
    /// As [`Engine::history_up_to`].
    pub async fn shown_history(&self, run: &RunId, seq: Option<u64>) -> Result<Vec<Recorded>, RunError> {
        self.history_within(ReadLimits::SHOWN, run, seq).await
    }

    async fn history_within(
        &self,
        limits: ReadLimits,
        run: &RunId,
        seq: Option<u64>,
    ) -> Result<Vec<Recorded>, RunError> {
        // There is no event 0; how many there are is part of the answer.
        let up_to = seq.filter(|seq| *seq > 0).unwrap_or(u64::MAX);
        let events = read_history(self.reader(limits, run), up_to).await?;
        let last = events.last().map_or(0, |last| last.seq);
        match seq {
            Some(seq) if seq == 0 || seq > last => Err(RunError::NoSuchEvent { run: run.clone(), seq, last }),
            _ => Ok(events),
        }
    }

    fn reader<'a>(&'a self, limits: ReadLimits, run: &'a RunId) -> Reader<'a> {
        Reader::within(limits, self.journal.as_ref(), run)
    }

    /// At most `limit` of a run's events after its `after`th, for reading a long run piece by piece: fewer where they
    /// would take more than 64 MiB, and none only where there are none. Of values beyond 64 MiB there is `…`. A `limit`
    /// of 0 reads none.
    ///
    /// # Errors
    /// As [`Engine::history`].
    pub async fn events_after(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Recorded>, RunError> {
        let records = self.journal.read(run, after, limit).await?;
        self.reader(ReadLimits::SHOWN, run).page(&records).await
    }

    /// As [`Engine::events_after`], for whoever holds what the events say: a value that two pages name is the same one,
    /// and the limits are those of the whole run.
    ///
    /// # Errors
    /// As [`Engine::history`].
    pub async fn events_held(
        &self,
        run: &RunId,
        after: u64,
        limit: u64,
        so_far: &mut ReadSoFar,
    ) -> Result<Vec<Recorded>, RunError> {
        let records = self.journal.read(run, after, limit).await?;
        let taken = std::mem::replace(so_far, ReadSoFar::nothing());
        let mut reader = Reader::resumed(taken, self.journal.as_ref(), run);
        let read = reader.page(&records).await;
        // A page of few bytes is a short one only where the run ends.
        let bytes = reader.charged_bytes;
        let is_whole = read.as_ref().is_ok_and(|read| read.len() == records.len());
        *so_far = reader.left(is_whole && (records.len() as u64) < limit && bytes < MAX_SHORT_PAGE_BYTES);
        read
    }

    /// A run's state after its `seq`th event, or after the last one.
    ///
    /// # Errors
    /// As [`Engine::history_up_to`], or when the events make no sense.
    pub async fn state_at(&self, run: &RunId, seq: Option<u64>) -> Result<State, RunError> {
        self.state_within(self.reader(ReadLimits::DECIDED, run), seq).await
    }

    /// As [`Engine::state_at`], for showing a run: of values beyond 64 MiB, each counted once, there is `…`.
    ///
    /// # Errors
    /// As [`Engine::state_at`].
    pub async fn shown_state(&self, run: &RunId, seq: Option<u64>) -> Result<State, RunError> {
        self.state_within(self.reader(ReadLimits::SHOWN, run), seq).await
    }

    pub(crate) async fn state_within(&self, mut reader: Reader<'_>, seq: Option<u64>) -> Result<State, RunError> {
        let run = reader.run();
        // There is no event 0; how many there are is part of the answer.
        let up_to = seq.filter(|seq| *seq > 0).unwrap_or(u64::MAX);
        let mut state = State::default();
        loop {
            let records = self.journal.read(run, state.seq(), EVENTS_PER_PAGE.min(up_to - state.seq())).await?;
            if records.is_empty() {
                break;
            }
            for recorded in &reader.page(&records).await? {
                fold(run, &mut state, recorded)?;
            }
            // Folding keeps a thread busy that others wait for.
            tokio::task::yield_now().await;
        }
        let last = state.seq();
        match seq {
            Some(seq) if seq == 0 || seq > last => Err(RunError::NoSuchEvent { run: run.clone(), seq, last }),
            _ => Ok(state),
        }
    }

    /// Replays a run from its journal and gives the first event that this version would have decided otherwise,
    /// with what it would have decided; `None` when there is none.
    ///
    /// # Errors
    /// As [`Engine::state_at`].
    pub async fn replay(&self, run: &RunId) -> Result<Option<Divergence>, RunError> {
        let mut state = State::default();
        let mut expected: VecDeque<Event> = VecDeque::new();
        let mut reader = self.reader(ReadLimits::DECIDED, run);
        loop {
            let records = self.journal.read(run, state.seq(), EVENTS_PER_PAGE).await?;
            if records.is_empty() {
                return Ok(None);
            }
            let page = reader.page(&records).await?;
            for recorded in &page {
                // Several elements at once are entered one after the other before any of them is called; one that was
                // called at once is decided by itself.
                let is_element = matches!(recorded.event, Event::ElementCalled { .. });
                let parts = if is_element { 1 } else { usize::MAX };
                for part in recorded.parts().take(parts) {
                    let is_of_before = expected.is_empty() && state.approved_as_before(&part.event);
                    if !part.event.comes_from_outside() && !is_of_before {
                        if expected.is_empty()
                            && let Next::Record(events) = decide(&state)
                        {
                            expected.extend(events);
                        }
                        let decided = expected.pop_front();
                        if decided.as_ref() != Some(&part.event) {
                            return Ok(Some(Divergence { recorded: part.into_owned(), decided }));
                        }
                    }
                    if !is_element {
                        state.apply_part(&part).map_err(|source| RunError::Replay { run: run.clone(), source })?;
                    }
                }
                if is_element {
                    let decided = called_again(&state, &recorded.event);
                    if decided.as_ref() != Some(&recorded.event) {
                        return Ok(Some(Divergence { recorded: recorded.clone(), decided }));
                    }
                    fold(run, &mut state, recorded)?;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a run has ended, whichever process drives it. Events are read once, as they come. A run
    /// without a driver does not end.
    ///
    /// # Errors
    /// When the journal does not have the run, or its events cannot be read.
    pub async fn wait_for_end(&self, run: &RunId) -> Result<RunOutcome, RunError> {
        let mut state = State::default();
        loop {
            let page = self.events_after(run, state.seq(), EVENTS_PER_PAGE).await?;
            for recorded in &page {
                fold(run, &mut state, recorded)?;
            }
            if state.end().is_some() {
                return Ok(state.outcome());
            }
            match page.is_empty() {
                true => self.journal.changed(END_POLL).await,
                false => tokio::task::yield_now().await,
            }
        }
    }

    /// The last event of a run before the call with which it failed, or before a step was last entered: a fork there
    /// makes the call again, or enters the step again.
    ///
    /// # Errors
    /// When the run has not failed at a step, or did not enter that one; as [`Engine::events_after`].
    pub async fn retry_point(&self, run: &RunId, step: Option<&str>) -> Result<u64, RunError> {
        let (mut points, mut last) = (RetryPoints::default(), 0);
        loop {
            let page = self.events_after(run, last, EVENTS_PER_PAGE).await?;
            let Some(read) = page.last() else { break };
            last = read.seq;
            page.iter().for_each(|recorded| points.observe(recorded));
            tokio::task::yield_now().await;
        }
        let found = match step {
            Some(step) => points.before_step(step),
            None => points.before_failure(),
        };
        found.ok_or_else(|| {
            let mut steps: Vec<&str> = points.steps().collect();
            steps.sort_unstable();
            let problem = match step {
                Some(step) => format!("it has not entered a step `{step}`; it has entered {}", steps.join(", ")),
                None => "it has not failed at a step; name the step to begin again with".to_owned(),
            };
            RunError::NothingToRetry { run: run.clone(), problem }
        })
    }

    /// Returns `true` if a person allowed something within the first `seq` events of a run. A fork that shares them acts
    /// on that approval again, so only someone who may approve may create it.
    ///
    /// # Errors
    /// As [`Engine::history_up_to`].
    pub async fn shares_approval(&self, run: &RunId, seq: u64) -> Result<bool, RunError> {
        let events = self.history_up_to(run, Some(seq)).await?;
        Ok(events.iter().any(|recorded| recorded.event.is_approval()))
    }

    /// Creates a run that shares the first `seq` events of another, and returns its ID. It has no driver yet:
    /// [`Engine::resume`] does. Its effects have idempotency keys of their own.
    ///
    /// # Errors
    /// As [`Engine::history_up_to`], when the run has ended by then, or when the name is taken.
    pub async fn fork(&self, run: &RunId, seq: u64, name: Option<NewRunId>) -> Result<RunId, RunError> {
        self.fork_by(run, seq, name, None).await
    }

    /// As [`Engine::fork`], with who asked for it, as the host knows them.
    ///
    /// # Errors
    /// As [`Engine::fork`].
    pub async fn fork_by(
        &self,
        run: &RunId,
        seq: u64,
        name: Option<NewRunId>,
        by: Option<Arc<str>>,
    ) -> Result<RunId, RunError> {
        let now = self.ports.timer.now();
        let fork: RunId = name.map_or_else(|| uuid::Uuid::now_v7().to_string().into(), Into::into);
        let mut events = self.history_up_to(run, Some(seq)).await?;
        let mut state = State::default();
        for recorded in &mut events {
            if let Event::RunStarted(started) = &mut recorded.event {
                started.run = fork.clone();
                let origin = ForkOrigin { run: run.clone(), seq, at: now, by: by.clone() };
                started.forked = Some(Box::new(origin));
            }
            fold(&fork, &mut state, recorded)?;
        }
        let status = state.status();
        if status.has_ended() {
            return Err(RunError::Ended { run: run.clone(), status });
        }
        let mut values = self.journal.keeps_values().then(LargeValues::default);
        let new = NewRun {
            run: fork.clone(),
            workflow: state.program().map_or_else(|| "".into(), |program| program.name().clone()),
            at: now.0,
            records: events.iter().map(|recorded| to_record(recorded, values.as_mut())).collect(),
            state: RunState { status: Status::Pending.as_str().into(), ended: false, due: Some(0) },
        };
        let fence = self.journal.create(new).await?;
        self.journal.release(&fork, fence).await?;
        Ok(fork)
    }
}
