//! Which skills there are: `NAME.md` files at the top of a folder, and `SKILL.md` files anywhere below it.

use super::front_matter::{self, FrontMatter};
use super::{SKILL_TEXT_LIMIT, Skill};
use crate::confined::{EntryKind, Folder};
use indexmap::IndexMap;
use opcell_workflow::diagnostic::Severity;
use std::path::{Path, PathBuf};

/// Directories below a folder that are looked into.
const DEPTH: usize = 8;

/// Directory entries that are looked at per folder; a home directory given by mistake must not be walked whole.
const ENTRIES: usize = 20_000;

const NAME_LIMIT: usize = 64;
const DESCRIPTION_LIMIT: usize = 1024;

/// A folder to look for skills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    /// Path of the folder.
    pub path: PathBuf,
    /// Whether the operator named it: then it is an error when it is missing.
    pub required: bool,
}

impl SkillFolder {
    /// A folder that need not exist.
    #[must_use]
    pub fn optional(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), required: false }
    }

    /// A folder that must exist.
    #[must_use]
    pub fn required(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), required: true }
    }
}

/// Something a person should know about a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFinding {
    /// An error means that the skill is not there.
    pub severity: Severity,
    /// Stable kebab-case identifier.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// The file or folder.
    pub path: PathBuf,
}

struct Search {
    skills: IndexMap<String, Skill>,
    findings: Vec<SkillFinding>,
}

pub(super) fn discover(folders: &[SkillFolder]) -> (IndexMap<String, Skill>, Vec<SkillFinding>) {
    let mut search = Search { skills: IndexMap::new(), findings: Vec::new() };
    for folder in folders {
        search.folder(folder);
    }
    (search.skills, search.findings)
}

impl Search {
    fn report(&mut self, severity: Severity, code: &'static str, path: &Path, message: impl Into<String>) {
        self.findings.push(SkillFinding { severity, code, message: message.into(), path: path.to_owned() });
    }

    fn folder(&mut self, folder: &SkillFolder) {
        let root = &folder.path;
        let open = match Folder::open(root) {
            Ok(open) => open,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !folder.required => return,
            Err(error) => {
                let message = format!("cannot open the skills folder: {}", error.kind());
                return self.report(Severity::Error, "skills-folder", root, message);
            }
        };
        let mut files = Vec::new();
        let mut directories = vec![(String::new(), 0)];
        let mut seen = 0;
        while let Some((directory, depth)) = directories.pop() {
            let here = if directory.is_empty() { "." } else { directory.as_str() };
            let entries = match open.entries(here) {
                Ok(entries) => entries,
                Err(error) => {
                    self.report(Severity::Warning, "skills-folder", &root.join(&directory), error.to_string());
                    continue;
                }
            };
            for entry in entries {
                seen += 1;
                if seen > ENTRIES {
                    let message = format!("more than {ENTRIES} entries; the others are not searched for skills");
                    self.report(Severity::Warning, "skills-folder-too-large", root, message);
                    directories.clear();
                    break;
                }
                let path =
                    if directory.is_empty() { entry.name.clone() } else { format!("{directory}/{}", entry.name) };
                let kind = match entry.kind {
                    EntryKind::Other => match open.kind(&path) {
                        Ok(kind) => kind,
                        Err(error) => {
                            let message = format!("not searched for skills: {error}");
                            self.report(Severity::Warning, "skills-link", &root.join(&path), message);
                            continue;
                        }
                    },
                    kind => kind,
                };
                let is_skill = entry.name == "SKILL.md"
                    || (depth == 0 && Path::new(&entry.name).extension().is_some_and(|e| e == "md"));
                match kind {
                    EntryKind::File if is_skill => files.push(path),
                    EntryKind::Directory
                        if depth < DEPTH && !entry.name.starts_with('.') && entry.name != "node_modules" =>
                    {
                        directories.push((path, depth + 1));
                    }
                    EntryKind::File | EntryKind::Directory | EntryKind::Other => {}
                }
            }
        }
        files.sort();
        for file in files {
            self.file(root, &open, &file);
        }
    }

    fn file(&mut self, root: &Path, open: &Folder, file: &str) {
        let path = root.join(file);
        let text = match open.read_text(file, SKILL_TEXT_LIMIT) {
            Ok(text) => text,
            Err(error) => return self.report(Severity::Error, "skill-unreadable", &path, error.to_string()),
        };
        let (front, warnings) = front_matter::parse(front_matter::split(&text).0.unwrap_or_default());
        for warning in warnings {
            self.report(Severity::Warning, "skill-front-matter", &path, warning);
        }
        let Some(skill) = self.skill(front, &path) else { return };
        match self.skills.get(&skill.name) {
            Some(winner) => {
                let message = format!(
                    "skill `{}` is also defined by {}, which wins",
                    skill.name,
                    winner.folder.join(&winner.file).display()
                );
                self.report(Severity::Warning, "collision", &path, message);
            }
            None => {
                self.skills.insert(skill.name.clone(), skill);
            }
        }
    }

    /// psi's rules: only a missing description is fatal; a name that bends the format is a warning.
    fn skill(&mut self, front: FrontMatter, path: &Path) -> Option<Skill> {
        let folder = path.parent()?.to_owned();
        let file = path.file_name()?.to_string_lossy().into_owned();
        let home = if file == "SKILL.md" {
            folder.file_name()?.to_string_lossy()
        } else {
            path.file_stem()?.to_string_lossy()
        };
        let Some(description) = front.description else {
            self.report(Severity::Error, "missing-description", path, "Missing description");
            return None;
        };
        let name = front.name.unwrap_or_else(|| home.clone().into_owned());
        for problem in name_problems(&name, &home) {
            self.report(Severity::Warning, "skill-name", path, problem);
        }
        if description.chars().count() > DESCRIPTION_LIMIT {
            let message = format!("the description is longer than {DESCRIPTION_LIMIT} characters");
            self.report(Severity::Warning, "skill-description", path, message);
        }
        Some(Skill {
            name,
            description,
            lambda: front.lambda,
            license: front.license,
            compatibility: front.compatibility,
            allowed_tools: front.allowed_tools,
            disable_model_invocation: front.disable_model_invocation,
            advertise: front.advertise,
            folder,
            file,
        })
    }
}

fn name_problems(name: &str, home: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.chars().count() > NAME_LIMIT {
        problems.push(format!("the name is longer than {NAME_LIMIT} characters"));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(allowed) || name.starts_with('-') || name.ends_with('-') {
        problems.push(format!("`{name}` should be lower-case letters, digits and single hyphens between them"));
    } else if name.contains("--") {
        problems.push(format!("`{name}` should not contain `--`"));
    }
    if name != home {
        problems.push(format!("the name `{name}` differs from its folder or file, `{home}`"));
    }
    problems
}
