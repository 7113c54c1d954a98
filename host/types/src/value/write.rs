//! Writing: JSON text without spaces, in one pass and without recursion.

use super::{Entries, MAX_DEPTH, Number, NumberKind, Value};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use std::io;

/// The number of bytes that are gathered before they are handed on.
const CHUNK_BYTES: usize = 64 << 10;

impl Value {
    /// JSON text without spaces. `undefined` at the top is `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(usize::try_from(self.measure().bytes()).unwrap_or(0).min(64 << 20));
        // A list of bytes takes everything.
        let _ = self.write(&mut out, |_| Ok(()));
        String::from_utf8(out).unwrap_or_default()
    }

    /// The first bytes of [`Self::to_json`], at most as many as given and as whole characters, without making the rest.
    #[must_use]
    pub fn json_prefix(&self, max_bytes: usize) -> String {
        if let Self::String(text) = self {
            // One text may take megabytes; each character of it takes one byte at least.
            let end = text.char_indices().nth(max_bytes).map_or(text.len(), |(at, _)| at);
            if let Some(part) = text.get(..end).filter(|part| part.len() < text.len()) {
                return cut(Self::from(part).to_json().into_bytes(), max_bytes);
            }
        }
        let mut out = Vec::new();
        // An error only ends the writing.
        let _ = self.write(&mut out, |out| match out.len() >= max_bytes {
            true => Err(io::ErrorKind::WriteZero.into()),
            false => Ok(()),
        });
        cut(out, max_bytes)
    }

    /// Writes JSON text without spaces, some kilobytes at a time.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_json(&self, to: &mut (impl io::Write + ?Sized)) -> io::Result<()> {
        let mut out =
            Vec::with_capacity(CHUNK_BYTES.min(usize::try_from(self.measure().bytes()).unwrap_or(CHUNK_BYTES)) + 64);
        self.write(&mut out, |out| {
            if out.len() >= CHUNK_BYTES {
                to.write_all(out)?;
                out.clear();
            }
            Ok(())
        })?;
        to.write_all(&out)
    }

    fn write(&self, out: &mut Vec<u8>, mut after: impl FnMut(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = Some(self);
        loop {
            match next.take() {
                Some(Value::Array(items)) => {
                    out.push(b'[');
                    open.push(Open::Array(items.iter(), true));
                }
                Some(Value::Object(entries)) => {
                    out.push(b'{');
                    open.push(Open::Object(entries.iter(), true));
                }
                Some(scalar) => write_scalar(scalar, out),
                None => {}
            }
            match open.last_mut() {
                None => return Ok(()),
                Some(Open::Array(items, first)) => match items.next() {
                    Some(item) => {
                        if !std::mem::replace(first, false) {
                            out.push(b',');
                        }
                        next = Some(item);
                    }
                    None => {
                        out.push(b']');
                        open.pop();
                    }
                },
                Some(Open::Object(entries, first)) => {
                    match entries.find(|(_, value)| !matches!(value, Value::Undefined)) {
                        Some((key, value)) => {
                            if !std::mem::replace(first, false) {
                                out.push(b',');
                            }
                            write_text(key, key.escapes() > 0, out);
                            out.push(b':');
                            next = Some(value);
                        }
                        None => {
                            out.push(b'}');
                            open.pop();
                        }
                    }
                }
            }
            after(out)?;
        }
    }
}

fn cut(mut text: Vec<u8>, max_bytes: usize) -> String {
    text.truncate(max_bytes);
    match String::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let end = error.utf8_error().valid_up_to();
            let mut text = error.into_bytes();
            text.truncate(end);
            String::from_utf8(text).unwrap_or_default()
        }
    }
}

/// An aggregate that is being written, and whether nothing of it has been.
enum Open<'a> {
    Array(std::slice::Iter<'a, Value>, bool),
    Object(Entries<'a>, bool),
}

fn write_scalar(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(n) => write_number(*n, out),
        Value::String(text) => write_text(text, text.escapes() > 0, out),
        _ => out.extend_from_slice(b"null"),
    }
}

fn write_number(n: Number, out: &mut Vec<u8>) {
    match n.kind() {
        NumberKind::Integer(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        NumberKind::Unsigned(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        NumberKind::Float(n) if n.is_finite() => {
            out.extend_from_slice(zmij::Buffer::new().format_finite(n).as_bytes());
        }
        NumberKind::Float(_) => out.extend_from_slice(b"null"),
    }
}

fn write_text(text: &str, escaped: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    if escaped {
        for byte in text.bytes() {
            let short = match byte {
                b'"' | b'\\' => byte,
                0x08 => b'b',
                0x09 => b't',
                0x0a => b'n',
                0x0c => b'f',
                0x0d => b'r',
                0..0x20 => {
                    let digit = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
                    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
                    continue;
                }
                plain => {
                    out.push(plain);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', short]);
        }
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Above what readers take, with room for what a writer puts around it.
        if self.measure().depth() > 2 * MAX_DEPTH {
            return Err(S::Error::custom(format!(
                "a value that nests deeper than {MAX_DEPTH} levels cannot be written"
            )));
        }
        match self {
            Self::Undefined | Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Number(n) => match n.kind() {
                NumberKind::Integer(n) => serializer.serialize_i64(n),
                NumberKind::Unsigned(n) => serializer.serialize_u64(n),
                NumberKind::Float(n) if n.is_finite() => serializer.serialize_f64(n),
                NumberKind::Float(_) => serializer.serialize_unit(),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Object(entries) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in entries.iter().filter(|(_, v)| !matches!(v, Self::Undefined)) {
                    map.serialize_entry(key.as_str(), value)?;
                }
                map.end()
            }
        }
    }
}
