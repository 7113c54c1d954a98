//! The skills of a folder: `NAME.md` files at its top, and `SKILL.md` files anywhere below it but inside of a skill.

use super::front_matter::{self, FrontMatter};
use super::{SKILL_TEXT_LIMIT, Skill};
use crate::confined::{EntryKind, Folder};
use indexmap::IndexMap;
use opcell_ir::diagnostic::Severity;
use opcell_types::text::one_line;
use opcell_yaml::front_matter::split;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The file that makes a folder a skill.
const SKILL_FILE: &str = "SKILL.md";

/// Names that editors and downloads make of it.
const OTHER_FILES: [&str; 4] = ["SKILL.markdown", "SKILL.md.txt", "SKILL.mdx", "SKILL.txt"];

/// Folders of a skill whose content is for its own use, by the Agent Skills format and by custom.
const RESOURCE_FOLDERS: [&str; 10] =
    ["assets", "evals", "examples", "fixtures", "references", "resources", "scripts", "template", "templates", "tests"];

/// Files that repositories keep beside their skills.
const NO_SKILLS: [&str; 9] =
    ["agents", "changelog", "claude", "code_of_conduct", "contributing", "index", "license", "readme", "security"];

/// Directories below a folder that are looked into.
const DEPTH: usize = 8;

/// Directory entries that are looked at per folder; a home directory given by mistake must not be walked whole.
const ENTRIES: usize = 20_000;

/// Lines of a file without front matter that are searched for one.
const HEAD_LINES: usize = 20;

/// Bytes of a wrong fence that are shown.
const FENCE_BYTES: usize = 20;

const NAME_LIMIT: usize = 64;
const DESCRIPTION_LIMIT: usize = 1024;

/// A folder to look for skills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    /// Path of the folder.
    pub path: PathBuf,
    /// `true` if the operator named it: then it is an error when it is missing.
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
        let mut directories = vec![Directory::default()];
        // What links lead to comes last, and is looked into once, however many lead there.
        let mut links: BTreeMap<String, Directory> = BTreeMap::new();
        let mut visited = HashSet::new();
        let mut seen = 0;
        while let Some(directory) = directories.pop().or_else(|| links.pop_first().map(|(_, directory)| directory)) {
            if !visited.insert(directory.real.clone()) {
                continue;
            }
            let here = if directory.path.is_empty() { "." } else { directory.path.as_str() };
            let entries = match open.entries(here) {
                Ok(entries) => entries,
                Err(error) => {
                    self.report(Severity::Warning, "skills-folder", &root.join(&directory.path), error.to_string());
                    continue;
                }
            };
            let mut found = Vec::new();
            let mut below = Vec::new();
            for entry in entries {
                seen += 1;
                if seen > ENTRIES {
                    let message = format!("more than {ENTRIES} entries; the others are not searched for skills");
                    self.report(Severity::Warning, "skills-folder-too-large", root, message);
                    directories.clear();
                    links.clear();
                    below.clear();
                    break;
                }
                let path = directory.child(&entry.name);
                let is_link = entry.kind == EntryKind::Other;
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
                match kind {
                    EntryKind::File => found.push((entry.name, path)),
                    EntryKind::Directory
                        if directory.depth < DEPTH && !entry.name.starts_with('.') && entry.name != "node_modules" =>
                    {
                        let real = match is_link {
                            true => open.canonical(&path),
                            false => Some(below_of(&directory.real, &entry.name)),
                        };
                        below.extend(real.map(|real| (entry.name, path, real, is_link)));
                    }
                    EntryKind::Directory | EntryKind::Other => {}
                }
            }
            let is_skill = found.iter().any(|(name, _)| name == SKILL_FILE);
            for (name, path) in found {
                if self.of_file(root, &directory, &name, &path, is_skill) {
                    files.push(path);
                }
            }
            // The folder itself may be a skill and hold others all the same.
            let owner = match (&directory.owner, is_skill && directory.depth > 0) {
                (None, true) => Some(directory.path.clone()),
                (owner, _) => owner.clone(),
            };
            let is_inside = is_skill || owner.is_some();
            for (name, path, real, is_link) in below {
                if is_inside && RESOURCE_FOLDERS.contains(&name.as_str()) {
                    continue;
                }
                let next = Directory { path, real, depth: directory.depth + 1, owner: owner.clone() };
                match is_link {
                    true => drop(links.insert(next.path.clone(), next)),
                    false => directories.push(next),
                }
            }
        }
        files.sort();
        for file in files {
            self.file(root, &open, &file);
        }
    }

    /// Decides whether a file is to be read as a skill. A file that looks like one and is none is reported.
    fn of_file(&mut self, root: &Path, directory: &Directory, name: &str, path: &str, is_skill: bool) -> bool {
        if name == SKILL_FILE {
            let Some(owner) = &directory.owner else { return true };
            let message = format!(
                "a part of the skill in `{owner}` and no skill of its own; to make it one, move its folder out of that"
            );
            self.report(Severity::Warning, "skill-inside-a-skill", &root.join(path), message);
            return false;
        }
        if directory.depth == 0 {
            return Path::new(name).extension().is_some_and(|extension| extension == "md");
        }
        let is_meant =
            name.eq_ignore_ascii_case(SKILL_FILE) || OTHER_FILES.iter().any(|other| name.eq_ignore_ascii_case(other));
        if is_meant && !is_skill && directory.owner.is_none() {
            let message = format!("not read as a skill: rename it to `{SKILL_FILE}`");
            self.report(Severity::Warning, "skill-file-name", &root.join(path), message);
        }
        false
    }

    fn file(&mut self, root: &Path, open: &Folder, file: &str) {
        let path = root.join(file);
        let text = match open.read_text(file, SKILL_TEXT_LIMIT) {
            Ok(text) => text,
            Err(error) => return self.report(Severity::Error, "skill-unreadable", &path, error.to_string()),
        };
        let parts = split(&text);
        if parts.head.is_none() && !parts.is_unclosed && is_no_skill(file) {
            return;
        }
        let (front, warnings) = front_matter::parse(parts.head.unwrap_or_default(), parts.line);
        for warning in warnings {
            self.report(Severity::Warning, "skill-front-matter", &path, warning);
        }
        let lacks = match (parts.head, parts.is_unclosed) {
            (Some(_), _) => "the front matter has no `description`".to_owned(),
            (None, true) => {
                "the front matter is not closed by a line `---`, so the skill has no description".to_owned()
            }
            (None, false) => missing_head(&text),
        };
        let Some(skill) = self.skill(front, &path, &lacks) else { return };
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
    fn skill(&mut self, front: FrontMatter, path: &Path, lacks: &str) -> Option<Skill> {
        let folder = path.parent()?.to_owned();
        let file = path.file_name()?.to_string_lossy().into_owned();
        let home = if file == SKILL_FILE {
            folder.file_name()?.to_string_lossy()
        } else {
            path.file_stem()?.to_string_lossy()
        };
        let Some(description) = front.description else {
            self.report(Severity::Error, "missing-description", path, lacks);
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

/// A folder that is looked into, relative to the one that was named.
#[derive(Default)]
struct Directory {
    path: String,
    /// The path without links.
    real: String,
    depth: usize,
    /// The folder of the skill that it belongs to.
    owner: Option<String>,
}

impl Directory {
    fn child(&self, name: &str) -> String {
        below_of(&self.path, name)
    }
}

fn below_of(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The reason why a file has no front matter: there is none, or it begins otherwise than with a first line `---`.
fn missing_head(text: &str) -> String {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).take(HEAD_LINES);
    let first = lines.next().map(|(_, line)| line.trim()).unwrap_or_default();
    let is_rule = |line: &str| line.chars().count() > 1 && line.chars().all(|c| matches!(c, '-' | '–' | '—' | '+'));
    if is_rule(first.trim_start_matches('\u{feff}')) {
        let fence = one_line(first, FENCE_BYTES);
        return format!(
            "the front matter begins with `{fence}` and not with a line `---`, so the skill has no description"
        );
    }
    let begins = lines.clone().zip(lines.skip(1)).find(|((_, fence), (_, next))| {
        let key = next.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        fence.trim() == "---" && next.contains(':') && matches!(key.as_str(), "name" | "description")
    });
    match begins {
        Some(((at, _), _)) => format!(
            "the front matter begins on line {} and not with the file, so the skill has no description; move it to the top",
            at + 1
        ),
        None => "there is no front matter (`---`, `description: …`, `---`), so the skill has no description".to_owned(),
    }
}

/// Returns `true` if a file at the top of a folder is a usual file of a repository, by its name.
fn is_no_skill(file: &str) -> bool {
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    NO_SKILLS
        .iter()
        .any(|name| stem == *name || stem.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', '-', '_'])))
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
