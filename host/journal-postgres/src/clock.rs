//! The server's clock, as this process estimates it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

/// The server's time, from the moment that the last sign of life measured and the time that has passed since. The
/// machine's own clock plays no part: it may be wrong, and may be set while a run is driven.
#[derive(Debug, Clone)]
pub struct ServerClock {
    base: Instant,
    /// The server's time at the base, in microseconds since 1970.
    at_base: Arc<AtomicI64>,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self { base: Instant::now(), at_base: Arc::default() }
    }
}

impl ServerClock {
    /// Microseconds since 1970-01-01T00:00:00Z by the server's clock.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.at_base.load(Ordering::Relaxed) + self.passed(Instant::now())
    }

    fn passed(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.base).as_micros()).unwrap_or(i64::MAX)
    }

    /// Learns from an answer: the request left and came back at the given times, and the server read its clock between.
    pub(crate) fn learn(&self, sent: Instant, received: Instant, server: i64) {
        let (sent, received) = (self.passed(sent), self.passed(received));
        self.at_base.store(server - (sent + (received - sent) / 2), Ordering::Relaxed);
    }
}
