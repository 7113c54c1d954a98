//! The clock that interrupts guests: an operating system thread, because a busy runtime would starve a task. It sleeps
//! while no cell runs.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering, fence},
    },
    thread::{self, Thread},
    time::Duration,
};
use wasmtime::EngineWeak;

/// The time for which a busy guest keeps its thread before it lets others run, and the delay with which it may notice
/// its deadline.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// Slices of one tick, the unit in which limits and receipts count.
pub(crate) const SLICES_PER_TICK: u64 = 10;

/// Slices without a cell before the clock sleeps: waking it costs a cell some microseconds, so that it should happen
/// seldom.
const LINGER: u32 = 100;

/// Ticks; see [`Clock::wake`].
const AWAKE: u8 = 0;
/// Waits to be woken.
const ASLEEP: u8 = 1;
/// The [`Clock`] is gone; the thread ends.
const OVER: u8 = 2;

/// The clock of some engines. Its thread ends when this is dropped.
pub(crate) struct Clock {
    state: Arc<AtomicU8>,
    thread: Thread,
    engines: Arc<Mutex<Vec<EngineWeak>>>,
}

impl Clock {
    /// Starts a clock that interrupts the guests of `engines` while `busy` says that there are any.
    pub(crate) fn start(engines: Vec<EngineWeak>, busy: impl Fn() -> bool + Send + 'static) -> io::Result<Self> {
        Self::lingering(LINGER, engines, busy)
    }

    fn lingering(linger: u32, engines: Vec<EngineWeak>, busy: impl Fn() -> bool + Send + 'static) -> io::Result<Self> {
        let state = Arc::new(AtomicU8::new(AWAKE));
        let engines = Arc::new(Mutex::new(engines));
        let (shared, ticking) = (Arc::clone(&state), Arc::clone(&engines));
        let thread = thread::Builder::new()
            .name("opcell-ticker".to_owned())
            .stack_size(64 << 10)
            .spawn(move || run(&shared, linger, &ticking, &busy))?;
        Ok(Self { state, thread: thread.thread().clone(), engines })
    }

    /// Ticks for one more engine, whose cells `busy` counts already.
    pub(crate) fn also(&self, engine: EngineWeak) {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner).push(engine);
    }

    /// Every cell calls this after `busy` has become true because of it, and before anything of the guest runs.
    ///
    /// Costs a fence and a load of a value that hardly ever changes: cells of many cores do not fight over it.
    pub(crate) fn wake(&self) {
        // With the fence in `run`: either the clock sees that it is busy, or this cell sees that the clock is about to
        // sleep.
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == ASLEEP
            && self.state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.thread.unpark();
        }
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.state.store(OVER, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn run(state: &AtomicU8, linger: u32, engines: &Mutex<Vec<EngineWeak>>, busy: &impl Fn() -> bool) {
    let mut idle = 0;
    while state.load(Ordering::Relaxed) != OVER {
        thread::sleep(SLICE);
        let ticking = engines.lock().unwrap_or_else(PoisonError::into_inner);
        for engine in ticking.iter().filter_map(EngineWeak::upgrade) {
            engine.increment_epoch();
        }
        drop(ticking);
        idle = if busy() { 0 } else { idle + 1 };
        if idle <= linger || state.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            continue;
        }
        fence(Ordering::SeqCst);
        if busy() {
            // A cell started just now; it may or may not have woken the clock, and both are fine.
            let _ = state.compare_exchange(ASLEEP, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
        }
        while state.load(Ordering::Relaxed) == ASLEEP {
            thread::park();
        }
        idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            atomic::{AtomicBool, AtomicU64},
            mpsc,
        },
        time::Instant,
    };
    use wasmtime::{Config, Engine, Instance, Module, Store, Trap};

    /// A clock without engines, whose `busy` is a switch and counts how often it is asked: at least once in every
    /// slice.
    struct Watched {
        clock: Clock,
        busy: Arc<AtomicBool>,
        asked: Arc<AtomicU64>,
    }

    impl Watched {
        fn lingering(linger: u32) -> Self {
            let (busy, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let (watched, count) = (Arc::clone(&busy), Arc::clone(&asked));
            let clock = Clock::lingering(linger, Vec::new(), move || {
                count.fetch_add(1, Ordering::Relaxed);
                watched.load(Ordering::Relaxed)
            });
            Self { clock: clock.unwrap(), busy, asked }
        }

        fn slices(&self) -> u64 {
            self.asked.load(Ordering::Relaxed)
        }

        fn wait_until(&self, what: &str, done: impl Fn(&Self) -> bool) {
            let started = Instant::now();
            while !done(self) {
                assert!(started.elapsed() < Duration::from_secs(20), "{what}");
                thread::sleep(SLICE / 10);
            }
        }

        fn asleep(&self) -> bool {
            self.clock.state.load(Ordering::Relaxed) == ASLEEP
        }
    }

    #[test]
    fn it_sleeps_while_nothing_runs_and_wakes_for_the_next_cell() {
        let watched = Watched::lingering(10);
        for _ in 0..3 {
            watched.wait_until("it does not fall asleep", Watched::asleep);
            // What it was about to ask when it fell asleep.
            thread::sleep(10 * SLICE);
            let before = watched.slices();
            thread::sleep(100 * SLICE);
            assert_eq!(watched.slices(), before, "it ticks in its sleep");

            watched.busy.store(true, Ordering::Relaxed);
            watched.clock.wake();
            watched.wait_until("it does not tick for the cell", |watched| watched.slices() >= before + 50);
            assert!(!watched.asleep());
            watched.busy.store(false, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_goes_on_while_a_cell_runs_however_long() {
        let watched = Watched::lingering(0);
        watched.busy.store(true, Ordering::Relaxed);
        watched.clock.wake();
        for _ in 0..5 {
            let before = watched.slices();
            watched.wait_until("it stopped under a running cell", |watched| watched.slices() >= before + 20);
        }
    }

    /// Cells that start exactly when the clock falls asleep: it must tick for every one of them.
    #[test]
    fn no_cell_starts_unnoticed_while_it_falls_asleep() {
        let watched = Watched::lingering(0);
        for round in 0..500_u32 {
            watched.busy.store(true, Ordering::Relaxed);
            watched.clock.wake();
            let before = watched.slices();
            watched.wait_until("it overslept a cell", |watched| watched.slices() >= before + 2);
            watched.busy.store(false, Ordering::Relaxed);
            // Now it is about to sleep: start the next one before, while and after it does.
            let pause = SLICE * (round % 64) / 32;
            let ended = Instant::now();
            while ended.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
    }

    #[test]
    fn its_thread_ends_with_it_awake_or_asleep() {
        for asleep in [false, true] {
            let watched = Watched::lingering(if asleep { 0 } else { LINGER });
            if asleep {
                watched.wait_until("it does not fall asleep", Watched::asleep);
            }
            let Watched { clock, asked, .. } = watched;
            drop(clock);
            let started = Instant::now();
            // The thread holds the other one.
            while Arc::strong_count(&asked) > 1 {
                assert!(started.elapsed() < Duration::from_secs(20), "the thread goes on");
                thread::sleep(SLICE);
            }
        }
    }

    #[test]
    fn a_busy_guest_is_interrupted_although_the_clock_slept_when_it_started() {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let busy = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&busy);
        let clock = Clock::lingering(0, vec![engine.weak()], move || watched.load(Ordering::Relaxed)).unwrap();
        while clock.state.load(Ordering::Relaxed) != ASLEEP {
            thread::sleep(SLICE);
        }
        let module =
            Module::new(&engine, wat::parse_str("(module (func (export \"run\") (loop br 0)))").unwrap()).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(2);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let run = instance.get_typed_func::<(), ()>(&mut store, "run").unwrap();

        busy.store(true, Ordering::Relaxed);
        clock.wake();
        // On a thread of its own: a guest that nothing interrupts must fail the test, not hang it.
        let (ended, end) = mpsc::channel();
        thread::spawn(move || ended.send(run.call(&mut store, ()).unwrap_err()));
        let error = end.recv_timeout(Duration::from_secs(20)).expect("the guest is interrupted");
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt));
    }
}
