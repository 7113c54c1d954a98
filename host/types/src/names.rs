//! Names that parse once and cannot be wrong later.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, ops::Deref, str::FromStr, sync::Arc};

/// Whether a text is `[a-z0-9][a-z0-9-]*`: a plugin's name, or either part of an operation's id.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(plain) && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

macro_rules! name {
    ($(#[$doc:meta])+ $name:ident, $error:ident: $expected:literal, $is_valid:expr) => {
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        #[doc = concat!("A text that is not a [`", stringify!($name), "`].")]
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error("`{}` is not {}", crate::text::one_line(.0, 200), $expected)]
        pub struct $error(String);

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) { Ok(Self(text.into())) } else { Err($error(text.to_owned())) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// `namespace/name`, each part `[a-z0-9][a-z0-9-]*`: the id of an operation or a judge.
    OperationId, InvalidOperationId: "an operation id: expected `namespace/name`, each part matching [a-z0-9][a-z0-9-]*",
    |text| text.split_once('/').is_some_and(|(namespace, name)| is_plain_name(namespace) && is_plain_name(name))
}

name! {
    /// A step's name as authored: any text that is not empty.
    StepName, InvalidStepName: "a step name: it is empty",
    |text| !text.is_empty()
}

name! {
    /// The BLAKE3 digest of some bytes: 64 hexadecimal digits, lower case.
    Digest, InvalidDigest: "a digest: expected 64 hexadecimal digits in lower case",
    |text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::{Digest, OperationId, StepName};

    #[test]
    fn an_id_has_two_plain_parts() {
        assert_eq!("repo/find-markers".parse::<OperationId>().unwrap().as_str(), "repo/find-markers");
        for text in ["", "repo", "repo/", "/x", "Repo/x", "repo/x/y", "repo/-x", "repo/x y"] {
            let error = text.parse::<OperationId>().unwrap_err().to_string();
            assert!(error.contains("expected `namespace/name`"), "{error}");
            assert!(serde_json::from_value::<OperationId>(text.into()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_digest_is_64_lower_case_hexadecimal_digits() {
        assert!("0a".repeat(32).parse::<Digest>().is_ok());
        for text in ["", "0a", &"0A".repeat(32), &"0g".repeat(32), &"0a".repeat(33)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_step_has_a_name() {
        assert!("draft the reply".parse::<StepName>().is_ok());
        assert!("".parse::<StepName>().is_err());
    }
}
