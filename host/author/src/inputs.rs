//! The inputs of a component, as one digest: a build whose inputs have not changed is not repeated.
//!
//! Interpreters are part of the components of Python and JavaScript plugins as a snapshot of their memory, which holds
//! random seeds and times. Where they cannot be kept out of it, building again gives another digest for the same
//! source.

use crate::{AuthorError, Project, template::CONTRACT};
use opcell_types::files::read_bounded;
use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Folders of a plugin that are no source of it. `cases` is not either, but a change there costs no build.
const NOT_SOURCE: [&str; 7] = ["target", "dist", "cases", "node_modules", ".venv", ".git", "__pycache__"];

/// Files that are looked at; a folder with more is built every time.
const MAX_INPUT_FILES: usize = 5_000;

/// The largest file that is read.
const MAX_INPUT_BYTES: u64 = 16 << 20;

/// The digest of everything that the component depends on, in hexadecimal; `None` where there is too much of it. A
/// `bundle` is all sources and packages in one.
///
/// # Errors
/// [`AuthorError::File`].
pub(crate) fn digest(
    project: &Project,
    tool: &Path,
    options: &str,
    bundle: Option<&[u8]>,
) -> Result<Option<String>, AuthorError> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(options.as_bytes());
    add(project.manifest.to_string().as_bytes());
    for (name, text) in CONTRACT {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    if let Some(bundle) = bundle {
        let about = fs::metadata(tool).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        add(format!("{} {changed:?} {:?}", tool.display(), about.map(|about| about.len())).as_bytes());
        add(bundle);
        return Ok(Some(hasher.finalize().to_hex().to_string()));
    }
    // Packages are replaced by their manager, which touches these; their files are too many to read.
    let tools = [tool.to_owned(), project.folder.join(".venv/pyvenv.cfg")].into_iter();
    for path in tools.chain(site_packages(&project.folder)) {
        let about = fs::metadata(&path).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        add(format!("{} {changed:?} {:?}", path.display(), about.map(|about| about.len())).as_bytes());
    }
    let Some(files) = sources(&project.folder)? else { return Ok(None) };
    // Unit tests run without the component, and a change of one must not cost a build.
    let unit_tests =
        Some("tests").filter(|tests| !project.source.starts_with(tests)).map(|tests| project.folder.join(tests));
    for path in files {
        if unit_tests.as_ref().is_some_and(|tests| path.starts_with(tests)) {
            continue;
        }
        let Ok(bytes) = read_bounded(&path, MAX_INPUT_BYTES) else { return Ok(None) };
        add(path.strip_prefix(&project.folder).unwrap_or(&path).as_os_str().as_encoded_bytes());
        add(&bytes);
    }
    Ok(Some(hasher.finalize().to_hex().to_string()))
}

/// The source files of a plugin's folder in an order that does not vary; `None` where they are too many or too large.
pub fn sources(folder: &Path) -> Result<Option<Vec<PathBuf>>, AuthorError> {
    let (mut files, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).map_err(AuthorError::file(&directory))? {
            let entry = entry.map_err(AuthorError::file(&directory))?;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !NOT_SOURCE.iter().any(|name| entry.file_name() == *name) {
                    pending.push(entry.path());
                }
            } else if kind.is_file() {
                if files.len() >= MAX_INPUT_FILES || entry.metadata().is_ok_and(|about| about.len() > MAX_INPUT_BYTES) {
                    return Ok(None);
                }
                // What commands write beside the sources.
                if entry.file_name() != "opcell.lock" {
                    files.push(entry.path());
                }
            }
        }
    }
    files.sort();
    Ok(Some(files))
}

/// Returns the folder of a plugin's own Python packages.
fn site_packages(folder: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder.join(".venv/lib")).into_iter().flatten();
    versions.filter_map(|version| Some(version.ok()?.path().join("site-packages"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Language, template};

    #[test]
    fn the_digest_changes_with_the_source_and_not_with_what_was_built() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a");
        template::create(&folder, "a", Language::C).unwrap();
        let of =
            || digest(&Project::read(&folder).unwrap(), Path::new("/usr/bin/clang"), "release", None).unwrap().unwrap();
        let before = of();
        fs::create_dir_all(folder.join("dist")).unwrap();
        fs::write(folder.join("dist/a.wasm"), "x").unwrap();
        fs::write(folder.join("opcell.lock"), "x").unwrap();
        fs::create_dir_all(folder.join("tests")).unwrap();
        fs::write(folder.join("tests/unit.py"), "x").unwrap();
        assert_eq!(of(), before);
        fs::write(folder.join("src/more.h"), "x").unwrap();
        assert_ne!(of(), before);
    }
}
