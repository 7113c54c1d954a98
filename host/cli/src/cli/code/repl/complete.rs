//! The end of an entry: one with open brackets, texts or blocks continues on the next line.

use crate::cli::args::ProgramLanguage;

/// Returns `true` if the entry continues with the next line. `ends_block`: its last line is empty.
pub(super) fn is_open(language: ProgramLanguage, entry: &str, ends_block: bool) -> bool {
    match language {
        ProgramLanguage::Javascript => Scan::of(entry, &JAVASCRIPT).is_open(),
        ProgramLanguage::Python => {
            let scan = Scan::of(entry, &PYTHON);
            let last = entry.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            let is_block = |line: &str| line.starts_with([' ', '\t', '@']) || line.trim_end().ends_with(':');
            // A block ends with an empty line, as in Python's own.
            let in_block = scan.ends_with_colon || entry.lines().any(is_block) || is_block(last);
            scan.is_open() || last.ends_with('\\') || in_block && !ends_block
        }
    }
}

/// The comments and quotes of a language.
struct Syntax {
    line_comment: &'static str,
    block_comments: bool,
    /// Quotes of texts that may have several lines, longest first.
    long_quotes: &'static [&'static str],
    /// Quotes of texts of one line.
    quotes: &'static [char],
}

const JAVASCRIPT: Syntax =
    Syntax { line_comment: "//", block_comments: true, long_quotes: &["`"], quotes: &['"', '\''] };
const PYTHON: Syntax =
    Syntax { line_comment: "#", block_comments: false, long_quotes: &["\"\"\"", "'''"], quotes: &['"', '\''] };

/// The brackets and texts that are open at the end of a program.
#[derive(Default)]
struct Scan {
    brackets: i64,
    in_text: bool,
    ends_with_colon: bool,
}

impl Scan {
    fn of(text: &str, syntax: &Syntax) -> Self {
        let (mut scan, mut rest) = (Self::default(), text);
        while let Some(first) = rest.chars().next() {
            let after = |skipped: usize| rest.get(skipped..).unwrap_or_default();
            if rest.starts_with(syntax.line_comment) {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
            } else if syntax.block_comments && rest.starts_with("/*") {
                match after(2).split_once("*/") {
                    Some((_, after)) => rest = after,
                    None => return Self { in_text: true, ..scan },
                }
            } else if let Some(quote) = syntax.long_quotes.iter().find(|quote| rest.starts_with(**quote)) {
                match end_of_text(after(quote.len()), quote) {
                    Some(after) => rest = after,
                    None => return Self { in_text: true, ..scan },
                }
            } else if syntax.quotes.contains(&first) {
                let line = after(1).split('\n').next().unwrap_or_default();
                let quote = first.to_string();
                // A text that does not end on its line is an error, which the language reports.
                rest =
                    end_of_text(line, &quote).map_or(after(1 + line.len()), |left| after(1 + line.len() - left.len()));
            } else {
                match first {
                    '(' | '[' | '{' => scan.brackets += 1,
                    ')' | ']' | '}' => scan.brackets -= 1,
                    _ => {}
                }
                if !first.is_whitespace() {
                    scan.ends_with_colon = first == ':';
                }
                rest = after(first.len_utf8());
            }
        }
        scan
    }

    fn is_open(&self) -> bool {
        self.brackets > 0 || self.in_text
    }
}

/// The rest after the quote that ends a text.
fn end_of_text<'a>(text: &'a str, quote: &str) -> Option<&'a str> {
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(quote) {
            return Some(after);
        }
        let mut chars = rest.chars();
        if chars.next() == Some('\\') {
            chars.next();
        }
        rest = chars.as_str();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{ProgramLanguage::*, is_open};

    #[test]
    fn an_entry_goes_on_while_something_is_open() {
        for (entry, open) in [
            ("1 + 1\n", false),
            ("const f = (x) => {\n", true),
            ("const f = (x) => {\n  return x;\n}\n", false),
            ("`a\n", true),
            ("`a\nb`\n", false),
            ("/* (\n", true),
            ("x // (\n", false),
            (r#""(" + '\'('"#, false),
            ("\"not closed\n", false),
            (")))\n", false),
        ] {
            assert_eq!(is_open(Javascript, entry, false), open, "{entry}");
        }
        for (entry, ends_block, open) in [
            ("1 + 1\n", false, false),
            ("f(1,\n", false, true),
            ("for x in y:\n", false, true),
            ("for x in y:\n  print(x)\n", false, true),
            ("for x in y:\n  print(x)\n\n", true, false),
            ("@cache\n", false, true),
            ("\"\"\"a\n", false, true),
            ("x = {1: '#'}  # (\n", false, false),
            ("x = 1 + \\\n", false, true),
        ] {
            assert_eq!(is_open(Python, entry, ends_block), open, "{entry}");
        }
    }
}
