//! Tools of MCP servers, over standard input and output or over HTTP.
//!
//! A server at an address is reached like everything else over HTTP: checked addresses, no redirects, a credential that
//! it alone gets. Any other server is a process that the operator named; it runs with this process's rights, an
//! environment of `PATH` and what was listed, and is started when one of its tools is first called or listed. What it
//! says is untrusted: messages have a size, calls and the handshake have a time, descriptions are made printable,
//! schemas are weighed before they are used.

mod accepted;
#[cfg(feature = "mcp")]
mod ask;
#[cfg(all(feature = "mcp", target_os = "linux"))]
mod confine;
#[cfg(feature = "mcp")]
mod connection;
#[cfg(feature = "mcp")]
mod deep;
#[cfg(feature = "mcp")]
mod entry;
#[cfg(feature = "mcp")]
mod headers;
#[cfg(feature = "mcp")]
mod input;
#[cfg(feature = "mcp")]
mod jsonish;
#[cfg(feature = "mcp")]
mod lines;
mod listing;
#[cfg(all(test, feature = "http", feature = "mcp"))]
mod odd;
#[cfg(feature = "mcp")]
mod offers;
#[cfg(feature = "mcp")]
mod patience;
#[cfg(all(test, feature = "mcp"))]
mod peers_tests;
#[cfg(feature = "mcp")]
mod process;
mod python;
#[cfg(all(feature = "http", feature = "mcp"))]
mod remote;
#[cfg(feature = "mcp")]
mod repair;
#[cfg(feature = "mcp")]
mod result;
#[cfg(feature = "mcp")]
mod server;
mod standing;
#[cfg(feature = "mcp")]
mod task;
#[cfg(all(test, feature = "mcp"))]
mod tests;
#[cfg(not(feature = "mcp"))]
mod unavailable;
#[cfg(feature = "mcp")]
mod wire;

/// Ways into the crate that only fuzz targets have.
#[cfg(all(feature = "fuzzing", feature = "mcp"))]
pub mod fuzzing {
    use super::{Binary, Listing, entry, result};
    use opcell_types::{Failure, Value};

    /// Reads a list of tools, where it is one.
    #[must_use]
    pub fn tools(json: &str) -> Option<Listing> {
        serde_json::from_str(json).ok().map(entry::weigh)
    }

    /// Reads the result of a call, where it is JSON.
    #[must_use]
    pub fn result(json: &str) -> Option<Result<Value, Failure>> {
        let found = serde_json::from_str(json).ok()?;
        Some(result::output("t", found, Binary::Keep).map(|output| output.value))
    }
}

pub use accepted::{AcceptedTools, StartCheck, ToolDigests};
pub use listing::{ListedPrompt, ListedResource, ListedTool, Listing, Offers};
pub use python::{is_started_without_variables, reads_pycache};
#[cfg(feature = "mcp")]
pub use server::Server;
pub use standing::{ServerStanding, ServerState, ServerUse, ToolChange, ToolChangeKind};
#[cfg(not(feature = "mcp"))]
pub use unavailable::Server;

use crate::http::HttpRule;
use opcell_types::{Failure, GivenInput, ProgressLog, Source, Value};
use std::{path::PathBuf, time::Duration};

/// Longest message of a server that is repeated, in bytes.
#[cfg(feature = "mcp")]
const MESSAGE_BYTES: usize = 2_000;

/// An MCP server that the operator lets this host start. It is an ordinary process, outside of any cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The directory in which it runs.
    pub directory: PathBuf,
    /// Variables of this process that it gets beside `PATH`.
    pub env: Vec<String>,
    /// Time of the handshake, of listing the tools, and of one call.
    pub call_time: Duration,
    /// Size of one message from it, in bytes.
    pub result_bytes: u64,
    /// The address of the server, when it is not a program.
    pub remote: Option<Remote>,
    /// `true` if the kernel keeps it from everything but the system's programs, its directory, and what follows.
    pub confine: bool,
    /// Files and directories that it reads when it is confined.
    pub read: Vec<PathBuf>,
    /// Files and directories that it reads and writes when it is confined.
    pub write: Vec<PathBuf>,
    /// `true` if it reaches the network when it is confined.
    pub network: bool,
}

/// An address that the operator named, and what the host sends there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The URL of the server.
    pub url: url::Url,
    /// Its origin, whether it may be in a private network, and the credential.
    pub rule: HttpRule,
}

impl McpServer {
    /// Longer than any interactive tool takes; a step's own `timeout` is the usual bound.
    pub const DEFAULT_CALL_TIME: Duration = Duration::from_secs(60);
    /// The result size that is also a cell's default.
    pub const DEFAULT_RESULT_BYTES: u64 = 4 << 20;
}

/// The bounds that a kernel can hold a confined server in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinementReport {
    /// The version of Landlock.
    pub version: i64,
    /// Things that a server is kept from, beside the calls of administrators.
    pub holds: Vec<&'static str>,
    /// Things that it is not kept from, and the first kernel that keeps it from them.
    pub lacks: Vec<(&'static str, &'static str)>,
}

impl ConfinementReport {
    /// The missing bounds, as a sentence; nothing where there are none.
    #[must_use]
    pub fn gaps(&self) -> Option<String> {
        let gaps: Vec<String> =
            self.lacks.iter().map(|(what, kernel)| format!("{what} (from kernel {kernel} on)")).collect();
        (!gaps.is_empty()).then(|| format!("this kernel does not hold: {}", gaps.join(", ")))
    }
}

/// Returns the bounds that this kernel can hold a server with `confine = true` in.
///
/// # Errors
/// When it cannot confine a server: none starts then.
pub fn confinement() -> Result<ConfinementReport, String> {
    #[cfg(all(feature = "mcp", target_os = "linux"))]
    {
        confine::holds()
    }
    #[cfg(not(all(feature = "mcp", target_os = "linux")))]
    {
        Err("`confine` takes Linux, and a program with MCP".to_owned())
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The result.
    pub value: Value,
    /// Oddities, in sentences.
    pub warnings: Vec<String>,
}

/// The circumstances of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions<'a> {
    /// The treatment of what is not text.
    pub binary: Binary,
    /// W3C trace context that the server gets.
    pub traceparent: Option<&'a str>,
    /// `true` if the caller waits for a person whom the server asks for input.
    pub may_ask: bool,
    /// The answers with which the call continues, where the server asked for input.
    pub given: Option<&'a GivenInput>,
    /// The place in which the server's notifications of progress are told.
    pub progress: Option<&'a ProgressLog>,
}

impl CallOptions<'_> {
    /// A call outside of any trace, whose caller waits for no person.
    #[must_use]
    pub fn new(binary: Binary) -> Self {
        Self { binary, traceparent: None, may_ask: false, given: None, progress: None }
    }
}

/// The treatment of images, audio and binary resources in a tool's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// They stay in the result, in base64: a step can use them.
    Keep,
    /// Pictures, recordings and PDF documents stay, of the rest only kind and size: a model is shown those of a result.
    Attachments,
    /// Their kind and size take their place: a model reads text.
    Omit,
}

fn failed(reason: &str, message: String, retriable: bool) -> Failure {
    Failure { retriable, ..Failure::new(Source::Tool, reason, message) }
}
