//! Contention: evidence that something waits for a processor or for a thread of the runtime.
//!
//! A hand-over between threads costs a cell 10 to 40 µs. It pays only where another cell, a connection or a timer would
//! otherwise wait for the thread, so a plugin's cells begin among the workers only if something was seen waiting
//! recently. Plugins that merely alternate, with nothing waiting, share a thread for free.

use super::{fair::WORKERS, ticker::SLICE};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;

/// The time for which evidence counts, in nanoseconds. Without it, the next long cell would keep the thread again as
/// soon as the queues are empty, and every request that arrives from outside would wait for one.
const WINDOW_NS: u64 = 50_000_000;

/// The last time at which something waited.
#[derive(Debug)]
pub(crate) struct Contention {
    /// In nanoseconds, plus one; 0 if nothing has waited yet.
    seen_at: AtomicU64,
    /// The time since which tasks have been found waiting for a thread of the runtime, likewise; 0 if none were found
    /// the last time.
    tasks_since: AtomicU64,
}

/// The contention of this process. Its runtimes and its pools share the processors.
pub(crate) static CONTENTION: Contention = Contention::new();

impl Contention {
    const fn new() -> Self {
        Self { seen_at: AtomicU64::new(0), tasks_since: AtomicU64::new(0) }
    }

    /// Returns `true` if something waits, or did recently.
    pub(crate) fn is_recent(&self, now: u64) -> bool {
        self.observe(now, WORKERS.are_late(), tasks_wait())
    }

    fn observe(&self, now: u64, cells_wait: bool, tasks_wait: bool) -> bool {
        let time = now.saturating_add(1);
        if self.are_tasks_late(time, tasks_wait) || cells_wait {
            self.seen_at.store(time, Ordering::Relaxed);
            return true;
        }
        let seen_at = self.seen_at.load(Ordering::Relaxed);
        seen_at != 0 && time.saturating_sub(seen_at) < WINDOW_NS
    }

    /// Returns `true` if tasks have waited for a slice. A thread of the runtime that is free takes some 50 µs to wake up,
    /// and until then its task waits as well.
    fn are_tasks_late(&self, time: u64, wait: bool) -> bool {
        if !wait {
            self.tasks_since.store(0, Ordering::Relaxed);
            return false;
        }
        match self.tasks_since.compare_exchange(0, time, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(since) => u128::from(time.saturating_sub(since)) >= SLICE.as_nanos(),
        }
    }
}

/// Returns `true` if a task that was woken or spawned from outside of the runtime has not been polled yet. Tasks in the
/// queue of one thread need no hand-over: other threads take them, and [`take_turn`](super::fair::take_turn) lets them
/// run.
fn tasks_wait() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.metrics().global_queue_depth() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = SLICE.as_nanos() as u64;

    #[test]
    fn without_evidence_nothing_is_contended() {
        let contention = Contention::new();
        assert!(!contention.observe(0, false, false));
        assert!(!contention.observe(WINDOW_NS * 10, false, false));
    }

    #[test]
    fn a_cell_that_waits_is_evidence_for_a_window() {
        let contention = Contention::new();
        assert!(contention.observe(7, true, false));
        assert!(contention.observe(7 + WINDOW_NS - 1, false, false));
        assert!(!contention.observe(7 + WINDOW_NS, false, false));
    }

    #[test]
    fn tasks_that_wait_for_a_slice_are_evidence_and_those_that_are_soon_polled_are_not() {
        let contention = Contention::new();
        for time in [0, SLICE_NS, 2 * SLICE_NS] {
            assert!(!contention.observe(time, false, true), "found waiting for the first time");
            assert!(!contention.observe(time + SLICE_NS - 1, false, true), "not yet for a slice");
            assert!(!contention.observe(time + SLICE_NS - 1, false, false), "polled");
        }
        assert!(!contention.observe(3 * SLICE_NS, false, true));
        assert!(contention.observe(4 * SLICE_NS, false, true));
    }

    #[tokio::test]
    async fn a_task_that_no_thread_of_the_runtime_has_taken_waits() {
        assert!(!tasks_wait());
        let runtime = Handle::current();
        let task = std::thread::spawn(move || runtime.spawn(std::future::ready(()))).join().unwrap();
        assert!(tasks_wait());
        task.await.unwrap();
        assert!(!tasks_wait());
    }

    #[test]
    fn outside_of_a_runtime_no_task_waits() {
        assert!(!tasks_wait());
    }
}
