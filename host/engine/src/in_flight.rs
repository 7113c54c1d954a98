//! Effects that have been started and have not ended.
//!
//! A lone effect runs inside the run's own task, which saves the way to another and back. Several at once, such as the
//! elements of an `each`, are spread over *worker queues*, one per thread of the runtime, the first of which is the
//! run's own task: starting one more is putting it into a worker queue's set, and no effect has a task of its own. A
//! worker queue changes when an effect runs and nothing else: each is a future of its own, ends by itself and is
//! stopped by itself.

use futures_util::{
    FutureExt, StreamExt,
    future::{AbortHandle, Abortable, BoxFuture, poll_fn},
    stream::FuturesUnordered,
};
use opcell_core::{event::EffectReply, id::EffectId};
use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// An effect, and what came of it.
pub(crate) type Done = (EffectId, EffectReply);

/// The future that performs an effect.
pub(crate) type Work = BoxFuture<'static, EffectReply>;

/// The work of an effect, with the effect's ID.
struct Tagged {
    id: EffectId,
    work: Work,
}

impl Future for Tagged {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Done> {
        let id = self.id;
        self.work.as_mut().poll(context).map(|reply| (id, reply))
    }
}

/// Effects that have been started and have not ended.
pub(crate) struct InFlight {
    /// The only effect there is.
    alone: Option<Tagged>,
    /// The lane of the run's own task.
    here: FuturesUnordered<Abortable<Tagged>>,
    /// The others, made when they are first needed.
    worker_queues: Vec<WorkerQueue>,
    ended: (mpsc::UnboundedSender<Done>, mpsc::UnboundedReceiver<Done>),
    started: HashMap<EffectId, Started>,
    /// Effects before this one have been started.
    next: EffectId,
}

/// A task of its own that performs its share of a run's effects. It ends, with what it performs, when the run drops it.
struct WorkerQueue {
    work: mpsc::UnboundedSender<Vec<Abortable<Tagged>>>,
    /// The number of effects that it performs.
    load: usize,
}

struct Started {
    stop: AbortHandle,
    /// The one of `worker_queues`, unless here.
    worker_queue: Option<usize>,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self {
            alone: None,
            here: FuturesUnordered::new(),
            worker_queues: Vec::new(),
            ended: mpsc::unbounded_channel(),
            started: HashMap::new(),
            next: EffectId(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.started.len() + usize::from(self.alone.is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first effect that has not been started yet.
    pub(crate) fn next(&self) -> EffectId {
        self.next
    }

    /// Starts effects.
    pub(crate) fn start(&mut self, effects: impl IntoIterator<Item = (EffectId, Work)>) {
        let mut effects = effects.into_iter().map(|(id, work)| Tagged { id, work });
        let Some(first) = effects.next() else { return };
        self.next = self.next.max(EffectId(first.id.0 + 1));
        let second = effects.next();
        if second.is_none() && self.is_empty() {
            self.alone = Some(first);
            return;
        }
        let mut batches: Vec<Vec<Abortable<Tagged>>> = Vec::new();
        for tagged in std::iter::once(first).chain(second).chain(effects) {
            let id = tagged.id;
            self.next = self.next.max(EffectId(id.0 + 1));
            let worker_queue = self.least_busy();
            let (stop, registration) = AbortHandle::new_pair();
            let work = Abortable::new(tagged, registration);
            self.started.insert(id, Started { stop, worker_queue });
            let Some(at) = worker_queue else {
                self.here.push(work);
                continue;
            };
            if let Some(worker_queue) = self.worker_queues.get_mut(at) {
                worker_queue.load += 1;
            }
            batches.resize_with(batches.len().max(at + 1), Vec::new);
            if let Some(batch) = batches.get_mut(at) {
                batch.push(work);
            }
        }
        for (worker_queue, batch) in self.worker_queues.iter().zip(batches) {
            if !batch.is_empty() {
                // A worker queue is there as long as its sender is.
                let _ = worker_queue.work.send(batch);
            }
        }
    }

    /// The lane with the fewest effects; `None` is here.
    fn least_busy(&mut self) -> Option<usize> {
        let here = self.here.len();
        let (at, load) = self
            .worker_queues
            .iter()
            .map(|worker_queue| worker_queue.load)
            .enumerate()
            .min_by_key(|(_, load)| *load)
            .map_or((0, usize::MAX), |(at, load)| (at, load));
        if here.min(load) > 0 && self.worker_queues.len() + 1 < workers() {
            self.worker_queues.push(WorkerQueue::start(self.ended.0.clone()));
            return Some(self.worker_queues.len() - 1);
        }
        (load < here).then_some(at)
    }

    /// The next effect that ends; never, when none is in flight.
    pub(crate) async fn ended(&mut self) -> Done {
        poll_fn(|context| self.poll_ended(context)).await
    }

    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Done> {
        if let Some(alone) = &mut self.alone
            && let Poll::Ready(done) = alone.poll_unpin(context)
        {
            self.alone = None;
            return Poll::Ready(done);
        }
        // What the other worker queues have done first: they wait for more.
        while let Poll::Ready(Some(done)) = self.ended.1.poll_recv(context) {
            // The answer of one that was stopped is dropped.
            if self.forget(done.0) {
                return Poll::Ready(done);
            }
        }
        while let Poll::Ready(Some(done)) = self.here.poll_next_unpin(context) {
            if let Ok(done) = done
                && self.forget(done.0)
            {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }

    /// Stops what is not wanted; what it might still say is dropped.
    pub(crate) fn keep(&mut self, wanted: impl Fn(EffectId) -> bool) {
        self.alone.take_if(|alone| !wanted(alone.id));
        let unwanted: Vec<EffectId> = self.started.keys().copied().filter(|id| !wanted(*id)).collect();
        for id in unwanted {
            self.forget(id);
        }
    }

    /// Forgets an effect; returns `true` if it had been started, and had neither ended nor been stopped. It has now.
    fn forget(&mut self, id: EffectId) -> bool {
        let Some(Started { stop, worker_queue }) = self.started.remove(&id) else { return false };
        stop.abort();
        if let Some(worker_queue) = worker_queue.and_then(|at| self.worker_queues.get_mut(at)) {
            worker_queue.load -= 1;
        }
        true
    }
}

/// Threads of this runtime.
fn workers() -> usize {
    tokio::runtime::Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers())
}

impl WorkerQueue {
    fn start(ended: mpsc::UnboundedSender<Done>) -> Self {
        let (work, inbox) = mpsc::unbounded_channel();
        tokio::spawn(perform(inbox, ended));
        Self { work, load: 0 }
    }
}

async fn perform(mut inbox: mpsc::UnboundedReceiver<Vec<Abortable<Tagged>>>, ended: mpsc::UnboundedSender<Done>) {
    let mut set = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            more = inbox.recv() => match more {
                Some(more) => set.extend(more),
                None => return,
            },
            Some(done) = set.next(), if !set.is_empty() => {
                // A stopped one has nothing to say, and a run that is gone does not listen.
                if let Ok(done) = done && ended.send(done).is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::HashSet,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    /// Counts the effects that are there.
    struct Counted(Arc<AtomicUsize>);

    impl Counted {
        fn new(count: &Arc<AtomicUsize>) -> Self {
            count.fetch_add(1, Ordering::SeqCst);
            Self(count.clone())
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn endless(id: u64, count: &Arc<AtomicUsize>) -> (EffectId, Work) {
        let counted = Counted::new(count);
        let work = async move {
            let _counted = counted;
            std::future::pending().await
        };
        (EffectId(id), work.boxed())
    }

    fn immediate(id: u64) -> (EffectId, Work) {
        (EffectId(id), async { EffectReply::Slept }.boxed())
    }

    async fn none_left(count: &AtomicUsize) {
        let gone = async {
            while count.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("effects are still there");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn every_effect_ends_once_whatever_queue_it_is_in() {
        let mut in_flight = InFlight::new();
        in_flight.start((0..100).map(immediate));
        assert_eq!((in_flight.len(), in_flight.next()), (100, EffectId(100)));
        let mut ended = HashSet::new();
        for _ in 0..100 {
            assert!(ended.insert(in_flight.ended().await.0));
        }
        assert!(in_flight.is_empty() && in_flight.worker_queues.iter().all(|worker_queue| worker_queue.load == 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_stopped_effect_gives_no_reply_and_the_others_continue() {
        let mut in_flight = InFlight::new();
        let count = Arc::default();
        let mut effects: Vec<_> = (0..20).map(|id| endless(id, &count)).collect();
        effects.push(immediate(20));
        in_flight.start(effects);
        assert_eq!(in_flight.ended().await.0, EffectId(20));
        in_flight.keep(|id| id == EffectId(7));
        assert_eq!(in_flight.len(), 1);
        assert!(in_flight.ended().now_or_never().is_none());
        in_flight.start(vec![immediate(21), immediate(22)]);
        let ended = HashSet::from([in_flight.ended().await.0, in_flight.ended().await.0]);
        assert_eq!(ended, HashSet::from([EffectId(21), EffectId(22)]));
        in_flight.keep(|_| false);
        assert!(in_flight.ended().now_or_never().is_none());
        none_left(&count).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_run_that_is_let_go_takes_its_effects_with_it() {
        let mut in_flight = InFlight::new();
        let count = Arc::default();
        in_flight.start((0..20).map(|id| endless(id, &count)));
        assert!(in_flight.ended().now_or_never().is_none());
        drop(in_flight);
        none_left(&count).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn there_is_a_queue_for_every_thread_and_they_share_alike() {
        let mut in_flight = InFlight::new();
        in_flight.start((0..40).map(immediate));
        assert_eq!(in_flight.worker_queues.iter().map(|worker_queue| worker_queue.load).collect::<Vec<_>>(), [10; 3]);
        assert_eq!(in_flight.here.len(), 10, "the first worker_queue is here");
    }
}
