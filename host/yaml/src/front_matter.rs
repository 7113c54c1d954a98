//! The head of a published Markdown file, as people write it: YAML between two `---` lines.
//!
//! Its texts are what was written: `no`, `0123` and `1.10` are names, not a boolean and numbers. Where the head as a
//! whole is not YAML (`argument-hint: [a] [b]`, a colon in a description), each entry is read by itself, so that one of
//! them never changes another; an entry that is no YAML either is taken as written.

use crate::tree::{self as yaml, Node, NodeKind};
use indexmap::IndexMap;
use opcell_types::Value;
use std::borrow::Cow;

/// A file in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text between the two `---` lines; none where there are no such lines.
    pub head: Option<&'a str>,
    /// Everything after them, or the whole file.
    pub body: &'a str,
    /// The line of the file on which the head begins, counted from 1.
    pub line: usize,
    /// There is an opening `---` and no closing one.
    pub is_unclosed: bool,
}

/// A value of the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// Nothing, `~` or `null`.
    Null,
    /// A text, or a boolean or number as it was written.
    Text(String),
    /// A list of texts; what is nested deeper is left out.
    List {
        /// Its texts.
        items: Vec<String>,
        /// The list as it was written, on one line.
        written: String,
    },
    /// A mapping.
    Mapping {
        /// The mapping as it was written, on one line.
        written: String,
    },
}

impl Field {
    /// The text of a key that holds one. What YAML takes for a list or a mapping is a text there, such as `[draft]`, or
    /// `Use it to: draw` on a line of its own.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        let text = match self {
            Self::Null => None,
            Self::Text(text) => Some(text),
            Self::List { written, .. } | Self::Mapping { written } => Some(written),
        };
        text.map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The words of a key that holds several: a list, or a text of words with commas or blanks between them.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::List { items, .. } => items.clone(),
            Self::Text(text) => {
                let commas = outside_parentheses(text, |c| c == ',');
                let words = if commas.len() > 1 { commas } else { outside_parentheses(text, char::is_whitespace) };
                words.into_iter().map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
            }
            Self::Null | Self::Mapping { .. } => Vec::new(),
        }
    }
}

/// Splits a text, but not within parentheses: `Bash(git add *)` is one word.
fn outside_parentheses(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && separates(c)
    })
    .collect()
}

/// The entries of a head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// The entries in authored order; the last one of a name.
    pub fields: IndexMap<String, Field>,
    /// FollowUp to the author, as sentences.
    pub notes: Vec<String>,
}

impl FrontMatter {
    /// The text of a key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key).and_then(Field::text)
    }
}

/// Splits a file into its head and its body. Blanks after a fence, a byte-order mark and a comment before the head do not
/// matter, and `...` ends it as well; without an opening and a closing line everything is body. A line may end in a
/// carriage return alone.
#[must_use]
pub fn split(text: &str) -> Parts<'_> {
    let begin = text.trim_start_matches(|c: char| c == '\u{feff}' || c.is_whitespace());
    // It is a licence comment; unless front matter follows, it belongs to the body.
    let after_comment = begin.strip_prefix("<!--").and_then(|comment| comment.split_once("-->"));
    let after_comment = after_comment.map(|(_, after)| after.trim_start()).filter(|after| after.starts_with("---"));
    let start = after_comment.unwrap_or(begin);
    let before = text.get(..text.len() - start.len()).unwrap_or_default();
    let whole = Parts { head: None, body: begin, line: 1, is_unclosed: false };
    let mut lines = lines_of(start);
    let Some(opening) = lines.next().filter(|line| line.trim_end() == "---" && line.ends_with(['\n', '\r'])) else {
        return whole;
    };
    let line = lines_of(before).count() + if before.is_empty() || before.ends_with(['\n', '\r']) { 2 } else { 1 };
    let mut at = opening.len();
    for next in lines {
        if matches!(next.trim_end(), "---" | "...") {
            let head = start.get(opening.len()..at);
            return Parts { head, body: start.get(at + next.len()..).unwrap_or_default(), line, is_unclosed: false };
        }
        at += next.len();
    }
    Parts { is_unclosed: true, ..whole }
}

/// The lines of a text with their ends: a line feed, a carriage return, or both.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(['\n', '\r']);
        let length = match end {
            Some(at) if rest.get(at..)?.starts_with("\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at_checked(length).filter(|(line, _)| !line.is_empty())?;
        rest = after;
        Some(line)
    })
}

/// The text with a line feed in place of each carriage return that ends a line alone.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    match lines_of(text).any(|line| line.ends_with('\r')) {
        true => Cow::Owned(lines_of(text).map(|line| line.replace('\r', "\n").replace("\n\n", "\n")).collect()),
        false => Cow::Borrowed(text),
    }
}

/// Reads a head that begins on a line of its file. Never fails: what is no YAML is taken as written, with a note.
#[must_use]
pub fn read(head: &str, line: usize) -> FrontMatter {
    let head = &*with_line_feeds(head);
    let mut front = entries(head, line);
    for (key, field) in &mut front.fields {
        if let Field::Text(text) = field
            && let Some(inner) = within_curly_quotes(text)
            && !head.contains(&format!("\"{text}\""))
            && !head.contains(&format!("'{text}'"))
        {
            front.notes.push(format!("`{key}` is in curly quotes, which are no quotes to YAML; write straight ones"));
            *text = inner.to_owned();
        }
    }
    front
}

/// The text within a pair of curly quotes, as word processors write them.
fn within_curly_quotes(text: &str) -> Option<&str> {
    [('“', '”'), ('‘', '’'), ('„', '“'), ('”', '”'), ('’', '’'), ('«', '»')].into_iter().find_map(|(open, close)| {
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        // An apostrophe within it is the same character.
        let is_one = !inner.contains(open) && (close == '’' || !inner.contains(close));
        Some(inner.trim()).filter(|inner| is_one && !inner.is_empty())
    })
}

fn entries(head: &str, line: usize) -> FrontMatter {
    match yaml::parse(head).map(|node| node.kind) {
        Ok(NodeKind::Mapping(entries)) => FrontMatter {
            notes: entries.iter().filter_map(|entry| cut_by_comment(&entry.key, &entry.value, head)).collect(),
            fields: entries
                .into_iter()
                .map(|entry| (entry.key.as_ref().to_owned(), field(&entry.value, head)))
                .collect(),
        },
        Ok(NodeKind::Scalar(Value::Null)) => FrontMatter::default(),
        _ => entry_by_entry(head, line),
    }
}

/// A note on a text after which `#` and a word follow at once: `Closes issue #5` ends at the issue for YAML.
fn cut_by_comment(key: &str, value: &Node, source: &str) -> Option<String> {
    let written = source.get(value.span.start..value.span.end)?;
    let is_plain = matches!(value.kind, NodeKind::Scalar(_)) && !written.starts_with(['"', '\'', '>', '|']);
    let rest = source.get(value.span.end..)?.lines().next()?;
    let comment = rest.trim_start().strip_prefix('#').filter(|_| is_plain && !written.trim().is_empty())?;
    let word = comment.split_whitespace().next().filter(|_| comment.starts_with(char::is_alphanumeric))?;
    Some(format!("`{key}` ends before ` #{word}`, which begins a comment; quote the text"))
}

fn field(node: &Node, source: &str) -> Field {
    let written = || source.get(node.span.start..node.span.end).map(str::trim);
    let line = || joined(written().unwrap_or_default().lines().map(str::trim), " ");
    // `!important` is a word here, and no tag.
    let tag = node.tag.as_deref().filter(|tag| tag.starts_with('!') && !tag.starts_with("!!"));
    match (&node.kind, tag) {
        (NodeKind::Scalar(Value::String(text)), Some(tag)) => {
            return Field::Text(format!("{tag} {}", text.trim()).trim_end().to_owned());
        }
        (NodeKind::Scalar(Value::Null), Some(tag)) => return Field::Text(tag.to_owned()),
        _ => {}
    }
    match &node.kind {
        NodeKind::Scalar(Value::Null) => Field::Null,
        NodeKind::Scalar(Value::String(text)) => {
            // `&Co` is a word here, and no anchor, unless something refers to it.
            let before = source.get(..node.span.start).and_then(|before| before.lines().last()).unwrap_or_default();
            let anchor = before.split_whitespace().next_back().and_then(|word| word.strip_prefix('&'));
            let is_plain = written().is_some_and(|written| !written.starts_with(['"', '\'', '>', '|']));
            match anchor.filter(|name| is_plain && !name.is_empty() && !source.contains(&format!("*{name}"))) {
                Some(name) => Field::Text(format!("&{name} {}", text.trim())),
                None => Field::Text(text.trim().to_owned()),
            }
        }
        NodeKind::Scalar(value) => match written().filter(|written| !written.starts_with(['*', '&', '!'])) {
            Some(written) => Field::Text(written.to_owned()),
            None => Field::Text(value.to_json()),
        },
        NodeKind::Sequence(nodes) => Field::List {
            items: nodes
                .iter()
                .filter_map(|node| match field(node, source) {
                    Field::Text(text) => Some(text),
                    _ => None,
                })
                .collect(),
            written: line(),
        },
        NodeKind::Mapping(_) => Field::Mapping { written: line() },
    }
}

/// An entry with its lines.
struct Chunk<'a> {
    key: &'a str,
    first: &'a str,
    rest: Vec<&'a str>,
    line: usize,
}

fn entry_by_entry(head: &str, line: usize) -> FrontMatter {
    let mut chunks: Vec<Chunk<'_>> = Vec::new();
    for (index, text) in head.lines().enumerate() {
        let is_indented = text.is_empty() || text.starts_with([' ', '\t']);
        match key(text).filter(|_| !is_indented) {
            Some((key, first)) => chunks.push(Chunk { key, first, rest: Vec::new(), line: line + index }),
            None if text.starts_with('#') => {}
            // A line without a key that is not indented either: people wrap long texts so.
            None => {
                if let Some(chunk) = chunks.last_mut() {
                    chunk.rest.push(text);
                }
            }
        }
    }
    let mut front = FrontMatter::default();
    for chunk in chunks {
        let value = chunk.field().unwrap_or_else(|| {
            let Chunk { key, line, .. } = chunk;
            front
                .notes
                .push(format!("line {line}: the value of `{key}` is not YAML and is taken as written; quote it"));
            chunk.as_written()
        });
        if front.fields.insert(chunk.key.to_owned(), value).is_some() {
            let Chunk { key, line, .. } = chunk;
            front.notes.push(format!("line {line}: `{key}` is given twice; this one applies"));
        }
    }
    if front.notes.is_empty() {
        front.notes.push("the front matter is not YAML; it was read line by line, as `key: value`".to_owned());
    }
    front
}

/// The key that a line begins with, and what follows on the colon. After a word of ASCII it may be the wide colon of
/// Chinese and Japanese keyboards.
fn key(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = match line.split_once(['：', ':'])? {
        (key, _) if !key.is_ascii() => line.split_once(':')?,
        parts => parts,
    };
    let key = key.trim_end();
    let key = ['"', '\''].iter().find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(key);
    let is_key = key.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    (is_key && !rest.starts_with("//")).then(|| (key, rest.trim()))
}

impl Chunk<'_> {
    /// The entry as YAML, if it is by itself.
    fn field(&self) -> Option<Field> {
        let mut text = format!("{}: {}\n", self.key, self.first);
        for line in &self.rest {
            text.push_str(line);
            text.push('\n');
        }
        match yaml::parse(&text).ok()?.kind {
            NodeKind::Mapping(entries) => match entries.as_slice() {
                [entry] => Some(field(&entry.value, &text)),
                _ => None,
            },
            NodeKind::Scalar(_) | NodeKind::Sequence(_) => None,
        }
    }

    fn as_written(&self) -> Field {
        let lines = || self.rest.iter().map(|line| line.trim());
        let block = self.first.split_whitespace().next().filter(|word| is_block_scalar(word));
        if let Some(header) = block {
            // Text on the line of the header belongs to the text, unless it is a comment.
            let beside = self.first.strip_prefix(header).map(str::trim).filter(|beside| !beside.starts_with('#'));
            let separator = if header.starts_with('|') { "\n" } else { " " };
            return Field::Text(joined(
                beside.filter(|beside| !beside.is_empty()).into_iter().chain(lines()),
                separator,
            ));
        }
        let is_list = self.first.is_empty() && lines().any(|line| line.starts_with("- "));
        if is_list && lines().all(|line| line.is_empty() || line.starts_with("- ")) {
            let items = lines().filter_map(|line| line.strip_prefix("- ")).map(unquoted).collect();
            return Field::List { items, written: joined(lines(), " ") };
        }
        Field::Text(unquoted(&joined(std::iter::once(self.first).chain(lines()), " ")))
    }
}

/// `>`, `|`, with a sign and a digit.
fn is_block_scalar(word: &str) -> bool {
    word.strip_prefix(['>', '|'])
        .is_some_and(|rest| rest.len() <= 2 && rest.chars().all(|c| matches!(c, '+' | '-' | '1'..='9')))
}

/// Lines as one text; an empty line ends a paragraph.
fn joined<'a>(lines: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut text = String::new();
    let mut ends_paragraph = false;
    for line in lines {
        if line.is_empty() {
            ends_paragraph = !text.is_empty();
            continue;
        }
        if !text.is_empty() {
            text.push_str(match (ends_paragraph, separator) {
                (true, "\n") => "\n\n",
                (true, _) => "\n",
                (false, separator) => separator,
            });
        }
        ends_paragraph = false;
        text.push_str(line);
    }
    text
}

/// A text without the quotes around it, unless the first of them ends before the text does.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !closes(inner, quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text).to_owned()
}

/// Returns `true` if the first quote in a text ends what was quoted before it. One that begins a word opens a quotation
/// of its own, as in `Use it for "this".`; one between two letters is an apostrophe.
fn closes(text: &str, quote: char) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let first = text.match_indices(quote).find_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        let after = text.get(at + quote.len_utf8()..)?.chars().next();
        (quote != '\'' || !is_letter(before) || !is_letter(after)).then_some((before, after))
    });
    first.is_some_and(|(before, after)| {
        let opens = before.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '[' | '{')) && is_letter(after);
        !opens
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(head: &str, key: &str) -> String {
        read(head, 2).text(key).unwrap_or_default().to_owned()
    }

    #[test]
    fn fences_may_have_blanks_behind_them_and_marks_before_them() {
        for text in ["---\na: b\n---\nBody", "\u{feff}--- \t\na: b\n--- \nBody", "\n\n---\r\na: b\r\n---\r\nBody"] {
            let parts = split(text);
            assert_eq!((parts.head.map(str::trim_end), parts.body), (Some("a: b"), "Body"), "{text:?}");
        }
        assert_eq!(split("\n\n---\na: b\n---\n").line, 4);
        let returns = split("\r---\ra: b\rc: d\r---\r\rBody\rends");
        assert_eq!((returns.head, returns.body, returns.line), (Some("a: b\rc: d\r"), "\rBody\rends", 3));
        assert_eq!((text("a: b\rc: d\r", "c"), text("a: [b] [c]\rd: e\r\nf: g\r", "d")), ("d".into(), "e".into()));
        let licensed = split("<!-- (c)\n2026 -->\n---\na: b\n...\nBody");
        assert_eq!((licensed.head, licensed.body, licensed.line), (Some("a: b\n"), "Body", 4));
        for text in ["----\na: b\n---\n", "--- a: b\n---\n", "Body", "---", "<!-- a -->\nBody\n---\n"] {
            let parts = split(text);
            assert_eq!((parts.head, parts.body, parts.is_unclosed), (None, text, false), "{text:?}");
        }
        assert!(split("---\na: b\nBody").is_unclosed);
    }

    #[test]
    fn a_text_is_what_was_written() {
        for written in
            ["no", "on", "yes", "True", "0123", "1.10", "0x1F", "1e3", "2026-01-02", "12:30", "1_000", ".5", "007"]
        {
            assert_eq!(text(&format!("name: {written}  # a comment\n"), "name"), written);
            assert_eq!(text(&format!("name: \"{written}\"\n"), "name"), written);
            assert_eq!(text(&format!("name: {written}\nhint: [a] [b]\n"), "name"), written, "line by line");
        }
        assert_eq!(read("name: ~\nb: null\nc:\n", 2).fields.values().filter(|f| **f == Field::Null).count(), 3);
        assert_eq!(text("a: [draft]\n", "a"), "[draft]");
        assert_eq!(text("a: {b: c}\n", "a"), "{b: c}");
        assert_eq!(text("a: &x 1.10\nb: *x\n", "b"), "1.1");
        assert_eq!(text("a: &Co helper\n", "a"), "&Co helper");
        assert_eq!(text("a: &co helper\nb: *co\n", "a"), "helper");
        assert_eq!(text("a: &co \"helper\"\n", "a"), "helper");
    }

    #[test]
    fn an_entry_that_is_no_yaml_leaves_the_others_as_they_are() {
        let head = "name: review\ndescription: >-\n  Reviews a pull\n  request.\n\n  Use it: before a merge.\nnotes: |\n  One\n  \n    Two\n\
                    argument-hint: [branch] [--strict]\nallowed-tools:\n  - Read\n  - Bash(git:*)\n";
        let front = read(head, 2);
        assert_eq!(front.text("description"), Some("Reviews a pull request.\nUse it: before a merge."));
        assert_eq!(front.text("notes"), Some("One\n\n  Two"));
        assert_eq!(front.text("argument-hint"), Some("[branch] [--strict]"));
        assert_eq!(front.fields["allowed-tools"].words(), ["Read", "Bash(git:*)"]);
        assert_eq!(
            front.notes,
            ["line 12: the value of `argument-hint` is not YAML and is taken as written; quote it"]
        );
    }

    #[test]
    fn a_text_that_a_comment_cuts_is_told_of() {
        let notes = |head: &str| read(head, 2).notes;
        assert_eq!(
            notes("d: Closes issue #5 at once\ne: x\n"),
            ["`d` ends before ` #5`, which begins a comment; quote the text"]
        );
        for head in [
            "d: x # a comment\n",
            "d: \"issue #5\"\n",
            "d: C# and F#\n",
            "# a\nd: |\n  issue #5\n",
            "d:\n  #x\n  - a\n",
        ] {
            assert!(notes(head).is_empty(), "{head}: {:?}", notes(head));
        }
    }

    #[test]
    fn curly_quotes_around_a_text_are_none_of_it() {
        for (written, read_as) in [
            ("“review”", "review"),
            ("‘review’", "review"),
            ("‘don’t’", "don’t"),
            ("„review“", "review"),
            ("\"“review”\"", "“review”"),
            ("“One” and “two”", "“One” and “two”"),
            ("Say “hi”", "Say “hi”"),
        ] {
            let front = read(&format!("name: {written}\n"), 2);
            assert_eq!(front.text("name"), Some(read_as), "{written}");
            let is_changed = !written.contains(read_as) || written.trim_matches('"') != read_as;
            assert_eq!(front.notes.len(), usize::from(is_changed), "{written}");
        }
    }

    #[test]
    fn words_in_parentheses_belong_to_the_word_before_them() {
        let words = |written: &str| read(&format!("tools: {written}\n"), 2).fields["tools"].words();
        assert_eq!(words("Bash(git add *) Bash(git commit:*) Read"), ["Bash(git add *)", "Bash(git commit:*)", "Read"]);
        assert_eq!(words("Bash(git add, git commit), Read,"), ["Bash(git add, git commit)", "Read"]);
        assert_eq!(words("Read Bash(npm run"), ["Read", "Bash(npm run"]);
        assert_eq!(words("a) b c"), ["a)", "b", "c"]);
    }

    #[test]
    fn a_text_with_colons_is_read_to_its_end() {
        for head in [
            "description: Use this when asked to: make a table,\n  draw a chart, or: sum up.\nname: x\n",
            "description: Use this when asked to: make a table,\ndraw a chart, or: sum up.\nname: x\n",
            "description: \"Use this when asked to: make a table,\n  draw a chart, or: sum up.\"\nname: x\nhint: [a] b\n",
            "description: >- \n\tUse this when asked to: make a table,\n\tdraw a chart, or: sum up.\nname: x\n",
            "description:\n  Use this when asked to: make a table,\n  draw a chart, or: sum up.\nname: x\n",
        ] {
            assert_eq!(
                text(head, "description"),
                "Use this when asked to: make a table, draw a chart, or: sum up.",
                "{head}"
            );
            assert_eq!(text(head, "name"), "x", "{head}");
        }
        for value in [
            "`code` first",
            "@mention",
            "%percent",
            "*bold* word",
            "[WIP] Reviews",
            "\"Said\" and \"done\"",
            "{x} y",
            "a: b # c",
            "!important do it",
            "!important",
        ] {
            assert_eq!(text(&format!("description: {value}\n"), "description"), value);
        }
        for (written, meant) in [
            (r#""Use when asked to "deploy" or "ship".""#, r#"Use when asked to "deploy" or "ship"."#),
            ("'It's for the user's data'", "It's for the user's data"),
            (r#""Said" and "done""#, r#""Said" and "done""#),
            ("'a' and 'b'", "'a' and 'b'"),
        ] {
            assert_eq!(text(&format!("description: {written}\n"), "description"), meant);
        }
        let wide = "name：x\ndescription：Use it：to draw.\n";
        assert_eq!((text(wide, "name"), text(wide, "description")), ("x".to_owned(), "Use it：to draw.".to_owned()));
        assert_eq!(text("description: a: b\n注意：c\n", "description"), "a: b 注意：c");
        assert_eq!(text("description: |\n  a: b\n  c\nhint: [a] [b]\n", "description"), "a: b\nc");
        assert_eq!(text("description: > on one line\nname: x\n", "description"), "on one line");
        assert_eq!(text("description: >- on one line\n  and more\n", "description"), "on one line and more");
        assert_eq!(text("description: > # a comment\n\tmore: text\n", "description"), "more: text");
        assert_eq!(text("description: x\nid: 123456789012345678901\n", "id"), "123456789012345678901");
    }

    #[test]
    fn what_is_read_line_by_line_is_said() {
        let notes = |head: &str| read(head, 2).notes;
        assert_eq!(notes("a: b: c\n").len(), 1);
        assert_eq!(notes("a: 1\na: 2\n"), ["line 3: `a` is given twice; this one applies"]);
        assert_eq!(notes("a:b\n").len(), 1, "the blank is missing");
        assert_eq!(text("a:b\n", "a"), "b");
        assert!(notes("").is_empty() && notes("# nothing\n").is_empty());
        for words in ["saphyr", "mapping values", "context", "DuplicateKey", "parsing"] {
            assert!(!notes("a: b: c\nd: [\n\te: @\n").join(" ").contains(words), "{words}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_head_is_read(head in "([a-z]{1,3}: ?)?[ \\n\\t:\\-a1{}\\[\\],&*!|>'\"#%]{0,60}") {
            let front = read(&head, 2);
            for field in front.fields.values() {
                let _ = (field.text(), field.words());
            }
        }
    }
}
