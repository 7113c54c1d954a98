//! Whoever watches from outside: an HTTP server to which effects report, and which outlives every worker.

use anyhow::Result;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    /// `once` or `again`, which is idempotent.
    pub what: String,
    /// The run, as the cell was told.
    pub run: String,
    /// The step.
    pub step: String,
    /// The idempotency key.
    pub key: String,
}

/// The recorded deeds, with their numbers.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    deeds: Arc<Mutex<BTreeMap<Deed, usize>>>,
}

impl Recorder {
    /// Listens; returns where.
    pub async fn start(&self, listen: Ipv4Addr) -> Result<SocketAddr> {
        let listener = TcpListener::bind((listen, 0)).await?;
        let address = listener.local_addr()?;
        let recorder = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let recorder = recorder.clone();
                tokio::spawn(async move {
                    let _ = recorder.hear(stream).await;
                });
            }
        });
        Ok(address)
    }

    /// Deeds of a run, with how often each was done.
    pub fn of(&self, run: &str) -> BTreeMap<Deed, usize> {
        let deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
        deeds.iter().filter(|(deed, _)| deed.run == run).map(|(deed, times)| (deed.clone(), *times)).collect()
    }

    /// The keys under which this was done, in any run.
    pub fn keys(&self, what: &str) -> BTreeSet<String> {
        let deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
        deeds.keys().filter(|deed| deed.what == what).map(|deed| deed.key.clone()).collect()
    }

    async fn hear(&self, mut stream: TcpStream) -> Result<()> {
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let length = stream.read(&mut piece).await?;
            if length == 0 {
                return Ok(());
            }
            request.extend(piece.iter().take(length));
            while let Some((body, whole)) = body(&request) {
                request.drain(..whole);
                if let [what, run, step, key] = body.split(' ').collect::<Vec<_>>().as_slice() {
                    let text = |text: &str| text.to_owned();
                    let deed = Deed { what: text(what), run: text(run), step: text(step), key: text(key) };
                    // Done before the answer: whoever dies in between has done it.
                    *self.deeds.lock().unwrap_or_else(PoisonError::into_inner).entry(deed).or_default() += 1;
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
            }
        }
    }
}

/// The body of the first request, and the length of all of it, once it is complete.
fn body(request: &[u8]) -> Option<(String, usize)> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(request.get(..end)?).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let whole = end + length.unwrap_or(0);
    Some((String::from_utf8_lossy(request.get(end..whole)?).into_owned(), whole))
}
