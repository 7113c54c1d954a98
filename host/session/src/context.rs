//! The files of a project that every session sees: `AGENTS.md`, or `CLAUDE.md` where there is none.

use crate::prompt::ContextFile;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The most that is read of one file, in bytes.
const LIMIT: u64 = 256 << 10;

/// Directories above a project that are looked into.
const DEPTH: usize = 32;

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Reads the first of the names in each directory from the repository's root, the nearest with a `.git`, down to the
/// project; outside a repository in the project alone, because a file above may be anybody's. Longer files are cut and
/// say so. Blocks.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn project_context(project: &Path) -> std::io::Result<Vec<ContextFile>> {
    let above: Vec<_> = project.ancestors().take(DEPTH).collect();
    // A folder of another user ends the way up: what lies there is not this project's.
    let owner = |directory: &Path| directory.metadata().ok().map(|status| status.uid());
    let ours = above.iter().take_while(|directory| owner(directory) == owner(project)).count();
    let repository = above.iter().take(ours).position(|directory| directory.join(".git").exists()).unwrap_or(0);
    let mut files = Vec::new();
    for directory in above.iter().take(repository + 1).rev() {
        for path in NAMES.iter().map(|name| directory.join(name)) {
            let Some(file) = open_own(&path)? else { continue };
            let mut bytes = Vec::new();
            file.take(LIMIT + 1).read_to_end(&mut bytes)?;
            let cut = bytes.len() as u64 > LIMIT;
            bytes.truncate(usize::try_from(LIMIT).unwrap_or(usize::MAX));
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            if cut {
                text.push_str(&format!("\n[truncated after {LIMIT} bytes]"));
            }
            files.push(ContextFile { path: shown(&path, directory, above.get(repository).copied()), text });
            break;
        }
    }
    Ok(files)
}

/// Opens a context file, a regular file that is not a link: a checkout may link the name to any file of its user, and
/// every prompt would show it. `None` when there is none, or something else has the name.
#[expect(clippy::disallowed_methods, reason = "it is opened for reading")]
fn open_own(path: &Path) -> std::io::Result<Option<File>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            tracing::warn!("{} is a link, and not shown to models", path.display());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The path from the repository's root: a host's folders are not a model's business.
fn shown(path: &Path, directory: &Path, root: Option<&Path>) -> String {
    path.strip_prefix(root.unwrap_or(directory)).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_come_from_the_repository_root_down_and_never_from_above_it() {
        let outside = tempfile::TempDir::new().unwrap();
        let root = outside.path().join("repo");
        let project = root.join("a/b");
        fs::create_dir_all(&project).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(outside.path().join("AGENTS.md"), "not ours").unwrap();
        fs::write(root.join("CLAUDE.md"), "root").unwrap();
        fs::write(project.join("AGENTS.md"), "project").unwrap();
        fs::write(project.join("CLAUDE.md"), "second").unwrap();
        let found = project_context(&project).unwrap();
        let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
        assert_eq!(found, [("CLAUDE.md", "root"), ("a/b/AGENTS.md", "project")]);
    }

    #[test]
    fn a_context_file_that_is_a_link_is_not_shown_and_the_other_name_is() {
        let project = tempfile::TempDir::new().unwrap();
        fs::write(project.path().join("secret"), "a key").unwrap();
        std::os::unix::fs::symlink("secret", project.path().join("AGENTS.md")).unwrap();
        assert_eq!(project_context(project.path()).unwrap(), []);
        fs::write(project.path().join("CLAUDE.md"), "ours").unwrap();
        assert_eq!(project_context(project.path()).unwrap()[0].text, "ours");
    }

    #[test]
    fn outside_a_repository_only_the_project_itself_counts_and_long_files_are_cut() {
        let outside = tempfile::TempDir::new().unwrap();
        let project = outside.path().join("p");
        fs::create_dir(&project).unwrap();
        fs::write(outside.path().join("AGENTS.md"), "anybody's").unwrap();
        assert_eq!(project_context(&project).unwrap(), []);
        fs::write(project.join("AGENTS.md"), "é".repeat(200_000)).unwrap();
        let found = project_context(&project).unwrap();
        assert!(found[0].text.len() < 263_000 && found[0].text.ends_with("[truncated after 262144 bytes]"));
    }
}
