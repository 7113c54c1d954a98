//! Skills in the Agent Skills format: found by folder, listed by their front matter, read only when they are needed.

mod discover;
mod front_matter;
mod summary;

pub use discover::{SkillFinding, SkillFolder};

use crate::confined::{EntryKind, FileError, Folder, Guard};
use indexmap::IndexMap;
use opcell_types::{control::ControlFiles, suggest::hint};
use opcell_yaml::front_matter::split;
use std::{path::PathBuf, sync::Arc};
use thiserror::Error;

/// The most that is read of one skill file, in bytes: text for a model's context is far smaller.
pub const SKILL_TEXT_LIMIT: u64 = 1 << 20;

/// The most that is read of one resource of a skill, in bytes.
pub const SKILL_RESOURCE_LIMIT: u64 = 4 << 20;

/// Directories below a skill that are looked into for resources.
const RESOURCE_DEPTH: usize = 8;

/// Resources that are listed of one skill.
const RESOURCE_COUNT: usize = 1000;

/// A skill as its front matter describes it. Its body stays on disk until it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Unique in a library.
    pub name: String,
    /// The description by which a model decides to read it.
    pub description: String,
    /// The same in symbols.
    pub lambda: Option<String>,
    /// As the front matter says.
    pub license: Option<String>,
    /// As the front matter says.
    pub compatibility: Option<String>,
    /// Tools that its author expects; for people, it grants nothing.
    pub allowed_tools: Vec<String>,
    /// `true` if only a person or a workflow may name it.
    pub disable_model_invocation: bool,
    /// `true` if sessions that declare no skills see it.
    pub advertise: bool,
    /// Its folder on disk.
    pub folder: PathBuf,
    /// Its file, relative to its folder.
    pub file: String,
}

impl Skill {
    /// Returns the location by which a prompt and the `read` tool name it: `skill:NAME/FILE`.
    #[must_use]
    pub fn location(&self) -> String {
        format!("skill:{}/{}", self.name, self.file)
    }

    /// Returns `true` if a session that declares no skills sees it.
    #[must_use]
    pub fn is_offered(&self) -> bool {
        self.advertise && !self.disable_model_invocation
    }
}

/// Why a skill could not be served.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SkillError {
    /// No skill has this name.
    #[error("there is no skill `{name}`; available: {known}{hint}")]
    Unknown {
        /// Name as requested.
        name: String,
        /// "; did you mean …", or empty.
        hint: String,
        /// Every name, comma-separated.
        known: String,
    },
    /// One of its files could not be read.
    #[error("skill `{skill}`: {error}")]
    File {
        /// The skill.
        skill: String,
        /// The error.
        error: FileError,
    },
}

/// All skills of a host, by name. Calls that read files block.
#[derive(Debug, Clone, Default)]
pub struct SkillLibrary {
    skills: IndexMap<String, Skill>,
    findings: Vec<SkillFinding>,
    folders: Vec<PathBuf>,
}

impl SkillLibrary {
    /// Looks through folders, those that win first. Never fails as a whole: what is wrong with a skill is a finding.
    #[must_use]
    pub fn discover(folders: &[SkillFolder]) -> Self {
        let (skills, findings) = discover::discover(folders);
        Self { skills, findings, folders: folders.iter().map(|folder| folder.path.clone()).collect() }
    }

    /// Returns findings for a person: skills that did not load, names defined twice, front matter that bends the
    /// format.
    #[must_use]
    pub fn findings(&self) -> &[SkillFinding] {
        &self.findings
    }

    /// The findings in a few lines: one per folder, with the number of each kind; nothing without findings.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        self.folders.iter().filter_map(|folder| summary::of_folder(folder, &self.findings)).collect()
    }

    /// Every skill, in order of precedence, then of path.
    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// A skill by name.
    ///
    /// # Errors
    /// When there is none; the error lists what there is.
    pub fn find(&self, name: &str) -> Result<&Skill, SkillError> {
        self.skills.get(name).ok_or_else(|| SkillError::Unknown {
            name: name.to_owned(),
            hint: hint(name, self.skills.keys().map(String::as_str)),
            known: match self.skills.len() {
                0 => "none".to_owned(),
                _ => self.skills.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            },
        })
    }

    /// A skill's body, without its front matter.
    ///
    /// # Errors
    /// When there is no such skill or its file cannot be read.
    pub fn read(&self, name: &str) -> Result<String, SkillError> {
        let skill = self.find(name)?;
        let text = self.file(skill, |folder| folder.read_text(&skill.file, SKILL_TEXT_LIMIT))?;
        Ok(split(&text).body.trim_start().to_owned())
    }

    /// A file that belongs to a skill, by its path relative to the skill's folder.
    ///
    /// # Errors
    /// When there is no such skill or file, or the path leads out of the skill.
    pub fn read_resource(&self, name: &str, path: &str) -> Result<Vec<u8>, SkillError> {
        let skill = self.find(name)?;
        self.file(skill, |folder| {
            if skill.is_single_file() && path != skill.file {
                return Err(FileError::NotFound(path.to_owned()));
            }
            folder.read(path, SKILL_RESOURCE_LIMIT)
        })
    }

    /// The files that belong to a skill beside its own, as relative paths, sorted; links and hidden files are left out.
    ///
    /// # Errors
    /// When there is no such skill or its folder cannot be read.
    pub fn resources(&self, name: &str) -> Result<Vec<String>, SkillError> {
        let skill = self.find(name)?;
        if skill.is_single_file() {
            return Ok(Vec::new());
        }
        self.file(skill, |folder| {
            let mut found = Vec::new();
            let mut open = vec![(".".to_owned(), 0)];
            while let Some((directory, depth)) = open.pop() {
                for entry in folder.entries(&directory)? {
                    if entry.name.starts_with('.') {
                        continue;
                    }
                    let path =
                        if directory == "." { entry.name.clone() } else { format!("{directory}/{}", entry.name) };
                    match entry.kind {
                        EntryKind::File if path != skill.file && found.len() < RESOURCE_COUNT => found.push(path),
                        EntryKind::Directory if depth < RESOURCE_DEPTH => open.push((path, depth + 1)),
                        EntryKind::File | EntryKind::Directory | EntryKind::Other => {}
                    }
                }
            }
            found.sort();
            Ok(found)
        })
    }

    fn file<T>(
        &self,
        skill: &Skill,
        use_folder: impl FnOnce(&Folder) -> Result<T, FileError>,
    ) -> Result<T, SkillError> {
        let failed =
            |error: std::io::Error| FileError::Failed { path: ".".to_owned(), message: error.kind().to_string() };
        let open = || -> std::io::Result<Folder> {
            let root = skill.folder.canonicalize()?;
            // A skill may lie at the top of a project: its secrets are no part of the skill.
            let control = ControlFiles::below(&root);
            let guard = Guard { name: format!("skill:{}", skill.name), root, control: Arc::new(control) };
            Ok(Folder::open(&skill.folder)?.guarded(Some(guard)))
        };
        open()
            .map_err(failed)
            .and_then(|folder| use_folder(&folder))
            .map_err(|error| SkillError::File { skill: skill.name.clone(), error })
    }
}

impl Skill {
    /// A lone `NAME.md` shares its folder with others, so nothing else in it is its own.
    fn is_single_file(&self) -> bool {
        self.file != "SKILL.md"
    }
}

#[cfg(test)]
mod tests;
