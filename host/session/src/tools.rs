//! The tools of a model: over file roots, a shell where the operator enables it, and whatever is injected from outside
//! (web access, plugin operations, delegation).
//!
//! What a tool does is the engine's [`Tool`], which plugins and steps can call too. How sessions have one is a
//! [`SessionTool`].

mod attachments;
mod checked;
mod delegate;
mod files;
mod operation;
mod roots;
mod search;
mod shell;
mod toolbox;

#[cfg(test)]
pub(crate) use attachments::tests::{pdf, png};
pub use checked::{CheckedTool, check_arguments};
pub use delegate::{DELEGATE_TOOL, Delegation, delegate_tool};
pub use operation::OperationTool;
pub use roots::{FileRoot, FileRoots, RootError};
pub use shell::{Shell, TOOL_CALL_VARIABLE, shell_tool};
pub use toolbox::{RESULT_LIMIT, ToolError, Toolbox};
pub(crate) use {checked::mismatch, toolbox::fitted};

use crate::skills::SkillLibrary;
use opcell_engine::ports::Failure;
use opcell_engine::tool::Tool;
use opcell_ir::ir::ApprovalRules;
use opcell_types::{ToolDescription, Value};
use std::sync::Arc;

/// A tool as sessions have it: under a name, with what decides which sessions have it and how prompts show it.
#[derive(Clone)]
pub struct SessionTool {
    /// The tool that is called.
    pub tool: Arc<dyn Tool>,
    /// As a model sees it; its name may be another than the tool's own.
    pub description: ToolDescription,
    /// The description in symbols, for prompts in lambda mode.
    pub lambda: Option<String>,
    /// The extension that it belongs to; sessions that leave the extension out do not have the tool.
    pub extension: Option<String>,
    /// `true` if only sessions that declare it have it: tools that write, run commands or reach the network, and other
    /// names of tools.
    pub by_declaration: bool,
    /// The skill whose script it is; sessions that do not declare their tools have it if they have the skill.
    pub skill: Option<String>,
    /// `true` if it is one of this crate, whose schema is known to be valid: it is compiled when the tool is first
    /// called, and not when the host is made.
    pub own: bool,
    /// Rules for its calls that wait for a person, whatever the session says.
    pub approve: ApprovalRules,
    /// Arguments of calls that need no person, whatever the rules say: these and no others.
    pub approved: Vec<Value>,
    /// The ways in which the models of sessions with programs call it.
    pub in_programs: InPrograms,
}

/// The ways in which a tool is called in sessions whose models call tools by programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InPrograms {
    /// By programs; one that a person may have to approve by the model itself as well.
    #[default]
    Usual,
    /// By the model itself alone.
    Never,
    /// By programs alone.
    Only,
}

impl std::fmt::Debug for SessionTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionTool").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl SessionTool {
    /// A tool that every session has, under its own name.
    #[must_use]
    pub fn new(tool: Arc<dyn Tool>) -> Self {
        let description = tool.description().clone();
        Self {
            tool,
            description,
            lambda: None,
            extension: None,
            by_declaration: false,
            skill: None,
            own: false,
            approve: ApprovalRules::default(),
            approved: Vec::new(),
            in_programs: InPrograms::Usual,
        }
    }

    /// The same, for a tool of this crate.
    pub(crate) fn own(tool: Arc<dyn Tool>) -> Self {
        Self { own: true, ..Self::new(tool) }
    }

    /// The same, with its description in symbols.
    #[must_use]
    pub fn with_lambda(self, lambda: impl Into<String>) -> Self {
        Self { lambda: Some(lambda.into()), ..self }
    }

    /// The same, for sessions that declare it alone.
    #[must_use]
    pub fn by_declaration(self) -> Self {
        Self { by_declaration: true, ..self }
    }

    /// The same tool under another name, for sessions that declare it by that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { description: self.description.named(name), by_declaration: true, ..self.clone() }
    }

    /// The name that models call it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.description.name
    }
}

/// The tools over files: `read`, `ls`, `glob` and `grep`, and `write` and `edit` where a root is writable. `read`
/// serves skills too.
#[must_use]
pub fn file_tools(roots: FileRoots, skills: Arc<SkillLibrary>) -> Vec<SessionTool> {
    let writable = roots.any_writable();
    let files = Arc::new(files::Files { roots, skills });
    let mut tools = vec![files::read(&files), files::ls(&files), search::glob(&files), search::grep(&files)];
    if writable {
        tools.extend([files::write(&files), files::edit(&files)]);
    }
    tools
}

/// Every tool over files as models see it, for reference pages. None of them can be called through this.
#[must_use]
pub fn descriptions() -> Vec<ToolDescription> {
    let files = Arc::new(files::Files { roots: FileRoots::default(), skills: Arc::default() });
    let tools = [
        files::read(&files),
        files::ls(&files),
        search::glob(&files),
        search::grep(&files),
        files::write(&files),
        files::edit(&files),
    ];
    tools.into_iter().map(|tool| tool.description).collect()
}

/// Names a tool as it is: who performs it, what repeating a call does, its description, its schema.
pub(crate) fn identity(tool: &dyn Tool, description: &ToolDescription) -> Arc<str> {
    let mut hash = blake3::Hasher::new();
    let provider = format!("{:?}", tool.provider());
    let parameters = description.parameters.to_json();
    for part in [&provider, tool.effects().as_str(), &tool.description().name, &description.description, &parameters] {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hash.finalize().to_hex().as_str().into()
}

/// A tool's failure, as the model sees it.
fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::host(reason, message)
}

#[cfg(test)]
mod tests;
