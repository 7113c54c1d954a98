//! The language's schema: a tree to a [`Definition`], with the verdicts, paths and messages of the reference.
//!
//! The reference describes a step as a union, so that it reports almost every mistake inside one as `steps.N: Invalid
//! input`. Both are kept: the reference's list of issues, and the precise findings.

use super::{
    Issue,
    definition::{Body, Definition, Extension, Field, RetryDefinition, StepDefinition, Text},
};
use opcell_ir::{
    diagnostic::{Diagnostic, did_you_mean},
    js,
    names::MAX_NAME_BYTES,
    source::Span,
};
use opcell_types::Value;
use opcell_yaml::{Entry, Node, NodeKind};
use std::collections::HashSet;

pub(super) const TYPES: [&str; 6] = ["string", "int", "float", "boolean", "array", "object"];

/// The findings of the schema beside the definition.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// As the reference lists them.
    pub issues: Vec<Issue>,
    /// The same, precisely, and unknown keys.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a workflow. There is a definition exactly when there are no issues.
pub(super) fn read(root: &Node) -> (Option<Definition>, Findings) {
    let mut reader = Reader::default();
    let definition = reader.workflow(root);
    let Reader { found, unknown, .. } = reader;
    let mut findings = Findings::default();
    for finding in found {
        findings.diagnostics.push(
            Diagnostic::error("workflow-schema", finding.precise.unwrap_or_else(|| finding.message.clone()))
                .at(finding.span)
                .path(finding.path.clone()),
        );
        findings.issues.push(Issue { path: finding.path, message: finding.message });
    }
    collapse_steps(&mut findings.issues, &definition);
    findings.diagnostics.extend(unknown);
    let definition = if findings.issues.is_empty() { definition.workflow } else { None };
    (definition, findings)
}

/// One `Invalid input` for each step that has an issue other than a refinement's.
fn collapse_steps(issues: &mut Vec<Issue>, read: &WorkflowRead) {
    let broken: HashSet<&str> = read.broken_steps.iter().map(String::as_str).collect();
    // What a step input says of its `default` is said whatever else is wrong with the step.
    let defaults = issues.iter().filter(|issue| is_default(issue));
    let printed: HashSet<String> = defaults
        .filter_map(|issue| step_of(&issue.path).filter(|step| broken.contains(step)).map(str::to_owned))
        .collect();
    let mut seen = HashSet::new();
    issues.retain_mut(|issue| {
        let Some(step) = step_of(&issue.path).filter(|step| broken.contains(step)).map(str::to_owned) else {
            return true;
        };
        if printed.contains(&step) {
            return is_default(issue);
        }
        *issue = Issue { path: step.clone(), message: "Invalid input".to_owned() };
        seen.insert(step)
    });
}

/// The step that a path leads into: `steps.3` of `steps.3.inputs.a`.
fn step_of(path: &str) -> Option<&str> {
    let index = path.strip_prefix("steps.")?;
    let end = index.find('.').unwrap_or(index.len());
    path.get(.."steps.".len() + end)
}

fn is_default(issue: &Issue) -> bool {
    issue.message.starts_with("Step inputs do not support")
}

#[derive(Default)]
struct WorkflowRead {
    workflow: Option<Definition>,
    /// Paths of steps that do not fit the union at all.
    broken_steps: Vec<String>,
}

struct Finding {
    path: String,
    message: String,
    /// A better message than the reference's, where there is one.
    precise: Option<String>,
    span: Span,
}

#[derive(Default)]
struct Reader {
    found: Vec<Finding>,
    unknown: Vec<Diagnostic>,
    /// Findings other than refinements, so far.
    aborting: usize,
}

fn received(node: Option<&Node>) -> &'static str {
    match node.map(|node| &node.kind) {
        None => "undefined",
        Some(NodeKind::Sequence(_)) => "array",
        Some(NodeKind::Mapping(_)) => "object",
        Some(NodeKind::Scalar(Value::Null)) => "null",
        Some(NodeKind::Scalar(Value::Bool(_))) => "boolean",
        Some(NodeKind::Scalar(Value::Number(n))) if n.as_f64().is_nan() => "NaN",
        Some(NodeKind::Scalar(Value::Number(n))) if n.as_f64().is_infinite() => "Infinity",
        Some(NodeKind::Scalar(Value::Number(_))) => "number",
        Some(NodeKind::Scalar(_)) => "string",
    }
}

fn quoted(options: &[&str]) -> String {
    options.iter().map(|option| format!("\"{option}\"")).collect::<Vec<_>>().join("|")
}

/// The part of a document that is being read: its keys, and where it is.
struct Place<'a> {
    node: &'a Node,
    path: String,
}

impl<'a> Place<'a> {
    fn child(&self, key: &str) -> (Option<&'a Node>, String, Span) {
        let entry = self.node.entry(key);
        (entry.map(|entry| &entry.value), self.below(key), entry.map_or(self.node.span, |entry| entry.value.span))
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

impl Reader {
    fn abort(&mut self, path: String, message: impl Into<String>, span: Span) {
        self.aborting += 1;
        self.found.push(Finding { path, message: message.into(), precise: None, span });
    }

    fn refine(&mut self, path: String, message: impl Into<String>, span: Span) {
        self.found.push(Finding { path, message: message.into(), precise: None, span });
    }

    fn expected(&mut self, what: &str, node: Option<&Node>, path: String, span: Span) {
        let got = received(node);
        let precise = match (what, got) {
            ("string", "boolean" | "number" | "null") => {
                Some(format!("expected a string, got {got}: put the value in quotes"))
            }
            (_, "undefined") => {
                let key = path.rsplit('.').next().unwrap_or(&path);
                Some(format!("`{key}` is missing: expected {what}"))
            }
            _ => Some(format!("expected {what}, got {got}")),
        };
        self.abort(path, format!("Invalid input: expected {what}, received {got}"), span);
        if let Some(finding) = self.found.last_mut() {
            finding.precise = precise;
        }
    }

    fn option(&mut self, options: &[&str], node: Option<&Node>, path: String, span: Span) {
        let help = node.and_then(Node::as_str).and_then(|word| did_you_mean(word, options.iter().copied()));
        let message = format!("Invalid option: expected one of {}", quoted(options));
        let missing = node.is_none().then(|| {
            let key = path.rsplit('.').next().unwrap_or(&path);
            format!("`{key}` is missing: expected one of {}", quoted(options))
        });
        self.abort(path, message.clone(), span);
        if let (Some(missing), Some(finding)) = (missing, self.found.last_mut()) {
            finding.precise = Some(missing);
        }
        if let (Some(help), Some(finding)) = (help, self.found.last_mut()) {
            finding.precise = Some(format!("{message}; did you mean \"{help}\"?"));
        }
    }

    /// Warns of keys that the reference drops without a word.
    fn unknown_keys(&mut self, place: &Place<'_>, known: &[&str]) {
        for entry in place.node.entries().unwrap_or_default() {
            if known.contains(&entry.key.as_ref()) || entry.key.starts_with("x-") {
                continue;
            }
            let mut finding = Diagnostic::warning("unknown-key", format!("unknown key `{}` is ignored", entry.key))
                .at(entry.key_span)
                .path(place.below(&entry.key));
            if let Some(meant) = did_you_mean(&entry.key, known.iter().copied()) {
                finding = finding.help(format!("did you mean `{meant}`?"));
            }
            self.unknown.push(finding);
        }
    }

    fn workflow(&mut self, root: &Node) -> WorkflowRead {
        let mut read = WorkflowRead::default();
        if root.entries().is_none() {
            self.expected("object", Some(root), String::new(), root.span);
            return read;
        }
        let place = Place { node: root, path: String::new() };
        self.unknown_keys(&place, &["inputs", "outputs", "steps", "name", "description", "version"]);
        let inputs = self.fields(&place, "inputs", &["type", "default", "items", "properties"], "default");
        let outputs = self.fields(&place, "outputs", &["type", "value", "items", "properties"], "value");
        let (node, path, span) = place.child("steps");
        let Some(Node { kind: NodeKind::Sequence(items), .. }) = node else {
            self.expected("array", node, path, span);
            return read;
        };
        if items.is_empty() {
            self.refine(path, "Workflow must have at least one step", span);
        }
        let mut steps = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = format!("steps.{index}");
            let before = self.aborting;
            steps.extend(self.step(item, path.clone()));
            if self.aborting > before {
                read.broken_steps.push(path);
            }
        }
        read.workflow = Some(Definition { inputs, outputs, steps });
        read
    }

    /// Declared inputs or outputs; absent is none.
    fn fields(&mut self, place: &Place<'_>, key: &str, known: &[&str], value_key: &str) -> Vec<Field> {
        let (node, path, span) = place.child(key);
        let Some(node) = node else { return Vec::new() };
        let Some(entries) = node.entries() else {
            self.expected("record", Some(node), path, span);
            return Vec::new();
        };
        let outer = Place { node, path };
        let mut ordered: Vec<&Entry> = entries.iter().collect();
        ordered.sort_by_key(|entry| js::integer_key(&entry.key).map_or(u64::MAX, u64::from));
        ordered.into_iter().filter_map(|entry| self.field(entry, outer.below(&entry.key), known, value_key)).collect()
    }

    fn field(&mut self, entry: &Entry, path: String, known: &[&str], value_key: &str) -> Option<Field> {
        let node = &entry.value;
        if node.entries().is_none() {
            self.expected("object", Some(node), path, node.span);
            return None;
        }
        let place = Place { node, path };
        let ignored_default =
            known.contains(&"value") && place.path.starts_with("steps.") && place.path.contains(".inputs.");
        if !ignored_default {
            self.unknown_keys(&place, known);
        } else {
            self.unknown_keys(&place, &["type", "value", "default", "items", "properties"]);
        }
        let kind = self.kind(&place);
        let value = place.node.entry(value_key);
        let items = self.nested(&place, "items");
        let properties = self.properties(&place);
        if ignored_default && let Some(default) = node.entry("default") {
            let message = "Step inputs do not support \"default\" — use \"value\" to provide a value. \"default\" is only valid on workflow inputs.";
            self.refine(place.child("default").1, message, default.key_span);
        }
        Some(Field {
            name: Text { text: entry.key.clone(), span: entry.key_span, tag: None },
            kind: kind?,
            value: value.map(|entry| entry.value.to_value()),
            value_span: value.map_or(entry.key_span, |entry| entry.value.span),
            items,
            properties,
        })
    }

    fn kind(&mut self, place: &Place<'_>) -> Option<Text> {
        self.one_of(place, "type", &TYPES)
    }

    /// `{type, value?, items?, properties?}`, whose own items and properties are not looked into.
    fn nested(&mut self, place: &Place<'_>, key: &str) -> Option<Value> {
        let (node, path, _) = place.child(key);
        self.nested_in(node?, path)
    }

    fn nested_in(&mut self, node: &Node, path: String) -> Option<Value> {
        if node.entries().is_none() {
            self.expected("object", Some(node), path, node.span);
            return None;
        }
        let inner = Place { node, path };
        self.kind(&inner);
        for key in ["items", "properties"] {
            let (node, path, span) = inner.child(key);
            if let Some(node) = node
                && node.entries().is_none()
            {
                self.expected("record", Some(node), path, span);
            }
        }
        Some(only(node, &["type", "value", "items", "properties"]))
    }

    fn properties(&mut self, place: &Place<'_>) -> Option<Value> {
        let (node, path, span) = place.child("properties");
        let node = node?;
        let Some(entries) = node.entries() else {
            self.expected("record", Some(node), path, span);
            return None;
        };
        let outer = Place { node, path };
        let mut all = opcell_types::value::Map::new();
        for entry in entries {
            let value = if entry.value.as_str().is_some() {
                entry.value.to_value()
            } else {
                let before = self.found.len();
                let path = outer.below(&entry.key);
                let value = self.nested_in(&entry.value, path.clone());
                if self.found.len() > before {
                    // A union of its own: only its own path is reported.
                    self.found.truncate(before);
                    self.abort(path, "Invalid input", entry.value.span);
                }
                value.unwrap_or_default()
            };
            all.insert(entry.key.as_ref().into(), value);
        }
        js::order_keys(&mut all);
        Some(Value::from(all))
    }

    fn text(&mut self, place: &Place<'_>, key: &str, required: bool, not_empty: bool) -> Option<Text> {
        let (node, path, span) = place.child(key);
        if node.is_none() && !required {
            return None;
        }
        let text = self.string(node, path.clone(), span)?;
        if not_empty && text.text.is_empty() {
            self.refine(path, "Too small: expected string to have >=1 characters", span);
        }
        Some(text)
    }

    fn string(&mut self, node: Option<&Node>, path: String, span: Span) -> Option<Text> {
        match node {
            Some(Node { kind: NodeKind::Scalar(Value::String(text)), span, tag }) => {
                Some(Text { text: text.into(), span: *span, tag: tag.clone() })
            }
            other => {
                self.expected("string", other, path, span);
                None
            }
        }
    }

    fn one_of(&mut self, place: &Place<'_>, key: &str, options: &[&str]) -> Option<Text> {
        let (node, path, span) = place.child(key);
        match node {
            Some(Node { kind: NodeKind::Scalar(Value::String(text)), span, .. })
                if options.contains(&text.as_ref()) =>
            {
                Some(Text { text: text.into(), span: *span, tag: None })
            }
            other => {
                self.option(options, other, path, span);
                None
            }
        }
    }

    fn optional_one_of(&mut self, place: &Place<'_>, key: &str, options: &[&str]) -> Option<Text> {
        place.node.entry(key)?;
        self.one_of(place, key, options)
    }

    fn positive(&mut self, place: &Place<'_>, key: &str, whole: bool) -> Option<f64> {
        let (node, path, span) = place.child(key);
        let n = match node.map(|node| &node.kind) {
            Some(NodeKind::Scalar(Value::Number(n))) if n.as_f64().is_finite() => n.as_f64(),
            _ => {
                self.expected("number", node, path, span);
                return None;
            }
        };
        if whole && n.fract() != 0.0 {
            self.abort(path, "Invalid input: expected int, received number", span);
            return None;
        }
        if n <= 0.0 {
            self.refine(path, "Too small: expected number to be >0", span);
        }
        Some(n)
    }

    fn texts(&mut self, place: &Place<'_>, key: &str, required: bool) -> Option<Vec<Text>> {
        let (node, path, span) = place.child(key);
        let items = match node {
            None if !required => return None,
            Some(Node { kind: NodeKind::Sequence(items), .. }) => items,
            other => {
                self.expected("array", other, path, span);
                return None;
            }
        };
        if required && items.is_empty() {
            self.refine(path.clone(), "Too small: expected array to have >=1 items", span);
        }
        let read = |(index, item): (usize, &Node)| self.string(Some(item), format!("{path}.{index}"), item.span);
        Some(items.iter().enumerate().filter_map(read).collect())
    }

    fn step(&mut self, node: &Node, path: String) -> Option<StepDefinition> {
        const FIELD: [&str; 4] = ["type", "value", "items", "properties"];
        if node.entries().is_none() {
            self.expected("object", Some(node), path, node.span);
            return None;
        }
        let place = Place { node, path };
        let id = self.text(&place, "id", true, true);
        if let Some(id) = id.as_ref().filter(|id| id.text.len() > MAX_NAME_BYTES) {
            self.refine(
                place.below("id"),
                format!("Too big: expected string to have <={MAX_NAME_BYTES} bytes"),
                id.span,
            );
        }
        let kind = self.one_of(&place, "type", &["tool", "transform", "conditional", "exit"]);
        let kind = kind.as_ref().map_or("", |kind| kind.text.as_ref());
        let description = self.text(&place, "description", false, false);
        let inputs = self.fields(&place, "inputs", &FIELD, "value");
        let outputs = self.fields(&place, "outputs", &FIELD, "value");
        let condition = self.text(&place, "condition", kind == "conditional", kind == "conditional");
        let each = self.text(&place, "each", false, false);
        let delay = self.text(&place, "delay", false, false);
        let on_error = self.optional_one_of(&place, "on_error", &["fail", "ignore"]);
        let retry = self.retry(&place);
        let body = self.body(&place, kind);
        self.unknown_keys(&place, &known_keys(kind, &body));
        let extension = self.extension(&place);
        Some(StepDefinition {
            id: id?,
            span: node.span,
            description,
            inputs,
            outputs,
            condition,
            each,
            delay,
            on_error,
            retry,
            body: body?,
            extension,
        })
    }

    fn retry(&mut self, place: &Place<'_>) -> Option<RetryDefinition> {
        let (node, path, span) = place.child("retry");
        let node = node?;
        if node.entries().is_none() {
            self.expected("object", Some(node), path, span);
            return None;
        }
        let place = Place { node, path };
        self.unknown_keys(&place, &["max", "delay", "backoff"]);
        let max = self.positive(&place, "max", true);
        let delay = self.text(&place, "delay", true, false);
        let backoff = self.positive(&place, "backoff", false);
        Some(RetryDefinition { max: max?, delay: delay?, backoff: backoff? })
    }

    fn body(&mut self, place: &Place<'_>, kind: &str) -> Option<Body> {
        Some(match kind {
            "tool" => Body::Tool { tool: self.text(place, "tool", true, true)? },
            "transform" => {
                let operation = self.one_of(place, "operation", &["filter", "map", "sort"])?;
                match operation.text.as_ref() {
                    "filter" => Body::Filter { condition: self.text(place, "where", true, true)? },
                    "map" => {
                        let (node, path, span) = place.child("expression");
                        match node {
                            Some(node) if node.entries().is_some() => Body::Map { expression: node.to_value(), span },
                            other => {
                                self.expected("record", other, path, span);
                                return None;
                            }
                        }
                    }
                    _ => {
                        let field = self.text(place, "field", true, true);
                        let direction = self.optional_one_of(place, "direction", &["asc", "desc"]);
                        Body::Sort { field: field?, direction }
                    }
                }
            }
            "conditional" => {
                let then = self.texts(place, "then", true);
                let otherwise = self.texts(place, "else", false);
                Body::Conditional { then: then?, otherwise }
            }
            "exit" => {
                let status = self.one_of(place, "status", &["success", "failed"]);
                let (node, path, span) = place.child("output");
                if let Some(node) = node
                    && node.entries().is_none()
                    && node.as_str().is_none()
                {
                    self.abort(path, "Invalid input", span);
                    if let Some(finding) = self.found.last_mut() {
                        finding.precise = Some(format!("expected a string or an object, got {}", received(Some(node))));
                    }
                }
                Body::Exit { status: status?, output: node.map(Node::to_value), output_span: span }
            }
            _ => return None,
        })
    }

    /// `x-opcell: {timeout, concurrency}`. The reference ignores the key, so what is wrong in it is ours to refuse.
    fn extension(&mut self, place: &Place<'_>) -> Extension {
        let mut extension = Extension::default();
        let (node, path, _) = place.child("x-opcell");
        for entry in node.and_then(Node::entries).unwrap_or_default() {
            let path = format!("{path}.{}", entry.key);
            let wrong = |message: String| Diagnostic::error("x-opcell", message).at(entry.value.span).path(path);
            match entry.key.as_ref() {
                "timeout" => match entry.value.as_str().and_then(super::duration_ms) {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "parsed from digits; saturates"
                    )]
                    Some(ms) if ms > 0.0 => extension.timeout_ms = Some(ms as u64),
                    _ => {
                        self.unknown.push(wrong("`timeout` must be a duration such as \"500ms\" or \"30s\"".to_owned()))
                    }
                },
                "concurrency" => {
                    let n = match &entry.value.kind {
                        NodeKind::Scalar(Value::Number(n)) => n.as_f64(),
                        _ => 0.0,
                    };
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "checked against both ends"
                    )]
                    if n.fract() == 0.0 && (1.0..=1000.0).contains(&n) {
                        extension.concurrency = Some(n as u32);
                    } else {
                        self.unknown.push(wrong("`concurrency` must be a whole number from 1 to 1000".to_owned()));
                    }
                }
                other => {
                    let help = did_you_mean(other, ["timeout", "concurrency"]);
                    let finding = wrong(format!("unknown key `{}` under `x-opcell`", other));
                    self.unknown.push(match help {
                        Some(meant) => finding.help(format!("did you mean `{meant}`?")),
                        None => finding.help("`x-opcell` knows `timeout` and `concurrency`"),
                    });
                }
            }
        }
        if let Some(node) = node
            && node.entries().is_none()
        {
            self.unknown.push(Diagnostic::error("x-opcell", "`x-opcell` must be an object").at(node.span).path(path));
        }
        extension
    }
}

fn known_keys(kind: &str, body: &Option<Body>) -> Vec<&'static str> {
    let mut known =
        vec!["id", "type", "description", "inputs", "outputs", "condition", "each", "delay", "on_error", "retry"];
    known.extend(match (kind, body) {
        ("tool", _) => &["tool"][..],
        ("transform", Some(Body::Filter { .. })) => &["operation", "where"],
        ("transform", Some(Body::Map { .. })) => &["operation", "expression"],
        ("transform", Some(Body::Sort { .. })) => &["operation", "field", "direction"],
        ("conditional", _) => &["then", "else"],
        ("exit", _) => &["status", "output"],
        _ => &["tool", "operation", "where", "expression", "field", "direction", "then", "else", "status", "output"],
    });
    known
}

fn only(node: &Node, keys: &[&'static str]) -> Value {
    Value::object(keys.iter().filter_map(|key| Some((*key, node.get(key)?.to_value()))))
}

/// Checks front matter: it needs a name and a description.
pub(super) fn front_matter(node: &Node) -> Vec<Issue> {
    let mut reader = Reader::default();
    if node.entries().is_none() {
        reader.expected("object", Some(node), String::new(), node.span);
    } else {
        let place = Place { node, path: String::new() };
        reader.text(&place, "name", true, true);
        reader.text(&place, "description", true, true);
    }
    reader.found.into_iter().map(|finding| Issue { path: finding.path, message: finding.message }).collect()
}
