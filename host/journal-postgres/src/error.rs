//! Errors of the server as errors of a journal.

use opcell_journal::JournalError;
use std::{error::Error as _, sync::Arc};

/// An error of the server, and whether trying again with another connection can help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No connection could be had, or it broke: what was under way may or may not have happened.
    #[error("the connection to PostgreSQL failed: {0}")]
    Connection(String),
    /// The server refused a statement.
    #[error("PostgreSQL refused: {0}")]
    Server(String),
    /// A row holds what this code never writes.
    #[error("a row of the journal cannot be read: {0}")]
    Row(String),
}

impl ServerError {
    /// Returns `true` if another connection may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connection(_))
    }
}

impl From<tokio_postgres::Error> for ServerError {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::SqlState;
        let Some(said) = error.as_db_error() else {
            let cause = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
            return Self::Connection(cause);
        };
        // The server is going away, is not there yet, or asks for another attempt.
        let passing = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        let text = format!("{} ({})", said.message(), said.code().code());
        if passing.contains(said.code()) || said.code().code().starts_with("08") {
            Self::Connection(text)
        } else {
            Self::Server(text)
        }
    }
}

impl From<deadpool_postgres::PoolError> for ServerError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => match Self::from(error) {
                // Wrong passwords and unknown databases do not pass by waiting.
                Self::Server(text) => Self::Server(text),
                other => other,
            },
            other => Self::Connection(other.to_string()),
        }
    }
}

impl From<ServerError> for JournalError {
    fn from(error: ServerError) -> Self {
        Self::Storage(Arc::new(error))
    }
}

/// Shorthand for `map_err`.
pub(crate) fn storage(error: impl Into<ServerError>) -> JournalError {
    error.into().into()
}
