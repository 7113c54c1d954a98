//! The parts of a system prompt, before it is text.

use super::selection::ComponentSelection;
use opcell_ir::ir::PromptMode;

/// A capability as a prompt names it: a tool, a skill, an extension or a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The name by which a model uses it.
    pub name: String,
    /// The description of its effect, in prose.
    pub description: String,
    /// The description in symbols; the prose is in where there is none.
    pub lambda: Option<String>,
    /// The location of its text; skills only.
    pub location: Option<String>,
}

impl Entry {
    /// A named capability with a description.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), lambda: None, location: None }
    }

    /// Adds the symbolic form.
    #[must_use]
    pub fn with_lambda(mut self, lambda: Option<String>) -> Self {
        self.lambda = lambda;
        self
    }

    /// Adds where its text is read.
    #[must_use]
    pub fn at(mut self, location: impl Into<String>) -> Self {
        self.location = Some(location.into());
        self
    }
}

/// A file whose text every session of a project sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// As it is shown.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

/// Text that an extension adds to every prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptContribution {
    /// The extension's name.
    pub extension: String,
    /// Lower comes first; psi's default is 1000.
    pub priority: i32,
    /// The text that it adds.
    pub text: String,
}

/// Tools that a model calls by programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodePart {
    /// The rules for programs, and the declarations of the tools.
    pub text: String,
    /// `true` if `read` is one of the tools.
    pub reads: bool,
}

/// The structured state that a system prompt is built from. Capabilities are already narrowed to what the session may
/// use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptParts {
    /// The preamble and the forms.
    pub mode: PromptMode,
    /// The tools that the model may call.
    pub tools: Vec<Entry>,
    /// Tools that the session declares and the host does not have, by name; said, so that the model does not look for
    /// them.
    pub unavailable_tools: Vec<String>,
    /// Everything about the tools that the model calls by programs; `None` where it calls none so.
    pub code: Option<CodePart>,
    /// The skills that the model may read.
    pub skills: Vec<Entry>,
    /// The extensions that are there.
    pub extensions: Vec<Entry>,
    /// The workflows that the model may delegate to.
    pub workflows: Vec<Entry>,
    /// Root first.
    pub context_files: Vec<ContextFile>,
    /// Facts about this session, as name and value.
    pub runtime_metadata: Vec<(String, String)>,
    /// In any order; shown by priority, then extension.
    pub contributions: Vec<PromptContribution>,
    /// The workflow's own text, outermost layer first.
    pub instructions: Vec<String>,
    /// Takes the place of everything else.
    pub replacement: Option<String>,
    /// The parts that are shown; `None` is all of them.
    pub selection: Option<ComponentSelection>,
}
