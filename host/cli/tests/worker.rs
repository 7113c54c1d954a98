//! `opcell worker` as someone else sees it: a run that never ends leaves room for others, an interrupt lets go of every
//! run, and a run that cannot be taken up is reported once.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Goes round forever once it may; nothing but deciding happens in it.
const ROUND: &str = r#"{:name "round" :description "Goes round" :limits {:total-visits 1000000000}
 :steps [{:name "start" :type :wait :signal "go"}
         {:name "turn" :type :transform :operation :filter :where "true" :inputs {:items {:value []}}
          :judge {:type :expression :expression "'AGAIN'"} :on {"AGAIN" {:goto "turn"}}}]}"#;

const SHORT: &str = r#"{:name "short" :description "Ends" :steps [{:name "start" :type :wait :signal "go"}]}"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("opcell.toml", "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n");
    write("round.edn", ROUND);
    write("short.edn", SHORT);
    folder
}

fn opcell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    command.current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    opcell(folder).args(arguments).output().unwrap()
}

fn listed(folder: &Path, name: &str) -> serde_json::Value {
    let output = run(folder, &["runs", "list", "--json"]);
    let runs: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    runs.into_iter().find(|run| run["run"] == name).unwrap()
}

/// A run that waits, and a letter that lets it go on.
fn ready(folder: &Path, workflow: &str, name: &str) {
    assert_eq!(run(folder, &["run", workflow, "--as", name, "--quiet"]).status.code(), Some(3), "{workflow}");
    assert!(run(folder, &["runs", "signal", name, "go"]).status.success());
}

/// A worker whose lines come as they are printed.
struct Worker {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Worker {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child =
            opcell(folder).arg("worker").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let pass_on = |stream: Box<dyn std::io::Read + Send>, sender: mpsc::Sender<String>| {
            thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
            });
        };
        pass_on(Box::new(out), sender.clone());
        pass_on(Box::new(err), sender);
        Self { child, lines }
    }

    fn says(&self, what: &str) {
        self.hears(what);
    }

    /// Waits for all of these: runs that are driven at once end in either order, on two streams.
    fn says_in_any_order(&self, all: &[&str]) {
        let until = Instant::now() + PATIENCE;
        let (mut missing, mut heard) = (all.to_vec(), Vec::new());
        while !missing.is_empty() {
            let line = self.lines.recv_timeout(until.saturating_duration_since(Instant::now()));
            let Ok(line) = line else { panic!("the worker did not say {missing:?}: {heard:?}") };
            missing.retain(|what| !line.contains(what));
            heard.push(line);
        }
    }

    /// Returns the text after these words, once the worker has said them.
    fn hears(&self, what: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut heard = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if let Some((_, rest)) = line.split_once(what) {
                return rest.to_owned();
            }
            heard.push(line);
        }
        panic!("the worker did not say {what:?}: {heard:?}");
    }

    /// Interrupts it as a terminal does, and waits for its end.
    fn interrupt(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the worker does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_that_never_ends_leaves_its_place_to_others_and_an_interrupt_lets_go_of_it() {
    let folder = project();
    let folder = folder.path();
    ready(folder, "round", "endless");
    let worker = Worker::start(folder, &["--concurrency", "1"]);
    // Only now: the endless one has the only place, or will have it first.
    ready(folder, "short", "quick");
    worker.says("quick  completed");
    assert_eq!(worker.interrupt(), Some(0));
    let endless = listed(folder, "endless");
    assert_eq!(
        (endless["status"].as_str(), endless["driven"].as_bool()),
        (Some("interrupted"), Some(false)),
        "{endless}"
    );
    // Someone else can stop it, although nothing but deciding happens in it.
    let worker = Worker::start(folder, &[]);
    let until = Instant::now() + PATIENCE;
    while listed(folder, "endless")["driven"] != true {
        assert!(Instant::now() < until, "the worker does not take the run up");
    }
    assert!(run(folder, &["runs", "cancel", "endless"]).status.success());
    worker.says("endless  cancelled");
    assert_eq!(worker.interrupt(), Some(0));
}

#[test]
fn a_run_that_cannot_be_taken_up_is_reported_once_and_keeps_nobody_waiting() {
    let folder = project();
    let folder = folder.path();
    ready(folder, "short", "broken");
    ready(folder, "short", "quick");
    // Its definition is not what any version wrote.
    let store = rusqlite::Connection::open(folder.join("runs.db")).unwrap();
    let id: i64 = store.query_row("SELECT id FROM runs WHERE run = 'broken'", [], |row| row.get(0)).unwrap();
    let changed = store.execute(
        "UPDATE records SET payload = replace(payload, 'Ends', 'Lies') WHERE id >> 32 = ?1 AND id & 4294967295 = 1",
        [id],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(store);
    let worker = Worker::start(folder, &[]);
    worker.says_in_any_order(&["broken  cannot go on", "quick  completed"]);
    // Long enough for several looks at the journal, and for the first attempts after the first pause.
    let until = Instant::now() + Duration::from_secs(4);
    while let Ok(line) = worker.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        assert!(!line.contains("cannot go on"), "said twice: {line}");
    }
    assert_eq!(worker.interrupt(), Some(0));
}

/// One request without a library: the answer's head and body.
fn get(address: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_worker_answers_whether_it_works_and_counts_what_it_drove() {
    let folder = project();
    let folder = folder.path();
    ready(folder, "short", "quick");
    assert_eq!(run(folder, &["run", "short", "--as", "waiting", "--quiet"]).status.code(), Some(3));
    let worker = Worker::start(folder, &["--health", "127.0.0.1:0"]);
    let address = worker.hears("health and metrics at http://");
    worker.says("quick  completed");
    assert!(get(&address, "/health").starts_with("HTTP/1.1 200"), "{}", get(&address, "/health"));
    assert!(get(&address, "/ready").starts_with("HTTP/1.1 200"), "{}", get(&address, "/ready"));
    let metrics = get(&address, "/metrics");
    for line in [
        "opcell_runs{tenant=\"default\",status=\"suspended\"} 1",
        "opcell_runs{tenant=\"default\",status=\"completed\"} 1",
        "opcell_runs_ended_total{tenant=\"default\",status=\"completed\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let elsewhere = get(&address, "/v1/default/runs");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "a worker serves no API: {elsewhere}");
    assert_eq!(worker.interrupt(), Some(0));
    assert!(std::net::TcpStream::connect(&address).is_err());
}
