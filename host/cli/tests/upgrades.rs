//! Upgrades of a plugin under runs that wait: each run ends with the version that it was started with, in whatever
//! process, and without that version it does not continue.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/guest.rs"]
mod guest;
#[path = "support/server.rs"]
mod server;
#[path = "support/versions.rs"]
mod versions;

use opcell_journal_postgres::scratch;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use versions::{done, put, result, run, version, version_of};

const PSI: &str = r#"{:name "say" :description "Waits, then says which version it has"
 :steps [{:name "wait" :type :wait :signal "go"}
         {:name "say" :type :invoke :operation "test/run" :args {}}]}"#;

const SKILL: &str = "outputs:\n  said: { type: string, value: $steps.say.output }\n\
                     steps:\n  - id: say\n    type: tool\n    tool: stamp\n";

const PACK: &str = r#"{
  "id": "parcel", "name": "Parcel", "version": "1.0.0",
  "template_engine": { "version": "v1", "syntax": "{{variable}}" },
  "prompts": { "desk": { "id": "desk", "name": "Desk", "version": "1.0.0", "system_template": "You pack parcels." } },
  "tools": { "stamp": { "name": "stamp", "description": "Stamps it.", "parameters": { "type": "object", "properties": {} } } },
  "compositions": {
    "mark": { "version": 1, "steps": [{ "id": "stamped", "kind": "tool", "tool": "stamp", "args": {} }] }
  },
  "workflow": {
    "version": 2, "entry": "depot",
    "states": {
      "depot": { "prompt_task": "desk", "orchestration": "external", "on_event": { "Shipped": "mark" } },
      "mark": { "orchestration": "composition", "composition": "mark", "terminal": true }
    }
  }
}"#;

const SCRIPT: &str = "version: 1\norder: any\nturns:\n  - when: { step: depot }\n    text: It is being packed.\n";

const PROJECT: &str = r#"workflows = ["."]

[plugins.test]
path = "test.wasm"

[tools]
stamp = "test/run"

[sessions]
script = "script.yaml"

[journal]
path = "runs.db"
"#;

/// A project with a workflow in each language, whose plugin is at version 0.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (name, text) in [
        ("say.edn", PSI),
        ("skill.yaml", SKILL),
        ("parcel.pack.json", PACK),
        ("script.yaml", SCRIPT),
        ("opcell.toml", PROJECT),
    ] {
        fs::write(at.join(name), text).unwrap();
    }
    put(at, &version(at, "version 0", ""));
    folder
}

/// Starts a run in each language with the version of the moment; each waits.
fn begin(at: &Path, number: usize) {
    let [psi, skill, pack] = names(number);
    for arguments in [
        &["run", "say", "--as", &psi, "--quiet"][..],
        &["run", "parcel.pack.json", "--workflow", "--as", &pack, "--quiet"],
    ] {
        let output = run(at, arguments);
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // The language has no step that waits for a person: the run waits for a process.
    done(at, &["run", "skill.yaml", "--queue", "--as", &skill, "--quiet"]);
}

fn names(number: usize) -> [String; 3] {
    ["psi", "skill", "pack"].map(|language| format!("{language}{number}"))
}

fn upgrade(at: &Path, says: &str) {
    put(at, &version(at, says, ""));
    done(at, &["plugin", "update", "test", "--quiet"]);
}

/// Returns the accepted components among the user's data.
fn accepted(at: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(at.join(".local/share/opcell/accepted")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "wasm")).collect()
}

#[test]
fn runs_of_every_language_end_with_their_versions_after_ten_upgrades() {
    let folder = project();
    let at = folder.path();
    let started = [0, 3, 10];
    for number in 0..=10 {
        if number > 0 {
            upgrade(at, &format!("version {number}"));
        }
        if started.contains(&number) {
            begin(at, number);
        }
    }
    let stuck = run(at, &["runs", "list", "--json"]);
    assert!(!String::from_utf8_lossy(&stuck.stdout).contains("here:"), "{stuck:?}");
    // Each command is a process of its own.
    for number in started {
        let [psi, skill, pack] = names(number);
        done(at, &["runs", "signal", &psi, "go", "--quiet"]);
        done(at, &["runs", "signal", &pack, "Shipped", "--quiet"]);
        for name in [&psi, &skill, &pack] {
            done(at, &["runs", "resume", name, "--quiet"]);
        }
        let says = json!(format!("version {number}"));
        assert_eq!((result(at, &psi), result(at, &pack)), (says.clone(), says.clone()));
        assert_eq!(result(at, &skill), json!({ "said": says }));
        done(at, &["runs", "replay", &psi]);
    }
    assert_eq!(accepted(at).len(), 11);
}

#[test]
fn a_run_whose_version_is_gone_or_damaged_stays_until_it_is_accepted_again() {
    let folder = project();
    let at = folder.path();
    let begun = run(at, &["run", "say", "--as", "waits", "--quiet"]);
    assert_eq!(begun.status.code(), Some(3), "{}", String::from_utf8_lossy(&begun.stderr));
    done(at, &["runs", "signal", "waits", "go", "--quiet"]);
    let [kept] = accepted(at).try_into().unwrap();
    upgrade(at, "version 1");
    let refused = |why: &str| {
        let output = run(at, &["runs", "resume", "waits", "--quiet"]);
        let words = String::from_utf8_lossy(&output.stderr).replace("\n  |", "");
        let said: Vec<&str> = words.split_whitespace().collect();
        assert!(output.status.code() == Some(2) && said.join(" ").contains(why), "{words}");
    };
    let whole = fs::read(&kept).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&kept, flipped).unwrap();
    refused("is damaged: its digest is");
    fs::remove_file(&kept).unwrap();
    refused("the accepted copy of the pinned version is gone");
    let shown = run(at, &["runs", "list", "--stuck=0", "--json"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("here:"), "{shown:?}");
    // The way back: the file of before, accepted again.
    put(at, &whole);
    done(at, &["plugin", "update", "test", "--quiet"]);
    upgrade(at, "version 2");
    done(at, &["runs", "resume", "waits", "--quiet"]);
    assert_eq!(result(at, "waits"), json!("version 0"));
}

#[test]
fn a_run_moves_to_another_version_by_a_recorded_command_and_only_if_it_offers_what_the_run_calls() {
    let folder = project();
    let at = folder.path();
    let begun = |name: &str| {
        let begun = run(at, &["run", "say", "--as", name, "--quiet"]);
        assert_eq!(begun.status.code(), Some(3), "{}", String::from_utf8_lossy(&begun.stderr));
    };
    begun("one");
    begun("two");
    upgrade(at, "version 1");
    let moved = run(at, &["runs", "repin", "one", "--by", "ann"]);
    assert!(moved.status.success() && String::from_utf8_lossy(&moved.stdout).contains("plugin test"), "{moved:?}");
    let shown = run(at, &["runs", "show", "one"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("moved to plugin test"), "{shown:?}");
    // Another name for the operation: what the run calls is gone.
    let other = version_of(at, "version 2", "test/odd");
    put(at, &other);
    done(at, &["plugin", "update", "test", "--quiet"]);
    let refused = run(at, &["runs", "repin", "--all-of", "test"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert_eq!(words.matches("the new version does not offer `test/run`").count(), 2, "{words}");
    for (name, says) in [("one", "version 1"), ("two", "version 0")] {
        done(at, &["runs", "signal", name, "go", "--quiet"]);
        done(at, &["runs", "resume", name, "--quiet"]);
        assert_eq!(result(at, name), json!(says));
        done(at, &["runs", "replay", name]);
    }
}

/// The project of a folder on another machine, where its user has never used it.
fn elsewhere(at: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(at).unwrap().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_file()) {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

#[test]
fn a_worker_that_never_had_a_version_takes_it_from_a_journal_that_shares_versions_and_from_no_other() {
    let Some(server) = scratch::Server::start().unwrap() else { return };
    for (schema, shared) in [("own", false), ("shared", true)] {
        let versions = if shared { "&versions=shared" } else { "" };
        let journal = format!("--journal={}&schema={schema}{versions}", server.url());
        let folder = project();
        let at = folder.path();
        let begun = run(at, &["run", "say", "--as", "waits", "--quiet", &journal]);
        assert_eq!(begun.status.code(), Some(3), "{}", String::from_utf8_lossy(&begun.stderr));
        upgrade(at, "version 1");
        done(at, &["runs", &journal, "signal", "waits", "go", "--quiet"]);
        let other = elsewhere(at);
        let resumed = run(other.path(), &["runs", &journal, "resume", "waits"]);
        let said = [resumed.stdout, resumed.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        if shared {
            assert!(resumed.status.success() && said.contains("version 0"), "{said}");
            assert_eq!(accepted(other.path()).len(), 2);
        } else {
            assert!(said.contains("pinned-plugin-missing"), "{said}");
        }
    }
}
