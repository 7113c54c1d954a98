//! From durations to medians.

use super::{
    Peer,
    interval::{self, Interval},
    peer::Isolates,
};
use anyhow::{Context as _, Result};
use serde::Serialize;
use std::{fmt::Write as _, time::Duration};

/// Calls in one turn, at most: more would make turns longer without making medians better.
const CALLS: usize = 5_000;

/// One line of the table.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// The peer.
    pub name: String,
    /// The description of one call of it.
    pub about: String,
    /// The isolation that its set-up provides between a call and everything else; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolates: Option<Vec<Isolates>>,
    /// The number of measured calls.
    pub calls: usize,
    /// Half of the calls took at most this long.
    pub median_us: f64,
    /// The interval of the median, by the bootstrap over rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_interval_us: Option<Interval>,
    /// A quarter.
    pub p25_us: f64,
    /// Three quarters.
    pub p75_us: f64,
    /// All but one in a hundred.
    pub p99_us: f64,
    /// The fastest.
    pub min_us: f64,
    /// The whole distribution: how long which share of the calls took at most.
    pub quantiles: Vec<Quantile>,
    /// The median against that of a cell.
    pub times_a_cell: f64,
    /// The interval of that ratio, by the bootstrap over pairs of rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_a_cell_interval: Option<Interval>,
    /// The distance between the quartiles of the medians of single rounds, as a part of the median: half of the rounds
    /// lie within it, and half further out.
    pub round_spread_percent: f64,
    /// The median of each round, in their order.
    pub round_medians_us: Vec<f64>,
}

impl Row {
    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            isolates: None,
            calls: 0,
            median_us: 0.0,
            median_interval_us: None,
            p25_us: 0.0,
            p75_us: 0.0,
            p99_us: 0.0,
            min_us: 0.0,
            quantiles: Vec::new(),
            times_a_cell: 1.0,
            times_a_cell_interval: None,
            round_spread_percent: 0.0,
            round_medians_us: Vec::new(),
        }
    }
}

/// A place of a distribution.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Quantile {
    /// Of the calls, from 0 to 1.
    pub share: f64,
    /// None of them took longer.
    pub us: f64,
}

/// The quantiles of a distribution that are kept: closer together at its slow end.
const QUANTILES: [f64; 16] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The samples of one peer.
#[derive(Debug, Default)]
pub struct Samples {
    /// In the order in which they were made.
    nanos: Vec<u64>,
    /// The number of samples of each round, and their median.
    rounds: Vec<(usize, u64)>,
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
        let typical = samples.rounds.last().map_or(1, |(_, median)| *median).max(1);
        let calls = (u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX) / typical).max(1) as usize;
        Ok(Self { calls: calls.min(CALLS), ..Self::default() })
    }

    /// One turn.
    ///
    /// # Errors
    /// When the peer fails.
    pub async fn take(&mut self, peer: &mut Peer) -> Result<()> {
        let before = self.nanos.len();
        peer.turn(self.calls, &mut self.nanos).await.with_context(|| format!("`{}` failed", peer.name))?;
        let mut turn = self.nanos.get(before..).unwrap_or_default().to_vec();
        turn.sort_unstable();
        self.rounds.push((turn.len(), percentile(&turn, 0.5)));
        Ok(())
    }

    /// In microseconds.
    #[must_use]
    pub fn median_us(&self) -> f64 {
        micros(percentile(&self.sorted(), 0.5))
    }

    /// The median of each round, in microseconds.
    #[must_use]
    pub fn round_medians_us(&self) -> Vec<f64> {
        self.rounds.iter().map(|(_, median)| micros(*median)).collect()
    }

    fn sorted(&self) -> Vec<u64> {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        sorted
    }

    /// Every call, a line each: peer, round, nanoseconds.
    pub(super) fn write(&self, peer: &str, out: &mut String) {
        let mut nanos = self.nanos.iter();
        for (round, (calls, _)) in self.rounds.iter().enumerate() {
            for time in nanos.by_ref().take(*calls) {
                let _ = writeln!(out, "{peer},{round},{time}");
            }
        }
    }

    pub(super) fn row(&self, peer: &Peer, cell: &Self) -> Row {
        let (sorted, cell_us) = (self.sorted(), cell.median_us());
        let mut medians: Vec<u64> = self.rounds.iter().map(|(_, median)| *median).collect();
        medians.sort_unstable();
        let at = |share| micros(percentile(&sorted, share));
        let rounds = |share| micros(percentile(&medians, share));
        let in_order = self.round_medians_us();
        Row {
            name: peer.name.clone(),
            about: peer.about.clone(),
            isolates: peer.isolates.clone(),
            calls: sorted.len(),
            median_us: at(0.5),
            median_interval_us: interval::of_median(&in_order),
            p25_us: at(0.25),
            p75_us: at(0.75),
            p99_us: at(0.99),
            min_us: at(0.0),
            quantiles: QUANTILES.iter().map(|share| Quantile { share: *share, us: at(*share) }).collect(),
            times_a_cell: rounded(at(0.5) / cell_us),
            times_a_cell_interval: interval::of_ratio(&in_order, &cell.round_medians_us()),
            round_spread_percent: ((rounds(0.75) - rounds(0.25)) / at(0.5) * 1_000.0).round() / 10.0,
            round_medians_us: in_order,
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
    async fn a_row_has_every_round_and_how_a_peer_compares_with_a_cell() {
        let mut peer = Peer::blocking("sleeper", "sleeps", || {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        let mut samples = Samples::warm_up(&mut peer, Duration::from_millis(5)).await.unwrap();
        for _ in 0..6 {
            samples.take(&mut peer).await.unwrap();
        }
        let cell = Samples { nanos: vec![100_000; 6], rounds: vec![(1, 100_000); 6], calls: 1 };
        let row = samples.row(&peer, &cell);
        assert!(row.calls >= 6 && row.min_us >= 1_000.0 && row.times_a_cell >= 10.0, "{row:?}");
        assert_eq!(row.round_medians_us.len(), 6);
        assert!(row.times_a_cell_interval.unwrap().low >= 10.0, "{row:?}");
        let mut raw = String::new();
        samples.write("sleeper", &mut raw);
        assert_eq!(raw.lines().count(), row.calls);
        assert!(raw.starts_with("sleeper,0,") && raw.lines().last().unwrap().starts_with("sleeper,5,"), "{raw}");
    }
}
