//! Ownership of what a process took from a journal.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::sync::watch;

/// The ownership under which a process takes runs: for a journal of one machine it lasts as long as the process, for
/// one that machines share it is a lease. Clones share it.
///
/// The store checks the lease again in every append; this stops whoever performs effects when the lease is lost,
/// because another process may perform them from then on.
#[derive(Debug, Clone, Default)]
pub struct Ownership(Option<Arc<Leased>>);

#[derive(Debug)]
struct Leased {
    /// By this process's monotonic clock: an answer of the store that is this old proves nothing any more.
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
}

impl Ownership {
    /// Lasts as long as the process.
    #[must_use]
    pub fn lasting() -> Self {
        Self(None)
    }

    /// Lasts until this moment, unless it is [renewed](Self::renew).
    #[must_use]
    pub fn leased(until: Instant) -> Self {
        Self(Some(Arc::new(Leased { until: Mutex::new(until), lost: watch::Sender::new(false) })))
    }

    /// Lasts until this moment. One that was lost stays lost.
    pub fn renew(&self, until: Instant) {
        if let Some(leased) = &self.0 {
            *leased.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }

    /// When it ends unless it is renewed; `None`: with the process.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.0.as_ref().map(|leased| *leased.until.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends it now.
    pub fn lose(&self) {
        if let Some(leased) = &self.0 {
            leased.lost.send_replace(true);
        }
    }

    /// Returns `true` if no other process can own what was taken under it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let Some(leased) = &self.0 else { return true };
        !*leased.lost.borrow() && self.until().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until it has been declared [lost](Self::lose); forever, if it lasts as long as the process.
    pub async fn lost(&self) {
        match &self.0 {
            Some(leased) => drop(leased.lost.subscribe().wait_for(|lost| *lost).await),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_lease_that_ran_out_or_was_lost_holds_nothing() {
        assert!(Ownership::lasting().is_held());
        let now = Instant::now();
        let lease = Ownership::leased(now);
        assert!(!lease.is_held(), "it ran out");
        lease.renew(now + Duration::from_secs(3_600));
        assert!(lease.is_held());
        let other = lease.clone();
        other.lose();
        lease.lost().await;
        lease.renew(now + Duration::from_secs(7_200));
        assert!(!lease.is_held(), "what is lost stays lost");
    }
}
