//! Printing and naming of values as the reference implementation's language does it; its texts are part of PromptPack's
//! compatible surface.

use opcell_types::Value;
use std::fmt::Write as _;

/// A double-quoted Go string literal (`%q`).
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{07}' => quoted.push_str("\\a"),
            '\u{08}' => quoted.push_str("\\b"),
            '\u{0c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{0b}' => quoted.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => push_escape(&mut quoted, 'x', 2, c),
            c if is_printable(c) => quoted.push(c),
            c if (c as u32) < 0x1_0000 => push_escape(&mut quoted, 'u', 4, c),
            c => push_escape(&mut quoted, 'U', 8, c),
        }
    }
    quoted.push('"');
    quoted
}

fn push_escape(out: &mut String, letter: char, digits: usize, c: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\{letter}{:0digits$x}", c as u32);
}

/// An approximation of Go's `unicode.IsPrint` by what Rust's own escaping leaves alone, without grapheme extenders.
fn is_printable(c: char) -> bool {
    c == ' ' || c == '\'' || (!c.is_whitespace() && c.escape_debug().count() == 1) || is_combining(c)
}

/// Rust escapes combining marks so that they do not join the quote; Go prints them.
fn is_combining(c: char) -> bool {
    matches!(c as u32, 0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f | 0xfe00..=0xfe0f)
}

/// A list of words as `%v` prints it: `[a b]`.
#[must_use]
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    let words: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("[{}]", words.join(" "))
}

/// A double as `%v` prints it: shortest digits, with an exponent below 1e-4 and from 1e6 on.
#[must_use]
pub fn float(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        format!("{n}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

/// The Go type of a decoded JSON value (`%T`).
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Undefined | Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
