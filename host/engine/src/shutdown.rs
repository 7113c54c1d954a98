//! The orderly end of an engine: nothing new begins, what is under way may end, and what may have happened is left in
//! doubt.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Asks every run of an engine to stop being driven. Clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    begun: CancellationToken,
    grace: Arc<OnceLock<Duration>>,
}

impl Shutdown {
    /// Begins. The first grace counts.
    pub(crate) fn begin(&self, grace: Duration) {
        let _ = self.grace.set(grace);
        self.begun.cancel();
    }

    pub(crate) fn has_started(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until it begins.
    pub(crate) async fn started(&self) {
        self.begun.cancelled().await;
    }

    /// Returns the time that effects in flight may take to end.
    pub(crate) fn grace(&self) -> Duration {
        self.grace.get().copied().unwrap_or_default()
    }
}
