//! `opcell serve` and `opcell mcp` as a client sees them: the real binary, over real sockets and pipes.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/guest.rs"]
mod guest;
#[path = "serve/page.rs"]
mod page;
#[path = "support/server.rs"]
mod server;
#[path = "serve/servers.rs"]
mod servers;
#[path = "serve/tenants.rs"]
mod tenants;

use serde_json::{Value, json};
use server::{PATIENCE, Server, opcell};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

const ASK: &str = r#"{:name "ask" :description "Asks"
 :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "end" :type :exit :status :success :output {:value "shipped"}}]}"#;

const GREET: &str = r#"{:name "greet" :description "Greets"
 :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("opcell.toml", "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n");
    write("greet.edn", GREET);
    write("ask.edn", ASK);
    write("broken.edn", "{:name \"broken\" :steps [}");
    folder
}

/// A plugin that keeps something in a store.
fn keeper() -> Vec<u8> {
    guest::component(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared/keeps/test.guest.wat"))
}

#[test]
fn an_empty_folder_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(server.get("/health").1["status"], "ok");
    assert_eq!(server.get("/ready").0, 200);
    let (status, head, metrics) = server.send("GET", "/metrics", &[], "");
    assert!(status == 200 && head.contains("text/plain"), "{head}");
    assert!(metrics.contains("opcell_requests_total{tenant=\"default\"}"), "{metrics}");
    assert!(metrics.contains("opcell_runs_runnable{tenant=\"default\"} 0"), "{metrics}");
    assert!(metrics.contains("opcell_journal_answer_seconds{tenant=\"default\"} "), "{metrics}");
    assert!(server.get("/openapi.json").1["paths"]["/v1/{tenant}/runs"]["post"].is_object());
    assert_eq!(server.get("/v1/default/workflows").1["workflows"], json!([]));
    assert_eq!(server.get("/v1/default/operations").1["operations"], json!([]));
    let (status, problem) = server.get("/v1/other/workflows");
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-tenant")));
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn beyond_this_machine_it_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let refused = opcell(folder.path()).args(["serve", "--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("TLS") && said.contains("--tls-cert") && said.contains("opcell token new"), "{said}");
}

#[test]
fn a_key_starts_one_run_whatever_happens_to_the_server() {
    let folder = project();
    let server = Server::start(folder.path());
    let body = json!({"workflow": "greet", "input": {"name": "Ada"}, "wait": true});
    let key = [("Idempotency-Key", "one")];
    let (status, first) = server.post("/v1/default/runs", &key, &body);
    assert_eq!(status, 201, "{first}");
    assert_eq!((&first["status"], &first["result"]), (&json!("completed"), &json!("Ada")));
    let (status, again) = server.post("/v1/default/runs", &key, &body);
    assert_eq!((status, &again["run"]), (200, &first["run"]));
    drop(server);
    let server = Server::start(folder.path());
    let (status, again) = server.post("/v1/default/runs", &key, &body);
    assert_eq!((status, &again["run"]), (200, &first["run"]));
    let other = json!({"workflow": "greet", "input": {"name": "Bob"}});
    let (status, problem) = server.post("/v1/default/runs", &key, &other);
    assert_eq!((status, &problem["code"]), (422, &json!("key-reused")));
    assert_eq!(server.get("/v1/default/runs").1["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn what_was_started_before_a_kill_goes_on_after_it() {
    let folder = project();
    let server = Server::start(folder.path());
    let (_, started) = server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    assert_eq!(started["run"], "r1", "{started}");
    let asked = server.wait_for("r1", "suspended");
    assert_eq!(asked["questions"][0]["signal"]["question"], "Ship it?", "{asked}");
    // Dropping kills at once, as a power cut would.
    drop(server);
    let server = Server::start(folder.path());
    let (status, sent) = server.post("/v1/default/runs/r1/approve", &[], &json!({"why": "it is good"}));
    assert_eq!((status, &sent["step"]), (200, &json!("ask")), "{sent}");
    let ended = server.wait_for("r1", "completed");
    assert_eq!(ended["result"], "shipped");
    let (status, problem) = server.post("/v1/default/runs/r1/approve", &[], &json!({}));
    assert_eq!((status, &problem["code"]), (409, &json!("nothing-to-approve")));
    let (_, page) = server.get("/v1/default/runs/r1/events");
    let events = page["events"].as_array().unwrap();
    let signal = events.iter().find(|event| event["kind"] == "signal-received").unwrap();
    assert_eq!(signal["event"]["signal-received"]["by"], "local");
}

#[test]
fn a_reader_gets_every_event_once_and_resumes_after_the_last() {
    let folder = project();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    let accept = ("Accept", "text/event-stream");
    let mut live = server.open("GET", "/v1/default/runs/r1/events", &[accept], "");
    let reading = thread::spawn(move || {
        let mut text = String::new();
        live.read_to_string(&mut text).unwrap();
        let id = |line: &str| line.strip_prefix("id: ").and_then(|id| id.parse::<u64>().ok());
        text.lines().filter_map(id).collect::<Vec<u64>>()
    });
    server.wait_for("r1", "suspended");
    server.post("/v1/default/runs/r1/approve", &[], &json!({"approved": true}));
    let ended = server.wait_for("r1", "completed");
    let ids = reading.join().unwrap();
    let expected: Vec<u64> = (1..=ended["events"].as_u64().unwrap()).collect();
    assert_eq!(ids, expected);
    let last = ("Last-Event-ID", "3");
    let (status, _, rest) = server.send("GET", "/v1/default/runs/r1/events", &[accept, last], "");
    assert_eq!(status, 200);
    assert!(rest.starts_with("id: 4\n") && rest.contains("event: run-finished"), "{rest}");
    let end = expected.len().to_string();
    let (status, _, nothing) = server.send("GET", "/v1/default/runs/r1/events", &[accept, ("Last-Event-ID", &end)], "");
    // With 200, a browser would ask again every three seconds without end.
    assert_eq!((status, nothing.as_str()), (204, ""));
}

#[test]
fn a_run_is_exported_as_the_command_exports_it() {
    let folder = project();
    // More events than the server reads at a time.
    let many = "inputs: { items: { type: array } }\nsteps:\n  - { id: each, type: transform, operation: filter, where: $item.ok, \
                each: $inputs.items, inputs: { items: { type: array, value: [] } }, outputs: { items: { type: array } } }\n";
    fs::write(folder.path().join("many.yaml"), many).unwrap();
    let server = Server::start(folder.path());
    let items: Vec<u32> = (0..200).collect();
    server.post("/v1/default/runs", &[], &json!({"workflow": "many", "run": "r1", "input": {"items": items}}));
    let events = server.wait_for("r1", "completed")["events"].as_u64().unwrap();
    assert!(events > 300, "{events}");
    let (status, head, lines) = server.send("GET", "/v1/default/runs/r1/export", &[], "");
    assert!(status == 200 && head.to_ascii_lowercase().contains("content-type: application/x-ndjson"), "{head}");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let expected =
        json!({"format": "opcell-run/v1", "run": "r1", "workflow": "many", "status": "completed", "events": events});
    assert_eq!((first, lines.lines().count() as u64), (expected, events + 1));
    let command = |arguments: &[&str]| {
        let output = opcell(folder.path()).args(["runs", "export", "r1"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(lines, command(&[]));
    // The page has the same as a file.
    let (_, _, page) = server.send("GET", "/t/default/runs/r1", &[], "");
    assert!(page.contains(r#"href="/t/default/runs/r1/export" download="r1.jsonl""#), "{page}");
    assert_eq!(server.send("GET", "/t/default/runs/r1/export", &[], "").2, lines);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = server.get(&format!("/v1/default/runs/r1/export?otlp=true&traceparent={parent}")).1;
    let printed: Value = serde_json::from_str(&command(&["--otlp", "--traceparent", parent])).unwrap();
    assert_eq!(trace, printed);
    assert_eq!(trace["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
    let (status, problem) = server.get(&format!("/v1/default/runs/r1/export?traceparent={parent}"));
    assert_eq!(
        (status, &problem["code"], &problem["remedy"]),
        (400, &json!("invalid-query"), &json!("add `otlp=true`"))
    );
    let (status, problem) = server.get("/v1/default/runs/none/export");
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-run")), "{problem}");
}

#[test]
fn mistakes_are_problems_with_a_code_a_place_and_a_remedy() {
    let folder = project();
    let server = Server::start(folder.path());
    let (status, problem) = server.post("/v1/default/runs", &[], &json!({"workflow": "gret"}));
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-workflow")));
    assert_eq!(problem["remedy"], "did you mean `greet`?");
    let (status, problem) = server.post("/v1/default/runs", &[], &json!({"workflow": "broken"}));
    assert_eq!(status, 422, "{problem}");
    assert!(
        problem["findings"][0]["line"].is_number() || problem["findings"][0].to_string().contains("broken.edn"),
        "{problem}"
    );
    let (status, problem) = server.post("/v1/default/runs", &[], &json!({"workflow": "../greet.edn"}));
    assert_eq!(status, 404, "no file is opened by its path: {problem}");
    let (status, _) = server.post("/v1/default/runs", &[], &json!({"workflow": "greet", "unknown": 1}));
    assert_eq!(status, 400);
    let (status, head, _) = server.send("POST", "/v1/default/runs", &[("Content-Type", "text/plain")], "{}");
    assert!(status == 415 && head.contains("application/problem+json"), "{head}");
    let (status, problem) = server.post("/v1/default/check", &[], &json!({"name": "x.edn", "text": "{:name"}));
    assert_eq!((status, &problem["ok"]), (200, &json!(false)), "{problem}");
    assert_eq!(server.get("/v1/default/operations/no/such").0, 404);
    assert_eq!(server.get("/v1/default/runs/none").1["code"], "unknown-run");
}

#[test]
fn a_page_of_another_site_reaches_nothing() {
    let folder = project();
    let server = Server::start(folder.path());
    let (status, _, body) = server.send("GET", "/v1/default/runs", &[("Host", "evil.example")], "");
    assert!(status == 403 && body.contains("foreign-host"), "{body}");
    let (status, _, body) = server.send("GET", "/v1/default/runs", &[("Origin", "https://evil.example")], "");
    assert!(status == 403 && body.contains("foreign-origin"), "{body}");
    let (_, head, _) = server.send("GET", "/health", &[], "");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("content-security-policy: default-src 'none'") && !head.contains("access-control"), "{head}");
}

#[test]
fn a_token_reaches_its_tenant_with_its_scopes_until_it_is_revoked() {
    let folder = project();
    tenants::tenant(folder.path(), "other", "");
    fs::write(
        folder.path().join("later.edn"),
        r#"{:name "later" :description "Asks after something else"
 :steps [{:name "go" :type :wait :signal "go"} {:name "ship" :type :wait :signal "ship" :approval true}]}"#,
    )
    .unwrap();
    let token = |arguments: &[&str]| token(folder.path(), arguments);
    let reader = format!("Bearer {}", token(&["new", "reader"]));
    let foreign = format!("Bearer {}", token(&["new", "foreign", "--tenant", "other", "--scope", "admin"]));
    let runner = format!("Bearer {}", token(&["new", "runner", "--scope", "run", "--scope", "read"]));
    let server = Server::start(folder.path());
    let list = |token: &str| server.send("GET", "/v1/default/runs", &[("Authorization", token)], "");
    assert_eq!(server.get("/v1/default/runs").0, 401);
    assert_eq!(list(&format!("{runner}x")).0, 401);
    assert_eq!(list(&reader).0, 200);
    let (status, _, of_foreign) = list(&foreign);
    let (_, _, of_nothing) = server.send("GET", "/v1/nothing/runs", &[("Authorization", &foreign)], "");
    assert_eq!((status, of_foreign), (404, of_nothing), "a foreign tenant looks like none");
    let start = json!({"workflow": "ask", "run": "r1"});
    assert_eq!(server.post("/v1/default/runs", &[("Authorization", &reader)], &start).0, 403);
    assert_eq!(server.post("/v1/default/runs", &[("Authorization", &runner)], &start).0, 201);
    let yes = json!({"name": "ship", "data": {"approved": true}});
    let (status, problem) = server.post("/v1/default/runs/r1/signal", &[("Authorization", &runner)], &yes);
    assert_eq!((status, &problem["code"]), (403, &json!("scope-missing")), "a signal is not a way round an approval");
    let later = json!({"workflow": "later", "run": "r2"});
    assert_eq!(server.post("/v1/default/runs", &[("Authorization", &runner)], &later).0, 201);
    let (status, problem) = server.post("/v1/default/runs/r2/signal", &[("Authorization", &runner)], &yes);
    assert_eq!((status, &problem["code"]), (403, &json!("scope-missing")), "nor before the run asks: {problem}");
    assert_eq!(server.get("/metrics").0, 401);
    let (_, _, metrics) = server.send("GET", "/metrics", &[("Authorization", &foreign)], "");
    assert!(!metrics.contains("tenant=\"default\""), "{metrics}");
    let listed: Value = serde_json::from_str(&token(&["list", "--json"])).unwrap();
    let id = listed.as_array().unwrap().iter().find(|token| token["name"] == "reader").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    token(&["revoke", &id]);
    let began = Instant::now();
    while list(&reader).0 != 401 {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(50));
    }
}

/// The name that the run's input gives is known only once the run gets there: an earlier signal may be meant for
/// something that is no approval.
#[test]
fn a_token_that_may_not_approve_does_not_approve_in_a_workflow_that_is_chosen_at_run_time() {
    let folder = project();
    fs::write(
        folder.path().join("chooses.edn"),
        r#"{:name "chooses" :description "Waits, then runs what its input names"
 :steps [{:name "plain" :type :wait :signal "ship"}
         {:name "chosen" :type :delegate :target {:from :workflow-input :path [:w]} :prompt-string "go"}]}"#,
    )
    .unwrap();
    let token = |arguments: &[&str]| format!("Bearer {}", token(folder.path(), arguments));
    let runner = token(&["new", "runner", "--scope", "run", "--scope", "read"]);
    let approver = token(&["new", "approver", "--scope", "run", "--scope", "read", "--scope", "approve"]);
    let server = Server::start(folder.path());
    let post = |token: &str, path: &str, body: &Value| {
        server.post(&format!("/v1/default/runs{path}"), &[("Authorization", token)], body)
    };
    let run = || {
        let (_, _, run) = server.send("GET", "/v1/default/runs/r1", &[("Authorization", &runner)], "");
        serde_json::from_str::<Value>(&run).unwrap()
    };
    let wait_for = |is_wanted: &dyn Fn(&Value) -> bool| {
        let began = Instant::now();
        while !is_wanted(&run()) {
            assert!(began.elapsed() < PATIENCE, "{}", run());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let asks = |run: &Value| run["questions"][0]["signal"]["approval"] == true;
    let start = json!({"workflow": "chooses", "run": "r1", "input": {"w": {"type": "workflow-ref", "name": "ask"}}});
    assert_eq!(post(&runner, "", &start).0, 201);
    wait_for(&|run| run["status"] == "suspended");
    // One for the plain step, and two that wait for whatever comes.
    let yes = json!({"name": "ship", "data": {"approved": true}});
    for _ in 0..3 {
        let (status, answer) = post(&runner, "/r1/signal", &yes);
        assert!(status < 300 || answer["code"] == "scope-missing", "{status} {answer}");
    }
    wait_for(&asks);
    let (status, problem) = post(&runner, "/r1/signal", &yes);
    assert_eq!((status, &problem["code"]), (403, &json!("scope-missing")), "now it is known to be one: {problem}");
    assert_eq!(post(&runner, "/r1/approve", &json!({})).0, 403);
    assert!(asks(&run()), "{}", run());
    assert_eq!(post(&approver, "/r1/approve", &json!({})).0, 200);
    wait_for(&|run| run["status"] == "completed");
}

/// The steps after an approval happen again in a fork that shares it.
#[test]
fn a_fork_that_shares_an_approval_takes_the_right_to_approve() {
    let folder = project();
    let token = |arguments: &[&str]| format!("Bearer {}", token(folder.path(), arguments));
    let runner = token(&["new", "runner", "--scope", "run", "--scope", "read"]);
    let approver = token(&["new", "approver", "--scope", "run", "--scope", "read", "--scope", "approve"]);
    let server = Server::start(folder.path());
    let post = |token: &str, path: &str, body: &Value| {
        server.post(&format!("/v1/default/runs{path}"), &[("Authorization", token)], body)
    };
    let wait_for = |wanted: &str| {
        let began = Instant::now();
        loop {
            let (_, _, run) = server.send("GET", "/v1/default/runs/r1", &[("Authorization", &runner)], "");
            let run: Value = serde_json::from_str(&run).unwrap();
            if run["status"] == wanted {
                return run["events"].as_u64().unwrap();
            }
            assert!(began.elapsed() < PATIENCE, "{run}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(post(&runner, "", &json!({"workflow": "ask", "run": "r1"})).0, 201);
    let asked = wait_for("suspended");
    assert_eq!(post(&approver, "/r1/approve", &json!({})).0, 200);
    let ended = wait_for("completed");
    let (status, problem) = post(&runner, "/r1/fork", &json!({"at": ended - 1}));
    assert_eq!((status, &problem["code"]), (403, &json!("scope-missing")), "{problem}");
    assert_eq!(post(&runner, "/r1/fork", &json!({"at": asked})).0, 201, "there it is asked for again");
    assert_eq!(post(&approver, "/r1/fork", &json!({"at": ended - 1})).0, 201);
}

#[test]
fn a_project_that_had_a_token_is_not_open_without_one_unless_its_operator_says_so() {
    let folder = project();
    let status = |server: &Server, headers: &[(&str, &str)]| server.send("GET", "/v1/default/runs", headers, "").0;
    let server = Server::start(folder.path());
    assert_eq!(status(&server, &[]), 200, "a program of the same user");
    let start = format!("Bearer {}", server.token.clone().unwrap());
    assert_eq!(status(&server, &[("Authorization", &start)]), 200);
    assert_eq!(status(&server, &[("Authorization", "Bearer opcell_start_x")]), 401, "a token that is wrong");
    // A first token counts at once.
    let made = token(folder.path(), &["new", "ci"]);
    let began = Instant::now();
    while status(&server, &[]) != 401 {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status(&server, &[("Authorization", &start)]), 401);
    assert_eq!(status(&server, &[("Authorization", &format!("Bearer {made}"))]), 200);
    drop(server);
    // Its last one is revoked, and then its list is lost.
    let listed: Value = serde_json::from_str(&token(folder.path(), &["list", "--json"])).unwrap();
    token(folder.path(), &["revoke", listed[0]["id"].as_str().unwrap()]);
    let server = Server::start(folder.path());
    assert_eq!((status(&server, &[]), server.token.as_deref()), (401, None));
    drop(server);
    fs::remove_dir_all(folder.path().join(".local/state/opcell/tokens")).unwrap();
    let server = Server::start(folder.path());
    assert_eq!(status(&server, &[]), 401);
    drop(server);
    let server = Server::start_with(folder.path(), &["--open"]);
    assert_eq!(status(&server, &[]), 200);
}

/// Returns the answer to another user of this machine; `None` where that cannot be tried.
fn as_another_user(server: &Server, head: &str) -> Option<String> {
    use std::os::unix::process::CommandExt as _;
    let (host, port) = server.address.split_once(':').unwrap();
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; printf '{head}' >&3; head -n 1 <&3");
    let mut shell = std::process::Command::new("bash");
    let made = shell.args(["-c", &script]).current_dir("/").uid(65_534).gid(65_534).output().ok()?;
    Some(String::from_utf8_lossy(&made.stdout).into_owned())
}

#[test]
fn another_user_of_the_machine_needs_the_token() {
    let folder = project();
    let server = Server::start(folder.path());
    let get = |more: &str| format!("GET /v1/default/runs HTTP/1.1\\r\\nHost: localhost\\r\\n{more}\\r\\n");
    let Some(refused) = as_another_user(&server, &get("")) else {
        eprintln!("SKIPPED: needs bash, and root to become another user");
        return;
    };
    assert!(refused.contains("401"), "{refused}");
    let token = format!("Authorization: Bearer {}\\r\\n", server.token.clone().unwrap());
    let admitted = as_another_user(&server, &get(&token)).unwrap();
    assert!(admitted.contains("200"), "{admitted}");
    drop(server);
    let server = Server::start_with(folder.path(), &["--open"]);
    assert!(as_another_user(&server, &get("")).unwrap().contains("200"));
}

fn token(folder: &Path, arguments: &[&str]) -> String {
    let made = opcell(folder).arg("token").args(arguments).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[test]
fn an_mcp_client_finds_no_tools_in_an_empty_folder_and_workflows_where_they_are_chosen() {
    let ask = |folder: &Path, arguments: &[&str], requests: &[Value]| -> Vec<Value> {
        let log = fs::File::create(folder.join("mcp.log")).unwrap();
        let mut command = opcell(folder);
        command.arg("mcp").args(arguments).args(["--log-level", "info", "--log-format", "json"]).stderr(log);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let mut answers = Vec::new();
        for request in std::iter::once(&initialize).chain(requests) {
            writeln!(input, "{request}").unwrap();
            if request["method"] == "initialize" {
                writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
            }
            loop {
                let mut line = String::new();
                assert!(output.read_line(&mut line).unwrap() > 0, "the server ended");
                let answer: Value = serde_json::from_str(&line).unwrap();
                if answer["id"] == request["id"] {
                    answers.push(answer["result"].clone());
                    break;
                }
            }
        }
        drop(input);
        assert!(child.wait().unwrap().success());
        answers
    };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let empty = tempfile::tempdir().unwrap();
    let answers = ask(empty.path(), &[], std::slice::from_ref(&list));
    assert_eq!(answers[0]["serverInfo"]["name"], "opcell");
    assert_eq!(answers[1]["tools"], json!([]));
    let folder = project();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "run_greet", "arguments": {"name": "Ada"}}});
    let answers = ask(folder.path(), &["--workflow", "greet"], &[list, call]);
    let names: Vec<&Value> = answers[1]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["opcell_run", "run_greet"]);
    assert_eq!(answers[2]["content"][0]["text"], "Ada", "{}", answers[2]);
    assert_eq!(answers[2]["structuredContent"]["status"], "completed");
    let run = answers[2]["_meta"]["opcell/run"].as_str().unwrap();
    // Who called which tool, and the run that it made, is in the audit log.
    let log = fs::read_to_string(folder.path().join("mcp.log")).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let called: Vec<Value> = lines.filter(|line| line["target"] == "opcell::audit").collect();
    assert_eq!(called.len(), 1, "{log}");
    let said = ["caller", "address", "tool", "outcome", "run"].map(|key| called[0][key].as_str().unwrap());
    assert_eq!(said, ["mcp", "stdio", "run_greet", "ok", run], "{log}");
}

#[test]
fn what_was_consented_to_is_what_is_started_after_a_restart_of_the_child_and_of_the_server() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared");
    let program = fs::read_to_string(shared.join("mcp/server.sh")).unwrap();
    // It leaves its process ID, so that it can be ended as by an accident.
    let honest = format!("echo $$ > ../pid\n{program}");
    fs::create_dir(at("srv")).unwrap();
    fs::write(at("srv/server.sh"), &honest).unwrap();
    fs::copy(shared.join("find-notes/w.yaml"), at("w.yaml")).unwrap();
    let project = "workflows = [\".\"]\n[journal]\npath = \"runs.db\"\n[mcp.notes]\ncommand = [\"sh\", \"server.sh\"]\n\
                   directory = \"srv\"\n[tools]\nfind_notes = { mcp = \"notes\", tool = \"search\" }\n";
    fs::write(at("opcell.toml"), project).unwrap();
    let allowed = || {
        let status = opcell(folder.path()).env("HOME", home.path()).arg("trust").stdout(Stdio::null()).status();
        assert!(status.unwrap().success());
    };
    let start = || Server::start_as(folder.path(), home.path());
    let run = |server: &Server, run: &str, status: &str| {
        server.post("/v1/default/runs", &[], &json!({"workflow": "w", "input": {}, "run": run}));
        server.wait_for(run, status)
    };
    allowed();
    let server = start();
    run(&server, "honest", "completed");
    let pid = fs::read_to_string(at("pid")).unwrap();
    fs::write(at("srv/server.sh"), format!("touch ../pwned\n{honest}")).unwrap();
    assert!(std::process::Command::new("kill").arg(pid.trim()).status().unwrap().success());
    let refused = run(&server, "changed", "failed");
    assert!(refused["message"].as_str().unwrap().contains("has changed since its start was allowed"), "{refused}");
    assert_eq!(server.terminate(), Some(0));
    let again = opcell(folder.path()).env("HOME", home.path()).args(["serve", "--listen", "127.0.0.1:0"]).output();
    let again = again.unwrap();
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(2) && said.contains("the program has changed"), "{said}");
    assert!(!at("pwned").exists(), "a program that was not consented to was started");
    // What is consented to now is started.
    allowed();
    let server = start();
    run(&server, "allowed", "completed");
    assert!(at("pwned").exists());
}

#[test]
fn whatever_changes_something_is_in_the_audit_log_with_its_answer() {
    let folder = project();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let server = Server::start_logged(folder.path(), &["--log-format", "json", "--log-level", "info"], log);
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    server.wait_for("r1", "suspended");
    let (_, _, page) = server.send("GET", "/t/default/runs/r1", &[], "");
    let form = format!("proof={}&question={}&approved=true&why=", page::proof(&page), page::question(&page));
    let kind = [("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(server.send("POST", "/t/default/runs/r1/answer", &kind, &form).0, 303);
    assert_eq!(server.post("/v1/default/runs/none/cancel", &[], &json!({})).0, 404);
    server.wait_for("r1", "completed");
    server.terminate();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let audited: Vec<(&str, u64)> = lines
        .iter()
        .filter(|line| line["target"] == "opcell::audit" && line["address"] != "command")
        .map(|line| {
            assert_eq!((&line["caller"], &line["address"]), (&json!("local"), &json!("127.0.0.1")), "{line}");
            (line["path"].as_str().unwrap(), line["status"].as_u64().unwrap())
        })
        .collect();
    let expected =
        [("/v1/default/runs", 201), ("/t/default/runs/r1/answer", 303), ("/v1/default/runs/none/cancel", 404)];
    assert_eq!(audited, expected, "{log}");
    // So are commands that may change something, without their values; not those that only look.
    let said = |arguments: &[&str]| {
        let logged = ["--log-format", "json", "--log-level", "info"];
        let output = opcell(folder.path()).args(arguments).args(logged).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let audited: Vec<Value> = lines.filter(|line| line["target"] == "opcell::audit").collect();
        assert!(!text.contains("a secret"), "{text}");
        audited
            .iter()
            .map(|line| format!("{} {} {}", line["command"], line["subject"], line["code"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&["runs", "cancel", "none", "--reason", "a secret"]), [r#""runs cancel" "none" 2"#]);
    assert_eq!(said(&["runs", "list"]), [""; 0]);
}
