//! The fair scheduler: which thread a cell runs on, and which plugin's cell runs next.
//!
//! A cell begins on the caller's own thread, and a short one ends there: nothing is handed over. One that outlives a
//! slice of the clock continues among the *workers*, threads of their own that run one slice after another: always of
//! the plugin that has used least, so that plugins share the processor and not cells. While something waits for a
//! processor or a thread of the runtime ([`contention`](super::contention)), a plugin whose cells are long, and that
//! has recently used more than its allowance, begins there. So the threads of the runtime, its timers and its
//! connections never wait long for guests, a new or short cell waits for no other, and while nothing waits, nothing is
//! handed over.
//!
//! A plugin of short cells always begins on the caller's thread, however much it uses: handing a cell over costs more
//! than such a cell takes. A thread that runs one cell after another lets other tasks of the runtime run once per slice
//! ([`take_turn`]).
//!
//! Where several hosts share an engine, the plugins of each are a [`Group`]: hosts share the processor first, and then
//! the plugins of one host what that has.

use super::{contention::CONTENTION, slots, ticker::SLICE};
use async_task::{FallibleTask, Runnable};
use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Condvar, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// The time that a plugin may use on the callers' threads beyond its steady part, in nanoseconds.
const ALLOWANCE_NS: u64 = 5_000_000;

/// A plugin's steady part of one processor: one in this many nanoseconds.
const STEADY_DIVISOR: u64 = 4;

/// Cells that take at least this long on average are long: a hand-over between threads, 10 to 40 µs, is then a small
/// part of their time, and without it other work would wait noticeably for them. In nanoseconds.
const LONG_CELL_NS: u64 = 50_000;

/// The running time over which the average length of a plugin's cells is taken, in nanoseconds. Long enough that one
/// cell that the system preempted does not make a plugin of short cells look like one of long ones.
const LENGTH_WINDOW_NS: u64 = 40_000_000;

/// The nice value of the workers: a thread of the runtime that wakes up preempts them at once.
const NICENESS: i32 = 5;

/// Shares that have one share of the processors together: those of one host among several.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// As [`Share::worker_time_ns`], for all of its shares together.
    worker_time_ns: AtomicU64,
    /// The virtual time of the share of the group that ran last: no share that returns starts with less.
    virtual_time_ns: AtomicU64,
}

/// The processor time that the cells of one plugin have used.
#[derive(Debug)]
pub(crate) struct Share {
    id: u64,
    group: Option<Arc<Group>>,
    /// Time used on any thread and not yet paid off by the steady part, in nanoseconds.
    debt_ns: AtomicU64,
    /// The time of the last change of `debt_ns`.
    charged_at: AtomicU64,
    /// Time used and not charged yet, by shard of threads.
    uncharged: Box<[Uncharged]>,
    /// Virtual time: nanoseconds used among the workers. A share that returns after a pause continues where the others
    /// are, so that a pause saves nothing up.
    worker_time_ns: AtomicU64,
    /// Recent running time in nanoseconds and the cells that it was for; both are halved at the window's end. Threads
    /// that race may lose a count, which an average of hundreds of cells does not notice.
    recent_ns: AtomicU64,
    recent_cells: AtomicU64,
}

/// Time that a shard of threads collects before it charges the share: charging with every cell would be a counter that
/// all processors exchange.
const CHARGE_BATCH_NS: u64 = 100_000;

/// Time used and cells run, padded to two cache lines against false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Uncharged {
    used_ns: AtomicU64,
    cells: AtomicU64,
}

/// Cells that began among the workers because something waited.
static CONTENDED: AtomicU64 = AtomicU64::new(0);

/// Cells that continued among the workers after their first slice.
static OUTLIVED: AtomicU64 = AtomicU64::new(0);

/// The cells that this process has handed over from their callers' threads to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandOvers {
    /// Cells that began among the workers, because something waited for a processor or a thread of the runtime and
    /// their plugin had used much.
    pub contended: u64,
    /// Cells that began on their caller's thread and outlived their first slice there.
    pub outlived: u64,
}

impl HandOvers {
    /// Returns the cells handed over since the process began.
    #[must_use]
    pub fn so_far() -> Self {
        Self { contended: CONTENDED.load(Ordering::Relaxed), outlived: OUTLIVED.load(Ordering::Relaxed) }
    }
}

impl Share {
    pub(crate) fn new() -> Arc<Self> {
        Self::of(None)
    }

    /// A share of what a group has.
    pub(crate) fn within(group: Arc<Group>) -> Arc<Self> {
        Self::of(Some(group))
    }

    fn of(group: Option<Arc<Group>>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            group,
            debt_ns: AtomicU64::new(0),
            charged_at: AtomicU64::new(now()),
            uncharged: (0..slots::shard_count()).map(|_| Uncharged::default()).collect(),
            worker_time_ns: AtomicU64::new(0),
            recent_ns: AtomicU64::new(0),
            recent_cells: AtomicU64::new(0),
        })
    }

    /// The identity of the share, equal for all cells of one plugin.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Records the time that a cell has used on the caller's thread, and charges the share once a batch is full.
    fn record(&self, used: u64, now: u64) {
        let Some(shard) = self.uncharged.get(slots::own_shard(self.uncharged.len())) else { return };
        let used = shard.used_ns.fetch_add(used, Ordering::Relaxed) + used;
        shard.cells.fetch_add(1, Ordering::Relaxed);
        if used >= CHARGE_BATCH_NS {
            // Another thread may have charged a part in between.
            let (used, cells) = (shard.used_ns.swap(0, Ordering::Relaxed), shard.cells.swap(0, Ordering::Relaxed));
            self.count(used, cells);
            self.charge(used, now);
        }
    }

    /// Counts running time towards the average length of cells. Each cell is counted once, where it begins.
    fn count(&self, used: u64, cells: u64) {
        let used = self.recent_ns.fetch_add(used, Ordering::Relaxed) + used;
        let cells = self.recent_cells.fetch_add(cells, Ordering::Relaxed) + cells;
        if used > LENGTH_WINDOW_NS {
            self.recent_ns.store(used / 2, Ordering::Relaxed);
            self.recent_cells.store(cells / 2, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the plugin's recent cells were long on average.
    fn has_long_cells(&self) -> bool {
        let cells = self.recent_cells.load(Ordering::Relaxed);
        self.recent_ns.load(Ordering::Relaxed) > cells.saturating_mul(LONG_CELL_NS)
    }

    /// Adds `used` nanoseconds to the debt, less what time has paid off since the last charge; returns the new debt.
    fn charge(&self, used: u64, now: u64) -> u64 {
        let since = now.saturating_sub(self.charged_at.swap(now, Ordering::Relaxed));
        let owed = |debt: u64| Some(debt.saturating_sub(since / STEADY_DIVISOR) + used);
        let before = self.debt_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owed).unwrap_or_default();
        owed(before).unwrap_or_default()
    }

    /// The time that its cells, or those of its whole group, have used among the workers, and its own.
    fn worker_time(&self) -> (u64, u64) {
        let own = self.worker_time_ns.load(Ordering::Relaxed);
        (self.group.as_ref().map_or(own, |group| group.worker_time_ns.load(Ordering::Relaxed)), own)
    }

    /// Records a slice among the workers.
    fn record_slice(&self, used: u64) {
        self.worker_time_ns.fetch_add(used, Ordering::Relaxed);
        if let Some(group) = &self.group {
            group.worker_time_ns.fetch_add(used, Ordering::Relaxed);
        }
    }

    /// Continues where the others are after a pause. `is_group_there`: other cells of its group wait already.
    fn rejoin(&self, virtual_time: u64, is_group_there: bool) {
        let Some(group) = &self.group else {
            self.worker_time_ns.fetch_max(virtual_time, Ordering::Relaxed);
            return;
        };
        if !is_group_there {
            group.worker_time_ns.fetch_max(virtual_time, Ordering::Relaxed);
        }
        self.worker_time_ns.fetch_max(group.virtual_time_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_of(&self, group: &Arc<Group>) -> bool {
        self.group.as_ref().is_some_and(|own| Arc::ptr_eq(own, group))
    }

    /// Returns `true` if a new cell begins among the workers, and counts it then. `contended` is asked last, because it
    /// costs most.
    fn begins_among_workers(&self, now: u64, contended: impl FnOnce() -> bool) -> bool {
        let begins = self.has_long_cells() && self.charge(0, now) > ALLOWANCE_NS && contended();
        if begins {
            self.count(0, 1);
        }
        begins
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
    /// `true` if the cell that this thread runs has been seen running at the end of a slice.
    static SLICE_OVER: Cell<bool> = const { Cell::new(false) };
    /// Time that cells have used on this thread since other tasks last got their turn, in nanoseconds.
    static USED_SINCE_TURN: Cell<u64> = const { Cell::new(0) };
}

/// Lets other tasks of the runtime run, and its timers and connections, if cells have used this thread for a slice since
/// they last could. A task that calls one short cell after another never waits by itself.
pub(crate) async fn take_turn() {
    if u128::from(USED_SINCE_TURN.get()) >= SLICE.as_nanos() {
        USED_SINCE_TURN.set(0);
        tokio::task::yield_now().await;
    }
}

/// Ends the slice of a guest: yields once to other cells.
pub(crate) async fn yield_slice() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        SLICE_OVER.set(true);
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A cell, boxed where it is made: it is too large to be handed from one function to the next.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The threads that a cell runs on.
enum Placement<T> {
    Caller(Work<T>),
    Workers(FallibleTask<T>),
}

/// Runs a cell to its end; `None` when it panicked. Dropping this cancels it. It is first polled right after `started`.
pub(crate) async fn run<T: Send + 'static>(share: &Arc<Share>, started: Instant, work: Work<T>) -> Option<T> {
    let mut started = Some(since_start(started));
    let begins_at = started.unwrap_or_default();
    let mut placement = match share.begins_among_workers(begins_at, || CONTENTION.is_recent(begins_at)) {
        true => hand_over(share, work, &CONTENDED),
        false => Placement::Caller(work),
    };
    poll_fn(|context| {
        if let Placement::Caller(work) = &mut placement {
            SLICE_OVER.set(false);
            let started = started.take().unwrap_or_else(now);
            let polled = work.as_mut().poll(context);
            let ended = now();
            let used = ended.saturating_sub(started);
            share.record(used, ended);
            USED_SINCE_TURN.set(USED_SINCE_TURN.get().saturating_add(used));
            if polled.is_ready() {
                return polled.map(Some);
            }
            if !SLICE_OVER.get() {
                return Poll::Pending;
            }
            let work = std::mem::replace(work, Box::pin(std::future::pending()));
            placement = hand_over(share, work, &OUTLIVED);
        }
        match &mut placement {
            Placement::Workers(task) => Pin::new(task).poll(context),
            Placement::Caller(_) => Poll::Pending,
        }
    })
    .await
}

/// Hands work over to the workers, and counts it; without a runtime that they could enter, it stays on the caller's
/// thread.
fn hand_over<T: Send + 'static>(share: &Arc<Share>, work: Work<T>, counter: &AtomicU64) -> Placement<T> {
    let Ok(runtime) = Handle::try_current() else { return Placement::Caller(work) };
    counter.fetch_add(1, Ordering::Relaxed);
    let share = Arc::clone(share);
    let schedule = move |runnable| WORKERS.push(&share, runnable);
    let (runnable, task) = async_task::spawn(Entered { runtime, work }, schedule);
    runnable.schedule();
    Placement::Workers(task.fallible())
}

/// Work that enters its caller's runtime, with its timers and threads, on whatever thread it is polled.
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

/// The threads that run longer cells, and the cells that wait for them.
pub(crate) struct Workers {
    runnable: Mutex<RunQueues>,
    /// Cells that wait although every worker runs one; see [`RunQueues::backlog`].
    backlog: AtomicUsize,
    pushed: Condvar,
}

#[derive(Default)]
struct RunQueues {
    by_share: HashMap<u64, RunQueue>,
    /// Virtual time of the share that ran last: no share that returns starts with less.
    virtual_time_ns: u64,
    /// Cells in the queues.
    queued: usize,
    threads: usize,
    /// The threads that run a cell.
    running: usize,
}

/// The runnable cells of one share, first come first served.
struct RunQueue {
    share: Arc<Share>,
    cells: VecDeque<Runnable>,
}

pub(crate) static WORKERS: LazyLock<Workers> =
    LazyLock::new(|| Workers { runnable: Mutex::default(), backlog: AtomicUsize::new(0), pushed: Condvar::new() });

impl Workers {
    fn push(&'static self, share: &Arc<Share>, cell: Runnable) {
        let mut runnable = self.runnable.lock().unwrap_or_else(PoisonError::into_inner);
        runnable.push(share, cell);
        if runnable.backlog() > 0 && runnable.threads < max_threads() && self.spawn() {
            runnable.threads += 1;
        }
        self.backlog.store(runnable.backlog(), Ordering::Relaxed);
        drop(runnable);
        self.pushed.notify_one();
    }

    /// Returns `true` if a cell waits although every worker runs one.
    pub(crate) fn are_late(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > 0
    }

    /// Starts another worker; when the system has no thread for it, the existing ones do the work.
    fn spawn(&'static self) -> bool {
        let work = || {
            lower_priority();
            loop {
                let (share, cell) = self.next();
                let started = now();
                // A panic is a defect of the host. The caller gets no answer, and the worker continues.
                let _ = catch_unwind(AssertUnwindSafe(|| cell.run()));
                let ended = now();
                let used = ended.saturating_sub(started);
                share.record_slice(used);
                share.count(used, 0);
                share.charge(used, ended);
                self.end_slice();
                // The system's own slices are several of ours: a thread of the runtime that has become ready does not wait
                // for the end of one.
                thread::yield_now();
            }
        };
        let named = thread::Builder::new().name("opcell-worker".to_owned()).stack_size(2 << 20);
        named.spawn(work).inspect_err(|error| tracing::error!(%error, "no thread for long cells")).is_ok()
    }

    /// Counts the calling thread as free.
    fn end_slice(&self) {
        let mut runnable = self.runnable.lock().unwrap_or_else(PoisonError::into_inner);
        runnable.running -= 1;
        self.backlog.store(runnable.backlog(), Ordering::Relaxed);
    }

    /// Waits for a cell of the share that has used least.
    fn next(&self) -> (Arc<Share>, Runnable) {
        let mut runnable = self.runnable.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let next = runnable.pop();
            self.backlog.store(runnable.backlog(), Ordering::Relaxed);
            if let Some(next) = next {
                return next;
            }
            runnable = self.pushed.wait(runnable).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl RunQueues {
    /// Returns the number of cells for which no thread is free. A thread that has been woken and has not taken its cell
    /// yet is free: a cell that is handed over while nothing else waits is no evidence of contention.
    fn backlog(&self) -> usize {
        self.queued.saturating_sub(self.threads.saturating_sub(self.running))
    }

    fn push(&mut self, share: &Arc<Share>, cell: Runnable) {
        if !self.by_share.contains_key(&share.id) {
            let is_group_there =
                share.group.as_ref().is_some_and(|group| self.by_share.values().any(|queue| queue.share.is_of(group)));
            share.rejoin(self.virtual_time_ns, is_group_there);
        }
        let new = || RunQueue { share: Arc::clone(share), cells: VecDeque::new() };
        self.by_share.entry(share.id).or_insert_with(new).cells.push_back(cell);
        self.queued += 1;
    }

    /// Takes a cell of the group that has used least, and within it of the share that has used least, to be run by the
    /// calling thread.
    fn pop(&mut self) -> Option<(Arc<Share>, Runnable)> {
        let (&id, queue) = self.by_share.iter_mut().min_by_key(|(_, queue)| queue.share.worker_time())?;
        let share = Arc::clone(&queue.share);
        let cell = queue.cells.pop_front();
        if queue.cells.is_empty() {
            self.by_share.remove(&id);
        }
        let (used, own) = share.worker_time();
        self.virtual_time_ns = self.virtual_time_ns.max(used);
        if let Some(group) = &share.group {
            group.virtual_time_ns.fetch_max(own, Ordering::Relaxed);
        }
        let cell = cell?;
        self.queued -= 1;
        self.running += 1;
        Some((share, cell))
    }
}

/// One worker per processor: more would only preempt each other.
fn max_threads() -> usize {
    static THREADS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(2, usize::from));
    *THREADS
}

/// Lowers the priority of this thread below that of the runtime's; where that is not possible, the system's own
/// scheduling applies.
pub(crate) fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        // On Linux, the nice value is a thread's own; `/proc/thread-self` is a link to `PID/task/TID`.
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
    fn time_used_by_threads_of_one_shard_is_charged_once() {
        let (share, threads) = (Share::new(), 4 * slots::shard_count());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..50_000).for_each(|_| share.record(CHARGE_BATCH_NS / 2 + 1, now())));
            }
        });
        for shard in &share.uncharged {
            let left = shard.used_ns.load(Ordering::Relaxed);
            assert!(left < CHARGE_BATCH_NS * threads as u64, "{left}");
        }
    }

    /// A share that has used 100 ms in cells of one length.
    fn busy(cell_ns: u64) -> (Arc<Share>, u64) {
        let (share, now) = (Share::new(), now());
        (0..100_000_000 / cell_ns).for_each(|_| share.record(cell_ns, now));
        (share, now)
    }

    #[test]
    fn a_plugin_of_short_cells_is_never_handed_over_however_much_it_uses() {
        let (share, now) = busy(7_000);
        assert!(!share.begins_among_workers(now, || true));
    }

    #[test]
    fn a_plugin_of_long_cells_begins_among_the_workers_only_while_something_waits() {
        let (share, now) = busy(900_000);
        assert!(share.begins_among_workers(now, || true));
        assert!(!share.begins_among_workers(now, || false));
    }

    #[test]
    fn one_cell_that_the_system_preempted_does_not_make_a_plugin_wait() {
        let (share, now) = busy(7_000);
        share.record(8_000_000, now);
        assert!(!share.begins_among_workers(now, || true));
    }

    #[test]
    fn a_plugin_whose_cells_continue_among_the_workers_counts_as_one_of_long_cells() {
        let (share, now) = busy(7_000);
        for _ in 0..20 {
            share.count(10_000_000, 0);
            share.charge(10_000_000, now);
        }
        assert!(share.begins_among_workers(now, || true));
    }

    #[test]
    fn a_group_has_one_part_however_many_shares_it_has() {
        let cell = || async_task::spawn(async {}, |_| {}).0;
        let group: Arc<Group> = Arc::default();
        let of_group: Vec<_> = (0..5).map(|_| Share::within(Arc::clone(&group))).collect();
        let alone = Share::new();
        let mut queues = RunQueues::default();
        let mut counts = HashMap::new();
        for share in of_group.iter().chain([&alone]) {
            queues.push(share, cell());
        }
        for _ in 0..1_000 {
            let (share, _cell) = queues.pop().unwrap();
            share.record_slice(1_000_000);
            *counts.entry(share.id).or_insert(0) += 1;
            queues.push(&share, cell());
        }
        assert_eq!(counts[&alone.id], 500, "{counts:?}");
        assert!(of_group.iter().all(|share| counts[&share.id] == 100), "{counts:?}");
        // A share that comes later begins where the others are, and a pause saves nothing up.
        let late = Share::within(group);
        queues.push(&late, cell());
        for _ in 0..1_200 {
            let (share, _cell) = queues.pop().unwrap();
            share.record_slice(1_000_000);
            *counts.entry(share.id).or_insert(0) += 1;
            queues.push(&share, cell());
        }
        assert!((98..=101).contains(&counts[&late.id]), "{counts:?}");
    }

    #[test]
    fn cells_wait_only_if_no_worker_is_free() {
        let waiting = |queued, running| RunQueues { queued, running, threads: 2, ..RunQueues::default() }.backlog();
        assert_eq!([waiting(0, 0), waiting(1, 0), waiting(2, 0), waiting(1, 1)], [0; 4], "a free worker takes it");
        assert_eq!([waiting(3, 0), waiting(2, 1), waiting(1, 2), waiting(4, 2)], [1, 1, 1, 4]);
        assert_eq!(RunQueues { queued: 1, ..RunQueues::default() }.backlog(), 1, "no worker has been started");
    }

    /// A plugin whose first calls were slow, and whose cells are short since: those that began among the workers count
    /// as well, or it would be handed over forever.
    #[test]
    fn a_plugin_that_started_slowly_returns_to_its_callers_threads() {
        let (share, now) = (Share::new(), now());
        share.record(20_000_000, now);
        let mut handed_over = 0;
        while share.begins_among_workers(now, || true) {
            share.count(7_000, 0);
            handed_over += 1;
            assert!(handed_over < 1_000, "its short cells are handed over forever");
        }
        assert!(handed_over > 0);
    }

    #[tokio::test]
    async fn other_tasks_run_between_the_cells_of_a_task_that_never_waits() {
        let other = tokio::spawn(async {});
        let share = Share::new();
        let mut cells = 0;
        while !other.is_finished() {
            take_turn().await;
            let busy: Work<()> = Box::pin(async { thread::sleep(SLICE / 4) });
            run(&share, Instant::now(), busy).await.unwrap();
            cells += 1;
            assert!(cells < 100, "the other task never runs");
        }
    }
}
