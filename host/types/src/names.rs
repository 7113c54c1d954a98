//! Names that parse once and cannot be wrong later.

use serde::{Deserialize, Serialize, Serializer};
use std::{borrow::Borrow, fmt, ops::Deref, str::FromStr, sync::Arc};

/// Returns `true` if a text is `[a-z0-9][a-z0-9-]*`: a plugin's name, or either part of an operation's id.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(plain) && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

macro_rules! name {
    ($(#[$doc:meta])+ $name:ident, $error:ident: $expected:literal, $is_valid:expr) => {
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
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

            /// The same text as it is shared.
            #[must_use]
            pub fn shared(&self) -> &Arc<str> {
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

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
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

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
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
                f.pad(&self.0)
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
    /// The BLAKE3 digest of some bytes: 64 hexadecimal digits, lower case.
    Digest, InvalidDigest: "a digest: expected 64 hexadecimal digits in lower case",
    |text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl Digest {
    /// The digest that a hash function gave, such as a `blake3::Hash`.
    #[must_use]
    pub fn of_hash(hash: impl Into<[u8; 32]>) -> Self {
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
        let digits = hash.into().into_iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        Self(digits.collect::<String>().into())
    }

    /// The bytes that the digits stand for.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, digits) in bytes.iter_mut().zip(self.0.as_bytes().as_chunks::<2>().0) {
            let [high, low] = digits.map(|of| digit(of).unwrap_or_default());
            *byte = high << 4 | low;
        }
        bytes
    }

    /// The first 16 digits: as much as a person compares.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, OperationId};

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
        let mut hash = [0xab; 32];
        hash[0] = 0x0c;
        let digest = Digest::of_hash(hash);
        assert_eq!(digest.as_str().parse::<Digest>().unwrap(), digest);
        assert_eq!(digest.to_bytes(), hash);
        assert_eq!(digest.short(), "0cababababababab");
    }
}
