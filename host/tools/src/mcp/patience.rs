//! A server that asks and does not listen: each of its requests is answered, and what waits to be sent to it is
//! bounded.

use super::wire::{Answer, Wire};
use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value as Json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// Requests of a server whose answers it has not taken yet. A server asks for a sign of life now and then.
const MAX_WAITING: usize = 64;

/// A transport that ends when the other side asks faster than it takes answers.
pub(super) struct Patient<T> {
    inner: T,
    waiting: Arc<AtomicUsize>,
    wire: Arc<Wire>,
    /// The time for which `server/discover` may stay without an answer; absent: as long as anything else.
    probe: Option<Duration>,
    /// The request to discover that has no answer, and the end of its time.
    probed: Option<(RequestId, Instant)>,
    /// The handshake that was answered before it was sent.
    answered: Option<(RequestId, Json)>,
}

impl<T> Patient<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>, probe: Option<Duration>) -> Self {
        Self { inner, waiting: Arc::default(), wire, probe, probed: None, answered: None }
    }
}

/// Ends at a moment; never, without one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let (Some(time), JsonRpcMessage::Request(request)) = (self.probe, &message)
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            self.probed = Some((request.id.clone(), Instant::now() + time));
        }
        if let JsonRpcMessage::Request(request) = &message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
            && let Some(result) = self.wire.take_opening()
        {
            self.wire.sent(&message);
            self.answered = Some((request.id.clone(), result));
        }
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let sending = self.answered.is_none().then(|| self.inner.send(message));
        let waiting = Arc::clone(&self.waiting);
        async move {
            let Some(sending) = sending else { return Ok(()) };
            let sent = sending.await;
            if is_answer && sent.is_ok() {
                let _ = waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |waiting| waiting.checked_sub(1));
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if let Some((id, result)) = self.answered.take()
            && let Some(message) = self.wire.answer(&id, Answer::Result(result))
        {
            return Some(message);
        }
        let message = loop {
            let probed = self.probed.take_if(|(id, _)| !self.wire.is_waiting(id));
            drop(probed);
            tokio::select! {
                biased;
                message = self.inner.receive() => break message?,
                () = at(self.probed.as_ref().map(|(_, end)| *end)) => {
                    let Some((id, _)) = self.probed.take() else { continue };
                    if let Some(message) = self.wire.undiscovered(&id) {
                        return Some(message);
                    }
                }
            }
        };
        let asks = matches!(message, JsonRpcMessage::Request(_));
        if asks && self.waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
            self.wire.end("it asks faster than it takes answers");
            return None;
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
