//! A JSON document with a place for every key and value.

use opcell_ir::diagnostic::Diagnostic;
use opcell_ir::names::MAX_NAME_BYTES;
use opcell_ir::source::{SourceFile, Span};
use opcell_types::{
    text::one_line,
    value::{rounded_integer, rounded_message},
};
use std::collections::HashMap;

/// Values of one document, the keys of its objects not counted; a large pack has some thousands.
const MAX_VALUES: usize = 1_000_000;

/// A parsed document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The value of the document.
    pub json: serde_json::Value,
    /// Places in authored order, that of the whole document first.
    places: Vec<Place>,
    /// The index in `places` of each part of an object or array.
    ///
    /// By parent and not by pointer: a long key with many values below it would be repeated for each of them.
    parts: HashMap<(u32, Part), u32>,
}

/// The place of an entry.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: Option<Span>,
    value: Span,
}

/// The last part of a pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Key(Box<str>),
    Item(u32),
}

impl Document {
    /// Reads a document. Keys that occur twice are errors: JSON readers disagree on which one counts.
    ///
    /// # Errors
    /// `json-syntax` or `duplicate-key`, with the place. An integer that would be rounded is an error of syntax.
    pub fn read(source: &SourceFile) -> Result<Self, Vec<Diagnostic>> {
        let text = source.text();
        // Editors of Windows begin with a byte-order mark.
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        if opcell_schema::json::values_in(text.as_bytes()) > MAX_VALUES {
            let message = format!("the document has more than {MAX_VALUES} values");
            return Err(vec![Diagnostic::error("json-syntax", message).at(Span::new(0, 0))]);
        }
        let json = serde_json::from_str(text.get(start..).unwrap_or_default())
            .map_err(|error| vec![syntax_error(text, start, &error)])?;
        if let Some(place) = rounded_integer(text.as_bytes()) {
            let message = rounded_message(text.get(place.clone()).unwrap_or_default());
            let place = Span::new(place.start, place.end);
            return Err(vec![Diagnostic::error("json-syntax", message).at(place)]);
        }
        let mut scan = Scan { text, at: start, ..Scan::default() };
        scan.document();
        if let Some(too_long) = scan.too_long {
            return Err(vec![too_long]);
        }
        let duplicates = scan.duplicates.all();
        if duplicates.is_empty() { Ok(Self { json, places: scan.places, parts: scan.parts }) } else { Err(duplicates) }
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
        let mut at = 0;
        for part in pointer.split('/').skip(1) {
            let key = || Part::Key(part.replace("~1", "/").replace("~0", "~").into());
            let item = part.parse().ok().filter(|_| part == "0" || !part.starts_with(['0', '+'])).map(Part::Item);
            let below = item.and_then(|item| self.parts.get(&(at, item)));
            match below.or_else(|| self.parts.get(&(at, key()))) {
                Some(place) => at = *place,
                None => break,
            }
        }
        self.places.get(at as usize)
    }
}

/// A key as a part of a JSON pointer.
#[must_use]
pub fn pointer_part(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// An error of the text from `start` on, at its place in all of it.
fn syntax_error(text: &str, start: usize, error: &serde_json::Error) -> Diagnostic {
    let read = text.get(start..).unwrap_or_default();
    let line_start = read.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    // serde_json counts columns in bytes, from 1; at the end of the text it points behind it.
    let offset = (start + line_start + error.column().saturating_sub(1)).min(text.len());
    let start = text.floor_char_boundary(offset);
    let end = text.ceil_char_boundary((start + 1).min(text.len()));
    let message = error.to_string();
    let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    let message = match what {
        "recursion limit exceeded" => "it is nested deeper than 128 levels".to_owned(),
        what => format!("not JSON: {what}"),
    };
    Diagnostic::error("json-syntax", message).at(Span::new(start, end))
}

/// Keys that occur twice.
#[derive(Default)]
struct Duplicates {
    found: Vec<Diagnostic>,
    more: usize,
}

impl Duplicates {
    fn add(&mut self, raw: &str, at: Span, first: Span) {
        if self.found.len() >= MAX_DUPLICATES {
            self.more += 1;
            return;
        }
        let message = format!("key {} occurs twice in the same object", one_line(raw, KEY_BYTES));
        self.found.push(
            Diagnostic::error("duplicate-key", message).at(at).related(first, "first here").help("keep one of them"),
        );
    }

    fn all(mut self) -> Vec<Diagnostic> {
        if self.more > 0
            && let Some(last) = self.found.last_mut()
        {
            last.message = format!("{}, and so do {} after it", last.message, self.more);
        }
        self.found
    }
}

/// Keys that occur twice which are listed each by itself.
const MAX_DUPLICATES: usize = 100;

/// Bytes of a key that a message repeats.
const KEY_BYTES: usize = 200;

/// Walks a text that is known to be JSON; the stack is its own, so depth does not matter.
#[derive(Default)]
struct Scan<'t> {
    text: &'t str,
    at: usize,
    places: Vec<Place>,
    parts: HashMap<(u32, Part), u32>,
    duplicates: Duplicates,
    /// A key that is longer than names are.
    too_long: Option<Diagnostic>,
}

/// An object or array that has not ended, by where its place is.
enum Frame {
    Object { place: u32, seen: HashMap<String, Span> },
    Array { place: u32, next: u32 },
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
        self.value(None, None, &mut stack);
        loop {
            self.space();
            let closes = matches!(self.peek(), Some(b'}' | b']'));
            match stack.pop() {
                None => return,
                Some(Frame::Object { place, .. } | Frame::Array { place, .. }) if closes => {
                    self.at += 1;
                    if let Some(place) = self.places.get_mut(place as usize) {
                        place.value.end = self.at;
                    }
                }
                Some(Frame::Array { place, next }) => {
                    stack.push(Frame::Array { place, next: next.saturating_add(1) });
                    self.value(Some((place, Part::Item(next))), None, &mut stack);
                }
                Some(Frame::Object { place, mut seen }) => {
                    let span = self.string();
                    let raw = self.text.get(span.start..span.end).unwrap_or("\"\"");
                    let name: String = serde_json::from_str(raw).unwrap_or_default();
                    if raw.len() > MAX_NAME_BYTES {
                        let message = format!("a key has {} bytes; the limit is {MAX_NAME_BYTES}", raw.len());
                        self.too_long.get_or_insert_with(|| Diagnostic::error("json-syntax", message).at(span));
                    }
                    if let Some(first) = seen.get(&name) {
                        self.duplicates.add(raw, span, *first);
                    }
                    let part = Part::Key(name.as_str().into());
                    seen.insert(name, span);
                    stack.push(Frame::Object { place, seen });
                    self.space();
                    self.value(Some((place, part)), Some(span), &mut stack);
                }
            }
        }
    }

    /// Reads a value, or the beginning of one: the rest of it is on the stack then.
    fn value(&mut self, part: Option<(u32, Part)>, key: Option<Span>, stack: &mut Vec<Frame>) {
        let (start, place) = (self.at, u32::try_from(self.places.len()).unwrap_or(u32::MAX));
        if let Some(part) = part {
            self.parts.insert(part, place);
        }
        let value = match self.peek() {
            Some(b'{') => {
                self.at += 1;
                stack.push(Frame::Object { place, seen: HashMap::new() });
                Span::new(start, self.at)
            }
            Some(b'[') => {
                self.at += 1;
                stack.push(Frame::Array { place, next: 0 });
                Span::new(start, self.at)
            }
            _ => self.scalar(),
        };
        self.places.push(Place { key, value });
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
    fn places_take_no_more_memory_for_a_long_key_with_much_below_it() {
        let long = "k".repeat(super::MAX_NAME_BYTES - 2);
        let text = format!(r#"{{"{long}":[{}0],"a/b~c":{{"0":1}}}}"#, "0,".repeat(50_000));
        let source = SourceFile::new("pack.json", text.clone());
        let mut document = None;
        let used = allocation_counter::measure(|| document = Document::read(&source).ok());
        assert!(used.bytes_max < 40 << 20, "{used:?}");
        let document = document.unwrap();
        let at = |pointer: &str| document.value_span(pointer).map(|span| &text[span.start..span.end]).unwrap();
        assert_eq!(at("/a~1b~0c/0"), "1");
        assert!(at("/a~1b~0c/00").starts_with('{'), "a key is found as it is written");
        assert_eq!(at(&format!("/{long}/50000")), "0");
    }

    #[test]
    fn a_key_that_is_longer_than_names_are_is_refused_at_its_place() {
        let found = read(&format!(r#"{{"a": {{"{}": 1}}}}"#, "k".repeat(2_000))).unwrap_err();
        assert_eq!(found[0].message, "a key has 2002 bytes; the limit is 1024");
        assert_eq!(found[0].span.unwrap().start, 7);
    }

    #[test]
    fn a_document_of_very_many_values_is_refused_before_they_are_read() {
        let found = read(&format!("[{}0]", "0,".repeat(super::MAX_VALUES))).unwrap_err();
        assert_eq!(found[0].message, "the document has more than 1000000 values");
    }

    #[test]
    fn of_very_many_keys_that_occur_twice_the_first_are_listed_and_the_rest_counted() {
        let found = read(&format!("{{{}\"a\":1}}", "\"a\":1,".repeat(1_000))).unwrap_err();
        assert_eq!(found.len(), super::MAX_DUPLICATES);
        assert!(found[99].message.ends_with(", and so do 900 after it"), "{}", found[99].message);
    }

    #[test]
    fn a_key_that_occurs_twice_is_an_error_that_shows_both() {
        let found = read("{\"a\": 1,\n \"\\u0061\": 2}").unwrap_err();
        assert_eq!(found[0].message, r#"key "\u0061" occurs twice in the same object"#);
        assert_eq!(found[0].related[0].0.start, 1);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_document_and_moves_no_place() {
        let text = "\u{feff}{\"a\": 1}";
        let document = read(text).unwrap();
        let span = document.value_span("/a").unwrap();
        assert_eq!(&text[span.start..span.end], "1");
        let text = "\u{feff}{\n\"a\": oops}";
        let span = read(text).unwrap_err()[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "o");
    }

    #[test]
    fn a_syntax_error_points_at_its_character() {
        let text = "{\"a\": 1,\n  oops}";
        let found = read(text).unwrap_err();
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "o");
        assert_eq!(found[0].message, "not JSON: key must be a string");
        let found = read(&"[".repeat(200)).unwrap_err();
        assert_eq!(found[0].message, "it is nested deeper than 128 levels");
    }

    #[test]
    fn an_integer_that_would_be_rounded_is_an_error_at_its_place() {
        let text = "{\"a\": [1, 123456789012345678901]}";
        let found = read(text).unwrap_err();
        let span = found[0].span.unwrap();
        assert_eq!(&text[span.start..span.end], "123456789012345678901");
        assert!(found[0].message.contains("as a string"), "{}", found[0].message);
        assert!(read("[18446744073709551615, 100000000000000000000, \"123456789012345678901\"]").is_ok());
    }

    #[test]
    fn a_text_that_ends_too_early_is_an_error_at_its_end() {
        assert_eq!(read("{\"a\": ").unwrap_err()[0].code, "json-syntax");
        assert_eq!(read("").unwrap_err()[0].code, "json-syntax");
    }
}
