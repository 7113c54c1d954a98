//! WorkflowSkill 0.5.0: a Markdown document with a `workflow` fence of YAML, to the IR.
//!
//! Data passes through [`extract`] (Markdown to YAML), [`schema`] (a tree to a [`Definition`]), [`validate`] (the
//! reference's verdict), [`compile`](compile()) and [`check`] (what the reference meets only in the middle of a run).
//! The first three give the reference's verdicts with its paths and messages, which [`validate_workflow_skill`] returns
//! in its shape.

mod check;
mod compile;
mod definition;
mod extract;
mod resemblance;
pub mod run_log;
mod schema;
mod types;
mod validate;

use opcell_ir::{
    compiled::Compiled,
    diagnostic::{Diagnostic, MAX_FINDINGS, Severity, did_you_mean},
    ir::WorkflowIr,
    source::{SourceFile, SourceMap, Span},
};
use opcell_types::Value;
use opcell_yaml::{self as yaml, Entry, Node};
use resemblance::Certainty;
use std::{ops::Range, path::Path, sync::Arc};

pub use definition::{Body, Definition, Extension, Field, RetryDefinition, StepDefinition, Text};

/// One thing that the reference finds wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// `steps.0.retry.max` from the schema, `steps[0].tool` from the validator, `parse`.
    pub path: String,
    /// One sentence.
    pub message: String,
}

/// A document's name and description, and the name of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// The workflow's name.
    pub name: Arc<str>,
    /// One sentence.
    pub description: Option<String>,
}

/// A document whose schema is right.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The front matter, if it was read and is right.
    pub front_matter: Option<Value>,
    /// The workflow.
    pub definition: Definition,
    /// Warnings of the schema.
    warnings: Vec<Diagnostic>,
}

/// Why there is no workflow in a document. The message is the reference's.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// One sentence.
    pub message: String,
    /// The schema's issues, if it came that far.
    pub details: Vec<Issue>,
    /// The same with places, precisely; never empty.
    pub diagnostics: Vec<Diagnostic>,
}

const NO_BLOCK: &str = "No ```workflow fenced code block found in SKILL.md. WorkflowSkill definitions must be wrapped in a ```workflow block.";
const NO_FRONT_MATTER: &str = "SKILL.md must have YAML frontmatter with name and description";

impl ParseError {
    fn at(message: impl Into<String>, code: &'static str, span: Span) -> Self {
        let message = message.into();
        let diagnostic = Diagnostic::error(code, message.clone()).at(span);
        Self { message, details: Vec::new(), diagnostics: vec![diagnostic] }
    }
}

impl Skill {
    /// The front matter's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.front_matter.as_ref()?.get("name")?.as_str()
    }

    /// Returns the document's name and description; `fallback` where it has no name.
    #[must_use]
    pub fn info(&self, fallback: &str) -> SkillInfo {
        let description = self.front_matter.as_ref().and_then(|fm| fm.get("description")?.as_str());
        SkillInfo { name: self.name().unwrap_or(fallback).into(), description: description.map(str::to_owned) }
    }

    /// Returns the findings of the reference's validator; tools are checked only where there is something to check them
    /// against.
    #[must_use]
    pub fn validate(&self, tools: Option<&dyn Fn(&str) -> bool>) -> Vec<Issue> {
        validate::validate(&self.definition, tools)
    }

    /// The IR, for a definition without issues.
    #[must_use]
    pub fn compile(&self, fallback_name: &str) -> WorkflowIr {
        compile::compile(&self.definition, &self.info(fallback_name)).0
    }
}

/// The JSON Schema of a `workflow` block, for editors.
pub const SCHEMA: &str = include_str!("workflowskill/schema.json");

/// Reads the YAML of a workflow without anything around it.
///
/// # Errors
/// When it is not YAML or does not fit the schema.
pub fn parse_workflow_yaml(text: &str) -> Result<Skill, ParseError> {
    parse_yaml_at(text, 0..text.len(), None)
}

/// Reads the first `workflow` fence of a Markdown document.
///
/// # Errors
/// When there is none, or what it holds is not a workflow.
pub fn parse_workflow_from_md(text: &str) -> Result<Skill, ParseError> {
    let block = extract::block(text).ok_or_else(|| ParseError::at(NO_BLOCK, "no-workflow-block", Span::new(0, 0)))?;
    parse_yaml_at(text, block, None)
}

/// Reads a Markdown document with front matter that names and describes it.
///
/// # Errors
/// When the front matter is missing or wrong, or there is no workflow.
pub fn parse_skill_md(text: &str) -> Result<Skill, ParseError> {
    // The reference looks for the workflow first.
    if extract::block(text).is_none() {
        return Err(ParseError::at(NO_BLOCK, "no-workflow-block", Span::new(0, 0)));
    }
    let range = extract::front_matter(text)
        .ok_or_else(|| ParseError::at(NO_FRONT_MATTER, "no-front-matter", Span::new(0, 0)))?;
    let front_matter = front_matter(text, range)?;
    let mut skill = parse_workflow_from_md(text)?;
    skill.front_matter = Some(front_matter);
    Ok(skill)
}

/// Reads a document as the reference does: broken front matter is as good as none.
///
/// # Errors
/// When it is empty or there is no workflow.
pub fn parse_content(text: &str) -> Result<Skill, ParseError> {
    if extract::is_blank(text) {
        return Err(ParseError::at("Content is empty", "empty", Span::new(0, 0)));
    }
    parse_skill_md(text).or_else(|_| parse_workflow_from_md(text))
}

/// Reads a document as Opcell's commands do: Markdown, or bare YAML.
///
/// # Errors
/// When there is no workflow in it.
pub fn parse_document(text: &str) -> Result<Skill, ParseError> {
    read(text, false).map(|(skill, _)| skill)
}

fn front_matter(text: &str, range: Range<usize>) -> Result<Value, ParseError> {
    let node = tree(text, range.clone()).map_err(|error| {
        ParseError::at(format!("Invalid frontmatter YAML: {}", error.message), "front-matter-yaml", error.span)
    })?;
    let issues = schema::front_matter(&node);
    if issues.is_empty() {
        return Ok(node.to_value());
    }
    let diagnostics = issues
        .iter()
        .map(|issue| {
            let message = format!("front matter `{}`: {}", issue.path, issue.message);
            let error = Diagnostic::error("front-matter", message).path(issue.path.clone());
            match misspelt(&node, &issue.path) {
                Some(entry) => error
                    .at(entry.key_span)
                    .help(format!("`{}` is not a key that is required; did you mean `{}`?", entry.key, issue.path)),
                None => error.at(Span::new(range.start, range.end)),
            }
        })
        .collect();
    Err(ParseError { message: "Frontmatter validation failed".to_owned(), details: issues, diagnostics })
}

/// The entry of the front matter whose key was probably meant for one that is missing.
fn misspelt<'n>(node: &'n Node, missing: &str) -> Option<&'n Entry> {
    let entries = node.entries()?;
    let others = || entries.iter().filter(|entry| !["name", "description"].contains(&entry.key.as_ref()));
    if entries.iter().any(|entry| entry.key.as_ref() == missing) {
        return None;
    }
    others().find(|entry| did_you_mean(&entry.key, ["name", "description"]) == Some(missing))
}

/// Reads a part of a text, with places in the whole of it.
fn tree(text: &str, range: Range<usize>) -> Result<Node, yaml::YamlError> {
    let shift = |span: Span| Span::new(span.start + range.start, span.end + range.start);
    match yaml::parse(text.get(range.clone()).unwrap_or_default()) {
        Ok(mut node) => {
            node.shift(range.start);
            Ok(node)
        }
        Err(error) => Err(yaml::YamlError { span: shift(error.span), ..error }),
    }
}

fn parse_yaml_at(text: &str, range: Range<usize>, front_matter: Option<Value>) -> Result<Skill, ParseError> {
    let root = tree(text, range)
        .map_err(|error| ParseError::at(format!("Invalid YAML: {}", error.message), "yaml", error.span))?;
    match schema::read(&root) {
        (Some(definition), findings) => Ok(Skill { front_matter, definition, warnings: findings.diagnostics }),
        (None, findings) => Err(ParseError {
            message: "Workflow validation failed".to_owned(),
            details: findings.issues,
            diagnostics: findings.diagnostics,
        }),
    }
}

/// The verdict of [`validate_workflow_skill`], in the reference's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// `true` if there are no errors.
    pub valid: bool,
    /// Errors of the schema, or else of the validator: never both.
    pub errors: Vec<Issue>,
    /// The front matter's name; of valid documents only, like what follows.
    pub name: Option<Arc<str>>,
    /// The number of steps.
    pub step_count: Option<usize>,
    /// The kinds of steps, each once, in order of appearance.
    pub step_types: Option<Vec<&'static str>>,
}

/// The reference's verdict on a document.
#[must_use]
pub fn validate_workflow_skill(text: &str, tools: Option<&dyn Fn(&str) -> bool>) -> Verdict {
    let invalid = |errors| Verdict { valid: false, errors, name: None, step_count: None, step_types: None };
    let skill = match parse_content(text) {
        Ok(skill) => skill,
        Err(error) if error.details.is_empty() => {
            return invalid(vec![Issue { path: "parse".to_owned(), message: error.message }]);
        }
        Err(error) => return invalid(error.details),
    };
    let errors = skill.validate(tools);
    if !errors.is_empty() {
        return invalid(errors);
    }
    let mut step_types = Vec::new();
    for step in &skill.definition.steps {
        if !step_types.contains(&step.kind()) {
            step_types.push(step.kind());
        }
    }
    Verdict {
        valid: true,
        errors,
        name: skill.name().map(Into::into),
        step_count: Some(skill.definition.steps.len()),
        step_types: Some(step_types),
    }
}

/// Returns `true` if a Markdown text is a WorkflowSkill: it holds a `workflow` fence, or a part meant for one,
/// which [`compile`] refuses with the reason.
#[must_use]
pub fn is_meant(text: &str) -> bool {
    extract::block(text).is_some()
        || resemblance::find(text, &[]).is_some_and(|found| found.certainty == Certainty::Meant)
}

/// A warning about a part of a prompt in Markdown that may have been meant for a workflow.
pub(crate) fn doubt(text: &str) -> Option<Diagnostic> {
    let found = resemblance::find(text, &[])?;
    let message = format!("this block has `steps` and is sent to a model as text: {}", found.reason);
    let help =
        "a workflow's block begins with ```workflow, alone on its line; in an example, put `steps` below another key";
    Some(Diagnostic::warning("looks-like-a-workflow", message).at(found.span).help(help))
}

const FENCE_HELP: &str =
    "begin the block with ```workflow, alone on a line without anything before it, and end it with a line ```";

/// Compiles a document, Markdown or bare YAML (which the reference promises and refuses), and checks it statically.
/// Where the reference runs a document, so does Opcell: what the checks find are warnings.
#[must_use]
pub fn compile(file: &SourceFile) -> Compiled {
    let fallback = Path::new(file.name()).file_stem().and_then(|stem| stem.to_str()).unwrap_or("inline");
    let is_yaml = Path::new(file.name())
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml"));
    let (skill, mut diagnostics) = match read(file.text(), is_yaml) {
        Ok(read) => read,
        Err(error) => return Compiled { ir: None, spans: SourceMap::default(), diagnostics: error.diagnostics },
    };
    diagnostics.extend(skill.warnings.iter().cloned());
    let issues = skill.validate(None);
    diagnostics.extend(issues.iter().enumerate().map(|(at, issue)| {
        // Each place is looked for among all names of a step.
        let place = if at < MAX_FINDINGS { check::place_of(&skill.definition, issue) } else { None };
        let error = Diagnostic::error("workflow-validation", issue.message.clone()).path(issue.path.clone()).at(place);
        match check::near_step(&skill.definition, &issue.message) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error,
        }
    }));
    diagnostics.extend(check::check(&skill.definition, file.text()));
    let (ir, spans) = compile::compile(&skill.definition, &skill.info(fallback));
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.map_or(0, |span| span.start));
    let ir = diagnostics.iter().all(|d| d.severity != Severity::Error).then(|| Arc::new(ir));
    Compiled { ir, spans, diagnostics }
}

/// Reads a document kindly: bare YAML counts, and broken front matter is reported.
fn read(text: &str, is_yaml: bool) -> Result<(Skill, Vec<Diagnostic>), ParseError> {
    if extract::is_blank(text) {
        return parse_content(text).map(|skill| (skill, Vec::new()));
    }
    let Some(block) = extract::block(text) else {
        // A YAML file is a workflow or a broken one; no one looks for a fence in it.
        let bare = is_yaml || tree(text, 0..text.len()).is_ok_and(|root| root.get("steps").is_some());
        if let Some(found) = (!bare).then(|| resemblance::find(text, &[])).flatten() {
            let message = format!("this looks like a workflow, but is not one: {}", found.reason);
            let diagnostic = Diagnostic::error("workflow-fence", message).at(found.span).help(FENCE_HELP);
            return Err(ParseError {
                message: NO_BLOCK.to_owned(),
                details: Vec::new(),
                diagnostics: vec![diagnostic],
            });
        }
        let skill = if bare { parse_workflow_yaml(text) } else { parse_workflow_from_md(text) };
        return skill.map(|skill| (skill, Vec::new()));
    };
    let mut skill = parse_yaml_at(text, block.clone(), None)?;
    let second = extract::block_after(text, block.end);
    let known: Vec<_> = [Some(block), second.clone()].into_iter().flatten().collect();
    if let Some(found) = resemblance::find(text, &known).filter(|found| found.certainty == Certainty::Meant) {
        let message = format!("this looks like a workflow and is ignored: {}", found.reason);
        skill.warnings.push(Diagnostic::warning("second-workflow", message).at(found.span));
    }
    if let Some(second) = second {
        let message = "only the first ```workflow block of a document counts, and this one is ignored";
        skill.warnings.push(Diagnostic::warning("second-workflow", message).at(Span::new(second.start, second.end)));
    }
    match extract::front_matter(text).map(|range| front_matter(text, range)) {
        None => Ok((skill, Vec::new())),
        Some(Ok(front_matter)) => Ok((Skill { front_matter: Some(front_matter), ..skill }, Vec::new())),
        Some(Err(error)) => {
            let warn = |diagnostic: Diagnostic| Diagnostic { severity: Severity::Warning, ..diagnostic };
            Ok((skill, error.diagnostics.into_iter().map(warn).collect()))
        }
    }
}

/// Milliseconds of `250ms` or `2s`; nothing else is a duration.
#[must_use]
pub fn duration_ms(text: &str) -> Option<f64> {
    let (digits, factor) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1.0),
        None => (text.strip_suffix('s')?, 1000.0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse::<f64>().ok()).flatten().map(|n| n * factor)
}

#[cfg(test)]
mod tests;
