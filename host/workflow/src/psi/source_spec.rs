//! Sources of values: source specs, references, projections, templates, contributions.

use super::{
    fields::{self, Fields},
    report::{Place, Report},
    value,
};
use crate::edn::{Kind, Node};
use indexmap::IndexMap;
use opcell_ir::{
    diagnostic::Diagnostic,
    ir::{Contribution, PathSegment, Projection, SourceRef, SourceSpec, Template, ValueSpec},
    template,
};
use std::sync::Arc;

/// `{:from … :path …}` or `{:from … :projection …}`.
pub(super) fn source_spec(node: &Node, place: &Place, report: &mut Report) -> Option<SourceSpec> {
    report.stands(place, node.span);
    let Some(mut fields) = Fields::of(node) else {
        let help = format!("expected a map like {{:from :workflow-input}}, found {}", node.noun());
        report.compile_error(node.span, place, "Target workflow source-spec must be a map", help);
        return None;
    };
    let spec = source_fields(&mut fields, place, report);
    fields.finish(report, place, "a source-spec");
    spec
}

/// The source spec among the fields of a larger map; the caller finishes it.
fn source_fields(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<SourceSpec> {
    let (from, path, projection) = (fields.raw("from"), fields.raw("path"), fields.raw("projection"));
    let Some(from) = from else {
        let help = "say what it comes from: {:from :workflow-input} or {:from {:step \"name\" :output :key}}";
        report.compile_error(fields.span, place, "Target workflow source-spec requires `:from`", help);
        return None;
    };
    if path.is_some() && projection.is_some() {
        let message = "Target workflow source-spec cannot contain both `:path` and `:projection`";
        report.compile_error(fields.span, place, message, "keep one of them");
        return None;
    }
    let from = source_ref(from, &place.key("from"), report);
    let path = path.filter(|node| !node.is_nil()).map(|node| self::path(node, &place.key("path"), report));
    let projection =
        projection.filter(|node| !node.is_nil()).map(|node| self::projection(node, &place.key("projection"), report));
    Some(SourceSpec { from: from?, path: transpose(path)?, projection: transpose(projection)? })
}

/// `None` when there was something and it was wrong.
pub(super) fn transpose<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
    }
}

fn source_ref(node: &Node, place: &Place, report: &mut Report) -> Option<SourceRef> {
    report.stands(place, node.span);
    match node.as_keyword() {
        Some("workflow-input") => return Some(SourceRef::WorkflowInput),
        Some("workflow-original") => return Some(SourceRef::WorkflowOriginal),
        _ => {}
    }
    let expected =
        "expected :workflow-input, :workflow-original, {:step \"name\" :output :key} or {:step \"name\" :yield :field}";
    let Some(mut fields) = Fields::of(node) else {
        report.invalid(node.span, place, format!("{expected}, found {node}"));
        return None;
    };
    let (step, output, field) = (fields.get("step"), fields.get("output"), fields.get("yield"));
    let (prompt, artifact) = (fields.get("prompt"), fields.get("artifact"));
    let reference = match (step.and_then(Node::as_str), artifact.and_then(Node::as_str)) {
        (None, Some(name)) => Some(SourceRef::Artifact { artifact: name.clone() }),
        (Some(step), _) => match (output.and_then(Node::as_keyword), field.and_then(Node::as_keyword)) {
            (Some(output), _) => {
                if let Some(field) = field {
                    report.warn(
                        "ambiguous-ref",
                        field.span,
                        place,
                        "a reference has either :output or :yield; :yield has no effect",
                    );
                }
                match prompt {
                    Some(prompt) if prompt.as_str().is_none() => None,
                    prompt => Some(SourceRef::Output {
                        step: step.clone(),
                        prompt: prompt.and_then(Node::as_str).cloned(),
                        output: output.into(),
                    }),
                }
            }
            (None, Some(field)) => {
                if let Some(prompt) = prompt {
                    report.warn(
                        "ambiguous-ref",
                        prompt.span,
                        place,
                        "only an :output reference names a :prompt; it has no effect",
                    );
                }
                Some(SourceRef::Yield { step: step.clone(), field: field.into() })
            }
            (None, None) => None,
        },
        (None, None) => None,
    };
    if reference.is_none() {
        report.invalid(node.span, place, expected);
    }
    fields.finish(report, place, "a reference");
    reference
}

fn path(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<PathSegment>> {
    let items = fields::vector(node, "keywords, strings and integers", place, report)?;
    let segments: Vec<Option<PathSegment>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            let segment = match &item.kind {
                Kind::Keyword(name) => Some(PathSegment::Key(name.to_arc())),
                Kind::String(text) => Some(PathSegment::Key(text.clone())),
                Kind::Integer(n) => u64::try_from(*n).ok().map(PathSegment::Index),
                _ => None,
            };
            if segment.is_none() {
                let expected = format!("expected a keyword, a string or an integer from 0, found {item}");
                report.invalid(item.span, &place.index(i), expected);
            }
            segment
        })
        .collect();
    segments.into_iter().collect()
}

pub(super) fn projection(node: &Node, place: &Place, report: &mut Report) -> Option<Projection> {
    report.stands(place, node.span);
    let expected = "expected :none, :full or {:type :tail :turns 2}";
    match node.as_keyword() {
        Some("none") => return Some(Projection::None),
        Some("full") => return Some(Projection::Full),
        _ => {}
    }
    let Some(mut fields) = Fields::of(node).filter(|_| node.get("type").and_then(Node::as_keyword) == Some("tail"))
    else {
        report.invalid(node.span, place, format!("{expected}, found {node}"));
        return None;
    };
    fields.know(&["type"]);
    let turns = match fields.raw("turns") {
        Some(turns) => fields::positive(turns, &place.key("turns"), report),
        None => {
            report.missing(node.span, &place.key("turns"), "say how many turns: {:type :tail :turns 2}");
            None
        }
    };
    let tool_output = fields.get("tool-output").map(|flag| fields::boolean(flag, &place.key("tool-output"), report));
    fields.finish(report, place, "a projection");
    Some(Projection::Tail { turns: turns?, tool_output: transpose(tool_output)? })
}

/// A literal, or `{:from …}`, or `{:value x}`.
pub(super) fn value_spec(node: &Node, place: &Place, report: &mut Report) -> Option<ValueSpec> {
    report.stands(place, node.span);
    if let Some(mut fields) = Fields::of(node) {
        if node.get("from").is_some() {
            return referring(node, place, report);
        }
        if let Some(literal) = fields.raw("value") {
            if node.as_map().is_some_and(|entries| entries.len() > 1) {
                let message = format!("{node} is passed as {literal}: a map with :value passes that value alone");
                let warning = Diagnostic::warning("literal-map-value", message).at(node.span).path(place.ir());
                report.push(warning.help(format!("to pass the map itself, write {{:value {node}}}")));
            }
            return value::value(literal, &place.key("value"), report).map(|value| ValueSpec::Literal { value });
        }
    }
    nested_references(node, place, report);
    value::value(node, place, report).map(|value| ValueSpec::Literal { value })
}

/// `{:from …}` as an argument. What is refused may be meant as data, and the refusal says how data is written.
fn referring(node: &Node, place: &Place, report: &mut Report) -> Option<ValueSpec> {
    let before = report.len();
    let spec = source_spec(node, place, report);
    if spec.is_none() {
        report.add_help(before, &format!("to pass this map as data, write {{:value {node}}}"));
    }
    spec.map(ValueSpec::Source)
}

/// psi looks for references at the top of an argument only; deeper ones stay data, and a reader would not think so.
fn nested_references(node: &Node, place: &Place, report: &mut Report) {
    let mut open: Vec<&Node> = vec![node];
    while let Some(node) = open.pop() {
        match &node.kind {
            Kind::Map(entries) => {
                let from = node.get("from");
                let refers = from.is_some_and(|from| {
                    matches!(from.as_keyword(), Some("workflow-input" | "workflow-original"))
                        || from.get("step").or_else(|| from.get("artifact")).is_some()
                });
                if refers {
                    let message =
                        format!("{node} inside an argument stays data: only the argument itself can be a reference");
                    let warning = Diagnostic::warning("nested-reference", message).at(node.span).path(place.ir());
                    report.push(
                        warning.help("give it an argument of its own, or write {:value …} around the whole argument"),
                    );
                    continue;
                }
                open.extend(entries.iter().map(|(_, value)| value));
            }
            Kind::List(items) | Kind::Vector(items) | Kind::Set(items) => open.extend(items),
            _ => {}
        }
    }
}

/// Named values: `{:key literal-or-source}`.
pub(super) fn value_specs(
    node: &Node,
    literals: bool,
    place: &Place,
    report: &mut Report,
) -> Option<IndexMap<Arc<str>, ValueSpec>> {
    report.stands(place, node.span);
    let Some(entries) = node.as_map() else {
        report.invalid(node.span, place, format!("expected a map with keyword keys, found {}", node.noun()));
        return None;
    };
    let mut specs = IndexMap::with_capacity(entries.len());
    let mut complete = true;
    for (key, entry) in entries {
        let Some(name) = key.as_keyword() else {
            report.invalid(key.span, place, format!("expected a keyword as key, found {key}"));
            complete = false;
            continue;
        };
        let place = place.key(name);
        let is_source = entry.get("from").is_some() || entry.get("value").is_some();
        if !literals && !is_source {
            report.invalid(entry.span, &place, "expected {:from …} or {:value …}");
            complete = false;
            continue;
        }
        match value_spec(entry, &place, report) {
            Some(spec) => {
                specs.insert(name.into(), spec);
            }
            None => complete = false,
        }
    }
    complete.then_some(specs)
}

/// `{:type :template :text … :vars {…}}`.
pub(super) fn template(node: &Node, place: &Place, report: &mut Report) -> Option<Template> {
    let mut fields = fields::map(node, "a template", place, report)?;
    fields.know(&["type"]);
    let (text, vars) = (fields.raw("text"), fields.get("vars"));
    fields.finish(report, place, "a template");
    let Some(text_node) = text else {
        report.missing(node.span, &place.key("text"), "a template needs its text: {:type :template :text \"…\"}");
        return None;
    };
    let text = fields::string(text_node, &place.key("text"), report);
    let vars = vars.map(|vars| self::vars(vars, &place.key("vars"), report));
    let template = Template { text: text?, vars: transpose(vars)?.unwrap_or_default() };
    check_tokens(&template, text_node, place, report);
    Some(template)
}

/// Every token needs a binding: psi leaves such a token in the text, at run time here it is an error.
fn check_tokens(template: &Template, text: &Node, place: &Place, report: &mut Report) {
    let tokens = template::tokens(&template.text, |name| template.vars.contains_key(name));
    let mut unbound: Vec<&str> =
        tokens.iter().map(|token| token.name).filter(|name| !template.vars.contains_key(*name)).collect();
    unbound.sort_unstable();
    unbound.dedup();
    for token in template::spaced_tokens(&template.text, |name| template.vars.contains_key(name)) {
        let message = format!("`{token}` stays in the text as it is written: a token has no blanks");
        let warning = Diagnostic::warning("spaced-token", message).at(text.span).path(place.key("text").ir());
        report.push(warning.help(format!("write `{}`", token.split_whitespace().collect::<String>())));
    }
    for name in unbound {
        let message = format!("Template token {{{{{name}}}}} is not bound in :vars");
        let help = format!("bind it: :vars {{\"{name}\" {{:from :workflow-input :path [:{name}]}}}}");
        let warning = Diagnostic::warning("unbound-token", message).at(text.span).path(place.key("text").ir());
        report.push(match opcell_ir::diagnostic::did_you_mean(name, template.vars.keys().map(AsRef::as_ref)) {
            Some(near) => warning.help(format!("did you mean {{{{{near}}}}}? Or {help}")),
            None => warning.help(help),
        });
    }
}

fn vars(node: &Node, place: &Place, report: &mut Report) -> Option<IndexMap<Arc<str>, SourceSpec>> {
    report.stands(place, node.span);
    let Some(entries) = node.as_map() else {
        report.invalid(
            node.span,
            place,
            format!("expected a map like {{\"name\" {{:from …}}}}, found {}", node.noun()),
        );
        return None;
    };
    let mut vars = IndexMap::with_capacity(entries.len());
    let mut complete = true;
    for (key, spec) in entries {
        let Some(name) = key.as_str() else {
            report.invalid(key.span, place, format!("expected a string as variable name, found {key}"));
            complete = false;
            continue;
        };
        match source_spec(spec, &place.key(name), report) {
            Some(spec) => {
                vars.insert(name.clone(), spec);
            }
            None => complete = false,
        }
    }
    complete.then_some(vars)
}

/// The entries that a vector of contributions may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    /// Sources and templates.
    All,
    /// Sources only: a delegate's context.
    Sources,
}

pub(super) fn contributions(
    node: &Node,
    allowed: Allowed,
    place: &Place,
    report: &mut Report,
) -> Option<Vec<Contribution>> {
    let items = fields::vector(node, "contributions", place, report)?;
    let items: Vec<Option<Contribution>> =
        items.iter().enumerate().map(|(i, item)| contribution(item, allowed, &place.index(i), report)).collect();
    items.into_iter().collect()
}

fn contribution(node: &Node, allowed: Allowed, place: &Place, report: &mut Report) -> Option<Contribution> {
    report.stands(place, node.span);
    match node.get("type").and_then(Node::as_keyword) {
        Some("source") => {
            let mut fields = Fields::of(node)?;
            fields.know(&["type"]);
            let spec = source_fields(&mut fields, place, report);
            fields.finish(report, place, "a source contribution");
            spec.map(Contribution::Source)
        }
        Some("template") if allowed == Allowed::Sources => {
            report.invalid(
                node.span,
                place,
                "expected a {:type :source …}: a delegate's context forwards material as it is",
            );
            None
        }
        Some("template") => template(node, place, report).map(Contribution::Template),
        _ => {
            let message = "Unsupported target workflow contribution type";
            let expected = match allowed {
                Allowed::All => "expected :type :source or :type :template",
                Allowed::Sources => "expected :type :source",
            };
            report.compile_error(node.span, place, message, expected);
            None
        }
    }
}
