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
pub(crate) struct Invoking<'a> {
    reply: Option<BoxFuture<'a, Reply<Success>>>,
    ports: &'a Arc<Ports>,
}

/// A detached call, which continues by itself.
pub(crate) struct DetachedCall {
    /// Borrows what `_ports` holds, and so comes before it: fields are dropped in their order.
    reply: Option<BoxFuture<'static, Reply<Success>>>,
    _ports: Arc<Ports>,
}

impl<'a> Invoking<'a> {
    pub(crate) fn of(ports: &'a Arc<Ports>, call: Call) -> Self {
        let reply = catch_unwind(AssertUnwindSafe(|| ports.operations.invoke(call))).ok();
        Self { reply, ports }
    }

    /// The same, for as long as it takes. Until then nothing was counted: most calls end before.
    pub(crate) fn going_on(self) -> DetachedCall {
        let ports = Arc::clone(self.ports);
        // SAFETY: the future borrows from the ports alone, which are behind a counter that this holds, are never
        // changed or moved there, and are let go after the future: neither leaves this structure.
        let reply = self.reply.map(|reply| unsafe {
            std::mem::transmute::<BoxFuture<'_, Reply<Success>>, BoxFuture<'static, Reply<Success>>>(reply)
        });
        DetachedCall { reply, _ports: ports }
    }
}

impl Future for Invoking<'_> {
    type Output = Reply<Success>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut self.reply, context)
    }
}

impl Future for DetachedCall {
    type Output = Reply<Success>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut self.reply, context)
    }
}

fn poll(reply: &mut Option<BoxFuture<'_, Reply<Success>>>, context: &mut Context<'_>) -> Poll<Reply<Success>> {
    let polled = match reply {
        Some(reply) => catch_unwind(AssertUnwindSafe(|| reply.as_mut().poll(context))),
        None => return Poll::Ready(Err(panicked()).into()),
    };
    polled.unwrap_or_else(|_| Poll::Ready(Err(panicked()).into()))
}
