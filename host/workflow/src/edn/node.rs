//! EDN values that know where they stand.

use opcell_ir::source::Span;
use std::{fmt, sync::Arc};

/// An EDN value and its byte range.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The place of the node, brackets and sigils included.
    pub span: Span,
    /// The kind of the node, with its content.
    pub kind: Kind,
}

/// The kind of a node, with its content.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `nil`.
    Nil,
    /// `true` or `false`.
    Bool(bool),
    /// An integer that fits 64 bits.
    Integer(i64),
    /// A larger integer, as written, without its `N`.
    BigInteger(Arc<str>),
    /// A double.
    Float(f64),
    /// An exact decimal, as written, without its `M`.
    Decimal(Arc<str>),
    /// A fraction in lowest terms, or as written when it does not fit 64 bits.
    Ratio(Arc<str>),
    /// A character.
    Char(char),
    /// A string.
    String(Arc<str>),
    /// A keyword, without its colon.
    Keyword(Name),
    /// A symbol.
    Symbol(Name),
    /// `(…)`.
    List(Vec<Node>),
    /// `[…]`.
    Vector(Vec<Node>),
    /// `{…}`, in written order.
    Map(Vec<(Node, Node)>),
    /// `#{…}`, in written order.
    Set(Vec<Node>),
    /// `#tag form`.
    Tagged(Name, Box<Node>),
}

/// A symbol's or keyword's text, `name` or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    pub(super) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole text, shared.
    #[must_use]
    pub fn to_arc(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Returns `true` if the name has a namespace.
    #[must_use]
    pub fn is_qualified(&self) -> bool {
        self.0.len() > 1 && self.0.contains('/')
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Node {
    /// A node.
    #[must_use]
    pub fn new(kind: Kind, span: Span) -> Self {
        Self { span, kind }
    }

    /// A keyword node.
    #[must_use]
    pub fn keyword(text: &str, span: Span) -> Self {
        Self::new(Kind::Keyword(Name::new(text)), span)
    }

    /// A string node.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>, span: Span) -> Self {
        Self::new(Kind::String(text.into()), span)
    }

    /// Returns `true` if this is `nil`.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self.kind, Kind::Nil)
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&Arc<str>> {
        match &self.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a keyword, without its colon.
    #[must_use]
    pub fn as_keyword(&self) -> Option<&str> {
        match &self.kind {
            Kind::Keyword(name) => Some(name.as_str()),
            _ => None,
        }
    }

    /// A boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self.kind {
            Kind::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// An integer that fits 64 bits.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self.kind {
            Kind::Integer(n) => Some(n),
            _ => None,
        }
    }

    /// The items of a vector.
    #[must_use]
    pub fn as_vector(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::Vector(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a map.
    #[must_use]
    pub fn as_map(&self) -> Option<&[(Node, Node)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a map's keyword key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.iter().find(|(k, _)| k.as_keyword() == Some(key)).map(|(_, v)| v)
    }

    /// Returns the noun for this kind of value.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.kind {
            Kind::Nil => "nil",
            Kind::Bool(_) => "a boolean",
            Kind::Integer(_) | Kind::BigInteger(_) => "an integer",
            Kind::Float(_) => "a double",
            Kind::Decimal(_) => "a decimal",
            Kind::Ratio(_) => "a ratio",
            Kind::Char(_) => "a character",
            Kind::String(_) => "a string",
            Kind::Keyword(_) => "a keyword",
            Kind::Symbol(_) => "a symbol",
            Kind::List(_) => "a list",
            Kind::Vector(_) => "a vector",
            Kind::Map(_) => "a map",
            Kind::Set(_) => "a set",
            Kind::Tagged(..) => "a tagged value",
        }
    }
}
