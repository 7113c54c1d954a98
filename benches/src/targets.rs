//! Measurements beside a target, in groups that can be measured one by one.

#[cfg(feature = "cells")]
pub mod cells;
pub mod commands;
pub mod in_process;
#[cfg(feature = "cells")]
pub mod in_turns;

use serde::Serialize;
use std::time::Duration;

/// The good side of a target.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Less is better.
    AtMost,
    /// More is better.
    AtLeast,
}

/// A figure beside what it should be.
#[derive(Debug, Serialize)]
pub struct Target {
    /// The figure.
    pub figure: &'static str,
    /// The good side.
    pub bound: Bound,
    /// The target.
    pub target: f64,
    /// Absent where something that it needs is not here.
    pub measured: Option<f64>,
    /// `true` if that is within the bound.
    pub met: Option<bool>,
    /// The parts of the figure.
    pub how: String,
}

impl Target {
    /// Returns a figure with its target, and whether it is within the bound.
    #[must_use]
    pub fn new(figure: &'static str, bound: Bound, target: f64, measured: Option<f64>, how: String) -> Self {
        let met = measured.map(|measured| match bound {
            Bound::AtMost => measured <= target,
            Bound::AtLeast => measured >= target,
        });
        Self { figure, bound, target, measured, met, how }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
