//! YAML with a place for every key and value, read as the `yaml` package for JavaScript reads YAML 1.2's core schema.
//!
//! `yes`, `0b11`, `1_000` and dates are text; `007` is 7; merge keys are ordinary keys; unknown tags are ignored, and
//! what they stand on is text. One document per text. Building the tree does not recurse; its depth is limited, so that
//! what walks it may.
//!
//! Integers of 64 bits are whole, where the package rounds those beyond 2^53; a longer one is an error.

mod scalar;

use opcell_ir::{js, names::MAX_NAME_BYTES, source::Span};
use opcell_types::value::{Map, Value, rounded_message};
use scalar::{ScalarKind, scalar};
use serde_saphyr::granit_parser::{
    ErrorKind, Event, Parser, ScalarStyle, ScanError, Span as RawSpan, StructureStyle, options,
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Collections inside one another; a workflow nests about ten deep.
const MAX_DEPTH: usize = 128;
/// Nodes of one document, aliases expanded; a step has about twenty.
const MAX_NODES: usize = 1_000_000;
/// Uses of one anchor, multiplied along nested ones: the `yaml` package's own limit against exhaustion.
const MAX_ALIASES: usize = 100;
/// Blanks put in after `a:[`; each costs another pass over the text.
const MAX_BLANKS: usize = 256;

/// Bytes that are parsed again for such blanks, all times together.
const MAX_REPAIR_BYTES: usize = 64 << 20;

/// A value and its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The kind of the node, with its content.
    pub kind: NodeKind,
    /// The place of the node; an alias is where it is used.
    pub span: Span,
    /// Its tag as written, if it has one.
    pub tag: Option<Arc<str>>,
}

/// The kind of a node, with its content.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A null, boolean, number or string.
    Scalar(Value),
    /// A list.
    Sequence(Vec<Node>),
    /// Entries in authored order; keys are unique.
    Mapping(Vec<Entry>),
}

/// One entry of a mapping.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key as JavaScript writes it as an object key: numbers in decimal, null as nothing.
    pub key: Arc<str>,
    /// The place of the key.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

/// Why a text is not one YAML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// One sentence.
    pub message: String,
    /// Byte range in the source text.
    pub span: Span,
}

impl Node {
    /// The entry of a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a mapping, with its key's place.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key.as_ref() == key)
    }

    /// The entries of a mapping.
    #[must_use]
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.kind {
            NodeKind::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    /// Moves every place, for a tree that was read from the middle of a text.
    pub fn shift(&mut self, by: usize) {
        self.move_places(&|span| Span::new(span.start + by, span.end + by));
    }

    fn move_places(&mut self, moved: &impl Fn(Span) -> Span) {
        self.span = moved(self.span);
        match &mut self.kind {
            NodeKind::Scalar(_) => {}
            NodeKind::Sequence(items) => items.iter_mut().for_each(|item| item.move_places(moved)),
            NodeKind::Mapping(entries) => {
                for entry in entries {
                    entry.key_span = moved(entry.key_span);
                    entry.value.move_places(moved);
                }
            }
        }
    }

    /// The value without places. Integer-like keys come first, as in a JavaScript object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.kind {
            NodeKind::Scalar(value) => value.clone(),
            NodeKind::Sequence(items) => Value::array(items.iter().map(Self::to_value)),
            NodeKind::Mapping(entries) => {
                let mut map: Map =
                    entries.iter().map(|entry| (entry.key.as_ref().into(), entry.value.to_value())).collect();
                js::order_keys(&mut map);
                Value::from(map)
            }
        }
    }
}

/// Reads one document; a text without one is null.
///
/// # Errors
/// When the text is not YAML, holds several documents or repeats a key, or is deeper or larger than the limits.
pub fn parse(text: &str) -> Result<Node, YamlError> {
    let mut spaced = Cow::Borrowed(text);
    let mut blanks: Vec<usize> = Vec::new();
    let read = loop {
        match read(&spaced) {
            // `{a:[1]}` is an entry for the `yaml` package; the parser wants a blank before the bracket.
            Err(Refusal::NoBlank(colon))
                if blanks.len() < MAX_BLANKS && text.len().saturating_mul(blanks.len() + 1) <= MAX_REPAIR_BYTES =>
            {
                let at = blanks.partition_point(|blank| *blank <= colon);
                blanks.iter_mut().skip(at).for_each(|blank| *blank += 1);
                blanks.insert(at, colon + 1);
                spaced.to_mut().insert(colon + 1, ' ');
            }
            other => break other,
        }
    };
    let authored = |at: usize| at - blanks.partition_point(|blank| *blank < at);
    let moved = |span: Span| Span::new(authored(span.start), authored(span.end));
    match read {
        Ok(mut node) => {
            if !blanks.is_empty() {
                node.move_places(&moved);
            }
            Ok(node)
        }
        Err(Refusal::Wrong(error)) => Err(YamlError { span: moved(error.span), ..error }),
        Err(Refusal::NoBlank(at)) => {
            Err(error("`:` needs a blank before `[` or `{`", Span::new(authored(at), authored(at))))
        }
    }
}

enum Refusal {
    Wrong(YamlError),
    /// A bracket follows immediately on the `:` of a flow mapping that stands here.
    NoBlank(usize),
}

impl From<YamlError> for Refusal {
    fn from(error: YamlError) -> Self {
        Self::Wrong(error)
    }
}

fn read(text: &str) -> Result<Node, Refusal> {
    let options = options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let refusal = |error: ScanError| {
        let at = error.marker().byte_offset().unwrap_or(text.len());
        match error.kind() {
            ErrorKind::FlowMappingValueAdjacentCollection
                if text.get(at..).is_some_and(|rest| rest.starts_with(':')) =>
            {
                Refusal::NoBlank(at)
            }
            _ => Refusal::Wrong(YamlError { message: error.info(), span: Span::new(at, at) }),
        }
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(refusal)?;
        builder.event(event, span, text)?;
    }
    let end = Span::new(text.len(), text.len());
    Ok(builder.root.unwrap_or(Node { kind: NodeKind::Scalar(Value::Null), span: end, tag: None }))
}

/// The tab that indents the line on which a block collection's child starts; the parser lets those through.
fn tab_indentation(text: &str, child: Span) -> Option<Span> {
    let line = text.get(..child.start)?.rfind('\n').map_or(0, |at| at + 1);
    let indentation = text.get(line..child.start)?.find(|c| c != ' ')?;
    text.get(line + indentation..)?.starts_with('\t').then(|| Span::new(line + indentation, line + indentation + 1))
}

/// Returns `true` if a tab is between the mark that opens a line (such as `-`) and a place.
fn follows_tab(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|before| before.trim_end_matches(' ').ends_with('\t'))
}

/// The first line after the first of a text of several lines that is not indented more than its block collection.
fn dedented_line(text: &str, span: Span, block_column: usize) -> Option<Span> {
    let mut at = span.start;
    for (index, line) in text.get(span.start..span.end)?.split_inclusive('\n').enumerate() {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        if index > 0 && indentation <= block_column && !line.trim().is_empty() {
            return Some(Span::new(at + indentation, at + indentation));
        }
        at += line.len();
    }
    None
}

/// Returns the distance of a place from the start of its line, in bytes, if only white space precedes it.
fn indentation(text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let line = before.trim_end_matches(|c| c != '\n' && js::is_space(c));
    (line.is_empty() || line.ends_with('\n')).then(|| at - line.len())
}

/// Returns the distance of a place from the start of its line, in bytes.
fn column(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    at - before.rfind('\n').map_or(0, |newline| newline + 1)
}

enum Open {
    Sequence {
        items: Vec<Node>,
    },
    Mapping {
        entries: Vec<Entry>,
        /// The index in `entries` of each key of an object.
        places: HashMap<Arc<str>, usize>,
        /// The scalars that are keys, each with its type.
        keys: HashSet<(ScalarKind, Arc<str>)>,
        key: Option<(Arc<str>, Span)>,
    },
}

struct Frame {
    open: Open,
    /// The column at which the lines of a block collection begin; none for a flow collection.
    block: Option<usize>,
    start: usize,
    tag: Option<Arc<str>>,
    anchor: usize,
    /// The number of times the most used anchor inside has been used.
    aliases: usize,
}

struct Anchored {
    node: Node,
    uses: usize,
    aliases: usize,
    nodes: usize,
}

#[derive(Default)]
struct Builder {
    open: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
}

fn error(message: impl Into<String>, span: Span) -> YamlError {
    YamlError { message: message.into(), span }
}

impl Builder {
    fn event(&mut self, event: Event<'_>, raw: RawSpan, text: &str) -> Result<(), YamlError> {
        let span = raw.byte_range().map_or_else(Span::default, |range| Span::new(range.start, range.end));
        let tag_text = || raw.tag_span().and_then(|tag| tag.slice(text).map(Arc::from));
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(error("Source contains multiple documents", span));
                }
            }
            Event::Scalar(content, style, anchor, tag) => {
                let value = scalar(&content, style, tag.as_deref());
                if scalar::is_rounded(&value, &content) {
                    return Err(error(rounded_message(&content), span));
                }
                self.nodes += 1;
                let node = Node { kind: NodeKind::Scalar(value), span, tag: tag_text() };
                if anchor != 0 {
                    self.anchors.insert(anchor, Anchored { node: node.clone(), uses: 1, aliases: 1, nodes: 1 });
                }
                let is_block_scalar = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if !is_block_scalar
                    && let Some(block) = self.block()
                    && let Some(line) = dedented_line(text, span, block)
                {
                    return Err(error("A string of several lines must be indented more than its parent", line));
                }
                self.add(node, 1, text)?;
            }
            Event::SequenceStart(style, anchor, _) => {
                let open = Open::Sequence { items: Vec::new() };
                let block = is_block(style).then(|| column(text, span.start));
                self.start(Frame { open, block, start: span.start, tag: tag_text(), anchor, aliases: 0 }, text)?;
            }
            Event::MappingStart(style, anchor, _) => {
                let open =
                    Open::Mapping { entries: Vec::new(), places: HashMap::new(), keys: HashSet::new(), key: None };
                let block = is_block(style).then(|| column(text, span.start));
                self.start(Frame { open, block, start: span.start, tag: tag_text(), anchor, aliases: 0 }, text)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Ok(()) };
                let closing = span.end.saturating_sub(1);
                if frame.block.is_none()
                    && let Some(block) = self.block()
                    && indentation(text, closing).is_some_and(|column| column < block)
                {
                    let closing = Span::new(closing, span.end);
                    return Err(error(
                        "A flow collection must not close left of the block collection around it",
                        closing,
                    ));
                }
                let (kind, last) = match frame.open {
                    Open::Sequence { items } => {
                        let last = items.last().map(|item| item.span.end);
                        (NodeKind::Sequence(items), last)
                    }
                    Open::Mapping { entries, .. } => {
                        let last = entries.last().map(|entry| entry.value.span.end);
                        (NodeKind::Mapping(entries), last)
                    }
                };
                // A block collection ends where its last child does; only a flow collection's end has a width.
                let end = if span.end > span.start { span.end } else { last.unwrap_or(span.end) };
                let node = Node { kind, span: Span::new(frame.start, end.max(frame.start)), tag: frame.tag };
                if frame.anchor != 0 {
                    let nodes = count(&node);
                    let anchored = Anchored { node: node.clone(), uses: 1, aliases: frame.aliases, nodes };
                    self.anchors.insert(frame.anchor, anchored);
                }
                self.add(node, frame.aliases, text)?;
            }
            Event::Alias(anchor) => {
                let anchored = self
                    .anchors
                    .get_mut(&anchor)
                    .ok_or_else(|| error("An alias refers to the anchor that contains it", span))?;
                anchored.uses += 1;
                let aliases = anchored.uses * anchored.aliases;
                if aliases > MAX_ALIASES {
                    return Err(error("Excessive alias count indicates a resource exhaustion attack", span));
                }
                self.nodes += anchored.nodes;
                let node = Node { span, ..anchored.node.clone() };
                self.add(node, aliases, text)?;
            }
            _ => {}
        }
        if self.nodes > MAX_NODES {
            return Err(error(format!("The document has more than {MAX_NODES} values"), span));
        }
        Ok(())
    }

    fn start(&mut self, frame: Frame, text: &str) -> Result<(), YamlError> {
        if frame.block.is_some() && follows_tab(text, frame.start) {
            return Err(error("Tabs are not allowed as indentation", Span::new(frame.start, frame.start)));
        }
        self.nodes += 1;
        self.open.push(frame);
        Ok(())
    }

    /// Returns the column at which the lines of the innermost open block collection begin.
    fn block(&self) -> Option<usize> {
        self.open.iter().rev().find_map(|frame| frame.block)
    }

    /// Puts a complete node where it belongs.
    fn add(&mut self, node: Node, aliases: usize, text: &str) -> Result<(), YamlError> {
        let Some(frame) = self.open.last_mut() else {
            if let Some(tab) = tab_indentation(text, node.span) {
                return Err(error("Tabs are not allowed as indentation", tab));
            }
            self.root = Some(node);
            return Ok(());
        };
        frame.aliases = frame.aliases.max(aliases);
        let is_value = matches!(&frame.open, Open::Mapping { key: Some(_), .. });
        if frame.block.is_some()
            && !is_value
            && let Some(tab) = tab_indentation(text, node.span)
        {
            return Err(error("Tabs are not allowed as indentation", tab));
        }
        if frame.block.is_none()
            && let Some(block) = self.block()
            && indentation(text, node.span.start).is_some_and(|column| column <= block)
        {
            return Err(error("Flow collections inside block collections must be indented more than those", node.span));
        }
        let Some(frame) = self.open.last_mut() else { return Ok(()) };
        match &mut frame.open {
            Open::Sequence { items } => items.push(node),
            Open::Mapping { entries, places, keys, key } => match key.take() {
                Some((key, key_span)) => match places.get(&key).and_then(|place| entries.get_mut(*place)) {
                    // `1` and `"1"` are two keys for YAML and one for an object: the later one stays.
                    Some(entry) => entry.value = node,
                    None => {
                        places.insert(key.clone(), entries.len());
                        entries.push(Entry { key, key_span, value: node });
                    }
                },
                None => {
                    let value = node.to_value();
                    let name: Arc<str> = match &value {
                        Value::Null => "".into(),
                        Value::String(text) => text.into(),
                        Value::Array(_) | Value::Object(_) => js::to_json(&value).into(),
                        scalar => js::to_text(scalar).into(),
                    };
                    if name.len() > MAX_NAME_BYTES {
                        return Err(error(format!("A key has at most {MAX_NAME_BYTES} bytes"), node.span));
                    }
                    if let Some(kind) = ScalarKind::of(&value)
                        && !keys.insert((kind, name.clone()))
                    {
                        return Err(error("Map keys must be unique", node.span));
                    }
                    *key = Some((name, node.span));
                }
            },
        }
        Ok(())
    }
}

fn is_block(style: StructureStyle) -> bool {
    style == StructureStyle::Block
}

fn count(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::Scalar(_) => 0,
        NodeKind::Sequence(items) => items.iter().map(count).sum(),
        NodeKind::Mapping(entries) => entries.iter().map(|entry| count(&entry.value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        parse(text).unwrap().to_value()
    }

    /// Each blank that is put in is another pass over the text: a large one must not have many.
    #[test]
    fn the_larger_a_text_is_the_fewer_blanks_are_put_in() {
        let entries: String = (0..100).map(|at| format!("- {{a{at}:[1]}}\n")).collect();
        assert!(parse(&entries).is_ok());
        let large = format!("{entries}# {}\n", "x".repeat(1 << 20));
        assert_eq!(parse(&large).unwrap_err().message, "`:` needs a blank before `[` or `{`");
        let many: String = (0..=MAX_BLANKS).map(|at| format!("- {{a{at}:[1]}}\n")).collect();
        assert!(parse(&many).is_err());
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, json) in [
            ("yes", "\"yes\""),
            ("off", "\"off\""),
            ("True", "true"),
            ("~", "null"),
            ("Null", "null"),
            ("007", "7"),
            ("+7", "7"),
            ("0o17", "15"),
            ("0x1F", "31"),
            ("0b11", "\"0b11\""),
            ("1_000", "\"1_000\""),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("12:30:45", "\"12:30:45\""),
            ("2026-01-02", "\"2026-01-02\""),
            ("'7'", "\"7\""),
            ("!!str 7", "\"7\""),
            ("!!int '7'", "7"),
            ("!!float 7", "\"7\""),
            ("!other 7", "\"7\""),
            ("a:b", "\"a:b\""),
            ("-", "[null]"),
            ("12345678901234567890", "12345678901234567890"),
            ("0xFFFFFFFFFFFFFFFF", "18446744073709551615"),
            ("0o777777777777777777777", "9223372036854775807"),
            ("100000000000000000000", "100000000000000000000"),
        ] {
            assert_eq!(js::to_json(&value(text)), json, "{text}");
        }
        for (text, n) in [("-.inf", f64::NEG_INFINITY), (".inf", f64::INFINITY), ("1e400", f64::INFINITY)] {
            assert_eq!(value(text), Value::from(n), "{text}");
        }
    }

    #[test]
    fn an_integer_that_would_be_rounded_is_an_error_at_its_place() {
        for digits in ["123456789012345678901", "+123456789012345678901", "-9223372036854775809", "0x1FFFFFFFFFFFFFFFF"]
        {
            let error = parse(&format!("a: [1, {digits}]")).unwrap_err();
            assert!(error.message.contains("in quotes") && error.span.start == 7, "{digits}: {error:?}");
            assert_eq!(value(&format!("\"{digits}\"")), Value::from(digits));
        }
    }

    #[test]
    fn an_unquoted_bang_is_a_tag_on_nothing() {
        for text in ["condition: !$inputs.x", "condition: !$inputs.x\nnext: 1", "condition: !$steps.a.output.ok == 1"] {
            let node = parse(text).unwrap();
            let condition = node.get("condition").unwrap();
            assert!(condition.tag.as_deref().unwrap().starts_with("!$"), "{text}");
            assert!(condition.as_str().is_some(), "{text}");
        }
    }

    #[test]
    fn every_key_and_value_has_its_place() {
        let text = "steps:\n  - id: a\n    x: [1, {y: 'z'}]\n";
        let node = parse(text).unwrap();
        let NodeKind::Sequence(steps) = &node.get("steps").unwrap().kind else { panic!() };
        let x = steps[0].entry("x").unwrap();
        assert_eq!(&text[x.key_span.start..x.key_span.end], "x");
        assert_eq!(&text[x.value.span.start..x.value.span.end], "[1, {y: 'z'}]");
        assert_eq!(&text[steps[0].span.start..steps[0].span.end], "id: a\n    x: [1, {y: 'z'}]");
    }

    #[test]
    fn documents_that_the_reference_refuses_are_refused() {
        for text in [
            "a: 1\na: 2",
            "steps:\n\t- id: a",
            "a: 1\n---\nb: 2",
            "a: @x",
            "a: [x\nb: {",
            "- a\n b: c\n",
            "a: *b",
            "&a [*a]",
            "a: `b`",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn tabs_inside_texts_are_no_indentation() {
        assert_eq!(value("a: |\n  \tkey: value\n").to_json(), r#"{"a":"\tkey: value\n"}"#);
    }

    #[test]
    fn a_flow_collection_may_close_where_its_key_starts_and_not_go_on_there() {
        assert_eq!(value("a: [\n  1,\n  2\n]\nb: {\n  c: 1\n}\n").to_json(), r#"{"a":[1,2],"b":{"c":1}}"#);
        for text in ["a: [\n1]", "a: {\nb: 1}", "- x: [\n  1]"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_stands_inside_a_block_is_indented_more_than_it() {
        assert_eq!(value("a: \"x\n y\"\nb: {c: x\n y}").to_json(), r#"{"a":"x y","b":{"c":"x y"}}"#);
        for text in ["a:\n  b: \"x\n  y\"", "- - 'x\n  y'", "a: {b: x\ny}", "a:\n  b: [\n    1\n]", "\ta", "-\ta: 1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_flow_mapping_needs_no_blank_before_a_bracket() {
        let text = "a: { b:[1, 2], c:{d: 1}, e:[] }\nf: [1:[2]]";
        let node = parse(text).unwrap();
        assert_eq!(node.to_value().to_json(), r#"{"a":{"b":[1,2],"c":{"d":1},"e":[]},"f":[{"1":[2]}]}"#);
        let a = node.get("a").unwrap();
        assert_eq!(text.get(a.span.start..a.span.end), Some("{ b:[1, 2], c:{d: 1}, e:[] }"));
        let places: Vec<_> =
            a.entries().unwrap().iter().map(|entry| &text[entry.value.span.start..entry.value.span.end]).collect();
        assert_eq!(places, ["[1, 2]", "{d: 1}", "[]"]);
        let wrong = parse("a: { b:[1] }\nc: @").unwrap_err();
        assert_eq!(wrong.span.start, 16);
        assert!(parse(&"{a:[".repeat(1000)).is_err());
    }

    #[test]
    fn a_mapping_of_very_many_keys_takes_no_time() {
        let text: String = (0..200_000).map(|key| format!("k{key}: 1\n")).collect();
        assert_eq!(parse(&text).unwrap().entries().unwrap().len(), 200_000);
        assert!(parse(&format!("{text}k7: 2\n")).unwrap_err().message.contains("unique"));
    }

    #[test]
    fn keys_are_the_same_by_type_and_value() {
        for text in ["a: 1\n'a': 2", "1: a\n1.0: b", "~: a\nnull: b", "true: a\nTrue: b"] {
            assert!(parse(text).unwrap_err().message.contains("unique"), "{text}");
        }
        for text in ["1: a\n'1': b", "true: a\n'true': b", "~: a\n'': b", ".nan: a\n.nan: b"] {
            assert_eq!(parse(text).unwrap().entries().unwrap().len(), 1, "{text}");
        }
    }

    #[test]
    fn merge_keys_are_ordinary_and_aliases_expand() {
        assert_eq!(value("x: &c {t: 1}\ny: {<<: *c}").to_json(), r#"{"x":{"t":1},"y":{"<<":{"t":1}}}"#);
    }

    #[test]
    fn integer_like_keys_come_first() {
        assert_eq!(value("b: 1\n10: 2\n2: 3\n").to_json(), r#"{"2":3,"10":2,"b":1}"#);
    }

    #[test]
    fn exhaustion_is_refused() {
        let mut bomb = "a0: &a0 [x, x]\n".to_owned();
        for i in 1..12 {
            bomb += &format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}]\n", p = i - 1);
        }
        assert!(parse(&bomb).unwrap_err().message.contains("alias"));
        for open in ["[", "{a: ", "- "] {
            assert!(parse(&open.repeat(100_000)).is_err(), "{open}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ \\n\\t:\\-a1{}\\[\\],&*!|>'\"#%]{0,60}") {
            if let Ok(node) = parse(&text) {
                let _ = node.to_value();
            }
        }
    }
}
