//! Texts that cost no allocation when they are short and a counter when they are cloned.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};
use triomphe::ThinArc;

/// The longest text that is kept inside of the value itself, in bytes.
const INLINE: usize = 14;

/// A text. Up to 14 bytes stand in the value itself; longer ones are shared, so that cloning is constant time.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Inline {
        len: u8,
        bytes: [u8; INLINE],
    },
    /// The header counts the bytes that escaping adds when the text is written as JSON.
    Shared(ThinArc<usize, u8>),
}

impl Text {
    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        // SAFETY: both forms are made in `From<&str>` alone, from the whole of a `str`, and are never changed
        // afterwards.
        unsafe { std::str::from_utf8_unchecked(self.as_bytes()) }
    }

    /// The text's bytes, UTF-8.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Repr::Shared(shared) => &shared.slice,
        }
    }

    /// Counts one more owner of what is shared, who has the same bytes.
    #[inline]
    pub(super) fn count_once_more(&self) {
        if let Repr::Shared(shared) = &self.0 {
            std::mem::forget(shared.clone());
        }
    }

    /// Returns the number of bytes that escaping adds when the text is written as JSON.
    #[must_use]
    #[inline]
    pub(super) fn escapes(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } => escapes(self.as_bytes()),
            Repr::Shared(shared) => shared.header.header,
        }
    }
}

/// Returns the length that JSON's escapes add to a text: one byte for `\"` and the short forms, five for `\u001f`.
fn escapes(bytes: &[u8]) -> usize {
    bytes.iter().map(|byte| usize::from(extra(*byte))).sum()
}

#[inline]
const fn extra(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' | 0x08 | 0x09 | 0x0a | 0x0c | 0x0d => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

impl From<&str> for Text {
    #[inline]
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(start), Ok(len)) => {
                start.copy_from_slice(text.as_bytes());
                Self(Repr::Inline { len, bytes })
            }
            _ => Self(Repr::Shared(ThinArc::from_header_and_slice(escapes(text.as_bytes()), text.as_bytes()))),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self::from(text.as_ref())
    }
}

impl From<&Arc<str>> for Text {
    fn from(text: &Arc<str>) -> Self {
        Self::from(text.as_ref())
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<Text> for Arc<str> {
    fn from(text: Text) -> Self {
        text.as_str().into()
    }
}

impl From<&Text> for Arc<str> {
    fn from(text: &Text) -> Self {
        text.as_str().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl Deref for Text {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    #[inline]
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// As the text itself does, so that maps can be asked with a `&str`.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_texts_are_what_they_were_made_of() {
        for len in [0, 1, 13, 14, 15, 16, 1000] {
            let text = "é".repeat(len / 2) + &"x".repeat(len % 2);
            assert_eq!(Text::from(text.as_str()).as_str(), text);
            assert_eq!(Text::from(text.as_str()).clone(), Text::from(text));
        }
    }

    #[test]
    fn a_long_text_is_shared_when_it_is_cloned() {
        let text = Text::from("x".repeat(100));
        assert_eq!(text.clone().as_str().as_ptr(), text.as_str().as_ptr());
    }
}
