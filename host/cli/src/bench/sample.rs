//! From durations to medians.

use super::Peer;
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::time::Duration;

/// Calls in one turn, at most: more would make turns longer without making medians better.
const CALLS: usize = 5_000;

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The peer.
    pub name: String,
    /// What one call of it is.
    pub about: String,
    /// How many were measured.
    pub calls: usize,
    /// Half of the calls took at most this long.
    pub median_us: f64,
    /// A quarter.
    pub p25_us: f64,
    /// Three quarters.
    pub p75_us: f64,
    /// All but one in a hundred.
    pub p99_us: f64,
    /// The fastest.
    pub min_us: f64,
    /// The median against that of a cell.
    pub times_a_cell: f64,
    /// How far the medians of single rounds are apart: half of them lie within this part of the median.
    pub round_spread_percent: f64,
}

/// What one peer took.
#[derive(Debug, Default)]
pub struct Samples {
    nanos: Vec<u64>,
    round_medians: Vec<u64>,
    calls: usize,
}

impl Samples {
    /// Calls the peer until it has settled, and finds out how many calls fill a turn.
    ///
    /// # Errors
    /// When the peer fails.
    pub async fn warm_up(peer: &mut Peer, turn: Duration) -> Result<Self> {
        let mut samples = Self { calls: 3, ..Self::default() };
        samples.take(peer).await?;
        let slowest = samples.nanos.iter().copied().max().unwrap_or(1).max(1);
        samples.calls = (u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX) / slowest).clamp(1, 200) as usize;
        samples.take(peer).await?;
        let typical = samples.round_medians.last().copied().unwrap_or(1).max(1);
        let calls = (u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX) / typical).max(1) as usize;
        Ok(Self { calls: calls.min(CALLS), ..Self::default() })
    }

    /// One turn.
    ///
    /// # Errors
    /// When the peer fails.
    pub async fn take(&mut self, peer: &mut Peer) -> Result<()> {
        let mut times = Vec::with_capacity(self.calls);
        peer.turn(self.calls, &mut times).await.with_context(|| format!("`{}` failed", peer.name))?;
        times.sort_unstable();
        self.round_medians.push(percentile(&times, 0.5));
        self.nanos.append(&mut times);
        Ok(())
    }

    /// In microseconds.
    #[must_use]
    pub fn median_us(&self) -> f64 {
        let mut nanos = self.nanos.clone();
        nanos.sort_unstable();
        micros(percentile(&nanos, 0.5))
    }

    pub(super) fn row(&mut self, peer: &Peer, cell_us: f64) -> Row {
        self.nanos.sort_unstable();
        self.round_medians.sort_unstable();
        let at = |share| micros(percentile(&self.nanos, share));
        let rounds = |share| micros(percentile(&self.round_medians, share));
        Row {
            name: peer.name.clone(),
            about: peer.about.clone(),
            calls: self.nanos.len(),
            median_us: at(0.5),
            p25_us: at(0.25),
            p75_us: at(0.75),
            p99_us: at(0.99),
            min_us: at(0.0),
            times_a_cell: rounded(at(0.5) / cell_us),
            round_spread_percent: ((rounds(0.75) - rounds(0.25)) / at(0.5) * 1_000.0).round() / 10.0,
        }
    }
}

/// Of a sorted list; 0 of an empty one.
pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
}

pub fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// To three digits after the point.
pub fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_ends_inclusive() {
        let sorted: Vec<u64> = (1..=101).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| percentile(&sorted, share)), [1, 51, 100, 101]);
        assert_eq!(percentile(&[], 0.5), 0);
    }

    #[tokio::test]
    async fn a_row_tells_how_a_peer_compares_with_a_cell() {
        let mut peer = Peer::blocking("sleeper", "sleeps", || {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        let mut samples = Samples::warm_up(&mut peer, Duration::from_millis(5)).await.unwrap();
        samples.take(&mut peer).await.unwrap();
        let row = samples.row(&peer, 100.0);
        assert!(row.calls >= 1 && row.min_us >= 1_000.0 && row.times_a_cell >= 10.0, "{row:?}");
    }
}
