//! Clocks and random numbers of a cell that is recorded or replayed, or that may be run again.

use super::{MAX_READINGS, Recording};
use opcell_types::Timeline;
use rand::{SeedableRng, rngs::ChaCha12Rng};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The nanoseconds by which a clock moves between readings that were not recorded.
const STEP: u64 = 1_000_000;

/// The part of its tape that a cell's WASI gets.
#[derive(Debug, Clone)]
pub(crate) struct Wasi {
    seed: [u8; 32],
    clocks: Clocks,
}

/// The clocks, shared with the tape.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    wall: Clock,
    monotonic: Clock,
    seed: [u8; 32],
}

/// One clock.
#[derive(Debug, Clone)]
enum Clock {
    /// The system's; its readings are noted.
    Recorded(Arc<Mutex<Vec<u64>>>),
    /// The readings that were noted, then steps.
    Replayed(Arc<Mutex<Replayed>>),
    /// The wall clock of a cell that may be run again.
    Wall(Timeline),
    /// The monotonic clock of such a cell.
    Monotonic(Timeline),
}

#[derive(Debug)]
struct Replayed {
    readings: Vec<u64>,
    next: usize,
    last: u64,
}

impl Wasi {
    /// For a cell that is recorded.
    pub(crate) fn recorded() -> Result<Self, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        let clock = || Clock::Recorded(Arc::default());
        Ok(Self { seed, clocks: Clocks { wall: clock(), monotonic: clock(), seed } })
    }

    /// For a cell that replays a recording. One of a cell without WASI has no seed, and its replay a fixed one.
    pub(crate) fn replayed(recording: &Recording) -> Self {
        let seed = blake3::Hash::from_hex(&recording.random_seed).map_or([0; 32], |seed| *seed.as_bytes());
        let clock = |readings: &[u64]| {
            let last = readings.last().copied().unwrap_or_default();
            Clock::Replayed(Arc::new(Mutex::new(Replayed { readings: readings.to_vec(), next: 0, last })))
        };
        let clocks = Clocks { wall: clock(&recording.wall_clock), monotonic: clock(&recording.monotonic_clock), seed };
        Self { seed, clocks }
    }

    /// For a cell that may be run again.
    pub(crate) fn resumable(timeline: Timeline) -> Self {
        let seed = *timeline.seed();
        let clocks = Clocks { wall: Clock::Wall(timeline.clone()), monotonic: Clock::Monotonic(timeline), seed };
        Self { seed, clocks }
    }

    pub(crate) fn clocks(&self) -> Clocks {
        self.clocks.clone()
    }

    /// Random numbers of an ordinary generator whose seed is known, and the clocks.
    pub(crate) fn configure(&self, builder: &mut WasiCtxBuilder) {
        let part = |name: &str| {
            *blake3::Hasher::new_derive_key("opcell 2026 recorded random")
                .update(&self.seed)
                .update(name.as_bytes())
                .finalize()
                .as_bytes()
        };
        let seed = part("insecure-seed");
        builder
            .insecure_random_seed(u128::from_le_bytes(seed.first_chunk().copied().unwrap_or_default()))
            .insecure_random(ChaCha12Rng::from_seed(part("insecure")))
            .secure_random(ChaCha12Rng::from_seed(part("secure")))
            .wall_clock(WallClock(self.clocks.wall.clone()))
            .monotonic_clock(MonotonicClock(self.clocks.monotonic.clone(), Instant::now()));
    }
}

impl Clocks {
    /// Adds what was read to a recording.
    pub(super) fn finish(self, recording: &mut Recording) {
        recording.random_seed = blake3::Hash::from_bytes(self.seed).to_hex().as_str().to_owned();
        recording.wall_clock = self.wall.readings();
        recording.monotonic_clock = self.monotonic.readings();
    }
}

impl Clock {
    /// Reads the clock; `system` is what the system's says.
    fn read(&self, system: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Recorded(readings) => {
                let reading = system();
                let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
                if readings.len() < MAX_READINGS {
                    readings.push(reading);
                }
                reading
            }
            Self::Wall(timeline) => timeline.wall(system),
            Self::Monotonic(timeline) => timeline.monotonic(system),
            Self::Replayed(replayed) => {
                let mut replayed = replayed.lock().unwrap_or_else(PoisonError::into_inner);
                match replayed.readings.get(replayed.next).copied() {
                    Some(reading) => {
                        replayed.next += 1;
                        reading
                    }
                    None => {
                        replayed.last = replayed.last.saturating_add(STEP);
                        replayed.last
                    }
                }
            }
        }
    }

    fn readings(&self) -> Vec<u64> {
        match self {
            Self::Recorded(readings) => readings.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Self::Replayed(replayed) => replayed.lock().unwrap_or_else(PoisonError::into_inner).readings.clone(),
            Self::Wall(timeline) => timeline.readings().wall.into_iter().take(MAX_READINGS).collect(),
            Self::Monotonic(timeline) => timeline.readings().monotonic.into_iter().take(MAX_READINGS).collect(),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

struct WallClock(Clock);

impl HostWallClock for WallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        let system = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, nanoseconds);
        Duration::from_nanos(self.0.read(system))
    }
}

struct MonotonicClock(Clock, Instant);

impl HostMonotonicClock for MonotonicClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        self.0.read(|| nanoseconds(self.1.elapsed()))
    }
}
