//! The orderly end of a host: its calls and its runs.

use super::Host;
use std::time::Duration;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// The calls of a host that are outside of any run.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    tracker: TaskTracker,
    /// Cancelled when no call is accepted any more.
    closing: CancellationToken,
    /// Cancelled when those that are open are stopped.
    stop: CancellationToken,
}

/// An open call.
pub(super) struct OpenCall {
    _token: TaskTrackerToken,
    stop: CancellationToken,
}

impl OpenCalls {
    /// A call begins, unless the host is closing.
    pub(super) fn begin(&self) -> Option<OpenCall> {
        // Counted before it is looked at, so that a host that closes now waits for it.
        let token = self.tracker.token();
        (!self.closing.is_cancelled()).then(|| OpenCall { _token: token, stop: self.stop.clone() })
    }
}

impl OpenCall {
    /// Waits for the end of the call, whose token is cancelled when the host stops it.
    pub(super) async fn until_ended<T>(self, token: CancellationToken, call: impl Future<Output = T>) -> T {
        tokio::pin!(call);
        tokio::select! {
            biased;
            ended = &mut call => return ended,
            () = self.stop.cancelled() => token.cancel(),
        }
        call.await
    }
}

impl Host {
    /// Ends in order. From now on no call begins (it fails with [`FailureKind::Closing`](crate::FailureKind::Closing)),
    /// no run is started or resumed, and no effect of a run begins. Calls and effects that are in flight have `grace` to
    /// end; then they are stopped, each with its receipt. Returns when every call has ended and every run has been given
    /// back to its journal; see [`Engine::shutdown`](crate::Engine::shutdown).
    ///
    /// Clones of the host close with it, and so do the runs of hosts that share its engine ([`LiveHost`](crate::LiveHost));
    /// the calls of another host ([`Host::reload`]) are its own. Safe to call more than once, and to drop: the host ends
    /// all the same.
    ///
    /// ```
    /// # async fn end(host: opcell::Host) {
    /// host.close(std::time::Duration::from_secs(10)).await;
    /// assert!(host.invoke("any/call", opcell::json!({})).await.is_err());
    /// # }
    /// ```
    pub async fn close(&self, grace: Duration) {
        let calls = &self.open_calls;
        calls.closing.cancel();
        calls.tracker.close();
        let ending = self.open_calls.clone();
        // In a task of its own: whoever drops this closes the host all the same.
        let end_calls = tokio::spawn(async move {
            if tokio::time::timeout(grace, ending.tracker.wait()).await.is_err() {
                ending.stop.cancel();
                ending.tracker.wait().await;
            }
        });
        let (_, ()) = tokio::join!(end_calls, self.engine.shutdown(grace));
    }
}
