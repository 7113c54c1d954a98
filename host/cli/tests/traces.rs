//! Traces: a run is a part of the trace of whoever started it, what it asks others for is a part of it, and a collector
//! gets all of it when the run has ended.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde_json::{Value, json};
use server::{PATIENCE, Server, opcell};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A request that came.
struct Came {
    path: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// Answers requests with the given statuses in order, then repeats the last one; sends each request to the test.
fn sink(statuses: &'static [u16]) -> (u16, mpsc::Receiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, came) = mpsc::channel();
    thread::spawn(move || {
        let mut answered = 0;
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap() <= 2 {
                    break;
                }
                lines.push(line.trim_end().to_owned());
            }
            let Some(first) = lines.first() else { continue };
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let header =
                |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let headers: BTreeMap<String, String> = lines.iter().filter_map(header).collect();
            let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut body).unwrap();
            let status = statuses.get(answered).or(statuses.last()).unwrap();
            answered += 1;
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send(Came { path, headers, body: String::from_utf8(body).unwrap() }).is_err() {
                return;
            }
        }
    });
    (port, came)
}

fn project(port: u16) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "opcell.toml",
        &format!(
            "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n\n[tools]\n\
             look = {{ host = \"http.fetch\", http = [{{ hosts = [\"http://127.0.0.1:{port}\"], private = true }}] }}\n"
        ),
    );
    write(
        "look.yaml",
        &json!({"steps": [{"id": "look", "type": "tool", "tool": "look",
            "inputs": {"url": {"type": "string", "value": format!("http://127.0.0.1:{port}/looked")}}}]})
        .to_string(),
    );
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    folder
}

fn spans(document: &Value) -> Vec<Value> {
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_a_part_of_the_trace_of_whoever_started_it_and_so_is_what_it_asks_for() {
    let (port, came) = sink(&[200]);
    let folder = project(port);
    let server = Server::start(folder.path());
    let start = |run: &str, headers: &[(&str, &str)]| {
        let (status, started) =
            server.post("/v1/default/runs", headers, &json!({"workflow": "look", "run": run, "wait": true}));
        assert_eq!((status, &started["status"]), (201, &json!("completed")), "{started}");
        let came = came.recv_timeout(PATIENCE).unwrap();
        assert_eq!(came.path, "/looked");
        (came.headers, spans(&server.get(&format!("/v1/default/runs/{run}/export?otlp=true")).1))
    };
    let (headers, spans) = start("traced", &[("traceparent", PARENT)]);
    assert!(spans.iter().all(|span| span["traceId"] == "0af7651916cd43dd8448eb211c80319c"), "{spans:#?}");
    assert_eq!(spans[0]["parentSpanId"], "b7ad6b7169203331");
    let sent: Vec<&str> = headers["traceparent"].split('-').collect();
    assert_eq!((sent[0], sent[1], sent[3]), ("00", "0af7651916cd43dd8448eb211c80319c", "01"));
    let parent = spans.iter().find(|span| span["spanId"] == sent[2]).unwrap_or_else(|| panic!("{sent:?} {spans:#?}"));
    assert!(parent["name"].as_str().unwrap().contains("look"), "{parent}");
    // Whoever has no trace is told of none, and a trace that is not sound is none.
    for (run, headers) in [("alone", &[][..]), ("unsound", &[("traceparent", "00-zz-1-01")])] {
        let (headers, spans) = start(run, headers);
        assert!(!headers.contains_key("traceparent"), "{headers:?}");
        assert!(spans[0]["parentSpanId"].is_null(), "{spans:#?}");
    }
}

#[test]
fn a_collector_gets_the_tree_of_a_run_that_has_ended_though_it_was_away_for_a_moment() {
    let (looked, _came) = sink(&[200]);
    let (port, collected) = sink(&[503, 200]);
    let folder = project(looked);
    let server = Server::start_with(folder.path(), &["--otlp", &format!("http://127.0.0.1:{port}")]);
    let body = json!({"workflow": "look", "run": "r1", "input": {"secret": "hush"}});
    assert_eq!(server.post("/v1/default/runs", &[], &body).0, 201);
    let refused = collected.recv_timeout(PATIENCE).unwrap();
    let taken = collected.recv_timeout(PATIENCE).unwrap();
    assert_eq!((&*taken.path, &refused.body), ("/v1/traces", &taken.body));
    assert!(taken.headers["content-type"].starts_with("application/json"));
    assert!(!taken.body.contains("hush"), "content is left out: {}", taken.body);
    let spans = spans(&serde_json::from_str(&taken.body).unwrap());
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[1]), ("invoke_workflow look", "step look"), "{names:?}");
    assert!(names[2..].iter().any(|name| name.contains("look")), "{names:?}");
    // Each span but the first is below one that is there.
    for span in &spans[1..] {
        assert!(spans.iter().any(|above| above["spanId"] == span["parentSpanId"]), "{span}");
    }
    assert!(spans[0]["parentSpanId"].is_null());
    let metrics = || server.send("GET", "/metrics", &[], "").2;
    let began = std::time::Instant::now();
    while !metrics().contains("opcell_traces_sent_total{tenant=\"default\"} 1") {
        assert!(began.elapsed() < PATIENCE, "{}", metrics());
        thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(metrics().contains("opcell_journal_write_seconds_count{tenant=\"default\"} "), "{}", metrics());
    assert_eq!(server.terminate(), Some(0));
    let wrong = opcell(folder.path()).args(["serve", "--listen", "127.0.0.1:0", "--otlp", "nowhere"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("invalid-collector"), "{wrong:?}");
}

/// A project whose workflow asks a model, which calls a tool; a script answers.
fn conversing() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "opcell.toml",
        "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n\n[sessions]\nscript = \"script.json\"\n\
         context-files = \"none\"\n\n[sessions.files.notes]\npath = \"notes\"\n",
    );
    let read = json!([{"name": "read", "arguments": {"path": "notes:a.txt"}}]);
    write(
        "script.json",
        &json!({"version": 1, "turns": [{"tool-calls": read}, {"text": "It says hello."}]}).to_string(),
    );
    write(
        "ask.edn",
        "{:name \"ask\" :description \"Asks\" :steps [{:name \"talk\" :type :session :tools [\"read\"] \
         :contributions [{:type :template :text \"What is in a.txt?\"}]}]}",
    );
    fs::create_dir(folder.path().join("notes")).unwrap();
    write("notes/a.txt", "hello from the file");
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    folder
}

#[test]
fn a_collector_gets_content_only_if_the_operator_asks_and_metrics_have_the_names_of_the_conventions() {
    let said = ["What is in a.txt?", "hello from the file", "It says hello."];
    for with_content in [false, true] {
        let (port, collected) = sink(&[200]);
        let folder = conversing();
        let address = format!("http://127.0.0.1:{port}");
        let mut arguments = vec!["--otlp", &address];
        arguments.extend(with_content.then_some("--otlp-content"));
        let server = Server::start_with(folder.path(), &arguments);
        let (status, ended) =
            server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r", "input": {}, "wait": true}));
        assert_eq!((status, &ended["status"]), (201, &json!("completed")), "{ended}");
        let taken = collected.recv_timeout(PATIENCE).unwrap();
        for text in said {
            assert_eq!(taken.body.contains(text), with_content, "{text}: {}", taken.body);
        }
        let names: Vec<String> = spans(&serde_json::from_str(&taken.body).unwrap())
            .iter()
            .map(|span| span["name"].as_str().unwrap().to_owned())
            .collect();
        for name in ["invoke_workflow ask", "invoke_agent talk", "execute_tool read"] {
            assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
        }
        // A reader of the API gets no content either way.
        let exported = server.get("/v1/default/runs/r/export?otlp=true").1.to_string();
        assert!(said.iter().all(|text| !exported.contains(text)), "{exported}");
        let metrics = server.send("GET", "/metrics", &[], "").2;
        for line in [
            "gen_ai_client_operation_duration_seconds_count{tenant=\"default\",gen_ai_operation_name=\"chat\",",
            "gen_ai_client_token_usage_count{tenant=\"default\",gen_ai_operation_name=\"chat\",",
            "gen_ai_execute_tool_duration_seconds_count{tenant=\"default\",gen_ai_operation_name=\"execute_tool\",\
             gen_ai_tool_name=\"read\"} 1",
            "gen_ai_workflow_duration_seconds_count{tenant=\"default\",gen_ai_workflow_name=\"ask\"} 1",
        ] {
            assert!(metrics.lines().any(|own| own.starts_with(line)), "{line}\n{metrics}");
        }
        assert_eq!(server.terminate(), Some(0));
    }
}
