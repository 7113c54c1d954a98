//! psi's one-step Markdown workflows: front matter, then the prompt.
//!
//! The front matter is psi's own subset of YAML, read by its rules: `key: value` split at the first colon, double
//! quotes around a value dropped, block lists of `- item`, a blank line ends a list. Where psi keeps every value as a
//! string, here a value has the type that its key asks for, so that `thinking-level: low` and `temperature: 0.3` run.

use super::{load::INVALID_EDN, report::Report};
use crate::edn::{self, Kind, Node};
use opcell_ir::{diagnostic::Diagnostic, print, source::Span, template};
use std::collections::HashMap;

/// Keys that describe the step's session.
const SETTINGS: [&str; 12] = [
    "tools",
    "skills",
    "extensions",
    "workflows",
    "model",
    "thinking-level",
    "session-profile",
    "response-mode",
    "temperature",
    "logprobs",
    "top-logprobs",
    "prompt-component-selection",
];

/// A Markdown workflow as the EDN that it means.
pub(super) struct Workflow {
    name: Node,
    description: Node,
    advertise: Option<bool>,
    /// The session settings, as a step's entries.
    pub(super) settings: Vec<(Node, Node)>,
    body: Node,
    vars: Vec<(Node, Node)>,
    /// The value of `:contributions`; empty until [`Workflow::at`] or [`workflow`] has bound the tokens.
    pub(super) contributions: Node,
    warnings: Vec<Diagnostic>,
}

/// Why a text is not a Markdown workflow.
pub(super) struct Refusal {
    pub(super) message: String,
    span: Span,
    related: Option<(Span, &'static str)>,
}

impl Refusal {
    fn new(message: impl Into<String>, span: Span) -> Self {
        Self { message: message.into(), span, related: None }
    }
}

/// A whole file as the root of a workflow of one step.
pub(super) fn workflow(text: &str, report: &mut Report) -> Option<Node> {
    let refused = |refusal: Refusal| {
        let error = Diagnostic::error("load-error", refusal.message).at(refusal.span);
        match refusal.related {
            Some((span, label)) => error.related(span, label),
            None => error,
        }
    };
    let mut workflow = match parse(text) {
        Ok(workflow) => workflow,
        Err(refusal) => {
            report.push(refused(refusal));
            return None;
        }
    };
    std::mem::take(&mut workflow.warnings).into_iter().for_each(|warning| report.push(warning));
    let body = workflow.body.span;
    let contributions = match workflow.bind() {
        Ok(contributions) => contributions,
        Err(message) => {
            report.load_error(body, message);
            return None;
        }
    };
    let entry = |key: &str, value: Node| (Node::keyword(key, value.span), value);
    let mut step = vec![
        entry("name", Node::string("step", body)),
        entry("type", Node::keyword("session", body)),
        entry("contributions", contributions),
    ];
    step.extend(workflow.settings);
    let steps = Node::new(Kind::Vector(vec![Node::new(Kind::Map(step), body)]), body);
    let mut root =
        vec![entry("name", workflow.name), entry("description", workflow.description), entry("steps", steps)];
    if let Some(advertise) = workflow.advertise {
        root.push(entry("advertise", Node::new(Kind::Bool(advertise), body)));
    }
    Some(Node::new(Kind::Map(root), Span::new(0, text.len())))
}

impl Workflow {
    /// The same, with every part standing at one place of another file.
    pub(super) fn at(mut self, span: Span) -> Result<Self, String> {
        self.contributions = respan(&self.bind()?, span);
        for (key, value) in &mut self.settings {
            (*key, *value) = (respan(key, span), respan(value, span));
        }
        Ok(self)
    }

    /// The body as a contribution: `{{input}}` and `{{original}}` are bound, and what `vars:` declares.
    fn bind(&self) -> Result<Node, String> {
        let span = self.body.span;
        let keyword = |text: &str| Node::keyword(text, span);
        let pair = |key: &str, value: Node| (keyword(key), value);
        let map = |entries| Node::new(Kind::Map(entries), span);
        let body = self.body.as_str().map(AsRef::as_ref).unwrap_or_default();
        // psi's token rule: anything else in braces is text.
        let mut names: Vec<&str> = template::tokens(body, |_| false).into_iter().map(|token| token.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut vars = Vec::new();
        let mut unknown = Vec::new();
        for name in names {
            let declared = self.vars.iter().find(|(key, _)| key.as_str().is_some_and(|key| key.as_ref() == name));
            let spec = match name {
                "input" => {
                    let path = Node::new(Kind::Vector(vec![keyword("input")]), span);
                    Some(map(vec![pair("from", keyword("workflow-input")), pair("path", path)]))
                }
                "original" => Some(map(vec![pair("from", keyword("workflow-original"))])),
                _ => declared.map(|(_, spec)| spec.clone()),
            };
            match spec {
                Some(spec) => vars.push((Node::string(name, span), spec)),
                None => unknown.push(print::quoted(name)),
            }
        }
        if !unknown.is_empty() {
            return Err(format!(
                "Unknown {{{{varname}}}} tokens in workflow body: ({}). Declare them in the `vars:` frontmatter or use standard \
                 vars {{{{input}}}} or {{{{original}}}}.",
                unknown.join(" ")
            ));
        }
        let contribution =
            map(vec![pair("type", keyword("template")), pair("text", self.body.clone()), pair("vars", map(vars))]);
        Ok(Node::new(Kind::Vector(vec![contribution]), span))
    }
}

/// A copy of a node, all of which is at one place. Recursion is bounded by the reader's depth limit.
fn respan(node: &Node, span: Span) -> Node {
    let all = |items: &[Node]| items.iter().map(|item| respan(item, span)).collect();
    let kind = match &node.kind {
        Kind::List(items) => Kind::List(all(items)),
        Kind::Vector(items) => Kind::Vector(all(items)),
        Kind::Set(items) => Kind::Set(all(items)),
        Kind::Map(entries) => Kind::Map(entries.iter().map(|(k, v)| (respan(k, span), respan(v, span))).collect()),
        Kind::Tagged(tag, form) => Kind::Tagged(tag.clone(), Box::new(respan(form, span))),
        scalar => scalar.clone(),
    };
    Node::new(kind, span)
}

/// Reads a Markdown workflow.
pub(super) fn parse(text: &str) -> Result<Workflow, Refusal> {
    let (matter, body) = split(text);
    let mut warnings = Vec::new();
    let entries = matter.map(|matter| front_matter(text, matter, &mut warnings)).unwrap_or_default();
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let start = Span::new(0, text.find('\n').unwrap_or(text.len()));

    let required = |key: &str| {
        let value = find(key).and_then(|entry| entry.value.text(text));
        value.filter(|node| node.as_str().is_some_and(|text| !text.trim().is_empty())).ok_or_else(|| {
            let place = find(key).map_or(start, |entry| entry.key_span);
            Refusal::new(format!("Missing required frontmatter key: {key}"), place)
        })
    };
    let (name, description) = (required("name")?, required("description")?);
    if let Some(entry) = find("prompt-mode") {
        return Err(Refusal::new("Unsupported markdown workflow frontmatter key: :prompt-mode", entry.key_span));
    }
    let is_known = |key: &str| SETTINGS.contains(&key) || matches!(key, "name" | "description" | "advertise" | "vars");
    let unknown: Vec<&Entry> = entries.iter().filter(|entry| !is_known(entry.key)).collect();
    if let Some(first) = unknown.first() {
        let keys: Vec<String> = unknown.iter().map(|entry| format!(":{}", entry.key)).collect();
        let message = format!("Unsupported markdown workflow frontmatter keys: [{}]", keys.join(" "));
        return Err(Refusal::new(message, first.key_span));
    }
    let vars = find("vars").map(|entry| vars(text, entry)).transpose()?.unwrap_or_default();
    let prompt = text.get(body.start..body.end).unwrap_or_default();
    if prompt.is_empty() {
        return Err(Refusal::new("Standalone markdown workflow body must not be empty", body));
    }
    if prompt.starts_with('{') {
        let message = "Markdown workflow body must not begin with an EDN workflow definition block";
        return Err(Refusal::new(message, Span::new(body.start, body.start + 1)));
    }
    let advertise = match find("advertise").and_then(|entry| entry.value.text(text)).as_ref().and_then(Node::as_str) {
        Some(word) if word.trim().eq_ignore_ascii_case("false") => Some(false),
        Some(word) if word.trim().eq_ignore_ascii_case("true") => Some(true),
        Some(word) => {
            let message = format!("`advertise: {word}` has no effect: expected `true` or `false`");
            let place = find("advertise").map(|entry| entry.key_span);
            warnings.push(Diagnostic::warning("invalid-advertise", message).at(place));
            None
        }
        None => None,
    };
    let settings = SETTINGS
        .iter()
        .filter_map(|key| find(key))
        .map(|entry| (Node::keyword(entry.key, entry.key_span), setting(text, entry)))
        .collect();
    Ok(Workflow {
        name,
        description,
        advertise,
        settings,
        body: Node::string(prompt, body),
        vars,
        contributions: Node::new(Kind::Nil, body),
        warnings,
    })
}

/// The front matter's range, when there is one, and the body's, without blank around it.
fn split(text: &str) -> (Option<Span>, Span) {
    let trimmed = |start: usize, end: usize| {
        let part = text.get(start..end).unwrap_or_default();
        let start = start + (part.len() - part.trim_start().len());
        Span::new(start, start + part.trim().len())
    };
    let text_start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let whole = trimmed(text_start, text.len());
    let opening = text.get(whole.start..).unwrap_or_default().starts_with("---");
    let matter = whole.start + 3;
    match text.get(matter..).and_then(|rest| rest.find("\n---")).filter(|_| opening) {
        Some(length) => (Some(Span::new(matter, matter + length)), trimmed(matter + length + 4, text.len())),
        None => (None, whole),
    }
}

/// One `key: value` or `key:` with its list.
struct Entry<'a> {
    key: &'a str,
    key_span: Span,
    value: Value,
}

enum Value {
    /// The place of a scalar, quotes already outside.
    Scalar(Span),
    /// The places of a list's items.
    List(Span, Vec<Span>),
}

impl Value {
    fn span(&self) -> Span {
        match self {
            Self::Scalar(span) | Self::List(span, _) => *span,
        }
    }

    /// A scalar as a string; a list that holds something as its printed form, which is what psi makes of it.
    fn text(&self, text: &str) -> Option<Node> {
        match self {
            Self::Scalar(span) => Some(Node::string(text.get(span.start..span.end).unwrap_or_default().trim(), *span)),
            Self::List(_, items) if items.is_empty() => None,
            Self::List(span, items) => Some(Node::string(list(text, *span, items).to_string(), *span)),
        }
    }
}

fn list(text: &str, span: Span, items: &[Span]) -> Node {
    let item = |item: &Span| Node::string(text.get(item.start..item.end).unwrap_or_default(), *item);
    Node::new(Kind::Vector(items.iter().map(item).collect()), span)
}

fn front_matter<'a>(text: &'a str, range: Span, warnings: &mut Vec<Diagnostic>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Option<Entry<'a>>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    // Whether the last entry is a list that the next item may extend.
    let mut open = false;
    let mut at = range.start;
    for line in text.get(range.start..range.end).unwrap_or_default().split_inclusive('\n') {
        let trimmed = line.trim();
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        let span = |from: usize, to: usize| {
            let part = trimmed.get(from..to).unwrap_or_default();
            let from = start + from + (part.len() - part.trim_start().len());
            Span::new(from, from + part.trim().len())
        };
        if trimmed.is_empty() {
            open = false;
            continue;
        }
        if let (true, Some(Some(Entry { value: Value::List(_, items), .. })), true) =
            (open, entries.last_mut(), trimmed.starts_with("- "))
        {
            items.push(span(2, trimmed.len()));
            continue;
        }
        let Some(colon) = trimmed.find(':').filter(|colon| *colon > 0) else {
            let message =
                format!("front matter line `{trimmed}` is neither `key: value` nor a list item; it has no effect");
            warnings.push(Diagnostic::warning("ignored-front-matter", message).at(span(0, trimmed.len())));
            open = false;
            continue;
        };
        let key_span = span(0, colon);
        let key = text.get(key_span.start..key_span.end).unwrap_or_default();
        let mut value = span(colon + 1, trimmed.len());
        let word = text.get(value.start..value.end).unwrap_or_default();
        open = word.is_empty();
        if word.len() > 1 && word.starts_with('"') && word.ends_with('"') {
            value = Span::new(value.start + 1, value.end - 1);
        }
        if let Some(earlier) =
            places.insert(key, entries.len()).and_then(|place| entries.get_mut(place)).and_then(Option::take)
        {
            let warning = Diagnostic::warning(
                "duplicate-key",
                format!("front matter key `{key}` is set twice; the last one counts"),
            );
            warnings.push(warning.at(key_span).related(earlier.key_span, "first set here"));
        }
        let value = if open { Value::List(key_span, Vec::new()) } else { Value::Scalar(value) };
        entries.push(Some(Entry { key, key_span, value }));
    }
    entries.into_iter().flatten().collect()
}

/// A setting's value with the type that its key asks for; what does not fit stays a string, and is refused as such.
fn setting(text: &str, entry: &Entry<'_>) -> Node {
    let span = entry.value.span();
    let word = match &entry.value {
        Value::List(span, items) => return list(text, *span, items),
        Value::Scalar(span) => text.get(span.start..span.end).unwrap_or_default().trim(),
    };
    let as_edn = || {
        let reading = edn::read_range(text, span).ok()?;
        reading.form.filter(|_| reading.trailing.is_none() && reading.tags.is_empty())
    };
    let typed = match entry.key {
        "tools" | "skills" | "extensions" | "workflows" => Some(inline_list(text, span)),
        "thinking-level" | "response-mode" | "session-profile" => {
            Some(Node::keyword(word.strip_prefix(':').unwrap_or(word), span))
        }
        "temperature" => word.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| Node::new(Kind::Float(n), span)),
        "logprobs" | "top-logprobs" => as_edn().filter(|node| matches!(node.kind, Kind::Bool(_) | Kind::Integer(_))),
        "prompt-component-selection" => as_edn().filter(|node| node.as_map().is_some()),
        // A model is an id, or a query as EDN.
        _ => as_edn().filter(|node| node.as_map().is_some()),
    };
    typed.unwrap_or_else(|| Node::string(word, span))
}

/// `[read, bash]` or `read, bash`: names separated by commas or blank.
fn inline_list(text: &str, span: Span) -> Node {
    let word = text.get(span.start..span.end).unwrap_or_default();
    let inner = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
    let names =
        inner.split([',', ' ', '\t']).map(|name| name.trim_matches(['"', '\''])).filter(|name| !name.is_empty());
    Node::new(Kind::Vector(names.map(|name| Node::string(name, span)).collect()), span)
}

/// The bindings that `vars:` declares: an EDN map of name to `{:from :workflow-input|:workflow-original …}`.
fn vars(text: &str, entry: &Entry<'_>) -> Result<Vec<(Node, Node)>, Refusal> {
    let prefix = "Invalid `vars:` frontmatter: ";
    let not_a_map = |span| Refusal::new(format!("{prefix}value must be an EDN map"), span);
    let Value::Scalar(mut span) = entry.value else {
        return Err(not_a_map(entry.key_span));
    };
    let word = text.get(span.start..span.end).unwrap_or_default();
    if word.len() > 1 && word.starts_with('\'') && word.ends_with('\'') {
        span = Span::new(span.start + 1, span.end - 1);
    }
    let reading = edn::read_range(text, span).map_err(|error| Refusal {
        message: format!("{prefix}{INVALID_EDN}{error}"),
        span: error.span,
        related: error.related,
    })?;
    if let Some((tag, span)) = reading.tags.first() {
        return Err(Refusal::new(format!("{prefix}{INVALID_EDN}No reader function for tag {tag}"), *span));
    }
    let Some(Node { kind: Kind::Map(entries), .. }) = reading.form else {
        return Err(not_a_map(span));
    };
    let from = |spec: &Node| spec.get("from").cloned();
    let allowed = |from: &Option<Node>| {
        matches!(from.as_ref().and_then(Node::as_keyword), Some("workflow-input" | "workflow-original"))
    };
    let wrong: Vec<(Span, Option<Node>)> =
        entries.iter().map(|(_, spec)| (spec.span, from(spec))).filter(|(_, from)| !allowed(from)).collect();
    if let Some((place, _)) = wrong.first() {
        let froms: Vec<String> =
            wrong.iter().map(|(_, from)| from.as_ref().map_or_else(|| "nil".to_owned(), ToString::to_string)).collect();
        let message = format!(
            "{prefix}unsupported :from values [{}]; allowed: :workflow-input, :workflow-original",
            froms.join(" ")
        );
        return Err(Refusal::new(message, *place));
    }
    Ok(entries)
}
