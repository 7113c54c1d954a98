//! Threads for connections to servers of others, so that reading what one of them sends holds up nothing else.
//!
//! An HTTP client parses in one go whatever a socket has, and a server may fill it with responses that end no request:
//! such a turn is as long as the server likes, within the budget of one task. A client drives each of its connections on
//! the runtime from which the request is sent. That is this one, and not the one that answers people and drives runs.

use std::{
    future::{Future, pending},
    panic,
    sync::OnceLock,
    thread,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// Threads at least and at most: a server that keeps one busy leaves another.
const MIN_THREADS: usize = 2;
const MAX_THREADS: usize = 4;

/// Ends the task with whoever waits for it.
struct Awaited<T>(JoinHandle<T>);

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The threads, which last as long as the process; none where the system has no more.
fn threads() -> Option<&'static Runtime> {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let started = THREADS.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(MIN_THREADS, usize::from);
        let threads = processors.clamp(MIN_THREADS, MAX_THREADS);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("opcell-outbound").enable_all().build().ok()
    });
    started.as_ref()
}

/// Sends a request to a server of others: the connection that the request opens is driven by threads that do nothing
/// else. Dropping the returned future drops the request.
pub async fn outbound<F>(request: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let Some(threads) = threads() else { return request.await };
    let mut awaited = Awaited(threads.spawn(request));
    match (&mut awaited.0).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(answer) => answer,
        Err(Ok(panicked)) => panic::resume_unwind(panicked),
        // The threads end with the process.
        Err(Err(_)) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::outbound;
    use std::thread;
    use tokio::{runtime::Handle, sync::oneshot};

    #[tokio::test]
    async fn what_a_request_spawns_is_none_of_the_callers_tasks() {
        let own = thread::current().id();
        let (end, ended) = oneshot::channel::<()>();
        let before = Handle::current().metrics().num_alive_tasks();
        let ran_on = outbound(async move {
            drop(tokio::spawn(ended));
            thread::current().id()
        });
        assert_ne!(ran_on.await, own);
        assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
        drop(end);
    }

    #[tokio::test]
    async fn a_request_ends_with_whoever_waits_for_it() {
        let (held, dropped) = oneshot::channel::<()>();
        let (begin, begun) = oneshot::channel();
        let waiting = tokio::spawn(outbound(async move {
            let _held = held;
            begin.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        begun.await.unwrap();
        waiting.abort();
        assert!(dropped.await.is_err());
    }
}
