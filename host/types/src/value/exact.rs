//! Integers of JSON texts that no number of the host holds exactly.
//!
//! Integers of 64 bits are kept whole. A larger one would become the nearest double, in silence, and two identifiers
//! would be one. It is kept where the double prints the same digits (JavaScript writes 1e20 so), and is found here
//! otherwise: documents and inputs are refused for it, and what peers send keeps its digits as a text.

use std::{borrow::Cow, ops::Range};

/// Digits of the shortest integers that do not all fit in 64 bits: those below zero.
const MIN_DIGITS: usize = 19;

/// Digits of the longest integer that a double can be.
const MAX_DIGITS: usize = 310;

/// The place of the first integer of a JSON text that would be rounded.
#[must_use]
pub fn rounded_integer(json: &[u8]) -> Option<Range<usize>> {
    rounded_integers(json).next()
}

/// The sentence about an integer that would be rounded, for whoever wrote it.
#[must_use]
pub fn rounded_message(digits: &str) -> String {
    let shown = crate::text::one_line(digits, 60);
    format!("the integer {shown} has more than 64 bits and would be rounded; write it as a string, in quotes")
}

/// A JSON text of a peer, with each integer that would be rounded as a text of the same digits.
#[must_use]
pub fn with_exact_integers(json: &[u8]) -> Cow<'_, [u8]> {
    let mut quoted: Vec<u8> = Vec::new();
    let mut copied = 0;
    for place in rounded_integers(json) {
        quoted.extend_from_slice(json.get(copied..place.start).unwrap_or_default());
        quoted.push(b'"');
        quoted.extend_from_slice(json.get(place.clone()).unwrap_or_default());
        quoted.push(b'"');
        copied = place.end;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    quoted.extend_from_slice(json.get(copied..).unwrap_or_default());
    Cow::Owned(quoted)
}

/// The places of the integers of a JSON text that would be rounded. Nearly every text has none, which is found by
/// looking at one byte of nineteen.
fn rounded_integers(json: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = if has_many_digits(json) { 0 } else { json.len() };
    let mut in_text = false;
    std::iter::from_fn(move || {
        while let Some(byte) = json.get(at) {
            match (in_text, byte) {
                (true, b'\\') => at += 2,
                (_, b'"') => {
                    in_text = !in_text;
                    at += 1;
                }
                (false, b'-' | b'0'..=b'9') => {
                    let rest = json.get(at..).unwrap_or_default();
                    let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                    let length = rest.iter().take_while(is_part).count();
                    let place = at..at + length;
                    at = place.end;
                    let number = std::str::from_utf8(json.get(place.clone()).unwrap_or_default());
                    if number.is_ok_and(is_rounded_integer) {
                        return Some(place);
                    }
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// `true` if a text is an integer in decimal digits that the nearest double, where it has more than 64 bits, does not
/// print.
#[must_use]
pub fn is_rounded_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.len() < MIN_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return false;
    }
    // A double prints as the shortest digits that mean it, and then zeros.
    digits.len() > MAX_DIGITS || text.parse::<f64>().is_ok_and(|double| format!("{double}") != text)
}

/// `true` if [`MIN_DIGITS`] digits stand together somewhere: one of every [`MIN_DIGITS`] bytes is among them.
fn has_many_digits(json: &[u8]) -> bool {
    let mut at = MIN_DIGITS - 1;
    while let Some(byte) = json.get(at) {
        if byte.is_ascii_digit() {
            let (head, tail) = json.split_at_checked(at).unwrap_or_default();
            let before = head.iter().rev().take(MIN_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
            let after = tail.iter().take(MIN_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
            if before + after >= MIN_DIGITS {
                return true;
            }
        }
        at += MIN_DIGITS;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn an_integer_that_a_double_would_round_is_found_and_no_other() {
        for digits in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901",
            "100000000000000000001",
            "99999999999999999999",
        ] {
            assert!(is_rounded_integer(digits), "{digits}");
            for json in
                [digits.to_owned(), format!("{{\"a\\\"\": [1, {digits}]}}"), format!("[\"x\",{digits},{digits}]")]
            {
                let place = rounded_integer(json.as_bytes()).unwrap_or_else(|| panic!("{json}"));
                assert_eq!(&json[place], digits, "{json}");
                let error = Value::from_json(&json).unwrap_err().to_string();
                assert!(error.contains(digits) && error.contains("as a string"), "{error}");
                assert_eq!(Value::from_json_slice(json.as_bytes()).unwrap_err().to_string(), error);
            }
        }
        for json in [
            "18446744073709551615",
            "-9223372036854775808",
            // As JavaScript writes 1e20 and 1.2345678901234567e20.
            "100000000000000000000",
            "123456789012345670000",
            "[1e30, 123456789012345678901.5, 12345678901234567890123e-3]",
            "\"123456789012345678901\"",
            "{\"123456789012345678901\": 1}",
            "[\"\\\\\", \"\\\"123456789012345678901\"]",
            "",
        ] {
            assert_eq!(rounded_integer(json.as_bytes()), None, "{json}");
        }
        assert!(is_rounded_integer(&"9".repeat(400)));
    }

    #[test]
    fn an_integer_of_a_peer_keeps_its_digits_as_a_text() {
        let read = |json: &str| {
            let exact = with_exact_integers(json.as_bytes());
            Value::from_json_slice(&exact).unwrap().to_json()
        };
        assert_eq!(
            read(r#"{"id": -123456789012345678901, "b": [99999999999999999999, 1, 18446744073709551615]}"#),
            r#"{"id":"-123456789012345678901","b":["99999999999999999999",1,18446744073709551615]}"#
        );
        assert!(matches!(with_exact_integers(b"{\"a\": 1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn digits_are_found_wherever_they_stand() {
        for before in 0..60 {
            for digits in [18, 19, 20, 37, 38, 200] {
                let text = format!("{}{}{}", "a".repeat(before), "1".repeat(digits), "a".repeat(before % 7));
                assert_eq!(has_many_digits(text.as_bytes()), digits >= MIN_DIGITS, "{text}");
            }
        }
    }
}
