//! Contact with the server: a warning when it does not answer, and a message when it does again.

use opcell_engine::worker::WorkerEvent;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// After a failure: the first pause, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The state of the contact, and the party that is informed.
pub(crate) struct Contact<F> {
    say: F,
    /// The last pause, while it does not answer.
    pause: Option<Duration>,
}

impl<F: Fn(WorkerEvent)> Contact<F> {
    pub(crate) fn new(say: F) -> Self {
        Self { say, pause: None }
    }

    /// It answered.
    pub(crate) fn held(&mut self) {
        if self.pause.take().is_some() {
            (self.say)(WorkerEvent::Reachable);
        }
    }

    /// It did not; waits before it is asked again, each time longer.
    pub(crate) async fn lost(&mut self, why: String, stop: &CancellationToken) {
        if self.pause.is_none() {
            (self.say)(WorkerEvent::Unreachable { why });
        }
        let pause = self.pause.map_or(BACKOFF.0, |pause| (pause * 2).min(BACKOFF.1));
        self.pause = Some(pause);
        tokio::select! { biased; () = stop.cancelled() => {} () = tokio::time::sleep(pause) => {} }
    }

    /// Says something else.
    pub(crate) fn say(&self, event: WorkerEvent) {
        (self.say)(event);
    }
}
