//! A call of an operation that is likely to end at once, without an allocation beside the operation's own.

use crate::{
    ports::{Call, Ports, Reply, Success},
    run::panicked,
};
use futures_util::future::BoxFuture;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A call that has been made. A panic is its failure.
pub(crate) struct Invoking {
    /// Borrows what `_ports` holds, and so comes before it: fields are dropped in their order.
    reply: Option<BoxFuture<'static, Reply<Success>>>,
    _ports: Arc<Ports>,
}

impl Invoking {
    pub(crate) fn of(ports: &Arc<Ports>, call: Call) -> Self {
        let ports = Arc::clone(ports);
        let reply = catch_unwind(AssertUnwindSafe(|| ports.operations.invoke(call))).ok();
        // SAFETY: the future borrows from the ports alone, which are behind a counter that this holds, are never changed
        // or moved there, and are let go after the future: neither leaves this structure.
        let reply = reply.map(|reply| unsafe {
            std::mem::transmute::<BoxFuture<'_, Reply<Success>>, BoxFuture<'static, Reply<Success>>>(reply)
        });
        Self { reply, _ports: ports }
    }
}

impl Future for Invoking {
    type Output = Reply<Success>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &mut self.reply {
            Some(reply) => catch_unwind(AssertUnwindSafe(|| reply.as_mut().poll(context))),
            None => return Poll::Ready(Err(panicked()).into()),
        };
        polled.unwrap_or_else(|_| Poll::Ready(Err(panicked()).into()))
    }
}
