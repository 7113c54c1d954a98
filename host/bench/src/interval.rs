//! Confidence intervals by the bootstrap over rounds: a round is what repeats under like conditions, single calls
//! within it are not independent of each other.

use super::sample::{percentile, rounded};
use serde::{Deserialize, Serialize};

/// Times that rounds are drawn again, with replacement.
const DRAWS: usize = 2_000;

/// Rounds below which an interval would mean nothing.
const FEWEST: usize = 5;

/// The interval of a figure, in 95 of 100 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns `true` if the figure may as well be this.
    #[must_use]
    pub fn has(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Of the median of rounds' medians, which are given in their order. None of too few rounds.
#[must_use]
pub fn of_median(rounds: &[f64]) -> Option<Interval> {
    drawn(rounds.len(), |draw| median(draw.iter().filter_map(|at| rounds.get(*at).copied()).collect()))
}

/// Of the ratio of two medians that were measured in the same rounds: rounds are drawn in pairs, so that what slowed
/// both counts once.
#[must_use]
pub fn of_ratio(over: &[f64], under: &[f64]) -> Option<Interval> {
    drawn(over.len().min(under.len()), |draw| {
        let of = |rounds: &[f64]| median(draw.iter().filter_map(|at| rounds.get(*at).copied()).collect());
        of(over) / of(under)
    })
}

/// Of the ratio of two medians of different reports, whose rounds have nothing in common.
#[must_use]
pub fn of_independent_ratio(over: &[f64], under: &[f64]) -> Option<Interval> {
    let mut random = Random::new();
    let figure = || {
        let mut of = |rounds: &[f64]| median((0..rounds.len()).filter_map(|_| random.choose(rounds)).collect());
        of(over) / of(under)
    };
    (over.len().min(under.len()) >= FEWEST).then(|| middle(std::iter::repeat_with(figure).take(DRAWS).collect()))
}

fn drawn(rounds: usize, figure: impl Fn(&[usize]) -> f64) -> Option<Interval> {
    if rounds < FEWEST {
        return None;
    }
    let mut random = Random::new();
    let mut draw = vec![0; rounds];
    let mut figures = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        draw.fill_with(|| random.below(rounds));
        figures.push(figure(&draw));
    }
    Some(middle(figures))
}

/// The middle 95 of 100.
fn middle(mut figures: Vec<f64>) -> Interval {
    figures.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = figures.len().saturating_sub(1);
        rounded(figures.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN))
    };
    Interval { low: at(0.025), high: at(0.975) }
}

/// Of an unsorted list; NaN of an empty one.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1).div_ceil(2)).copied().unwrap_or(f64::NAN)
}

/// An interval of a percentile of single calls, of those that were made one after the other on a schedule: ranks on
/// both sides of it between which it lies in 95 of 100 cases, by the normal approximation of the binomial.
#[must_use]
pub fn of_percentile(sorted: &[u64], share: f64) -> Option<(u64, u64)> {
    let count = sorted.len() as f64;
    let spread = 1.96 * (count * share * (1.0 - share)).sqrt();
    // A percentile that the sample does not bound from above has no interval.
    let (low, high) = (count * share - spread, count * share + spread);
    let fits = !sorted.is_empty() && low >= 0.0 && high < count;
    fits.then(|| (percentile(sorted, low / count), percentile(sorted, high / count)))
}

/// The same draws each time: two looks at one report give one interval.
struct Random(fastrand::Rng);

impl Random {
    fn new() -> Self {
        Self(fastrand::Rng::with_seed(20_001))
    }

    fn below(&mut self, count: usize) -> usize {
        self.0.usize(..count.max(1))
    }

    fn choose(&mut self, of: &[f64]) -> Option<f64> {
        of.get(self.below(of.len())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(around: f64, rounds: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..rounds).map(|_| around * (0.9 + 0.2 * random.f64())).collect()
    }

    #[test]
    fn an_interval_is_around_what_was_measured_and_narrows_with_rounds() {
        let (few, many) = (of_median(&noisy(10.0, 8)).unwrap(), of_median(&noisy(10.0, 400)).unwrap());
        assert!(few.has(10.0) && many.has(median(noisy(10.0, 400))), "{few:?} {many:?}");
        assert!(many.high - many.low < few.high - few.low, "{few:?} {many:?}");
        assert_eq!(of_median(&[1.0; 4]), None, "four rounds say nothing");
    }

    #[test]
    fn what_slows_both_does_not_widen_a_ratio() {
        let slowed = noisy(10.0, 50);
        let twice: Vec<f64> = slowed.iter().map(|time| time * 2.0).collect();
        assert_eq!(of_ratio(&twice, &slowed).unwrap(), Interval { low: 2.0, high: 2.0 });
        let apart = of_independent_ratio(&twice, &slowed).unwrap();
        assert!(apart.has(2.0) && apart.high - apart.low > 0.01, "{apart:?}");
    }

    #[test]
    fn a_percentile_near_the_end_of_a_small_sample_has_no_interval() {
        let sorted: Vec<u64> = (0..10_000).collect();
        let (low, high) = of_percentile(&sorted, 0.99).unwrap();
        assert!(low < 9_900 && 9_900 < high && high < 9_999, "{low} {high}");
        assert_eq!(of_percentile(&sorted[..50], 0.99), None);
    }
}
