//! New plugins: every file of a folder that builds, passes its cases and runs as it is.

use crate::{AuthorError, Language, project::is_name, schemas};
use include_dir::{Dir, include_dir};
use opcell_types::files::{Folder, Readers};
use std::path::{Path, PathBuf};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");
static SDK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sdk");

/// The contract's files: each version that it builds on in a folder of `deps`, as tool chains expect it.
pub(crate) const CONTRACT: [(&str, &str); 9] = [
    ("deps/plugin-0.1.0/types.wit", include_str!("../wit/deps/plugin-0.1.0/types.wit")),
    ("deps/plugin-0.1.0/operations.wit", include_str!("../wit/deps/plugin-0.1.0/operations.wit")),
    ("deps/plugin-0.1.0/judges.wit", include_str!("../wit/deps/plugin-0.1.0/judges.wit")),
    ("deps/plugin-0.1.0/host.wit", include_str!("../wit/deps/plugin-0.1.0/host.wit")),
    ("deps/plugin-0.1.0/worlds.wit", include_str!("../wit/deps/plugin-0.1.0/worlds.wit")),
    ("deps/plugin-0.2.0/store.wit", include_str!("../wit/deps/plugin-0.2.0/store.wit")),
    ("deps/plugin-0.2.0/worlds.wit", include_str!("../wit/deps/plugin-0.2.0/worlds.wit")),
    ("calls.wit", include_str!("../wit/calls.wit")),
    ("worlds.wit", include_str!("../wit/worlds.wit")),
];

/// The placeholder for the part that is not the same in every new plugin.
const NAME_TOKEN: &str = "{{name}}";
const CRATE: &str = "{{crate}}";

/// The plugin that runs programs in Python.
const PYTHON_RUNTIME: [(&str, &str); 2] = [
    ("plugin.toml", include_str!("../runtimes/python/plugin.toml")),
    ("src/plugin.py", include_str!("../runtimes/python/plugin.py")),
];

/// Writes the source of the plugin that runs programs in Python into a new folder, in which [`crate::build()`] makes
/// its component.
///
/// # Errors
/// As [`create`].
pub fn create_python_runtime(folder: &Path) -> Result<(), AuthorError> {
    create(folder, "python", Language::Python)?;
    let made = Folder::open(folder).map_err(AuthorError::file(folder))?;
    PYTHON_RUNTIME.iter().try_for_each(|(name, text)| put(&made, Path::new(name), text.as_bytes()))
}

/// Makes a plugin in a new folder, and gives the files that were written, relative to it.
///
/// # Errors
/// [`AuthorError::Name`], [`AuthorError::Exists`], or [`AuthorError::File`].
pub fn create(folder: &Path, name: &str, language: Language) -> Result<Vec<PathBuf>, AuthorError> {
    let made = new_folder(folder, name)?;
    let mut written = Vec::new();
    for part in ["common", language.name()] {
        if let Some(template) = TEMPLATES.get_dir(part) {
            write_all(template, Path::new(part), &made, Path::new(""), Some(name), &mut written)?;
        }
    }
    let sdk: &[(&str, &str)] = match language {
        Language::Rust => &[("rust", "sdk"), ("rust-src", "sdk/src"), ("rust-macros-src", "sdk/macros/src")],
        Language::Javascript => &[("javascript", "sdk")],
        Language::Python => &[("python", "sdk/opcell")],
        Language::C => &[("c", "sdk")],
    };
    for (from, to) in sdk {
        if let Some(part) = SDK.get_dir(from) {
            write_all(part, Path::new(from), &made, Path::new(to), None, &mut written)?;
        }
    }
    write_schemas(&made, "sdk", &mut written)?;
    written.sort();
    Ok(written)
}

/// The template of source plugins in a language, if such plugins run from their source.
fn source_template(language: Language) -> Option<&'static str> {
    match language {
        Language::Javascript => Some("javascript-source"),
        Language::Python => Some("python-source"),
        Language::Rust | Language::C => None,
    }
}

/// Returns `true` if plugins in a language can run from their source.
#[must_use]
pub fn has_source_plugins(language: Language) -> bool {
    source_template(language).is_some()
}

/// Makes a source plugin, which needs no tools, in a new folder, and gives the files that were written: none in a language
/// that [needs a build](has_source_plugins).
///
/// # Errors
/// As [`create`].
pub fn create_source(folder: &Path, name: &str, language: Language) -> Result<Vec<PathBuf>, AuthorError> {
    let Some(part) = source_template(language) else { return Ok(Vec::new()) };
    let made = new_folder(folder, name)?;
    let mut written = Vec::new();
    if let Some(template) = TEMPLATES.get_dir(part) {
        write_all(template, Path::new(part), &made, Path::new(""), Some(name), &mut written)?;
    }
    write_schemas(&made, "schemas", &mut written)?;
    written.sort();
    Ok(written)
}

/// Writes the schemas that `plugin.toml` and the cases name for editors.
fn write_schemas(folder: &Folder, to: &str, written: &mut Vec<PathBuf>) -> Result<(), AuthorError> {
    for (name, schema) in [("case.schema.json", schemas::CASE), ("plugin.schema.json", schemas::PLUGIN)] {
        let relative = Path::new(to).join(name);
        put(folder, &relative, schema.as_bytes())?;
        written.push(relative);
    }
    Ok(())
}

fn new_folder(folder: &Path, name: &str) -> Result<Folder, AuthorError> {
    if !is_name(name) {
        return Err(AuthorError::Name(name.to_owned()));
    }
    if folder.exists() {
        return Err(AuthorError::Exists(folder.to_owned()));
    }
    opcell_types::files::make_folder(folder, Readers::Shared).map_err(AuthorError::file(folder))
}

fn write_all(
    from: &Dir<'_>,
    root: &Path,
    folder: &Folder,
    to: &Path,
    name: Option<&str>,
    written: &mut Vec<PathBuf>,
) -> Result<(), AuthorError> {
    let mut pending = vec![from];
    while let Some(directory) = pending.pop() {
        pending.extend(directory.dirs());
        for file in directory.files() {
            let relative = to.join(real_name(file.path().strip_prefix(root).unwrap_or(file.path())));
            let contents = match (name, file.contents_utf8()) {
                (Some(name), Some(text)) => {
                    text.replace(NAME_TOKEN, name).replace(CRATE, &name.replace('-', "_")).into_bytes()
                }
                _ => file.contents().to_vec(),
            };
            put(folder, &relative, &contents)?;
            written.push(relative);
        }
    }
    Ok(())
}

/// Writes a file below a folder, with the folders above it.
pub(crate) fn put(folder: &Folder, relative: &Path, contents: &[u8]) -> Result<(), AuthorError> {
    let path = folder.path().join(relative);
    let (above, name) = (relative.parent().unwrap_or(Path::new("")), relative.file_name().unwrap_or_default());
    let made = folder.make_below(above, Readers::Shared);
    made.and_then(|made| made.replace(name, contents, Readers::Shared)).map_err(AuthorError::file(&path))
}

/// Names that tools would act upon where the templates lie are written otherwise there: `dot-x` is `.x`, and `x.in` is
/// `x`.
fn real_name(path: &Path) -> PathBuf {
    path.components()
        .map(|part| {
            let text = part.as_os_str().to_string_lossy();
            let text = text.strip_suffix(".in").unwrap_or(&text);
            text.strip_prefix("dot-").map_or_else(|| text.to_owned(), |rest| format!(".{rest}"))
        })
        .collect()
}

/// Writes the contract where tool chains that read WIT can find it.
pub(crate) fn write_contract(scratch: &Folder) -> Result<PathBuf, AuthorError> {
    let folder = Path::new("wit");
    for (name, text) in CONTRACT {
        put(scratch, &folder.join(name), text.as_bytes())?;
    }
    Ok(scratch.path().join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Project;
    use std::fs;

    #[test]
    fn every_template_has_a_project_file_that_can_be_read_and_nothing_left_to_fill_in() {
        for language in Language::ALL {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("my-plugin");
            let written = create(&folder, "my-plugin", language).unwrap();
            let project = Project::read(&folder).unwrap();
            assert_eq!((project.name.as_str(), project.language), ("my-plugin", language));
            assert!(folder.join(&project.source).is_file(), "{language}: {written:?}");
            for file in written {
                let text = fs::read_to_string(folder.join(&file)).unwrap();
                assert!(!text.contains("{{name}}") && !text.contains("{{crate}}"), "{}", file.display());
            }
            shows_what_a_plugin_may_ask_for(&folder);
        }
    }

    /// Every kind of request has an example that can be used as it is, and editors find the schemas.
    fn shows_what_a_plugin_may_ask_for(folder: &Path) {
        let text = fs::read_to_string(folder.join("plugin.toml")).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(folder.join(first.strip_prefix("#:schema ").unwrap()).is_file(), "{first}");
        let (_, examples) = rest.split_once("and the operator grants it:\n").unwrap();
        let examples: Vec<&str> = examples.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
        fs::write(folder.join("plugin.toml"), format!("{text}\n{}\n", examples.join("\n"))).unwrap();
        let asks = Project::read(folder).unwrap().manifest;
        for kind in ["tools", "files", "stores"] {
            assert_eq!(asks["capabilities"][kind].as_array().map(Vec::len), Some(1), "{kind}: {asks}");
        }
        for case in fs::read_dir(folder.join("cases")).unwrap() {
            let text = fs::read_to_string(case.unwrap().path()).unwrap();
            let schema = text.lines().next().unwrap().strip_prefix("# yaml-language-server: $schema=../").unwrap();
            assert!(folder.join(schema).is_file(), "{schema}");
        }
    }

    #[test]
    fn a_source_plugin_needs_no_build() {
        for (language, source) in [(Language::Javascript, "plugin.js"), (Language::Python, "plugin.py")] {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("my-plugin");
            let written = create_source(&folder, "my-plugin", language).unwrap();
            for file in &written {
                assert!(!fs::read_to_string(folder.join(file)).unwrap().contains("{{name}}"), "{}", file.display());
            }
            assert!(folder.join(source).is_file() && folder.join("cases").is_dir(), "{written:?}");
            for (file, schema) in
                [("plugin.toml", "schemas/plugin.schema.json"), ("cases/greets.yaml", "schemas/case.schema.json")]
            {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                let first = text.lines().next().unwrap();
                assert!(first.ends_with(schema) && folder.join(schema).is_file(), "{file}: {text}");
            }
            assert!(matches!(create_source(&folder, "my-plugin", language), Err(AuthorError::Exists(_))));
            assert!(matches!(create_source(&folder, "My plugin", language), Err(AuthorError::Name(_))));
        }
        let folder = Path::new("/nowhere/my-plugin");
        assert!(create_source(folder, "my-plugin", Language::Rust).unwrap().is_empty() && !folder.exists());
    }

    #[test]
    fn a_folder_that_exists_is_not_touched() {
        let scratch = tempfile::tempdir().unwrap();
        let error = create(scratch.path(), "a", Language::Rust).unwrap_err();
        assert!(matches!(error, AuthorError::Exists(_)), "{error}");
    }
}
