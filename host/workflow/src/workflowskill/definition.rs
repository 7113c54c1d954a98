//! A WorkflowSkill document after its schema was checked: everything the language knows, with its place, and nothing
//! else.

use opcell_ir::{js, source::Span};
use opcell_types::value::{Map, Value};
use std::sync::Arc;

/// A workflow as authored.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// The inputs of a run.
    pub inputs: Vec<Field>,
    /// The outputs of a run.
    pub outputs: Vec<Field>,
    /// At least one, in authored order.
    pub steps: Vec<StepDefinition>,
}

/// A declared input or output. A workflow input's value is its `default`; any other's is its `value`.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: Text,
    /// `string`, `int`, `float`, `boolean`, `array` or `object`.
    pub kind: Text,
    /// Its value or default; absent and null differ.
    pub value: Option<Value>,
    /// The place of the value, or else of the name.
    pub value_span: Span,
    /// The shape of an array's items.
    pub items: Option<Value>,
    /// The shapes of an object's properties.
    pub properties: Option<Value>,
}

/// A text and its place.
#[derive(Debug, Clone)]
pub struct Text {
    /// The text.
    pub text: Arc<str>,
    /// The place.
    pub span: Span,
    /// The YAML tag before it, if it has one: what an unquoted `!` became.
    pub tag: Option<Arc<str>>,
}

/// A step as authored.
#[derive(Debug, Clone)]
pub struct StepDefinition {
    /// Its name.
    pub id: Text,
    /// The place of the whole step.
    pub span: Span,
    /// One sentence.
    pub description: Option<Text>,
    /// By name.
    pub inputs: Vec<Field>,
    /// By name.
    pub outputs: Vec<Field>,
    /// A guard; what a conditional decides by.
    pub condition: Option<Text>,
    /// The list to repeat the step over.
    pub each: Option<Text>,
    /// Between two elements.
    pub delay: Option<Text>,
    /// `fail` or `ignore`.
    pub on_error: Option<Text>,
    /// The rule for repeating failed tool calls.
    pub retry: Option<RetryDefinition>,
    /// The body, which says how the step executes.
    pub body: Body,
    /// Opcell's additions, under `x-opcell`.
    pub extension: Extension,
}

/// The rule for repeating failed tool calls.
#[derive(Debug, Clone)]
pub struct RetryDefinition {
    /// Attempts after the first.
    pub max: f64,
    /// Before the first retry.
    pub delay: Text,
    /// Factor from one to the next.
    pub backoff: f64,
}

/// The settings of a step under `x-opcell`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Extension {
    /// Wall time of one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Elements of `each` in flight at once.
    pub concurrency: Option<u32>,
}

/// The body of a step.
#[derive(Debug, Clone)]
pub enum Body {
    /// Calls a tool.
    Tool {
        /// Name of the tool.
        tool: Text,
    },
    /// Keeps elements.
    Filter {
        /// Those for which this holds.
        condition: Text,
    },
    /// Makes a new element of each.
    Map {
        /// An object.
        expression: Value,
        /// The place.
        span: Span,
    },
    /// Orders elements.
    Sort {
        /// By what.
        field: Text,
        /// `asc` or `desc`.
        direction: Option<Text>,
    },
    /// Chooses between groups of steps, by the step's condition.
    Conditional {
        /// If it holds.
        then: Vec<Text>,
        /// If it does not.
        otherwise: Option<Vec<Text>>,
    },
    /// Ends the run.
    Exit {
        /// `success` or `failed`.
        status: Text,
        /// With what: a string or an object.
        output: Option<Value>,
        /// The place of the output, or else of the step.
        output_span: Span,
    },
}

impl StepDefinition {
    /// `tool`, `transform`, `conditional` or `exit`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.body {
            Body::Tool { .. } => "tool",
            Body::Filter { .. } | Body::Map { .. } | Body::Sort { .. } => "transform",
            Body::Conditional { .. } => "conditional",
            Body::Exit { .. } => "exit",
        }
    }

    /// The steps that a conditional may choose, `then` before `else`.
    pub fn branch_steps(&self) -> impl Iterator<Item = &Text> {
        let (then, otherwise) = match &self.body {
            Body::Conditional { then, otherwise } => (then.as_slice(), otherwise.as_deref().unwrap_or_default()),
            _ => (&[][..], &[][..]),
        };
        then.iter().chain(otherwise)
    }

    /// A text that counts: the reference takes an empty one as absent.
    pub(super) fn present(text: Option<&Text>) -> Option<&Text> {
        text.filter(|text| !text.text.is_empty())
    }
}

impl Definition {
    /// The document's data without places and without what the language does not know, as the reference's parser
    /// returns it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::object([
            ("inputs", fields(&self.inputs, "default")),
            ("outputs", fields(&self.outputs, "value")),
            ("steps", Value::array(self.steps.iter().map(step))),
        ])
    }
}

fn text(text: &Text) -> Value {
    Value::from(text.text.clone())
}

fn fields(fields: &[Field], value_key: &'static str) -> Value {
    let mut all: Map = fields.iter().map(|f| (f.name.text.as_ref().into(), field(f, value_key))).collect();
    js::order_keys(&mut all);
    Value::from(all)
}

fn field(field: &Field, value_key: &'static str) -> Value {
    let entries = [
        ("type", Some(text(&field.kind))),
        (value_key, field.value.clone()),
        ("items", field.items.clone()),
        ("properties", field.properties.clone()),
    ];
    present(entries)
}

fn present<const N: usize>(entries: [(&'static str, Option<Value>); N]) -> Value {
    Value::object(entries.into_iter().filter_map(|(key, value)| Some((key, value?))))
}

fn step(step: &StepDefinition) -> Value {
    let retry = |retry: &RetryDefinition| {
        Value::object([
            ("max", js::number(retry.max)),
            ("delay", text(&retry.delay)),
            ("backoff", js::number(retry.backoff)),
        ])
    };
    let texts = |texts: &[Text]| Value::array(texts.iter().map(text));
    let (operation, condition, expression, sort_field, direction) = match &step.body {
        Body::Filter { condition } => (Some("filter".into()), Some(text(condition)), None, None, None),
        Body::Map { expression, .. } => (Some("map".into()), None, Some(expression.clone()), None, None),
        Body::Sort { field, direction } => {
            (Some("sort".into()), None, None, Some(text(field)), direction.as_ref().map(text))
        }
        _ => (None, None, None, None, None),
    };
    let (tool, then, otherwise, status, output) = match &step.body {
        Body::Tool { tool } => (Some(text(tool)), None, None, None, None),
        Body::Conditional { then, otherwise } => (None, Some(texts(then)), otherwise.as_deref().map(texts), None, None),
        Body::Exit { status, output, .. } => (None, None, None, Some(text(status)), output.clone()),
        _ => (None, None, None, None, None),
    };
    present([
        ("id", Some(text(&step.id))),
        ("type", Some(step.kind().into())),
        ("description", step.description.as_ref().map(text)),
        ("inputs", Some(fields(&step.inputs, "value"))),
        ("outputs", Some(fields(&step.outputs, "value"))),
        ("condition", step.condition.as_ref().map(text)),
        ("each", step.each.as_ref().map(text)),
        ("delay", step.delay.as_ref().map(text)),
        ("on_error", step.on_error.as_ref().map(text)),
        ("retry", step.retry.as_ref().map(retry)),
        ("tool", tool),
        ("operation", operation),
        ("where", condition),
        ("expression", expression),
        ("field", sort_field),
        ("direction", direction),
        ("then", then),
        ("else", otherwise),
        ("status", status),
        ("output", output),
    ])
}
