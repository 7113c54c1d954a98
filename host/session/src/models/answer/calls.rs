//! Calls of an answer, put together from the pieces that a provider sends.
//!
//! Pieces belong together by the call's id, then by its index. Both are missing, repeated or wrong in what servers
//! send, so that a piece begins a call of its own only where a person would read one: never more calls than there are.

use super::{Call, Fault, MAX_CALLS};
use opcell_types::Value;
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::collections::HashSet;

/// Texts within texts that arguments are looked for in.
const MAX_ENCODINGS: usize = 4;

/// Arguments as a piece gives them.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Given {
    Nothing,
    /// JSON, or the next part of it.
    Text(String),
    /// The arguments themselves, where a server sends an object instead of a text.
    Value(Json),
}

impl Given {
    /// Arguments as a field holds them.
    pub(in super::super) fn of(value: Option<&Json>) -> Self {
        match value {
            None | Some(Json::Null) => Self::Nothing,
            Some(Json::String(text)) => Self::Text(text.clone()),
            Some(other) => Self::Value(other.clone()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Text(text) => text.trim().is_empty(),
            Self::Value(_) => false,
        }
    }

    /// Returns `true` if it begins an object, rather than continuing one.
    fn begins_object(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Text(text) => text.trim_start().starts_with('{'),
            Self::Value(_) => true,
        }
    }
}

/// A piece of a call.
#[derive(Debug)]
pub(in super::super) struct Piece {
    pub id: String,
    pub index: Option<i64>,
    pub name: String,
    pub arguments: Given,
    /// The number of its event: entries of one list are calls of their own.
    pub event: u64,
    /// True if it is the whole call.
    pub whole: bool,
    /// Further fields that the provider wants back.
    pub extra: Map<String, Json>,
}

#[derive(Debug, Default)]
struct Draft {
    id: String,
    index: Option<i64>,
    name: String,
    text: String,
    value: Option<Json>,
    balance: Balance,
    event: u64,
    extra: Map<String, Json>,
}

impl Draft {
    fn is_blank(&self) -> bool {
        self.value.is_none() && self.text.trim().is_empty()
    }

    fn is_complete(&self) -> bool {
        self.value.is_some() || self.balance.is_closed()
    }

    fn is_repeated_by(&self, given: &Given) -> bool {
        match given {
            Given::Nothing => true,
            Given::Text(text) => text.is_empty() || *text == self.text,
            Given::Value(value) => self.value.as_ref() == Some(value),
        }
    }

    /// Returns `true` if a piece has the arguments once more, and not merely none.
    fn is_said_again_by(&self, given: &Given) -> bool {
        !given.is_empty() && self.is_repeated_by(given)
    }

    /// Returns `true` if a named piece of the same id is another call: some servers use one id for all calls.
    fn is_apart_from(&self, piece: &Piece) -> bool {
        let is_elsewhere = matches!((piece.index, self.index), (Some(its), Some(own)) if its != own);
        if is_elsewhere && !self.name.is_empty() && self.name != piece.name {
            return true;
        }
        let has_arguments = self.is_complete() && self.text.trim() != "{}";
        let begins = piece.arguments.begins_object() && !self.is_repeated_by(&piece.arguments);
        has_arguments && (begins || is_elsewhere && !self.is_said_again_by(&piece.arguments))
    }
}

/// The brackets that a text has open.
#[derive(Debug, Default, Clone, Copy)]
struct Balance {
    depth: u64,
    has_begun: bool,
    in_text: bool,
    is_escaped: bool,
}

impl Balance {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            match (self.in_text, byte) {
                (true, _) if self.is_escaped => self.is_escaped = false,
                (true, b'\\') => self.is_escaped = true,
                (_, b'"') => self.in_text = !self.in_text,
                (false, b'{' | b'[') => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_closed(self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_text
    }
}

/// The calls so far.
#[derive(Debug, Default)]
pub(in super::super) struct CallDrafts {
    drafts: Vec<Draft>,
    /// Names that the session's tools have on the wire.
    known: HashSet<String>,
}

impl CallDrafts {
    pub(in super::super) fn new(known: HashSet<String>) -> Self {
        Self { drafts: Vec::new(), known }
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Takes a piece; returns the place of its call, unless it says nothing.
    pub(in super::super) fn push(&mut self, piece: Piece) -> Result<Option<usize>, Fault> {
        let at = match self.place(&piece) {
            Some(at) => at,
            None if piece.id.is_empty() && piece.name.is_empty() && piece.arguments.is_empty() => return Ok(None),
            None if self.drafts.len() >= MAX_CALLS => {
                return Err(Fault::malformed(format!("it asks for more than {MAX_CALLS} calls at once")));
            }
            None => {
                self.drafts.push(Draft { event: piece.event, ..Draft::default() });
                self.drafts.len() - 1
            }
        };
        self.extend(at, piece);
        Ok(Some(at))
    }

    /// The tool and the arguments of a call so far; `None` while the tool is not certain.
    pub(in super::super) fn so_far(&self, at: usize) -> Option<(&str, Cow<'_, str>)> {
        let draft = self.drafts.get(at)?;
        let arguments = match &draft.value {
            Some(value) if draft.text.trim().is_empty() => Cow::Owned(value.to_string()),
            _ => Cow::Borrowed(draft.text.as_str()),
        };
        (self.known.contains(&draft.name) || !draft.is_blank()).then_some((draft.name.as_str(), arguments))
    }

    /// The call that a piece continues.
    fn place(&self, piece: &Piece) -> Option<usize> {
        if piece.whole {
            return None;
        }
        let is_named = !piece.name.is_empty();
        let of_id = |draft: &Draft| !piece.id.is_empty() && draft.id == piece.id;
        let at_index = |draft: &Draft| piece.index.is_some() && draft.index == piece.index;
        let by_id = self.drafts.iter().rposition(|draft| of_id(draft) && at_index(draft));
        if let Some(at) = by_id.or_else(|| self.drafts.iter().rposition(of_id)) {
            let draft = self.drafts.get(at)?;
            return (!(is_named && draft.is_apart_from(piece))).then_some(at);
        }
        let by_index = piece.index.and_then(|index| self.drafts.iter().rposition(|draft| draft.index == Some(index)));
        let last = self.drafts.len().checked_sub(1);
        let at = match piece.index {
            Some(_) if is_named => by_index,
            Some(_) => by_index.or(last),
            None => last,
        }?;
        let draft = self.drafts.get(at)?;
        self.continues(draft, piece).then_some(at)
    }

    /// Returns `true` if a piece whose id was not seen belongs to the call that its index, or its place, names.
    fn continues(&self, draft: &Draft, piece: &Piece) -> bool {
        if piece.name.is_empty() {
            return true;
        }
        if draft.name.is_empty() && !draft.is_complete() {
            return true;
        }
        if draft.event == piece.event {
            return false;
        }
        let has_other_id = !piece.id.is_empty() && !draft.id.is_empty();
        // A name that comes last.
        if draft.name.is_empty() && !has_other_id && piece.arguments.is_empty() {
            return true;
        }
        let is_open = !draft.is_blank() && !draft.is_complete();
        let is_at_index = piece.index.is_some() && piece.index == draft.index;
        // Nothing begins within an open value: whatever id the piece has, it is the rest of the value, unless it names
        // another tool. A call that was cut before another one is then no JSON, which the model is told of and can
        // mend; a call that is made of another's arguments cannot be taken back.
        let is_other =
            draft.name != piece.name && [&draft.name, &piece.name].iter().all(|name| self.known.contains(*name));
        if is_open && !is_other && (draft.balance.in_text || is_at_index && draft.balance.depth > 0) {
            return true;
        }
        // Servers without lasting ids repeat a call under a new one.
        if is_at_index && draft.is_complete() && draft.name == piece.name && draft.is_said_again_by(&piece.arguments) {
            return true;
        }
        if has_other_id || (!piece.id.is_empty() && draft.is_complete()) {
            return is_open && !piece.arguments.begins_object();
        }
        if draft.name != piece.name {
            // A name in parts, or another call.
            return draft.is_blank() && !self.known.contains(&draft.name)
                || is_open && !piece.arguments.begins_object();
        }
        match piece.index {
            _ if draft.is_blank() || piece.arguments.is_empty() => true,
            _ if is_open => !piece.arguments.begins_object() || draft.text.trim_end().ends_with([':', '[', ',']),
            Some(_) => draft.is_repeated_by(&piece.arguments) || draft.text.trim() == "{}",
            None => false,
        }
    }

    fn extend(&mut self, at: usize, piece: Piece) {
        let Some(draft) = self.drafts.get_mut(at) else { return };
        if draft.id.is_empty() {
            draft.id = piece.id;
        }
        draft.index = draft.index.or(piece.index);
        draft.extra.extend(piece.extra);
        let is_part = draft.is_blank() && !self.known.contains(&draft.name) && draft.name != piece.name;
        if draft.name.is_empty()
            || (is_part && (self.known.contains(&piece.name) || piece.name.starts_with(&draft.name)))
        {
            draft.name = piece.name;
        } else if is_part {
            draft.name.push_str(&piece.name);
        }
        let is_repeated = draft.is_complete() && draft.is_repeated_by(&piece.arguments);
        match piece.arguments {
            Given::Nothing => {}
            _ if is_repeated => {}
            Given::Text(text) => {
                // Some begin with an empty object and then send the real one.
                if draft.text.trim() == "{}" && text.trim_start().starts_with('{') {
                    draft.text.clear();
                    draft.balance = Balance::default();
                }
                draft.balance.add(&text);
                draft.text.push_str(&text);
            }
            Given::Value(value) => match (&mut draft.value, value) {
                (Some(Json::Object(entries)), Json::Object(more)) => entries.extend(more),
                (there, value) => *there = Some(value),
            },
        }
    }

    /// The calls, and the further fields of each. The same call said twice is one.
    pub(in super::super) fn finish(self) -> (Vec<Call>, Vec<Map<String, Json>>) {
        let mut calls: Vec<Call> = Vec::new();
        let mut extras = Vec::new();
        for draft in self.drafts {
            let is_again = |call: &Call| !call.id.is_empty() && call.id == draft.id && call.name == draft.name;
            if draft.is_blank() && calls.iter().any(is_again) {
                continue;
            }
            let arguments = match draft.value {
                Some(value) if draft.text.trim().is_empty() => arguments(value),
                _ => arguments_of_text(&draft.text),
            };
            let call = Call { id: draft.id, name: draft.name, arguments };
            if call.id.is_empty() || !calls.contains(&call) {
                calls.push(call);
                extras.push(draft.extra);
            }
        }
        (calls, extras)
    }
}

/// Arguments that a provider gives as JSON. What is absent, null or empty is an object without entries.
pub(in super::super) fn arguments(value: Json) -> Value {
    match value {
        Json::Null => empty(),
        Json::String(text) => arguments_of_text(&text),
        Json::Array(items) if items.is_empty() => empty(),
        other => Value::from(other),
    }
}

/// Arguments that a provider gives as a text: JSON, JSON in a text once or twice more, or not JSON at all, which stays a
/// text for the model to be told of.
pub(in super::super) fn arguments_of_text(text: &str) -> Value {
    let read = |text: &str| match text.trim().trim_start_matches('\u{feff}') {
        "" => Some(Json::Null),
        text => super::json::parse_strictly(text.as_bytes()),
    };
    let mut said = text.to_owned();
    for depth in 0..MAX_ENCODINGS {
        match read(&said) {
            Some(Json::String(inner)) => said = inner,
            Some(value @ (Json::Object(_) | Json::Null)) => return arguments(value),
            Some(value) if depth == 0 => return arguments(value),
            _ => break,
        }
    }
    Value::from(said)
}

fn empty() -> Value {
    Value::from(Json::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    /// One event a line, each an array of `[id, index, name, arguments]`.
    fn calls(events: Json) -> Vec<(String, String, Json)> {
        let mut drafts = CallDrafts::new(["t", "u"].into_iter().map(str::to_owned).collect());
        for (event, pieces) in events.as_array().unwrap().iter().enumerate() {
            for piece in pieces.as_array().unwrap() {
                let piece = Piece {
                    id: piece[0].as_str().unwrap_or_default().to_owned(),
                    index: piece[1].as_i64(),
                    name: piece[2].as_str().unwrap_or_default().to_owned(),
                    arguments: Given::of(piece.get(3)),
                    event: event as u64,
                    whole: false,
                    extra: Map::new(),
                };
                drafts.push(piece).unwrap();
            }
        }
        let (calls, _) = drafts.finish();
        calls.into_iter().map(|call| (call.id, call.name, Json::from(&call.arguments))).collect()
    }

    #[test]
    fn there_are_exactly_the_calls_that_a_person_reads() {
        let one = json!({"a": 1});
        let two = json!({"a": 2});
        let none = json!({});
        let (cut, words) = (json!("{\"a\":"), json!("anything"));
        let nested = json!({"o": {"k": 1}});
        let code = json!({"a": "f() { 1 }"});
        for (what, events, expected) in [
            (
                "an index from 1",
                json!([[["a", 1, "t", ""]], [[null, 1, null, "{\"a\""]], [[null, 1, null, ":1}"]]]),
                vec![("a", "t", &one)],
            ),
            ("no index", json!([[["a", null, "t", "{\"a\":1}"]]]), vec![("a", "t", &one)]),
            (
                "no index, parts",
                json!([[["a", null, "t", "{\"a\""]], [[null, null, null, ":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "index 0 for all",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["b", 0, "t", "{\"a\":2}"]]]),
                vec![("a", "t", &one), ("b", "t", &two)],
            ),
            (
                "index 0 for all, in parts",
                json!([
                    [["a", 0, "t", ""]],
                    [[null, 0, null, "{\"a\":1}"]],
                    [["b", 0, "t", ""]],
                    [[null, 0, null, "{\"a\":2}"]]
                ]),
                vec![("a", "t", &one), ("b", "t", &two)],
            ),
            (
                "index 0 for all, no ids",
                json!([[["", 0, "t", "{\"a\":1}"]], [["", 0, "t", "{\"a\":2}"]]]),
                vec![("", "t", &one), ("", "t", &two)],
            ),
            (
                "index 0 for all in one list",
                json!([[["", 0, "t", "{}"], ["", 0, "t", "{}"]]]),
                vec![("", "t", &none), ("", "t", &none)],
            ),
            (
                "the id in every piece",
                json!([[["a", 0, "t", "{\"a\""]], [["a", 0, "t", ":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "another id in every piece",
                json!([[["a", 0, "t", "{\"a\""]], [["b", 0, null, ":1}"]], [["c", 0, "t", ""]]]),
                vec![("a", "t", &one), ("c", "t", &none)],
            ),
            (
                "another id and the name in every piece",
                json!([[["a", 0, "t", "{\"a\""]], [["b", 0, "t", ":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "one id for two calls",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["a", 1, "t", "{\"a\":2}"]]]),
                vec![("a", "t", &one), ("a", "t", &two)],
            ),
            (
                "one id for two tools",
                json!([
                    [["a", 0, "t", ""]],
                    [[null, 0, null, "{\"a\":1}"]],
                    [["a", 1, "u", ""]],
                    [[null, 1, null, "{\"a\":2}"]]
                ]),
                vec![("a", "t", &one), ("a", "u", &two)],
            ),
            (
                "one id for two tools, interleaved",
                json!([
                    [["a", 0, "t", ""], ["a", 1, "u", ""]],
                    [["a", 0, null, "{\"a\":1}"]],
                    [["a", 1, null, "{\"a\":2}"]]
                ]),
                vec![("a", "t", &one), ("a", "u", &two)],
            ),
            (
                "one id for two calls, in parts",
                json!([
                    [["a", 0, "t", ""]],
                    [[null, 0, null, "{\"a\":1}"]],
                    [["a", 1, "t", ""]],
                    [[null, 1, null, "{\"a\":2}"]]
                ]),
                vec![("a", "t", &one), ("a", "t", &two)],
            ),
            (
                "one call said again at another index without its arguments",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["a", 1, "t", ""]]]),
                vec![("a", "t", &one)],
            ),
            (
                "another id in every piece, the next of which begins with a bracket",
                json!([[["a", 0, "t", "{\"o\":"]], [["b", 0, "t", "{\"k\":1}"]], [["c", 0, "t", "}"]]]),
                vec![("a", "t", &nested)],
            ),
            (
                "a bracket at the start of a piece within a text",
                json!([[["a", null, "t", "{\"a\":\"f() "]], [["b", null, "t", "{ 1 }"]], [["c", null, "t", "\"}"]]]),
                vec![("a", "t", &code)],
            ),
            (
                "a call that is cut before one of another tool",
                json!([[["a", 0, "t", "{\"a\":"]], [["b", 0, "u", "{\"a\":2}"]]]),
                vec![("a", "t", &cut), ("b", "u", &two)],
            ),
            (
                "a call whose arguments are no JSON before another",
                json!([[["a", 0, "t", "anything"]], [["b", 0, "t", "{\"a\":2}"]]]),
                vec![("a", "t", &words), ("b", "t", &two)],
            ),
            (
                "one call said twice under two ids",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["b", 0, "t", "{\"a\":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "the same call twice at two indices",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["b", 1, "t", "{\"a\":1}"]]]),
                vec![("a", "t", &one), ("b", "t", &one)],
            ),
            (
                "a name that comes last",
                json!([[["a", 0, null, ""]], [[null, 0, null, "{\"a\":1}"]], [[null, 0, "t", ""]]]),
                vec![("a", "t", &one)],
            ),
            (
                "one call said twice",
                json!([[["a", 0, "t", "{\"a\":1}"]], [["a", 0, "t", "{\"a\":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "one call said twice in one list",
                json!([[["a", 0, "t", "{\"a\":1}"], ["a", 1, "t", "{\"a\":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "no ids, no indices",
                json!([[["", null, "t", "{}"]], [["", null, "t", "{}"]]]),
                vec![("", "t", &none), ("", "t", &none)],
            ),
            (
                "interleaved by index",
                json!([
                    [["a", 0, "t", ""], ["b", 1, "u", ""]],
                    [[null, 1, null, "{\"a\":2}"]],
                    [[null, 0, null, "{\"a\":1}"]]
                ]),
                vec![("a", "t", &one), ("b", "u", &two)],
            ),
            (
                "an empty object first",
                json!([[["a", 0, "t", "{}"]], [[null, 0, null, "{\"a\""]], [[null, 0, null, ":1}"]]]),
                vec![("a", "t", &one)],
            ),
            (
                "a name in parts",
                json!([[["a", 0, "us", ""]], [[null, 0, "er", ""]], [[null, 0, null, "{\"a\":1}"]]]),
                vec![("a", "user", &one)],
            ),
            (
                "an id that comes late",
                json!([[[null, 0, "t", ""]], [["a", 0, null, "{\"a\":1}"]]]),
                vec![("a", "t", &one)],
            ),
            ("objects for arguments", json!([[["a", 0, "t", {"a": 1}]]]), vec![("a", "t", &one)]),
            (
                "an empty last piece",
                json!([[["a", 0, "t", "{\"a\":1}"]], [[null, 0, null, ""]], [["", 0, "", null]]]),
                vec![("a", "t", &one)],
            ),
            (
                "two tools by index",
                json!([[["", 0, "t", ""]], [["", 1, "u", ""]]]),
                vec![("", "t", &none), ("", "u", &none)],
            ),
            ("nothing at all", json!([[["", 0, "", ""]]]), vec![]),
        ] {
            let found = calls(events);
            let found: Vec<_> =
                found.iter().map(|(id, name, arguments)| (id.as_str(), name.as_str(), arguments)).collect();
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn arguments_that_are_absent_null_or_empty_are_an_object_and_others_stay_what_they_are() {
        let empty = json!({});
        for text in ["", " ", "null", "{}", "[]", "\"\"", "\"null\"", "\"{}\""] {
            assert_eq!(Json::from(&arguments_of_text(text)), empty, "{text:?}");
        }
        assert_eq!(
            Json::from(&arguments_of_text("\"{\\\"a\\\": 9007199254740993}\"")),
            json!({"a": 9_007_199_254_740_993_u64})
        );
        let thrice = Json::from("{\"a\": 1}").to_string();
        let thrice = Json::from(Json::from(thrice).to_string());
        assert_eq!(Json::from(&arguments(thrice)), json!({"a": 1}));
        assert_eq!(Json::from(&arguments_of_text("\u{feff}{\"a\": 1}")), json!({"a": 1}));
        assert_eq!(Json::from(&arguments_of_text("{\"a\": 18446744073709551615}")), json!({"a": u64::MAX}));
        for text in ["{\"a\": 1", "```json\n{}\n```", "{}{}", "{'a': 1}", "NaN"] {
            assert_eq!(arguments_of_text(text), Value::from(text), "{text:?}");
        }
        assert_eq!(Json::from(&arguments_of_text("[1]")), json!([1]));
    }

    #[test]
    fn an_answer_of_very_many_calls_is_malformed() {
        let mut drafts = CallDrafts::default();
        let piece = |at: usize| Piece {
            id: format!("c{at}"),
            index: None,
            name: "t".to_owned(),
            arguments: Given::Nothing,
            event: at as u64,
            whole: true,
            extra: Map::new(),
        };
        let failed = (0..2000).find_map(|at| drafts.push(piece(at)).err()).unwrap();
        assert_eq!(failed.reason, "malformed-reply");
        assert_eq!(drafts.finish().0.len(), MAX_CALLS);
    }
}
