//! The JSON Schema of `opcell.toml`, for editors.
//!
//! It is made of the limits' own table and of what is written here; a test holds the names of all keys against what the
//! reader takes.

use opcell_sandbox::limits::TABLE;
use serde_json::{Map, Value, json};

/// The JSON Schema (2020-12) of a project file.
#[must_use]
pub fn schema() -> Value {
    let limits: Map<String, Value> =
        TABLE.iter().map(|limit| (limit.key.to_owned(), json!({"$ref": "#/$defs/quantity"}))).collect();
    // What the values of a run may cost is the project's to say, and not a plugin's.
    let mut project_limits = limits.clone();
    for key in ["value-bytes", "run-value-bytes"] {
        project_limits.insert(key.to_owned(), json!({"$ref": "#/$defs/quantity"}));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "opcell.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "workflows": folders("Folders of workflow documents; later ones win."),
            "plugin-folders": folders("Folders whose .wasm files are plugins, named by their file names."),
            "skill-folders": folders("Folders of skills in the Agent Skills format."),
            "cache": {"deprecated": true, "description": "Not for a project to say.", "not": {}},
            "plugins": named("plugin", "Plugins by name."),
            "limits": {"$ref": "#/$defs/project-limits"},
            "tools": named("tool", "Implementations of the tools that documents name."),
            "mcp": named("server", "MCP servers by name."),
            "models": {"type": "object", "description": "Providers and models."},
            "sessions": {"$ref": "#/$defs/sessions"},
            "journal": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/journal"}], "description": "Where runs are kept."},
        },
        "$defs": {
            "journal": table(&[], json!({
                "path": text("A file; `.opcell/runs.db` unless said."),
                "url": text("A PostgreSQL server."),
                "password": table(&[], json!({
                    "env": text("The environment variable that holds it."),
                    "file": text("The file that holds it."),
                })),
                "keep": {"type": "integer", "minimum": 0, "description": "The most ended runs that are kept."},
                "max-age": text("How long an ended run is kept, such as `30 d`."),
                "record-host-calls": flag("Whether what host calls of plugins were given and answered is kept with their runs."),
            })),
            "quantity": {
                "description": "A number, or a text with a unit: `64 MiB`, `5 s`.",
                "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}],
            },
            "access": {"enum": ["read", "read-write"], "default": "read"},
            "limits": {"type": "object", "additionalProperties": false, "properties": limits},
            "project-limits": {"type": "object", "additionalProperties": false, "properties": project_limits},
            "plugin": table(&[], json!({
                "path": text("The component; absent when a plugin folder has it."),
                "source": text("Where it comes from, instead of `path`: `oci://HOST/NAME:TAG`, or `@sha256:…`."),
                "unsigned": flag("Whether it may come from there without a signature."),
                "dev": flag("Whether it is under work: opcell.lock does not hold its digest."),
                "exports": {"enum": ["contract", "typed"], "default": "contract"},
                "effects": {"type": "object", "additionalProperties": {"enum": ["pure", "idempotent", "once"]}},
                "record-host-calls": flag("Whether what its host calls were given and answered is kept; as `[journal]` says unless said."),
                "grants": {"$ref": "#/$defs/grants"},
                "limits": {"$ref": "#/$defs/limits"},
                "ceiling": {"$ref": "#/$defs/limits"},
            })),
            "grants": table(&[], json!({
                "tools": texts("Host tools, such as `http.fetch`."),
                "skills": texts("Skills."),
                "files": named("files", "Directories, by the name under which the plugin opens them."),
                "stores": named("store", "What it keeps from one call to the next, by the name under which it uses it."),
                "http": {"type": "array", "items": {"$ref": "#/$defs/http"}},
                "preopens": named("preopen", "DANGEROUS: directories of a WASI program, by the path that it sees."),
                "prompt": flag("Whether what its manifest adds to prompts is added."),
            })),
            "files": table(&["path"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "globs": texts("Patterns; without any, every file."),
                "quota": {"$ref": "#/$defs/quantity"},
                "control-files": flag("Whether the grant extends to files that decide what runs, and to secrets."),
            })),
            "store": table(&[], json!({
                "quota": {"$ref": "#/$defs/quantity"},
                "entries": {"$ref": "#/$defs/quantity"},
                "per": {"enum": ["project", "run"], "default": "project"},
            })),
            "http": table(&["hosts"], json!({
                "hosts": texts("Hosts: https by default, `*.` for those below."),
                "methods": texts("GET and HEAD unless said."),
                "private": flag("Whether the hosts may be this machine or in a private network."),
                "credential": table(&[], json!({
                    "header": text("`authorization` unless said."),
                    "prefix": text("`Bearer ` unless said, for `authorization`."),
                    "env": text("The environment variable that holds it."),
                    "file": text("The file that holds it."),
                })),
            })),
            "preopen": table(&["path", "dangerous"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "dangerous": {"const": true},
                "control-files": flag("Whether it may hold files that decide what runs."),
            })),
            "tool": {"anyOf": [
                {"type": "string", "description": "A plugin's operation: `namespace/name`."},
                table(&[], json!({
                    "operation": text("A plugin's operation."),
                    "host": {"enum": super::check::HOST_TOOLS},
                    "http": {"type": "array", "items": {"$ref": "#/$defs/http"}},
                    "mcp": text("An MCP server of the project."),
                    "tool": text("The server's own name of the tool, where it is another."),
                })),
            ]},
            "server": table(&[], json!({
                "command": texts("The program and its arguments; a server has this or `url`."),
                "url": text("Where it answers over HTTP."),
                "private": flag("Whether it may be on this machine or in a private network."),
                "credential": {"$ref": "#/$defs/http/properties/credential"},
                "directory": text("Where it runs; the project's directory unless said."),
                "env": texts("Variables that it gets beside PATH."),
                "call-time": {"$ref": "#/$defs/quantity"},
                "result-bytes": {"$ref": "#/$defs/quantity"},
                "confine": flag("Whether it runs confined."),
                "read": texts("What it reads beside its directory, when it is confined."),
                "write": texts("What it writes, when it is confined."),
                "network": flag("Whether it reaches the network, when it is confined."),
            })),
            "sessions": table(&[], json!({
                "script": text("Answers instead of every model."),
                "record": text("A file that takes down every round."),
                "files": named("root", "Directories for file tools, by name."),
                "defaults": {"type": "object", "description": "Settings where nothing else says."},
                "profiles": {"type": "object", "additionalProperties": {"type": "object"}},
                "unnarrowed-workflows": texts("Workflows whose sessions have what they declare, whoever calls them."),
                "contributions": named("contribution", "What is added to every prompt, by name."),
                "missing-tools": {"type": "string"},
                "context-files": {"enum": ["project", "none"]},
                "http": {"type": "array", "items": {"$ref": "#/$defs/http"}},
                "bash": table(&["dangerous"], json!({
                    "path": text("Where commands run; the project unless said."),
                    "timeout": {"$ref": "#/$defs/quantity"},
                    "environment": texts("Variables that commands inherit beside the usual ones."),
                    "dangerous": {"const": true},
                })),
            })),
            "root": table(&["path"], json!({
                "path": text("The directory."),
                "access": {"$ref": "#/$defs/access"},
                "quota": {"$ref": "#/$defs/quantity"},
                "control-files": flag("Whether the folder extends to files that decide what runs, and to secrets."),
            })),
            "contribution": table(&[], json!({
                "text": text("What is added; empty: nothing."),
                "file": text("A file that holds it."),
                "priority": {"type": "integer", "default": 1000},
            })),
        },
    })
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

fn flag(about: &str) -> Value {
    json!({"type": "boolean", "default": false, "description": about})
}

fn named(definition: &str, about: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"$ref": format!("#/$defs/{definition}")}, "description": about})
}

fn table(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

#[cfg(test)]
mod tests {
    use super::schema;
    use opcell_workflow::SourceFile;
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
        let compiled = opcell_schema::Schema::compile(&schema()).unwrap();
        assert_eq!(compiled.violations(&example, 5), Vec::<String>::new());
        let wrong = serde_json::json!({"plugins": {"p": {"pth": "x"}}});
        assert!(!compiled.violations(&wrong, 5).is_empty());
    }
}
