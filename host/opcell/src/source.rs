//! Source plugins: a plugin whose file is a source in JavaScript, which runs on the runtime that is part of the library, or
//! in Python, on the runtime that a user installs.
//!
//! The operations are the functions that a source in JavaScript exports, described by their doc comments, or the public
//! functions of one in Python, described by their docstrings and type hints; or what it describes with the names of the
//! authors' SDK. The manifest is beside it: `op.toml` of `op.js`. From both the library makes a
//! component, the same bytes each time, so that everything else (consent, the lock, grants, limits, receipts, replay)
//! knows plugins of one kind.

mod bundle;
mod docs;
mod types;

use crate::{builtin, config::SKILL_ROOT, document::read_bounded, places::Places, report::Rejected};
use opcell_ir::Diagnostic;
use opcell_sandbox::{
    ANY_TOOL,
    manifest::{self, Manifest},
};
use opcell_types::FollowUp;
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};

/// The largest source.
pub const MAX_SOURCE: u64 = 1 << 20;

/// The largest manifest.
const MAX_MANIFEST: u64 = 64 << 10;

/// Extensions of sources.
const EXTENSIONS: [&str; 3] = ["js", "mjs", PYTHON];

/// The extension of sources in Python.
const PYTHON: &str = "py";

/// The largest runtime for Python.
const MAX_RUNTIME: u64 = 128 << 20;

/// Extensions of languages that need a build, with the command that makes a plugin of them.
const BUILT: [(&str, &str); 3] = [("ts", "javascript"), ("rs", "rust"), ("c", "c")];

/// Tables of the manifest, which are those of `plugin.toml`. A host needs no `build`.
const TABLES: [&str; 5] = ["plugin", "build", "capabilities", "limits", "prompt"];

/// Why a source or manifest behind a link is not read. A message about what it says would show a line of it.
const LEADS_OUT: &str = "it is not read: a link leads from it out of the project, or of its folder";

/// The version of a plugin whose manifest gives none.
const NO_VERSION: &str = "0.0.0";

/// Returns `true` if a file is a source and not a component, by its extension.
#[must_use]
pub fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

/// The files that make a plugin: the component, or a source and its manifest, which need not exist.
pub fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    let manifest = is_source(path).then(|| manifest_of(path));
    std::iter::once(path.to_owned()).chain(manifest)
}

/// The path of the manifest of a source: `op.toml` of `op.js`.
#[must_use]
pub fn manifest_of(path: &Path) -> PathBuf {
    path.with_extension("toml")
}

/// The source plugin of a folder: its `plugin.js` or `plugin.py`, unless `plugin.toml` names a language to build it with.
#[must_use]
pub fn in_folder(folder: &Path) -> Option<PathBuf> {
    let path = ["plugin.js", "plugin.py"].map(|name| folder.join(name)).into_iter().find(|path| path.is_file())?;
    let text = read_bounded(&manifest_of(&path), MAX_MANIFEST).ok()?;
    let tables: Value = toml_edit::de::from_slice(&text).ok()?;
    tables.get("build").is_none().then_some(path)
}

/// The bytes of the component at a path, at most this many: those of the file, or those made of a source. Links of a
/// source and its manifest are followed within the folder of the project, and elsewhere within their own folder.
///
/// # Errors
/// A sentence, with the line where one of the two files is wrong.
#[doc(hidden)]
pub fn read_component(path: &Path, project: Option<&Path>, most: u64) -> Result<Vec<u8>, String> {
    let extension = path.extension().unwrap_or_default();
    if let Some((_, language)) = BUILT.iter().find(|(built, _)| extension == *built) {
        return Err(format!(
            "a plugin in this language needs a build: {}; JavaScript (.js) and Python (.py) run from their source",
            FollowUp::NewPlugin(Some(language))
        ));
    }
    if !is_source(path) {
        return read_bounded(path, most);
    }
    let Files { file, source, stem, manifest } = read_files(path, project)?;
    component(&file, &source, &stem, &manifest)
}

/// A source and the text of its manifest.
struct Files {
    file: String,
    source: String,
    stem: String,
    manifest: String,
}

fn read_files(path: &Path, project: Option<&Path>) -> Result<Files, String> {
    stays_inside(path, project)?;
    let source =
        String::from_utf8(read_bounded(path, MAX_SOURCE)?).map_err(|_| "the source is not UTF-8".to_owned())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = manifest_of(path);
    let text = match manifest.try_exists() {
        Ok(false) => String::new(),
        _ => {
            let in_manifest = |error: String| format!("its manifest {}: {error}", manifest.display());
            stays_inside(&manifest, project).map_err(in_manifest)?;
            let bytes = read_bounded(&manifest, MAX_MANIFEST).map_err(in_manifest)?;
            String::from_utf8(bytes).map_err(|_| in_manifest("it is not UTF-8".to_owned()))?
        }
    };
    Ok(Files { file, source, stem, manifest: text })
}

/// Refuses a file that links lead to from the project to elsewhere: a checkout may link to a file with passwords. A
/// file that lies elsewhere by its own path was named on purpose, and its links may lead to its own folder.
fn stays_inside(file: &Path, project: Option<&Path>) -> Result<(), String> {
    let within = project.filter(|project| plain(file).starts_with(plain(project)));
    let folder = within.or_else(|| file.parent()).unwrap_or(Path::new(""));
    match opcell_types::files::leads_out(file, folder) {
        Some(_) => Err(LEADS_OUT.to_owned()),
        None => Ok(()),
    }
}

/// An absolute path without `..`, as it is written: links are not looked at.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn in_manifest(error: String) -> String {
    format!("its manifest: {error}")
}

/// The component of a script of a skill: its manifest requests the skill's folder and any tool beside what it says
/// itself, since the project grants tools to the skill.
///
/// # Errors
/// As [`read_component`].
pub(crate) fn read_script(skill: &str, path: &Path, project: Option<&Path>) -> Result<Vec<u8>, String> {
    let Files { file, source, stem, manifest } = read_files(path, project)?;
    let name = docs::kebab(&stem);
    if !manifest::is_name(&name) {
        return Err(format!("`{stem}` cannot be the name of a script: expected [a-z0-9][a-z0-9-]*; rename the file"));
    }
    let mut read = manifest_json(&manifest, &format!("skill-{skill}-{name}")).map_err(in_manifest)?;
    for (kind, request) in [
        ("tools", json!({"name": ANY_TOOL, "reason": "calls the tools that the project grants the skill"})),
        ("files", json!({"name": SKILL_ROOT, "access": "read", "reason": "reads the skill's own files"})),
    ] {
        let tables = read.as_object_mut().map(|keys| keys.entry("capabilities").or_insert_with(|| json!({})));
        let lists = tables.and_then(Value::as_object_mut).map(|kinds| kinds.entry(kind).or_insert_with(|| json!([])));
        match lists.and_then(Value::as_array_mut) {
            Some(list) => list.push(request),
            None => return Err(in_manifest(format!("`capabilities.{kind}` is not a list of tables"))),
        }
    }
    check(&read).map_err(in_manifest)?;
    bundled(&file, &source, &read)
}

/// The finding about a source that is not a plugin.
#[must_use]
pub fn rejected(path: &Path, why: &str) -> Rejected {
    let message = format!("{}: {why}", path.display());
    Rejected::plain(match why.ends_with(LEADS_OUT) {
        true => Diagnostic::error("link-leads-out", message).help("copy what it leads to, or name that file itself"),
        false => Diagnostic::error("source-plugin-invalid", message),
    })
}

/// The component of a source with this file name and the text of its manifest; the name of the plugin is that of the
/// manifest, or `stem`.
///
/// # Errors
/// As [`read_component`].
pub fn component(file: &str, source: &str, stem: &str, manifest: &str) -> Result<Vec<u8>, String> {
    let manifest = manifest_json(manifest, stem).and_then(|read| check(&read).map(|()| read)).map_err(in_manifest)?;
    bundled(file, source, &manifest)
}

fn bundled(file: &str, source: &str, manifest: &Value) -> Result<Vec<u8>, String> {
    if let Some(at) = source.find('\0') {
        let line = source.get(..at).unwrap_or_default().matches('\n').count() + 1;
        return Err(format!("line {line}: the source has a zero byte"));
    }
    let name = manifest.get("name").and_then(Value::as_str).unwrap_or_default();
    if Path::new(file).extension().is_some_and(|extension| extension == PYTHON) {
        let described = json!({"file": file, "name": name}).to_string();
        let made = bundle::python_component(&python_runtime()?, &described, source, manifest.to_string().as_bytes());
        return made.ok_or_else(|| {
            let install = FollowUp::InstallPython;
            format!("the installed runtime for Python is of another version, and runs no source plugins; {install} builds it")
        });
    }
    let functions = docs::functions(source, name).map_err(|error| format!("line {}: {}", error.line, error.message))?;
    let functions: serde_json::Map<String, Value> = functions
        .into_iter()
        .map(|(name, of)| {
            let described = json!({
                "id": of.id, "summary": of.summary, "args": of.arguments, "data": of.data, "effects": of.effects,
                "parameters": of.parameters,
            });
            (name, described)
        })
        .collect();
    let mut bundle = json!({"file": file, "functions": functions}).to_string().into_bytes();
    bundle.push(0);
    bundle.extend_from_slice(source.as_bytes());
    bundle.push(0);
    let runtime = builtin::component(builtin::CODE).unwrap_or_default();
    let made = bundle::component(runtime, &bundle, manifest.to_string().as_bytes());
    made.ok_or_else(|| "the host has no JavaScript runtime".to_owned())
}

/// The runtime for Python, which the user has installed.
fn python_runtime() -> Result<Vec<u8>, String> {
    let place = Places::of_user().python_runtime().filter(|place| place.is_file());
    let Some(place) = place else {
        return Err(format!("the runtime for Python is not installed; {} builds it", FollowUp::InstallPython));
    };
    read_bounded(&place, MAX_RUNTIME).map_err(|error| format!("the runtime for Python cannot be read: {error}"))
}

/// The manifest as a component has it, from the text of `op.toml`.
fn manifest_json(text: &str, stem: &str) -> Result<Value, String> {
    let read: Value = toml_edit::de::from_str(text).map_err(|error: toml_edit::de::Error| error.to_string())?;
    let tables = read.as_object().cloned().unwrap_or_default();
    if let Some(unknown) = tables.keys().find(|key| !TABLES.contains(&key.as_str())) {
        return Err(format!("unknown table `{unknown}`; there are {}", TABLES.join(", ")));
    }
    let mut made = match tables.get("plugin") {
        None => serde_json::Map::new(),
        Some(Value::Object(plugin)) => plugin.clone(),
        Some(_) => return Err("`plugin` is not a table".to_owned()),
    };
    if !made.contains_key("name") {
        if !manifest::is_name(stem) {
            let hint = "expected [a-z0-9][a-z0-9-]*; rename the file, or set `name` under `[plugin]`";
            return Err(format!("`{stem}` cannot be the plugin's name: {hint}"));
        }
        made.insert("name".to_owned(), stem.into());
    }
    made.entry("version").or_insert_with(|| NO_VERSION.into());
    made.insert("schema".to_owned(), manifest::SCHEMA.into());
    for table in ["capabilities", "limits", "prompt"] {
        if let Some(value) = tables.get(table) {
            made.insert(table.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(made))
}

fn check(manifest: &Value) -> Result<(), String> {
    Manifest::parse(manifest.to_string().as_bytes()).map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{component, read_component};
    use std::path::Path;

    const SOURCE: &str = "/** Adds. @param {number} a */\nexport function add(a) { return a; }\n";

    fn manifest(bytes: &[u8]) -> opcell_sandbox::manifest::Manifest {
        opcell_sandbox::inspect::inspect(bytes).unwrap().manifest
    }

    #[test]
    fn a_source_is_a_component_with_the_manifest_beside_it() {
        let made = component("sum.js", SOURCE, "sum", "").unwrap();
        assert_eq!(manifest(&made).name.as_deref(), Some("sum"));
        assert!(manifest(&made).tools.is_empty(), "it must not ask for what programs ask for");
        let text = "[plugin]\nname = \"add\"\nversion = \"1.2.0\"\n\n[build]\nlanguage = \"javascript\"\n\n\
                    [[capabilities.tools]]\nname = \"http.fetch\"\nreason = \"looks it up\"\n";
        let made = manifest(&component("sum.js", SOURCE, "sum", text).unwrap());
        assert_eq!((made.name.as_deref(), made.version.as_deref()), (Some("add"), Some("1.2.0")));
        assert_eq!(made.tools[0].reason, "looks it up");
    }

    #[test]
    fn source_manifest_and_name_change_the_component() {
        let made = |source: &str, manifest: &str| component("sum.js", source, "sum", manifest).unwrap();
        let first = made(SOURCE, "");
        assert_eq!(first, made(SOURCE, ""));
        assert_ne!(first, made(&SOURCE.replace("return a", "return -a"), ""));
        assert_ne!(first, made(SOURCE, "[plugin]\nversion = \"2.0.0\"\n"));
    }

    #[test]
    fn a_source_that_is_no_plugin_is_refused_with_the_place() {
        for (source, text, part) in [
            ("/** A.\n * @param {Date} a */\nexport function f() {}", "", "line 2: `Date` is not a type"),
            ("\n\0", "", "line 2: the source has a zero byte"),
            (SOURCE, "[plugins]", "unknown table `plugins`"),
            (SOURCE, "[plugin]\nname = \"A b\"", "`A b` is not a plugin name"),
            (SOURCE, "[[capabilities.tools]]\nname = \"x\"", "reason"),
            (SOURCE, "[capabilities]\nsockets = []", "unknown key `sockets`"),
            (SOURCE, "= 3", "its manifest"),
        ] {
            let error = component("sum.js", source, "sum", text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = component("a b.js", SOURCE, "a b", "").unwrap_err();
        assert!(error.contains("`a b` cannot be the plugin's name"), "{error}");
    }

    #[test]
    fn other_languages_need_a_build() {
        let error = read_component(Path::new("op.rs"), None, 100).unwrap_err();
        assert!(error.contains("needs a build: a template for plugins"), "{error}");
    }

    #[test]
    fn a_source_and_its_manifest_are_read_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sum.js");
        std::fs::write(&path, " ".repeat(2 << 20)).unwrap();
        assert!(read_component(&path, None, u64::MAX).is_err());
        std::fs::write(&path, SOURCE).unwrap();
        assert!(read_component(&path, None, u64::MAX).is_ok());
        std::fs::write(path.with_extension("toml"), "#".repeat(1 << 17)).unwrap();
        assert!(read_component(&path, None, u64::MAX).unwrap_err().contains("its manifest"));
    }
    #[test]
    fn links_of_a_source_are_followed_within_the_project_alone() {
        let base = tempfile::tempdir().unwrap();
        let project = base.path().join("project");
        std::fs::create_dir_all(project.join("plugins")).unwrap();
        std::fs::create_dir_all(base.path().join("other")).unwrap();
        for file in ["secret", "project/own.js", "other/sum.js"] {
            std::fs::write(base.path().join(file), SOURCE).unwrap();
        }
        std::fs::write(base.path().join("secret.toml"), "[plugin]\nname = \"hunter2\"\n").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, project.join(name)).unwrap();
        link("../../own.js", "plugins/dangling.js");
        link("../own.js", "plugins/sum.js");
        link("../secret", "stolen.js");
        link("../../secret", "plugins/stolen.js");
        link("../other", "folder");
        std::fs::write(project.join("named.js"), SOURCE).unwrap();
        link("../secret.toml", "named.toml");
        let read = |name: &str, project: Option<&Path>| {
            read_component(&base.path().join("project").join(name), project, u64::MAX).map(|_| ())
        };
        let inside = Some(&*project);
        for name in ["own.js", "plugins/sum.js", "../other/sum.js", "plugins/../own.js"] {
            assert_eq!(read(name, inside), Ok(()), "{name}");
        }
        for name in ["stolen.js", "plugins/stolen.js", "folder/sum.js", "plugins/dangling.js", "plugins/../stolen.js"] {
            assert_eq!(read(name, inside).unwrap_err(), super::LEADS_OUT, "{name}");
        }
        let refused = read("named.js", inside).unwrap_err();
        assert!(refused.starts_with("its manifest") && refused.ends_with(super::LEADS_OUT), "{refused}");
        // Without a project, a file may lead to its own folder only.
        assert_eq!(read("plugins/sum.js", None).unwrap_err(), super::LEADS_OUT);
        assert_eq!(read("own.js", None), Ok(()));
        assert_eq!(read("folder/sum.js", None), Ok(()), "the folder itself may be a link");
    }
}
