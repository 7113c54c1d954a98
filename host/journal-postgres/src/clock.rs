//! The server's clock, as this process estimates it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// The server's time, from this machine's clock and the difference that the last sign of life measured.
#[derive(Debug, Clone, Default)]
pub struct ServerClock {
    /// Server minus machine, in microseconds.
    ahead: Arc<AtomicI64>,
}

impl ServerClock {
    /// Microseconds since 1970-01-01T00:00:00Z by the server's clock.
    #[must_use]
    pub fn now(&self) -> i64 {
        machine() + self.ahead.load(Ordering::Relaxed)
    }

    /// Learns from an answer: the request left and came back at the given machine times, and the server read its clock between.
    pub(crate) fn learn(&self, sent: i64, received: i64, server: i64) {
        self.ahead.store(server - (sent + (received - sent) / 2), Ordering::Relaxed);
    }
}

/// Microseconds since 1970 by this machine's clock.
pub(crate) fn machine() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
