//! Files that decide what runs and what it may reach, or that hold secrets: a grant of a folder does not extend to
//! them.
//!
//! One list for everything that is granted files: plugins' roots and models' file tools. Below every root, at any
//! depth,
//!
//! | files | read | write |
//! | --- | --- | --- |
//! | keys and secrets: names of [`TABLE`], and what [`ControlFiles::secrets`] names | no | no |
//! | journals: `.opcell/**` but `workflows` and `skills`, `runs.db*`, and the journal of the project | no | no |
//! | what decides: names of [`TABLE`], and what [`ControlFiles::fixed`] names | yes | no |
//! | code that a started program may load ([`ControlFiles::loaded`]) | yes | no |
//! | new documents in a folder whose documents are found by name ([`ControlFiles::listed`]) | yes | no |
//! | parts of a repository without a work tree ([`is_in_repository`]) | yes | no |
//!
//! `control-files = true` on the grant lifts the list. Nothing lifts [`ControlFiles::sealed`]: a root that holds one of
//! these places, or lies in one, is not opened at all.
//!
//! Names count whatever their case and however they are spelled in Unicode, because some file systems open
//! `.GIT/config`, `opcell.toml` with a full-width letter or `.g\u{200c}it` for the plain name. The decision is pure but
//! for [`is_in_repository`] and [`ControlFiles::refuses_hard_link`]; callers ask it about the path as it was asked for *and* about
//! where the open descriptor really lies, so that neither a link nor a renamed parent gets around it.

mod code;
mod names;
mod table;
#[cfg(test)]
mod tests;

pub use code::is_code;
use icu_normalizer::uts46::Uts46MapperBorrowed;
use std::{
    os::unix::fs::{DirEntryExt as _, MetadataExt as _},
    path::{Component, Path, PathBuf},
};
pub use table::{Group, HARMLESS_OF_GIT, Holds, OPEN_OF_OPCELL, TABLE};

/// Entries of one folder that are looked at for their names.
const MAX_ENTRIES: usize = 10_000;

/// The action on a path that a caller is about to take.
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
    /// Files and folders in force, absolute: plugins, workflows, skills, and what started programs are made of.
    pub fixed: Vec<PathBuf>,
    /// Folders whose code programs load that are started there, absolute: nothing that [`is_code`] below them.
    pub loaded: Vec<PathBuf>,
    /// Folders whose documents are found by name.
    pub listed: Vec<Listed>,
    /// The user's own keys, compiled code and consent, absolute.
    pub sealed: Vec<PathBuf>,
}

/// A folder that is read for whatever documents it has: a new one takes part without being named anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// Extensions of its documents, in lower case.
    pub extensions: &'static [&'static str],
}

impl Listed {
    /// The documents with these extensions, directly in a folder.
    #[must_use]
    pub fn new(folder: PathBuf, extensions: &'static [&'static str]) -> Self {
        Self { folder, extensions }
    }

    fn has(&self, path: &Path) -> bool {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return false };
        let name = plain(&name.to_string_lossy());
        let is_document = name.rsplit_once('.').is_some_and(|(_, ending)| self.extensions.contains(&ending));
        is_document && lies_in(folder, &self.folder) && lies_in(&self.folder, folder)
    }
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
        if touch == Touch::Write && is_code(path) && holds(&self.loaded) {
            return Some(format!(
                "`{}` is code, which a program loads that the project starts there, and a grant of the folder does not \
                 extend to it",
                name(path)
            ));
        }
        if touch == Touch::Write && self.listed.iter().any(|listed| listed.has(path)) {
            return Some(format!(
                "`{}` would be a document that is found by its name, and a grant of its folder extends to no new ones",
                name(path)
            ));
        }
        let below = self.project.as_deref().and_then(|project| path.strip_prefix(project).ok()).unwrap_or(path);
        let names: Vec<String> = below
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(plain(&name.to_string_lossy())),
                _ => None,
            })
            .collect();
        (0..names.len()).find_map(|at| {
            let why = judge(touch, &names, at)?;
            Some(format!("`{}` {why}", shown(names.get(at)?)))
        })
    }

    /// The place that `root` must not hold and must not lie in; `None` when it may be granted. `root` is absolute and
    /// without links.
    #[must_use]
    pub fn sealed_by(&self, root: &Path) -> Option<&Path> {
        self.sealed.iter().find(|place| lies_in(root, place) || lies_in(place, root)).map(PathBuf::as_path)
    }

    /// Why a grant of `root` does not extend to a file that has several names, by its device and its number there: one
    /// of its names is a secret's, or a file's that runs are in. The names that the project gives secrets are looked
    /// at, and those below the root and the project, of at most 100,000 files. Blocks.
    #[must_use]
    pub fn refuses_hard_link(&self, root: &Path, file: (u64, u64)) -> Option<String> {
        let folders = [Some(root), self.project.as_deref().filter(|project| !project.starts_with(root))];
        let below = folders.into_iter().flatten().flat_map(|folder| names_of(folder, file.1));
        let mut names = self.secrets.iter().cloned().chain(below).filter(|path| is_file(path, file));
        names.find_map(|path| self.refuses(Touch::Read, &path))
    }

    /// Returns `true` if a file that may be written below `root` could decide something: for grants that are not looked
    /// at file by file.
    #[must_use]
    pub fn decides_below(&self, root: &Path) -> bool {
        let project = self.project.iter();
        let listed = self.listed.iter().map(|listed| &listed.folder);
        let mut places = self.secrets.iter().chain(&self.fixed).chain(&self.loaded).chain(project).chain(listed);
        self.refuses(Touch::Write, root).is_some() || places.any(|place| lies_in(place, root))
    }
}

/// Files that are looked at below a folder for the names of one of them.
const MAX_WALKED: usize = 100_000;

/// The files below a folder that have a number, which is one file's on each device. Links are not followed.
fn names_of(folder: &Path, number: u64) -> Vec<PathBuf> {
    let (mut found, mut pending, mut walked) = (Vec::new(), vec![folder.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            walked += 1;
            if walked > MAX_WALKED {
                return found;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(entry.path()),
                Ok(_) if entry.ino() == number => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

fn is_file(path: &Path, (device, number): (u64, u64)) -> bool {
    path.symlink_metadata().is_ok_and(|file| (file.dev(), file.ino()) == (device, number))
}

/// Returns `true` if a folder holds, at its top, something whose name says that it decides what runs. Blocks.
///
/// # Errors
/// When the folder cannot be listed, or has more entries than are looked at.
pub fn decides_in(folder: &Path) -> std::io::Result<bool> {
    for (count, entry) in std::fs::read_dir(folder)?.enumerate() {
        if count == MAX_ENTRIES {
            return Err(std::io::Error::other(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let names = [plain(&entry?.file_name().to_string_lossy())];
        if names::holds(&names, 0).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Why nothing is written to `path`, absolute, below `root`: a folder above it is a repository without a work tree, of
/// which version control runs what the configuration names. Blocks.
#[must_use]
pub fn is_in_repository(path: &Path, root: &Path) -> Option<String> {
    let is_there = |folder: &Path, name: &str| folder.join(name).symlink_metadata().is_ok();
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    let found = folders.find(|folder| {
        is_there(folder, "HEAD") && ["objects", "refs", "commondir", "config"].iter().any(|name| is_there(folder, name))
    })?;
    Some(format!("it is in the repository `{}`, and a grant of its folder is not a grant to change that", name(found)))
}

fn judge(touch: Touch, names: &[String], at: usize) -> Option<&'static str> {
    const SECRET: &str = "holds secrets, and a grant of its folder does not extend to it";
    const RUNS: &str = "holds runs and what they were given, and a grant of its folder does not extend to it";
    const DECIDES: &str =
        "decides what runs and what it may reach, and a grant of its folder is not a grant to change it";
    let name = names.get(at)?.as_str();
    let next = names.get(at + 1).map(String::as_str);
    let is_git = name == ".git" || name.starts_with("git~") && name.len() == 5;
    if is_git && next.is_some_and(|next| !HARMLESS_OF_GIT.contains(&next)) {
        return Some(if touch == Touch::Write { DECIDES } else { SECRET });
    }
    if name == ".opcell" && next.is_some_and(|next| !OPEN_OF_OPCELL.contains(&next)) {
        return Some(RUNS);
    }
    match names::holds(names, at)? {
        Holds::Secrets => Some(SECRET),
        Holds::Runs => Some(RUNS),
        Holds::Decisions => (touch == Touch::Write).then_some(DECIDES),
    }
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

/// Returns `true` if `path` is `place` or lies below it, on any file system.
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
