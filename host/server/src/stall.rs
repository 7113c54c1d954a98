//! Connections: how many there are, and those whose other end has stopped reading, which are cut, so that what waits
//! for them is given back.

use axum_server::accept::Accept;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    future::{Ready, ready},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_io_timeout::TimeoutStream;

/// The time for which a client may take no byte of an answer that waits for it.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(30);

/// Connections at a time, whoever they are from: each may hold a request that is not complete yet.
const CONNECTIONS: u64 = 16_384;

/// The file descriptors that this process may have, after raising that to what its user may: of the usual 1,024 some
/// hundred half-sent requests would take all.
fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    limit.unwrap_or(u64::MAX)
}

/// Connections that leave the journal, cells and models at least as many descriptors.
pub(crate) fn most_connections() -> usize {
    let descriptors = descriptors();
    usize::try_from(CONNECTIONS.min(descriptors / 2)).unwrap_or(usize::MAX)
}

/// Accepts connections, this many at a time, on which no write may make no progress for longer than a time.
#[derive(Debug, Clone)]
pub(crate) struct StallAcceptor {
    most: Duration,
    room: Arc<Semaphore>,
}

impl StallAcceptor {
    /// Cuts a connection that has taken nothing for this long although something was to be sent, and refuses those
    /// beyond `connections`.
    pub(crate) fn new(most: Duration, connections: usize) -> Self {
        Self { most, room: Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS))) }
    }
}

impl<I: AsyncRead + AsyncWrite, S> Accept<I, S> for StallAcceptor {
    type Stream = Connection<I>;
    type Service = S;
    type Future = Ready<io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return ready(Err(io::Error::other("as many connections are open as this server takes")));
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.most));
        ready(Ok((Connection { stream: Box::pin(stream), _room: room }, service)))
    }
}

/// A connection that counts as one until it is closed.
#[derive(Debug)]
pub(crate) struct Connection<I> {
    stream: Pin<Box<TimeoutStream<I>>>,
    _room: OwnedSemaphorePermit,
}

impl<I: AsyncRead + AsyncWrite> AsyncRead for Connection<I> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_read(context, into)
    }
}

impl<I: AsyncRead + AsyncWrite> AsyncWrite for Connection<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// More than a pipe of 1 KiB holds.
    const SENT: usize = 64 << 10;

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_is_cut_and_who_reads_slowly_gets_everything() {
        let acceptor = StallAcceptor::new(Duration::from_secs(5), 10);
        let (ours, _theirs) = tokio::io::duplex(1024);
        let (mut stream, ()) = acceptor.accept(ours, ()).await.unwrap();
        let cut = stream.write_all(&[0; SENT]).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);

        let (ours, mut theirs) = tokio::io::duplex(1024);
        let (mut stream, ()) = acceptor.accept(ours, ()).await.unwrap();
        let slow = tokio::spawn(async move {
            let mut piece = [0; 1024];
            let mut got = 0;
            while got < SENT {
                tokio::time::sleep(Duration::from_secs(4)).await;
                got += theirs.read(&mut piece).await.unwrap();
            }
            got
        });
        stream.write_all(&[0; SENT]).await.unwrap();
        assert_eq!(slow.await.unwrap(), SENT);
    }

    #[tokio::test]
    async fn a_connection_beyond_the_most_is_refused_until_one_is_closed() {
        let acceptor = StallAcceptor::new(WRITE_TIME, 2);
        let accept = async || acceptor.accept(tokio::io::duplex(1).0, ()).await;
        let (first, second) = (accept().await.unwrap(), accept().await.unwrap());
        assert!(accept().await.is_err());
        drop(first);
        let third = accept().await.unwrap();
        assert!(accept().await.is_err());
        drop((second, third));
    }
}
