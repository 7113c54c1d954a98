//! A server that asks and does not listen: each of its requests is answered, and what waits to be sent to it is
//! bounded.

use super::wire::Wire;
use rmcp::{
    RoleClient,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Requests of a server whose answers it has not taken yet. A server asks for a sign of life now and then.
const MOST_WAITING: usize = 64;

/// A transport that ends when the other side asks faster than it takes answers.
pub(super) struct Patient<T> {
    inner: T,
    waiting: Arc<AtomicUsize>,
    wire: Arc<Wire>,
}

impl<T> Patient<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, waiting: Arc::default(), wire }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Patient<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let (sending, waiting) = (self.inner.send(message), Arc::clone(&self.waiting));
        async move {
            let sent = sending.await;
            if is_answer && sent.is_ok() {
                let _ = waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |waiting| waiting.checked_sub(1));
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        let asks = matches!(message, JsonRpcMessage::Request(_));
        if asks && self.waiting.fetch_add(1, Ordering::AcqRel) >= MOST_WAITING {
            self.wire.end("it asks faster than it takes answers");
            return None;
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
