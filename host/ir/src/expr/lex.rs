//! Text to tokens. Positions count UTF-16 code units, as the reference runtime's do.

use super::{ExprError, ExprErrorKind};
use crate::js;
use std::sync::Arc;

/// A token's kind, named as the reference's messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    DollarRef,
    Dot,
    LParen,
    RParen,
    LBracket,
    RBracket,
    Eq,
    Neq,
    Gte,
    Lte,
    And,
    Or,
    Gt,
    Lt,
    Not,
    Number,
    String,
    Identifier,
    Boolean,
    Null,
    Contains,
    Eof,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DollarRef => "DOLLAR_REF",
            Self::Dot => "DOT",
            Self::LParen => "LPAREN",
            Self::RParen => "RPAREN",
            Self::LBracket => "LBRACKET",
            Self::RBracket => "RBRACKET",
            Self::Eq => "EQ",
            Self::Neq => "NEQ",
            Self::Gte => "GTE",
            Self::Lte => "LTE",
            Self::And => "AND",
            Self::Or => "OR",
            Self::Gt => "GT",
            Self::Lt => "LT",
            Self::Not => "NOT",
            Self::Number => "NUMBER",
            Self::String => "STRING",
            Self::Identifier => "IDENTIFIER",
            Self::Boolean => "BOOLEAN",
            Self::Null => "NULL",
            Self::Contains => "CONTAINS",
            Self::Eof => "EOF",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub kind: Kind,
    /// Strings without quotes and escapes, references without `$`, everything else as written.
    pub text: Arc<str>,
    pub position: usize,
}

struct Chars<'a> {
    rest: &'a str,
    position: usize,
}

impl<'a> Chars<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn second(&self) -> Option<char> {
        self.rest.chars().nth(1)
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        self.position += c.len_utf16();
        Some(c)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.position += taken.encode_utf16().count();
        taken
    }
}

fn error(message: impl Into<String>, position: usize) -> ExprError {
    ExprError { kind: ExprErrorKind::Lex, message: message.into(), position: Some(position) }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// All tokens; the last is `Eof`.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, ExprError> {
    let mut chars = Chars { rest: text, position: 0 };
    let mut tokens = Vec::new();
    loop {
        chars.take_while(js::is_space);
        let position = chars.position;
        let Some(c) = chars.peek() else { break };
        let (kind, text) = match c {
            '$' => {
                chars.next();
                let name = chars.take_while(|c| c.is_ascii_alphabetic() || c == '_');
                if name.is_empty() {
                    return Err(error("Expected identifier after $", position));
                }
                (Kind::DollarRef, name.into())
            }
            '\'' | '"' => (Kind::String, string(&mut chars, c)?),
            c if c.is_ascii_digit() || (c == '-' && chars.second().is_some_and(|c| c.is_ascii_digit())) => {
                (Kind::Number, number(&mut chars))
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let word = chars.take_while(is_word);
                let kind = match word {
                    "true" | "false" => Kind::Boolean,
                    "null" => Kind::Null,
                    "contains" => Kind::Contains,
                    _ => Kind::Identifier,
                };
                (kind, word.into())
            }
            c => symbol(&mut chars, c)?,
        };
        tokens.push(Token { kind, text, position });
    }
    tokens.push(Token { kind: Kind::Eof, text: "".into(), position: chars.position });
    Ok(tokens)
}

fn symbol(chars: &mut Chars<'_>, first: char) -> Result<(Kind, Arc<str>), ExprError> {
    let double = match (first, chars.second()) {
        ('=', Some('=')) => Some((Kind::Eq, "==")),
        ('!', Some('=')) => Some((Kind::Neq, "!=")),
        ('>', Some('=')) => Some((Kind::Gte, ">=")),
        ('<', Some('=')) => Some((Kind::Lte, "<=")),
        ('&', Some('&')) => Some((Kind::And, "&&")),
        ('|', Some('|')) => Some((Kind::Or, "||")),
        _ => None,
    };
    if let Some((kind, text)) = double {
        chars.next();
        chars.next();
        return Ok((kind, text.into()));
    }
    let (kind, text) = match first {
        '.' => (Kind::Dot, "."),
        '(' => (Kind::LParen, "("),
        ')' => (Kind::RParen, ")"),
        '[' => (Kind::LBracket, "["),
        ']' => (Kind::RBracket, "]"),
        '>' => (Kind::Gt, ">"),
        '<' => (Kind::Lt, "<"),
        '!' => (Kind::Not, "!"),
        // The reference reads code units, so that it shows half of a character beyond U+FFFF.
        c => {
            let shown = if c.len_utf16() == 1 { c } else { char::REPLACEMENT_CHARACTER };
            return Err(error(format!("Unexpected character: {shown}"), chars.position));
        }
    };
    chars.next();
    Ok((kind, text.into()))
}

/// `-?\d+(\.\d*)?`
fn number(chars: &mut Chars<'_>) -> Arc<str> {
    let mut text = String::new();
    if chars.peek() == Some('-') {
        chars.next();
        text.push('-');
    }
    text.push_str(chars.take_while(|c| c.is_ascii_digit()));
    if chars.peek() == Some('.') {
        chars.next();
        text.push('.');
        text.push_str(chars.take_while(|c| c.is_ascii_digit()));
    }
    text.into()
}

/// A backslash makes the next character literal: `\n` is `n`.
fn string(chars: &mut Chars<'_>, quote: char) -> Result<Arc<str>, ExprError> {
    let start = chars.position;
    chars.next();
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok(text.into()),
            '\\' => match chars.next() {
                Some(c) => text.push(c),
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(error("Unterminated string literal", start))
}
