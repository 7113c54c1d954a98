//! Everything that a release left on disk, opened by this version: journals with ended and waiting runs, the lock, a
//! plugin, exports, tokens. `tests/releases/README.md` lists the files and the command that writes them.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/guest.rs"]
mod guest;
#[path = "support/server.rs"]
mod server;
#[path = "support/versions.rs"]
mod versions;

use serde_json::{Value, json};
use server::Server;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Once,
};
use versions::{done, put, result, run, version};

const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/releases");

/// The files of a project, which a fixture keeps in the folder `project` with plugin and lock.
const PROJECT: [(&str, &str); 5] = [
    (
        "opcell.toml",
        "workflows = [\".\"]\n\n[plugins.test]\npath = \"test.wasm\"\n\n[tools]\nstamp = \"test/run\"\n\n[sessions]\n\
         script = \"script.yaml\"\n\n[journal]\npath = \"runs.db\"\n",
    ),
    (
        "say.edn",
        "{:name \"say\" :description \"Waits, then calls the plugin\"\n :steps [{:name \"wait\" :type :wait :signal \"go\"}\n         \
         {:name \"say\" :type :invoke :operation \"test/run\" :args {}}]}\n",
    ),
    (
        "skill.yaml",
        "outputs:\n  said: { type: string, value: $steps.say.output }\nsteps:\n  - id: say\n    type: tool\n    tool: stamp\n",
    ),
    (
        "parcel.pack.json",
        r#"{
  "id": "parcel", "name": "Parcel", "version": "1.0.0",
  "template_engine": { "version": "v1", "syntax": "{{variable}}" },
  "prompts": { "desk": { "id": "desk", "name": "Desk", "version": "1.0.0", "system_template": "You pack parcels." } },
  "tools": { "stamp": { "name": "stamp", "description": "Stamps it.", "parameters": { "type": "object", "properties": {} } } },
  "compositions": { "mark": { "version": 1, "steps": [{ "id": "stamped", "kind": "tool", "tool": "stamp", "args": {} }] } },
  "workflow": {
    "version": 2, "entry": "depot",
    "states": {
      "depot": { "prompt_task": "desk", "orchestration": "external", "on_event": { "Shipped": "mark" } },
      "mark": { "orchestration": "composition", "composition": "mark", "terminal": true }
    }
  }
}
"#,
    ),
    ("script.yaml", "version: 1\norder: any\nturns:\n  - when: { step: depot }\n    text: It is being packed.\n"),
];

/// The runs of a fixture: one of each language that waits, and one that has ended.
const WAITING: [&str; 3] = ["psi-waits", "skill-waits", "pack-waits"];
const ENDED: [&str; 3] = ["psi-ended", "skill-ended", "pack-ended"];

/// Every release that is kept. With `SNAPSHOTS=overwrite`, that of this version is written anew first.
fn releases() -> Vec<PathBuf> {
    static WRITTEN: Once = Once::new();
    if std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") {
        WRITTEN.call_once(|| write(&Path::new(RELEASES).join(env!("CARGO_PKG_VERSION"))));
    }
    let mut found: Vec<PathBuf> = fs::read_dir(RELEASES).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    assert!(!found.is_empty(), "{RELEASES} has no release");
    found
}

/// Writes the fixture of this version.
fn write(out: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (name, text) in PROJECT {
        fs::write(at.join(name), text).unwrap();
    }
    let waits = |arguments: &[&str]| {
        let output = run(at, arguments);
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    };
    put(at, &version(at, "a first version", ""));
    done(at, &["plugin", "update", "test", "--quiet"]);
    put(at, &version(at, "a fixture", ""));
    done(at, &["plugin", "update", "test", "--quiet"]);
    for name in ["psi-waits", "psi-ended"] {
        waits(&["run", "say", "--as", name, "--quiet"]);
    }
    for name in ["pack-waits", "pack-ended"] {
        waits(&["run", "parcel.pack.json", "--workflow", "--as", name, "--quiet"]);
    }
    done(at, &["run", "skill.yaml", "--queue", "--as", "skill-waits", "--quiet"]);
    done(at, &["run", "skill.yaml", "--as", "skill-ended", "--quiet"]);
    proceed(at, "psi-ended");
    proceed(at, "pack-ended");
    if out.exists() {
        fs::remove_dir_all(out).unwrap();
    }
    for folder in ["exports", "project"] {
        fs::create_dir_all(out.join(folder)).unwrap();
    }
    let journal = out.join("journal.db");
    done(at, &["runs", "backup", journal.to_str().unwrap(), "--quiet"]);
    for name in ENDED {
        fs::write(out.join("exports").join(format!("{name}.json")), run(at, &["runs", "export", name]).stdout).unwrap();
    }
    for name in PROJECT.map(|(name, _)| name).into_iter().chain(["opcell.lock", "test.wasm"]) {
        fs::copy(at.join(name), out.join("project").join(name)).unwrap();
    }
    // As they are now, and with the result of each at its end.
    let shown = |name: &str| status(at, name);
    let now: Vec<Value> = WAITING.iter().chain(&ENDED).map(|name| shown(name)).collect();
    WAITING.iter().for_each(|name| proceed(at, name));
    let names = WAITING.iter().chain(&ENDED);
    let runs = names.zip(now).map(|(name, now)| (name.to_string(), json!({"status": now, "result": result(at, name)})));
    let runs: serde_json::Map<String, Value> = runs.collect();
    fs::write(out.join("expected.json"), format!("{:#}\n", Value::Object(runs))).unwrap();
    let token = run(at, &["token", "new", "reader", "--scope", "read", "--quiet"]);
    assert!(token.status.success(), "{token:?}");
    fs::write(out.join("token"), token.stdout).unwrap();
    fs::copy(token_file(at), out.join("tokens.json")).unwrap();
}

/// Continues a run that waits, to its end.
fn proceed(at: &Path, name: &str) {
    match name.split_once('-').unwrap().0 {
        "psi" => done(at, &["runs", "signal", name, "go", "--quiet"]),
        "pack" => done(at, &["runs", "signal", name, "Shipped", "--quiet"]),
        _ => {}
    }
    done(at, &["runs", "resume", name, "--quiet"]);
}

fn status(at: &Path, name: &str) -> Value {
    let output = run(at, &["runs", "show", name, "--json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    shown["status"].clone()
}

/// The file of the tokens of the project in a folder, which has exactly one.
fn token_file(at: &Path) -> PathBuf {
    let files = fs::read_dir(at.join(".local/state/opcell/tokens")).unwrap().map(|entry| entry.unwrap().path());
    let [file] = files
        .filter(|file| file.extension().is_some_and(|kind| kind == "json"))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    file
}

/// A fixture as it was made, in the folder of a user who has never used it, with the journal in its place.
fn opened(release: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(release.join("project")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    fs::copy(release.join("journal.db"), folder.path().join("runs.db")).unwrap();
    folder
}

fn expected(release: &Path) -> Value {
    serde_json::from_slice(&fs::read(release.join("expected.json")).unwrap()).unwrap()
}

#[test]
fn runs_of_every_release_are_shown_and_those_that_wait_end_with_their_results() {
    for release in releases() {
        let (folder, expected) = (opened(&release), expected(&release));
        let at = folder.path();
        for (name, run) in expected.as_object().unwrap() {
            assert_eq!(status(at, name), run["status"], "{name} of {}", release.display());
        }
        done(at, &["runs", "adopt", "--all", "--quiet"]);
        for name in WAITING {
            proceed(at, name);
            assert_eq!(status(at, name), expected[ENDED[0]]["status"], "{name} of {}", release.display());
        }
        for (name, run) in expected.as_object().unwrap() {
            assert_eq!(result(at, name), run["result"], "{name} of {}", release.display());
        }
        done(at, &["runs", "replay", "psi-ended"]);
    }
}

#[test]
fn a_backup_of_every_release_is_restored_and_its_runs_continue() {
    for release in releases() {
        let (folder, expected) = (opened(&release), expected(&release));
        let at = folder.path();
        fs::rename(at.join("runs.db"), at.join("backup.db")).unwrap();
        done(at, &["runs", "restore", "backup.db", "--quiet"]);
        proceed(at, "psi-waits");
        assert_eq!(result(at, "psi-waits"), expected["psi-waits"]["result"], "{}", release.display());
    }
}

/// Returns the places at which `new` lacks or changes something of `old`. More members are no difference.
fn differences(place: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                match new.get(key) {
                    Some(other) => differences(&format!("{place}/{key}"), value, other, found),
                    None => found.push(format!("{place}/{key} is missing")),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&format!("{place}/{at}"), old, new, found);
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(format!("{place} was {old} and is {new}")),
    }
}

/// An export as one value: it is a document, or a document for each line.
fn parsed(text: &[u8]) -> Value {
    serde_json::Deserializer::from_slice(text).into_iter::<Value>().map(Result::unwrap).collect()
}

#[test]
fn an_export_has_every_member_that_it_had_in_every_release() {
    for release in releases() {
        let folder = opened(&release);
        for name in ENDED {
            let old = parsed(&fs::read(release.join("exports").join(format!("{name}.json"))).unwrap());
            let new = parsed(&run(folder.path(), &["runs", "export", name]).stdout);
            assert!(old.as_array().is_some_and(|documents| !documents.is_empty()), "{name} of {}", release.display());
            let mut found = Vec::new();
            differences("", &old, &new, &mut found);
            assert!(found.is_empty(), "the export of {name} of {}:\n{}", release.display(), found.join("\n"));
        }
    }
}

#[test]
fn a_member_that_is_gone_or_changed_is_named_and_a_new_one_is_not() {
    let old = json!([{"run": {"id": "a", "events": [{"kind": "started", "at": 1}]}}]);
    let mut new = old.clone();
    new[0]["run"]["more"] = json!(true);
    let mut found = Vec::new();
    differences("", &old, &new, &mut found);
    assert_eq!(found, Vec::<String>::new());
    new[0]["run"]["events"][0] = json!({"kind": "begun"});
    differences("", &old, &new, &mut found);
    assert_eq!(found, ["/0/run/events/0/kind was \"started\" and is \"begun\"", "/0/run/events/0/at is missing",]);
}

#[test]
fn a_lock_of_every_release_loads_its_plugin_and_no_other_bytes() {
    for release in releases() {
        let folder = opened(&release);
        let at = folder.path();
        let lock = fs::read(at.join("opcell.lock")).unwrap();
        done(at, &["check", "--locked"]);
        let said = run(at, &["--locked", "op", "invoke", "test/run"]);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success() && text.contains("a fixture"), "{said:?}");
        assert_eq!(fs::read(at.join("opcell.lock")).unwrap(), lock, "{}", release.display());
        // A component of the same size that does something else.
        let other = version(at, "a FIXTURE", "");
        put(at, &other);
        let refused = run(at, &["--locked", "op", "invoke", "test/run"]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && text.contains("test"), "{refused:?}");
    }
}

#[test]
fn a_token_of_every_release_opens_the_server_and_a_changed_one_does_not() {
    for release in releases() {
        let folder = opened(&release);
        let at = folder.path();
        // The file is named after the project's path.
        done(at, &["token", "new", "probe", "--quiet"]);
        fs::copy(release.join("tokens.json"), token_file(at)).unwrap();
        let token = fs::read_to_string(release.join("token")).unwrap().trim().to_owned();
        let server = Server::start(at);
        let list = |token: &str| {
            let token = format!("Bearer {token}");
            server.send("GET", "/v1/default/runs", &[("Authorization", &token)], "")
        };
        let (status, _, body) = list(&token);
        assert!(status == 200 && body.contains("psi-ended"), "{}: {status} {body}", release.display());
        let last = if token.ends_with('A') { 'B' } else { 'A' };
        let changed = format!("{}{last}", &token[..token.len() - 1]);
        // The last letter of such a secret may have bits that count for nothing: the one before it has none.
        let at = changed.len() - 2;
        let before = if &changed[at..=at] == "A" { "B" } else { "A" };
        let changed = format!("{}{before}{last}", &changed[..at]);
        assert_eq!(list(&changed).0, 401, "{}", release.display());
        assert_eq!(server.terminate(), Some(0));
    }
}
