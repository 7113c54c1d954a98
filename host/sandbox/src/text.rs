//! Text that untrusted code wrote, made safe to keep and to print.

pub(crate) use opcell_schema::printable;

/// As [`printable`], for a place where a line break would look like the next line.
#[must_use]
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    printable(text, limit).replace(['\n', '\t'], " ")
}
