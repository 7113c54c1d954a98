//! Tokens to a postfix program, with an explicit stack of what is still open.
//!
//! ```text
//! or      := and ("||" and)*
//! and     := compare ("&&" compare)*
//! compare := unary [("==" | "!=" | ">" | ">=" | "<" | "<=" | "contains") unary]
//! unary   := "!" unary | primary
//! primary := "(" or ")" | "$ref" postfix* | number | string | "true" | "false" | "null"
//! postfix := "." (identifier | number | "$ref") | "[" or "]"
//! ```

use super::{
    ExprError, ExprErrorKind,
    lex::{Kind, Token, lex},
};
use crate::js;
use opcell_types::{
    Value,
    value::{NumberKind, is_rounded_integer, rounded_message},
};
use std::sync::Arc;

/// One instruction; operands come off a stack of values.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Literal(Value),
    Root(Root),
    /// Fails when it is reached, not when it is parsed.
    UnknownRoot(Arc<str>),
    Property(Arc<str>),
    Index,
    Not,
    Compare(Comparison),
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Inputs,
    Steps,
    Item,
    Index,
    Result,
}

impl Root {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "inputs" => Self::Inputs,
            "steps" => Self::Steps,
            "item" => Self::Item,
            "index" => Self::Index,
            "result" => Self::Result,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Steps => "steps",
            Self::Item => "item",
            Self::Index => "index",
            Self::Result => "result",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Contains,
}

impl Comparison {
    fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Eq => Self::Equal,
            Kind::Neq => Self::NotEqual,
            Kind::Gt => Self::Greater,
            Kind::Gte => Self::GreaterOrEqual,
            Kind::Lt => Self::Less,
            Kind::Lte => Self::LessOrEqual,
            Kind::Contains => Self::Contains,
            _ => return None,
        })
    }
}

/// An operator or bracket that waits for its right side or its closing bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Paren,
    Bracket,
    Or,
    And,
    Compare(Comparison),
    Not,
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
    program: Vec<Op>,
    open: Vec<Open>,
}

fn error(message: String, token: &Token) -> ExprError {
    ExprError { kind: ExprErrorKind::Parse, message, position: Some(token.position) }
}

/// A number as a value: integers of 64 bits whole, `5.0` an integer as in JavaScript. A longer one would be compared as
/// another one.
fn literal(token: &Token) -> Result<Value, ExprError> {
    if is_rounded_integer(&token.text) {
        return Err(error(rounded_message(&token.text), token));
    }
    let number = js::parse_number(&token.text);
    Ok(match number.kind() {
        NumberKind::Float(n) => js::number(n),
        NumberKind::Integer(_) | NumberKind::Unsigned(_) => Value::Number(number),
    })
}

fn shown(token: &Token) -> String {
    format!("{} (\"{}\")", token.kind.name(), token.text)
}

pub(super) fn parse(text: &str) -> Result<Vec<Op>, ExprError> {
    let tokens = lex(text)?;
    let mut parser = Parser { program: Vec::with_capacity(tokens.len()), tokens: tokens.into_iter(), open: Vec::new() };
    loop {
        let mut next = parser.operand()?;
        loop {
            match parser.after_operand(next)? {
                After::Operand => break,
                After::Closed(token) => next = token,
                After::End => return Ok(parser.program),
            }
        }
    }
}

enum After {
    /// An operator was read: its right side follows.
    Operand,
    /// A bracket was closed: here is what follows it.
    Closed(Token),
    /// The whole text was read.
    End,
}

impl Parser {
    /// The next token; after the last one, the end again.
    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token { kind: Kind::Eof, text: "".into(), position: 0 })
    }

    /// Reads prefixes and one primary with its postfixes up to an opening bracket; gives the token after it.
    fn operand(&mut self) -> Result<Token, ExprError> {
        loop {
            let token = self.next();
            let value = match token.kind {
                Kind::Not => {
                    self.open.push(Open::Not);
                    continue;
                }
                Kind::LParen => {
                    self.open.push(Open::Paren);
                    continue;
                }
                Kind::DollarRef => {
                    self.program.push(Root::of(&token.text).map_or(Op::UnknownRoot(token.text), Op::Root));
                    let Some(after) = self.postfixes()? else { continue };
                    return Ok(after);
                }
                Kind::Number => literal(&token)?,
                Kind::String => Value::from(token.text),
                Kind::Boolean => Value::Bool(token.text.as_ref() == "true"),
                Kind::Null => Value::Null,
                _ => return Err(error(format!("Unexpected token: {}", shown(&token)), &token)),
            };
            self.program.push(Op::Literal(value));
            return Ok(self.next());
        }
    }

    /// Reads `.name` and the like; `None` when a `[` was opened, whose inside is an operand.
    fn postfixes(&mut self) -> Result<Option<Token>, ExprError> {
        loop {
            let token = self.next();
            match token.kind {
                Kind::Dot => {
                    let name = self.next();
                    match name.kind {
                        Kind::Identifier | Kind::Number | Kind::DollarRef => self.program.push(Op::Property(name.text)),
                        kind => {
                            return Err(error(format!("Expected property name after '.', got {}", kind.name()), &name));
                        }
                    }
                }
                Kind::LBracket => {
                    self.open.push(Open::Bracket);
                    return Ok(None);
                }
                _ => return Ok(Some(token)),
            }
        }
    }

    /// Closes what the operand completes, then takes the token that follows it.
    fn after_operand(&mut self, token: Token) -> Result<After, ExprError> {
        self.emit_while(|open| matches!(open, Open::Not));
        if let Some(comparison) = Comparison::of(token.kind)
            && !matches!(self.open.last(), Some(Open::Compare(_)))
        {
            self.open.push(Open::Compare(comparison));
            return Ok(After::Operand);
        }
        match token.kind {
            Kind::And => {
                self.emit_while(|open| matches!(open, Open::Compare(_) | Open::And));
                self.open.push(Open::And);
                return Ok(After::Operand);
            }
            Kind::Or => {
                self.emit_while(|open| matches!(open, Open::Compare(_) | Open::And | Open::Or));
                self.open.push(Open::Or);
                return Ok(After::Operand);
            }
            _ => self.emit_while(|open| !matches!(open, Open::Paren | Open::Bracket)),
        }
        match (self.open.pop(), token.kind) {
            (Some(Open::Paren), Kind::RParen) => Ok(After::Closed(self.next())),
            (Some(Open::Bracket), Kind::RBracket) => {
                self.program.push(Op::Index);
                Ok(self.postfixes()?.map_or(After::Operand, After::Closed))
            }
            (Some(Open::Paren), _) => Err(error(format!("Expected RPAREN but got {}", shown(&token)), &token)),
            (Some(_), _) => Err(error(format!("Expected RBRACKET but got {}", shown(&token)), &token)),
            (None, Kind::Eof) => Ok(After::End),
            (None, _) => Err(error(format!("Unexpected token after expression: {}", shown(&token)), &token)),
        }
    }

    fn emit_while(&mut self, complete: impl Fn(Open) -> bool) {
        while let Some(open) = self.open.pop_if(|open| complete(*open)) {
            match open {
                Open::Not => self.program.push(Op::Not),
                Open::Compare(comparison) => self.program.push(Op::Compare(comparison)),
                Open::And => self.program.push(Op::And),
                Open::Or => self.program.push(Op::Or),
                Open::Paren | Open::Bracket => {}
            }
        }
    }
}
