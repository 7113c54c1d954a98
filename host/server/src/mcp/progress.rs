//! The progress of calls, for clients that asked for it with a `progressToken`.

use opcell::{CallError, CallOutput, CallProgress, Invocation};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::{Peer, RequestContext},
};
use std::{convert::Infallible, future::IntoFuture};
use tokio::sync::mpsc;

/// Reports of one call that wait for a client.
const MAX_WAITING: usize = 64;

/// The most of a step that the progress of its calls counts for: the next step is told as a whole one.
const MAX_SHARE: f64 = 0.99;

/// The part of a step that a call has done, as far as it is known.
pub(super) fn share(progress: &CallProgress) -> f64 {
    progress.total.map_or(0.0, |total| (progress.done / total).clamp(0.0, MAX_SHARE))
}

/// Tells one client the progress of its request; does nothing for a client that did not ask for it.
pub(super) struct ProgressNotifier<'a> {
    client: Option<(ProgressToken, &'a Peer<RoleServer>)>,
    last: Option<f64>,
}

impl<'a> ProgressNotifier<'a> {
    pub(super) fn of(context: &'a RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { client: token.map(|token| (token, &context.peer)), last: None }
    }

    /// The next value: the protocol wants each to be greater than the one before, which not every program knows.
    fn next(&mut self, done: f64) -> f64 {
        let done = match self.last {
            Some(last) if done <= last => last.next_up(),
            _ => done,
        };
        self.last = Some(done);
        done
    }

    async fn of_call(&mut self, CallProgress { done, total, message }: CallProgress) {
        self.tell(done, total, Some(message).filter(|message| !message.is_empty())).await;
    }

    pub(super) async fn tell(&mut self, done: f64, total: Option<f64>, message: Option<String>) {
        let done = self.next(done);
        let Some((token, peer)) = &self.client else { return };
        let mut progress = ProgressNotificationParam::new(token.clone(), done);
        (progress.total, progress.message) = (total, message);
        // A client that is gone does not get the result either.
        let _ = peer.notify_progress(progress).await;
    }
}

/// Makes a call, and tells the client what the call reports while it lasts.
pub(super) async fn with_progress(
    call: Invocation,
    context: &RequestContext<RoleServer>,
) -> Result<CallOutput, CallError> {
    let mut told = ProgressNotifier::of(context);
    if told.client.is_none() {
        return call.await;
    }
    let (reports, mut waiting) = mpsc::channel(MAX_WAITING);
    // A client that reads more slowly than a call may report misses some.
    let call = call.progress(move |progress| drop(reports.try_send(progress)));
    let called = {
        let telling = async {
            while let Some(progress) = waiting.recv().await {
                told.of_call(progress).await;
            }
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            called = call.into_future() => called,
            never = telling => match never {},
        }
    };
    // What it reported last comes before its result.
    while let Ok(progress) = waiting.try_recv() {
        told.of_call(progress).await;
    }
    called
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_is_told_always_grows() {
        let mut told = ProgressNotifier { client: None, last: None };
        let values = [0.0, 0.0, 1.0, 1.0, 0.5, -3.0, 7.0].map(|done| told.next(done));
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
        assert!(values[5] < 1.001 && values[0].to_bits() == 0 && values[6] > 6.9, "{values:?}");
    }

    #[test]
    fn a_call_counts_for_less_than_its_step() {
        let of = |done, total| share(&CallProgress::new(done, total, "").unwrap_or_default());
        assert_eq!([of(1.0, Some(4.0)), of(4.0, Some(4.0)), of(9.0, Some(4.0))], [0.25, MAX_SHARE, MAX_SHARE]);
        assert_eq!([of(7.0, None), of(-7.0, Some(1.0))], [0.0, 0.0]);
    }
}
