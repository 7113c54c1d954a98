//! A new version of a plugin under a worker and a server that go on: what begins has it, what began keeps what it began
//! with, and a version that no one accepted changes nothing.

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
use server::{PATIENCE, Server, opcell};
use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use versions::{done, put, result, run, version};

const WORKFLOW: &str = r#"{:name "say" :description "Waits, then says which version it has"
 :steps [{:name "wait" :type :wait :signal "go"}
         {:name "say" :type :invoke :operation "test/run" :args {}}]}"#;

/// A project whose plugin is at version 1.
fn project(plugin: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("say.edn"), WORKFLOW).unwrap();
    let project = format!(
        "workflows = [\".\"]\n\n[plugins.test]\npath = \"test.wasm\"\n{plugin}\n[journal]\npath = \"runs.db\"\n"
    );
    fs::write(at.join("opcell.toml"), project).unwrap();
    put(at, &version(at, "one", ""));
    folder
}

/// A run that has begun, with the version of the moment, and waits.
fn begin(folder: &Path, name: &str) {
    let output = run(folder, &["run", "say", "--as", name, "--quiet"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A worker whose lines come as they are printed.
struct Worker {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Worker {
    fn start(folder: &Path) -> Self {
        let mut child = opcell(folder).arg("worker").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let streams: [Box<dyn std::io::Read + Send>; 2] = [Box::new(out), Box::new(err)];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
            });
        }
        let worker = Self { child, lines };
        worker.hears("driving the runs of");
        worker
    }

    /// Everything up to these words, in one line.
    fn hears(&self, what: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut heard = String::new();
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            // Findings are wrapped for people.
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "|").collect();
            heard = heard + &words.join(" ") + " ";
            if heard.contains(what) {
                return heard;
            }
        }
        panic!("the worker did not say {what:?}: {heard}");
    }

    /// Everything that it still says until it has been silent for a while.
    fn rest(&self) -> String {
        let mut heard = String::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(3)) {
            heard += &line;
            heard.push('\n');
        }
        heard
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_worker_takes_an_accepted_version_and_ends_earlier_runs_with_theirs() {
    let folder = project("");
    let at = folder.path();
    begin(at, "old");
    let worker = Worker::start(at);

    put(at, &version(at, "two", ""));
    let refused = worker.hears("opcell plugin update test");
    assert!(
        refused.contains("plugin `test` stays as it is") && refused.contains("its bytes have changed"),
        "{refused}"
    );

    done(at, &["plugin", "update", "test"]);
    worker.hears("plugin `test`: a new version is loaded");
    begin(at, "new");
    for name in ["old", "new"] {
        done(at, &["runs", "signal", name, "go"]);
        worker.hears(&format!("{name} completed"));
    }
    assert_eq!((result(at, "old"), result(at, "new")), (json!("one"), json!("two")));
}

#[test]
fn a_version_that_asks_for_more_is_refused_as_at_the_start_until_it_is_granted() {
    let folder = project("dev = true\n");
    let at = folder.path();
    begin(at, "old");
    let worker = Worker::start(at);

    put(at, &version(at, "two", "http.fetch"));
    let refused = worker.hears("opcell plugin grant test tool http.fetch");
    assert!(refused.contains("this version requests more than the one before"), "{refused}");
    done(at, &["runs", "signal", "old", "go"]);
    let said = worker.hears("old completed");
    assert!(!said.contains("a new version is loaded"), "{said}");
    assert_eq!(result(at, "old"), json!("one"));

    done(at, &["plugin", "grant", "test", "http", "https://a.example"]);
    // Consent to it is in none of the files that are looked at.
    worker.hears("consent-needed");
    done(at, &["trust", "--quiet"]);
    worker.hears("plugin `test`: a new version is loaded");
    begin(at, "new");
    done(at, &["runs", "signal", "new", "go"]);
    worker.hears("new completed");
    assert_eq!(result(at, "new"), json!("two"));
}

#[test]
fn a_half_written_file_and_a_broken_project_file_are_said_once_and_change_nothing() {
    let folder = project("dev = true\n");
    let at = folder.path();
    begin(at, "any");
    let worker = Worker::start(at);

    let whole = version(at, "two", "");
    fs::write(at.join("test.wasm"), &whole[..whole.len() / 2]).unwrap();
    worker.hears("plugin `test` stays as it is");
    let project = fs::read_to_string(at.join("opcell.toml")).unwrap();
    fs::write(at.join("opcell.toml"), format!("{project}\n[plugins.")).unwrap();
    worker.hears("the project file cannot be used, and every plugin stays as it is");
    let rest = worker.rest();
    assert!(!rest.contains("stays as it is"), "{rest}");

    fs::write(at.join("opcell.toml"), project).unwrap();
    fs::write(at.join("test.wasm"), &whole).unwrap();
    worker.hears("plugin `test`: a new version is loaded");
}

#[test]
fn a_component_at_another_place_takes_a_restart() {
    let folder = project("dev = true\n");
    let at = folder.path();
    begin(at, "any");
    let worker = Worker::start(at);
    fs::copy(at.join("test.wasm"), at.join("other.wasm")).unwrap();
    let project = fs::read_to_string(at.join("opcell.toml")).unwrap();
    fs::write(at.join("opcell.toml"), project.replace("test.wasm", "other.wasm")).unwrap();
    let said = worker.hears("restart this process");
    assert!(said.contains("plugin `test`: its component is at another place"), "{said}");
}

#[test]
fn a_server_answers_with_the_new_version_and_ends_earlier_runs_with_theirs() {
    let folder = project("dev = true\n");
    let at = folder.path();
    let server = Server::start(at);
    let says = || server.post("/v1/default/operations/test/run", &[], &json!({})).1["success"]["data"].clone();
    let begin = |name: &str| {
        let headers = [("Idempotency-Key", name)];
        let (status, begun) = server.post("/v1/default/runs", &headers, &json!({"workflow": "say"}));
        assert!(status < 300, "{begun}");
        begun["run"].as_str().unwrap().to_owned()
    };
    let digest = || server.get("/v1/default/plugins").1["plugins"][0]["digest"].clone();
    let before = digest();
    assert_eq!(says(), json!("one"));
    let old = begin("old");
    server.wait_for(&old, "suspended");

    put(at, &version(at, "two", ""));
    let until = Instant::now() + PATIENCE;
    while digest() == before {
        assert!(Instant::now() < until, "the server keeps the version that it started with");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(says(), json!("two"));
    let new = begin("new");
    server.wait_for(&new, "suspended");
    for (run, expected) in [(&old, "one"), (&new, "two")] {
        let (status, sent) = server.post(&format!("/v1/default/runs/{run}/signal"), &[], &json!({"name": "go"}));
        assert!(status < 300, "{sent}");
        assert_eq!(server.wait_for(run, "completed")["result"], expected);
    }
    assert_eq!(server.terminate(), Some(0), "former hosts end with the server");
}

#[test]
fn the_api_compares_another_version_and_exchanges_it_when_it_is_accepted() {
    let folder = project("");
    let at = folder.path();
    let server = Server::start(at);
    let diff = || server.get("/v1/default/plugins/test/diff");
    let says = || server.post("/v1/default/operations/test/run", &[], &json!({})).1["success"]["data"].clone();
    let digest = || server.get("/v1/default/plugins").1["plugins"][0]["digest"].clone();
    let (status, same) = diff();
    assert_eq!((status, &same["changed"], &same["differences"]), (200, &json!(false), &json!([])), "{same}");
    assert_eq!(same["loaded"], digest());

    put(at, &version(at, "two", "http.fetch"));
    let (_, other) = diff();
    assert_eq!((&other["changed"], &other["asks-for-more"]), (&json!(true), &json!(true)), "{other}");
    let asks = json!([{"change": "asks", "capability": "tool http.fetch", "reason": "a test"}]);
    assert_eq!(other["differences"], asks);
    // Whoever asks learns why, also when the server has said so before.
    for _ in 0..2 {
        let (status, reloaded) = server.post("/v1/default/reload", &[], &json!({}));
        assert_eq!((status, &reloaded["loaded"]), (200, &json!([])), "{reloaded}");
        assert_eq!(reloaded["refused"][0]["plugin"], "test", "{reloaded}");
        assert!(reloaded["refused"][0]["findings"][0]["code"].is_string(), "{reloaded}");
    }
    assert_eq!(says(), json!("one"));

    done(at, &["plugin", "update", "test"]);
    let (status, reloaded) = server.post("/v1/default/reload", &[], &json!({}));
    assert_eq!((status, &reloaded["refused"]), (200, &json!([])), "{reloaded}");
    assert_eq!((says(), digest()), (json!("two"), other["found"].clone()));
    assert_eq!(diff().1["changed"], json!(false));

    // What cannot be read is said, and changes nothing.
    fs::write(at.join("opcell.toml"), "[plugins.").unwrap();
    for (status, problem) in [diff(), server.post("/v1/default/reload", &[], &json!({}))] {
        assert_eq!(status, 409, "{problem}");
        assert!(problem["findings"][0]["line"].is_number() || problem["findings"][0].is_object(), "{problem}");
    }
    assert_eq!(says(), json!("two"));
}

#[test]
fn an_mcp_client_is_told_when_plugins_are_exchanged_or_workflows_change() {
    let folder = project("dev = true\n");
    let at = folder.path();
    let mut command = opcell(at);
    command.args(["mcp", "--workflow", "say"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().unwrap());
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = |wanted: &dyn Fn(&Value) -> bool| loop {
        let line = lines.recv_timeout(PATIENCE).expect("the server says nothing");
        let message: Value = serde_json::from_str(&line).unwrap();
        if wanted(&message) {
            return message;
        }
    };
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
    let info = next(&|message| message["id"] == 0);
    assert_eq!(info["result"]["capabilities"]["tools"]["listChanged"], true, "{info}");
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut id = 0;
    let mut tools = || {
        id += 1;
        send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
        next(&|message| message["id"] == id)["result"]["tools"].clone()
    };
    let told = || next(&|message| message["method"] == "notifications/tools/list_changed");
    let names = |tools: &Value| -> Vec<String> {
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&tools()), ["opcell_run", "run_say", "test_run"]);
    // The server may not have begun to look: it tells of what is other than what it saw then.
    let text = version(at, "one", "");
    let renamed: Vec<u8> = {
        let mut bytes = text.clone();
        let places: Vec<usize> = (0..bytes.len() - 8).filter(|at| &bytes[*at..*at + 8] == b"test/run").collect();
        assert!(!places.is_empty());
        for place in places {
            bytes[place..place + 8].copy_from_slice(b"test/ran");
        }
        bytes
    };
    fs::write(
        at.join("other.edn"),
        WORKFLOW.replace("\"say\" :description", "\"other\" :description").replace("test/run", "test/ran"),
    )
    .unwrap();
    put(at, &renamed);
    told();
    assert!(names(&tools()).contains(&"test_ran".to_owned()));
    fs::write(at.join("say.edn"), WORKFLOW.replace("Waits, then", "Waits first, then")).unwrap();
    told();
    let listed = tools();
    let say = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "run_say").unwrap();
    assert!(say["description"].as_str().unwrap().starts_with("Waits first"), "{say}");
    child.kill().unwrap();
    child.wait().unwrap();
}
