//! Permits that threads take without waiting for one another.
//!
//! A semaphore is one counter and one lock, whose cache line two processors that run cells would exchange with every
//! cell. Here the permits are spread over shards: a thread takes from its own shard, then from the others, and waits
//! only when all are empty.

use std::{
    cell::Cell,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
    thread,
};
use tokio::sync::Semaphore;

/// The most shards. The cap bounds how many counters a thread probes when nearly all permits are taken.
const MAX_SHARDS: usize = 16;

thread_local! {
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The shard, of `shards`, that this thread uses first. Threads are assigned round-robin.
pub(crate) fn own_shard(shards: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut number = THREAD_NUMBER.get();
    if number == usize::MAX {
        number = NEXT.fetch_add(1, Relaxed);
        THREAD_NUMBER.set(number);
    }
    number % shards.max(1)
}

/// One shard per processor, capped.
pub(crate) fn shard_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MAX_SHARDS)
}

/// Counters padded to two cache lines, because processors fetch lines in pairs: no false sharing between shards.
#[repr(align(128))]
struct Shard {
    permits: AtomicUsize,
    /// Permits ever taken and returned by the threads of this shard.
    taken: AtomicUsize,
    returned: AtomicUsize,
}

/// A number of permits.
pub(crate) struct Slots {
    shards: Box<[Shard]>,
    /// The queue of waiters. It has permits only while a caller waits, or just after.
    gate: Semaphore,
    waiting: AtomicUsize,
}

/// A permit; given back when it is dropped.
pub(crate) struct Slot<'a>(&'a Slots);

/// A registered waiter; dropping it ends the registration.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Slots {
    pub(crate) fn new(all: usize) -> Self {
        let all = all.min(Semaphore::MAX_PERMITS);
        let count = shard_count().min(all.max(1));
        let shards = (0..count)
            .map(|at| Shard {
                permits: AtomicUsize::new(all / count + usize::from(at < all % count)),
                taken: AtomicUsize::new(0),
                returned: AtomicUsize::new(0),
            })
            .collect();
        Self { shards, gate: Semaphore::new(0), waiting: AtomicUsize::new(0) }
    }

    /// Returns `true` if a permit is taken. One that is taken throughout this call is never missed: returned permits
    /// are summed first, and each was taken before it was returned.
    pub(crate) fn in_use(&self) -> bool {
        self.taken_now() != 0
    }

    /// The number of permits that are taken, approximately.
    pub(crate) fn taken_now(&self) -> usize {
        let sum = |count: fn(&Shard) -> &AtomicUsize| {
            self.shards.iter().map(|shard| count(shard).load(SeqCst)).fold(0, usize::wrapping_add)
        };
        let returned = sum(|shard| &shard.returned);
        sum(|shard| &shard.taken).wrapping_sub(returned)
    }

    /// Takes a permit that is free now.
    pub(crate) fn try_acquire(&self) -> Option<Slot<'_>> {
        let own = own_shard(self.shards.len());
        let (before, after) = self.shards.split_at_checked(own)?;
        if !after.iter().chain(before).any(Shard::take) {
            self.gate.try_acquire().ok()?.forget();
        }
        Some(self.count_taken())
    }

    fn count_taken(&self) -> Slot<'_> {
        if let Some(shard) = self.shards.get(own_shard(self.shards.len())) {
            shard.taken.fetch_add(1, SeqCst);
        }
        Slot(self)
    }

    /// Waits for a permit, first come first served.
    pub(crate) async fn acquire(&self) -> Option<Slot<'_>> {
        self.waiting.fetch_add(1, SeqCst);
        let _waiter = Waiter(&self.waiting);
        // A permit may have been returned just before this waiter was registered.
        if let Some(slot) = self.try_acquire() {
            return Some(slot);
        }
        self.gate.acquire().await.ok()?.forget();
        Some(self.count_taken())
    }
}

impl Shard {
    fn take(&self) -> bool {
        let less = |permits: usize| permits.checked_sub(1);
        self.permits.load(Relaxed) > 0 && self.permits.fetch_update(SeqCst, Relaxed, less).is_ok()
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let slots = self.0;
        let Some(shard) = slots.shards.get(own_shard(slots.shards.len())) else { return };
        shard.returned.fetch_add(1, SeqCst);
        shard.permits.fetch_add(1, SeqCst);
        // Either the waiter has seen the permit, or this sees the waiter.
        if slots.waiting.load(SeqCst) > 0 && shard.take() {
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
    fn every_permit_can_be_taken_by_any_thread() {
        let slots = Slots::new(7);
        assert!(!slots.in_use());
        let taken: Vec<_> = std::iter::from_fn(|| slots.try_acquire()).collect();
        assert_eq!(taken.len(), 7);
        assert!(slots.in_use() && slots.try_acquire().is_none());
        thread::scope(|scope| {
            for slot in taken {
                scope.spawn(move || drop(slot));
            }
        });
        assert!(!slots.in_use());
        assert_eq!(std::iter::from_fn(|| slots.try_acquire()).map(std::mem::forget).count(), 7);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_the_permit_to_the_next() {
        let slots = Slots::new(1);
        let held = slots.try_acquire().unwrap();
        {
            let mut one = Box::pin(slots.acquire());
            assert!(futures(&mut one).await.is_none());
            drop(held);
            // It has been handed the permit, and never looks at it.
        }
        assert_eq!(slots.waiting.load(SeqCst), 0);
        assert!(slots.in_use() || slots.try_acquire().is_some());
        assert!(slots.acquire().await.is_some());
        assert!(!slots.in_use());
    }

    async fn futures<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(1), future).await.ok()
    }

    /// Threads that take, hold and wait: permits are never exceeded, and no waiter is left behind.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn permits_are_never_exceeded_and_no_waiter_is_left_behind() {
        let (slots, out) = (Arc::new(Slots::new(3)), Arc::new(AtomicUsize::new(0)));
        let too_many = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (slots, out, too_many) = (Arc::clone(&slots), Arc::clone(&out), Arc::clone(&too_many));
                tokio::spawn(async move {
                    for round in 0..500 {
                        let slot = match slots.try_acquire() {
                            Some(slot) => slot,
                            None => slots.acquire().await.unwrap(),
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
            tokio::time::timeout(Duration::from_secs(60), task).await.expect("a waiter is left behind").unwrap();
        }
        assert!(!too_many.load(SeqCst) && !slots.in_use());
    }
}
