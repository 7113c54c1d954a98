//! The bounds of an `http.fetch` call, and the reasons for which there is no response.

use super::{credential::SecretError, request::InvalidRequest};
use opcell_types::{Denial, Failure, Remedy, denial::HttpScope};
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
#[non_exhaustive]
pub enum FetchError {
    /// The arguments are wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// No rule allows this hop.
    #[error("{rule}")]
    Denied {
        /// The requested capability: `http POST https://api.example.com`.
        capability: String,
        /// The rule that refused it.
        rule: String,
        /// The rule that would allow it, if any would.
        missing: Option<MissingRule>,
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

/// The rule that would have allowed a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRule {
    /// Scheme, host and port.
    pub origin: String,
    /// The method, where it is the method that no rule allows.
    pub method: Option<String>,
    /// `true` if private addresses have to be allowed.
    pub private: bool,
}

impl FetchError {
    /// The failure of a call under the rules of `scope`.
    #[must_use]
    pub fn into_failure(self, scope: &HttpScope) -> Failure {
        match self {
            Self::Denied { capability, rule, missing } => {
                let rule = match scope {
                    HttpScope::Plugin(plugin) => format!("{rule} (plugin `{plugin}`)"),
                    _ => rule,
                };
                let remedy = match missing {
                    Some(MissingRule { origin, method, private }) => {
                        Remedy::AllowHttp { scope: scope.clone(), origin, method, private }
                    }
                    None => Remedy::Nothing,
                };
                Failure::denied(Denial::new(capability, rule, remedy))
            }
            Self::Invalid(error) => Failure::host("invalid-arguments", error.to_string()),
            Self::Secret(error) => {
                // Where the host keeps its keys is not the business of whoever asked.
                tracing::warn!("a request was not sent: {error}");
                Failure::host("credential-missing", "the host has no credential for this rule; its operator sees why")
            }
            Self::Failed { reason, message } => Failure::host(reason, message).retriable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of a host's keys is not the business of a plugin or a model, which see the failure.
    #[test]
    fn a_missing_credential_does_not_say_where_it_was_looked_for() {
        for error in [
            SecretError::Unset("PAYROLL_TOKEN".to_owned()),
            SecretError::Unreadable { path: "/run/PAYROLL_TOKEN".to_owned(), error: std::io::Error::other("denied") },
            SecretError::Unusable("PAYROLL_TOKEN".to_owned()),
        ] {
            let failure = FetchError::Secret(error).into_failure(&HttpScope::Plugin("p".into()));
            assert_eq!(&*failure.reason, "credential-missing");
            assert!(!format!("{failure:?}").contains("PAYROLL"), "{failure:?}");
        }
    }
}
