//! From files to compiled documents.

use crate::report::Rejected;
use opcell_ir::{Diagnostic, Severity, SourceFile, Span, WorkflowIr, source::SourceMap};
use opcell_types::control::{ControlFiles, Touch};
use opcell_workflow::{
    companions::Companions,
    document::{self, Language},
};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// The most bytes of a document; far above any authored one, far below what would hurt.
pub const MAX_DOCUMENT_BYTES: u64 = 16 << 20;

/// The depth below a document to which its companions are looked for.
const MAX_COMPANION_DEPTH: usize = 6;

/// The maximum number of folders that are looked through for them.
const MAX_COMPANION_FOLDERS: usize = 1000;

/// The stamp of a file: one that changes has another. `None` where there is no file.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

/// Returns the stamp of a file.
pub(crate) fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// A question about the files beside a document that its compiler asked, with the answer it got: while all answers are
/// the same, the document compiles to the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Companion {
    /// The text of a file, which had this stamp before it was read.
    Text(PathBuf, Stamp),
    /// The files of a name in and under a folder.
    Files { folder: String, name: String, found: Vec<String> },
}

impl Companion {
    /// Returns `true` if the files beside the document still give the same answer.
    pub(crate) fn is_unchanged(&self, document: &Path) -> bool {
        match self {
            Self::Text(file, before) => stamp(file) == *before,
            Self::Files { folder, name, found } => SiblingFiles::new(folder_of(document)).find(folder, name) == *found,
        }
    }
}

/// A document that was read and compiled, for better or worse.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Document {
    /// The text.
    pub source: Arc<SourceFile>,
    /// Absent when the language is unknown.
    pub language: Option<Language>,
    /// The places of the parts of the execution model in the text.
    pub spans: SourceMap,
    /// Absent when there is an error.
    pub ir: Option<Arc<WorkflowIr>>,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The files beside it that it was compiled from.
    pub(crate) companions: Vec<Companion>,
}

impl Document {
    /// Returns `true` if a finding keeps the document from running; under `strict` every finding does.
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

/// As programs read it.
#[must_use]
pub fn language_name(language: Language) -> &'static str {
    match language {
        Language::PsiEdn => "psi-edn",
        Language::PsiMarkdown => "psi-markdown",
        Language::WorkflowSkill => "workflowskill",
        Language::PromptPack => "promptpack",
        Language::Ir => "workflow-ir",
    }
}

/// Reads and compiles a document.
///
/// # Errors
/// When there is no such file, or it is too large. What is wrong with its text is in [`Document::diagnostics`].
pub fn read(path: &Path) -> Result<Document, Rejected> {
    let name = path.display().to_string();
    let bytes = read_bytes(path)
        .map_err(|what| Rejected::plain(Diagnostic::error("unreadable", format!("cannot read `{name}`: {what}"))))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(compile(path, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let bad = error.as_bytes().get(at).copied().unwrap_or_default();
            // Shown with replacement characters; before the first of them every offset is the file's own.
            let shown = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Arc::new(SourceFile::new(name, shown));
            let finding = Diagnostic::error("not-utf-8", format!("byte {at} (0x{bad:02x}) is not UTF-8"))
                .at(Span::new(at, at + 1))
                .help("save the document as UTF-8");
            Ok(Document {
                source,
                language: None,
                spans: SourceMap::default(),
                ir: None,
                diagnostics: vec![finding],
                companions: Vec::new(),
            })
        }
    }
}

/// As [`read`], for a document that was found in a folder and not named by its user: links are not followed out of it.
///
/// # Errors
/// As [`read`]; `link-leads-out`.
pub fn read_listed(path: &Path) -> Result<Document, Rejected> {
    let folder = path.parent().unwrap_or(Path::new(""));
    if opcell_types::files::leads_out(path, folder).is_some() {
        let message = format!("`{}` is a link that leads out of its folder, and is not read", path.display());
        let help = "copy what it leads to, or name that file itself";
        return Err(Rejected::plain(Diagnostic::error("link-leads-out", message).help(help)));
    }
    read(path)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_bounded(path, MAX_DOCUMENT_BYTES)
}

/// Reads a regular file of at most `limit` bytes; see [`opcell_types::files::read_bounded`].
///
/// # Errors
/// In words for people, without the path.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    opcell_types::files::read_bounded(path, limit).map_err(|error| error.to_string())
}

/// Compiles a text; the file name extension selects the language and where the files beside it are.
#[must_use]
pub fn compile(path: &Path, text: String) -> Document {
    opcell_workers::install();
    let source = Arc::new(SourceFile::new(path.display().to_string(), text));
    let beside = SiblingFiles::new(folder_of(path));
    let compiled = document::compile(&source, &beside);
    Document {
        language: Language::of(&source),
        source,
        spans: compiled.spans,
        ir: compiled.ir,
        diagnostics: compiled.diagnostics,
        companions: beside.asked.into_inner(),
    }
}

/// One prompt of a PromptPack, asked by itself.
#[must_use]
pub(crate) fn compile_prompt(pack: &Document, prompt: &str) -> Document {
    opcell_workers::install();
    let source = pack.source.clone();
    let beside = SiblingFiles::new(folder_of(Path::new(source.name())));
    let compiled = document::compile_prompt(&source, &beside, prompt);
    Document {
        language: pack.language,
        spans: compiled.spans,
        ir: compiled.ir,
        diagnostics: compiled.diagnostics,
        companions: beside.asked.take(),
        source: source.clone(),
    }
}

fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// The Markdown files in a document's own folder. A link that leads out of it is no such file.
struct SiblingFiles<'a> {
    folder: Option<&'a Path>,
    /// Every question so far, with its answer.
    asked: RefCell<Vec<Companion>>,
}

impl<'a> SiblingFiles<'a> {
    fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, asked: RefCell::default() }
    }
}

impl Companions for SiblingFiles<'_> {
    fn text(&self, path: &str) -> Option<Result<String, String>> {
        let folder = self.folder?.canonicalize().ok()?;
        let named = folder.join(path);
        // Before it is read: a change in between is found the next time.
        self.asked.borrow_mut().push(Companion::Text(named.clone(), stamp(&named)));
        let file = named.canonicalize().ok()?;
        if !file.starts_with(&folder) {
            return Some(Err("it is outside the workflow's folder".to_owned()));
        }
        // What a document brings in reaches prompts: a project's secrets are none of its companions.
        let control = ControlFiles::below(&folder);
        let names = [folder.join(path), file.clone()];
        if let Some(rule) = names.iter().find_map(|file| control.refuses(Touch::Read, file)) {
            return Some(Err(rule));
        }
        Some(read_bytes(&file).and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())))
    }

    fn files(&self, folder: &str, name: &str) -> Vec<String> {
        let found = self.find(folder, name);
        let asked = Companion::Files { folder: folder.to_owned(), name: name.to_owned(), found: found.clone() };
        self.asked.borrow_mut().push(asked);
        found
    }
}

impl SiblingFiles<'_> {
    fn find(&self, folder: &str, name: &str) -> Vec<String> {
        let Some(root) = self.folder.and_then(|root| root.canonicalize().ok()) else { return Vec::new() };
        let Ok(start) = root.join(folder).canonicalize() else { return Vec::new() };
        let (mut found, mut open, mut looked) = (Vec::new(), vec![(start, 0)], 0);
        while let Some((folder, depth)) = open.pop() {
            // What lies outside of the workflow's folder, links included, is none of its companions.
            looked += 1;
            if !folder.starts_with(&root) || looked > MAX_COMPANION_FOLDERS {
                continue;
            }
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && depth < MAX_COMPANION_DEPTH {
                    open.push((entry.path(), depth + 1));
                } else if kind.is_file() && entry.file_name() == name {
                    let path = entry.path();
                    found.extend(path.strip_prefix(&root).ok().and_then(Path::to_str).map(str::to_owned));
                }
            }
        }
        found.sort();
        found
    }
}

/// A file that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The file.
    pub file: PathBuf,
    /// The folder that it was found in; `None` for a file that the user named.
    pub folder: Option<PathBuf>,
}

impl Found {
    /// Reads it, by the rules of how it was found.
    ///
    /// # Errors
    /// As [`read`] and [`read_listed`].
    pub fn read(&self) -> Result<Document, Rejected> {
        if self.folder.is_some() { read_listed(&self.file) } else { read(&self.file) }
    }
}

/// Every file; a folder means the documents directly in it, sorted by name.
#[must_use]
pub fn expand(paths: &[PathBuf]) -> Vec<Found> {
    let mut found = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => found.extend(in_folder(path).into_iter().map(|file| Found { file, folder: Some(path.clone()) })),
            false => found.push(Found { file: path.clone(), folder: None }),
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_brings_in_files_of_its_folder_and_none_of_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["prompt.md", ".env", "server.pem"] {
            std::fs::write(folder.path().join(file), "text").unwrap();
        }
        std::os::unix::fs::symlink(".env", folder.path().join("innocent.md")).unwrap();
        let beside = SiblingFiles::new(Some(folder.path()));
        assert_eq!(beside.text("prompt.md"), Some(Ok("text".to_owned())));
        assert_eq!(beside.text("none.md"), None);
        for secret in [".env", "./.env", "server.pem", "innocent.md"] {
            let refused = beside.text(secret).unwrap().unwrap_err();
            assert!(refused.contains("holds secrets"), "{secret}: {refused}");
        }
        assert!(beside.text("../x").is_none_or(|read| read.is_err()));
    }
}
