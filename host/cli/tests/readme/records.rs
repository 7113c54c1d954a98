//! `docs/events.md`: every event and receipt with its fields, read from the types that are written.
//!
//! `SNAPSHOTS=overwrite cargo test -p opcell-cli --test readme` writes it.

use super::root;
use std::{fmt::Write as _, fs};

/// A field of a struct, or a variant of an enum with its own fields.
#[derive(Default)]
struct Member {
    name: String,
    kind: String,
    says: String,
    optional: bool,
    fields: Vec<Member>,
}

/// The source of a module, with that of the modules in its folder.
fn source(file: &str) -> String {
    let file = root().join(file);
    let inner = fs::read_dir(file.with_extension("")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = std::iter::once(file.clone()).chain(inner);
    files
        .filter(|file| file.extension().is_some_and(|it| it == "rs"))
        .map(|it| fs::read_to_string(it).unwrap())
        .collect()
}

/// The members of a type, as its source declares them.
fn members(file: &str, of: &str) -> Vec<Member> {
    let text = source(file);
    let is_enum = text.contains(&format!("pub enum {of} {{\n"));
    let start = ["struct", "enum"].iter().find_map(|kind| text.split_once(&format!("pub {kind} {of} {{\n")));
    assert!(start.is_some(), "{file} has no type {of}");
    let body = start.unwrap().1.split("\n}\n").next().unwrap();
    let (mut found, mut says, mut attributes): (Vec<Member>, String, String) = Default::default();
    for line in body.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(doc) = line.strip_prefix("///") {
            says = format!("{says} {}", doc.trim()).trim().to_owned();
        } else if line.starts_with("#[") {
            attributes += line;
        } else if !line.is_empty() && line != "}," {
            let declared = line.trim_start_matches("pub ").trim_end_matches([',', '{', ' ']);
            let (name, kind) = match (is_enum && indent == 4, declared.split_once(": ")) {
                (true, _) => declared.split_once('(').map_or((declared, ""), |(name, kind)| (name, kind)),
                (false, Some(both)) => both,
                (false, None) => continue,
            };
            let optional = kind.starts_with("Option<") || attributes.contains("default");
            let member =
                Member { name: kebab(name), kind: kind.to_owned(), says: said(&says), optional, fields: vec![] };
            if !attributes.contains("serde(skip)") {
                match found.last_mut().filter(|_| is_enum && indent > 4) {
                    Some(variant) => variant.fields.push(member),
                    None => found.push(member),
                }
            }
            (says, attributes) = Default::default();
        }
    }
    found
}

/// A name as it is written in JSON.
fn kebab(name: &str) -> String {
    let mut written = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !written.is_empty() {
            written.push('-');
        }
        written.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    written
}

/// A comment of the source without links of its own.
fn said(text: &str) -> String {
    let link = regex::Regex::new(r"\[`([^`\]]+)`\](?:\([^)]*\))?").unwrap();
    let text = link.replace_all(text, |found: &regex::Captures<'_>| {
        let name = found[1].rsplit("::").next().unwrap_or_default();
        format!("`{}`", kebab(name))
    });
    text.replace('|', "\\|")
}

/// A type in words.
fn kind(rust: &str) -> &'static str {
    let inner = rust.trim_start_matches("Option<").trim_start_matches("Box<");
    let starts = |names: &[&str]| names.iter().any(|name| inner.starts_with(name));
    match () {
        () if starts(&["Vec<"]) => "list",
        () if starts(&[
            "Arc<str>",
            "String",
            "Digest",
            "Provider",
            "CallStatus",
            "GrantScope",
            "Answer",
            "LimitKind",
            "RaisedBy",
        ]) =>
        {
            "text"
        }
        () if starts(&["u", "f64", "FrameId", "EffectId", "InstanceId", "Timestamp", "usize"]) => "number",
        () if starts(&["bool"]) => "`true` or `false`",
        () if inner.trim_end_matches('>') == "Value" => "any value",
        () if starts(&["Request", "EffectReply", "Destination", "Outcome"]) => "object or text",
        () => "object",
    }
}

fn table(rows: &[Member]) -> String {
    let mut page = "| field | value | says |\n| --- | --- | --- |\n".to_owned();
    for row in rows {
        let optional = if row.optional { ", may be absent" } else { "" };
        let _ = writeln!(page, "| `{}` | {}{optional} | {} |", row.name, kind(&row.kind), row.says);
    }
    page
}

fn variants(rows: &[Member]) -> String {
    let mut page = "| value | says |\n| --- | --- |\n".to_owned();
    for row in rows {
        let fields: Vec<String> = row.fields.iter().map(|field| format!("`{}`: {}", field.name, field.says)).collect();
        let fields = if fields.is_empty() { String::new() } else { format!("<br>{}", fields.join("<br>")) };
        let _ = writeln!(page, "| `{}` | {}{fields} |", row.name, row.says);
    }
    page
}

const EVENTS: &str = "host/core/src/event.rs";
const CELLS: &str = "host/sandbox/src/receipt.rs";
const CALLS: &str = "host/core/src/receipt.rs";

fn page() -> String {
    let mut page = "# Events and receipts\n\nEvery event of a journal and every field of a receipt. This page is generated from the source, and a test fails if it\nis not complete. [The journal](journal.md) describes how they are stored, and the guarantees.\n\n```sh\nopcell runs show RUN --events     # every event of a run\nopcell runs export RUN            # the same as JSON, a line for each\n```\n\n## Events\n\nAn event is written `{\"kind\": {fields}}`, or `\"kind\"` if it has none. The journal adds its number, `seq`, and its time,\n`at`, in microseconds since 1970.\n\n".to_owned();
    let events = members(EVENTS, "Event");
    page += "| event | says |\n| --- | --- |\n";
    for event in &events {
        let _ = writeln!(page, "| [`{}`](#{}) | {} |", event.name, event.name, event.says);
    }
    for event in &events {
        let _ = write!(page, "\n### {}\n\n{}\n", event.name, event.says);
        let inside = match event.kind.trim_end_matches([')', '>']) {
            "Box<RunStarted" => members(EVENTS, "RunStarted"),
            "Signal" => members(EVENTS, "Signal"),
            "Box<Repinned" => members(EVENTS, "Repinned"),
            "Box<RunEnd" => members("host/core/src/outcome.rs", "RunEnd"),
            other => {
                assert!(other.is_empty(), "the fields of `{}`, a {other}, are unknown", event.name);
                Vec::new()
            }
        };
        let fields = if event.fields.is_empty() { &inside } else { &event.fields };
        if !fields.is_empty() {
            page += &format!("\n{}", table(fields));
        }
    }
    page += "\n## Values in events\n";
    for (title, name) in [
        ("A request", "Request"),
        ("The party that raises an event of a state", "RaisedBy"),
        ("A reply", "EffectReply"),
        ("A result", "Settled"),
        ("A destination", "Destination"),
        ("A grant's duration", "GrantScope"),
        ("An answer to an effect in doubt", "Answer"),
    ] {
        let _ = write!(page, "\n### {title}\n\n{}", variants(&members(EVENTS, name)));
    }
    let _ = write!(page, "\n### A call that a cell makes\n\n{}", table(&members(EVENTS, "InnerRequest")));
    let _ = write!(page, "\n### The end of a step\n\n{}", table(&members(EVENTS, "StepResult")));
    page += "\n## The receipt of a cell\n\nOpcell measures arguments and results, and never keeps them.\n\n";
    page += &table(&members(CELLS, "Receipt"));
    let _ = write!(page, "\n### Bytes of files\n\n{}", table(&members(CELLS, "FileBytes")));
    page += "\n## The receipt of another call\n\nFor a call of a host tool or an MCP tool, and for a call that was stopped before its cell had a receipt.\n\n";
    page += &table(&members(CALLS, "CallReceipt"));
    let _ = write!(page, "\n### How a call ended\n\n{}", variants(&members(CALLS, "CallStatus")));
    let _ = write!(page, "\n### A denial\n\n{}", table(&members("host/types/src/denial.rs", "Denial")));
    page
}

#[test]
fn the_page_of_events_and_receipts_is_what_is_written() {
    let (path, made) = (root().join("docs/events.md"), page());
    if std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") {
        fs::write(&path, &made).unwrap();
    }
    // Every kind that the journal's records name.
    let source = fs::read_to_string(root().join(EVENTS)).unwrap();
    let kinds = regex::Regex::new(r#"Self::\w+(?:\(_\)| \{ \.\. \})? => "([a-z-]+)","#).unwrap();
    let kinds: Vec<&str> = kinds.captures_iter(&source).map(|kind| kind.get(1).unwrap().as_str()).collect();
    assert!(kinds.len() > 30, "{kinds:?}");
    for kind in kinds {
        assert!(made.contains(&format!("\n### {kind}\n")), "no section for {kind}");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "`SNAPSHOTS=overwrite cargo test -p opcell-cli --test readme` writes docs/events.md");
}
