//! The references of the documentation: `docs/commands.md`, `docs/configuration.md`, `docs/http.md` and
//! `docs/tools.md`, made of the descriptions that the command line, the reader of project files and the server have
//! themselves, so that they say what the program does.
//!
//! `SNAPSHOTS=overwrite cargo test -p opcell-cli --lib reference` writes them.

mod http;

use super::Cli;
use clap::{Arg, Command, CommandFactory as _};
use serde_json::{Map, Value};
use std::{collections::VecDeque, fmt::Write as _};

/// Every command with its options.
fn commands() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page =
        "# Commands: the CLI reference\n\nEvery command and its options, as `--help` prints them.\n\n## Options of every command\n\n"
            .to_owned();
    page += &options(root.get_arguments().filter(|option| option.is_global_set()));
    // An option that `runs` hands to its commands is none of every command.
    let of_every_command: Vec<_> =
        root.get_arguments().filter(|option| option.is_global_set()).map(|option| option.get_id().clone()).collect();
    let mut open: VecDeque<(String, &Command)> = VecDeque::from([("opcell".to_owned(), &root)]);
    while let Some((path, command)) = open.pop_front() {
        let below: Vec<(String, &Command)> = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set() && below.get_name() != "help")
            .map(|below| (format!("{path} {}", below.get_name()), below))
            .collect();
        if command.get_name() != "opcell" {
            let _ = write!(page, "\n## {path}\n\n{}\n\n", about(command));
            page += &usage(command);
            page += &options(command.get_arguments().filter(|option| !of_every_command.contains(option.get_id())));
            if !below.is_empty() {
                if !page.ends_with("\n\n") {
                    page.push('\n');
                }
                page += "| command | does |\n| --- | --- |\n";
                for (path, command) in &below {
                    let place = path.replace(' ', "-");
                    let _ = writeln!(page, "| [`{path}`](#{place}) | {} |", cell(&about(command)));
                }
            }
        }
        // Depth first, in the order of the help.
        below.into_iter().rev().for_each(|below| open.push_front(below));
    }
    page
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let about = about.trim().to_owned();
    if about.ends_with(['.', '!', '?', ':']) { about } else { format!("{about}.") }
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    format!("```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ").trim())
}

fn options<'a>(options: impl Iterator<Item = &'a Arg>) -> String {
    let rows: Vec<String> = options
        .filter(|option| !option.is_hide_set() && !matches!(option.get_id().as_str(), "help" | "version"))
        .map(|option| format!("| {} | {} |\n", name(option), cell(&says(option))))
        .collect();
    if rows.is_empty() { String::new() } else { format!("| option | meaning |\n| --- | --- |\n{}", rows.concat()) }
}

fn name(option: &Arg) -> String {
    let values: Vec<String> =
        option.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    let takes = option.get_action().takes_values();
    let value = if takes { values.join(" ") } else { String::new() };
    // A value that may be left out, or that only `=` gives, is shown so.
    let optional = option.get_num_args().is_some_and(|number| number.min_values() == 0);
    let given = match (option.is_require_equals_set(), optional) {
        _ if !takes => String::new(),
        (true, true) => format!("[={value}]"),
        (true, false) => format!("={value}"),
        (false, true) => format!(" [{value}]"),
        (false, false) => format!(" {value}"),
    };
    let spelled = match (option.get_short(), option.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{given}"),
        (None, Some(long)) => format!("--{long}{given}"),
        (Some(short), None) => format!("-{short}{given}"),
        (None, None) => value,
    };
    format!("`{}`", spelled.trim().replace('|', "\\|"))
}

fn says(option: &Arg) -> String {
    let help = option.get_long_help().or_else(|| option.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut said = help.trim().trim_end_matches('.').to_owned();
    let takes = option.get_action().takes_values();
    let values: Vec<String> = option
        .get_possible_values()
        .iter()
        .filter(|value| takes && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        let _ = write!(said, ": {}", values.join(", "));
    }
    let defaults: Vec<String> =
        option.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes && !defaults.is_empty() {
        let _ = write!(said, " (default {})", defaults.join(" "));
    }
    format!("{said}.")
}

/// A text as one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Every table of a project file with its keys.
fn configuration() -> String {
    let schema = opcell::config::schema::schema();
    let examples = Examples::new(&schema);
    let mut page = "# The project file\n\nEvery key of `opcell.toml`, with its default and an example. Sizes are written `64 MiB`, durations `5 s`; relative paths\nstart at the file's folder. Unknown keys are errors. `opcell schema project` prints the same for editors, as a\n[JSON Schema](schemas/project.json), and `opcell.example.toml` shows every key in use. The environment is in\n[everyday commands](reference.md#environment).\n".to_owned();
    let mut open = VecDeque::from([Table { path: String::new(), about: None, node: &schema }]);
    // Tables with the same keys have them once: by the place of the table in memory, the title of the first one.
    let mut shown: Vec<(&Value, String)> = Vec::new();
    while let Some(table) = open.pop_front() {
        let Some(keys) = table.node.get("properties").and_then(Value::as_object) else { continue };
        let title = if table.path.is_empty() { "At the top".to_owned() } else { format!("`[{}]`", table.path) };
        let _ = write!(page, "\n## {title}\n\n");
        if let Some(about) = table.about {
            let _ = write!(page, "{about}\n\n");
        }
        if let Some((_, first)) = shown.iter().find(|(node, _)| std::ptr::eq(*node, table.node)) {
            let anchor: String = first.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
            let _ = writeln!(page, "The keys are those of [{first}](#{}).", anchor.to_lowercase());
            continue;
        }
        shown.push((table.node, title));
        let limits = table.path.ends_with("limits");
        let most = if limits { [" at most |", " --- |"] } else { ["", ""] };
        let _ = write!(
            page,
            "| key | value | default |{} meaning | example |\n| --- | --- | --- |{} --- | --- |\n",
            most[0], most[1]
        );
        let required = required(table.node);
        let mut below = Vec::new();
        for (key, node) in keys {
            if node.get("deprecated").is_some() {
                continue;
            }
            let about = node.get("description").or_else(|| resolved(&schema, node).get("description"));
            let said = cell(about.and_then(Value::as_str).unwrap_or_default());
            let default = match node.get("default").or_else(|| resolved(&schema, node).get("default")) {
                _ if required.contains(&key.as_str()) => "required".to_owned(),
                Some(default) => format!("`{}`", default.as_str().map_or_else(|| default.to_string(), str::to_owned)),
                None => "–".to_owned(),
            };
            let most = if limits { format!(" {} |", maximum(key)) } else { String::new() };
            let inner = Table::within(&schema, &table.path, key, node);
            // A table has its examples where its own keys are.
            let example = examples.of(&table, key).filter(|_| inner.is_none());
            let example = example.map(|example| format!("`{example}`")).unwrap_or_default();
            let _ = writeln!(page, "| `{key}` | {} | {default} |{most} {said} | {example} |", kind(&schema, node));
            below.extend(inner);
        }
        below.into_iter().rev().for_each(|below| open.push_front(below));
    }
    page
}

/// The highest value that a limit may have.
fn maximum(key: &str) -> String {
    match opcell_sandbox::limits::TABLE.iter().find(|limit| limit.key == key) {
        Some(limit) if limit.maximum < u64::MAX => limit.unit.show(limit.maximum),
        Some(_) => "–".to_owned(),
        None => opcell::config::schema::VALUE_LIMITS
            .iter()
            .find(|limit| limit.key == key)
            .map(|limit| limit.maximum.to_owned())
            .unwrap_or_default(),
    }
}

/// Keys that are instead of another one, of which `opcell.example.toml` has the other.
const ALTERNATIVES: [(&str, &str, &str); 9] = [
    ("[triggers.NAME]", "run", r#""r1""#),
    ("[[triggers.NAME.webhook.secrets]]", "file", r#""/run/secrets/hook""#),
    ("[journal]", "url", r#""postgres://opcell@db.example/opcell?schema=opcell""#),
    ("[journal.password]", "env", r#""DATABASE_PASSWORD""#),
    ("[journal.password]", "file", r#""/run/secrets/database""#),
    ("[sessions.contributions.NAME]", "file", r#""prompts/style.md""#),
    ("[tools.NAME]", "operation", r#""github/search""#),
    ("[plugins.NAME.grants.preopens.NAME]", "control-files", "false"),
    ("[plugins.NAME.grants.http.credential]", "file", r#""/run/secrets/github""#),
];

/// Values of `opcell.example.toml`, by table and key.
struct Examples {
    file: Value,
    /// The paths of every table, with its keys' place in memory: tables with the same keys share their examples.
    tables: Vec<(*const Value, String)>,
}

impl Examples {
    fn new(schema: &Value) -> Self {
        let text = include_str!("../../../../opcell.example.toml");
        let file = toml_edit::de::from_str(text).expect("the example is tested");
        let mut tables = Vec::new();
        let mut open = VecDeque::from([Table { path: String::new(), about: None, node: schema }]);
        while let Some(table) = open.pop_front() {
            for (key, node) in table.node.get("properties").and_then(Value::as_object).into_iter().flatten() {
                open.extend(Table::within(schema, &table.path, key, node));
            }
            tables.push((std::ptr::from_ref(table.node), table.path));
        }
        Self { file, tables }
    }

    /// An example of a key: of this table, of another one with the same keys, or of `[limits]`.
    fn of(&self, table: &Table<'_>, key: &str) -> Option<String> {
        let same =
            self.tables.iter().filter(|(node, _)| std::ptr::eq(*node, table.node)).map(|(_, path)| path.as_str());
        let mut paths = std::iter::once(table.path.as_str()).chain(same).chain(["limits"]);
        let alternative = |path: &str| {
            let title = format!("[{path}]");
            ALTERNATIVES
                .iter()
                .find(|(table, of, _)| *table == title && *of == key)
                .map(|(.., value)| (*value).to_owned())
        };
        paths.find_map(|path| self.at(path, key).or_else(|| alternative(path)))
    }

    /// The first value of a key in a table of this path, in which `NAME` is any name; none for tables of their own.
    fn at(&self, path: &str, key: &str) -> Option<String> {
        let mut tables = vec![&self.file];
        for part in path.trim_matches(['[', ']']).split('.').filter(|part| !part.is_empty()) {
            tables = tables
                .into_iter()
                .flat_map(|table| match (part, table) {
                    ("NAME", Value::Object(tables)) => tables.values().collect::<Vec<_>>(),
                    (part, table) => table.get(part).into_iter().collect(),
                })
                .flat_map(|table| table.as_array().map_or_else(|| vec![table], |tables| tables.iter().collect()))
                .collect();
        }
        let value = tables.into_iter().find_map(|table| table.get(key))?;
        let has_tables = |value: &Value| match value {
            Value::Object(entries) => entries.values().any(Value::is_object),
            Value::Array(items) => items.iter().any(Value::is_object),
            _ => false,
        };
        (!has_tables(value)).then(|| cell(&toml(value)))
    }
}

/// A value as TOML in one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let is_bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
                let key = if is_bare { key.clone() } else { format!("\"{key}\"") };
                format!("{key} = {}", toml(value))
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}

/// A table of the project file.
struct Table<'a> {
    path: String,
    about: Option<&'a str>,
    node: &'a Value,
}

impl<'a> Table<'a> {
    /// The table, or tables, that a key holds.
    fn within(schema: &'a Value, path: &str, key: &str, node: &'a Value) -> Option<Self> {
        let path = path.trim_matches(['[', ']']);
        let dot = if path.is_empty() { "" } else { "." };
        let about = node.get("description").and_then(Value::as_str);
        let own = resolved(schema, node);
        let (path, node) = if let Some(each) = own.get("additionalProperties").filter(|each| each.is_object()) {
            (format!("{path}{dot}{key}.NAME"), resolved(schema, each))
        } else if let Some(each) = own.get("items").filter(|_| own.get("type").and_then(Value::as_str) == Some("array"))
        {
            (format!("[{path}{dot}{key}]"), resolved(schema, each))
        } else {
            (format!("{path}{dot}{key}"), own)
        };
        let node = match node.get("anyOf").and_then(Value::as_array) {
            Some(forms) => {
                forms.iter().map(|form| resolved(schema, form)).find(|form| form.get("properties").is_some())?
            }
            None => node,
        };
        node.get("properties").is_some().then_some(Self { path, about, node })
    }
}

fn resolved<'a>(schema: &'a Value, node: &'a Value) -> &'a Value {
    let pointer = node.get("$ref").and_then(Value::as_str).and_then(|place| place.strip_prefix('#'));
    pointer.and_then(|pointer| schema.pointer(pointer)).unwrap_or(node)
}

fn required(node: &Value) -> Vec<&str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the values that a key takes, in words.
fn kind(schema: &Value, node: &Value) -> String {
    if node.get("$ref").and_then(Value::as_str) == Some("#/$defs/quantity") {
        return "number, or text with a unit".to_owned();
    }
    let node = resolved(schema, node);
    let one_of = |values: &Vec<Value>| values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ");
    if let Some(values) = node.get("enum").and_then(Value::as_array) {
        return one_of(values);
    }
    if let Some(value) = node.get("const") {
        return format!("`{value}`");
    }
    if let Some(forms) = node.get("anyOf").and_then(Value::as_array) {
        return forms.iter().map(|form| kind(schema, form)).collect::<Vec<_>>().join(" or ");
    }
    let empty = Map::new();
    match node.get("type").and_then(Value::as_str) {
        Some("string") => "text".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("array") => {
            let each = node.get("items").map(|each| kind(schema, each)).unwrap_or_default();
            format!("list of {}", if each == "text" { "texts".to_owned() } else { format!("{each}s") })
        }
        _ if node.get("properties").and_then(Value::as_object).unwrap_or(&empty).is_empty()
            && node.get("additionalProperties").is_some_and(Value::is_object) =>
        {
            "a table for each name".to_owned()
        }
        _ => "table".to_owned(),
    }
}

#[test]
fn the_references_of_the_documentation_say_what_the_program_does() {
    let pages = [
        ("commands.md", commands()),
        ("configuration.md", configuration()),
        ("http.md", http::page()),
        ("tools.md", super::tools::show::page()),
    ];
    for (name, made) in pages {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "`SNAPSHOTS=overwrite cargo test -p opcell-cli --lib reference` writes docs/{name}");
    }
}

#[test]
fn every_key_of_a_project_file_has_an_example() {
    let schema = opcell::config::schema::schema();
    let (examples, mut without) = (Examples::new(&schema), Vec::new());
    let mut open = vec![Table { path: String::new(), about: None, node: &schema }];
    while let Some(table) = open.pop() {
        for (key, node) in table.node.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let below = Table::within(&schema, &table.path, key, node);
            let is_value = below.is_none() && node.get("deprecated").is_none();
            if is_value && examples.of(&table, key).is_none() {
                without.push(format!("[{}] {key}", table.path));
            }
            open.extend(below);
        }
    }
    assert_eq!(without, Vec::<String>::new(), "opcell.example.toml does not show these keys");
}

#[test]
fn a_value_is_shown_as_it_is_given() {
    let option = || Arg::new("watch").long("watch").value_name("SECONDS");
    let named = |option: Arg| {
        let mut command = Command::new("opcell").arg(option);
        command.build();
        command.get_arguments().find(|option| option.get_id() == "watch").map(name).unwrap_or_default()
    };
    assert_eq!(named(option()), "`--watch <SECONDS>`");
    assert_eq!(named(option().require_equals(true)), "`--watch=<SECONDS>`");
    assert_eq!(named(option().num_args(0..=1).require_equals(true).short('w')), "`-w, --watch[=<SECONDS>]`");
    assert_eq!(named(option().num_args(0..=1)), "`--watch [<SECONDS>]`");
}

/// An option without a word is a question to whoever reads the help.
#[test]
fn every_command_and_option_says_what_it_does() {
    let mut root = Cli::command();
    root.build();
    let (mut open, mut silent) = (vec![("opcell".to_owned(), &root)], Vec::new());
    while let Some((path, command)) = open.pop() {
        if command.get_about().is_none() {
            silent.push(path.clone());
        }
        let options = command.get_arguments().filter(|option| !option.is_hide_set() && option.get_help().is_none());
        silent.extend(options.map(|option| format!("{path} {}", option.get_id())));
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        open.extend(below.map(|below| (format!("{path} {}", below.get_name()), below)));
    }
    assert_eq!(silent, Vec::<String>::new());
}

/// The commands in the book's blocks and between its lines exist, and have the options that they are given.
#[test]
fn every_command_that_the_book_names_exists_with_its_options() {
    let mut root = Cli::command();
    root.build();
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = vec![docs.join("../README.md"), docs.join("../SECURITY.md"), docs.join("../benches/README.md")];
    for folder in [docs.clone(), docs.join("comparison")] {
        pages.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md") && !page.ends_with("commands.md"));
    // To the end of the line, of the span, or of this command of a shell.
    let typed = regex::Regex::new(r"(?m)(?:^|`|\$ |&& |; |\| |\()opcell ((?:\\\n|[^`|;&\n])+)").unwrap();
    let (mut named, mut unknown) = (0, Vec::new());
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        for found in typed.captures_iter(&text).filter(|found| !found[1].starts_with(['=', '"', '#'])) {
            named += 1;
            if let Some(problem) = unknown_word(&root, &found[1]) {
                unknown.push(format!("{}: `{}`: {problem}", page.display(), &found[0]));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
    assert!(named > 300, "only {named} commands were found");
}

/// The first word that the command line does not know, of those that are commands or options.
fn unknown_word(root: &Command, typed: &str) -> Option<String> {
    let mut command = root;
    let mut takes_commands = true;
    let typed = typed.split("   #").next().unwrap_or_default();
    let mut words = typed.split_whitespace().take_while(|word| !word.starts_with(['>', '<', '#']));
    while let Some(word) = words.next() {
        let option = word.trim_matches(['[', ']', '.', ',', ')', '"', '\'', '…']);
        if let Some(long) = option.strip_prefix("--") {
            let (long, value) = long.split_once(['=', '[']).map_or((long, None), |(long, value)| (long, Some(value)));
            let known = command.get_arguments().find(|known| known.get_long() == Some(long));
            if !long.is_empty() && known.is_none() && !["help", "version"].contains(&long) {
                return Some(format!("`{}` has no option `--{long}`", command.get_name()));
            }
            if value.is_none() && known.is_some_and(|known| known.get_action().takes_values()) {
                words.next();
            }
        } else if takes_commands && command.has_subcommands() {
            match command.find_subcommand(option) {
                Some(below) => command = below,
                // A placeholder, or an argument of its own where a command may be left out.
                None if option.is_empty() || option.starts_with(|c: char| c.is_uppercase() || c == '{') => {
                    takes_commands = false;
                }
                None if command.get_positionals().next().is_some() => takes_commands = false,
                None => return Some(format!("`{}` has no command `{option}`", command.get_name())),
            }
        }
    }
    None
}
