//! The JSON Schema of `opcell.toml`, for editors.
//!
//! It is made of the limits' own table and of what is written here; a test holds the names of all keys against what the
//! reader takes.

use crate::governance::OutsideRule;
use opcell_sandbox::limits::{LimitSpec, TABLE};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

mod sessions;

/// A limit of the values of a run, which plugins have no say in.
#[derive(Debug)]
pub struct ValueLimit {
    /// The key under `[limits]`.
    pub key: &'static str,
    /// The value where the key is absent.
    pub default: &'static str,
    /// The highest value.
    pub maximum: &'static str,
    reason: &'static str,
}

/// The limits of the values of a run.
pub const VALUE_LIMITS: [ValueLimit; 2] = [
    ValueLimit {
        key: "value-bytes",
        default: "64 MiB",
        maximum: "64 MiB",
        reason: "One value of a run: an input, a step's output, a reply, a signal.",
    },
    ValueLimit {
        key: "run-value-bytes",
        default: "2 GiB",
        maximum: "–",
        reason: "All values that the steps of one run make.",
    },
];

/// The JSON Schema (2020-12) of a project file.
#[must_use]
pub fn schema() -> Value {
    let limit = |limit: &LimitSpec| by_default(quantity(limit.reason), limit.unit.show(limit.default));
    let limits: Map<String, Value> = TABLE.iter().map(|spec| (spec.key.to_owned(), limit(spec))).collect();
    // What the values of a run may cost is the project's to say, and not a plugin's.
    let mut project_limits = limits.clone();
    for limit in &VALUE_LIMITS {
        project_limits.insert(limit.key.to_owned(), by_default(quantity(limit.reason), limit.default));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "opcell.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "workflows": folders("Folders of workflow documents; two documents of one name are an error."),
            "plugin-folders": folders("Folders whose .wasm files are plugins, named by their file names."),
            "skill-folders": folders("Folders of skills in the Agent Skills format."),
            "skills": named("skill", "Skills whose scripts models may call, by name."),
            "cache": {"deprecated": true, "description": "A project file cannot set this.", "not": {}},
            "plugins": named("plugin", "Plugins by name."),
            "limits": {"$ref": "#/$defs/project-limits", "description": "Ceilings for every plugin, and for the values of runs."},
            "keep-resident": by_default(quantity("Memory of a cell with an interpreter that stays in place for the next one, for each of at most 16 cells; the system takes back what is beyond it. At most `64 MiB`."), "16 MiB"),
            "tools": named("tool", "Implementations of the tools that documents name."),
            "mcp": named("server", "MCP servers by name."),
            "models": about(sessions::models(), "Providers and models."),
            "sessions": {"$ref": "#/$defs/sessions", "description": "Model conversations."},
            "packs": about(table(&[], json!({
                "authorizer": text("The judge, or the operation, that Opcell asks before each transition of a pack: its outcome `allow` permits the transition."),
                "environment": text("The environment of the project. A pack that declares `approved_environments` runs only if this is one of them."),
                "accept-governance": {"type": "array", "items": {"enum": OutsideRule::ALL.map(OutsideRule::as_str)}, "description": "Rules of packs' governance that Opcell does not enforce and that you enforce in another way. A pack that declares another such rule does not run."},
            })), "PromptPacks."),
            "journal": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/journal"}], "description": "The store of runs."},
            "triggers": named("trigger", "Schedules and webhooks that start runs, by name; `opcell serve` acts on them."),
            "tenants": named("tenant", "Further projects that `opcell serve` serves in isolation from each other, by name."),
        },
        "$defs": {
            "tenant": table(&["project"], json!({
                "project": text("Its project file."),
                "cells": {"type": "integer", "minimum": 1, "default": 64, "description": "Cells at a time."},
                "model-rounds": {"type": "integer", "minimum": 1, "description": "Rounds of models at a time; without it, no limit."},
                "requests-per-second": {"type": "integer", "minimum": 1, "default": 50_000, "description": "Requests in a second."},
                "started-runs": {"type": "integer", "minimum": 1, "default": 1_024, "description": "Runs at a time that requests started."},
                "calls": {"type": "integer", "minimum": 1, "default": 1_024, "description": "Calls of operations at a time."},
                "readers": {"type": "integer", "minimum": 1, "default": 4_096, "description": "Readers of events at a time."},
            })),
            "trigger": table(&[], json!({
                "cron": text("The schedule: minute, hour, day of the month, month, day of the week; a trigger has this or `webhook`."),
                "zone": by_default(text("The IANA time zone of `cron`."), "UTC"),
                "missed": {"enum": ["skip", "one", "all"], "default": "skip", "description": "The reaction to instants at which no server was running."},
                "webhook": {"$ref": "#/$defs/webhook", "description": "Signed requests; a trigger has this or `cron`."},
                "workflow": text("The workflow to start; a trigger has this or `signal`."),
                "signal": text("The signal to send."),
                "run": text("The run that receives it."),
                "run-from": text("The place of the run's ID in the webhook's body: a JSON Pointer."),
                "input": {"type": "object", "description": "The input of the run, or the data of the signal."},
            })),
            "webhook": table(&["secrets"], json!({
                "signature": {"enum": ["standard", "github"], "default": "standard", "description": "The scheme of signatures: Standard Webhooks, or GitHub's."},
                "secrets": {"type": "array", "minItems": 1, "description": "The secrets, any of which may sign a request.", "items": table(&[], json!({
                    "env": text("The environment variable that holds it."),
                    "file": text("The file that holds it."),
                }))},
                "window": by_default(text("The maximum age of a request."), "5 min"),
                "on": {"type": "array", "minItems": 1, "items": {"type": "string"}, "description": "The events that count, such as `issues.opened` or `issues`; all by default."},
                "body": {"type": "object", "additionalProperties": {"type": "string"}, "description": "The values of the body for the input: JSON Pointers by the input's keys."},
            })),
            "journal": table(&[], json!({
                "path": by_default(text("A file."), ".opcell/runs.db"),
                "url": text("A PostgreSQL server."),
                "password": about(table(&[], json!({
                    "env": text("The environment variable that holds it."),
                    "file": text("The file that holds it."),
                })), "The server's password."),
                "keep": {"type": "integer", "minimum": 0, "description": "The number of ended runs to keep."},
                "max-age": text("The age after which Opcell deletes an ended run, such as `30 d`."),
                "record-host-calls": flag("Records the arguments and answers of plugins' host calls with their runs."),
            })),
            "quantity": {
                "description": "A number, or a string with a unit: `64 MiB`, `5 s`.",
                "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}],
            },
            "access": {"enum": ["read", "read-write"], "default": "read", "description": "Read only, or read and write."},
            "limits": {"type": "object", "additionalProperties": false, "properties": limits},
            "project-limits": {"type": "object", "additionalProperties": false, "properties": project_limits},
            "plugin": table(&[], json!({
                "path": text("The component, or a source plugin (`.js`, `.py`); absent when a plugin folder has it."),
                "source": text("The registry reference of the component, instead of `path`: `oci://HOST/NAME:TAG`, or `@sha256:…`."),
                "unsigned": flag("Accepts a component without a signature from there."),
                "dev": flag("Marks a plugin in development: opcell.lock does not hold its digest."),
                "config": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Texts that the plugin reads through `wasi:config/store`. Not for secrets: use a credential of `http`, which the plugin never sees."},
                "exports": {"enum": ["contract", "typed"], "default": "contract", "description": "The way in which exports become operations: as `opcell:plugin` says, or each exported function by its types."},
                "effects": {"type": "object", "additionalProperties": {"enum": ["pure", "idempotent", "once"]}, "description": "With `exports = \"typed\"`: the effects of repeating an operation, by its ID; `once` if not named."},
                "record-host-calls": json!({"type": "boolean", "description": "Records the arguments and answers of the plugin's host calls; by default as `[journal]` says."}),
                "on-denied": {"enum": ["fail", "ask"], "default": "fail", "description": "The reaction to a call that fails because of a denial: fail, or ask for a grant."},
                "grants": {"$ref": "#/$defs/grants", "description": "The capabilities that the plugin may use."},
                "limits": {"$ref": "#/$defs/limits", "description": "Its own limits, within its ceiling."},
                "ceiling": {"$ref": "#/$defs/limits", "description": "Its own ceiling, in place of the project's."},
            })),
            "skill": table(&[], json!({
                "scripts": texts("The scripts, files of its folder `scripts`; all in JavaScript by default."),
                "grants": {"$ref": "#/$defs/grants", "description": "The capabilities that the scripts may use beside the skill's folder."},
                "limits": {"$ref": "#/$defs/limits", "description": "The limits of each script."},
            })),
            "grants": table(&[], json!({
                "tools": texts("Tools that it may call: `http.fetch`, names of `[tools]`, and IDs of operations."),
                "skills": texts("Skills."),
                "files": named("files", "Directories, by the name under which the plugin opens them."),
                "stores": named("store", "Stores for values that outlive a call, by the name under which the plugin uses them."),
                "http": requests("Requests that `http.fetch` makes for it."),
                "preopens": named("preopen", "DANGEROUS: directories of a WASI program, by the path that it sees."),
                "prompt": flag("Adds the manifest's contributions to prompts."),
                "approve": approve("Rules for tool calls of the plugin that wait for a person."),
            })),
            "files": table(&["path"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "globs": texts("Patterns; without any, every file."),
                "quota": by_default(quantity("Bytes that all its cells together may write there in 24 hours."), "256 MiB"),
                "control-files": flag("Extends the grant to control files and secrets."),
            })),
            "store": table(&[], json!({
                "quota": by_default(quantity("Bytes of keys and values."), "1 MiB"),
                "entries": by_default(quantity("Entries."), 10_000),
                "per": {"enum": ["project", "run"], "default": "project", "description": "One store for the plugin in this project, or one for each run."},
            })),
            "http": table(&["hosts"], json!({
                "hosts": texts("Hosts: https unless written with `http://`; `*.` covers the hosts below a domain."),
                "methods": by_default(texts("Methods that requests may use."), json!(["GET", "HEAD"])),
                "private": flag("Allows hosts on this machine or in a private network."),
                "credential": about(table(&[], json!({
                    "header": by_default(text("Its name."), "authorization"),
                    "prefix": by_default(text("The text before the secret; for another header than `authorization`, nothing by default."), "Bearer "),
                    "env": text("The environment variable that holds it."),
                    "file": text("The file that holds it."),
                })), "A header that Opcell adds to the request; the plugin or model never sees it."),
            })),
            "preopen": table(&["path", "dangerous"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "dangerous": {"const": true, "description": "Must be `true`, as a warning to readers of the file."},
                "control-files": flag("Accepts a directory that contains control files."),
            })),
            "tool": {"anyOf": [
                {"type": "string", "description": "A plugin's operation: `namespace/name`."},
                table(&[], json!({
                    "operation": text("A plugin's operation."),
                    "host": {"enum": super::check::HOST_TOOLS, "description": "A tool of the host."},
                    "http": requests("Requests that the host's `http.fetch` makes for it."),
                    "mcp": text("An MCP server of the project."),
                    "tool": text("The server's name of the tool, if it differs."),
                    "resources": texts("URIs of the server's resources that the tool reads, where `*` stands for any text."),
                    "prompts": texts("Names of the server's prompts that the tool gets, where `*` stands for any text."),
                    "approve": approve("Rules for models' calls of the tool that wait for a person; alone in its table, for a tool that exists already."),
                    "code": {"enum": [false, "only"], "description": "In sessions with `code`: `false` keeps the tool out of programs, so that models call it themselves; with `\"only\"` nothing but programs calls it. Alone in its table, for a tool that exists already."},
                })),
            ]},
            "server": table(&[], json!({
                "command": texts("The program and its arguments; a server has this or `url`."),
                "url": text("The server's address, for MCP over HTTP."),
                "private": flag("Allows an address on this machine or in a private network."),
                "credential": {"$ref": "#/$defs/http/properties/credential"},
                "directory": by_default(text("Where it runs."), "."),
                "env": texts("Environment variables that the program gets, in addition to PATH."),
                "call-time": by_default(quantity("Time of one call."), "60 s"),
                "result-bytes": by_default(quantity("Size of one answer."), "4 MiB"),
                "confine": flag("Confines the program to its folder, with the kernel's help."),
                "read": texts("Further paths that the confined program may read."),
                "write": texts("Paths that the confined program may write."),
                "network": flag("Lets the confined program use the network."),
                "approve": approve("Rules for models' calls of the server's tools that wait for a person."),
            })),
            "provider": sessions::provider(),
            "settings": sessions::settings(),
            "sessions": sessions(),
            "approval": approval(),
            "matching": matching(),
            "approved": table(&["tool", "arguments"], json!({
                "tool": text("The tool."),
                "arguments": {"type": "object", "description": "The arguments, every one of them."},
            })),
            "root": table(&["path"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "quota": by_default(quantity("Bytes that models may write there in 24 hours, all sessions together."), "256 MiB"),
                "control-files": flag("Whether the folder extends to files that decide what runs, and to secrets."),
            })),
            "contribution": table(&[], json!({
                "text": text("The text; empty for none."),
                "file": text("A file that holds it."),
                "priority": {"type": "integer", "default": 1000, "description": "Lower comes first."},
            })),
        },
    })
}

/// `[sessions]`.
fn sessions() -> Value {
    table(
        &[],
        json!({
            "script": text("Answers instead of every model."),
            "record": text("A file to which Opcell writes every round."),
            "files": named("root", "Directories for file tools, by name."),
            "defaults": {"$ref": "#/$defs/settings", "description": "Settings of every session, unless its step or its profile sets them."},
            "profiles": named("settings", "Named sets of settings, for `:session-profile`."),
            "unnarrowed-workflows": texts("Workflows whose sessions keep all tools that they declare, regardless of the caller."),
            "contributions": named("contribution", "Texts that Opcell adds to every prompt, by name."),
            "augmenters": texts("Operations that Opcell shows each turn of every session to before it asks the model: they add to the turn or refuse it."),
            "missing-tools": {"enum": ["withhold", "refuse"], "default": "withhold", "description": "The reaction to a tool that a session declares and that does not exist."},
            "context-files": {"enum": ["project", "none"], "default": "project", "description": "Shows in prompts `AGENTS.md`, or else `CLAUDE.md`, of each folder from the repository's root down to the project."},
            "http": requests("Requests that models may make with `http.fetch`."),
            "approve": approve("Rules for tool calls that wait for a person, in every session."),
            "approved": {"type": "array", "items": {"$ref": "#/$defs/approved"}, "description": "Calls that a person has approved permanently."},
            "bash": about(table(&["dangerous"], json!({
                "path": by_default(text("The directory in which commands run."), "."),
                "timeout": by_default(quantity("The time limit of a command."), "2 min"),
                "environment": texts("Variables that commands inherit in addition to the usual ones."),
                "dangerous": {"const": true, "description": "Must be `true`, as a warning to readers of the file."},
            })), "Commands for models; without it there are none."),
        }),
    )
}

/// Rules for calls of tools: a word, a rule, or a list of these.
fn approve(about: &str) -> Value {
    json!({
        "anyOf": [
            {"enum": ["never", "unless-pure", "always"]},
            {"$ref": "#/$defs/approval"},
            {"type": "array", "items": {"anyOf": [
                {"enum": ["never", "unless-pure", "always"]},
                {"$ref": "#/$defs/approval"},
            ]}},
        ],
        "description": about,
    })
}

/// A rule for calls of tools.
fn approval() -> Value {
    table(
        &[],
        json!({
            "ask": {"enum": ["never", "unless-pure", "always"], "default": "always", "description": "The calls that ask, unless a key below narrows them."},
            "tools": texts("The tools that it is for, with `*` for any characters; all by default."),
            "when": {"$ref": "#/$defs/matching", "description": "Asks only about calls whose arguments match, or may match."},
            "unless": {"$ref": "#/$defs/matching", "description": "Does not ask about calls whose arguments are certainly covered."},
            "within-seconds": {"type": "integer", "minimum": 1, "description": "Seconds that a person has for an answer; without it, any time."},
            "then": {"enum": ["refuse", "fail"], "default": "refuse", "description": "The reaction if no answer arrives in time."},
            "people": {"type": "integer", "minimum": 1, "maximum": 2, "default": 1, "description": "Different people who must approve a call."},
            "from": text("The place of the rule, as shown to people; its table by default."),
        }),
    )
}

/// A description of arguments.
fn matching() -> Value {
    table(
        &[],
        json!({
            "argument": text("The argument that holds the path, the command or the host: a name, or a JSON Pointer. By default `path`, `command` and `url`; with `when`, every text."),
            "paths": texts("Patterns of paths: `*` within a part, `**` over parts."),
            "commands": texts("Commands by their words, such as `git push`; with `unless`, a last `*` stands for any further words."),
            "hosts": texts("Hosts; `*.example.com` is every host below that domain."),
            "schema": {"description": "A JSON Schema of the arguments."},
            "expression": text("An expression over the arguments, which are its `$inputs`."),
        }),
    )
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn texts(about: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": about})
}

fn folders(about: &str) -> Value {
    texts(about)
}

fn quantity(about: &str) -> Value {
    json!({"$ref": "#/$defs/quantity", "description": about})
}

fn requests(about: &str) -> Value {
    json!({"type": "array", "items": {"$ref": "#/$defs/http"}, "description": about})
}

/// The same with what it is about.
fn about(mut table: Value, about: &str) -> Value {
    if let Some(table) = table.as_object_mut() {
        table.insert("description".to_owned(), json!(about));
    }
    table
}

/// A key with the value that it has where it is absent.
fn by_default(mut key: Value, default: impl Into<Value>) -> Value {
    if let Some(key) = key.as_object_mut() {
        key.insert("default".to_owned(), default.into());
    }
    key
}

fn number(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

fn flag(about: &str) -> Value {
    json!({"type": "boolean", "default": false, "description": about})
}

fn named(definition: &str, about: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"$ref": format!("#/$defs/{definition}")}, "description": about})
}

fn table(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

/// The most tables that a misplaced key is looked up in.
const MAX_TABLES: usize = 500;

/// Returns the tables that have a key of this name, such as `[plugins.NAME.limits]`.
pub(super) fn tables_with(key: &str) -> Vec<String> {
    let schema = schema();
    let mut pending = VecDeque::from([(String::new(), &schema)]);
    let mut found: Vec<String> = Vec::new();
    for _ in 0..MAX_TABLES {
        let Some((path, node)) = pending.pop_front() else { break };
        let node = match node["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            Some(pointer) => schema.pointer(pointer).unwrap_or(node),
            None => node,
        };
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if let Some(properties) = node["properties"].as_object() {
            if properties.contains_key(key) && !path.is_empty() {
                found.push(format!("[{path}]"));
            }
            pending.extend(properties.iter().map(|(name, value)| (below(name), value)));
        }
        if node["additionalProperties"].is_object() {
            pending.push_back((below("NAME"), &node["additionalProperties"]));
        }
        pending.extend(node["anyOf"].as_array().into_iter().flatten().map(|form| (path.clone(), form)));
        pending.extend(node["oneOf"].as_array().into_iter().flatten().map(|form| (path.clone(), form)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{schema, tables_with};
    use opcell_ir::SourceFile;
    use std::{collections::BTreeSet, sync::Arc};

    /// The keys that the reader names when it meets one that it does not know.
    fn taken(table: &str) -> BTreeSet<String> {
        let text = format!("{table}\nno-such-key = 1\n");
        let error = super::super::text::parse(&Arc::new(SourceFile::new("opcell.toml", text))).unwrap_err();
        let finding = &error.diagnostics[0];
        let said = format!("{} {}", finding.message, finding.help.clone().unwrap_or_default());
        assert!(said.contains("no-such-key"), "{said}");
        said.split('`').skip(1).step_by(2).filter(|word| *word != "no-such-key").map(str::to_owned).collect()
    }

    #[test]
    fn a_key_is_found_in_the_tables_that_have_it() {
        let memory = tables_with("memory");
        assert_eq!(memory.first().map(String::as_str), Some("[limits]"));
        assert!(memory.contains(&"[plugins.NAME.limits]".to_owned()), "{memory:?}");
        assert!(tables_with("globs").contains(&"[plugins.NAME.grants.files.NAME]".to_owned()));
        assert_eq!(tables_with("nothing-of-this"), [""; 0]);
    }

    #[test]
    fn every_key_says_what_it_is() {
        fn without(at: &str, node: &serde_json::Value, found: &mut Vec<String>) {
            let Some(node) = node.as_object() else { return };
            for (key, value) in node.get("properties").and_then(|keys| keys.as_object()).into_iter().flatten() {
                if value.get("description").is_none() && value.get("$ref").is_none() {
                    found.push(format!("{at}{key}"));
                }
            }
            node.iter().filter(|(key, _)| *key != "description").for_each(|(_, value)| match value {
                serde_json::Value::Array(parts) => parts.iter().for_each(|part| without(at, part, found)),
                serde_json::Value::Object(parts) if !parts.contains_key("type") => {
                    parts.iter().for_each(|(key, part)| without(&format!("{at}{key}."), part, found));
                }
                part => without(at, part, found),
            });
        }
        let mut found = Vec::new();
        without("", &schema(), &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn every_table_has_the_keys_that_the_reader_takes() {
        let schema = schema();
        for (table, pointer) in [
            ("", "/properties"),
            ("[plugins.p]", "/$defs/plugin/properties"),
            ("[plugins.p.grants]", "/$defs/grants/properties"),
            ("[plugins.p.grants.files.x]", "/$defs/files/properties"),
            ("[[plugins.p.grants.http]]", "/$defs/http/properties"),
            ("[plugins.p.grants.stores.x]", "/$defs/store/properties"),
            ("[plugins.p.grants.preopens.x]", "/$defs/preopen/properties"),
            ("[mcp.m]", "/$defs/server/properties"),
            ("[journal]", "/$defs/journal/properties"),
            ("[sessions]", "/$defs/sessions/properties"),
            ("[sessions.files.x]", "/$defs/root/properties"),
            ("[sessions.contributions.x]", "/$defs/contribution/properties"),
            ("[sessions.bash]", "/$defs/sessions/properties/bash/properties"),
            ("[models]", "/properties/models/properties"),
            ("[models.providers.p]\napi = \"gemini\"", "/$defs/provider/properties"),
            (
                "[models.providers.p]\napi = \"gemini\"\n[models.providers.p.retry]",
                "/$defs/provider/properties/retry/properties",
            ),
            (
                "[models.providers.p]\napi = \"gemini\"\n[[models.providers.p.models]]",
                "/$defs/provider/properties/models/items/properties",
            ),
        ] {
            let keys: BTreeSet<String> =
                schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect();
            assert_eq!(keys, taken(table), "{table}");
        }
    }

    #[test]
    fn the_file_that_examples_refer_to_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/project.json");
        let text = format!("{:#}\n", schema());
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            std::fs::write(file, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(file).unwrap() == text,
            "run: opcell schema project > docs/schemas/project.json"
        );
    }

    #[test]
    fn the_example_is_what_the_schema_says() {
        let example = include_str!("../../../../opcell.example.toml");
        let example: serde_json::Value = toml_edit::de::from_str(example).unwrap();
        opcell_workers::install();
        let compiled = opcell_schema::Schema::compile(&schema()).unwrap();
        assert_eq!(compiled.violations(&example, 5), Vec::<String>::new());
        let wrong = serde_json::json!({"plugins": {"p": {"pth": "x"}}});
        assert!(!compiled.violations(&wrong, 5).is_empty());
    }
}
