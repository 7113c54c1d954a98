//! The checks that psi makes when it loads an EDN workflow file, and the prompt workflows that it brings in.

use super::{markdown, report::Report};
use crate::companions::Companions;
use crate::edn::{self, Kind, Node};
use opcell_ir::{
    diagnostic::{Diagnostic, did_you_mean},
    source::Span,
};

/// Reads a workflow file: one map with name, description and steps; every `:prompt-workflow` is replaced by what it
/// names.
pub(super) fn edn(text: &str, companions: &dyn Companions, report: &mut Report) -> Option<Node> {
    let reading = match edn::read(text) {
        Ok(reading) => reading,
        Err(error) => {
            report.push(error.diagnostic("load-error", INVALID_EDN));
            return None;
        }
    };
    if let Some((tag, span)) = reading.tags.first() {
        report.load_error(*span, format!("{INVALID_EDN}No reader function for tag {tag}"));
        return None;
    }
    for span in reading.metadata {
        report.push(Diagnostic::warning("ignored-metadata", "metadata has no effect in a workflow").at(span));
    }
    if let Some(span) = reading.trailing {
        let warning = Diagnostic::warning("trailing-forms", "text after the first form is ignored").at(span);
        report.push(warning.help("a workflow file holds one map"));
    }
    let end = Span::new(text.len(), text.len());
    let root = match reading.form {
        Some(node) if node.as_map().is_some() => node,
        other => {
            report.load_error(other.map_or(end, |node| node.span), "Workflow EDN file must contain a map root");
            return None;
        }
    };
    check_root(&root, report)?;
    let steps = root.get("steps")?.as_vector()?;
    let before = report.load_errors();
    let steps: Vec<Node> = steps.iter().map(|step| resolve_prompts(step, companions, report)).collect();
    (report.load_errors() == before).then(|| replace(&root, "steps", Kind::Vector(steps)))
}

/// The keys of a workflow.
const ROOT_KEYS: [&str; 12] = [
    "name",
    "description",
    "steps",
    "advertise",
    "terminal-contract",
    "definition-id",
    "system-prompt",
    "inputs",
    "limits",
    "artifacts",
    "summary",
    "workflow-file-meta",
];

pub(super) const INVALID_EDN: &str = "Invalid EDN workflow definition: ";

/// The first thing that is wrong with the root, as psi finds it.
fn check_root(root: &Node, report: &mut Report) -> Option<()> {
    let steps = root.get("steps");
    let is_step = |step: &Node| step.get("type").is_some();
    if !steps.and_then(Node::as_vector).is_some_and(|steps| steps.iter().all(is_step)) {
        let wrong = steps.and_then(Node::as_vector).and_then(|steps| steps.iter().find(|step| !is_step(step)));
        let error =
            Diagnostic::error("load-error", "Workflow EDN files must define target-authored `{:steps [...]}` config");
        let misspelt = misspelt(root, "steps").filter(|_| steps.is_none());
        let place = wrong.or(steps).or(misspelt.map(|(key, _)| key)).unwrap_or(root).span;
        report.push(error.at(place).help(match (wrong, misspelt) {
            (Some(_), _) => "every step is a map with a :type".to_owned(),
            (None, Some((_, found))) => format!("unknown key `:{found}`; did you mean `:steps`?"),
            (None, None) => "expected :steps [{:name \"…\" :type :invoke …} …]".to_owned(),
        }));
        return None;
    }
    for key in ["name", "description"] {
        let node = root.get(key);
        let misspelt = misspelt(root, key).filter(|_| node.is_none());
        let place = node.or(misspelt.map(|(key, _)| key)).unwrap_or(root).span;
        match node.and_then(Node::as_str) {
            None => {
                let message = format!("Workflow EDN files must define top-level `:{key}` as a string");
                let error = Diagnostic::error("load-error", message).at(place);
                report.push(match misspelt {
                    Some((_, found)) => error.help(format!("unknown key `:{found}`; did you mean `:{key}`?")),
                    None => error,
                });
            }
            Some(text) if text.trim().is_empty() => {
                report.load_error(
                    place,
                    format!("Workflow EDN files must define top-level `:{key}` as a non-blank string"),
                );
            }
            Some(_) => continue,
        }
        return None;
    }
    Some(())
}

/// The key of a map that was probably meant for the one that is missing.
fn misspelt<'n>(root: &'n Node, missing: &str) -> Option<(&'n Node, &'n str)> {
    let keys = root.as_map()?.iter().filter_map(|(key, _)| Some((key, key.as_keyword()?)));
    let mut others = keys.filter(|(_, name)| !ROOT_KEYS.contains(name));
    others.find(|(_, name)| did_you_mean(name, ROOT_KEYS) == Some(missing))
}

/// A copy of a map with another value under a key.
fn replace(map: &Node, key: &str, value: Kind) -> Node {
    let entries = map.as_map().unwrap_or_default().iter().map(|(k, v)| {
        let v = if k.as_keyword() == Some(key) { Node::new(value.clone(), v.span) } else { v.clone() };
        (k.clone(), v)
    });
    Node::new(Kind::Map(entries.collect()), map.span)
}

/// A step whose prompts all stand in it. What is wrong is reported, and the step stays as it is.
fn resolve_prompts(step: &Node, companions: &dyn Companions, report: &mut Report) -> Node {
    let is_session = step.get("type").and_then(Node::as_keyword) == Some("session");
    let prompt_source = step.get("contributions").or_else(|| step.get("system-prompt"));
    let (prompts, reference) = (step.get("prompts"), step.get("prompt-workflow"));
    let mut refuse = |at: &Node, message: &str| {
        report.load_error(at.span, message);
        step.clone()
    };
    match (prompts, reference) {
        (Some(prompts), _) if !is_session => refuse(prompts, "`:prompts` is allowed only on `:session` steps"),
        (Some(_), _) if let Some(other) = prompt_source => refuse(
            other,
            "`:prompts` cannot be combined with a step-level `:contributions`/`:system-prompt` prompt source",
        ),
        (Some(_), Some(reference)) => {
            refuse(reference, "`:prompts` cannot be combined with a step-level `:prompt-workflow`")
        }
        (Some(prompts), None) => {
            let groups = prompts.as_vector().unwrap_or_default();
            if prompts.as_vector().is_none() {
                // Refused with its place when the step is compiled.
                return step.clone();
            }
            let groups = groups.iter().map(|group| resolve_group(group, companions, report)).collect();
            replace(step, "prompts", Kind::Vector(groups))
        }
        (None, Some(reference)) if !is_session => {
            refuse(reference, "`:prompt-workflow` is allowed only on `:session` steps")
        }
        (None, Some(reference)) => {
            if let Some(other) = prompt_source.filter(|_| path_of(reference).is_ok()) {
                return refuse(other, "`:prompt-workflow` cannot be combined with another authored prompt source");
            }
            match referenced(reference, "", companions, report) {
                Some(workflow) => merge(step, &workflow, true),
                None => step.clone(),
            }
        }
        (None, None) => step.clone(),
    }
}

fn resolve_group(group: &Node, companions: &dyn Companions, report: &mut Report) -> Node {
    if group.as_map().is_none() {
        return group.clone();
    }
    match (group.get("prompt-workflow"), group.get("contributions")) {
        (Some(_), Some(other)) => {
            report
                .load_error(other.span, "A prompt-group must define `:prompt-workflow` XOR `:contributions`, not both");
        }
        (None, None) => {
            report.load_error(group.span, "A prompt-group must define `:prompt-workflow` or `:contributions`");
        }
        (Some(reference), None) => {
            if let Some(workflow) = referenced(reference, "A prompt-group ", companions, report) {
                // A group takes the body only; settings belong to the step.
                return merge(group, &workflow, false);
            }
        }
        (None, Some(_)) => {}
    }
    group.clone()
}

/// Puts a prompt workflow's body, and where asked its settings under the step's own, in the place of
/// `:prompt-workflow`.
fn merge(map: &Node, workflow: &markdown::Workflow, settings: bool) -> Node {
    let entries = map.as_map().unwrap_or_default();
    let is_set = |key: &Node| entries.iter().any(|(k, _)| k.as_keyword() == key.as_keyword());
    let mut merged: Vec<(Node, Node)> =
        entries.iter().filter(|(key, _)| key.as_keyword() != Some("prompt-workflow")).cloned().collect();
    if settings {
        merged.extend(workflow.settings.iter().filter(|(key, _)| !is_set(key)).cloned());
    }
    merged.push((Node::keyword("contributions", workflow.contributions.span), workflow.contributions.clone()));
    Node::new(Kind::Map(merged), map.span)
}

/// The Markdown workflow that a `:prompt-workflow` names.
fn referenced(
    reference: &Node,
    who: &str,
    companions: &dyn Companions,
    report: &mut Report,
) -> Option<markdown::Workflow> {
    let span = reference.span;
    let path = match path_of(reference) {
        Ok(path) => path,
        Err(message) => {
            report.load_error(span, format!("{who}`:prompt-workflow` {message}"));
            return None;
        }
    };
    if !path.ends_with(".md") {
        report.load_error(span, format!("`:prompt-workflow` must reference a .md file, got `{path}`"));
        return None;
    }
    let text = match companions.text(path) {
        Some(Ok(text)) => text,
        Some(Err(problem)) => {
            report.load_error(span, format!("Failed to read referenced prompt workflow `{path}`: {problem}"));
            return None;
        }
        None => {
            report.load_error(span, format!("Referenced prompt workflow file not found: {reference}"));
            return None;
        }
    };
    match markdown::parse(&text) {
        // Another file's places mean nothing here: all of it stands where it is referenced.
        Ok(workflow) => match workflow.at(span) {
            Ok(workflow) => Some(workflow),
            Err(message) => {
                report.load_error(span, message);
                None
            }
        },
        Err(refusal) => {
            report.load_error(span, format!("Referenced prompt workflow `{path}` is invalid: {}", refusal.message));
            None
        }
    }
}

fn path_of(reference: &Node) -> Result<&str, &'static str> {
    let path = reference.as_str().ok_or("must be a relative .md file string")?;
    match contained_markdown_path(path) {
        true => Ok(path),
        false => Err("must be a relative .md path within the consuming workflow directory"),
    }
}

/// Returns `true` if a path stays inside the folder it starts from: relative, not blank, no `..` segment, no NUL.
#[must_use]
pub fn contained_markdown_path(path: &str) -> bool {
    let absolute = path.starts_with(['/', '\\']) || path.get(1..2) == Some(":");
    !absolute
        && !path.trim().is_empty()
        && !path.contains('\0')
        && path.split(['/', '\\']).all(|segment| segment != "..")
}
