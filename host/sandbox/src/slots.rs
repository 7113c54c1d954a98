//! Permits that threads take without waiting for one another.
//!
//! A semaphore is one counter and one lock, which two processors that run cells hand to and fro with every cell. Here
//! each thread has a counter at hand, takes from the others' when it is empty, and waits only when all are.

use std::{
    cell::Cell,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
};
use tokio::sync::Semaphore;

/// Counters are worth their place up to so many threads.
const MOST_NEAR: usize = 16;

thread_local! {
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Which of `parts` equal parts this thread uses first. Threads are assigned round-robin.
pub(crate) fn home(parts: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut home = HOME.get();
    if home == usize::MAX {
        home = NEXT.fetch_add(1, Relaxed);
        HOME.set(home);
    }
    home % parts.max(1)
}

/// As many parts as there are processors.
pub(crate) fn parts() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST_NEAR)
}

/// Counters on a cache line of their own, and on the one that is fetched with it.
#[repr(align(128))]
struct Near {
    permits: AtomicUsize,
    /// How many were ever taken, and given back, by threads that are at home here.
    taken: AtomicUsize,
    returned: AtomicUsize,
}

/// A number of permits.
pub(crate) struct Slots {
    near: Box<[Near]>,
    /// Where those wait who find no permit. It has permits only while, or just after, someone waits.
    gate: Semaphore,
    waiting: AtomicUsize,
}

/// A permit; given back when it is dropped.
pub(crate) struct Slot<'a>(&'a Slots);

/// One more who waits, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Slots {
    pub(crate) fn new(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        let parts = parts().min(all.max(1));
        let near = (0..parts)
            .map(|at| Near {
                permits: AtomicUsize::new(all / parts + usize::from(at < all % parts)),
                taken: AtomicUsize::new(0),
                returned: AtomicUsize::new(0),
            })
            .collect();
        Self { near, gate: Semaphore::new(0), waiting: AtomicUsize::new(0) }
    }

    /// Whether a permit is out. One that is out all the while this looks is never missed: what was given back is counted
    /// first, and was taken before.
    pub(crate) fn in_use(&self) -> bool {
        self.out_now() != 0
    }

    /// About how many permits are out.
    pub(crate) fn out_now(&self) -> usize {
        let sum = |count: fn(&Near) -> &AtomicUsize| {
            self.near.iter().map(|near| count(near).load(SeqCst)).fold(0, usize::wrapping_add)
        };
        let returned = sum(|near| &near.returned);
        sum(|near| &near.taken).wrapping_sub(returned)
    }

    /// A permit that is free now.
    pub(crate) fn free(&self) -> Option<Slot<'_>> {
        let home = home(self.near.len());
        let (before, after) = self.near.split_at_checked(home)?;
        if !after.iter().chain(before).any(Near::take) {
            self.gate.try_acquire().ok()?.forget();
        }
        Some(self.out())
    }

    fn out(&self) -> Slot<'_> {
        if let Some(near) = self.near.get(home(self.near.len())) {
            near.taken.fetch_add(1, SeqCst);
        }
        Slot(self)
    }

    /// Waits for a permit, first come first served.
    pub(crate) async fn wait(&self) -> Option<Slot<'_>> {
        self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(&self.waiting);
        // Whoever gave one back before it could see that someone waits.
        if let Some(slot) = self.free() {
            return Some(slot);
        }
        self.gate.acquire().await.ok()?.forget();
        Some(self.out())
    }
}

impl Near {
    fn take(&self) -> bool {
        let less = |permits: usize| permits.checked_sub(1);
        self.permits.load(Relaxed) > 0 && self.permits.fetch_update(SeqCst, Relaxed, less).is_ok()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let slots = self.0;
        let Some(near) = slots.near.get(home(slots.near.len())) else { return };
        near.returned.fetch_add(1, SeqCst);
        near.permits.fetch_add(1, SeqCst);
        // Either the one who waits has seen the permit, or this sees that someone waits.
        if slots.waiting.load(SeqCst) > 0 && near.take() {
            slots.gate.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{Arc, atomic::AtomicBool},
        time::Duration,
    };

    #[test]
    fn there_are_as_many_as_there_are_wherever_they_are_taken() {
        let slots = Slots::new(7);
        assert!(!slots.in_use());
        let taken: Vec<_> = std::iter::from_fn(|| slots.free()).collect();
        assert_eq!(taken.len(), 7);
        assert!(slots.in_use() && slots.free().is_none());
        thread::scope(|scope| {
            for slot in taken {
                scope.spawn(move || drop(slot));
            }
        });
        assert!(!slots.in_use());
        assert_eq!(std::iter::from_fn(|| slots.free()).map(std::mem::forget).count(), 7);
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_the_permit_to_the_next() {
        let slots = Slots::new(1);
        let held = slots.free().unwrap();
        {
            let mut one = Box::pin(slots.wait());
            assert!(futures(&mut one).await.is_none());
            drop(held);
            // It has been handed the permit, and never looks at it.
        }
        assert_eq!(slots.waiting.load(SeqCst), 0);
        assert!(slots.in_use() || slots.free().is_some());
        assert!(slots.wait().await.is_some());
        assert!(!slots.in_use());
    }

    async fn futures<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(1), future).await.ok()
    }

    /// Threads that take, hold and wait: never more than there are, and no one is left behind.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn never_more_than_there_are_and_no_one_is_left_waiting() {
        let (slots, out) = (Arc::new(Slots::new(3)), Arc::new(AtomicUsize::new(0)));
        let too_many = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (slots, out, too_many) = (Arc::clone(&slots), Arc::clone(&out), Arc::clone(&too_many));
                tokio::spawn(async move {
                    for round in 0..500 {
                        let slot = match slots.free() {
                            Some(slot) => slot,
                            None => slots.wait().await.unwrap(),
                        };
                        if out.fetch_add(1, SeqCst) >= 3 {
                            too_many.store(true, SeqCst);
                        }
                        if round % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        out.fetch_sub(1, SeqCst);
                        drop(slot);
                    }
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(60), task).await.expect("someone waits forever").unwrap();
        }
        assert!(!too_many.load(SeqCst) && !slots.in_use());
    }
}
