//! Why nothing came from a registry, and what to do.

use crate::signature::SignatureError;
use opcell_types::FollowUp;

/// Why a registry was not reached, or not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The registry, or where it leads, is at an address that this request may not reach.
    #[error("{host} is not reached: {why}")]
    Denied {
        /// The host.
        host: String,
        /// The rule.
        why: String,
    },
    /// No one answers.
    #[error("{host} cannot be reached: {why}")]
    Connect {
        /// The host.
        host: String,
        /// The error of the system.
        why: String,
    },
    /// The registry wants credentials, or others.
    #[error("{host} refuses access{}", if *.given { " with the credentials of your Docker configuration" } else { " without credentials" })]
    Unauthorized {
        /// The host.
        host: String,
        /// `true` if credentials were sent.
        given: bool,
    },
    /// The user's credentials cannot be read.
    #[error("the credentials for {host} cannot be read: {why}")]
    Credentials {
        /// The host.
        host: String,
        /// The problem.
        why: String,
    },
    /// There is no such thing.
    #[error("{what} does not exist")]
    NotFound {
        /// The requested thing.
        what: String,
    },
    /// An answer that no one asked for.
    #[error("{host} answered {status}{}", if .message.is_empty() { String::new() } else { format!(": {}", .message) })]
    Status {
        /// The host.
        host: String,
        /// The HTTP status.
        status: u16,
        /// The message of the registry, made printable.
        message: String,
    },
    /// Other bytes than those that were asked for.
    #[error("{what} has other bytes than its digest says: expected {expected}, found {found}")]
    Digest {
        /// The requested thing.
        what: String,
        /// The digest that it should have.
        expected: String,
        /// The digest that it has.
        found: String,
    },
    /// More bytes than are read.
    #[error("{what} has more than {most} bytes")]
    TooLarge {
        /// The requested thing.
        what: String,
        /// The maximum that is read.
        most: u64,
    },
    /// Something that is not a plugin.
    #[error("{what}")]
    Shape {
        /// The problem, and its place.
        what: String,
    },
    /// A signature that is not one.
    #[error("{0}")]
    Signature(SignatureError),
    /// It took too long.
    #[error("{host} did not finish within {seconds} s")]
    Timeout {
        /// The host.
        host: String,
        /// The time.
        seconds: u64,
    },
}

impl RegistryError {
    /// Returns `true` if what was asked for is not as it must be, or not there: another of its kind may be.
    pub(super) fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::Digest { .. }
                | Self::TooLarge { .. }
                | Self::Shape { .. }
                | Self::Signature(_)
        )
    }

    /// A stable name of the kind of error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "registry-denied",
            Self::Connect { .. } => "registry-unreachable",
            Self::Unauthorized { .. } | Self::Credentials { .. } => "registry-unauthorized",
            Self::NotFound { .. } => "registry-not-found",
            Self::Status { .. } => "registry-refused",
            Self::Digest { .. } => "registry-wrong-digest",
            Self::TooLarge { .. } => "registry-too-large",
            Self::Shape { .. } => "registry-not-a-plugin",
            Self::Signature(_) => "signature-invalid",
            Self::Timeout { .. } => "registry-timeout",
        }
    }

    /// Returns what a person can do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Denied { .. } => {
                "a registry may send to public addresses only; this machine and private networks are \
                                    reached where the reference itself names them"
                    .to_owned()
            }
            Self::Connect { .. } | Self::Timeout { .. } => {
                "check the host, its port and the network; plugins that were \
                                                            fetched before run without it"
                    .to_owned()
            }
            Self::Unauthorized { host, .. } | Self::Credentials { host, .. } => {
                format!("log in with `docker login {host}`, or write the entry into ~/.docker/config.json")
            }
            Self::NotFound { .. } => {
                "check the name and the tag; some registries answer this way when you lack read access".to_owned()
            }
            Self::Status { .. } => "ask whoever runs the registry, or try again later".to_owned(),
            Self::Digest { .. } => {
                "the registry, or someone on the way to it, changed the content: do not use it, and \
                                    report it to its operator"
                    .to_owned()
            }
            Self::TooLarge { .. } | Self::Shape { .. } => {
                format!("a plugin is pushed with {}, `wkg oci push` or `wash push`", FollowUp::PushPlugin)
            }
            Self::Signature(_) => "ask the publisher; nothing was stored".to_owned(),
        }
    }
}
