//! The project that the workers share: three documents, a plugin whose cells report to the recorder, a scripted model.

use anyhow::Result;
use std::{fs, net::SocketAddr, path::Path};

/// The documents, by the name under which a run of each is started, with their input.
pub const DOCUMENTS: [(&str, &str, &str); 3] = [
    ("psi", "journey.edn", r#"{"xs": [1, 2, 3]}"#),
    ("skill", "chores.md", r#"{"rows": [1, 2]}"#),
    ("pack", "desk.pack.json", r#"{"topic": "bees"}"#),
];

/// The signal that a run of `journey` waits for.
pub const SIGNAL: &str = "go";

const JOURNEY: &str = r#"{:name "journey"
 :description "Every kind of effect, a timer, a signal, a session with tools"
 :inputs {:xs {:type "array"}}
 :steps
 [{:name "first" :type :invoke :operation "world/pure" :args {:n 1}}
  {:name "note" :type :invoke :operation "world/again" :args {:n 2}}
  {:name "publish" :type :invoke :operation "world/once" :args {:n 3}}
  {:name "all" :type :invoke :operation "world/again" :args {:n 4} :each {:over "$inputs.xs" :concurrency 3}}
  {:name "slow" :type :invoke :operation "world/once" :args {:n 5} :each {:over "$inputs.xs" :delay 1200}}
  {:name "talk" :type :session :tools ["again" "once"] :contributions [{:type :template :text "work" :vars {}}]}
  {:name "ask" :type :wait :signal "go"}
  {:name "last" :type :invoke :operation "world/again" :args {:n 6}
   :outputs {:data {:source :invoke/data}} :yields {:type :data :data :data}}]}
"#;

const CHORES: &str = r"---
name: chores
description: Tools, a timer and an exit.
---

```workflow
inputs:
  rows: { type: array }
outputs:
  rows: { type: array }
steps:
  - id: begin
    type: tool
    tool: pure
    inputs:
      n: { type: int, value: 1 }
  - id: post
    type: tool
    tool: once
    inputs:
      n: { type: int, value: 2 }
  - id: every
    type: tool
    tool: again
    each: $inputs.rows
    delay: 1200ms
    inputs:
      n: { type: int, value: 3 }
  - id: done
    type: exit
    status: success
    output:
      rows: $inputs.rows
```
";

const DESK: &str = r#"{
  "id": "desk", "name": "Desk", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "clerk": {"id": "clerk", "name": "Clerk", "version": "1.0.0", "system_template": "You work.", "tools": ["again", "once"]}
  },
  "tools": {
    "again": {"name": "again", "description": "Does it again.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "once": {"name": "once", "description": "Does it once.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "pure": {"name": "pure", "description": "Does nothing.",
             "parameters": {"type": "object", "properties": {"event": {"type": "string"}, "context": {"type": "string"}}}}
  },
  "compositions": {
    "gather": {
      "version": 1,
      "steps": [
        {"id": "first", "kind": "tool", "tool": "once", "args": {"n": 1}},
        {"id": "both", "kind": "parallel",
         "branches": [
           {"id": "left", "kind": "tool", "tool": "again", "args": {"n": 2}},
           {"id": "right", "kind": "tool", "tool": "once", "args": {"n": 3}}
         ],
         "reduce": {"strategy": "barrier", "into": "both"}},
        {"id": "mark", "kind": "tool", "tool": "pure", "args": {"event": "Ready", "context": "bees"}}
      ]
    }
  },
  "workflow": {
    "version": 2, "entry": "gather",
    "states": {
      "gather": {"orchestration": "composition", "composition": "gather", "on_event": {"Ready": "answer"}},
      "answer": {"prompt_task": "clerk", "terminal": true}
    }
  }
}
"#;

/// Every session works once with its tools, and then says so.
const SCRIPT: &str = "version: 1
order: any
turns:
  - when: { round: 0 }
    repeat: true
    tool-calls: [{ name: again, arguments: { n: 7 } }, { name: once, arguments: { n: 8 } }]
  - repeat: true
    text: done
";

const MANIFEST: &str = r#"{"schema":1,"name":"world","version":"1.0.0",
    "capabilities":{"tools":[{"name":"http.fetch","reason":"says what it does"}],
        "stores":[{"name":"counts","reason":"remembers what it did"}]}}"#;

/// Writes the project.
pub fn write(folder: &Path, recorder: SocketAddr) -> Result<()> {
    let project = format!(
        r#"workflows = ["."]

[plugins.world]
path = "world.wasm"

[plugins.world.grants]
tools = ["http.fetch"]

[plugins.world.grants.stores.counts]
quota = "1 GiB"
entries = 10000000

[[plugins.world.grants.http]]
hosts = ["http://{recorder}"]
methods = ["POST"]
private = true

[tools]
pure = "world/pure"
again = "world/again"
once = "world/once"

[sessions]
script = "script.yaml"
"#
    );
    let recorder = recorder.to_string();
    let wat = include_str!("plugin.wat")
        .replace("RECORDER-LENGTH", &recorder.len().to_string())
        .replace("RECORDER", &recorder);
    let plugin = opcell_cli::selftest::component_from_wat(&wat, None, "operation-plugin", Some(MANIFEST))?;
    fs::write(folder.join("world.wasm"), plugin)?;
    for (name, text) in [
        ("opcell.toml", project.as_str()),
        ("journey.edn", JOURNEY),
        ("chores.md", CHORES),
        ("desk.pack.json", DESK),
        ("script.yaml", SCRIPT),
    ] {
        fs::write(folder.join(name), text)?;
    }
    Ok(fs::create_dir(folder.join("home"))?)
}
