//! How an `http.fetch` call is bounded, and why there is no response.

use super::{credential::SecretError, request::InvalidRequest};
use std::time::Duration;

/// Ceilings of one `http.fetch` call.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// All hops and the body together.
    pub timeout: Duration,
    /// Bytes of the response's body.
    pub response_bytes: u64,
}

impl Default for FetchLimits {
    /// 30 seconds and 8 MiB: what an API answers well within, and what a cell can still take in.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), response_bytes: 8 << 20 }
    }
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The arguments are wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// No rule allows this hop.
    #[error("{rule}")]
    Denied {
        /// What was asked for: `http POST https://api.example.com`.
        capability: String,
        /// The rule that refused it.
        rule: String,
        /// What would allow it, if anything would: arguments for `opcell plugin grant NAME`.
        grant: Option<String>,
    },
    /// The credential that the grant names cannot be read. The message names the source, never the secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The request was allowed and failed.
    #[error("{message}")]
    Failed {
        /// Stable: `http-timeout`, `http-connect`, `http-redirects`, `http-too-large`, `http-failed`.
        reason: &'static str,
        /// One sentence, without secrets.
        message: String,
    },
}
