//! The one way in which findings reach a person or a program.

use crate::remedy;
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, SourceSpan, SpanContents,
};
use opcell_ir::{Diagnostic, Severity, SourceFile, Span};
use opcell_types::FollowUp;
use serde_json::json;
use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Findings about one input: a document, a project file, a plugin, a command line.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rejected {
    /// The text that was read, when the findings point into one.
    pub source: Option<Arc<SourceFile>>,
    /// At least one.
    pub diagnostics: Vec<Diagnostic>,
}

impl Rejected {
    /// Findings about a text.
    #[must_use]
    pub fn in_source(source: Arc<SourceFile>, diagnostics: Vec<Diagnostic>) -> Self {
        Self { source: Some(source), diagnostics }
    }

    /// One finding about something that is not a text.
    #[must_use]
    pub fn plain(diagnostic: Diagnostic) -> Self {
        Self { source: None, diagnostics: vec![diagnostic] }
    }

    /// For people, with source lines; `color` also chooses box-drawing characters.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        render_all(self.source.as_deref(), &self.diagnostics, color)
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Vec<serde_json::Value> {
        self.diagnostics.iter().map(|diagnostic| to_json(self.source.as_deref(), diagnostic)).collect()
    }
}

impl From<Diagnostic> for Rejected {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::plain(diagnostic)
    }
}

impl fmt::Display for Rejected {
    /// Every message on a line of its own, with its place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            if let (Some(source), Some(span)) = (&self.source, diagnostic.span) {
                let at = source.position(span.start);
                write!(f, "{}:{}:{}: ", source.name(), at.line, at.column)?;
            }
            f.write_str(&diagnostic.message)?;
            if let Some(help) = &diagnostic.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Rejected {}

/// Findings of one input that are shown: a document can have one for each of its bytes.
const MAX_FINDINGS: usize = 100;

/// Findings about one input for people; of very many, the first.
#[must_use]
pub fn render_all(source: Option<&SourceFile>, diagnostics: &[Diagnostic], color: bool) -> String {
    let masked = source.map(Masked::of);
    let shown = diagnostics.iter().take(MAX_FINDINGS);
    let mut text: String = shown.map(|diagnostic| render_in(masked.as_ref(), diagnostic, color)).collect();
    let more = diagnostics.len().saturating_sub(MAX_FINDINGS);
    if more > 0 {
        text.push_str(&format!("and {more} more findings, which {} lists\n", FollowUp::AllFindings));
    }
    text
}

/// Columns in which messages are broken between words.
static WIDTH: AtomicUsize = AtomicUsize::new(MAX_WIDTH);

/// The width where nothing is known of the reader, and the most that is read with ease.
const MAX_WIDTH: usize = 120;

/// Breaks the messages of this process's findings at the width of the terminal that shows them, from 40 columns to 120.
/// Lines of documents stay whole.
pub fn set_width(columns: usize) {
    WIDTH.store(columns.clamp(40, MAX_WIDTH), Ordering::Relaxed);
}

/// One finding for people; with `color`, for a terminal, its code links to its entry among the error codes.
#[must_use]
pub fn render(source: Option<&SourceFile>, diagnostic: &Diagnostic, color: bool) -> String {
    render_in(source.map(Masked::of).as_ref(), diagnostic, color)
}

fn render_in(source: Option<&Masked<'_>>, diagnostic: &Diagnostic, color: bool) -> String {
    let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::none() };
    let shown = Shown::new(source, diagnostic);
    let mut text = String::new();
    let width = WIDTH.load(Ordering::Relaxed);
    let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_width(width).with_break_words(false);
    if handler.render_report(&mut text, &shown).is_err() {
        // The excerpt could not be drawn; the finding itself must not get lost.
        text = format!("{}: {}\n", diagnostic.code, shown.message);
    }
    if color { linked(&text, diagnostic.code) } else { text }
}

/// The page that has an entry for every code.
const CODES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/errors.md");

/// A rendered finding whose code, which is the first thing in it, is a hyperlink of the terminal (OSC 8).
fn linked(text: &str, code: &str) -> String {
    text.replacen(code, &format!("\u{1b}]8;;{CODES}#{code}\u{1b}\\{code}\u{1b}]8;;\u{1b}\\"), 1)
}

/// One finding for programs: `file`, `line` and `column` from 1, `end-line`, `end-column`, `code`, `severity`, `message`,
/// `help`, `path`, `related`.
#[must_use]
pub fn to_json(source: Option<&SourceFile>, diagnostic: &Diagnostic) -> serde_json::Value {
    let place = |span: Span| source.map(|source| source.position(span.start));
    let start = diagnostic.span.and_then(place);
    let end = diagnostic.span.and_then(|span| place(Span::new(span.end, span.end)));
    let related = diagnostic.related.iter().map(|(span, label)| {
        let at = place(*span);
        json!({"line": at.map(|at| at.line), "column": at.map(|at| at.column), "message": label})
    });
    json!({
        "file": source.map(SourceFile::name),
        "line": start.map(|at| at.line),
        "column": start.map(|at| at.column),
        "end-line": end.map(|at| at.line),
        "end-column": end.map(|at| at.column),
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "help": diagnostic.help.clone().or_else(|| remedy::of_code(diagnostic.code)),
        "path": diagnostic.path,
        "related": related.collect::<Vec<_>>(),
    })
}

pub use opcell_types::text::masked as printable;

/// A finding as miette takes it.
#[derive(Debug)]
struct Shown<'a> {
    message: Cow<'a, str>,
    help: Option<Cow<'a, str>>,
    diagnostic: &'a Diagnostic,
    excerpt: Option<Excerpt<'a>>,
}

/// A text with nothing in it that steers a terminal.
#[derive(Debug)]
struct Masked<'a> {
    source: &'a SourceFile,
    text: Cow<'a, str>,
}

impl<'a> Masked<'a> {
    fn of(source: &'a SourceFile) -> Self {
        Self { source, text: printable(source.text()) }
    }
}

impl<'a> Shown<'a> {
    fn new(source: Option<&'a Masked<'a>>, diagnostic: &'a Diagnostic) -> Self {
        let message = match &diagnostic.path {
            Some(path) if diagnostic.span.is_none() => {
                Cow::Owned(printable(&format!("{path}: {}", diagnostic.message)).into_owned())
            }
            _ => printable(&diagnostic.message),
        };
        let excerpt = source
            .filter(|_| diagnostic.span.is_some())
            .map(|masked| Excerpt { source: masked.source, text: &masked.text });
        let help = match diagnostic.help.as_deref() {
            Some(help) => Some(printable(help)),
            None => remedy::of_code(diagnostic.code).map(|help| Cow::Owned(printable(&help).into_owned())),
        };
        Self { message, help, diagnostic, excerpt }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.diagnostic.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let main = self.diagnostic.span.map(|span| LabeledSpan::new_primary_with_span(None, excerpt.mark(span)));
        let related =
            self.diagnostic.related.iter().map(|(span, label)| {
                LabeledSpan::new_with_span(Some(printable(label).into_owned()), excerpt.mark(*span))
            });
        Some(Box::new(main.into_iter().chain(related)))
    }
}

/// The part of a text around a mark. A line is shown whole unless it is very long (machine-written documents).
#[derive(Debug)]
struct Excerpt<'a> {
    source: &'a SourceFile,
    text: &'a str,
}

/// Bytes of context and of a mark that are shown of a very long line.
const LONG_LINE: usize = 400;
const AROUND: usize = 60;

impl Excerpt<'_> {
    /// A span on the first line that it covers, within the text, on character boundaries.
    fn mark(&self, span: Span) -> SourceSpan {
        let start = self.text.floor_char_boundary(span.start);
        let line = self.text.get(start..).and_then(|rest| rest.find('\n')).map_or(self.text.len(), |n| start + n);
        let end = self.text.floor_char_boundary(span.end.min(line).min(start + AROUND)).max(start);
        (start, end - start).into()
    }
}

impl miette::SourceCode for Excerpt<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let name = printable(self.source.name()).into_owned();
        if before == 0 && after == 0 {
            // Where the mark is; it is within one line.
            let at = self.source.position(span.offset());
            let data = self.text.get(span.offset()..span.offset() + span.len()).unwrap_or_default().as_bytes();
            return Ok(Box::new(MietteSpanContents::new_named(name, data, *span, at.line - 1, at.column - 1, 1)));
        }
        // Lines are counted from the beginning of what is looked through: these are the lines that can be shown.
        let line_of = |offset: usize| self.source.position(offset).line;
        let first = line_of(span.offset()).saturating_sub(before + 1).max(1);
        let window_start = self.source.offset(first, 1);
        let window_end = self.source.offset(line_of(span.offset() + span.len()) + after + 2, 1);
        let window = self.text.get(window_start..window_end).unwrap_or(self.text);
        let window_start = if window.len() == self.text.len() { 0 } else { window_start };
        let longest = window.split('\n').map(str::len).max().unwrap_or(0);
        if longest <= LONG_LINE {
            let within = SourceSpan::from((span.offset() - window_start, span.len()));
            let part = window.read_span(&within, before, after)?;
            let place = SourceSpan::from((part.span().offset() + window_start, part.span().len()));
            let (line, column, lines) = (part.line() + line_of(window_start) - 1, part.column(), part.line_count());
            return Ok(Box::new(MietteSpanContents::new_named(name, part.data(), place, line, column, lines)));
        }
        let text = self.text;
        let line_start = text.get(..span.offset()).and_then(|head| head.rfind('\n')).map_or(0, |n| n + 1);
        let start = text.ceil_char_boundary(line_start.max(span.offset().saturating_sub(AROUND)));
        let wanted = text.floor_char_boundary(span.offset() + span.len() + AROUND);
        let end = text.get(start..wanted).and_then(|part| part.find('\n')).map_or(wanted, |n| start + n);
        let data = text.get(start..end).unwrap_or_default().as_bytes();
        let at = self.source.position(start);
        let window = SourceSpan::from((start, end - start));
        Ok(Box::new(MietteSpanContents::new_named(name, data, window, at.line - 1, at.column - 1, 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Rejected, printable, render, to_json};
    use opcell_ir::{Diagnostic, SourceFile, Span};
    use std::sync::Arc;

    #[test]
    fn in_a_terminal_a_code_links_to_its_entry_and_elsewhere_it_is_plain() {
        let diagnostic = Diagnostic::error("no-model", "no-model is what it is");
        let shown = render(None, &diagnostic, true);
        let link = "\u{1b}]8;;https://github.com/opcell/opcell/blob/main/docs/errors.md#no-model\u{1b}\\no-model";
        assert_eq!(shown.matches("\u{1b}]8;;http").count(), 1, "{shown:?}");
        assert!(shown.find(link) < shown.find("no-model is what it is"), "{shown:?}");
        assert!(!render(None, &diagnostic, false).contains('\u{1b}'));
    }

    #[test]
    fn a_person_sees_the_line_the_mark_and_the_help() {
        let source = SourceFile::new("w.edn", "{:name \"a\"\n :steps [{:nmae \"x\"}]}\n");
        let diagnostic = Diagnostic::error("unknown-key", "unknown key `:nmae`")
            .at(Span::new(21, 26))
            .help("did you mean `:name`?")
            .related(Span::new(1, 6), "as here");
        insta::assert_snapshot!(render(Some(&source), &diagnostic, false));
    }

    #[test]
    fn a_program_sees_places_counted_from_one() {
        let source = SourceFile::new("w.edn", "ä\n  bad");
        let json = to_json(Some(&source), &Diagnostic::warning("c", "m").at(Span::new(5, 8)));
        assert_eq!(
            (json["line"].as_u64(), json["column"].as_u64(), json["end-column"].as_u64()),
            (Some(2), Some(3), Some(6))
        );
        assert_eq!((json["file"].as_str(), json["severity"].as_str()), (Some("w.edn"), Some("warning")));
    }

    #[test]
    fn the_place_of_a_finding_is_its_own_wherever_it_stands() {
        let lines: Vec<String> = (1..=500).map(|line| format!("line {line}")).collect();
        for end in ["\n", "\r\n"] {
            let text = lines.join(end);
            let source = SourceFile::new("w.edn", text.as_str());
            for line in [1, 2, 3, 250, 498, 499, 500] {
                let at = text.find(&format!("line {line}")).unwrap();
                let far = text.find("line 400").unwrap();
                let diagnostic =
                    Diagnostic::error("c", "m").at(Span::new(at, at + 4)).related(Span::new(far, far + 4), "here");
                let shown = render(Some(&source), &diagnostic, false);
                assert!(shown.contains(&format!("w.edn:{line}:1]")), "{shown}");
                for near in line.max(2) - 1..=(line + 1).min(500) {
                    assert!(shown.contains(&format!(" {near} | line {near}")), "{shown}");
                }
                assert!(shown.contains(" 400 | line 400"), "{shown}");
            }
        }
    }

    #[test]
    fn of_very_many_findings_the_first_are_shown_and_the_others_counted() {
        let source = Arc::new(SourceFile::new("w.edn", "x".repeat(1000)));
        let findings = (0..1000).map(|at| Diagnostic::error("c", format!("finding {at}.")).at(Span::new(at, at + 1)));
        let text = Rejected::in_source(source, findings.collect()).render(false);
        assert!(text.contains("finding 99.") && !text.contains("finding 100."), "{text}");
        assert!(text.ends_with("and 900 more findings, which `Rejected::diagnostics` lists\n"), "{text}");
    }

    #[test]
    fn a_very_long_line_is_shown_around_the_mark_only() {
        let source = SourceFile::new("w.edn", format!("{}X{}", "[".repeat(50_000), "]".repeat(50_000)));
        let text = render(Some(&source), &Diagnostic::error("deep", "too deep").at(Span::new(50_000, 100_001)), false);
        assert!(text.contains("[[X]]") && text.len() < 2000, "{}", text.len());
        assert!(text.contains("w.edn:1:50001"), "{text}");
    }

    #[test]
    fn places_outside_the_text_never_panic() {
        for text in ["", "a", "ä\n", "\n\n"] {
            let source = SourceFile::new("x", text);
            for (start, end) in [(0, 0), (0, 9), (1, 1), (7, 9), (9, 2)] {
                let diagnostic = Diagnostic::error("c", "message").at(Span::new(start, end));
                assert!(render(Some(&source), &diagnostic, true).contains("message"));
                assert_eq!(to_json(Some(&source), &diagnostic)["code"], "c");
            }
        }
    }

    #[test]
    fn nothing_from_a_document_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\td\n"), "a?[2Jb???c\td\n");
        let source = SourceFile::new("x\u{1b}", "{\u{1b}[31m}");
        let text = render(Some(&source), &Diagnostic::error("c", "\u{7}").at(Span::new(0, 1)).help("\u{1b}"), false);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }

    #[test]
    fn as_an_error_it_is_one_line_per_finding() {
        let source = Arc::new(SourceFile::new("w.edn", "ab"));
        let rejected = Rejected::in_source(
            source,
            vec![Diagnostic::error("c", "one").at(Span::new(1, 2)), Diagnostic::error("c", "two").help("so")],
        );
        assert_eq!(rejected.to_string(), "w.edn:1:2: one\ntwo (so)");
    }
}
