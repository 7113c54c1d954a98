//! The progress of calls, at a pace that people and clients can follow: a call may report a million times.

use crate::ports::{AnswerPiece, RunText};
use opcell_core::id::EffectId;
use opcell_types::progress::{CallProgress, ProgressLog, ProgressSink};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};

/// Reports of a call that are told at once.
const BURST: u32 = 8;

/// The interval at which a call that has told as many tells one more: always its newest.
const PACE: Duration = Duration::from_millis(100);

/// Receives what a paced call tells.
pub trait PacedSink: Send + Sync {
    /// The progress as it is now. Must not block.
    fn told(&self, progress: CallProgress);

    /// The call has ended, after it told something.
    fn ended(&self) {}
}

impl<F: Fn(CallProgress) + Send + Sync> PacedSink for F {
    fn told(&self, progress: CallProgress) {
        self(progress);
    }
}

/// Tells a sink of one call's progress, and no more often than it can be followed. Of what comes faster, the newest
/// counts. Dropped, it says that the call is over.
pub struct PacedProgress<S: PacedSink + 'static> {
    sink: S,
    own: Weak<Self>,
    state: Mutex<Pace>,
}

#[derive(Default)]
struct Pace {
    /// Reports that were told of late, and the time until which they count.
    told: u32,
    since: Option<Instant>,
    /// The newest report that was not told yet.
    waiting: Option<CallProgress>,
    /// `true` while a timer is set for it.
    is_timed: bool,
    has_told: bool,
}

impl Pace {
    /// Returns `true` if one more may be told now, and counts it.
    fn take(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let passed = u32::try_from(now.duration_since(since).as_millis() / PACE.as_millis()).unwrap_or(u32::MAX);
        if passed > 0 {
            self.told = self.told.saturating_sub(passed);
            self.since = Some(now);
        }
        let may = self.told < BURST;
        self.told += u32::from(may);
        may
    }
}

impl<S: PacedSink + 'static> PacedProgress<S> {
    /// The progress of one call.
    #[must_use]
    pub fn new(sink: S) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { sink, own: own.clone(), state: Mutex::default() })
    }

    /// The place in which the call tells it.
    #[must_use]
    pub fn log(self: &Arc<Self>) -> ProgressLog {
        ProgressLog::new(self.clone())
    }

    /// Tells what was not told yet.
    pub fn flush(&self) {
        self.tell_waiting(&mut self.state());
    }

    fn state(&self) -> MutexGuard<'_, Pace> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Told under the lock, so that two threads tell in the order in which the call reports.
    fn tell_waiting(&self, state: &mut Pace) {
        if let Some(progress) = state.waiting.take() {
            state.has_told = true;
            self.sink.told(progress);
        }
    }

    async fn tell_later(own: Weak<Self>) {
        loop {
            tokio::time::sleep(PACE).await;
            let Some(own) = own.upgrade() else { return };
            let mut state = own.state();
            if state.take(Instant::now()) {
                own.tell_waiting(&mut state);
                state.is_timed = false;
                return;
            }
        }
    }
}

impl<S: PacedSink + 'static> ProgressSink for PacedProgress<S> {
    fn progress(&self, progress: CallProgress) {
        let mut state = self.state();
        state.waiting = Some(progress);
        if state.is_timed {
            return;
        }
        if state.take(Instant::now()) {
            self.tell_waiting(&mut state);
        } else if let Ok(runtime) = Handle::try_current() {
            state.is_timed = true;
            drop(runtime.spawn(Self::tell_later(self.own.clone())));
        }
    }
}

impl<S: PacedSink + 'static> Drop for PacedProgress<S> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = state.waiting.take() {
            state.has_told = true;
            self.sink.told(progress);
        }
        if state.has_told {
            self.sink.ended();
        }
    }
}

impl<S: PacedSink + 'static> fmt::Debug for PacedProgress<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedProgress").finish_non_exhaustive()
    }
}

/// A call of a run, as whoever receives the answers of its models sees it.
struct CallOfRun {
    sink: Arc<dyn RunText>,
    effect: EffectId,
}

impl PacedSink for CallOfRun {
    fn told(&self, progress: CallProgress) {
        let CallProgress { done, total, message } = &progress;
        self.sink.piece(self.effect, AnswerPiece::Progress { done: *done, total: *total, message });
    }

    fn ended(&self) {
        self.sink.piece(self.effect, AnswerPiece::Ended);
    }
}

/// The place in which a call of a run tells its progress.
pub(crate) fn of_run(sink: Option<&Arc<dyn RunText>>, effect: EffectId) -> ProgressLog {
    sink.map(|sink| PacedProgress::new(CallOfRun { sink: sink.clone(), effect }).log()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use opcell_types::Value;

    #[derive(Default)]
    struct Told(Mutex<Vec<Value>>);

    impl RunText for Told {
        fn text(&self, _: EffectId, _: &str) {}

        fn piece(&self, effect: EffectId, piece: AnswerPiece<'_>) {
            self.0.lock().unwrap().push(piece.to_value(effect));
        }
    }

    impl Told {
        fn take(&self) -> Vec<String> {
            self.0.lock().unwrap().drain(..).map(|value| value.to_json()).collect()
        }
    }

    fn of(told: &Arc<Told>) -> ProgressLog {
        of_run(Some(&(told.clone() as Arc<dyn RunText>)), EffectId(7))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_reports_a_few_times_is_told_whole_and_ends_once() {
        let told = Arc::new(Told::default());
        let log = of(&told);
        log.report(1.0, Some(2.0), "one");
        log.report(2.5, None, "");
        let clone = log.clone();
        drop(log);
        let expected = [
            r#"{"progress":{"done":1,"total":2,"message":"one"},"effect":7}"#,
            r#"{"progress":{"done":2.5},"effect":7}"#,
        ];
        assert_eq!(told.take(), expected);
        drop(clone);
        assert_eq!(told.take(), [r#"{"ended":true,"effect":7}"#]);
        drop(of(&told));
        assert!(told.take().is_empty(), "a call that told nothing has no end");
        assert!(!of_run(None, EffectId(7)).is_watched());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_flood_little_is_told_and_always_the_newest() {
        let told = Arc::new(Told::default());
        let log = of(&told);
        for number in 0..100_000 {
            log.report(f64::from(number), Some(1e6), "x");
        }
        assert_eq!(told.take().len(), BURST as usize);
        tokio::time::sleep(PACE * 3).await;
        let later = told.take();
        assert!(later.len() == 1 && later[0].contains(r#""done":99999,"#), "{later:?}");

        let began = Instant::now();
        while began.elapsed() < PACE * 100 {
            log.report(1.0, None, "x");
            tokio::time::sleep(PACE / 50).await;
        }
        let steady = told.take().len();
        assert!((90..=100 + BURST as usize).contains(&steady), "{steady}");

        log.report(8.0, None, "x");
        log.report(9.0, None, "the last");
        drop(log);
        let last = told.take();
        assert!(last[last.len() - 2].contains("the last") && last[last.len() - 1].contains("ended"), "{last:?}");
    }
}
