//! The expression language: WorkflowSkill's, offered to every document.
//!
//! An [`Expression`] is compiled once, when its document is read, into a flat postfix [`program`](parse), and evaluated
//! any number of times against a borrowed [`Context`]. Both operands of `&&` and `||` are always evaluated, so a
//! program has no jumps. Neither compiling nor evaluating recurses: depth costs memory, never stack.

mod eval;
mod lex;
mod parse;

use opcell_types::Value;
use parse::Op;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub use eval::is_truthy;
pub(crate) use eval::own;

/// An expression as authored. Parsing it never fails: a document may carry a wrong expression that no run ever reaches,
/// so the error is kept and returned when it is evaluated (and reported by the static checks).
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Expression {
    text: Arc<str>,
    program: Arc<Result<Vec<Op>, ExprError>>,
}

/// Why an expression has no value. The message is the reference runtime's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// The kind of the error.
    pub kind: ExprErrorKind,
    /// One sentence.
    pub message: String,
    /// The position in the expression, in UTF-16 code units; evaluation has no position.
    pub position: Option<usize>,
}

/// At which stage an expression failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExprErrorKind {
    /// A character or literal that the language does not have.
    Lex,
    /// Tokens in an order that the grammar does not have.
    Parse,
    /// A reference to something that no context holds.
    Eval,
    /// More steps than evaluations may take.
    Work,
    /// More than a value may hold.
    Size,
}

impl ExprErrorKind {
    /// The name that the reference runtime gives the error.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lex => "LexError",
            Self::Parse => "ParseExprError",
            Self::Eval | Self::Work | Self::Size => "EvalError",
        }
    }
}

/// The values that an expression can refer to. `item`, `index` and `result` are undefined where a step has none.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// `$inputs`, an object.
    pub inputs: &'a Value,
    /// `$steps`, an object of `{output}` objects by step name.
    pub steps: &'a Value,
    /// `$item`, the element of `each` or of a transform.
    pub item: &'a Value,
    /// `$index`, the element's position from 0.
    pub index: Option<usize>,
    /// `$result`, what the executor returned, in output mappings.
    pub result: &'a Value,
    /// The meter of work where an expression is evaluated for very many elements; without it nothing is counted.
    pub work: Option<&'a Work>,
}

/// Steps that evaluations may still take together: one for each instruction, element and byte that is looked at. One
/// thread counts.
#[derive(Debug)]
pub struct Work {
    /// Not a `Cell`, so that a context can be sent to another thread.
    left: AtomicU64,
    most: u64,
}

impl Work {
    /// This many steps.
    #[must_use]
    pub fn of(most: u64) -> Self {
        Self { left: AtomicU64::new(most), most }
    }

    fn spend(&self, steps: usize) -> Result<(), ExprError> {
        match self.left.load(Ordering::Relaxed).checked_sub(steps as u64) {
            Some(left) => {
                self.left.store(left, Ordering::Relaxed);
                Ok(())
            }
            None => {
                let message = format!("evaluating it for every element takes more than {} steps", self.most);
                Err(ExprError { kind: ExprErrorKind::Work, message, position: None })
            }
        }
    }
}

static UNDEFINED: Value = Value::Undefined;

impl<'a> Context<'a> {
    /// A context with inputs and finished steps only.
    #[must_use]
    pub fn new(inputs: &'a Value, steps: &'a Value) -> Self {
        Self { inputs, steps, item: &UNDEFINED, index: None, result: &UNDEFINED, work: None }
    }

    /// The same, with a count of what evaluating in it takes.
    #[must_use]
    pub fn with_work<'b>(self, work: &'b Work) -> Context<'b>
    where
        'a: 'b,
    {
        Context { work: Some(work), ..self }
    }

    /// The same with an element.
    #[must_use]
    pub fn with_item<'b>(self, item: &'b Value, index: usize) -> Context<'b>
    where
        'a: 'b,
    {
        Context { item, index: Some(index), ..self }
    }

    /// The same with an executor's result.
    #[must_use]
    pub fn with_result<'b>(self, result: &'b Value) -> Context<'b>
    where
        'a: 'b,
    {
        Context { result, ..self }
    }
}

/// A `$root` and the properties named after it, if they are constant: `$steps.fetch.output[$index]` gives
/// `steps`, `fetch`, `output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name after `$`.
    pub root: Arc<str>,
    /// Constant properties, from the outside in.
    pub path: Vec<Arc<str>>,
}

impl Expression {
    /// Takes and compiles the text of an expression.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let program = Arc::new(parse::parse(&text));
        Self { text, program }
    }

    /// The expression as authored.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the error of the expression's text, if it has one.
    #[must_use]
    pub fn syntax_error(&self) -> Option<&ExprError> {
        self.program.as_ref().as_ref().err()
    }

    /// The expression's value.
    ///
    /// # Errors
    /// When the text is not an expression, or refers to an unknown root.
    pub fn evaluate(&self, context: &Context<'_>) -> Result<Value, ExprError> {
        self.evaluate_cow(context).map(Cow::into_owned)
    }

    /// The expression's value, borrowed from the context where it is a part of it.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_cow<'a>(&'a self, context: &Context<'a>) -> Result<Cow<'a, Value>, ExprError> {
        match self.program.as_ref() {
            Ok(program) => match eval::path(program, context) {
                Some(part) => Ok(part.into_cow()),
                None => eval::Machine::new(program).run(context).map(eval::Operand::into_cow),
            },
            Err(error) => Err(error.clone()),
        }
    }

    /// The expression, to be evaluated for many elements.
    #[must_use]
    pub fn evaluation(&self) -> Evaluation<'_> {
        Evaluation(self.program.as_ref().as_ref().map(|program| eval::Machine::new(program)))
    }

    /// Returns the references of the expression, in order; none where it does not parse.
    #[must_use]
    pub fn references(&self) -> Vec<Reference> {
        let Ok(program) = self.program.as_ref() else { return Vec::new() };
        // A stack of "which reference does this operand extend", as evaluation has a stack of values.
        let mut references: Vec<Reference> = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        for op in program {
            match op {
                Op::Literal(value) => operands.push(Operand::Constant(value.as_str().map(Into::into))),
                Op::Root(root) => {
                    operands.push(Operand::Path(references.len()));
                    references.push(Reference { root: root.name().into(), path: Vec::new() });
                }
                Op::UnknownRoot(name) => {
                    operands.push(Operand::Path(references.len()));
                    references.push(Reference { root: name.clone(), path: Vec::new() });
                }
                Op::Property(key) => {
                    if let Some(Operand::Path(at)) = operands.last()
                        && let Some(reference) = references.get_mut(*at)
                    {
                        reference.path.push(key.clone());
                    }
                }
                Op::Index => {
                    let index = operands.pop();
                    let base = operands.pop();
                    operands.push(match (base, index) {
                        (Some(Operand::Path(at)), Some(Operand::Constant(Some(key)))) => {
                            if let Some(reference) = references.get_mut(at) {
                                reference.path.push(key);
                            }
                            Operand::Path(at)
                        }
                        _ => Operand::Constant(None),
                    });
                }
                Op::Not => {
                    operands.pop();
                    operands.push(Operand::Constant(None));
                }
                Op::Compare(_) | Op::And | Op::Or => {
                    operands.pop();
                    operands.pop();
                    operands.push(Operand::Constant(None));
                }
            }
        }
        references
    }
}

/// An expression that is evaluated for many elements: what it needs on the way is made once.
pub struct Evaluation<'a>(Result<eval::Machine<'a>, &'a ExprError>);

impl std::fmt::Debug for Evaluation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluation").finish_non_exhaustive()
    }
}

impl<'a> Evaluation<'a> {
    /// The expression's value, borrowed from the context where it is a part of it.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn value(&mut self, context: &Context<'a>) -> Result<Cow<'a, Value>, ExprError> {
        self.run(context).map(eval::Operand::into_cow)
    }

    /// Returns `true` if the expression's value is true as a guard or a filter takes it:
    /// [`js::is_truthy`](crate::js::is_truthy).
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn holds(&mut self, context: &Context<'a>) -> Result<bool, ExprError> {
        self.run(context).map(eval::Operand::holds)
    }

    fn run(&mut self, context: &Context<'a>) -> Result<eval::Operand<'a>, ExprError> {
        match &mut self.0 {
            Ok(machine) => machine.run(context),
            Err(error) => Err((*error).clone()),
        }
    }
}

enum Operand {
    /// The reference of this index, still growing.
    Path(usize),
    /// Anything else; the text if it is a constant one.
    Constant(Option<Arc<str>>),
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl From<String> for Expression {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests;
