//! `plugin.toml`: what a plugin is called, what it asks for and why, and how it is built.

use crate::{AuthorError, Language};
use opcell_types::{ByteSize, Milliseconds, files::read_text_bounded, suggest::hint, text::one_line};
use serde_json::{Map, Value, json};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use toml_edit::{Document, Item, Table, Value as Toml};

/// The file's name.
pub const FILE: &str = "plugin.toml";

/// The largest file that is read.
const MAX_BYTES: u64 = 256 << 10;

/// Characters of a description, of which a host takes no more. Models read it in every session of a project that has
/// the plugin.
const MAX_DESCRIPTION: usize = 300;

/// Values of `access`.
const ACCESS: [&str; 2] = ["read", "read-write"];

/// The keys of `[limits]`. The sandbox, which this crate does not know, has the same; a test of the command line holds
/// both against each other.
pub const LIMITS: [&str; 18] = [
    "wall-time",
    "ticks",
    "fuel",
    "memory",
    "table-elements",
    "handles",
    "host-calls",
    "host-call-time",
    "concurrent-calls",
    "boundary-bytes",
    "argument-bytes",
    "result-bytes",
    "failure-bytes",
    "log-bytes",
    "file-bytes",
    "open-files",
    "concurrent-cells",
    "waiting-cells",
];

/// A plugin's folder, and what its `plugin.toml` says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Project {
    /// The folder, absolute.
    pub folder: PathBuf,
    /// The plugin's name.
    pub name: String,
    /// The language that it is written in.
    pub language: Language,
    /// The main source file, relative to the folder; cargo knows a Rust plugin's itself.
    pub source: PathBuf,
    /// The manifest, as the component will carry it.
    pub manifest: Value,
}

impl Project {
    /// Reads `plugin.toml` in a folder.
    ///
    /// # Errors
    /// [`AuthorError::NoProject`], [`AuthorError::Project`] with the place, or [`AuthorError::File`].
    pub fn read(folder: &Path) -> Result<Self, AuthorError> {
        // Tools run in the folder, so that a path relative to another is of no use to them.
        let folder = &std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let path = folder.join(FILE);
        let text = match read_text_bounded(&path, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(AuthorError::NoProject(folder.to_owned())),
            Err(error)
                if [ErrorKind::InvalidInput, ErrorKind::FileTooLarge, ErrorKind::InvalidData]
                    .contains(&error.kind()) =>
            {
                return Err(AuthorError::Project { path, line: 1, column: 1, message: error.to_string() });
            }
            Err(error) => return Err(AuthorError::file(&path)(error)),
        };
        Reader { path: &path, text: &text }.project(folder)
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Option<std::ops::Range<usize>>, message: impl Into<String>) -> AuthorError {
        let before = self.text.get(..span.map_or(0, |span| span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        AuthorError::Project { path: self.path.to_owned(), line, column, message: message.into() }
    }

    fn project(&self, folder: &Path) -> Result<Project, AuthorError> {
        let document =
            Document::parse(self.text).map_err(|error| self.error(error.span(), error.message().to_owned()))?;
        let root = document.as_table();
        self.known(root, &["plugin", "build", "capabilities", "limits"])?;
        let plugin = self.table(root, "plugin")?;
        self.known(plugin, &["name", "version", "description", "license"])?;
        let name = self.text_of(plugin, "name")?;
        if !is_name(&name) {
            let span = plugin.get("name").and_then(Item::span);
            return Err(self.error(span, AuthorError::Name(name).to_string()));
        }
        let build = self.table(root, "build")?;
        self.known(build, &["language", "source"])?;
        let language = self
            .text_of(build, "language")?
            .parse::<Language>()
            .map_err(|message| self.error(build.get("language").and_then(Item::span), message))?;
        let source = match build.get("source") {
            None => match language {
                Language::Rust => "src/lib.rs",
                Language::Javascript => "src/plugin.js",
                Language::Python => "src/plugin.py",
                Language::C => "src/plugin.c",
            }
            .to_owned(),
            Some(_) => self.text_of(build, "source")?,
        };
        if Path::new(&source).is_absolute() || source.split('/').any(|part| part == "..") {
            let span = build.get("source").and_then(Item::span);
            return Err(self.error(span, format!("`{source}` leads out of the plugin's folder; expected a path in it")));
        }
        let mut manifest = Map::new();
        manifest.insert("schema".to_owned(), json!(1));
        manifest.insert("name".to_owned(), json!(name));
        manifest.insert("version".to_owned(), json!(self.text_of(plugin, "version")?));
        for key in ["description", "license"] {
            if plugin.contains_key(key) {
                let text = self.text_of(plugin, key)?;
                if text.chars().count() > MAX_DESCRIPTION || text.contains(char::is_control) {
                    let span = plugin.get(key).and_then(Item::span);
                    let message =
                        format!("`{key}`: expected one line of at most {MAX_DESCRIPTION} characters; models read it");
                    return Err(self.error(span, message));
                }
                manifest.insert(key.to_owned(), json!(text));
            }
        }
        if let Some(item) = root.get("capabilities") {
            let table = item.as_table().ok_or_else(|| self.error(item.span(), "`capabilities` is a table"))?;
            self.known(table, &["tools", "skills", "files", "stores"])?;
            manifest.insert("capabilities".to_owned(), self.capabilities(table)?);
        }
        if let Some(item) = root.get("limits") {
            let table = item.as_table().ok_or_else(|| self.error(item.span(), "`limits` is a table"))?;
            self.known(table, &LIMITS)?;
            let limits = table.iter().map(|(key, item)| Ok((key.to_owned(), self.limit(key, item)?)));
            manifest.insert("limits".to_owned(), Value::Object(limits.collect::<Result<_, AuthorError>>()?));
        }
        Ok(Project {
            folder: folder.to_owned(),
            name,
            language,
            source: source.into(),
            manifest: Value::Object(manifest),
        })
    }

    fn capabilities(&self, table: &Table) -> Result<Value, AuthorError> {
        let mut kinds = Map::new();
        for (kind, item) in table {
            let keys: &[&str] = if kind == "files" { &["name", "access", "reason"] } else { &["name", "reason"] };
            let list = item.as_array_of_tables().ok_or_else(|| {
                self.error(item.span(), format!("each request is a table of its own: [[capabilities.{kind}]]"))
            })?;
            let mut requests = Vec::new();
            for entry in list {
                self.known(entry, keys)?;
                let mut request = Map::new();
                for key in keys {
                    let text = self.text_of(entry, key)?;
                    if *key == "access" && !ACCESS.contains(&text.as_str()) {
                        let span = entry.get(key).and_then(Item::span);
                        let near = hint(&text, ACCESS);
                        return Err(self.error(
                            span,
                            format!("`{text}` is not an access; expected {}{near}", ACCESS.join(" or ")),
                        ));
                    }
                    request.insert((*key).to_owned(), json!(text));
                }
                requests.push(Value::Object(request));
            }
            kinds.insert(kind.to_owned(), Value::Array(requests));
        }
        Ok(Value::Object(kinds))
    }

    fn table<'t>(&self, root: &'t Table, key: &str) -> Result<&'t Table, AuthorError> {
        match root.get(key) {
            Some(Item::Table(table)) => Ok(table),
            Some(item) => Err(self.error(item.span(), format!("`{key}` is a table: [{key}]"))),
            None => Err(self.error(None, format!("the table [{key}] is missing"))),
        }
    }

    fn text_of(&self, table: &Table, key: &str) -> Result<String, AuthorError> {
        match table.get(key) {
            Some(Item::Value(Toml::String(text))) if !text.value().trim().is_empty() => Ok(text.value().clone()),
            Some(item) => Err(self.error(item.span(), format!("`{key}`: expected a string that is not empty"))),
            None => Err(self.error(table.span(), format!("`{key}` is missing here"))),
        }
    }

    /// The value of a limit. A text must be a quantity of the limit's unit; its range is the host's to know.
    fn limit(&self, key: &str, item: &Item) -> Result<Value, AuthorError> {
        let (problem, expected): (fn(&str) -> Option<String>, _) = if key == "memory" || key.ends_with("-bytes") {
            (|text| text.parse::<ByteSize>().err().map(|error| error.to_string()), ByteSize::EXPECTED)
        } else if key.ends_with("-time") {
            (|text| text.parse::<Milliseconds>().err().map(|error| error.to_string()), Milliseconds::EXPECTED)
        } else {
            let count = |text: &str| {
                let is_count = text.trim().replace('_', "").parse::<u64>().is_ok();
                (!is_count).then(|| format!("`{}` is not a whole number", one_line(text, 100)))
            };
            (count, "a whole number")
        };
        match item {
            Item::Value(Toml::String(text)) => match problem(text.value()) {
                None => Ok(json!(text.value())),
                Some(problem) => Err(self.error(item.span(), format!("`{key}`: {problem}"))),
            },
            Item::Value(Toml::Integer(number)) => Ok(json!(number.value())),
            _ => Err(self.error(item.span(), format!("`{key}`: expected a number or {expected}"))),
        }
    }

    fn known(&self, table: &Table, keys: &[&str]) -> Result<(), AuthorError> {
        for (key, item) in table {
            if !keys.contains(&key) {
                let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
                let near = hint(key, keys.iter().copied());
                return Err(
                    self.error(span, format!("unknown key `{key}`; expected one of: {}{near}", keys.join(", ")))
                );
            }
        }
        Ok(())
    }
}

/// Returns `true` if `name` can name a plugin and, with `_` for `-`, a crate and a module.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
        && !name.ends_with('-')
        && name.len() <= 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Project, AuthorError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        Project::read(folder.path())
    }

    const WHOLE: &str = r#"
[plugin]
name = "greet"
version = "0.1.0"
description = "Greets"
license = "Apache-2.0"

[build]
language = "python"

[[capabilities.tools]]
name = "http.fetch"
reason = "asks the weather service"

[[capabilities.files]]
name = "workspace"
access = "read"
reason = "reads the names"

[[capabilities.stores]]
name = "counts"
reason = "remembers visits"

[limits]
memory = "16 MiB"
"#;

    #[test]
    fn the_published_schema_has_the_keys_that_are_read() {
        let schema: Value = serde_json::from_str(crate::schemas::PLUGIN).unwrap();
        let keys = |of: &Value| of["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let parts = &schema["properties"];
        assert_eq!(keys(&schema), ["plugin", "build", "capabilities", "limits"]);
        assert_eq!(keys(&parts["limits"]), LIMITS);
        assert_eq!(keys(&parts["plugin"]), ["name", "version", "description", "license"]);
        assert_eq!(keys(&parts["capabilities"]["properties"]["files"]["items"]), ["name", "access", "reason"]);
        assert_eq!(
            parts["capabilities"]["properties"]["files"]["items"]["properties"]["access"]["enum"],
            json!(ACCESS)
        );
    }

    #[test]
    fn a_whole_file_becomes_a_manifest() {
        let project = read(WHOLE).unwrap();
        assert_eq!((project.language, project.source.to_str()), (Language::Python, Some("src/plugin.py")));
        assert_eq!(project.manifest["capabilities"]["files"][0]["access"], "read");
        assert_eq!(project.manifest["capabilities"]["stores"][0]["name"], "counts");
        assert_eq!(project.manifest["limits"]["memory"], "16 MiB");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, expected) in [
            ("[limits]", "[limit]", ":24:2: unknown key `limit`"),
            ("[limits]", "[limit]", "did you mean `limits`?"),
            ("\"Greets\"", "\"\"\"One.\nTwo.\"\"\"", ":5:15: `description`: expected one line"),
            ("16 MiB", "16 MBi", ":25:10: `memory`: `16 MBi` is not a size"),
            ("memory = \"16 MiB\"", "wall-time = \"5 sex\"", ":25:13: `wall-time`: `5 sex` is not a"),
            ("memory = \"16 MiB\"", "ticks = \"many\"", ":25:9: `ticks`: `many` is not a whole number"),
            ("memory =", "memry =", ":25:1: unknown key `memry`"),
            ("memory =", "memry =", "did you mean `memory`?"),
            (
                "access = \"read\"",
                "access = \"reed\"",
                "`reed` is not an access; expected read or read-write; did you mean `read`?",
            ),
            ("reason = \"reads the names\"\n", "", ":15:1: `reason` is missing here"),
            ("\"python\"", "\"perl\"", ":9:12: `perl` is not a language"),
            ("\"greet\"", "\"Greet me\"", ":3:8: `Greet me` is not a valid plugin name"),
            ("\"python\"", "\"python\"\nsource = \"../x.py\"", ":10:10: `../x.py` leads out"),
            ("[[capabilities.tools]]", "[capabilities.tools]", "each request is a table of its own"),
        ] {
            let error = read(&WHOLE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
