//! Costs as work grows by factors of ten, in groups that can be measured one by one.

pub mod commands;
pub mod in_journal;
pub mod server;

use serde::Serialize;
use std::{fmt::Write as _, path::PathBuf};

/// The characters of the longest bar.
const WIDTH: f64 = 40.0;

/// The place of the measurements, and their extent.
#[derive(Debug)]
pub struct Setting {
    /// The `opcell` command.
    pub opcell: PathBuf,
    /// New folders are made here.
    pub directory: PathBuf,
    /// No curve has more of what grows.
    pub most: u64,
}

impl Setting {
    /// The sizes of a curve: factors of ten, up to the most that is asked for.
    fn sizes(&self, first: u64, last: u64) -> impl Iterator<Item = u64> + use<> {
        let most = self.most.min(last);
        std::iter::successors(Some(first), |size| size.checked_mul(10)).take_while(move |size| *size <= most)
    }

    fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        Ok(tempfile::TempDir::new_in(&self.directory)?)
    }
}

/// The way in which a cost grows with work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// Hardly at all.
    Flat,
    /// Less than the work.
    BelowLinear,
    /// As the work.
    Linear,
    /// More than the work.
    Worse,
    /// One size tells nothing.
    Unknown,
}

impl Growth {
    /// The exponents up to which a curve is flat, below linear and linear. Work that grows by ten costs at most 1.4, 7
    /// and 16 times as much: a cost with a logarithm in it is linear here, and a quadratic one is far from it.
    const EXPONENTS: [f64; 3] = [0.15, 0.85, 1.2];

    fn of(exponent: f64) -> Self {
        let [flat, below, linear] = Self::EXPONENTS;
        match exponent {
            e if e.is_nan() => Self::Unknown,
            e if e <= flat => Self::Flat,
            e if e <= below => Self::BelowLinear,
            e if e <= linear => Self::Linear,
            _ => Self::Worse,
        }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::BelowLinear => "below linear",
            Self::Linear => "linear",
            Self::Worse => "WORSE THAN LINEAR",
            Self::Unknown => "unknown: one size",
        }
    }
}

/// A cost at several sizes.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// The thing of which there is more and more.
    pub work: &'static str,
    /// The cost.
    pub cost: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Size and cost.
    pub points: Vec<(u64, f64)>,
}

impl Curve {
    /// A curve without points.
    #[must_use]
    pub fn new(work: &'static str, cost: &'static str, unit: &'static str) -> Self {
        Self { work, cost, unit, points: Vec::new() }
    }

    /// Adds a point.
    pub fn add(&mut self, size: u64, cost: f64) {
        self.points.push((size, cost));
    }

    /// The growth over the last two steps: what a process costs anyhow hides the growth of small sizes, and one step may
    /// be disturbed.
    #[must_use]
    pub fn growth(&self) -> Growth {
        let last = self.points.len().saturating_sub(3);
        let (Some((size, cost)), Some((larger, more))) = (self.points.get(last), self.points.last()) else {
            return Growth::Unknown;
        };
        let least = f64::MIN_POSITIVE;
        Growth::of((more.max(least) / cost.max(least)).ln() / (*larger as f64 / *size as f64).ln())
    }

    /// The curve as lines of bars.
    #[must_use]
    pub fn drawn(&self) -> String {
        let most = self.points.iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
        let mut text = format!("{}: {}, {}: {}\n", self.work, self.cost, self.unit, self.growth().name());
        for (size, cost) in &self.points {
            let _ = writeln!(text, "  {size:>9}  {cost:>10.2}  {}", bar(if most > 0.0 { cost / most } else { 0.0 }));
        }
        text
    }
}

/// A bar of a share of the width, to an eighth of a character.
fn bar(share: f64) -> String {
    let eighths = (share * WIDTH * 8.0).round() as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8).copied().unwrap_or_default();
    format!("{}{rest}", "█".repeat(eighths / 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(costs: &[f64]) -> Growth {
        let mut curve = Curve::new("work", "cost", "ms");
        for (exponent, cost) in costs.iter().enumerate() {
            curve.add(10_u64.pow(exponent as u32), *cost);
        }
        curve.growth()
    }

    #[test]
    fn a_curve_is_named_by_its_growth() {
        assert_eq!(growth(&[30.0, 31.0, 30.5, 33.0]), Growth::Flat);
        assert_eq!(growth(&[1.0, 10.0, 101.0, 990.0]), Growth::Linear);
        assert_eq!(growth(&[1.0, 14.0, 190.0]), Growth::Linear, "a logarithm counts as linear");
        assert_eq!(growth(&[1.0, 3.0, 10.0]), Growth::BelowLinear);
        assert_eq!(growth(&[1.0, 100.0, 10_000.0]), Growth::Worse);
    }

    #[test]
    fn a_fixed_cost_does_not_hide_the_growth_of_large_sizes() {
        assert_eq!(growth(&[30.0, 30.0, 31.0, 130.0, 10_030.0]), Growth::Worse);
    }

    #[test]
    fn the_last_two_steps_count_together() {
        assert_eq!(growth(&[30.0, 27.0, 78.0, 1488.0]), Growth::Linear, "one measurement was disturbed");
        assert_eq!(growth(&[1.0, 10.0, 300.0, 9_000.0]), Growth::Worse);
    }

    #[test]
    fn one_size_tells_nothing() {
        assert_eq!(growth(&[1.0]), Growth::Unknown);
        assert_eq!(growth(&[]), Growth::Unknown);
    }

    #[test]
    fn bars_are_relative_to_the_largest() {
        let mut curve = Curve::new("rows", "a sort", "ms");
        curve.add(1, 5.0);
        curve.add(10, 10.0);
        let drawn = curve.drawn();
        let widths: Vec<usize> = drawn.lines().skip(1).map(|line| line.matches('█').count()).collect();
        assert_eq!(widths, [20, 40], "{drawn}");
        assert!(drawn.starts_with("rows: a sort, ms: below linear\n"), "{drawn}");
    }

    #[test]
    fn sizes_end_at_the_most() {
        let setting = Setting { opcell: PathBuf::new(), directory: PathBuf::new(), most: 5_000 };
        assert_eq!(setting.sizes(10, 100_000).collect::<Vec<_>>(), [10, 100, 1_000]);
        assert_eq!(setting.sizes(1, 100).collect::<Vec<_>>(), [1, 10, 100]);
    }
}
