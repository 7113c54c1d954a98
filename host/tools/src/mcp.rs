//! Tools of MCP servers over standard input and output.
//!
//! A server is a process that the operator named; it runs with this process's rights, an environment of `PATH` and what was listed,
//! and is started when one of its tools is first called. What it says is untrusted: messages have a size, calls have a time, its
//! standard error goes nowhere.

#[cfg(feature = "mcp")]
mod server;
#[cfg(not(feature = "mcp"))]
mod unavailable;

#[cfg(feature = "mcp")]
pub use server::Server;
#[cfg(not(feature = "mcp"))]
pub use unavailable::Server;

use std::{path::PathBuf, time::Duration};

/// An MCP server that the operator lets this host start. It is an ordinary process, outside of any cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Variables of this process that it gets beside `PATH`.
    pub env: Vec<String>,
    /// Time of the handshake, and of one call.
    pub call_time: Duration,
    /// Size of one message from it.
    pub result_bytes: u64,
}

impl McpServer {
    /// Longer than any interactive tool takes; a step's own `timeout` is the usual bound.
    pub const DEFAULT_CALL_TIME: Duration = Duration::from_secs(60);
    /// What a cell may return, too.
    pub const DEFAULT_RESULT_BYTES: u64 = 4 << 20;
}
