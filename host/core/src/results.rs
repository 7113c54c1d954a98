//! Long results of tools: a conversation keeps each once and shows its model the beginning, the end, and a handle by
//! which the model reads the rest.

use opcell_types::{
    ToolDescription, Value,
    value::{NumberKind, Text},
};
use serde::{Deserialize, Serialize};

/// The name of the tool that reads a long result.
pub const READ_RESULT: &str = "read_result";

/// The end of a result gets the bytes that are shown divided by this: errors, exit codes and sums are there.
const TAIL_SHARE: usize = 4;

/// The most bytes that one conversation keeps of long results: the oldest are forgotten first.
const MAX_STORED_BYTES: usize = 16 << 20;

/// The most results that one conversation keeps.
const MAX_STORED: usize = 256;

/// The most bytes that are read at once, and those that are read where a call does not say.
const MAX_READ_BYTES: usize = 32 << 10;
const READ_BYTES: usize = 8 << 10;

/// Hexadecimal digits of a digest that a handle has.
const HANDLE_DIGITS: usize = 16;

/// The long results of a conversation, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct LongResults(Vec<LongResult>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LongResult {
    /// A digest of the text: the same result is kept once, and a run cannot be led to another one's.
    handle: Text,
    text: Text,
}

impl LongResults {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a text that is longer than `limit`, and returns the part that a model is shown.
    pub(crate) fn keep(&mut self, text: &str, limit: usize) -> String {
        let handle = handle(text);
        match self.0.iter().position(|kept| kept.handle.as_str() == handle) {
            // It is the newest one again.
            Some(at) => {
                let kept = self.0.remove(at);
                self.0.push(kept);
            }
            None => self.0.push(LongResult { handle: handle.as_str().into(), text: text.into() }),
        }
        self.forget();
        let tail_at = text.ceil_char_boundary(text.len() - limit / TAIL_SHARE);
        let head_end = text.floor_char_boundary(limit - limit / TAIL_SHARE);
        let (head, tail) = (text.split_at(head_end).0, text.split_at(tail_at).1);
        let (left_out, bytes) = (tail_at - head_end, text.len());
        format!(
            "{head}\n[{left_out} of {bytes} bytes are left out here. To read them, call `{READ_RESULT}` with handle \
             \"{handle}\" and offset {head_end}.]\n{tail}"
        )
    }

    fn forget(&mut self) {
        let mut bytes = 0_usize;
        let fits = |kept: &&LongResult| {
            bytes = bytes.saturating_add(kept.text.as_str().len());
            bytes <= MAX_STORED_BYTES
        };
        // The newest one stays whatever its length.
        let stay = self.0.iter().rev().take(MAX_STORED).take_while(fits).count().max(1);
        self.0.drain(..self.0.len().saturating_sub(stay));
    }

    /// Reads a part of a result as the arguments of a call say; `limit` is what the session is shown of one.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(crate) fn read(&self, arguments: &Value, limit: usize) -> Result<String, String> {
        let handle = match arguments.get("handle") {
            Some(Value::String(handle)) => handle.as_str().trim(),
            Some(other) if !other.is_nullish() => {
                return Err(format!("`handle` must be a string, got {}", other.to_json()));
            }
            _ => return Err("`handle` is missing: it is the one that the shortened result names".to_owned()),
        };
        let Some(kept) = self.0.iter().find(|kept| kept.handle.as_str() == handle) else {
            let shown = opcell_types::text::one_line(handle, 64);
            let known: Vec<&str> = self.0.iter().rev().take(8).map(|kept| kept.handle.as_str()).collect();
            return Err(format!(
                "this conversation has no result with the handle `{shown}`: it is of another run, is no longer kept, or \
                 was made up; the newest handles: {}",
                known.join(", ")
            ));
        };
        let text = kept.text.as_str();
        let (offset, line) = (number(arguments, "offset", 0)?, number(arguments, "line", 1)?);
        if offset.is_some() && line.is_some() {
            return Err("give `offset` or `line`, not both".to_owned());
        }
        let most = limit.clamp(1, MAX_READ_BYTES);
        let length = number(arguments, "length", 1)?.unwrap_or(READ_BYTES).min(most);
        let start = match line {
            Some(line) => line_start(text, line)?,
            None => offset.unwrap_or(0),
        };
        if start >= text.len() {
            return Err(format!("`offset` {start} is past the end: the result has {} bytes", text.len()));
        }
        let start = text.floor_char_boundary(start);
        let mut end = text.floor_char_boundary(start.saturating_add(length));
        if end <= start {
            end = text.ceil_char_boundary(start + 1);
        }
        let (before, part) = (text.get(..start).unwrap_or_default(), text.get(start..end).unwrap_or_default());
        let first = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let rest = match text.len() - end {
            0 => "the end".to_owned(),
            left => format!("{left} bytes follow from offset {end}"),
        };
        Ok(format!("[bytes {start} to {end} of {}, from line {first}; {rest}]\n{part}", text.len()))
    }
}

fn handle(text: &str) -> String {
    let digest = blake3::hash(text.as_bytes()).to_hex();
    format!("result-{}", digest.as_str().get(..HANDLE_DIGITS).unwrap_or_default())
}

/// A whole number from `least` on; models also write them as text or with a point.
fn number(arguments: &Value, key: &str, least: usize) -> Result<Option<usize>, String> {
    let wrong = |value: &Value| Err(format!("`{key}` must be a whole number from {least}, got {}", value.to_json()));
    let value = match arguments.get(key) {
        None => return Ok(None),
        Some(value) if value.is_nullish() => return Ok(None),
        Some(value) => value,
    };
    let found = match value {
        Value::Number(number) => match number.kind() {
            NumberKind::Integer(number) => usize::try_from(number).ok(),
            NumberKind::Unsigned(_) => Some(usize::MAX),
            NumberKind::Float(float) if float.fract() == 0.0 && (0.0..9e15).contains(&float) => Some(float as usize),
            NumberKind::Float(_) => None,
        },
        Value::String(text) => text.as_str().trim().parse().ok(),
        _ => None,
    };
    match found.filter(|found| *found >= least) {
        Some(found) => Ok(Some(found)),
        None => wrong(value),
    }
}

/// The offset at which a line begins.
fn line_start(text: &str, line: usize) -> Result<usize, String> {
    if line == 1 {
        return Ok(0);
    }
    let newline = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).nth(line - 2);
    newline.filter(|at| *at < text.len()).ok_or_else(|| {
        let lines = text.lines().count();
        format!("`line` {line} is past the end: the result has {lines} lines")
    })
}

/// The tool as a model sees it.
pub(crate) fn description() -> ToolDescription {
    let property = |kind: &str, least: Option<i64>, about: &str| {
        let least = least.map(|least| ("minimum", Value::from(least)));
        let own = [("type", Value::from(kind)), ("description", Value::from(about))];
        Value::object(own.into_iter().chain(least))
    };
    let properties = Value::object([
        ("handle", property("string", None, "The handle that the shortened result names.")),
        ("offset", property("integer", Some(0), "The byte to begin at; 0 by default.")),
        ("line", property("integer", Some(1), "The line to begin at, instead of an offset.")),
        ("length", property("integer", Some(1), "Bytes to read; at most 32768 at once.")),
    ]);
    let parameters = Value::object([
        ("type", Value::from("object")),
        ("properties", properties),
        ("required", Value::array([Value::from("handle")])),
        ("additionalProperties", Value::from(false)),
    ]);
    let about = "Reads a part of an earlier tool result of this conversation that was too long to be shown whole.";
    ToolDescription::new(READ_RESULT, about, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json(text).unwrap()
    }

    fn lines(count: usize) -> String {
        (1..=count).map(|line| format!("line {line}\n")).collect()
    }

    fn handle_in(shown: &str) -> String {
        shown.split("handle \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
    }

    #[test]
    fn a_long_result_shows_its_beginning_and_end_and_the_rest_can_be_read() {
        let (mut results, text) = (LongResults::default(), lines(10_000));
        let shown = results.keep(&text, 400);
        assert!(shown.starts_with("line 1\n") && shown.ends_with("line 10000\n"), "{shown}");
        assert!(shown.len() < 400 + 250, "{}", shown.len());
        let handle = handle_in(&shown);
        let offset: usize = shown.split("offset ").nth(1).unwrap().split('.').next().unwrap().parse().unwrap();
        let mut read = text.get(..offset).unwrap().to_owned();
        while read.len() < text.len() {
            let arguments = format!(r#"{{"handle":"{handle}","offset":{},"length":30000}}"#, read.len());
            let part = results.read(&json(&arguments), 64 << 10).unwrap();
            read.push_str(part.split_once("]\n").unwrap().1);
        }
        assert_eq!(read, text);
        let part = results.read(&json(&format!(r#"{{"handle":"{handle}","line":5000,"length":9}}"#)), 400).unwrap();
        assert!(part.ends_with("from line 5000; 50002 bytes follow from offset 48892]\nline 5000"), "{part}");
    }

    #[test]
    fn a_read_is_bounded_and_ends_at_characters() {
        let mut results = LongResults::default();
        let handle = handle_in(&results.keep(&"é".repeat(100_000), 1_000));
        for (limit, length, most) in [(1_000, 5_000_000, 1_000), (1 << 20, 5_000_000, MAX_READ_BYTES), (1_000, 1, 2)] {
            let arguments = json(&format!(r#"{{"handle":"{handle}","offset":3,"length":{length}}}"#));
            let part = results.read(&arguments, limit).unwrap();
            let read = part.split_once("]\n").unwrap().1;
            assert!(read.len() <= most && !read.is_empty() && read.chars().all(|c| c == 'é'), "{}", read.len());
        }
    }

    #[test]
    fn a_handle_that_is_none_gives_a_sentence() {
        let (mut results, mut other) = (LongResults::default(), LongResults::default());
        let own = handle_in(&results.keep(&lines(1_000), 400));
        let foreign = handle_in(&other.keep(&lines(1_001), 400));
        assert_ne!(own, foreign);
        for (arguments, why) in [
            (format!(r#"{{"handle":"{foreign}"}}"#), "this conversation has no result with the handle"),
            (r#"{"handle":"result-../../etc"}"#.to_owned(), "has no result"),
            (r#"{"handle":7}"#.to_owned(), "must be a string"),
            ("{}".to_owned(), "`handle` is missing"),
            (format!(r#"{{"handle":"{own}","offset":-1}}"#), "a whole number from 0, got -1"),
            (format!(r#"{{"handle":"{own}","offset":99999999}}"#), "past the end"),
            (format!(r#"{{"handle":"{own}","line":1002}}"#), "the result has 1000 lines"),
            (format!(r#"{{"handle":"{own}","line":0}}"#), "from 1, got 0"),
            (format!(r#"{{"handle":"{own}","line":1,"offset":1}}"#), "not both"),
        ] {
            let said = results.read(&json(&arguments), 400).unwrap_err();
            assert!(said.contains(why), "{arguments}: {said}");
        }
    }

    #[test]
    fn results_are_stored_once_and_in_bounds() {
        let mut results = LongResults::default();
        let first = handle_in(&results.keep(&lines(1_000), 400));
        assert_eq!(handle_in(&results.keep(&lines(1_000), 400)), first);
        assert_eq!(results.0.len(), 1);
        for number in 0..MAX_STORED {
            results.keep(&format!("{number}{}", lines(100)), 400);
        }
        assert_eq!(results.0.len(), MAX_STORED);
        assert!(results.read(&json(&format!(r#"{{"handle":"{first}"}}"#)), 400).is_err());
        results.keep(&"x".repeat(MAX_STORED_BYTES - 10), 400);
        assert_eq!(results.0.len(), 1);
    }
}
