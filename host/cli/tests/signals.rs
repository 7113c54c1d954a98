//! SIGTERM and SIGINT as a service manager and a terminal send them, while a step is under way that must not happen
//! twice.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers the handshake; a call of a tool is answered when there is a file `answer`, and leaves a line in `calls`.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"slow\",\"version\":\"1\"}}}" ;;
    *'"method":"tools/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"send\",\"inputSchema\":{\"type\":\"object\"}}]}}" ;;
    *'"method":"tools/call"'*)
      echo call >> calls
      while ! test -e answer; do sleep 0.05; done
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"sent\"}]}}" ;;
  esac
done
"#;

const PROJECT: &str = r#"workflows = ["."]

[journal]
path = "runs.db"

[mcp.slow]
command = ["sh", "server.sh"]

[tools]
send = { mcp = "slow" }
"#;

const WORKFLOW: &str = r#"{:name "letter" :description "Sends a letter, twice"
 :steps [{:name "first" :type :invoke :operation "send" :args {}}
         {:name "second" :type :invoke :operation "send" :args {}}]}"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("server.sh", SERVER);
    write("opcell.toml", PROJECT);
    write("letter.edn", WORKFLOW);
    // The project starts a program, which its user must have said yes to.
    assert!(opcell(folder.path()).args(["trust", "--quiet"]).status().unwrap().success());
    folder
}

fn opcell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    command.current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    command
}

fn calls(folder: &Path) -> usize {
    fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count()
}

fn wait_for(what: &str, mut reached: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A command whose first call of the tool is under way.
fn under_way(folder: &Path, arguments: &[&str]) -> Child {
    let before = calls(folder);
    let child = opcell(folder).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the call is under way", || calls(folder) > before);
    child
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn listed(folder: &Path, name: &str) -> serde_json::Value {
    let output = opcell(folder).args(["runs", "list", "--json"]).output().unwrap();
    let runs: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    runs.into_iter().find(|run| run["run"] == name).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_under_way_may_end_within_its_grace_and_nothing_new_begins() {
    let folder = project();
    let folder = folder.path();
    let child = under_way(folder, &["run", "letter", "--as", "a", "--grace", "50"]);
    send(&child, "-TERM");
    thread::sleep(Duration::from_millis(300));
    fs::write(folder.join("answer"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("opcell runs resume a"), "{}", said(&output));
    assert_eq!(calls(folder), 1, "the second step has begun");
    let resumed = opcell(folder).args(["runs", "resume", "a"]).output().unwrap();
    assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
    assert_eq!(calls(folder), 2);
}

#[test]
fn what_does_not_end_within_the_grace_is_in_doubt_and_is_asked_about() {
    let folder = project();
    let folder = folder.path();
    let child = under_way(folder, &["run", "letter", "--as", "b", "--grace", "0"]);
    send(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(listed(folder, "b")["status"], "suspended");
    fs::write(folder.join("answer"), "").unwrap();
    let resumed = opcell(folder).args(["runs", "resume", "b"]).output().unwrap();
    assert_eq!((resumed.status.code(), calls(folder)), (Some(3), 1), "repeated unasked: {}", said(&resumed));
    let skipped = opcell(folder).args(["runs", "resume", "b", "--skip"]).output().unwrap();
    assert_eq!((skipped.status.code(), calls(folder)), (Some(0), 2), "{}", said(&skipped));
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = project();
    let folder = folder.path();
    let mut child = under_way(folder, &["run", "letter", "--as", "c", "--grace", "600"]);
    send(&child, "-TERM");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "the grace was not kept");
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_run_without_a_journal_is_cancelled() {
    let folder = project();
    let folder = folder.path();
    let child = under_way(folder, &["run", "letter", "--no-journal"]);
    send(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("cancelled"), "{}", said(&output));
}

#[test]
fn a_watched_list_shows_what_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let hello = r#"{:name "hello" :description "Waits" :steps [{:name "w" :type :wait :signal "go"}]}"#;
    fs::write(folder.path().join("hello.edn"), hello).unwrap();
    let start = |run: &str| {
        let run = opcell(folder.path()).args(["run", "hello.edn", "--journal=runs.db", "--as", run]).output().unwrap();
        assert_eq!(run.status.code(), Some(3), "{}", String::from_utf8_lossy(&run.stderr));
    };
    start("first");
    let mut watching = opcell(folder.path())
        .args(["runs", "list", "--journal", "runs.db", "--watch=1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut shown = |run: &str| lines.by_ref().map(Result::unwrap).find(|line| line.starts_with(run)).is_some();
    assert!(shown("first"));
    start("second");
    assert!(shown("second"));
    watching.kill().unwrap();
    watching.wait().unwrap();
}
