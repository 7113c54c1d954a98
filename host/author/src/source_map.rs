//! Source maps: places in the sources, from places in the one file that a bundler made of them.

use serde_json::{Value, json};

/// The digits of numbers in a map, each of six bits.
const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A map that a bundler wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceMap {
    /// Relative to the plugin's folder.
    sources: Vec<String>,
    lines: Vec<Vec<Segment>>,
}

/// A place in a source, from 0, and where what came of it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    /// In the line of the file that was made.
    at: i64,
    source: i64,
    line: i64,
    column: i64,
}

impl SourceMap {
    /// Reads a map; `None` where it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let map: Value = serde_json::from_str(text).ok()?;
        let sources = map.get("sources")?.as_array()?.iter().map(|source| {
            let source = source.as_str().unwrap_or_default();
            // They are relative to the folder of scratch files.
            source.trim_start_matches("../").to_owned()
        });
        Some(Self { sources: sources.collect(), lines: lines(map.get("mappings")?.as_str()?)? })
    }

    /// The form that the SDK reads: each line by itself, so that it looks at no other. It becomes part of the
    /// component: of packages, only the lines are kept.
    pub(crate) fn to_json(&self) -> Value {
        let of_package = |segment: &Segment| {
            let source = usize::try_from(segment.source).ok().and_then(|source| self.sources.get(source));
            source.is_none_or(|source| source.starts_with("node_modules/"))
        };
        let line = |segments: &Vec<Segment>| {
            let mut first = true;
            let kept = segments.iter().filter(|segment| std::mem::take(&mut first) || !of_package(segment));
            let texts = kept.map(|one| format!("{}:{}:{}:{}", one.at, one.source, one.line + 1, one.column + 1));
            texts.collect::<Vec<_>>().join(",")
        };
        json!({"sources": self.sources, "lines": self.lines.iter().map(line).collect::<Vec<_>>()})
    }

    /// The place of a line and a column, both from 1, as `SOURCE:LINE:COLUMN`.
    fn place(&self, line: usize, column: usize) -> Option<String> {
        let wanted = i64::try_from(column).ok()?.checked_sub(1)?;
        let segments = self.lines.get(line.checked_sub(1)?)?;
        let found = segments.iter().take_while(|segment| segment.at <= wanted).last()?;
        let name = self.sources.get(usize::try_from(found.source).ok()?)?;
        Some(format!("{name}:{}:{}", found.line + 1, found.column + 1))
    }

    /// A text in which places in the file `name` are places in the sources.
    pub(crate) fn in_text(&self, text: &str, name: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let needle = format!("{name}:");
        while let Some(found) = rest.find(&needle) {
            let (before, after) = rest.split_at(found);
            let after = after.get(needle.len()..).unwrap_or_default();
            let (line, behind) = number(after);
            let (column, behind) = behind.strip_prefix(':').map_or((None, behind), number);
            // What is before it up to a blank or a bracket is the folder of the file.
            let start = before.rfind([' ', '(', '\n', '\t', '\'', '"']).map_or(0, |at| at + 1);
            match line.zip(column).and_then(|(line, column)| self.place(line, column)) {
                Some(place) => {
                    out.push_str(before.get(..start).unwrap_or_default());
                    out.push_str(&place);
                }
                None => {
                    out.push_str(before);
                    out.push_str(rest.get(found..rest.len() - behind.len()).unwrap_or_default());
                }
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }
}

/// The segments of each line. Their fields are relative to those before: the column in the line, the rest in the map.
fn lines(mappings: &str) -> Option<Vec<Vec<Segment>>> {
    let (mut source, mut line, mut column) = (0_i64, 0_i64, 0_i64);
    let mut lines = Vec::new();
    for text in mappings.split(';') {
        let (mut at, mut segments) = (0_i64, Vec::new());
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let fields = numbers(part)?;
            at = at.checked_add(*fields.first()?)?;
            let [_, of, lines, columns, ..] = fields.as_slice() else { continue };
            source = source.checked_add(*of)?;
            line = line.checked_add(*lines)?;
            column = column.checked_add(*columns)?;
            segments.push(Segment { at, source, line, column });
        }
        lines.push(segments);
    }
    Some(lines)
}

/// The number that a text begins with, and what follows it.
fn number(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (digits.parse().ok(), rest)
}

/// The numbers of a segment: digits of five bits and one that says whether more follow, the lowest bit being the sign.
fn numbers(segment: &str) -> Option<Vec<i64>> {
    let (mut fields, mut value, mut shift) = (Vec::new(), 0_i64, 0_u32);
    for letter in segment.chars() {
        let digit = i64::try_from(DIGITS.find(letter)?).ok()?;
        if shift > 50 {
            return None;
        }
        value |= (digit & 31) << shift;
        shift += 5;
        if digit < 32 {
            fields.push(if value & 1 == 1 { -(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        }
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lines: the first is of `src/a.js` 1:1, the second from column 3 on of `src/b.js` 10:5.
    const MAP: &str = r#"{"version":3,"sources":["../../src/a.js","../../src/b.js"],"mappings":"AAAA;ECSI"}"#;

    #[test]
    fn a_place_in_the_bundle_is_a_place_in_a_source() {
        let map = SourceMap::parse(MAP).unwrap();
        assert_eq!(map.place(1, 8).as_deref(), Some("src/a.js:1:1"));
        assert_eq!(map.place(2, 3).as_deref(), Some("src/b.js:10:5"));
        assert_eq!((map.place(2, 1), map.place(3, 1)), (None, None));
    }

    #[test]
    fn the_sdk_gets_each_line_by_itself() {
        let map = SourceMap::parse(MAP).unwrap();
        assert_eq!(map.to_json(), json!({"sources": ["src/a.js", "src/b.js"], "lines": ["0:0:1:1", "2:1:10:5"]}));
        // Two segments of one line: both of the author's own source, one of a package.
        let of = |source: &str| {
            let text = format!(r#"{{"sources":["../../{source}"],"mappings":"AAAA,CAAC"}}"#);
            SourceMap::parse(&text).unwrap().to_json()["lines"][0].clone()
        };
        assert_eq!((of("src/a.js"), of("node_modules/b/c.js")), (json!("0:0:1:1,1:0:1:2"), json!("0:0:1:1")));
    }

    #[test]
    fn places_in_a_message_are_replaced_and_others_stay() {
        let map = SourceMap::parse(MAP).unwrap();
        let text = "Error: no\n  at f (/target/opcell/bundle.js:2:9)\n  at g (/target/opcell/bundle.js:9:1)\n";
        assert_eq!(
            map.in_text(text, "bundle.js"),
            "Error: no\n  at f (src/b.js:10:5)\n  at g (/target/opcell/bundle.js:9:1)\n"
        );
    }

    #[test]
    fn what_is_no_map_gives_no_place() {
        assert_eq!(SourceMap::parse("{}"), None);
        assert_eq!(SourceMap::parse(r#"{"sources":[],"mappings":"!!!!;AAAA"}"#), None);
        let map = SourceMap::parse(r#"{"sources":[],"mappings":"AAAA"}"#).unwrap();
        assert_eq!((map.place(1, 1), map.place(2, 1)), (None, None));
    }
}
