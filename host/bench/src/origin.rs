//! The origin of a report: program, engine, compiler, guest and command.

use serde::Serialize;
use std::process::Command;

/// The report's format. A field may be added to it; one that changes its meaning changes this.
pub const SCHEMA: &str = "opcell-bench/v1";

/// The version of the engine that this program was built with.
pub const WASMTIME: &str = env!("OPCELL_WASMTIME");

/// Everything that must be equal, or be named, before two reports are compared.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Origin {
    /// Of the report: its name and version.
    pub schema: &'static str,
    /// Opcell's version.
    pub opcell: &'static str,
    /// The commit that the program was built from, where its build said so (`OPCELL_COMMIT`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
    /// BLAKE3 of the program, in hexadecimal.
    pub program: String,
    /// The engine's version.
    pub wasmtime: &'static str,
    /// The compiler's version.
    pub rustc: &'static str,
    /// The version of Node.js, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// BLAKE3 of the measured component, in hexadecimal.
    pub guest: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, UTC.
    pub started: String,
}

impl Origin {
    /// Of this program, now.
    #[must_use]
    pub fn of(guest: &[u8]) -> Self {
        let program = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
        Self {
            schema: SCHEMA,
            opcell: env!("CARGO_PKG_VERSION"),
            commit: option_env!("OPCELL_COMMIT"),
            program: blake3::hash(&program).to_hex().to_string(),
            wasmtime: WASMTIME,
            rustc: env!("OPCELL_RUSTC"),
            node: node(),
            guest: blake3::hash(guest).to_hex().to_string(),
            command: std::env::args().collect(),
            started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }
}

fn node() -> Option<String> {
    let told = Command::new("node").arg("--version").output().ok().filter(|told| told.status.success())?;
    Some(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}
