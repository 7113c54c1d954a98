//! The reader: one pass, one explicit stack.

use super::{
    error::{Problem, ReadError},
    node::{Kind, Name, Node},
    token,
};
use opcell_ir::source::Span;
use std::collections::HashMap;

/// The deepest nesting that is read: brackets, tags, metadata and discards alike. Authored workflows stay below 20; the
/// rest of the crate may recurse over what was read because of this number.
pub const MAX_DEPTH: usize = 128;

/// The longest text that is read, in bytes. The largest authored workflows have some 60 KiB.
pub const MAX_BYTES: usize = 4 << 20;

/// The result of reading a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The first form; `None` when there is nothing but whitespace, comments and discards.
    pub form: Option<Node>,
    /// The place at which text continues after the first form. Clojure's `read-string` ignores it, so it may not even
    /// be EDN.
    pub trailing: Option<Span>,
    /// The places of metadata that was read and dropped.
    pub metadata: Vec<Span>,
    /// Tags other than `#inst` and `#uuid`, which mean nothing until someone says so.
    pub tags: Vec<(Name, Span)>,
}

/// Reads the first form of a text. A byte order mark in front is skipped.
///
/// # Errors
/// The first thing that is not EDN, or exceeds a limit.
pub fn read(text: &str) -> Result<Reading, ReadError> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    read_range(text, Span::new(start, text.len()))
}

/// Reads the first form in a part of a text; spans count from the start of the whole text.
///
/// # Errors
/// As [`read`]. A range that does not lie in the text, or cuts a character, is read as empty.
pub fn read_range(text: &str, range: Span) -> Result<Reading, ReadError> {
    let bytes = range.end.saturating_sub(range.start);
    if bytes > MAX_BYTES {
        return Err(ReadError::new(Problem::TooLong { bytes }, range));
    }
    let text = if text.get(range.start..range.end).is_some() { text.get(..range.end).unwrap_or_default() } else { "" };
    let start = range.start.min(text.len());
    Reader { text, at: start, stack: Vec::new(), done: None, metadata: Vec::new(), tags: Vec::new() }.run()
}

/// A form that is still open.
struct Frame {
    /// Its opening bracket or sigil.
    open: Span,
    shape: Shape,
    items: Vec<Node>,
}

enum Shape {
    List,
    Vector,
    Map,
    /// `#:namespace{…}`.
    QualifiedMap(Name),
    Set,
    /// `#_ form`.
    Discard,
    /// `#tag form`.
    Tag(Name),
    /// `^metadata form`.
    Metadata,
}

impl Shape {
    fn closing(&self) -> Option<char> {
        match self {
            Self::List => Some(')'),
            Self::Vector => Some(']'),
            Self::Map | Self::QualifiedMap(_) | Self::Set => Some('}'),
            Self::Discard | Self::Tag(_) | Self::Metadata => None,
        }
    }

    fn sigil(&self) -> &'static str {
        match self {
            Self::List => "(",
            Self::Vector => "[",
            Self::Map | Self::QualifiedMap(_) => "{",
            Self::Set => "#{",
            Self::Discard => "#_",
            Self::Tag(_) => "a tag",
            Self::Metadata => "^",
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    stack: Vec<Frame>,
    done: Option<Node>,
    metadata: Vec<Span>,
    tags: Vec<(Name, Span)>,
}

impl Reader<'_> {
    fn run(mut self) -> Result<Reading, ReadError> {
        while self.done.is_none() {
            self.skip_blank();
            match self.peek() {
                Some(c) => self.form(c)?,
                None => break,
            }
        }
        if self.done.is_none()
            && let Some(frame) = self.stack.last()
        {
            let problem = match frame.shape.closing() {
                Some(_) => Problem::Unclosed { open: frame.shape.sigil() },
                None => Problem::EndAfter { after: frame.shape.sigil() },
            };
            return Err(ReadError::new(problem, self.here(0)).related(frame.open, "opened here"));
        }
        self.skip_blank();
        let trailing = (self.at < self.text.len()).then(|| Span::new(self.at, self.text.len()));
        Ok(Reading { form: self.done, trailing, metadata: self.metadata, tags: self.tags })
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next `bytes` bytes.
    fn here(&self, bytes: usize) -> Span {
        Span::new(self.at, self.at + bytes)
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek() {
            if token::is_whitespace(c) {
                self.at += c.len_utf8();
            } else if c == ';' {
                self.at += self.rest().find(['\n', '\r']).unwrap_or(self.rest().len());
            } else {
                break;
            }
        }
    }

    /// Reads a form that is one token, opens one, or closes the innermost.
    fn form(&mut self, first: char) -> Result<(), ReadError> {
        match first {
            '(' => self.open(Shape::List, 1),
            '[' => self.open(Shape::Vector, 1),
            '{' => self.open(Shape::Map, 1),
            '^' => self.open(Shape::Metadata, 1),
            ')' | ']' | '}' => self.close(first),
            '"' => self.string(),
            '\\' => self.character(),
            '#' => self.dispatch(),
            c if token::is_forbidden(c) => Err(ReadError::new(Problem::InvalidCharacter(c), self.here(c.len_utf8()))),
            _ => {
                let span = self.token()?;
                let text = self.text.get(span.start..span.end).unwrap_or_default();
                let kind = if token::looks_numeric(text) { token::number(text) } else { token::word(text) };
                let kind = kind.map_err(|problem| ReadError::new(problem, span))?;
                self.deliver(Node::new(kind, span))
            }
        }
    }

    /// The token that starts here; moves past it.
    fn token(&mut self) -> Result<Span, ReadError> {
        let start = self.at;
        for (offset, c) in self.rest().char_indices() {
            if token::is_whitespace(c) || token::is_terminating(c) {
                self.at = start + offset;
                return Ok(Span::new(start, self.at));
            }
            if token::is_forbidden(c) {
                let span = Span::new(start + offset, start + offset + c.len_utf8());
                return Err(ReadError::new(Problem::InvalidCharacter(c), span));
            }
        }
        self.at = self.text.len();
        Ok(Span::new(start, self.at))
    }

    fn open(&mut self, shape: Shape, bytes: usize) -> Result<(), ReadError> {
        let open = self.here(bytes);
        if self.stack.len() >= MAX_DEPTH {
            return Err(ReadError::new(Problem::TooDeep, open));
        }
        self.at += bytes;
        self.stack.push(Frame { open, shape, items: Vec::new() });
        Ok(())
    }

    fn close(&mut self, found: char) -> Result<(), ReadError> {
        let here = self.here(1);
        let Some(frame) = self.stack.pop() else {
            return Err(ReadError::new(Problem::Unmatched { found }, here));
        };
        match frame.shape.closing() {
            Some(expected) if expected == found => {}
            Some(expected) => {
                let error = ReadError::new(Problem::Mismatched { found, expected }, here);
                return Err(error.related(frame.open, "opened here"));
            }
            None => {
                let error = ReadError::new(Problem::MissingForm { after: frame.shape.sigil(), found }, here);
                return Err(error.related(frame.open, "this needs a form"));
            }
        }
        self.at += 1;
        let span = frame.open.to(here);
        let kind = match frame.shape {
            Shape::List => Kind::List(frame.items),
            Shape::Vector => Kind::Vector(frame.items),
            Shape::Set => {
                refuse_duplicates(frame.items.iter(), Problem::DuplicateElement)?;
                Kind::Set(frame.items)
            }
            Shape::Map => Kind::Map(pairs(frame.items, span)?),
            Shape::QualifiedMap(namespace) => {
                let entries = pairs(frame.items, span)?;
                Kind::Map(entries.into_iter().map(|(k, v)| (qualify(k, &namespace), v)).collect())
            }
            // These have no closing bracket; the match above has returned.
            Shape::Discard | Shape::Tag(_) | Shape::Metadata => Kind::Nil,
        };
        self.deliver(Node::new(kind, span))
    }

    /// Hands a complete form to the innermost open one, completing every prefix that was waiting for it.
    fn deliver(&mut self, mut node: Node) -> Result<(), ReadError> {
        loop {
            let Some(frame) = self.stack.last_mut() else {
                self.done = Some(node);
                return Ok(());
            };
            match &frame.shape {
                Shape::Discard => {
                    self.stack.pop();
                    return Ok(());
                }
                Shape::Metadata if frame.items.is_empty() => {
                    if !matches!(node.kind, Kind::Symbol(_) | Kind::Keyword(_) | Kind::String(_) | Kind::Map(_)) {
                        return Err(ReadError::new(Problem::InvalidMetadata, node.span));
                    }
                    frame.items.push(node);
                    return Ok(());
                }
                Shape::Metadata => {
                    if !matches!(
                        node.kind,
                        Kind::Symbol(_) | Kind::List(_) | Kind::Vector(_) | Kind::Map(_) | Kind::Set(_)
                    ) {
                        return Err(ReadError::new(Problem::MetadataTarget, node.span));
                    }
                    self.metadata.push(Span::new(frame.open.start, node.span.start));
                    self.stack.pop();
                }
                Shape::Tag(tag) => {
                    let (tag, span) = (tag.clone(), frame.open);
                    self.stack.pop();
                    node = self.tagged(tag, span, node)?;
                }
                Shape::List | Shape::Vector | Shape::Map | Shape::QualifiedMap(_) | Shape::Set => {
                    frame.items.push(node);
                    return Ok(());
                }
            }
        }
    }

    fn tagged(&mut self, tag: Name, tag_span: Span, form: Node) -> Result<Node, ReadError> {
        match tag.as_str() {
            "inst" if !form.as_str().is_some_and(|text| token::is_instant(text)) => {
                return Err(ReadError::new(Problem::InvalidInstant(form.to_string()), form.span));
            }
            "uuid" if !form.as_str().is_some_and(|text| token::is_uuid(text)) => {
                return Err(ReadError::new(Problem::InvalidUuid(form.to_string()), form.span));
            }
            "inst" | "uuid" => {}
            _ => self.tags.push((tag.clone(), tag_span)),
        }
        let span = tag_span.to(form.span);
        Ok(Node::new(Kind::Tagged(tag, Box::new(form)), span))
    }

    fn dispatch(&mut self) -> Result<(), ReadError> {
        let next = self.rest().chars().nth(1);
        match next {
            None => Err(ReadError::new(Problem::EndAfter { after: "#" }, self.here(1))),
            Some('{') => self.open(Shape::Set, 2),
            Some('_') => self.open(Shape::Discard, 2),
            Some('^') => self.open(Shape::Metadata, 2),
            Some('"') => Err(ReadError::new(Problem::Regex, self.here(2))),
            Some('?') => Err(ReadError::new(Problem::ReaderConditional, self.here(2))),
            Some('<') => Err(ReadError::new(Problem::Unreadable, self.here(2))),
            Some('#') => {
                let start = self.at;
                self.at += 2;
                let name = self.token()?;
                let span = Span::new(start, name.end);
                let n = match self.text.get(name.start..name.end).unwrap_or_default() {
                    "Inf" => f64::INFINITY,
                    "-Inf" => f64::NEG_INFINITY,
                    "NaN" => f64::NAN,
                    other => return Err(ReadError::new(Problem::UnknownSymbolic(other.to_owned()), span)),
                };
                self.deliver(Node::new(Kind::Float(n), span))
            }
            Some(':') => {
                let start = self.at;
                self.at += 1;
                let name = self.token()?;
                let span = Span::new(start, name.end);
                let text = self.text.get(name.start..name.end).unwrap_or_default();
                let namespace = match token::word(text) {
                    Ok(Kind::Keyword(name)) if !name.is_qualified() => name,
                    _ => return Err(ReadError::new(Problem::InvalidMapNamespace(text.to_owned()), span)),
                };
                self.skip_blank();
                if self.peek() != Some('{') {
                    return Err(ReadError::new(Problem::NamespaceWithoutMap, span));
                }
                self.open(Shape::QualifiedMap(namespace), 1)
            }
            Some(c) if c.is_alphabetic() => {
                let start = self.at;
                self.at += 1;
                let name = self.token()?;
                let span = Span::new(start, name.end);
                match token::word(self.text.get(name.start..name.end).unwrap_or_default()) {
                    Ok(Kind::Symbol(tag)) => {
                        self.at = start;
                        self.open(Shape::Tag(tag), span.end - span.start)
                    }
                    _ => Err(ReadError::new(Problem::TagNotASymbol, span)),
                }
            }
            Some(c) => Err(ReadError::new(Problem::NoDispatch(c), self.here(1 + c.len_utf8()))),
        }
    }

    fn character(&mut self) -> Result<(), ReadError> {
        let start = self.at;
        self.at += 1;
        let Some(first) = self.peek() else {
            return Err(ReadError::new(Problem::EndAfter { after: "\\" }, Span::new(start, self.at)));
        };
        // The first character belongs to the token whatever it is: `\(` and `\ ` are characters.
        self.at += first.len_utf8();
        let rest = self.token()?;
        let span = Span::new(start, rest.end);
        let text = self.text.get(start + 1..rest.end).unwrap_or_default();
        let c = token::character(text).map_err(|problem| ReadError::new(problem, span))?;
        self.deliver(Node::new(Kind::Char(c), span))
    }

    fn string(&mut self) -> Result<(), ReadError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let run = self.rest().find(['"', '\\']).unwrap_or(self.rest().len());
            text.push_str(self.rest().get(..run).unwrap_or_default());
            self.at += run;
            match self.peek() {
                Some('"') => {
                    self.at += 1;
                    return self.deliver(Node::string(text, Span::new(start, self.at)));
                }
                Some(_) => text.push(self.escape()?),
                None => {
                    let error = ReadError::new(Problem::UnclosedString, self.here(0));
                    return Err(error.related(Span::new(start, start + 1), "the string starts here"));
                }
            }
        }
    }

    /// The character of an escape in a string; moves past it.
    fn escape(&mut self) -> Result<char, ReadError> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek() else {
            return Err(ReadError::new(Problem::UnclosedString, self.here(0)));
        };
        self.at += c.len_utf8();
        let span = Span::new(start, self.at);
        match c {
            't' => Ok('\t'),
            'r' => Ok('\r'),
            'n' => Ok('\n'),
            'b' => Ok('\u{8}'),
            'f' => Ok('\u{c}'),
            '"' | '\\' => Ok(c),
            'u' => {
                let unit = self.hex_unit(start)?;
                if let Some(c) = char::from_u32(unit) {
                    return Ok(c);
                }
                // A surrogate: Java strings hold the pair, ours hold the character.
                let invalid =
                    |end| ReadError::new(Problem::InvalidUnicode(format!("{unit:04X}")), Span::new(start, end));
                if unit >= 0xdc00 || !self.rest().starts_with("\\u") {
                    return Err(invalid(self.at));
                }
                self.at += 2;
                let low = self.hex_unit(start)?;
                if !(0xdc00..0xe000).contains(&low) {
                    return Err(invalid(self.at));
                }
                char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)).ok_or_else(|| invalid(self.at))
            }
            '0'..='7' => {
                let more = self.rest().bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let digits = self.text.get(start + 1..self.at + more).unwrap_or_default();
                self.at += more;
                match u32::from_str_radix(digits, 8) {
                    Ok(code) if code <= 0o377 => Ok(char::from_u32(code).unwrap_or_default()),
                    _ => Err(ReadError::new(Problem::InvalidEscape(digits.to_owned()), Span::new(start, self.at))),
                }
            }
            c => Err(ReadError::new(Problem::InvalidEscape(c.to_string()), span)),
        }
    }

    /// Four hexadecimal digits; moves past them.
    fn hex_unit(&mut self, start: usize) -> Result<u32, ReadError> {
        let digits: String = self.rest().chars().take(4).collect();
        if digits.len() == 4
            && digits.bytes().all(|b| b.is_ascii_hexdigit())
            && let Ok(unit) = u32::from_str_radix(&digits, 16)
        {
            self.at += 4;
            return Ok(unit);
        }
        Err(ReadError::new(Problem::InvalidUnicode(digits), Span::new(start, self.at)))
    }
}

fn pairs(items: Vec<Node>, span: Span) -> Result<Vec<(Node, Node)>, ReadError> {
    let last = items.last().map(|node| node.span);
    if !items.len().is_multiple_of(2) {
        let error = ReadError::new(Problem::OddMap, span);
        return Err(match last {
            Some(last) => error.related(last, "this key has no value"),
            None => error,
        });
    }
    let mut entries = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        entries.push((key, value));
    }
    refuse_duplicates(entries.iter().map(|(key, _)| key), Problem::DuplicateKey)?;
    Ok(entries)
}

/// Keys of a namespaced map take its namespace, unless they have one; `_/x` becomes `x`.
fn qualify(key: Node, namespace: &Name) -> Node {
    let qualified = |name: &Name| match name.as_str().strip_prefix("_/") {
        Some(bare) => Name::new(bare),
        None if name.is_qualified() => name.clone(),
        None => Name::new(format!("{namespace}/{name}")),
    };
    let kind = match &key.kind {
        Kind::Keyword(name) => Kind::Keyword(qualified(name)),
        Kind::Symbol(name) => Kind::Symbol(qualified(name)),
        _ => return key,
    };
    Node::new(kind, key.span)
}

fn refuse_duplicates<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    problem: impl Fn(String) -> Problem,
) -> Result<(), ReadError> {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for node in nodes {
        let mut identity = String::new();
        write_identity(node, &mut identity);
        if let Some(first) = seen.insert(identity, node.span) {
            return Err(ReadError::new(problem(node.to_string()), node.span).related(first, "first defined here"));
        }
    }
    Ok(())
}

/// Writes a text that two nodes share exactly when Clojure's `=` holds between them, but that exact decimals are
/// compared as written. Recursion is bounded by [`MAX_DEPTH`].
fn write_identity(node: &Node, out: &mut String) {
    let sorted = |items: Vec<String>, out: &mut String, open: char| {
        let mut items = items;
        items.sort_unstable();
        out.push(open);
        for item in items {
            out.push_str(&item);
            out.push(',');
        }
        out.push('}');
    };
    let identity = |node: &Node| {
        let mut text = String::new();
        write_identity(node, &mut text);
        text
    };
    match &node.kind {
        // A list equals a vector of the same items.
        Kind::List(items) | Kind::Vector(items) => {
            out.push('[');
            for item in items {
                write_identity(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Kind::Set(items) => sorted(items.iter().map(identity).collect(), out, '#'),
        Kind::Map(entries) => {
            sorted(entries.iter().map(|(k, v)| format!("{} {}", identity(k), identity(v))).collect(), out, '{');
        }
        Kind::Tagged(tag, form) => {
            out.push('#');
            out.push_str(tag.as_str());
            out.push(' ');
            write_identity(form, out);
        }
        Kind::BigInteger(text) => out.push_str(text),
        Kind::Float(0.0) => out.push_str("0.0"),
        Kind::Char(c) => {
            out.push('\\');
            out.push(*c);
        }
        _ => out.push_str(&node.to_string()),
    }
}
