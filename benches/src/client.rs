//! A lean HTTP client: what it takes of the machine is what the server does not have.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// One connection that is kept open.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    /// Connects to a server.
    ///
    /// # Errors
    /// When no one listens at the address.
    pub async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(4096, stream);
        Ok(Self { address: address.to_owned(), stream, line: String::new(), body: Vec::new() })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The connection's.
    pub async fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Result<()> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}",
            self.address
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes()).await?)
    }

    /// The status, and the length of the body; `None` where it comes in pieces.
    ///
    /// # Errors
    /// When the connection ends, or what comes is not HTTP.
    pub async fn head(&mut self) -> Result<(u16, Option<usize>)> {
        let (mut status, mut length) = (0, None);
        loop {
            self.line.clear();
            if self.stream.read_line(&mut self.line).await? == 0 {
                bail!("the server closed the connection");
            }
            let line = self.line.trim_end();
            if line.is_empty() {
                return Ok((status, length));
            }
            if status == 0 {
                status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
            } else if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = Some(value.trim().parse()?);
            }
        }
    }

    /// Reads a line of a body that comes in pieces; `None` at its end.
    ///
    /// # Errors
    /// The connection's.
    pub async fn line(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        if self.stream.read_line(&mut self.line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(self.line.trim_end()))
    }

    /// The whole answer to a request.
    ///
    /// # Errors
    /// When the connection ends, or what comes is not HTTP.
    pub async fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Result<(u16, &[u8])> {
        self.send(method, path, headers, body).await?;
        let (status, length) = self.head().await?;
        self.body.clear();
        match length {
            Some(length) => {
                self.body.resize(length, 0);
                self.stream.read_exact(&mut self.body).await?;
            }
            None => loop {
                self.line.clear();
                self.stream.read_line(&mut self.line).await?;
                let size = usize::from_str_radix(self.line.trim(), 16).context("a piece without its size")?;
                let begin = self.body.len();
                self.body.resize(begin + size + 2, 0);
                self.stream.read_exact(self.body.get_mut(begin..).unwrap_or_default()).await?;
                self.body.truncate(begin + size);
                if size == 0 {
                    break;
                }
            },
        }
        Ok((status, &self.body))
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// As [`Connection::ask`], or when the body is not JSON.
    pub async fn json(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
        let (status, body) = self.ask(method, path, "", body).await?;
        Ok((status, serde_json::from_slice(body).with_context(|| String::from_utf8_lossy(body).into_owned())?))
    }
}

/// The latencies of many requests.
#[derive(Debug, Default)]
pub struct Latencies {
    /// One of each request that succeeded.
    pub took: Vec<Duration>,
    /// Requests that did not.
    pub failed: usize,
    /// An answer that was not wanted, as an example.
    pub example: Option<String>,
}

impl Latencies {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.example = self.example.take().or(other.example);
    }

    /// In milliseconds; 0 of none.
    pub fn percentile(&mut self, percent: f64) -> f64 {
        self.took.sort_unstable();
        let at = ((self.took.len() as f64 * percent / 100.0) as usize).min(self.took.len().saturating_sub(1));
        self.took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    }
}

/// One request, made again and again.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server's.
    pub address: String,
    /// The path of the request.
    pub path: String,
    /// The body of the request.
    pub body: String,
    /// Waits so long between two requests of a connection, so that the load is the same however fast answers come.
    pub every: Option<Duration>,
}

impl Load {
    /// A request that is made as often as answers come.
    #[must_use]
    pub fn new(address: &str, path: &str, body: &str) -> Self {
        Self { address: address.to_owned(), path: path.to_owned(), body: body.to_owned(), every: None }
    }

    /// Makes it on this many connections for a time.
    ///
    /// # Errors
    /// When a connection ends, or no request succeeds.
    pub async fn run(&self, connections: usize, time: Duration) -> Result<Latencies> {
        let until = Instant::now() + time;
        let tasks: Vec<_> = (0..connections).map(|_| tokio::spawn(self.clone().repeat(until, None))).collect();
        let mut all = Latencies::default();
        for task in tasks {
            all.add(task.await??);
        }
        // Nothing can be said of a load that the server never took.
        if all.took.is_empty() {
            bail!("no request was answered as it should: {}", all.example.unwrap_or_default());
        }
        Ok(all)
    }

    /// Makes it on one connection until a time, or until it is told to stop.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn repeat(self, until: Instant, stop: Option<&'static AtomicBool>) -> Result<Latencies> {
        let mut connection = Connection::open(&self.address).await?;
        let mut all = Latencies::default();
        let mut next = Instant::now();
        while Instant::now() < until && !stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            if let Some(every) = self.every {
                tokio::time::sleep_until(next.into()).await;
                next += every;
            }
            // A request that has to wait for the one before it has waited since it was due.
            let began = if self.every.is_some() {
                (next - self.every.unwrap_or_default()).min(Instant::now())
            } else {
                Instant::now()
            };
            let (status, answer) = connection.ask("POST", &self.path, "", &self.body).await?;
            if status < 300 {
                all.took.push(began.elapsed());
            } else {
                all.failed += 1;
                all.example.get_or_insert_with(|| format!("{status}: {}", String::from_utf8_lossy(answer)));
            }
        }
        Ok(all)
    }
}
