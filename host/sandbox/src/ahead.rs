//! Instances made ahead of their calls.
//!
//! Making an instance and cleaning up after it takes three times as long as calling it. For a plugin that is called
//! often, one thread, which gives way to all others, makes a few instances before they are called and drops those that
//! were. A call that finds one ready begins at once; one that does not makes its own, as ever.
//!
//! The thread looks once a millisecond. So calls that come now and then all find an instance ready, and where calls come
//! one upon the other hardly any do: two processors that work on the instances of one engine at the same time take longer
//! over them than one.
//!
//! That changes when an instance is made, and nothing about what it is:
//!
//! - **It serves one call.** A call takes it out of the list, and its store is dropped afterwards.
//! - **It knows of no call.** It is made without context, host, tape or grants. One that asks the host for anything
//!   while it is made, that waits, or that takes more than a few milliseconds is dropped, and its plugin has none
//!   made from then on. Plugins that import WASI have none: they may look at clocks and random numbers then.
//! - **It is bounded.** There are few for each engine, with those that wait to be dropped, and none of more than a
//!   megabyte. Their places in the pool are beside those of the cells that may run.
//! - **Limits are armed when the call begins**: its deadline, its clock, its own narrower limits. What making it took of
//!   memory and ticks counts, for the limits of the call and for the plugin's share of the processor.

use crate::{
    cell,
    engine::{Metering, Spare},
    grants::Narrowing,
    host::{HostServices, NoServices},
    permits::yield_to_others,
    plugin::Linked,
    recording::Tape,
    state::CellState,
};
use opcell_types::CallContext;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};
use wasmtime::{PoolConcurrencyLimitError, Store, component::Instance};

/// So many calls within [`LATELY`] of one another are often.
const OFTEN: u32 = 64;

/// A plugin that is not called for so long has no instances made any more.
const LATELY: Duration = Duration::from_secs(1);

/// Instances that are ready at a time, for each engine of a plugin.
const READY: usize = 4;

/// Linear memory of an instance that is made ahead or dropped later, at most.
const MOST_MEMORY: usize = 1 << 20;

/// How often the thread does what there is to do while plugins are called.
const LOOK: Duration = Duration::from_millis(1);

/// Instances of one plugin on one engine.
pub(crate) struct Ahead {
    linked: Arc<Linked>,
    hands: Mutex<Hands>,
    /// Calls since the maker looked, or since [`Self::since`] while it does not look.
    calls: AtomicU32,
    /// When the calls that are counted began, in nanoseconds.
    since: AtomicU64,
    made: AtomicU8,
    /// Instances that calls found ready.
    taken: AtomicU64,
    /// What stands for a call's own where there is no call.
    no_context: Arc<CallContext>,
    no_host: Arc<dyn HostServices>,
}

/// No one makes any.
const NOT: u8 = 0;
/// The maker does.
const YES: u8 = 1;
/// No one ever will.
const NEVER: u8 = 2;

#[derive(Default)]
struct Hands {
    ready: Vec<Ready>,
    used: Vec<Used>,
}

/// An instance that no call has seen.
pub(crate) struct Ready {
    pub(crate) store: Store<CellState>,
    pub(crate) instance: Instance,
    spare: Spare,
}

/// What is left of a cell: memory to be cleaned.
struct Used {
    _store: Store<CellState>,
    _spare: Spare,
}

impl Ahead {
    /// For a plugin that may have instances made ahead.
    pub(crate) fn of(linked: &Arc<Linked>) -> Option<Arc<Self>> {
        if linked.wasi || linked.metering == Metering::Deterministic || !linked.engine.has_spares() {
            return None;
        }
        Some(Arc::new(Self {
            linked: Arc::clone(linked),
            hands: Mutex::default(),
            calls: AtomicU32::new(0),
            since: AtomicU64::new(0),
            made: AtomicU8::new(NOT),
            taken: AtomicU64::new(0),
            no_context: Arc::default(),
            no_host: Arc::new(NoServices),
        }))
    }

    /// How many calls have found an instance ready.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Counts a call that began now; an instance for it, if one is ready.
    pub(crate) fn take(self: &Arc<Self>, tape: &Tape, now: Instant) -> Option<Ready> {
        match self.made.load(Relaxed) {
            NOT => self.count(now),
            YES => {
                self.calls.store(1, Relaxed);
                if !matches!(tape, Tape::Off) {
                    return None;
                }
                let ready = self.hands().ready.pop()?;
                self.taken.fetch_add(1, Relaxed);
                return Some(ready);
            }
            _ => {}
        }
        None
    }

    fn count(self: &Arc<Self>, now: Instant) {
        let now = nanos(now);
        let calls = self.calls.fetch_add(1, Relaxed);
        if calls == 0 {
            self.since.store(now, Relaxed);
        }
        if calls + 1 < OFTEN {
            return;
        }
        self.calls.store(0, Relaxed);
        let lately = now.saturating_sub(self.since.load(Relaxed)) < LATELY.as_nanos() as u64;
        if lately && self.made.compare_exchange(NOT, YES, Relaxed, Relaxed).is_ok() {
            MAKER.serve(self);
        }
    }

    /// The state of a cell that has ended. Its memory is cleaned here, or later and elsewhere if that may wait.
    pub(crate) fn end(&self, mut store: Store<CellState>, spare: Option<Spare>) -> CellState {
        let later = self.made.load(Relaxed) == YES && store.data().memory.peak <= MOST_MEMORY;
        match spare.or_else(|| later.then(|| self.linked.engine.spare()).flatten()) {
            Some(spare) if later => {
                let state = std::mem::replace(store.data_mut(), self.no_state());
                self.hands().used.push(Used { _store: store, _spare: spare });
                state
            }
            _ => store.into_data(),
        }
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn no_state(&self) -> CellState {
        let linked = Arc::clone(&self.linked);
        let (limits, name) = (Arc::clone(&linked.limits), Arc::clone(&linked.name));
        CellState::new(linked, limits, name, Arc::clone(&self.no_context), Arc::clone(&self.no_host))
    }

    /// What there is to do for this plugin.
    fn attend(&self, idle: &mut Duration, passed: Duration) {
        if self.calls.swap(0, Relaxed) > 0 {
            *idle = Duration::ZERO;
        } else {
            *idle += passed;
        }
        let used = std::mem::take(&mut self.hands().used);
        drop(used);
        let missing = READY.saturating_sub(self.hands().ready.len());
        for _ in 0..if *idle < LATELY { missing } else { 0 } {
            match self.make() {
                Made::Ready(ready) => self.hands().ready.push(ready),
                Made::Full => return,
                Made::Unfit => return self.made.store(NEVER, Relaxed),
            }
        }
    }

    fn make(&self) -> Made {
        let engine = &self.linked.engine;
        let Some(spare) = engine.spare() else { return Made::Full };
        // The clock ticks while it is held.
        let Some(_slot) = engine.free_slot() else { return Made::Full };
        let started = Instant::now();
        let made = catch_unwind(AssertUnwindSafe(|| {
            let state = CellState { narrowing: Some(Narrowing::to_nothing()), ..self.no_state() };
            let mut store = cell::store_of(&self.linked, state).ok()?;
            let instance = match at_once(self.linked.pre.instantiate_async(&mut store))? {
                Ok(instance) => instance,
                Err(error) if error.is::<PoolConcurrencyLimitError>() => return Some(None),
                Err(_) => return None,
            };
            store.data().is_as_made(MOST_MEMORY).then_some(Some((store, instance)))
        }));
        self.linked.share.note_of(started);
        match made {
            Ok(Some(Some((store, instance)))) => Made::Ready(Ready { store, instance, spare }),
            Ok(Some(None)) => Made::Full,
            Ok(None) | Err(_) => Made::Unfit,
        }
    }

    /// No more calls are expected; when they come, they are counted anew.
    fn rest(&self) {
        let hands = std::mem::take(&mut *self.hands());
        drop(hands);
        self.calls.store(0, Relaxed);
        let _ = self.made.compare_exchange(YES, NOT, Relaxed, Relaxed);
    }
}

enum Made {
    Ready(Ready),
    /// There is no room now.
    Full,
    /// The plugin is not one whose instances can be made ahead.
    Unfit,
}

impl Ready {
    /// What a call needs of it.
    pub(crate) fn into_parts(self) -> (Store<CellState>, Instance, Spare) {
        (self.store, self.instance, self.spare)
    }
}

/// What comes of work that ends within a few slices of the clock and waits for nothing.
fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    // A slice may end right after the work began.
    (0..3).find_map(|_| match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

fn nanos(instant: Instant) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(instant.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

/// The thread that makes and drops instances, for all plugins of the process.
struct Maker {
    come: Mutex<Vec<Weak<Ahead>>>,
    thread: Mutex<Option<Thread>>,
}

static MAKER: LazyLock<Maker> = LazyLock::new(|| Maker { come: Mutex::default(), thread: Mutex::default() });

impl Maker {
    /// Takes care of one more plugin. Where the system has no thread for it, nothing is made ahead.
    fn serve(&'static self, ahead: &Arc<Ahead>) {
        self.come.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(ahead));
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let started = thread::Builder::new().name("opcell-ahead".to_owned()).spawn(move || {
                yield_to_others();
                self.work();
            });
            match started {
                Ok(started) => *thread = Some(started.thread().clone()),
                Err(error) => {
                    tracing::debug!(%error, "no thread to make instances ahead");
                    ahead.made.store(NEVER, Relaxed);
                }
            }
        }
        if let Some(thread) = &*thread {
            thread.unpark();
        }
    }

    fn work(&self) {
        let mut served: Vec<(Weak<Ahead>, Duration)> = Vec::new();
        let mut looked = Instant::now();
        loop {
            let passed = looked.elapsed();
            looked += passed;
            let come = std::mem::take(&mut *self.come.lock().unwrap_or_else(PoisonError::into_inner));
            served.extend(come.into_iter().map(|ahead| (ahead, Duration::ZERO)));
            served.retain_mut(|(ahead, idle)| {
                let Some(ahead) = ahead.upgrade() else { return false };
                ahead.attend(idle, passed);
                let goes_on = *idle < LATELY && ahead.made.load(Relaxed) == YES;
                if !goes_on {
                    ahead.rest();
                }
                goes_on
            });
            // Who comes meanwhile has ended the wait before it begins.
            if served.is_empty() { thread::park() } else { thread::park_timeout(LOOK) }
        }
    }
}
