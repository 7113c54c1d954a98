//! Chance that a seed decides.

use std::time::Duration;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    /// Up to this many milliseconds.
    pub fn time(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1_000))
    }

    /// Returns `true` once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Another, which goes its own way.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }
}
