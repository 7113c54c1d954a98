//! The receipt of one cell. Kept for every cell, however it ended.

use crate::{budget::HostCalls, recording::Recording};
use opcell_types::{Denial, Digest, Touched};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Finest.
    Trace,
    /// For the plugin's author.
    Debug,
    /// For the operator.
    Info,
    /// Something is off.
    Warn,
    /// Something failed.
    Error,
}

/// The stream that a log line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// The plugin called `log`.
    Log,
    /// WASI's standard output.
    Stdout,
    /// WASI's standard error.
    Stderr,
}

/// One line of a cell's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// The level.
    pub level: Level,
    /// The stream that it came from.
    pub stream: Stream,
    /// The text, control characters replaced.
    pub message: String,
}

/// The end of a cell's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LogTail {
    /// The last lines, oldest first.
    pub lines: VecDeque<LogLine>,
    /// Bytes of older lines that were dropped.
    #[serde(default)]
    pub dropped_bytes: u64,
}

impl LogTail {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.dropped_bytes == 0
    }
}

/// Bytes moved through `files`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBytes {
    /// Read from the host's files.
    pub read: u64,
    /// Written to the host's files.
    pub written: u64,
}

impl FileBytes {
    fn is_zero(&self) -> bool {
        self.read == 0 && self.written == 0
    }
}

/// The resources that one cell used and touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Receipt {
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// BLAKE3 of the component's bytes.
    pub digest: Digest,
    /// The operation or judge that was called.
    pub operation: Arc<str>,
    /// Wall time from the request for the cell to its end.
    pub duration_us: u64,
    /// The part of this time that the call waited for a free cell.
    #[serde(default, skip_serializing_if = "is_none")]
    pub queued_us: u64,
    /// Ticks of the epoch clock in which the guest was running.
    pub ticks: u64,
    /// Fuel used; deterministic engine only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Peak linear memory, in bytes.
    pub peak_memory: u64,
    /// Growths of memory or tables that the limits refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_growths: u32,
    /// Calls of host functions.
    pub host_calls: HostCalls,
    /// Bytes passed to the guest.
    pub bytes_in: u64,
    /// Bytes passed to the host.
    pub bytes_out: u64,
    /// Bytes read and written in files.
    #[serde(default, skip_serializing_if = "FileBytes::is_zero")]
    pub file_bytes: FileBytes,
    /// Requests made and files used.
    #[serde(default, skip_serializing_if = "Touched::is_empty")]
    pub touched: Touched,
    /// The end of the log.
    #[serde(default, skip_serializing_if = "LogTail::is_empty")]
    pub log: LogTail,
    /// The first denials, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// The number of further denials.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_denials: u32,
    /// The error's kind, if the cell failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The report of the guest's panic hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panic: Option<String>,
    /// The functions that led to a trap, innermost first; empty if the component has no names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
    /// The key of the limit that ended the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The recording of a cell that was recorded; the rest of the recording that a cell replayed: the calls that
    /// were not made. Not part of the receipt's text.
    #[serde(skip)]
    pub recording: Option<Box<Recording>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_none(time: &u64) -> bool {
    *time == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A cell's result with its receipt.
#[derive(Debug, Clone)]
pub struct CellResult<T> {
    /// The result of the cell.
    pub result: Result<T, crate::error::CellError>,
    /// The resources that it used and touched.
    pub receipt: Receipt,
}
