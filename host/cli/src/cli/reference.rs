//! The references of the documentation: `docs/commands.md` and `docs/configuration.md`, made of the descriptions that
//! the command line and the reader of project files have themselves, so that they say what the program does.
//!
//! `SNAPSHOTS=overwrite cargo test -p opcell-cli --lib reference` writes them.

use super::Cli;
use clap::{Arg, Command, CommandFactory as _};
use serde_json::{Map, Value};
use std::{collections::VecDeque, fmt::Write as _};

/// Every command with its options.
fn commands() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page =
        "# Commands\n\nEvery command and its options, as `--help` prints them.\n\n## Options of every command\n\n"
            .to_owned();
    page += &options(root.get_arguments().filter(|option| option.is_global_set()));
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
            page += &options(command.get_arguments().filter(|option| !option.is_global_set()));
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
    let mut page = "# The project file\n\nEvery key of `opcell.toml`. Sizes are written `64 MiB`, durations `5 s`; relative paths start at the file's folder.\nUnknown keys are errors. `opcell schema project` prints the same for editors, as a\n[JSON Schema](schemas/project.json), and `opcell.example.toml` shows every key in use.\n".to_owned();
    let mut open = VecDeque::from([Table { path: String::new(), about: None, node: &schema }]);
    while let Some(table) = open.pop_front() {
        let Some(keys) = table.node.get("properties").and_then(Value::as_object) else { continue };
        let title = if table.path.is_empty() { "At the top".to_owned() } else { format!("`[{}]`", table.path) };
        let _ = write!(page, "\n## {title}\n\n");
        if let Some(about) = table.about {
            let _ = write!(page, "{about}\n\n");
        }
        page += "| key | value | meaning |\n| --- | --- | --- |\n";
        let required = required(table.node);
        let mut below = Vec::new();
        for (key, node) in keys {
            if node.get("deprecated").is_some() {
                continue;
            }
            let about = node.get("description").or_else(|| resolved(&schema, node).get("description"));
            let about = about.and_then(Value::as_str).unwrap_or_default();
            let mut said = cell(about);
            if let Some(default) = node.get("default").filter(|default| **default != Value::Bool(false)) {
                let _ = write!(
                    said,
                    " Default: `{}`.",
                    default.as_str().map_or_else(|| default.to_string(), str::to_owned)
                );
            }
            let must = if required.contains(&key.as_str()) { ", required" } else { "" };
            let _ = writeln!(page, "| `{key}` | {}{must} | {said} |", kind(&schema, node));
            below.extend(Table::within(&schema, &table.path, key, node));
        }
        below.into_iter().rev().for_each(|below| open.push_front(below));
    }
    page
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

/// What a key takes, in words.
fn kind(schema: &Value, node: &Value) -> String {
    if node.get("$ref").and_then(Value::as_str) == Some("#/$defs/quantity") {
        return "number or quantity".to_owned();
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
        Some("integer") => "number".to_owned(),
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
    for (name, made) in [("commands.md", commands()), ("configuration.md", configuration())] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "`SNAPSHOTS=overwrite cargo test -p opcell-cli --lib reference` writes docs/{name}");
    }
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

/// What the book types, in its blocks and between its lines: each command exists, and has the options that it is given.
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
