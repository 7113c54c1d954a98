//! The meaning of one token: numbers, names, characters.

use super::{
    error::Problem,
    node::{Kind, Name},
};
use regex::Regex;
use std::sync::LazyLock;

/// Java's `Character.isWhitespace`, and the comma.
pub(super) fn is_whitespace(c: char) -> bool {
    match c {
        ',' | '\t'..='\r' | '\u{1c}'..='\u{1f}' => true,
        // Non-breaking spaces and U+0085 are not whitespace to Java.
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    }
}

/// Characters that end a token.
pub(super) fn is_terminating(c: char) -> bool {
    matches!(c, '"' | ';' | '^' | '(' | ')' | '[' | ']' | '{' | '}' | '\\')
}

/// Characters that no token may hold.
pub(super) fn is_forbidden(c: char) -> bool {
    matches!(c, '@' | '`' | '~')
}

/// Returns the meaning of a token that is not a number.
pub(super) fn word(token: &str) -> Result<Kind, Problem> {
    match token {
        "nil" => return Ok(Kind::Nil),
        "true" => return Ok(Kind::Bool(true)),
        "false" => return Ok(Kind::Bool(false)),
        _ => {}
    }
    let invalid = || Problem::InvalidToken(token.to_owned());
    if token.get(1..).is_some_and(|rest| rest.contains("::")) || token.starts_with("::") || token.ends_with(':') {
        return Err(invalid());
    }
    match token.strip_prefix(':') {
        Some(name) if is_name(name, true) => Ok(Kind::Keyword(Name::new(name))),
        None if is_name(token, false) => Ok(Kind::Symbol(Name::new(token))),
        _ => Err(invalid()),
    }
}

/// `[namespace/]name`; neither part is empty, and outside keywords neither starts with a digit.
fn is_name(text: &str, keyword: bool) -> bool {
    let starts_well = |part: &str, digits: bool| part.chars().next().is_some_and(|c| digits || !c.is_numeric());
    if text == "/" {
        return true;
    }
    match text.rsplit_once('/') {
        None => starts_well(text, keyword),
        // `ns//` names the symbol `/` of a namespace.
        Some((namespace, "")) => {
            namespace.strip_suffix('/').is_some_and(|ns| !ns.is_empty() && starts_well(ns, keyword))
        }
        Some((namespace, name)) => {
            !namespace.ends_with(':')
                && !namespace.starts_with('/')
                && starts_well(namespace, keyword)
                && starts_well(name, false)
        }
    }
}

/// Returns `true` if a token is read as a number.
pub(super) fn looks_numeric(token: &str) -> bool {
    let digits = token.strip_prefix(['+', '-']).unwrap_or(token);
    digits.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the meaning of a numeric token.
pub(super) fn number(token: &str) -> Result<Kind, Problem> {
    let invalid = || Problem::InvalidNumber(token.to_owned());
    let (negative, digits) = match token.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, token.strip_prefix('+').unwrap_or(token)),
    };
    if let Some((numerator, denominator)) = digits.split_once('/') {
        return ratio(negative, numerator, denominator, token);
    }
    let (body, big) = match digits.strip_suffix('N') {
        Some(body) => (body, true),
        None => (digits, false),
    };
    if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        return integer(negative, hex, 16).ok_or_else(invalid);
    }
    if let Some((radix, rest)) = body.split_once(['r', 'R'])
        && let Ok(radix @ 2..=36) = radix.parse::<u32>()
    {
        return integer(negative, rest, radix).ok_or_else(invalid);
    }
    if body.bytes().all(|b| b.is_ascii_digit()) {
        return match body.strip_prefix('0') {
            Some("") | None => integer(negative, body, 10).ok_or_else(invalid),
            Some(octal) => integer(negative, octal, 8).ok_or_else(invalid),
        };
    }
    if big || !is_float(digits.strip_suffix('M').unwrap_or(digits)) {
        return Err(invalid());
    }
    match digits.strip_suffix('M') {
        Some(_) => Ok(Kind::Decimal(token.strip_suffix('M').unwrap_or(token).into())),
        None => token.parse().map(Kind::Float).map_err(|_| invalid()),
    }
}

/// `digits[.digits][e±digits]`, what follows the point optional.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    !whole.is_empty()
        && all_digits(whole)
        && all_digits(fraction)
        && exponent.is_none_or(|e| {
            let e = e.strip_prefix(['+', '-']).unwrap_or(e);
            !e.is_empty() && all_digits(e)
        })
}

fn integer(negative: bool, digits: &str, radix: u32) -> Option<Kind> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let sign = if negative { "-" } else { "" };
    Some(match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(n) => Kind::Integer(n),
        // Kept as text: nothing here computes with integers this large.
        Err(_) if radix == 10 => Kind::BigInteger(format!("{sign}{digits}").into()),
        Err(_) => match i128::from_str_radix(&format!("{sign}{digits}"), radix) {
            Ok(n) => Kind::BigInteger(n.to_string().into()),
            Err(_) => return None,
        },
    })
}

fn ratio(negative: bool, numerator: &str, denominator: &str, token: &str) -> Result<Kind, Problem> {
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(numerator) || !all_digits(denominator) {
        return Err(Problem::InvalidNumber(token.to_owned()));
    }
    if denominator.bytes().all(|b| b == b'0') {
        return Err(Problem::ZeroDenominator(token.to_owned()));
    }
    let sign = if negative { "-" } else { "" };
    let (Ok(n), Ok(d)) = (numerator.parse::<u64>(), denominator.parse::<u64>()) else {
        return Ok(Kind::Ratio(format!("{sign}{numerator}/{denominator}").into()));
    };
    let (mut a, mut b) = (n, d);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let (n, d) = (n / a.max(1), d / a.max(1));
    if d == 1 {
        return integer(negative, &n.to_string(), 10).ok_or_else(|| Problem::InvalidNumber(token.to_owned()));
    }
    Ok(Kind::Ratio(format!("{sign}{n}/{d}").into()))
}

/// Returns the character that follows a backslash: one character, a name, `u` and four hexadecimal digits, or `o` and
/// octal ones.
pub(super) fn character(token: &str) -> Result<char, Problem> {
    let unsupported = || Problem::UnsupportedCharacter(token.to_owned());
    let mut chars = token.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Ok(c);
    }
    match token {
        "newline" => Ok('\n'),
        "space" => Ok(' '),
        "tab" => Ok('\t'),
        "backspace" => Ok('\u{8}'),
        "formfeed" => Ok('\u{c}'),
        "return" => Ok('\r'),
        _ => {
            let (digits, radix, most) = match (token.strip_prefix('u'), token.strip_prefix('o')) {
                (Some(hex), _) if hex.chars().count() == 4 => (hex, 16, u32::from(u16::MAX)),
                (_, Some(octal)) if octal.len() <= 3 => (octal, 8, 0o377),
                _ => return Err(unsupported()),
            };
            if !digits.chars().all(|c| c.is_digit(radix)) {
                return Err(unsupported());
            }
            match u32::from_str_radix(digits, radix) {
                Ok(code) if code <= most => char::from_u32(code).ok_or_else(unsupported),
                _ => Err(unsupported()),
            }
        }
    }
}

/// `#inst`: RFC 3339, its parts optional from the right, as Clojure reads it.
pub(super) fn is_instant(text: &str) -> bool {
    static INSTANT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01])(T([01]\d|2[0-3])(:[0-5]\d(:([0-5]\d|60)(\.\d+)?)?)?)?)?)?(Z|[-+]\d\d:[0-5]\d)?$",
        )
    });
    INSTANT.is_match(text)
}

/// `#uuid`: five groups of hexadecimal digits, as Java reads it.
pub(super) fn is_uuid(text: &str) -> bool {
    static UUID: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^[0-9a-fA-F]{1,8}(-[0-9a-fA-F]{1,4}){3}-[0-9a-fA-F]{1,12}$"));
    UUID.is_match(text)
}

#[expect(clippy::expect_used, reason = "the patterns are constants of this file, and its tests use each")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}
