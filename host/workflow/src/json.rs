//! A JSON document with a place for every key and value.

use opcell_ir::diagnostic::Diagnostic;
use opcell_ir::source::{SourceFile, Span};
use opcell_types::value::{rounded_integer, rounded_message};
use std::collections::HashMap;

/// A parsed document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The value of the document.
    pub json: serde_json::Value,
    places: HashMap<String, Place>,
}

/// The place of an entry.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: Option<Span>,
    value: Span,
}

impl Document {
    /// Reads a document. Keys that occur twice are errors: JSON readers disagree on which one counts.
    ///
    /// # Errors
    /// `json-syntax` or `duplicate-key`, with the place. An integer that would be rounded is an error of syntax.
    pub fn read(source: &SourceFile) -> Result<Self, Vec<Diagnostic>> {
        let text = source.text();
        let json = serde_json::from_str(text).map_err(|error| vec![syntax_error(text, &error)])?;
        if let Some(place) = rounded_integer(text.as_bytes()) {
            let message = rounded_message(text.get(place.clone()).unwrap_or_default());
            let place = Span::new(place.start, place.end);
            return Err(vec![Diagnostic::error("json-syntax", message).at(place)]);
        }
        let mut scan = Scan { text, at: 0, places: HashMap::new(), duplicates: Vec::new() };
        scan.document();
        if scan.duplicates.is_empty() { Ok(Self { json, places: scan.places }) } else { Err(scan.duplicates) }
    }

    /// The place of the value at a JSON pointer, or of the nearest one around it.
    #[must_use]
    pub fn value_span(&self, pointer: &str) -> Option<Span> {
        self.nearest(pointer).map(|place| place.value)
    }

    /// The place of the key at a JSON pointer; of the value where there is no key.
    #[must_use]
    pub fn key_span(&self, pointer: &str) -> Option<Span> {
        self.nearest(pointer).map(|place| place.key.unwrap_or(place.value))
    }

    fn nearest(&self, pointer: &str) -> Option<&Place> {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return Some(place);
            }
            pointer = pointer.rsplit_once('/')?.0;
        }
    }
}

/// A key as a part of a JSON pointer.
#[must_use]
pub fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn syntax_error(text: &str, error: &serde_json::Error) -> Diagnostic {
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    // serde_json counts columns in bytes, from 1; at the end of the text it points behind it.
    let offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    let start = text.floor_char_boundary(offset);
    let end = text.ceil_char_boundary((start + 1).min(text.len()));
    let message = error.to_string();
    let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    Diagnostic::error("json-syntax", format!("not JSON: {what}")).at(Span::new(start, end))
}

/// Walks a text that is known to be JSON; the stack is its own, so depth does not matter.
struct Scan<'t> {
    text: &'t str,
    at: usize,
    places: HashMap<String, Place>,
    duplicates: Vec<Diagnostic>,
}

enum Frame {
    Object { pointer: String, start: usize, key: Option<Span>, seen: HashMap<String, Span> },
    Array { pointer: String, start: usize, key: Option<Span>, next: usize },
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b':')) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Span {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        Span::new(start, self.at)
    }

    fn scalar(&mut self) -> Span {
        if self.peek() == Some(b'"') {
            return self.string();
        }
        let start = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b']' | b'}')) {
            self.at += 1;
        }
        Span::new(start, self.at)
    }

    fn document(&mut self) {
        let mut stack = Vec::new();
        self.space();
        self.value(String::new(), None, &mut stack);
        loop {
            self.space();
            let closes = matches!(self.peek(), Some(b'}' | b']'));
            match stack.pop() {
                None => return,
                Some(Frame::Object { pointer, start, key, .. } | Frame::Array { pointer, start, key, .. })
                    if closes =>
                {
                    self.at += 1;
                    self.places.insert(pointer, Place { key, value: Span::new(start, self.at) });
                }
                Some(Frame::Array { pointer, start, key, next }) => {
                    let item = format!("{pointer}/{next}");
                    stack.push(Frame::Array { pointer, start, key, next: next + 1 });
                    self.value(item, None, &mut stack);
                }
                Some(Frame::Object { pointer, start, key, mut seen }) => {
                    let span = self.string();
                    let raw = self.text.get(span.start..span.end).unwrap_or("\"\"");
                    let name: String = serde_json::from_str(raw).unwrap_or_default();
                    if let Some(first) = seen.get(&name) {
                        self.duplicates.push(
                            Diagnostic::error("duplicate-key", format!("key {raw} occurs twice in the same object"))
                                .at(span)
                                .related(*first, "first here")
                                .help("keep one of them"),
                        );
                    }
                    let entry = format!("{pointer}/{}", pointer_part(&name));
                    seen.insert(name, span);
                    stack.push(Frame::Object { pointer, start, key, seen });
                    self.space();
                    self.value(entry, Some(span), &mut stack);
                }
            }
        }
    }

    fn value(&mut self, pointer: String, key: Option<Span>, stack: &mut Vec<Frame>) {
        let start = self.at;
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                stack.push(Frame::Object { pointer, start, key, seen: HashMap::new() });
            }
            Some(b'[') => {
                self.at += 1;
                stack.push(Frame::Array { pointer, start, key, next: 0 });
            }
            _ => {
                let value = self.scalar();
                self.places.insert(pointer, Place { key, value });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Document;
    use opcell_ir::source::SourceFile;

    fn read(text: &str) -> Result<Document, Vec<opcell_ir::Diagnostic>> {
        Document::read(&SourceFile::new("pack.json", text))
    }

    #[test]
    fn every_value_has_its_place() {
        let text = r#"{"a": [1, {"b/c": "x\"y"}], "d": {}}"#;
        let document = read(text).unwrap();
        let at = |pointer: &str| document.value_span(pointer).map(|span| &text[span.start..span.end]).unwrap();
        assert_eq!(at(""), text);
        assert_eq!(at("/a/0"), "1");
        assert_eq!(at("/a/1/b~1c"), r#""x\"y""#);
        assert_eq!(at("/d"), "{}");
        assert_eq!(at("/d/nothing"), "{}");
        let key = document.key_span("/a/1/b~1c").unwrap();
        assert_eq!(&text[key.start..key.end], r#""b/c""#);
    }

    #[test]
    fn a_key_that_occurs_twice_is_an_error_that_shows_both() {
        let found = read("{\"a\": 1,\n \"\\u0061\": 2}").unwrap_err();
        assert_eq!(found[0].message, r#"key "\u0061" occurs twice in the same object"#);
        assert_eq!(found[0].related[0].0.start, 1);
    }

    #[test]
    fn a_syntax_error_points_at_its_character() {
        let text = "{\"a\": 1,\n  oops}";
        let found = read(text).unwrap_err();
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "o");
        assert_eq!(found[0].message, "not JSON: key must be a string");
    }

    #[test]
    fn an_integer_that_would_be_rounded_is_an_error_at_its_place() {
        let text = "{\"a\": [1, 123456789012345678901]}";
        let found = read(text).unwrap_err();
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "123456789012345678901");
        assert!(found[0].message.contains("as a text"), "{}", found[0].message);
        assert!(read("[18446744073709551615, 100000000000000000000, \"123456789012345678901\"]").is_ok());
    }

    #[test]
    fn a_text_that_ends_too_early_is_an_error_at_its_end() {
        assert_eq!(read("{\"a\": ").unwrap_err()[0].code, "json-syntax");
        assert_eq!(read("").unwrap_err()[0].code, "json-syntax");
    }
}
