//! The ID of a new run.

use crate::text::one_line;
use std::{fmt, str::FromStr, sync::Arc};

/// The name that commands take for the newest run of a journal, and that no run has.
pub const NEWEST: &str = "last";

/// The longest run ID that a caller may choose, in bytes.
pub const MAX_BYTES: usize = 128;

/// The ID of a run that is about to be made: letters, digits, `.`, `_`, `:` and `-`, beginning with a letter or digit.
/// It appears in commands to copy, in addresses and in file names.
///
/// It is parsed once, where a caller gives it; whatever starts or forks a run takes this type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NewRunId(Arc<str>);

/// The error of a text that is not a run ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRunId {
    /// Commands take it for the newest run.
    #[error("`{NEWEST}` is not a run ID: commands take it for the newest run; choose another one")]
    Newest,
    /// It is too long, or has other characters.
    #[error(
        "`{0}` is not a run ID: expected 1 to {MAX_BYTES} letters, digits, `.`, `_`, `:` and `-`, beginning with a letter \
         or digit"
    )]
    Malformed(String),
}

impl NewRunId {
    /// Returns an ID that the host makes itself, of others and of characters that no caller may give.
    #[must_use]
    pub fn derived(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

impl FromStr for NewRunId {
    type Err = InvalidRunId;

    fn from_str(id: &str) -> Result<Self, InvalidRunId> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        let begins = id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        match id {
            NEWEST => Err(InvalidRunId::Newest),
            _ if begins && id.len() <= MAX_BYTES && id.bytes().all(plain) => Ok(Self(id.into())),
            _ => Err(InvalidRunId::Malformed(one_line(id, 40))),
        }
    }
}

impl From<NewRunId> for Arc<str> {
    fn from(id: NewRunId) -> Self {
        id.0
    }
}

impl AsRef<str> for NewRunId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NewRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_plain_and_not_a_word_of_the_commands() {
        let longest = "a".repeat(MAX_BYTES);
        for id in ["r", "run-1", "cron:nightly:2026-11-26T00:00:00Z", "0.1_2", &longest] {
            assert_eq!(id.parse::<NewRunId>().unwrap().as_ref(), id);
        }
        let longer = "a".repeat(MAX_BYTES + 1);
        for id in ["", "-x", ".x", "a b", "a/b", "ä", "a~b", &longer] {
            assert!(matches!(id.parse::<NewRunId>(), Err(InvalidRunId::Malformed(_))), "{id}");
        }
        assert_eq!("last".parse::<NewRunId>(), Err(InvalidRunId::Newest));
    }
}
