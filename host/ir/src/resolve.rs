//! The values of references, templates and contributions when a step starts: pure functions over the values of the run.
//!
//! Owns: path walking, projections, conversations, arguments and dynamic targets. Must not know: how a run stores its
//! results (that is [`Scope`]), models, or plugins.
//!
//! Two rules make a workflow work alike at the top and as a callee. `:path [:input]` of a workflow input that is not an
//! object is that input itself, and `:path [:original]` of a workflow original that is not an object is that original
//! itself: an author who writes `{{input}}` gets what the workflow was asked, whether the caller sent `{:input …}` or
//! plain text.

use crate::{
    expr::Expression,
    interpolate::Interpolation,
    ir::{
        Contribution, DelegateTarget, PathSegment, Projection, PromptString, SourceRef, SourceSpec, Template, ValueSpec,
    },
    print,
    reference::ReferenceError,
    template,
};
use indexmap::IndexMap;
use opcell_types::value::{MAX_BYTES, Map, Value};
use std::sync::Arc;

/// The values of a run, as one step sees them.
pub trait Scope {
    /// Returns the input of this invocation of the workflow.
    fn input(&self) -> &Value;
    /// The request that started it all, as this invocation sees it.
    fn original(&self) -> &Value;
    /// Returns the message that a conversation hands over; see [`SourceRef::Handover`].
    fn handover(&self) -> Value {
        self.input().clone()
    }
    /// An output of a step's latest visit, or of one prompt group of it; `None` when the step has not run.
    fn output(&self, step: &str, prompt: Option<&str>, key: &str) -> Option<Value>;
    /// A field of a step's yielded value; `None` when the step has not run.
    fn yielded(&self, step: &str, field: &str) -> Option<Value>;
    /// Returns the kind of a step's yielded value, `data` or `text`, known only to the run: a delegate yields what its
    /// callee does.
    fn yields(&self, _step: &str) -> Option<&'static str> {
        None
    }
    /// A run-scoped named value; `None` when it is not set.
    fn artifact(&self, name: &str) -> Option<Value>;
    /// Returns `true` if an output is declared as structured: a path that it lacks is then an error, not null.
    fn is_structured(&self, _step: &str, _key: &str) -> bool {
        false
    }
    /// A value inside a text, by the rules of the workflow's dialect.
    fn print(&self, value: &Value) -> String {
        print::edn(value)
    }
    /// Evaluates an expression.
    ///
    /// # Errors
    /// What is wrong with the expression; a scope without expressions refuses all of them.
    fn expression(&self, expression: &Expression) -> Result<Value, ResolveError> {
        Err(ResolveError::Expression {
            text: expression.text().to_owned(),
            problem: "expressions have no meaning here".to_owned(),
        })
    }
    /// Renders a text with `${…}` references.
    ///
    /// # Errors
    /// As [`Scope::expression`].
    fn interpolation(&self, text: &Interpolation) -> Result<Value, ResolveError> {
        Err(ResolveError::Expression {
            text: text.text().to_owned(),
            problem: "interpolations have no meaning here".to_owned(),
        })
    }
}

/// Why something a step needs cannot be had. The texts are psi's where psi has one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResolveError {
    /// A path into an output that is neither an object nor an array.
    #[error("Workflow source output is not structured: output `{output}` of step '{step}' is {found}")]
    NotStructured {
        /// Name of the step.
        step: Arc<str>,
        /// Its output.
        output: Arc<str>,
        /// The kind of the output.
        found: &'static str,
    },
    /// A path that a structured output lacks.
    #[error("Workflow structured output path is missing: {path} in output `{output}` of step '{step}'")]
    StructuredPathMissing {
        /// Name of the step.
        step: Arc<str>,
        /// Its output.
        output: Arc<str>,
        /// The path from there, as a document writes it.
        path: String,
    },
    /// A field that the value of a delegate does not have.
    #[error(
        "step '{step}' yielded {kind}, so its `:yield :{field}` is not available; read {{:step \"{step}\" :yield :{kind}}}"
    )]
    OtherYield {
        /// The step.
        step: Arc<str>,
        /// The requested field.
        field: Arc<str>,
        /// The kind of the value.
        kind: &'static str,
    },
    /// A template variable whose path leads nowhere.
    #[error("Template variable {{{{{name}}}}} is not resolved: {what} has nothing at {path}")]
    Unresolved {
        /// The variable.
        name: Arc<str>,
        /// The start of the path.
        what: String,
        /// The path from there, as a document writes it.
        path: String,
    },
    /// A dynamic target that is not `{:type :workflow-ref :name "…"}`.
    #[error("Dynamic delegate target must resolve to a workflow reference; got {found}")]
    NotAWorkflowRef {
        /// The value it resolved to.
        found: String,
    },
    /// A template token without a binding.
    #[error("Template token {{{{{token}}}}} is not bound in :vars")]
    UnboundToken {
        /// Its name.
        token: String,
    },
    /// Texts that would take more than [`MAX_BYTES`], one or several for one value.
    #[error("a string would take {bytes} bytes; at most {MAX_BYTES} are allowed")]
    TooLarge {
        /// Bytes that the value would have.
        bytes: u64,
    },
    /// A projection of something that is not a list of messages.
    #[error("A projection needs a transcript; got {found}")]
    NotATranscript {
        /// The kind that it has instead.
        found: &'static str,
    },
    /// References of a composition that give nothing.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// An expression that has no value.
    #[error("{problem}, in `{text}`")]
    Expression {
        /// The expression.
        text: String,
        /// The problem.
        problem: String,
    },
}

impl ResolveError {
    /// A stable name for run records.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotStructured { .. } => "source-not-structured",
            Self::StructuredPathMissing { .. } => "structured-path-missing",
            Self::OtherYield { .. } => "missing-yield-field",
            Self::Unresolved { .. } => "unresolved-variable",
            Self::NotAWorkflowRef { .. } => "not-a-workflow-ref",
            Self::UnboundToken { .. } => "unbound-token",
            Self::TooLarge { .. } => "value-too-large",
            Self::NotATranscript { .. } => "not-a-transcript",
            Self::Reference(_) => "unresolved-reference",
            Self::Expression { .. } => "expression-failed",
        }
    }

    /// The message about an input of a step, as the sequential lifecycle has it (WorkflowSkill 0.5.0).
    #[must_use]
    pub fn of_input(&self, step: &str, input: &str) -> String {
        match self {
            Self::Expression { text, problem } => {
                format!("Step \"{step}\" input \"{input}\": failed to resolve expression {text}: {problem}")
            }
            other => format!("Step \"{step}\" input \"{input}\": {other}"),
        }
    }
}

/// The value of a source: what it refers to, then its path or projection. What is not there is null.
///
/// # Errors
/// [`ResolveError::NotStructured`], [`ResolveError::StructuredPathMissing`], [`ResolveError::NotATranscript`],
/// [`ResolveError::OtherYield`].
pub fn source(spec: &SourceSpec, scope: &impl Scope) -> Result<Value, ResolveError> {
    lookup(spec, scope).map(Option::unwrap_or_default)
}

/// The same; `None` when a path leads nowhere in something that exists. What a step that has not run would give is
/// null.
fn lookup(spec: &SourceSpec, scope: &impl Scope) -> Result<Option<Value>, ResolveError> {
    let whole = match &spec.from {
        SourceRef::WorkflowInput => Some(scope.input().clone()),
        SourceRef::WorkflowOriginal => Some(scope.original().clone()),
        SourceRef::Handover => Some(scope.handover()),
        SourceRef::Output { step, prompt, output } => scope.output(step, prompt.as_deref(), output),
        SourceRef::Yield { step, field } => match scope.yields(step) {
            Some(kind) if kind != field.as_ref() => {
                return Err(ResolveError::OtherYield { step: step.clone(), field: field.clone(), kind });
            }
            _ => scope.yielded(step, field),
        },
        SourceRef::Artifact { artifact } => scope.artifact(artifact),
    };
    let Some(whole) = whole else {
        return Ok(Some(match &spec.projection {
            Some(projection) if spec.path.is_none() => project(&Value::Null, projection)?,
            _ => Value::Null,
        }));
    };
    match (&spec.path, &spec.projection) {
        (Some(path), _) => part(&whole, path, &spec.from, scope),
        (None, Some(projection)) => project(&whole, projection).map(Some),
        (None, None) => Ok(Some(whole)),
    }
}

fn part(
    whole: &Value,
    path: &[PathSegment],
    from: &SourceRef,
    scope: &impl Scope,
) -> Result<Option<Value>, ResolveError> {
    if path.is_empty() {
        return Ok(Some(whole.clone()));
    }
    let own_name = match from {
        SourceRef::WorkflowInput => Some("input"),
        SourceRef::WorkflowOriginal => Some("original"),
        _ => None,
    };
    if let (Some(name), [PathSegment::Key(key)]) = (own_name, path)
        && key.as_ref() == name
        && !matches!(whole, Value::Object(_))
    {
        return Ok(Some(whole.clone()));
    }
    if let SourceRef::Output { step, output, .. } = from {
        if !matches!(whole, Value::Object(_) | Value::Array(_) | Value::Null | Value::Undefined) {
            return Err(ResolveError::NotStructured { step: step.clone(), output: output.clone(), found: noun(whole) });
        }
        if walk(whole, path).is_none() && scope.is_structured(step, output) {
            let path = path_text(path);
            return Err(ResolveError::StructuredPathMissing { step: step.clone(), output: output.clone(), path });
        }
    }
    Ok(walk(whole, path).cloned())
}

/// Names the start of a reference, for messages.
fn what(from: &SourceRef) -> String {
    match from {
        SourceRef::WorkflowInput | SourceRef::Handover => "the workflow input".to_owned(),
        SourceRef::WorkflowOriginal => "the workflow original".to_owned(),
        SourceRef::Output { step, output, .. } => format!("output `{output}` of step '{step}'"),
        SourceRef::Yield { step, field } => format!("yielded {field} of step '{step}'"),
        SourceRef::Artifact { artifact } => format!("artifact `{artifact}`"),
    }
}

/// Names the source of a contribution's text, for messages.
#[must_use]
pub fn origin(contribution: &Contribution) -> String {
    match contribution {
        Contribution::Source(SourceSpec { from, path: Some(path), .. }) => {
            format!("{} at {}", what(from), path_text(path))
        }
        Contribution::Source(SourceSpec { from, projection: Some(_), .. }) => {
            format!("what is shown of {}", what(from))
        }
        Contribution::Source(SourceSpec { from, .. }) => what(from),
        Contribution::Template(_) => "a template".to_owned(),
        Contribution::Value { .. } => "a value".to_owned(),
    }
}

/// The part of a value that a path leads to: keys of objects, indexes of arrays.
#[must_use]
pub fn walk<'a>(whole: &'a Value, path: &[PathSegment]) -> Option<&'a Value> {
    path.iter().try_fold(whole, |value, segment| match segment {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Index(index) => match value {
            Value::Array(items) => items.get(usize::try_from(*index).ok()?),
            Value::Object(entries) => entries.get(index.to_string().as_str()),
            _ => None,
        },
    })
}

fn path_text(path: &[PathSegment]) -> String {
    let segments: Vec<String> = path
        .iter()
        .map(|segment| match segment {
            PathSegment::Key(key) => format!(":{key}"),
            PathSegment::Index(index) => index.to_string(),
        })
        .collect();
    format!("[{}]", segments.join(" "))
}

/// The JSON type of a value, as messages name it.
#[must_use]
pub fn noun(value: &Value) -> &'static str {
    match value {
        Value::Undefined | Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The part of a transcript that a projection shows. `full` takes any value as it is, null is an empty transcript.
///
/// A turn starts at a user message and runs up to the next. `tool-output: false` keeps only what was said: tool
/// messages, tool calls and blocks that are not text go, and so does a message that has nothing left.
///
/// # Errors
/// [`ResolveError::NotATranscript`] when there is something to choose from that is not an array.
pub fn project(transcript: &Value, projection: &Projection) -> Result<Value, ResolveError> {
    let (turns, tool_output) = match projection {
        Projection::None => return Ok(Value::array([])),
        Projection::Full => return Ok(transcript.clone()),
        Projection::Tail { turns, tool_output } => (*turns, tool_output.unwrap_or(true)),
    };
    let messages = match transcript {
        Value::Array(messages) => &messages[..],
        Value::Null | Value::Undefined => &[],
        other => return Err(ResolveError::NotATranscript { found: noun(other) }),
    };
    let starts: Vec<usize> =
        messages.iter().enumerate().filter(|(_, message)| role(message) == Some("user")).map(|(i, _)| i).collect();
    let skipped = starts.len().saturating_sub(usize::try_from(turns).unwrap_or(usize::MAX));
    let first = if skipped == 0 { 0 } else { starts.get(skipped).copied().unwrap_or(messages.len()) };
    let tail = messages.iter().skip(first);
    Ok(if tool_output { Value::array(tail.cloned()) } else { Value::array(tail.filter_map(without_tools)) })
}

fn role(message: &Value) -> Option<&str> {
    message.get("role").and_then(Value::as_str)
}

/// A message with only what was said; `None` when nothing was.
fn without_tools(message: &Value) -> Option<Value> {
    if !matches!(role(message), Some("user" | "assistant" | "system" | "developer")) {
        return None;
    }
    let mut entries = message.as_object()?.to_map();
    let had_calls = entries.shift_remove("tool-calls").is_some();
    match entries.get("content") {
        Some(Value::Array(blocks)) => {
            let text: Vec<Value> = blocks.iter().filter(|block| is_text_block(block)).cloned().collect();
            if text.is_empty() {
                return None;
            }
            entries.insert("content".into(), Value::array(text));
        }
        Some(Value::String(text)) if text.is_empty() && had_calls => return None,
        _ => {}
    }
    Some(Value::from(entries))
}

fn is_text_block(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text")
}

/// One message of a conversation that a step starts with.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationPart {
    /// `user`, `assistant`, `tool`, ….
    pub role: Arc<str>,
    /// The whole message: `role`, `content` (a string, or blocks with a `type`), and whatever else it came with.
    pub message: Value,
}

impl ConversationPart {
    /// A user message.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        let message = Value::object([("role", Value::from("user")), ("content", Value::from(text.into()))]);
        Self { role: "user".into(), message }
    }

    /// A message-shaped value: an object with a `role` and a `content`.
    fn from_message(value: &Value) -> Option<Self> {
        let role = role(value)?;
        value.get("content")?;
        Some(Self { role: role.into(), message: value.clone() })
    }

    /// Returns the text of the message: its content, or its text blocks joined by line breaks. `None` when it holds
    /// anything else.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self.message.get("content")? {
            Value::String(text) => Some(text.as_ref().to_owned()),
            Value::Array(blocks) => {
                let texts: Option<Vec<&str>> = blocks
                    .iter()
                    .map(|block| is_text_block(block).then(|| block.get("text").and_then(Value::as_str)).flatten())
                    .collect();
                texts.map(|texts| texts.join("\n"))
            }
            _ => None,
        }
    }
}

/// The conversation that contributions make, in author order. A template is a user message; a source is the messages it
/// gives, or one user message that prints it; null is nothing.
///
/// # Errors
/// As [`source`] and [`render`].
pub fn conversation(contributions: &[Contribution], scope: &impl Scope) -> Result<Vec<ConversationPart>, ResolveError> {
    let mut parts = Vec::with_capacity(contributions.len());
    for contribution in contributions {
        match contribution {
            Contribution::Template(template) => parts.push(ConversationPart::user(render(template, scope)?)),
            Contribution::Source(spec) => messages(&source(spec, scope)?, scope, &mut parts),
            Contribution::Value { value: spec } => match value(spec, scope)? {
                Value::Null | Value::Undefined => {}
                Value::String(text) => parts.push(ConversationPart::user(text.as_ref())),
                value => parts.push(ConversationPart::user(value.to_json())),
            },
        }
    }
    Ok(parts)
}

fn messages(value: &Value, scope: &impl Scope, parts: &mut Vec<ConversationPart>) {
    if value.is_nullish() {
        return;
    }
    if let Some(part) = ConversationPart::from_message(value) {
        parts.push(part);
        return;
    }
    let spliced: Option<Vec<ConversationPart>> =
        value.as_array().and_then(|items| items.iter().map(ConversationPart::from_message).collect());
    match spliced {
        Some(spliced) => parts.extend(spliced),
        None => parts.push(ConversationPart::user(scope.print(value))),
    }
}

/// Splits a conversation into what the session already knows and what it is asked: the text of the last message when a
/// user says it, else nothing.
#[must_use]
pub fn split(mut parts: Vec<ConversationPart>) -> (Vec<ConversationPart>, String) {
    let prompt = parts.last().filter(|part| part.role.as_ref() == "user").and_then(ConversationPart::text);
    match prompt {
        Some(prompt) => {
            parts.pop();
            (parts, prompt)
        }
        None => (parts, String::new()),
    }
}

/// The text of a template.
///
/// # Errors
/// [`ResolveError::UnboundToken`], [`ResolveError::Unresolved`], or what [`source`] says about a variable.
pub fn render(template: &Template, scope: &impl Scope) -> Result<String, ResolveError> {
    let mut texts: IndexMap<&str, String> = IndexMap::with_capacity(template.vars.len());
    let mut bytes = template.text.len() as u64;
    let mut bounded = |more: u64| {
        bytes = bytes.saturating_add(more);
        if bytes > MAX_BYTES { Err(ResolveError::TooLarge { bytes }) } else { Ok(()) }
    };
    for (name, spec) in &template.vars {
        let value = lookup(spec, scope)?.ok_or_else(|| ResolveError::Unresolved {
            name: name.clone(),
            what: what(&spec.from),
            path: path_text(spec.path.as_deref().unwrap_or_default()),
        })?;
        bounded(value.measure().bytes())?;
        texts.insert(name, scope.print(&value));
    }
    // A token may be there many times.
    for token in template::tokens(&template.text, |name| texts.contains_key(name)) {
        bounded(texts.get(token.name).map_or(0, |text| text.len() as u64))?;
    }
    template::render(&template.text, |name| texts.get(name).map(String::as_str))
        .map_err(|token| ResolveError::UnboundToken { token })
}

/// A value from wherever it comes.
///
/// # Errors
/// As [`source`], [`render`] and the scope's own.
pub fn value(spec: &ValueSpec, scope: &impl Scope) -> Result<Value, ResolveError> {
    match spec {
        ValueSpec::Literal { value } => Ok(value.clone()),
        ValueSpec::Source(spec) => source(spec, scope),
        ValueSpec::Expression { expression } => scope.expression(expression),
        ValueSpec::Interpolation { interpolation } => scope.interpolation(interpolation),
        ValueSpec::Template(template) => render(template, scope).map(Value::from),
        ValueSpec::Fields { fields } => args(fields, scope).map(Value::from),
        ValueSpec::Items { items } => {
            let mut made = ValueBudget::default();
            let items: Result<Vec<Value>, _> =
                items.iter().map(|item| made.counted(item, value(item, scope)?)).collect();
            items.map(Value::array)
        }
    }
}

/// Bytes of the texts that were put together for the parts of one value. Each is bounded by itself; many would not be.
#[derive(Debug, Default)]
pub struct ValueBudget(u64);

impl ValueBudget {
    /// A part that was made as the specification says. What is only referred to takes nothing.
    ///
    /// # Errors
    /// When all of them take too much.
    pub fn counted(&mut self, spec: &ValueSpec, value: Value) -> Result<Value, ResolveError> {
        match spec {
            ValueSpec::Literal { .. } | ValueSpec::Source(_) | ValueSpec::Expression { .. } => {}
            ValueSpec::Interpolation { .. }
            | ValueSpec::Template(_)
            | ValueSpec::Fields { .. }
            | ValueSpec::Items { .. } => {
                self.0 = self.0.saturating_add(value.measure().bytes());
                if self.0 > MAX_BYTES {
                    return Err(ResolveError::TooLarge { bytes: self.0 });
                }
            }
        }
        Ok(value)
    }
}

/// Named arguments.
///
/// # Errors
/// As [`value`].
pub fn args(specs: &IndexMap<Arc<str>, ValueSpec>, scope: &impl Scope) -> Result<Map, ResolveError> {
    let mut made = ValueBudget::default();
    specs.iter().map(|(name, spec)| Ok((name.into(), made.counted(spec, value(spec, scope)?)?))).collect()
}

/// Resolves the request to a delegated workflow: text, or an object of named values.
///
/// # Errors
/// As [`render`] and [`args`].
pub fn prompt_string(prompt: &PromptString, scope: &impl Scope) -> Result<Value, ResolveError> {
    match prompt {
        PromptString::Text(text) => Ok(Value::from(text.clone())),
        PromptString::Template(template) => render(template, scope).map(Value::from),
        PromptString::Fields { fields } => args(fields, scope).map(Value::from),
        PromptString::Source(spec) => source(spec, scope),
    }
}

/// Resolves the original of a delegated workflow: the array of the values of its context, in order, null included.
///
/// # Errors
/// As [`source`] and [`render`].
pub fn context(contributions: &[Contribution], scope: &impl Scope) -> Result<Value, ResolveError> {
    let values: Result<Vec<Value>, ResolveError> = contributions
        .iter()
        .map(|contribution| match contribution {
            Contribution::Source(spec) => source(spec, scope),
            Contribution::Template(template) => render(template, scope).map(Value::from),
            Contribution::Value { value: spec } => value(spec, scope),
        })
        .collect();
    values.map(Value::array)
}

/// The name of the workflow that a delegate step calls.
///
/// # Errors
/// [`ResolveError::NotAWorkflowRef`] when a dynamic target is anything but `{"type": "workflow-ref", "name": "…"}`.
pub fn target(target: &DelegateTarget, scope: &impl Scope) -> Result<Arc<str>, ResolveError> {
    let spec = match target {
        DelegateTarget::Name(name) => return Ok(name.clone()),
        DelegateTarget::Dynamic(spec) => spec,
    };
    let value = source(spec, scope)?;
    match (value.get("type").and_then(Value::as_str), value.get("name")) {
        (Some("workflow-ref"), Some(Value::String(name))) => Ok(name.into()),
        _ => Err(ResolveError::NotAWorkflowRef { found: print::edn_form(&value) }),
    }
}

#[cfg(test)]
mod tests;
