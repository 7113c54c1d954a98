//! Source text and places in it.

use crate::diagnostic::Diagnostic;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A byte range of a [`SourceFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range `start..end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest range that covers both.
    #[must_use]
    pub fn to(self, other: Span) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A place as people count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A document and its name, kept beside everything compiled from it.
#[derive(Debug, Clone)]
pub struct SourceFile {
    name: String,
    text: String,
    line_starts: Vec<usize>,
    /// Characters before each [`STRIDE`] bytes: a line may be as long as the text, and have many findings.
    characters: Vec<usize>,
}

/// Bytes of text that are counted at once.
const STRIDE: usize = 4_096;

/// Characters in a piece of UTF-8 that may begin and end anywhere.
fn characters_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl SourceFile {
    /// `name` is what diagnostics show, usually the path as the user gave it.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1))
            .collect();
        let mut before = 0;
        let characters = text
            .as_bytes()
            .chunks(STRIDE)
            .map(|chunk| {
                let here = before;
                before += characters_in(chunk);
                here
            })
            .collect();
        Self { name: name.into(), text, line_starts, characters }
    }

    /// A file as it was read from disk.
    ///
    /// # Errors
    /// `not-utf-8` with the line of the first byte that is not.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Box<Diagnostic>> {
        String::from_utf8(bytes).map(|text| Self::new(name, text)).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() + 1;
            let message =
                format!("the file is not UTF-8: byte {offset}, on line {line}, is not the start of a character");
            Box::new(Diagnostic::error("not-utf-8", message).help("save it as UTF-8"))
        })
    }

    /// Returns the file's name in diagnostics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte offset of a line and a column counted in bytes, both from 1; beyond the end is the end.
    #[must_use]
    pub fn offset(&self, line: usize, column: usize) -> usize {
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len());
        (start + column.saturating_sub(1)).min(self.text.len())
    }

    /// The line and column of a byte offset; offsets past the end give the end.
    #[must_use]
    pub fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(start)) + 1;
        Position { line, column }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let from = offset / STRIDE * STRIDE;
        let counted = self.characters.get(offset / STRIDE).copied();
        let rest = self.text.as_bytes().get(from..offset).unwrap_or_default();
        // At the end of a text of full pieces there is no piece that begins.
        counted.unwrap_or_else(|| self.characters.last().map_or(0, |last| last + self.last_piece()))
            + characters_in(rest)
    }

    fn last_piece(&self) -> usize {
        self.text.as_bytes().chunks(STRIDE).next_back().map_or(0, characters_in)
    }
}

/// The places of the parts of a compiled document in its source. Keys are paths into the IR's JSON,
/// `steps[0].session.model`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap {
    spans: IndexMap<String, Span>,
    /// Bytes of all paths.
    bytes: usize,
}

/// Bytes of all paths of one document. What is beyond has the place of what is around it.
const MAX_PATH_BYTES: usize = 32 << 20;

impl SourceMap {
    /// Records the place of a path.
    pub fn insert(&mut self, path: impl Into<String>, span: Span) {
        let path = path.into();
        self.bytes = self.bytes.saturating_add(path.len());
        if self.bytes <= MAX_PATH_BYTES {
            self.spans.insert(path, span);
        }
    }

    /// The place of a path, or of the nearest part around it that has one.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Span> {
        let mut path = path;
        loop {
            if let Some(span) = self.spans.get(path) {
                return Some(*span);
            }
            let cut = path.rfind(['.', '['])?;
            path = path.get(..cut)?;
        }
    }

    /// Points a diagnostic that has a path but no place at the place of its path.
    #[must_use]
    pub fn locate(&self, diagnostic: Diagnostic) -> Diagnostic {
        match (&diagnostic.span, &diagnostic.path) {
            (None, Some(path)) => {
                let span = self.get(path);
                diagnostic.at(span)
            }
            _ => diagnostic,
        }
    }
}
