//! Nodes as EDN text, the way Clojure's `pr-str` prints them.

use super::node::{Kind, Node};
use opcell_ir::print::{double, quoted};
use std::fmt;

impl fmt::Display for Node {
    /// As Clojure's `pr-str` prints it. Recursion is bounded by [`super::MAX_DEPTH`], the depth of every node that was
    /// read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Nil => f.write_str("nil"),
            Kind::Bool(b) => write!(f, "{b}"),
            Kind::Integer(n) => write!(f, "{n}"),
            Kind::BigInteger(text) => write!(f, "{text}N"),
            Kind::Float(n) => f.write_str(&double(*n)),
            Kind::Decimal(text) => write!(f, "{text}M"),
            Kind::Ratio(text) => f.write_str(text),
            Kind::Char(c) => match c {
                '\n' => f.write_str("\\newline"),
                ' ' => f.write_str("\\space"),
                '\t' => f.write_str("\\tab"),
                '\u{8}' => f.write_str("\\backspace"),
                '\u{c}' => f.write_str("\\formfeed"),
                '\r' => f.write_str("\\return"),
                c => write!(f, "\\{c}"),
            },
            Kind::String(text) => f.write_str(&quoted(text)),
            Kind::Keyword(name) => write!(f, ":{name}"),
            Kind::Symbol(name) => write!(f, "{name}"),
            Kind::List(items) => sequence(f, "(", items, ")"),
            Kind::Vector(items) => sequence(f, "[", items, "]"),
            Kind::Set(items) => sequence(f, "#{", items, "}"),
            Kind::Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{key} {value}")?;
                }
                f.write_str("}")
            }
            Kind::Tagged(tag, form) => write!(f, "#{tag} {form}"),
        }
    }
}

fn sequence(f: &mut fmt::Formatter<'_>, open: &str, items: &[Node], close: &str) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(" ")?;
        }
        write!(f, "{item}")?;
    }
    f.write_str(close)
}
