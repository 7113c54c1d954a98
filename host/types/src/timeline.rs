//! The randomness and the clocks of a cell that may be run again with the answers that it had.

use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// The readings of both clocks that a record keeps; a cell that reads more makes no call after that which could be
/// repeated.
pub const MAX_READINGS: usize = 16_384;

/// Readings of a cell's clocks, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ClockReadings {
    /// Readings of the wall clock, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wall: Vec<u64>,
    /// Readings of the monotonic clock, in nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monotonic: Vec<u64>,
}

impl ClockReadings {
    /// Returns `true` if no clock was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wall.is_empty() && self.monotonic.is_empty()
    }

    /// Adds later readings.
    pub fn extend(&mut self, later: &Self) {
        self.wall.extend(&later.wall);
        self.monotonic.extend(&later.monotonic);
    }
}

/// The randomness and the clocks of one cell: its seed, and readings that are repeated before the clocks are read.
/// Clones share them.
#[derive(Debug, Clone)]
pub struct Timeline(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seed: [u8; 32],
    clocks: Mutex<Clocks>,
}

#[derive(Debug, Default)]
struct Clocks {
    wall: Clock,
    monotonic: Clock,
    /// The difference that lets the monotonic clock continue where its record ends.
    offset: Option<u64>,
}

#[derive(Debug, Default)]
struct Clock {
    readings: Vec<u64>,
    /// The next reading to repeat.
    next: usize,
    /// The readings that belong to the record, those that were taken for it included.
    recorded: usize,
}

impl Clock {
    fn recorded(&mut self) -> Option<u64> {
        let reading = self.readings.get(self.next).copied()?;
        self.next += 1;
        Some(reading)
    }

    /// Notes a reading that no record has. One beyond the limit is noted as well: it shows that the limit was exceeded.
    fn note(&mut self, reading: u64) -> u64 {
        if self.readings.len() <= MAX_READINGS {
            self.readings.push(reading);
            self.next = self.readings.len();
        }
        reading
    }

    fn take(&mut self) -> Vec<u64> {
        // Those that are still to be repeated are in the record already.
        let fresh = self.readings.get(self.recorded..).unwrap_or_default().to_vec();
        self.recorded = self.readings.len();
        fresh
    }
}

impl Timeline {
    /// Begins with the readings of a record; empty for a cell that runs for the first time.
    #[must_use]
    pub fn new(seed: [u8; 32], recorded: ClockReadings) -> Self {
        let clock = |readings: Vec<u64>| Clock { recorded: readings.len(), readings, next: 0 };
        let clocks = Clocks { wall: clock(recorded.wall), monotonic: clock(recorded.monotonic), offset: None };
        Self(Arc::new(Shared { seed, clocks: Mutex::new(clocks) }))
    }

    /// The seed of random numbers.
    #[must_use]
    pub fn seed(&self) -> &[u8; 32] {
        &self.0.seed
    }

    /// Reads the wall clock; `system` reads the system's.
    pub fn wall(&self, system: impl FnOnce() -> u64) -> u64 {
        self.with(|clocks| clocks.wall.recorded().unwrap_or_else(|| clocks.wall.note(system())))
    }

    /// Reads the monotonic clock; `system` reads one that begins with the cell. It never goes back.
    pub fn monotonic(&self, system: impl FnOnce() -> u64) -> u64 {
        self.with(|clocks| {
            if let Some(reading) = clocks.monotonic.recorded() {
                return reading;
            }
            let (last, now) = (clocks.monotonic.readings.last().copied().unwrap_or_default(), system());
            let offset = *clocks.offset.get_or_insert(last.saturating_sub(now));
            clocks.monotonic.note(now.saturating_add(offset))
        })
    }

    /// All readings, repeated and new.
    #[must_use]
    pub fn readings(&self) -> ClockReadings {
        self.with(|clocks| ClockReadings {
            wall: clocks.wall.readings.clone(),
            monotonic: clocks.monotonic.readings.clone(),
        })
    }

    /// Takes the readings that no record has yet. `None` if there were more than [`MAX_READINGS`]: no call after them
    /// can be repeated.
    #[must_use]
    pub fn take_new(&self) -> Option<ClockReadings> {
        self.with(|clocks| {
            let are_known = |clock: &Clock| clock.readings.len() <= MAX_READINGS;
            (are_known(&clocks.wall) && are_known(&clocks.monotonic))
                .then(|| ClockReadings { wall: clocks.wall.take(), monotonic: clocks.monotonic.take() })
        })
    }

    fn with<T>(&self, read: impl FnOnce(&mut Clocks) -> T) -> T {
        read(&mut self.0.clocks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockReadings, MAX_READINGS, Timeline};

    #[test]
    fn readings_are_repeated_and_then_the_clocks_continue() {
        let first = Timeline::new([7; 32], ClockReadings::default());
        assert_eq!((first.wall(|| 100), first.monotonic(|| 5), first.monotonic(|| 9)), (100, 5, 9));
        let recorded = first.take_new().unwrap();
        assert_eq!(recorded, ClockReadings { wall: vec![100], monotonic: vec![5, 9] });
        assert!(first.take_new().unwrap().is_empty());
        let again = Timeline::new([7; 32], recorded.clone());
        assert_eq!((again.wall(|| 900), again.monotonic(|| 1), again.monotonic(|| 2)), (100, 5, 9));
        // The monotonic clock never goes back; the wall clock tells the time.
        assert_eq!((again.monotonic(|| 2), again.monotonic(|| 4), again.wall(|| 900)), (9, 11, 900));
        let new = again.take_new().unwrap();
        assert_eq!(new, ClockReadings { wall: vec![900], monotonic: vec![9, 11] });
        let mut all = recorded;
        all.extend(&new);
        assert_eq!(again.readings(), all);
    }

    #[test]
    fn readings_beyond_the_record_are_not_taken_for_it() {
        let timeline = Timeline::new([0; 32], ClockReadings::default());
        for at in 0..MAX_READINGS {
            timeline.wall(|| at as u64);
        }
        assert_eq!(timeline.take_new().unwrap().wall.len(), MAX_READINGS);
        assert_eq!(timeline.wall(|| 3), 3);
        assert_eq!(timeline.take_new(), None);
    }
}
