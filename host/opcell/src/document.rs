//! From a file to a workflow: which language it is in, and what its compiler says.

use crate::report::Rejected;
use opcell_workflow::{Diagnostic, Severity, SourceFile, Span, WorkflowIr};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most bytes of a document; far above any authored one, far below what would hurt.
pub const MAX_DOCUMENT_BYTES: u64 = 16 << 20;

/// The language of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// psi EDN, several steps.
    PsiEdn,
    /// psi Markdown, one step.
    PsiMarkdown,
    /// A `workflow` block in a SKILL.md.
    WorkflowSkill,
    /// A PromptPack.
    PromptPack,
    /// The execution model itself, as `opcell compile` writes it.
    Ir,
}

/// A document that was read and compiled, for better or worse.
#[derive(Debug, Clone)]
pub struct Document {
    /// The text.
    pub source: Arc<SourceFile>,
    /// Absent when the language cannot be told.
    pub language: Option<Language>,
    /// Absent when there is an error.
    pub ir: Option<Arc<WorkflowIr>>,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

impl Document {
    /// Whether a finding keeps the document from running; under `strict` every finding does.
    #[must_use]
    pub fn is_rejected(&self, strict: bool) -> bool {
        self.ir.is_none() || self.diagnostics.iter().any(|finding| strict || finding.severity == Severity::Error)
    }

    /// The findings that keep it from running, if any.
    #[must_use]
    pub fn rejection(&self, strict: bool) -> Option<Rejected> {
        self.is_rejected(strict).then(|| Rejected::in_source(self.source.clone(), self.diagnostics.clone()))
    }
}

impl Language {
    /// As programs read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PsiEdn => "psi-edn",
            Self::PsiMarkdown => "psi-markdown",
            Self::WorkflowSkill => "workflowskill",
            Self::PromptPack => "promptpack",
            Self::Ir => "workflow-ir",
        }
    }

    /// Tells the language by the file's ending and, where an ending is shared, by the text.
    fn of(path: &Path, text: &str) -> Result<Self, Diagnostic> {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        match ending.as_deref() {
            Some("edn") => Ok(Self::PsiEdn),
            Some("md") if text.contains("```workflow") => Ok(Self::WorkflowSkill),
            Some("md") => Ok(Self::PsiMarkdown),
            Some("json") if text.contains("\"workflow-ir/v1\"") => Ok(Self::Ir),
            Some("json" | "yaml" | "yml") => Ok(Self::PromptPack),
            _ => Err(Diagnostic::error("unknown-language", "the language of the document cannot be told from its name")
                .help("name it .edn (psi), .md (psi or WorkflowSkill), or .json or .yaml (PromptPack)")),
        }
    }
}

/// Reads and compiles a document.
///
/// # Errors
/// When the file cannot be read as text. What is wrong with the text is in [`Document::diagnostics`].
pub fn read(path: &Path) -> Result<Document, Rejected> {
    let name = path.display().to_string();
    let unreadable = |what: String| Rejected::plain(Diagnostic::error("unreadable", format!("{name}: {what}")));
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable("is not a file".to_owned()));
    }
    if metadata.len() > MAX_DOCUMENT_BYTES {
        return Err(unreadable(format!("has {} bytes, more than the {MAX_DOCUMENT_BYTES} of a document", metadata.len())));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(compile(path, text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            // The text up to the first bad byte shows where it is.
            let shown = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Arc::new(SourceFile::new(name, shown));
            let finding = Diagnostic::error("not-utf8", format!("byte {valid} is not UTF-8")).at(Span::new(valid, valid + 1));
            Ok(Document { source, language: None, ir: None, diagnostics: vec![finding] })
        }
    }
}

/// Every file; a folder stands for the documents directly in it, sorted by name.
#[must_use]
pub fn expand(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(in_folder(path));
        } else {
            files.push(path.clone());
        }
    }
    files
}

/// The documents directly in a folder, sorted by name; a folder that cannot be read has none.
#[must_use]
pub fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_document = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        path.is_file() && ["edn", "md", "json", "yaml", "yml"].contains(&ending)
    };
    let mut files: Vec<PathBuf> = entries.filter(is_document).collect();
    files.sort();
    files
}
