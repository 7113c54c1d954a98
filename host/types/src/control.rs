//! Files that decide what runs and what it may reach, or that hold secrets: a grant of a folder does not extend to
//! them.
//!
//! One list for everything that is granted files: plugins' roots and models' file tools. Below every root, at any
//! depth,
//!
//! | files | read | write |
//! | --- | --- | --- |
//! | keys and secrets: [`SECRET_FILES`], [`SECRET_FOLDERS`], and what [`ControlFiles::secrets`] names | no | no |
//! | journals: `.opcell/**` but `workflows` and `skills`, `runs.db*`, and the journal of the project | no | no |
//! | what decides: [`DECIDING_FILES`], [`DECIDING_FOLDERS`], and what [`ControlFiles::fixed`] names | yes | no |
//!
//! `control-files = true` on the grant lifts the list. Nothing lifts [`ControlFiles::sealed`]: a root that holds one of
//! these places, or lies in one, is not opened at all.
//!
//! Names count whatever their case and however they are spelled in Unicode, because some file systems open
//! `.GIT/config`, `opcell.toml` with a full-width letter or `.g\u{200c}it` for the plain name. The decision is pure;
//! callers ask it about the path as it was asked for *and* about where the open descriptor really lies, so that neither
//! a link nor a renamed parent gets around it.

use icu_normalizer::uts46::Uts46MapperBorrowed;
use std::path::{Component, Path, PathBuf};

/// Files that decide, by name: Opcell's, and the instructions that agents read.
pub const DECIDING_FILES: [&str; 21] = [
    "opcell.toml",
    "opcell.lock",
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    ".cursorrules",
    ".windsurfrules",
    "copilot-instructions.md",
    ".clinerules",
    ".roorules",
    ".rules",
    ".goosehints",
    ".aider.conf.yml",
    ".mcp.json",
    ".gitmodules",
    ".gitattributes",
    ".hgrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
];

/// Folders that decide, with everything below them: hooks and configuration of version control, pipelines and editors'
/// tasks run, the others instruct agents.
pub const DECIDING_FOLDERS: [&str; 25] = [
    ".git",
    ".hg",
    ".jj",
    ".svn",
    ".husky",
    ".github",
    ".gitlab",
    ".devcontainer",
    ".vscode",
    ".opcell",
    ".psi",
    ".agents",
    ".amazonq",
    ".claude",
    ".clinerules",
    ".codex",
    ".continue",
    ".cursor",
    ".gemini",
    ".goose",
    ".junie",
    ".kiro",
    ".roo",
    ".windsurf",
    ".zed",
];

/// Files that hold secrets, by name; with them `.env.*` (but examples), and files with one of [`SECRET_EXTENSIONS`].
pub const SECRET_FILES: [&str; 22] = [
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    "credentials.toml",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "mac.key",
    "credentials",
    "credentials.json",
    "service-account.json",
    ".vault-token",
    "secrets.yaml",
    "secrets.yml",
    "secrets.toml",
];

/// Extensions of key files.
pub const SECRET_EXTENSIONS: [&str; 6] = ["pem", "key", "p12", "pfx", "jks", "keystore"];

/// Folders of secrets.
pub const SECRET_FOLDERS: [&str; 5] = [".ssh", ".gnupg", ".aws", ".azure", ".kube"];

/// Files and folders that hold secrets by their name and that of their folder: `.git/config` has the tokens of remotes.
pub const SECRET_PAIRS: [(&str, &str); 5] =
    [(".git", "config"), (".git", "credentials"), (".docker", "config.json"), (".config", "gh"), (".config", "gcloud")];

/// Names after `.env.` that say that there is no secret in the file.
const EXAMPLES: [&str; 5] = ["example", "sample", "template", "dist", "defaults"];

/// What a caller is about to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Read what it holds.
    Read,
    /// Create, change, replace or remove it.
    Write,
}

/// The files of one host that grants do not extend to. The default knows the names only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlFiles {
    /// The project's folder, absolute and without links: the folders above it do not count as names of the list.
    pub project: Option<PathBuf>,
    /// Files and folders that hold secrets or runs, absolute.
    pub secrets: Vec<PathBuf>,
    /// Files and folders in force, absolute: plugins, workflows, skills, scripts that are started.
    pub fixed: Vec<PathBuf>,
    /// The user's own keys, compiled code and consent, absolute.
    pub sealed: Vec<PathBuf>,
}

impl ControlFiles {
    /// The names only, below a folder, absolute and without links: those of the folders above it do not count.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self { project: Some(folder.to_owned()), ..Self::default() }
    }

    /// Why a grant does not extend to `path`, absolute or relative to a root; `None` when it may be touched.
    #[must_use]
    pub fn refuses(&self, touch: Touch, path: &Path) -> Option<String> {
        let holds = |places: &[PathBuf]| places.iter().any(|place| lies_in(path, place));
        if holds(&self.sealed) {
            return Some("the user's keys, compiled code and consent are never reached through a grant".to_owned());
        }
        if holds(&self.secrets) {
            return Some(format!(
                "`{}` holds secrets or runs, and a grant of its folder does not extend to it",
                name(path)
            ));
        }
        if touch == Touch::Write && holds(&self.fixed) {
            return Some(format!("`{}` is in force, and a grant of its folder does not extend to it", name(path)));
        }
        let below = self.project.as_deref().and_then(|project| path.strip_prefix(project).ok()).unwrap_or(path);
        let names: Vec<String> = below
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(plain(&name.to_string_lossy())),
                _ => None,
            })
            .collect();
        names.iter().enumerate().find_map(|(index, found)| {
            let next = names.get(index + 1).map(String::as_str);
            judge(touch, found, next, index + 1 == names.len()).map(|why| format!("`{}` {why}", shown(found)))
        })
    }

    /// The place that `root` must not hold and must not lie in; `None` when it may be granted. `root` is absolute and
    /// without links.
    #[must_use]
    pub fn sealed_by(&self, root: &Path) -> Option<&Path> {
        self.sealed.iter().find(|place| lies_in(root, place) || lies_in(place, root)).map(PathBuf::as_path)
    }

    /// Files that secrets and decisions are known to lie in, for comparing a file that has several names with them.
    #[must_use]
    pub fn known(&self, root: &Path) -> Vec<PathBuf> {
        let folders = [Some(root), self.project.as_deref().filter(|project| *project != root)];
        let usual = folders.into_iter().flatten().flat_map(|folder| SECRET_FILES.iter().map(|name| folder.join(name)));
        self.secrets.iter().cloned().chain(usual).collect()
    }

    /// Whether a file that may be written below `root` could decide something: for grants that are not looked at file
    /// by file.
    #[must_use]
    pub fn decides_below(&self, root: &Path) -> bool {
        let project = self.project.iter();
        let mut places = self.secrets.iter().chain(&self.fixed).chain(project);
        self.refuses(Touch::Write, root).is_some() || places.any(|place| lies_in(place, root))
    }
}

fn judge(touch: Touch, name: &str, next: Option<&str>, is_last: bool) -> Option<&'static str> {
    const SECRET: &str = "holds secrets, and a grant of its folder does not extend to it";
    const RUNS: &str = "holds runs and what they were given, and a grant of its folder does not extend to it";
    const DECIDES: &str =
        "decides what runs and what it may reach, and a grant of its folder is not a grant to change it";
    let is_git = name == ".git" || (name.starts_with("git~") && name.len() == 5);
    if SECRET_FOLDERS.contains(&name) || (is_last && is_secret(name)) {
        return Some(SECRET);
    }
    if next.is_some_and(|next| SECRET_PAIRS.contains(&(name, next))) {
        return Some(SECRET);
    }
    if name == "runs.db" || name.starts_with("runs.db-") {
        return Some(RUNS);
    }
    if name == ".opcell" && next.is_some_and(|next| !matches!(next, "workflows" | "skills")) {
        return Some(RUNS);
    }
    let decides = is_git || DECIDING_FOLDERS.contains(&name) || (is_last && DECIDING_FILES.contains(&name));
    (touch == Touch::Write && decides).then_some(DECIDES)
}

fn is_secret(name: &str) -> bool {
    let example = |suffix: &str| suffix.rsplit('.').next().is_some_and(|last| EXAMPLES.contains(&last));
    // What an editor leaves beside a file is as secret as the file.
    let name = name.trim_end_matches('~');
    SECRET_FILES.contains(&name)
        || name.strip_prefix(".env.").is_some_and(|suffix| !example(suffix))
        || name
            .rsplit_once('.')
            .is_some_and(|(stem, extension)| !stem.is_empty() && SECRET_EXTENSIONS.contains(&extension))
}

/// A name as the most forgiving file system sees it: in one case, without compatibility forms, characters that are
/// ignored, and dots and blanks at its end.
fn plain(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)) {
        return name.trim_end_matches('.').to_owned();
    }
    let seen = name.chars().filter(|c| {
        let ignored = matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
        !ignored && !c.is_control()
    });
    let mapped: String = Uts46MapperBorrowed::new().map_normalize(seen).collect();
    // A stream of NTFS, `name::$INDEX_ALLOCATION`, is the file itself.
    let name = mapped.split(':').next().unwrap_or_default();
    name.to_ascii_lowercase().trim_end_matches(['.', ' ']).to_owned()
}

/// Whether `path` is `place` or lies below it, on any file system.
fn lies_in(path: &Path, place: &Path) -> bool {
    if path.starts_with(place) {
        return true;
    }
    let mut path = path.components();
    place.components().all(|wanted| {
        let folded = |component: Component<'_>| plain(&component.as_os_str().to_string_lossy());
        path.next().is_some_and(|found| found == wanted || folded(found) == folded(wanted))
    })
}

fn name(path: &Path) -> String {
    shown(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

/// A name that untrusted code may have chosen, for a message.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(path: &str) -> bool {
        ControlFiles::default().refuses(Touch::Read, Path::new(path)).is_none()
    }

    fn writes(path: &str) -> bool {
        ControlFiles::default().refuses(Touch::Write, Path::new(path)).is_none()
    }

    #[test]
    fn ordinary_files_are_read_and_written() {
        for path in
            ["src/main.rs", "README.md", "docs/agents.txt", ".gitignore", "environment", "env", "keys.rs", "git/config"]
        {
            assert!(reads(path) && writes(path), "{path}");
        }
    }

    #[test]
    fn what_decides_is_read_but_not_written_at_any_depth() {
        for path in [
            "opcell.toml",
            "a/b/opcell.lock",
            ".git/HEAD",
            "sub/.git/hooks/post-checkout",
            ".git",
            ".hg/hgrc",
            ".github/workflows/ci.yml",
            ".vscode/tasks.json",
            ".husky/pre-commit",
            ".mcp.json",
            ".gemini/settings.json",
            ".windsurf/rules/x.md",
            "sub/.clinerules",
            "AGENTS.md",
            "x/CLAUDE.md",
            ".opcell/workflows/w.edn",
            ".claude/settings.json",
            ".opcell",
        ] {
            assert!(reads(path), "{path}");
            assert!(!writes(path), "{path}");
        }
    }

    #[test]
    fn secrets_and_journals_are_neither_read_nor_written() {
        for path in [
            ".env",
            "a/.env",
            ".env.local",
            ".env.production",
            ".env~",
            ".git/config",
            ".cargo/credentials",
            ".config/gh/hosts.yml",
            ".config/gcloud/x",
            ".azure/x",
            ".vault-token",
            "credentials.json",
            ".ssh/config",
            "home/.aws/credentials",
            "tls/server.key",
            "server.pem",
            "id_ed25519",
            ".opcell/runs.db",
            ".opcell/runs.db-wal",
            "old/runs.db",
            ".docker/config.json",
            ".opcell/cache/x",
        ] {
            assert!(!reads(path) && !writes(path), "{path}");
        }
        for path in [".env.example", ".env.sample", "id_ed25519.pub", "monkey", ".key"] {
            assert!(reads(path), "{path}");
        }
    }

    #[test]
    fn no_spelling_of_a_name_gets_around_the_list() {
        for path in [
            "OPCELL.TOML",
            "Opcell.Toml",
            "opcell.toml.",
            "opcell.toml ",
            "opcell.toml::$DATA",
            "ｏpcell.toml",
            "opcell．toml",
            "op\u{200c}cell.toml",
            "opcell.to\u{feff}ml",
            ".GIT/hooks/x",
            ".g\u{200c}it/hooks/x",
            ".Git./hooks/x",
            "GIT~1/hooks/x",
            "opcell.loc\u{212a}",
            "Agent\u{17f}.md",
            "AGENTS.MD",
        ] {
            assert!(!writes(path), "{path:?}");
        }
        for path in [".ENV", ".e\u{200d}nv", "\u{ff0e}env", ".Env.Local", ".\u{1d5ba}ws/credentials"] {
            assert!(!reads(path), "{path:?}");
        }
    }

    #[test]
    fn composed_and_decomposed_names_of_places_in_force_are_the_same_place() {
        let control = ControlFiles { fixed: vec!["/p/caf\u{e9}.wasm".into()], ..ControlFiles::default() };
        assert!(control.refuses(Touch::Write, Path::new("/p/cafe\u{301}.wasm")).is_some());
        assert!(control.refuses(Touch::Write, Path::new("/p/CAF\u{c9}.WASM")).is_some());
        assert!(control.refuses(Touch::Write, Path::new("/p/cafe.wasm")).is_none());
        assert!(control.refuses(Touch::Read, Path::new("/p/caf\u{e9}.wasm")).is_none());
    }

    #[test]
    fn folders_above_the_project_do_not_count_but_a_root_inside_one_does() {
        let control = ControlFiles { project: Some("/home/u/.claude/tree".into()), ..ControlFiles::default() };
        assert!(control.refuses(Touch::Write, Path::new("/home/u/.claude/tree/src/a.rs")).is_none());
        assert!(control.refuses(Touch::Write, Path::new("/home/u/.claude/tree/.git/x")).is_some());
        assert!(control.refuses(Touch::Write, Path::new("/home/u/other/.git/x")).is_some());
    }

    #[test]
    fn a_root_that_holds_or_lies_in_the_users_state_is_refused() {
        let control = ControlFiles { sealed: vec!["/home/u/.local/state/opcell".into()], ..ControlFiles::default() };
        for root in ["/", "/home/u", "/home/u/.local/state/opcell", "/home/u/.local/state/opcell/keys"] {
            assert!(control.sealed_by(Path::new(root)).is_some(), "{root}");
        }
        assert!(control.sealed_by(Path::new("/home/u/project")).is_none());
        assert!(control.refuses(Touch::Read, Path::new("/home/u/.local/state/opcell/trusted")).is_some());
    }
}
