//! The standing of a server: whether it runs, how much it was used, and how its tools differ from those that were
//! accepted.

use super::{Listing, ToolDigests};
use opcell_types::text::estimated_tokens;
#[cfg(feature = "mcp")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{sync::Arc, time::Duration};

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerState {
    /// Nothing has needed it yet.
    Idle,
    /// It is being started, or connected to.
    Starting,
    /// It runs, or the connection to it is open.
    Running,
    /// It did not start. It is started again when it is needed.
    Failed,
    /// It has ended. It is started again when it is needed.
    Ended,
}

impl ServerState {
    /// The state as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::Ended => "ended",
        }
    }
}

/// The calls of a server's tools since this process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerUse {
    /// Calls that have ended.
    pub calls: u64,
    /// Those that failed. A call that asks for input, or continues as a task, has not failed.
    pub failures: u64,
    /// The time of all of them together.
    pub time: Duration,
    /// The time of the longest.
    pub longest: Duration,
    /// Bytes of their arguments as JSON.
    pub bytes_sent: u64,
    /// Bytes of their results as JSON.
    pub bytes_received: u64,
}

impl ServerUse {
    /// The mean time of a call; nothing before the first.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let micros = u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX).checked_div(self.calls)?;
        Some(Duration::from_micros(micros))
    }
}

/// The way in which a tool differs from those that were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChangeKind {
    /// Its description or its schema is another one.
    Changed,
    /// The server did not have it.
    New,
    /// The server does not list it any more.
    Gone,
}

impl ToolChangeKind {
    /// The kind as one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }
}

/// A tool that is not as it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolChange {
    /// The server's own name of it.
    pub tool: String,
    /// The difference.
    pub kind: ToolChangeKind,
}

/// The standing of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStanding {
    /// The state.
    pub state: ServerState,
    /// Why it did not start, or did not list its tools, the last time.
    pub problem: Option<String>,
    /// The calls of its tools.
    pub used: ServerUse,
    /// The tools that it listed last, in this process.
    pub listing: Option<Arc<Listing>>,
    /// Their differences from those that were accepted, in the order of names.
    pub changes: Vec<ToolChange>,
}

/// Counts the calls of a server.
#[cfg(feature = "mcp")]
#[derive(Debug, Default)]
pub(super) struct Meter {
    calls: AtomicU64,
    failures: AtomicU64,
    micros: AtomicU64,
    longest: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

#[cfg(feature = "mcp")]
impl Meter {
    /// Counts a call that has ended; `received` are the bytes of its result, if it has one.
    pub(super) fn ended(&self, time: Duration, sent: u64, received: Result<u64, ()>) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
        self.longest.fetch_max(micros, Relaxed);
        self.sent.fetch_add(sent, Relaxed);
        match received {
            Ok(bytes) => self.received.fetch_add(bytes, Relaxed),
            Err(()) => self.failures.fetch_add(1, Relaxed),
        };
    }

    pub(super) fn used(&self) -> ServerUse {
        ServerUse {
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
            time: Duration::from_micros(self.micros.load(Relaxed)),
            longest: Duration::from_micros(self.longest.load(Relaxed)),
            bytes_sent: self.sent.load(Relaxed),
            bytes_received: self.received.load(Relaxed),
        }
    }
}

impl Listing {
    /// The bytes, and an estimate of the tokens, that a model reads if it is shown every usable tool: names,
    /// descriptions and schemas.
    #[must_use]
    pub fn description_size(&self) -> (u64, u64) {
        self.tools.values().fold((0, 0), |(bytes, tokens), tool| {
            let parameters = tool.parameters.to_json();
            let texts = [&tool.name, &tool.description, &parameters];
            let bytes = texts.iter().fold(bytes, |bytes, text| bytes + text.len() as u64);
            (bytes, texts.iter().fold(tokens, |tokens, text| tokens + estimated_tokens(text)))
        })
    }

    /// The differences from the tools that were accepted, in the order of names. Of a list that is not whole, no tool
    /// is gone.
    #[must_use]
    pub fn changes(&self, accepted: &ToolDigests) -> Vec<ToolChange> {
        let now = self.digests();
        let is_whole = !self.truncated && self.partial.is_none();
        let change = |tool: &String, kind| ToolChange { tool: tool.clone(), kind };
        let of_now = now.iter().filter_map(|(tool, digest)| match accepted.get(tool) {
            None => Some(change(tool, ToolChangeKind::New)),
            Some(known) if known != digest => Some(change(tool, ToolChangeKind::Changed)),
            Some(_) => None,
        });
        let gone = accepted.keys().filter(|tool| is_whole && !now.contains_key(*tool));
        let mut changes: Vec<ToolChange> = of_now.chain(gone.map(|tool| change(tool, ToolChangeKind::Gone))).collect();
        changes.sort_by(|a, b| a.tool.cmp(&b.tool));
        changes
    }
}
