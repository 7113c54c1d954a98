//! Measurements beside a target, in groups that can be measured one by one.

#[cfg(feature = "cells")]
pub mod cells;
pub mod commands;
pub mod in_process;
#[cfg(feature = "cells")]
pub mod in_turns;
pub mod sessions;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, time::Duration};

/// The good side of a target.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Less is better.
    AtMost,
    /// More is better.
    AtLeast,
}

impl Bound {
    fn is_met(self, measured: f64, target: f64) -> bool {
        match self {
            Self::AtMost => measured <= target,
            Self::AtLeast => measured >= target,
        }
    }
}

/// A figure beside what it should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// The figure.
    pub figure: Cow<'static, str>,
    /// The good side.
    pub bound: Bound,
    /// The target.
    pub target: f64,
    /// The median of the occasions; absent where something that it needs is not here.
    pub measured: Option<f64>,
    /// The least and the most of the occasions.
    pub spread: Option<(f64, f64)>,
    /// `true` if the median is within the bound.
    pub met: Option<bool>,
    /// The parts of the figure, on the occasion whose measurement is the median.
    pub how: String,
}

impl Target {
    /// Returns a figure with its target, measured on one occasion.
    #[must_use]
    pub fn new(figure: &'static str, bound: Bound, target: f64, measured: Option<f64>, how: String) -> Self {
        let spread = measured.map(|measured| (measured, measured));
        let met = measured.map(|measured| bound.is_met(measured, target));
        Self { figure: figure.into(), bound, target, measured, spread, met, how }
    }

    /// Returns the figures of several occasions as one each: the median and the spread. Of an even number of occasions,
    /// the worse of the two in the middle counts, so that a figure is one that was measured.
    ///
    /// # Errors
    /// When two occasions measured different figures.
    pub fn merged(occasions: Vec<Vec<Self>>) -> Result<Vec<Self>> {
        let mut columns: Vec<Vec<Self>> = Vec::new();
        for (number, targets) in occasions.into_iter().enumerate() {
            if number == 0 {
                columns = targets.into_iter().map(|target| vec![target]).collect();
                continue;
            }
            let same = columns.len() == targets.len()
                && columns
                    .iter()
                    .zip(&targets)
                    .all(|(column, target)| column.first().is_some_and(|first| first.figure == target.figure));
            ensure!(same, "occasion {} measured other figures than the first", number + 1);
            columns.iter_mut().zip(targets).for_each(|(column, target)| column.push(target));
        }
        Ok(columns.into_iter().filter_map(Self::median).collect())
    }

    fn median(mut column: Vec<Self>) -> Option<Self> {
        // Those that were not measured come first; the best comes before the worst.
        column.sort_by(|a, b| match (a.measured, b.measured) {
            (Some(a_measured), Some(b_measured)) => match a.bound {
                Bound::AtMost => a_measured.total_cmp(&b_measured),
                Bound::AtLeast => b_measured.total_cmp(&a_measured),
            },
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let measured: Vec<f64> = column.iter().filter_map(|target| target.measured).collect();
        let missing = column.len() - measured.len();
        let middle = if measured.is_empty() { 0 } else { missing + measured.len() / 2 };
        let mut median = column.into_iter().nth(middle)?;
        median.spread = (!measured.is_empty()).then(|| {
            let least = measured.iter().copied().fold(f64::INFINITY, f64::min);
            (least, measured.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        });
        Some(median)
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(bound: Bound, target: f64, measured: &[Option<f64>]) -> Target {
        let of = |measured: &Option<f64>| vec![Target::new("cell", bound, target, *measured, format!("{measured:?}"))];
        let merged = Target::merged(measured.iter().map(of).collect()).unwrap();
        assert_eq!(merged.len(), 1);
        merged.into_iter().next().unwrap()
    }

    #[test]
    fn a_figure_is_the_median_of_its_occasions() {
        let target = merged(Bound::AtMost, 1.1, &[Some(1.3), Some(1.0), Some(1.05)]);
        assert_eq!(target.measured, Some(1.05));
        assert_eq!(target.spread, Some((1.0, 1.3)));
        assert_eq!(target.met, Some(true));
        assert_eq!(target.how, "Some(1.05)", "the parts are those of the same occasion");
    }

    #[test]
    fn one_good_occasion_does_not_meet_a_target() {
        assert_eq!(merged(Bound::AtMost, 1.1, &[Some(1.3), Some(1.0), Some(1.2)]).met, Some(false));
        assert_eq!(merged(Bound::AtLeast, 1.8, &[Some(1.9), Some(1.5), Some(1.7)]).met, Some(false));
    }

    #[test]
    fn the_worse_middle_counts_of_an_even_number() {
        assert_eq!(merged(Bound::AtMost, 1.1, &[Some(1.0), Some(1.2)]).measured, Some(1.2));
        assert_eq!(merged(Bound::AtLeast, 1.8, &[Some(2.0), Some(1.6)]).measured, Some(1.6));
    }

    #[test]
    fn occasions_without_a_measurement_do_not_count() {
        let target = merged(Bound::AtMost, 1.1, &[None, Some(1.0), Some(1.2), Some(1.05)]);
        assert_eq!((target.measured, target.spread), (Some(1.05), Some((1.0, 1.2))));
        let target = merged(Bound::AtMost, 1.1, &[None, None]);
        assert_eq!((target.measured, target.spread, target.met), (None, None, None));
    }

    #[test]
    fn occasions_measure_the_same_figures() {
        let of = |figure| vec![Target::new(figure, Bound::AtMost, 1.0, Some(1.0), String::new())];
        assert!(Target::merged(vec![of("cell"), of("step")]).is_err());
        assert!(Target::merged(vec![of("cell"), Vec::new()]).is_err());
    }
}
