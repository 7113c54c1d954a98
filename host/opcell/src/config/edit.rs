//! Changes to a project file that keep its comments, order and layout.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

/// A grant to add to a plugin's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewGrant {
    /// A host tool by name.
    Tool(String),
    /// A skill by name.
    Skill(String),
    /// A directory under a name.
    Files {
        /// The name under which the plugin opens it.
        name: String,
        /// The directory as it is to be written.
        path: String,
        /// Whether files may be changed.
        write: bool,
        /// Patterns; empty keeps all.
        globs: Vec<String>,
    },
    /// Requests; brings the tool `http.fetch` with it.
    Http {
        /// Host with scheme and port.
        host: String,
        /// Methods; empty is the default.
        methods: Vec<String>,
        /// Whether the host may be this machine or in a private network.
        private: bool,
    },
}

/// Why a file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is not TOML.
    #[error(transparent)]
    Toml(#[from] toml_edit::TomlError),
    /// A key that should be a table or an array is something else.
    #[error("`{0}` is not a table or list that a grant can be added to")]
    Shape(String),
}

/// Adds a grant to `[plugins.NAME.grants]`; a grant that is already there is left as it is. Returns the new text.
///
/// # Errors
/// See [`EditError`]; whether the result means something is [`super::check`]'s to say.
pub fn grant(text: &str, plugin: &str, grant: &NewGrant) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let plugins = table(document.as_table_mut(), "plugins", true)?;
    let plugin = table(plugins, plugin, false)?;
    let grants = table(plugin, "grants", true)?;
    match grant {
        NewGrant::Tool(name) => add(array(grants, "tools")?, name),
        NewGrant::Skill(name) => add(array(grants, "skills")?, name),
        NewGrant::Files { name, path, write, globs } => {
            let files = table(grants, "files", true)?;
            let root = table(files, name, false)?;
            set(root, "path", path.as_str().into());
            if *write {
                set(root, "access", "read-write".into());
            }
            if !globs.is_empty() {
                let listed = array(root, "globs")?;
                globs.iter().for_each(|glob| add(listed, glob));
            }
        }
        NewGrant::Http { host, methods, private } => {
            add(array(grants, "tools")?, "http.fetch");
            http(grants, host, methods, *private)?;
        }
    }
    Ok(document.to_string())
}

/// The rule that names exactly this host gains methods; else a new rule is written.
fn http(grants: &mut Table, host: &str, methods: &[String], private: bool) -> Result<(), EditError> {
    let rules = grants.entry("http").or_insert_with(|| Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    let rules = rules.as_array_of_tables_mut().ok_or_else(|| EditError::Shape("http".to_owned()))?;
    let names_host = |rule: &Table| {
        let hosts = rule.get("hosts").and_then(Item::as_array);
        hosts.is_some_and(|hosts| hosts.len() == 1 && hosts.iter().any(|listed| listed.as_str() == Some(host)))
    };
    let existing = rules.iter().position(names_host);
    let rule = match existing {
        Some(index) => rules.get_mut(index),
        None => {
            let mut rule = Table::new();
            rule.insert("hosts", Item::Value(Value::Array(Array::from_iter([host]))));
            rules.push(rule);
            rules.iter_mut().last()
        }
    };
    let Some(rule) = rule else { return Ok(()) };
    if !methods.is_empty() {
        // A rule without methods allows these two; adding another must not take them away.
        let implied: &[&str] = if existing.is_some() && !rule.contains_key("methods") { &["GET", "HEAD"] } else { &[] };
        let listed = array(rule, "methods")?;
        implied.iter().for_each(|method| add(listed, method));
        methods.iter().for_each(|method| add(listed, method));
    }
    if private {
        set(rule, "private", true.into());
    }
    Ok(())
}

/// The table of a key, made where there is none; a table written inline becomes one of its own.
fn table<'a>(parent: &'a mut Table, key: &str, implicit: bool) -> Result<&'a mut Table, EditError> {
    let item = parent.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(implicit);
        Item::Table(table)
    });
    if let Item::Value(Value::InlineTable(inline)) = item {
        *item = Item::Table(std::mem::replace(inline, InlineTable::new()).into_table());
    }
    item.as_table_mut().ok_or_else(|| EditError::Shape(key.to_owned()))
}

fn array<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Array, EditError> {
    let item = parent.entry(key).or_insert_with(|| Item::Value(Value::Array(Array::new())));
    item.as_array_mut().ok_or_else(|| EditError::Shape(key.to_owned()))
}

/// Adds a text to an array that does not have it, in the layout of its last item.
fn add(array: &mut Array, text: &str) {
    if array.iter().any(|item| item.as_str() == Some(text)) {
        return;
    }
    let prefix = array
        .iter()
        .last()
        .and_then(|last| last.decor().prefix())
        .and_then(|prefix| prefix.as_str())
        .map(str::to_owned);
    match prefix.filter(|prefix| prefix.contains('\n')) {
        Some(prefix) => array.push_formatted(Value::from(text).decorated(prefix, "")),
        None => array.push(text),
    }
}

/// Sets a value and keeps the comment after the old one.
fn set(table: &mut Table, key: &str, mut value: Value) {
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

#[cfg(test)]
mod tests {
    use super::{NewGrant, grant};

    const FILE: &str = r#"# Our project.
workflows = ["workflows"] # more to come

# Reads the repository.
[plugins.repo]
path = "repo.wasm" # built by cargo xtask

[plugins.repo.grants]
tools = [] # nothing yet
"#;

    fn http(methods: &[&str], private: bool) -> NewGrant {
        NewGrant::Http {
            host: "http://localhost:80".into(),
            methods: methods.iter().map(|m| (*m).to_owned()).collect(),
            private,
        }
    }

    #[test]
    fn every_kind_of_grant_is_added_and_every_comment_stays() {
        let grants = [
            NewGrant::Tool("http.fetch".into()),
            NewGrant::Skill("triage".into()),
            NewGrant::Files { name: "repo".into(), path: ".".into(), write: false, globs: vec!["**/*.rs".into()] },
            http(&["POST"], true),
        ];
        let text = grants.iter().fold(FILE.to_owned(), |text, new| grant(&text, "repo", new).unwrap());
        for comment in
            ["# Our project.", "# more to come", "# Reads the repository.", "# built by cargo xtask", "# nothing yet"]
        {
            assert!(text.contains(comment), "{comment}\n{text}");
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn granting_twice_changes_nothing() {
        for new in [NewGrant::Tool("http.fetch".into()), http(&["GET"], false)] {
            let once = grant(FILE, "repo", &new).unwrap();
            assert_eq!(grant(&once, "repo", &new).unwrap(), once);
        }
    }

    #[test]
    fn a_wider_grant_changes_what_is_there() {
        let read = NewGrant::Files { name: "repo".into(), path: ".".into(), write: false, globs: Vec::new() };
        let write = NewGrant::Files { name: "repo".into(), path: ".".into(), write: true, globs: Vec::new() };
        let text = grant(&grant(FILE, "repo", &read).unwrap(), "repo", &write).unwrap();
        assert_eq!(text.matches("[plugins.repo.grants.files.repo]").count(), 1, "{text}");
        assert!(text.contains("access = \"read-write\""), "{text}");
        let text =
            grant(&grant(FILE, "repo", &http(&["GET"], false)).unwrap(), "repo", &http(&["POST"], true)).unwrap();
        assert!(text.contains("methods = [\"GET\", \"POST\"]") && text.contains("private = true"), "{text}");
    }

    #[test]
    fn no_heading_is_written_without_a_key_below_it() {
        let files = NewGrant::Files { name: "repo".into(), path: ".".into(), write: false, globs: Vec::new() };
        let text = grant("[plugins.repo]\npath = \"a.wasm\"\n", "repo", &files).unwrap();
        assert_eq!(text, "[plugins.repo]\npath = \"a.wasm\"\n\n[plugins.repo.grants.files.repo]\npath = \".\"\n");
    }

    #[test]
    fn inline_tables_and_plugins_from_folders_work_too() {
        let text =
            grant("[plugins]\nrepo = { path = \"a.wasm\" }\n", "repo", &NewGrant::Tool("http.fetch".into())).unwrap();
        assert!(text.contains("path = \"a.wasm\"") && text.contains("tools = [\"http.fetch\"]"), "{text}");
        let text = grant("plugin-folders = [\"p\"]\n", "repo", &NewGrant::Skill("s".into())).unwrap();
        assert!(text.contains("[plugins.repo.grants]\nskills = [\"s\"]"), "{text}");
    }

    #[test]
    fn a_file_of_another_shape_is_left_alone() {
        assert!(grant("plugins = 3", "repo", &NewGrant::Tool("http.fetch".into())).is_err());
        assert!(grant("x = [", "repo", &NewGrant::Tool("http.fetch".into())).is_err());
    }
}
