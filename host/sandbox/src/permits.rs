//! Who runs next.
//!
//! A cell begins on the caller's own thread, and a short one ends there: nothing is handed over. One that outlives a
//! slice of the clock goes on among the *workers*, threads of their own that run one slice after another: always of the
//! plugin that has used least, so that plugins share the processor and not cells. A plugin that has used more than its
//! allowance lately, while others run as well, begins there. So the threads of the runtime, its timers and its
//! connections never wait for guests, and a new or short cell waits for no one.

use crate::slots;
use async_task::{FallibleTask, Runnable};
use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Condvar, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// What a plugin may use on the callers' threads beyond its steady part, in nanoseconds.
const ALLOWANCE: u64 = 5_000_000;

/// Its steady part of one processor: a quarter.
const STEADY: u64 = 4;

/// For so long after two plugins took turns they count as running beside one another, in nanoseconds.
const BESIDE: u64 = 50_000_000;

/// How much the workers give way to other threads: they are preempted at once by a thread that was waiting for
/// something.
const NICENESS: i32 = 5;

/// What the cells of one plugin have used.
#[derive(Debug)]
pub(crate) struct Share {
    id: u64,
    /// Used on any thread and not yet made good by time, in nanoseconds, and when that was.
    debt: AtomicU64,
    at: AtomicU64,
    /// Used and not booked yet, by the threads at home at each place, in nanoseconds.
    near: Box<[Near]>,
    /// Used among the workers, in nanoseconds; a share that comes back begins where the others are.
    turns: AtomicU64,
}

/// What a thread may use before it is booked: booking with every cell is a counter that all processors hand around.
const UNBOOKED: u64 = 100_000;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Near(AtomicU64);

/// The plugin whose cell began last, and since when that changes.
static LAST: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicU64 = AtomicU64::new(0);

impl Share {
    pub(crate) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            debt: AtomicU64::new(0),
            at: AtomicU64::new(now()),
            near: (0..slots::parts()).map(|_| Near::default()).collect(),
            turns: AtomicU64::new(0),
        })
    }

    /// Which one: equal for all cells of one plugin.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Notes what a cell has used by now, and books it when it is much.
    fn note(&self, used: u64, now: u64) {
        let Some(near) = self.near.get(slots::home(self.near.len())) else { return };
        let used = near.0.fetch_add(used, Ordering::Relaxed) + used;
        if used >= UNBOOKED {
            // What another thread has booked meanwhile is not there any more.
            self.charge(near.0.swap(0, Ordering::Relaxed), now);
        }
    }

    /// Notes what was done for the plugin since `started`, by a thread that is not a worker.
    pub(crate) fn note_of(&self, started: Instant) {
        let ended = now();
        self.note(ended.saturating_sub(since_start(started)), ended);
    }

    /// Books what cells have used by now; what the share owes then.
    fn charge(&self, used: u64, now: u64) -> u64 {
        let since = now.saturating_sub(self.at.swap(now, Ordering::Relaxed));
        let owed = |debt: u64| Some(debt.saturating_sub(since / STEADY) + used);
        let before = self.debt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owed).unwrap_or_default();
        owed(before).unwrap_or_default()
    }

    /// Whether a new cell begins among the workers.
    fn waits(&self, now: u64) -> bool {
        if LAST.load(Ordering::Relaxed) != self.id {
            LAST.store(self.id, Ordering::Relaxed);
            CHANGED.store(now, Ordering::Relaxed);
        }
        let beside = now.saturating_sub(CHANGED.load(Ordering::Relaxed)) < BESIDE;
        beside && self.charge(0, now) > ALLOWANCE
    }
}

/// Nanoseconds since the first cell.
fn now() -> u64 {
    since_start(Instant::now())
}

fn since_start(instant: Instant) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    nanos(instant.saturating_duration_since(*START))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

thread_local! {
    /// Whether the cell that this thread runs has been seen running at the end of a slice.
    static SLICE_OVER: Cell<bool> = const { Cell::new(false) };
}

/// What a guest does at the end of its slice: it lets others run.
pub(crate) async fn give_way() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        SLICE_OVER.set(true);
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A cell, boxed where it is made: it is too large to be handed from one function to the next.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Place<T> {
    /// On the caller's thread.
    Here(Work<T>),
    /// Among the workers.
    There(FallibleTask<T>),
}

/// Runs a cell to its end; `None` when it panicked. Dropping this cancels it. It is first polled right after `started`.
pub(crate) async fn run<T: Send + 'static>(share: &Arc<Share>, started: Instant, work: Work<T>) -> Option<T> {
    let mut started = Some(since_start(started));
    let mut place = match share.waits(started.unwrap_or_default()) {
        true => hand_over(share, work),
        false => Place::Here(work),
    };
    poll_fn(|context| {
        if let Place::Here(work) = &mut place {
            SLICE_OVER.set(false);
            let started = started.take().unwrap_or_else(now);
            let polled = work.as_mut().poll(context);
            let ended = now();
            share.note(ended.saturating_sub(started), ended);
            if polled.is_ready() {
                return polled.map(Some);
            }
            if !SLICE_OVER.get() {
                return Poll::Pending;
            }
            let work = std::mem::replace(work, Box::pin(std::future::pending()));
            place = hand_over(share, work);
        }
        match &mut place {
            Place::There(task) => Pin::new(task).poll(context),
            Place::Here(_) => Poll::Pending,
        }
    })
    .await
}

/// Hands work over to the workers; where there is no runtime that they could serve, it stays.
fn hand_over<T: Send + 'static>(share: &Arc<Share>, work: Work<T>) -> Place<T> {
    let Ok(runtime) = Handle::try_current() else { return Place::Here(work) };
    let share = Arc::clone(share);
    let schedule = move |runnable| WORKERS.push(&share, runnable);
    let (runnable, task) = async_task::spawn(Entered { runtime, work }, schedule);
    runnable.schedule();
    Place::There(task.fallible())
}

/// Work that finds its caller's runtime, with its timers and threads, wherever it is polled.
struct Entered<T> {
    runtime: Handle,
    work: Work<T>,
}

impl<T> Future for Entered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let _entered = this.runtime.enter();
        this.work.as_mut().poll(context)
    }
}

/// The threads among which longer cells run, and what waits for them.
struct Workers {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: HashMap<u64, Line>,
    /// Where the share stands that ran last: no one who comes back begins further ahead.
    floor: u64,
    threads: usize,
    idle: usize,
}

/// The cells of one share, in the order in which they come.
struct Line {
    share: Arc<Share>,
    cells: VecDeque<Runnable>,
}

static WORKERS: LazyLock<Workers> = LazyLock::new(|| Workers { waiting: Mutex::default(), more: Condvar::new() });

impl Workers {
    fn push(&'static self, share: &Arc<Share>, cell: Runnable) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = waiting.floor;
        let line = waiting.lines.entry(share.id).or_insert_with(|| {
            share.turns.fetch_max(floor, Ordering::Relaxed);
            Line { share: Arc::clone(share), cells: VecDeque::new() }
        });
        line.cells.push_back(cell);
        if waiting.idle == 0 && waiting.threads < threads() && self.start() {
            waiting.threads += 1;
        }
        drop(waiting);
        self.more.notify_one();
    }

    /// One more worker; when the system has no thread for it, those that there are do the work.
    fn start(&'static self) -> bool {
        let work = || {
            yield_to_others();
            loop {
                let (share, cell) = self.next();
                let started = now();
                // A panic is the host's own mistake; the caller gets no answer, and the worker goes on.
                let _ = catch_unwind(AssertUnwindSafe(|| cell.run()));
                let ended = now();
                let used = ended.saturating_sub(started);
                share.turns.fetch_add(used, Ordering::Relaxed);
                share.charge(used, ended);
            }
        };
        let named = thread::Builder::new().name("opcell-worker".to_owned()).stack_size(2 << 20);
        named.spawn(work).inspect_err(|error| tracing::error!(%error, "no thread for long cells")).is_ok()
    }

    /// Waits for a cell of the share that has used least.
    fn next(&self) -> (Arc<Share>, Runnable) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(next) = waiting.next() {
                return next;
            }
            waiting.idle += 1;
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

impl Waiting {
    fn next(&mut self) -> Option<(Arc<Share>, Runnable)> {
        let (&id, line) = self.lines.iter_mut().min_by_key(|(_, line)| line.share.turns.load(Ordering::Relaxed))?;
        let share = Arc::clone(&line.share);
        let cell = line.cells.pop_front();
        if line.cells.is_empty() {
            self.lines.remove(&id);
        }
        self.floor = self.floor.max(share.turns.load(Ordering::Relaxed));
        cell.map(|cell| (share, cell))
    }
}

/// As many as there are processors: more would only take turns.
fn threads() -> usize {
    static THREADS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(2, usize::from));
    *THREADS
}

/// Lets the threads of the runtime run first; where that cannot be, the system shares as it does.
pub(crate) fn yield_to_others() {
    #[cfg(target_os = "linux")]
    {
        // On Linux, this is a thread's own; `/proc/thread-self` is a link to `PID/task/TID`.
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let name = thread.as_deref().and_then(std::path::Path::file_name).and_then(std::ffi::OsStr::to_str);
        if let Some(id) = name.and_then(|id| id.parse().ok()).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::setpriority_process(Some(id), NICENESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_that_share_a_place_have_used_is_booked_once() {
        let (share, threads) = (Share::new(), 4 * slots::parts());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..50_000).for_each(|_| share.note(UNBOOKED / 2 + 1, now())));
            }
        });
        for near in &share.near {
            let left = near.0.load(Ordering::Relaxed);
            assert!(left < UNBOOKED * threads as u64, "{left}");
        }
    }
}
