//! Every door with the worst that others may bring through it: `tests/attack` describes the attacks, and its README
//! the tables. The process that is attacked takes a bounded memory and time.
//!
//! Memory is what the kernel counted at most (`VmHWM`), the threads and child processes of the attacked program's own
//! making not left out of what it allocates.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde::Deserialize;
use server::{Server, opcell};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

const ATTACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/attack");

/// Memory of a process that is not optimised, with the attack in it, in MiB.
const MEMORY: u64 = 420;

/// A multiple of what anything here takes: what grows with the square of an attack takes many times that.
const PATIENCE: Duration = Duration::from_secs(90);

const GREET: &str = r#"{:name "greet" :description "Greets"
 :steps [{:name "greet" :type :exit :status :success :output {:value "hello"}}]}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    attack: Vec<Attack>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    name: String,
    #[serde(default)]
    run: Vec<String>,
    file: Option<String>,
    post: Option<String>,
    from: Option<String>,
    text: Vec<Piece>,
    says: String,
    memory: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Repeated { of: String, times: usize },
}

impl Attack {
    fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.text {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Repeated { of, times } if of.contains('#') => {
                    (0..*times).for_each(|at| text.push_str(&of.replace('#', &at.to_string())));
                }
                Piece::Repeated { of, times } => text.push_str(&of.repeat(*times)),
            }
        }
        text
    }

    /// The sentence about an attack that was not contained.
    fn verdict(&self, peak: u64, said: &str) -> Option<String> {
        let most = self.memory.unwrap_or(MEMORY);
        if peak > most {
            return Some(format!("{}: the process took {peak} MiB, and may take {most}", self.name));
        }
        let shown: String = said.chars().take(600).collect();
        (!said.contains(&self.says)).then(|| format!("{}: expected `{}` in: {shown}", self.name, self.says))
    }
}

fn attacks(file: &str) -> Vec<Attack> {
    let only = std::env::var("ATTACK").unwrap_or_default();
    let text = fs::read_to_string(Path::new(ATTACKS).join(file)).unwrap();
    let mut attacks = toml_edit::de::from_str::<Table>(&text).unwrap().attack;
    attacks.retain(|attack| attack.name.contains(&only));
    attacks
}

/// The most memory that a process ever had, in MiB; none once it has ended.
fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib >> 10)
}

/// Waits for a process, and ends one that takes too much; the memory that it had at most, in MiB.
fn watched(child: &mut Child, most: u64) -> u64 {
    let (began, mut highest) = (Instant::now(), 0);
    loop {
        highest = peak(child.id()).unwrap_or(0).max(highest);
        if child.try_wait().unwrap().is_some() {
            return highest;
        }
        if highest > most || began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            // A time without end is no memory, and fails all the same.
            return if highest > most { highest } else { u64::MAX };
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command, and returns its memory and what it printed.
fn run(folder: &Path, arguments: &[String], input: Stdio, most: u64) -> (u64, String) {
    let output = File::create(folder.join("printed")).unwrap();
    let mut child =
        opcell(folder).args(arguments).stdin(input).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
    let highest = watched(&mut child, most);
    (highest, String::from_utf8_lossy(&fs::read(folder.join("printed")).unwrap()).into_owned())
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} attacks were not contained:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn no_document_that_a_command_reads_takes_more_memory_or_time_than_it_may() {
    let mut failures = Vec::new();
    for attack in attacks("documents.toml") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(attack.file.as_deref().unwrap_or("input"));
        fs::write(&file, attack.text()).unwrap();
        let input = if attack.file.is_some() { Stdio::null() } else { File::open(&file).unwrap().into() };
        let (highest, said) = run(folder.path(), &attack.run, input, attack.memory.unwrap_or(MEMORY));
        failures.extend(attack.verdict(highest, &said));
    }
    report(&failures);
}

#[test]
fn no_body_that_a_server_is_sent_takes_more_memory_or_time_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("opcell.toml"), "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n").unwrap();
    fs::write(folder.path().join("greet.edn"), GREET).unwrap();
    let mut failures = Vec::new();
    let server = Server::start(folder.path());
    for attack in attacks("bodies.toml") {
        let path = attack.post.as_deref().unwrap();
        let began = Instant::now();
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        let (_, _, body) = server.send("POST", path, &headers, &attack.text());
        failures.extend(attack.verdict(peak(server.id()).unwrap(), &body));
        assert!(began.elapsed() < PATIENCE, "{}", attack.name);
        assert_eq!(server.get("/health").0, 200, "{}", attack.name);
    }
    report(&failures);
}

/// Time that a process has had on processors, in ticks of the kernel.
fn worked(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn checks_whose_clients_have_gone_are_not_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("opcell.toml"), "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n").unwrap();
    let server = Server::start(folder.path());
    let keys: String = (0..100_000).map(|at| format!(":k{at} 1 ")).collect();
    let text =
        format!(r#"{{:name "a" :description "d" :steps [{{:name "s" :type :invoke :operation "a/b" {keys}}}]}}"#);
    let body = serde_json::json!({"name": "w.edn", "text": text}).to_string();
    let headers = [("Content-Type", "application/json")];
    let before = worked(server.id());
    assert_eq!(server.send("POST", "/v1/default/check", &headers, &body).0, 200);
    let one = (worked(server.id()) - before).max(1);
    let before = worked(server.id());
    let clients: Vec<_> = (0..60).map(|_| server.open("POST", "/v1/default/check", &headers, &body)).collect();
    drop(clients);
    // It is done when a document that is sent afterwards is.
    assert_eq!(server.send("POST", "/v1/default/check", &headers, &body).0, 200);
    let all = worked(server.id()) - before;
    assert!(all < 30 * one, "{all} ticks for 60 requests that were given up, {one} for one that was not");
}

#[test]
fn no_answer_of_a_peer_takes_more_memory_or_time_than_it_may() {
    let answer = Arc::new(Mutex::new(String::new()));
    let address = peers(&answer);
    let mut failures = Vec::new();
    for attack in attacks("answers.toml") {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let arguments = match attack.from.as_deref().unwrap() {
            "provider" => {
                write(
                    "opcell.toml",
                    &format!(
                        "workflows = [\".\"]\n[models]\ndefault = \"house/small\"\n[models.providers.house]\napi = \
                         \"openai-completions\"\nbase-url = \"http://{address}/v1/\"\nretry = {{ max-attempts = 1 }}\n"
                    ),
                );
                write(
                    "ask.edn",
                    r#"{:name "ask" :description "Asks" :steps [{:name "s" :type :session :tools []
                        :contributions [{:type :template :text "x"}]}]}"#,
                );
                ["run", "ask"]
            }
            "mcp" => {
                let tools = "[tools]\nfind = { mcp = \"m\", tool = \"t\" }\n";
                write("opcell.toml", &format!("[mcp.m]\nurl = \"http://{address}/mcp\"\nprivate = true\n{tools}"));
                write("find.yaml", "inputs: {}\noutputs: {}\nsteps:\n- id: s\n  type: tool\n  tool: find\n");
                ["run", "find.yaml"]
            }
            other => panic!("no peer `{other}`"),
        };
        *answer.lock().unwrap() = attack.text();
        assert!(opcell(folder.path()).arg("trust").stdout(Stdio::null()).status().unwrap().success());
        let arguments = arguments.map(str::to_owned);
        let (highest, said) = run(folder.path(), &arguments, Stdio::null(), attack.memory.unwrap_or(MEMORY));
        failures.extend(attack.verdict(highest, &said));
    }
    report(&failures);
}

/// A provider and an MCP server that answer what they are told to.
fn peers(answer: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = answer.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || serve(stream, &answer));
        }
    });
    address
}

/// Answers the requests of one connection. A peer that hangs up in the middle of an answer ends it.
fn serve(stream: TcpStream, answer: &Mutex<String>) -> Option<()> {
    let mut read = BufReader::new(stream.try_clone().ok()?);
    let mut write = stream;
    loop {
        let (mut length, mut first) = (0, String::new());
        read.read_line(&mut first).ok().filter(|read| *read > 0)?;
        loop {
            let mut line = String::new();
            read.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).ok()?;
        let (status, body) = answered(&first, &body, &answer.lock().unwrap());
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        write.write_all(head.as_bytes()).ok()?;
        write.write_all(body.as_bytes()).ok()?;
    }
}

fn answered(first: &str, body: &[u8], answer: &str) -> (u16, String) {
    if !first.contains(" /mcp") {
        return (200, answer.to_owned());
    }
    let asked: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let result = match (asked["method"].as_str(), first.starts_with("POST")) {
        (Some("initialize"), true) => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}"#
        }
        (Some("tools/list"), true) => r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#,
        (Some("tools/call"), true) => answer,
        (_, true) => return (202, String::new()),
        _ => return (405, String::new()),
    };
    (200, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked["id"]))
}
