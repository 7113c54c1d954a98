//! `opcell worker --restate` with a real Restate server: it gives turns, keeps timers, and gives a turn again that was
//! lost with its worker.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_restate::scratch::{RestateServer, free_port};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits twice for longer than a run is kept at hand.
const NAPS: &str = r#"{:name "naps" :description "Waits twice for a moment" :inputs {:xs {:type "array" :default [1 2 3]}}
 :steps [{:name "nap" :type :transform :operation :filter :where "true" :inputs {:items {:value []}}
          :each {:over "$inputs.xs" :delay 1500}}]}"#;

const ASKS: &str = r#"{:name "asks" :description "Waits for a word, then for an approval"
 :steps [{:name "word" :type :wait :signal "word"} {:name "allowed" :type :wait :signal "allowed" :approval true}]}"#;

/// A project with a journal, as a first run leaves it.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("opcell.toml", "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n");
    write("asks.edn", ASKS);
    write("naps.edn", NAPS);
    let first = opcell(folder.path()).args(["run", "naps", "--as", "zero", "--queue"]).output().unwrap();
    assert!(first.status.success(), "{first:?}");
    folder
}

fn opcell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    command.current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    command
}

struct Fleet {
    folder: tempfile::TempDir,
    server: RestateServer,
    listen: String,
    worker: Option<Child>,
}

impl Fleet {
    /// A project, a server, and a worker; nothing where there is no server.
    fn start() -> Option<Self> {
        let server = RestateServer::start(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()?;
        let folder = project();
        let listen = format!("127.0.0.1:{}", free_port());
        let mut fleet = Self { folder, server, listen, worker: None };
        fleet.work();
        Some(fleet)
    }

    fn opcell(&self) -> Command {
        opcell(self.folder.path())
    }

    fn done(&self, arguments: &[&str]) -> Output {
        let output = self.opcell().args(arguments).output().unwrap();
        assert!(output.status.success(), "opcell {}: {output:?}", arguments.join(" "));
        output
    }

    /// Starts the worker, again if there was one.
    fn work(&mut self) {
        let (admin, ingress) = (self.server.admin(), self.server.ingress());
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = self.opcell();
        command.args(["worker", "--restate", &admin, "--restate-ingress", &ingress, "--restate-listen", &self.listen]);
        self.worker = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    fn kill(&mut self) {
        let mut worker = self.worker.take().unwrap();
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    fn run(&self, name: &str) -> Option<Value> {
        let output = self.done(&["runs", "list", "--json"]);
        let runs: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        runs.into_iter().find(|run| run["run"] == name)
    }

    fn becomes(&self, name: &str, status: &str) {
        let until = Instant::now() + PATIENCE;
        let mut seen = None;
        while Instant::now() < until {
            seen = self.run(name);
            if seen.as_ref().is_some_and(|run| run["status"] == status && run["driven"] == false) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        panic!("`{name}` is not {status}: {seen:?}\n{log}");
    }

    /// Calls a handler of a run through the server, and gives status and answer.
    fn call(&self, run: &str, handler: &str, key: &str, body: &Value) -> (u16, String) {
        let address = self.server.ingress();
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
        let body = body.to_string();
        write!(
            stream,
            "POST /OpcellRun/{run}/{handler} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             idempotency-key: {key}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

#[test]
fn the_server_gives_turns_when_timers_are_due_also_after_its_restart_and_the_workers() {
    let Some(mut fleet) = Fleet::start() else { return };
    fleet.done(&["run", "naps", "--as", "one", "--queue"]);
    fleet.becomes("one", "completed");
    fleet.done(&["run", "naps", "--as", "two", "--queue"]);
    thread::sleep(Duration::from_millis(500));
    fleet.kill();
    fleet.server.restart().unwrap();
    fleet.done(&["run", "naps", "--as", "three", "--queue"]);
    fleet.work();
    fleet.becomes("two", "completed");
    fleet.becomes("three", "completed");
}

#[test]
fn a_signal_is_received_once_and_an_approval_is_not_taken_from_just_anybody() {
    let Some(fleet) = Fleet::start() else { return };
    // From now on the server knows where the worker is.
    fleet.becomes("zero", "completed");
    fleet.done(&["run", "asks", "--as", "one", "--queue"]);
    fleet.becomes("one", "suspended");
    for _ in 0..2 {
        let (status, answer) = fleet.call("one", "signal", "first", &json!({"name": "word", "data": "hello"}));
        assert_eq!(status, 200, "{answer}");
    }
    let (status, answer) = fleet.call("one", "signal", "second", &json!({"name": "allowed", "data": true}));
    assert!(status == 403 && answer.contains("opcell runs approve"), "{answer}");
    let (status, answer) = fleet.call("one", "signal", "third", &json!({"name": "wrod"}));
    assert!(status == 409 && answer.contains("wrod"), "{answer}");
    let (status, answer) = fleet.call("none", "signal", "fourth", &json!({"name": "word"}));
    assert_eq!(status, 404, "{answer}");
    // Whoever sends it something otherwise needs to know nothing of Restate.
    fleet.done(&["runs", "approve", "one", "allowed"]);
    fleet.becomes("one", "completed");
    let shown = fleet.done(&["runs", "show", "one", "--events", "--json"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.matches("\"signal-received\"").count(), 2, "{shown}");
}

#[test]
fn runs_that_their_worker_left_are_given_back_and_go_on_with_the_next_one() {
    let Some(mut fleet) = Fleet::start() else { return };
    fleet.done(&["run", "naps", "--as", "one", "--queue"]);
    thread::sleep(Duration::from_millis(300));
    let mut worker = fleet.worker.take().unwrap();
    assert!(Command::new("kill").args(["-TERM", &worker.id().to_string()]).status().unwrap().success());
    assert!(worker.wait().unwrap().success());
    assert_eq!(fleet.run("one").unwrap()["driven"], false);
    fleet.work();
    fleet.becomes("one", "completed");
}

#[test]
fn beyond_this_machine_the_server_must_sign_what_it_asks_for() {
    let folder = project();
    let worker = |more: &[&str]| {
        let mut command = opcell(folder.path());
        command.args(["worker", "--restate", "http://127.0.0.1:1", "--restate-listen", "0.0.0.0:0"]).args(more);
        command.output().unwrap()
    };
    for (more, expected) in [
        (&[][..], "nothing would tell a Restate server from anybody else"),
        (&["--restate-identity-key", "secret"], "the identity key is not one of Restate"),
    ] {
        let refused = worker(more);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
