//! The protocol between parent and child: one line of JSON each way, followed by the bytes that it announces.

use super::CompileLimits;
use crate::engine::{Metering, Room};
use serde::{Deserialize, Serialize};

/// Longest line that is read from the other side.
pub(super) const MAX_LINE: u64 = 64 << 10;

/// The version of both sides: each release makes and loads its own native code.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Parent to child: compile the bytes that follow.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) engine: String,
    pub(super) deterministic: bool,
    pub(super) scarce: bool,
    pub(super) bytes: u64,
    pub(super) digest: String,
    pub(super) address_space: u64,
    pub(super) cpu_seconds: u64,
}

impl Request {
    pub(super) fn new(metering: Metering, room: Room, engine: &str, component: &[u8], limits: &CompileLimits) -> Self {
        Self {
            engine: engine.to_owned(),
            deterministic: metering == Metering::Deterministic,
            scarce: room == Room::Scarce,
            bytes: component.len() as u64,
            digest: blake3::hash(component).to_hex().to_string(),
            address_space: limits.address_space,
            cpu_seconds: limits.cpu_seconds,
        }
    }

    pub(super) fn line(&self) -> String {
        line(self)
    }

    pub(super) fn parse(line: &str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| format!("not a compile request: {error}"))
    }
}

/// Child to parent: that it compiles components and waits for one; then that native code follows, or that there is
/// none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Answer {
    Ready { version: String },
    Compiled { engine: String, bytes: u64, digest: String },
    Rejected { message: String },
}

impl Answer {
    pub(super) fn line(&self) -> String {
        line(self)
    }

    pub(super) fn parse(line: &str) -> Result<Self, String> {
        if line.is_empty() {
            return Err("the child gave no answer".to_owned());
        }
        serde_json::from_str(line).map_err(|error| format!("not a compile response: {error}"))
    }
}

fn line(message: &impl Serialize) -> String {
    // Structs of numbers and strings always serialize; an empty line is an error for whoever reads it.
    let mut line = serde_json::to_string(message).unwrap_or_default();
    line.push('\n');
    line
}
