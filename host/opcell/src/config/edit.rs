//! Changes to a project file that keep its comments, order and layout.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

/// A grant to add to a plugin's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewGrant {
    /// A tool by name.
    Tool(String),
    /// A skill by name.
    Skill(String),
    /// A directory under a name.
    Files {
        /// The name under which the plugin opens it.
        name: String,
        /// The directory as it is to be written.
        path: String,
        /// `true` if files may be changed.
        write: bool,
        /// Patterns; empty keeps all.
        globs: Vec<String>,
    },
    /// A store in which the plugin keeps values from one call to the next, under a name.
    Store {
        /// The name under which the plugin uses it.
        name: String,
        /// Bytes, as they are to be written; the default if absent.
        quota: Option<String>,
        /// `true` if every run has its own.
        per_run: bool,
    },
    /// Requests; brings the tool `http.fetch` with it.
    Http {
        /// Host with scheme and port.
        host: String,
        /// Methods; empty is the default.
        methods: Vec<String>,
        /// `true` if the host may be this machine or in a private network.
        private: bool,
        /// A header that the host adds.
        credential: Option<NewCredential>,
    },
}

/// A credential that is written: its header, unless it is `authorization`, and where the secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCredential {
    /// The header.
    pub header: Option<String>,
    /// `env` or `file`.
    pub key: &'static str,
    /// The variable's or the file's name.
    pub place: String,
}

/// Why a file cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It is not TOML.
    #[error(transparent)]
    Toml(#[from] toml_edit::TomlError),
    /// Arguments that TOML cannot hold as they are.
    #[error("the arguments cannot be written: {0}")]
    Arguments(String),
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
        NewGrant::Store { name, quota, per_run } => {
            let stores = table(grants, "stores", true)?;
            let store = table(stores, name, false)?;
            if let Some(quota) = quota {
                set(store, "quota", quota.as_str().into());
            }
            if *per_run {
                set(store, "per", "run".into());
            }
        }
        NewGrant::Http { host, methods, private, credential } => {
            add(array(grants, "tools")?, "http.fetch");
            http(grants, host, methods, *private, credential.as_ref())?;
        }
    }
    Ok(document.to_string())
}

/// Adds one call to `[[sessions.approved]]`: a tool with these arguments and no others. Returns the new text; the same
/// text where it is there already.
///
/// # Errors
/// See [`EditError`]; also when TOML has no word for one of the arguments, such as null.
pub fn approve(text: &str, tool: &str, arguments: &opcell_types::Value) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let json = serde_json::Value::from(arguments);
    let written = toml_edit::ser::to_document(&serde_json::json!({ "arguments": json }))
        .map_err(|error| EditError::Arguments(error.to_string()))?;
    // What is read again must be what was shown.
    let read: Result<serde_json::Value, _> = toml_edit::de::from_str(&written.to_string());
    if read.ok().and_then(|read| read.get("arguments").cloned()).as_ref() != Some(&json) {
        return Err(EditError::Arguments("they change when they are written as TOML".to_owned()));
    }
    let arguments = match written.get("arguments").cloned() {
        Some(Item::Value(value)) => value,
        Some(Item::Table(table)) => Value::InlineTable(table.into_inline_table()),
        _ => return Err(EditError::Arguments("they are not an object".to_owned())),
    };
    let sessions = table(document.as_table_mut(), "sessions", true)?;
    let approved = sessions.entry("approved").or_insert_with(|| Item::ArrayOfTables(toml_edit::ArrayOfTables::new()));
    let approved = approved.as_array_of_tables_mut().ok_or_else(|| EditError::Shape("approved".to_owned()))?;
    let mut call = Table::new();
    call.insert("tool", Item::Value(tool.into()));
    call.insert("arguments", Item::Value(arguments));
    if approved.iter().any(|known| known.to_string() == call.to_string()) {
        return Ok(text.to_owned());
    }
    approved.push(call);
    Ok(document.to_string())
}

/// The rules of a new plugin that differ from the defaults.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewPlugin {
    /// `unsigned = true`: it may come without a signature.
    pub unsigned: bool,
    /// `exports = "typed"`: each function that it exports is an operation.
    pub typed: bool,
}

/// Adds `[plugins.NAME]` with a `source` or a `path`. Returns the new text.
///
/// # Errors
/// See [`EditError`].
pub fn add_plugin(text: &str, name: &str, key: &str, value: &str, rules: NewPlugin) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let plugins = table(document.as_table_mut(), "plugins", true)?;
    let plugin = table(plugins, name, false)?;
    set(plugin, key, value.into());
    if rules.unsigned {
        set(plugin, "unsigned", true.into());
    }
    if rules.typed {
        set(plugin, "exports", "typed".into());
    }
    Ok(document.to_string())
}

/// The settings of a new MCP server.
#[derive(Debug, Clone, Default)]
pub struct NewServer {
    /// The program and its arguments; empty for one at an address.
    pub command: Vec<String>,
    /// The address, for one that is not a program.
    pub url: Option<String>,
    /// The header that the host adds, with the text before the secret and the variable that holds it.
    pub credential: Option<(String, String, String)>,
    /// The folder in which it runs.
    pub directory: Option<String>,
    /// Variables of the environment that it gets.
    pub env: Vec<String>,
    /// The paths that it writes, if it is confined; it then also has the network.
    pub write: Vec<String>,
    /// `true` if it is confined.
    pub confine: bool,
    /// A remark after `confine`, such as the reason why it is not.
    pub remark: Option<String>,
}

/// Adds `[mcp.NAME]`. Returns the new text.
///
/// # Errors
/// See [`EditError`]; [`EditError::Shape`] also where the server is there already.
pub fn add_server(text: &str, name: &str, new: &NewServer) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let servers = table(document.as_table_mut(), "mcp", true)?;
    if servers.contains_key(name) {
        return Err(EditError::Shape(format!("mcp.{name}")));
    }
    let server = table(servers, name, false)?;
    let list = |texts: &[String]| Value::Array(Array::from_iter(texts.iter().map(String::as_str)));
    if let Some(url) = &new.url {
        set(server, "url", url.as_str().into());
        if let Some((header, prefix, variable)) = &new.credential {
            let mut credential = InlineTable::new();
            credential.insert("header", header.as_str().into());
            credential.insert("prefix", prefix.as_str().into());
            credential.insert("env", variable.as_str().into());
            set(server, "credential", Value::InlineTable(credential));
        }
        return Ok(document.to_string());
    }
    set(server, "command", list(&new.command));
    if let Some(directory) = &new.directory {
        set(server, "directory", directory.as_str().into());
    }
    if !new.env.is_empty() {
        set(server, "env", list(&new.env));
    }
    let mut confine = Value::from(new.confine);
    if let Some(remark) = &new.remark {
        confine.decor_mut().set_suffix(format!(" # {}", opcell_types::text::one_line(remark, 200)));
    }
    set(server, "confine", confine);
    if new.confine {
        set(server, "write", list(&new.write));
        set(server, "network", true.into());
    }
    Ok(document.to_string())
}

/// Takes `[plugins.NAME]` out, with its grants and limits. Returns the new text.
///
/// # Errors
/// See [`EditError`].
pub fn remove_plugin(text: &str, name: &str) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    table(document.as_table_mut(), "plugins", true)?.remove(name);
    Ok(document.to_string())
}

/// Something that a plugin no longer reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldGrant<'a> {
    /// A tool by name.
    Tool(&'a str),
    /// A skill by name.
    Skill(&'a str),
    /// A directory by its name.
    Files(&'a str),
    /// A store by its name; what it holds stays, for when it is granted again.
    Store(&'a str),
    /// Every rule that names this host; a rule that names others keeps those.
    Http(&'a str),
}

/// Takes a grant out of `[plugins.NAME.grants]`. Returns the new text; the same text where there is no such grant.
///
/// # Errors
/// See [`EditError`].
pub fn revoke(text: &str, plugin: &str, grant: OldGrant<'_>) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse()?;
    let plugin = document.get_mut("plugins").and_then(|plugins| plugins.get_mut(plugin));
    let Some(grants) = plugin.and_then(|plugin| plugin.get_mut("grants")) else { return Ok(text.to_owned()) };
    let without = |item: Option<&mut Item>, name: &str| {
        if let Some(list) = item.and_then(Item::as_array_mut) {
            list.retain(|listed| listed.as_str() != Some(name));
        }
    };
    match grant {
        OldGrant::Tool(name) => without(grants.get_mut("tools"), name),
        OldGrant::Skill(name) => without(grants.get_mut("skills"), name),
        OldGrant::Files(name) => {
            if let Some(files) = grants.get_mut("files").and_then(Item::as_table_like_mut) {
                files.remove(name);
            }
        }
        OldGrant::Store(name) => {
            if let Some(stores) = grants.get_mut("stores").and_then(Item::as_table_like_mut) {
                stores.remove(name);
            }
        }
        OldGrant::Http(host) => {
            if let Some(rules) = grants.get_mut("http").and_then(Item::as_array_of_tables_mut) {
                for rule in rules.iter_mut() {
                    without(rule.get_mut("hosts"), host);
                }
                rules.retain(|rule| rule.get("hosts").and_then(Item::as_array).is_none_or(|hosts| !hosts.is_empty()));
            }
        }
    }
    Ok(document.to_string())
}

/// The rule that names exactly this host gains methods; else a new rule is written.
fn http(
    grants: &mut Table,
    host: &str,
    methods: &[String],
    private: bool,
    credential: Option<&NewCredential>,
) -> Result<(), EditError> {
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
    if let Some(new) = credential {
        let mut credential = InlineTable::new();
        if let Some(header) = &new.header {
            credential.insert("header", header.as_str().into());
        }
        credential.insert(new.key, new.place.as_str().into());
        set(rule, "credential", Value::InlineTable(credential));
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
    use super::{NewCredential, NewGrant, NewPlugin, OldGrant, add_plugin, approve, grant, remove_plugin, revoke};
    use opcell_types::Value;

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
            credential: None,
        }
    }

    #[test]
    fn a_credential_is_written_with_its_rule_and_takes_the_place_of_an_older_one() {
        let with = |header: Option<&str>, key, place: &str| NewGrant::Http {
            host: "https://api.example.org".into(),
            methods: Vec::new(),
            private: false,
            credential: Some(NewCredential { header: header.map(str::to_owned), key, place: place.to_owned() }),
        };
        let text = grant("", "p", &with(None, "env", "TOKEN")).unwrap();
        assert!(text.contains("credential = { env = \"TOKEN\" }"), "{text}");
        let text = grant(&text, "p", &with(Some("x-key"), "file", "key.txt")).unwrap();
        assert!(text.contains("credential = { header = \"x-key\", file = \"key.txt\" }"), "{text}");
        assert!(!text.contains("TOKEN") && text.matches("[[plugins.p.grants.http]]").count() == 1, "{text}");
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
    fn what_was_granted_is_revoked_and_the_rest_stays() {
        let file = format!("{FILE}\n[plugins.repo.grants.files.repo]\npath = \".\"\n");
        let granted = grant(&file, "repo", &NewGrant::Tool("http.fetch".into())).unwrap();
        let granted = grant(&granted, "repo", &http(&["GET"], false)).unwrap();
        let text = revoke(&granted, "repo", OldGrant::Files("repo")).unwrap();
        let text = revoke(&text, "repo", OldGrant::Http("http://localhost:80")).unwrap();
        let text = revoke(&text, "repo", OldGrant::Tool("http.fetch")).unwrap();
        assert_eq!(text.trim_end(), FILE.trim_end());
        assert_eq!(revoke(FILE, "repo", OldGrant::Skill("none")).unwrap(), FILE);
        assert_eq!(
            remove_plugin(
                &add_plugin("", "x", "path", "x.wasm", NewPlugin { typed: true, ..NewPlugin::default() }).unwrap(),
                "x"
            )
            .unwrap(),
            ""
        );
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
    fn a_store_is_granted_with_what_was_said_and_taken_away_again() {
        let store = |quota: Option<&str>, per_run| NewGrant::Store {
            name: "counts".into(),
            quota: quota.map(str::to_owned),
            per_run,
        };
        let text = grant("[plugins.repo]\npath = \"a.wasm\"\n", "repo", &store(Some("4 MiB"), true)).unwrap();
        let written = "\n[plugins.repo.grants.stores.counts]\nquota = \"4 MiB\"\nper = \"run\"\n";
        assert_eq!(text, format!("[plugins.repo]\npath = \"a.wasm\"\n{written}"));
        assert_eq!(grant(&text, "repo", &store(None, false)).unwrap(), text);
        assert!(!revoke(&text, "repo", OldGrant::Store("counts")).unwrap().contains("counts"));
    }

    #[test]
    fn a_call_is_approved_with_its_arguments_and_no_others() {
        let arguments = Value::from_json(r#"{"command": "cargo test", "more": {"n": [1, 2.5, true]}}"#).unwrap();
        let text = approve("[sessions]\nscript = \"s.json\" # ours\n", "bash", &arguments).unwrap();
        assert!(text.starts_with("[sessions]\nscript = \"s.json\" # ours\n"), "{text}");
        assert!(text.contains("[[sessions.approved]]\ntool = \"bash\"\narguments = {"), "{text}");
        assert_eq!(approve(&text, "bash", &arguments).unwrap(), text);
        let null = Value::from_json(r#"{"command": null}"#).unwrap();
        assert!(approve("", "bash", &null).is_err());
    }

    #[test]
    fn a_file_of_another_shape_is_left_alone() {
        assert!(grant("plugins = 3", "repo", &NewGrant::Tool("http.fetch".into())).is_err());
        assert!(grant("x = [", "repo", &NewGrant::Tool("http.fetch".into())).is_err());
    }
}
