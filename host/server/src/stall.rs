//! Connections whose other end has stopped reading: they are cut, so that what waits for them is given back.

use axum_server::accept::Accept;
use std::{
    future::{Ready, ready},
    io,
    pin::Pin,
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;

/// How long a client may take no byte of an answer that waits for it.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(30);

/// Accepts connections on which no write may make no progress for longer than a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StallAcceptor {
    most: Duration,
}

impl StallAcceptor {
    /// Cuts a connection that has taken nothing for this long although something was to be sent.
    pub(crate) fn new(most: Duration) -> Self {
        Self { most }
    }
}

impl<I: AsyncRead + AsyncWrite, S> Accept<I, S> for StallAcceptor {
    type Stream = Pin<Box<TimeoutStream<I>>>;
    type Service = S;
    type Future = Ready<io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.most));
        ready(Ok((Box::pin(stream), service)))
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
        let acceptor = StallAcceptor::new(Duration::from_secs(5));
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
}
