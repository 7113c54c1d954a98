//! A server that asks for input in the middle of a call (`input_required`): the question of our run outlives every
//! process, and is answered over the API, on the page and by a client of our own MCP server.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde_json::{Value, json};
use server::{Server, opcell};
use std::{fs, path::Path};

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared/asks-input");
    for file in fs::read_dir(shared).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    fs::write(folder.path().join("script.yaml"), "version: 1\nturns: []\n").unwrap();
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    folder
}

fn start(server: &Server) -> String {
    let (status, started) = server.post("/v1/default/runs", &[], &json!({"workflow": "add"}));
    assert!(status < 300, "{started}");
    started["run"].as_str().unwrap().to_owned()
}

/// The only question of a suspended run.
fn asked(server: &Server, run: &str) -> Value {
    server.wait_for(run, "suspended")["questions"][0]["input"].clone()
}

fn answer(server: &Server, run: &str, question: &Value, rest: Value) -> (u16, Value) {
    let mut body = rest;
    body["question"] = question["id"].clone();
    server.post(&format!("/v1/default/runs/{run}/answer"), &[], &body)
}

/// The question that follows another one.
fn next(server: &Server, run: &str, before: &Value) -> Value {
    loop {
        let now = asked(server, run);
        if now["id"] != before["id"] && !now.is_null() {
            return now;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_question_and_its_answer_survive_a_killed_server_and_the_call_is_one() {
    let folder = project();
    // Dropping a server kills it.
    let server = Server::start(folder.path());
    let run = start(&server);
    let first = asked(&server, &run);
    assert_eq!(
        (&first["server"], &first["tool"], &first["message"]),
        (&json!("notes"), &json!("add"), &json!("Where does it belong?"))
    );
    drop(server);
    let server = Server::start(folder.path());
    assert_eq!(asked(&server, &run), first);
    let (status, refused) = answer(&server, &run, &first, json!({"values": {"project": "shop"}}));
    assert_eq!((status, &refused["code"]), (409, &json!("answer-not-taken")), "{refused}");
    drop(server);
    // While no process drives the run, its answer waits in the journal.
    let id = first["id"].as_str().unwrap();
    let said = opcell(folder.path()).args(["runs", "answer", &run, id, "--value", "project=docs"]).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let server = Server::start(folder.path());
    let second = next(&server, &run, &first);
    assert_eq!((&second["message"], &second["round"]), (&json!("Add it?"), &json!(2)));
    drop(server);
    let server = Server::start(folder.path());
    let (status, sent) = answer(&server, &run, &second, json!({"values": {"sure": true}}));
    assert_eq!(status, 200, "{sent}");
    let ended = server.wait_for(&run, "completed");
    assert_eq!(ended["result"]["added"], json!({"sure": {"action": "accept", "content": {"sure": true}}}), "{ended}");
    assert_eq!(fs::read_to_string(folder.path().join("calls")).unwrap(), "call\n");
    let (status, late) = answer(&server, &run, &second, json!({"action": "decline"}));
    assert_eq!(status, 409, "{late}");
}

#[test]
fn the_form_is_on_the_page_of_the_run() {
    let folder = project();
    let server = Server::start(folder.path());
    let run = start(&server);
    let first = asked(&server, &run);
    let place = format!("/t/default/runs/{run}");
    let (status, _, page) = server.send("GET", &place, &[], "");
    assert!(status == 200 && page.contains("Where does it belong?") && page.contains("value-project"), "{page}");
    let proof = page.split_once("name=\"proof\" value=\"").unwrap().1.split('"').next().unwrap();
    let id = first["id"].as_str().unwrap();
    let kind = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = format!("proof={proof}&question={id}&value-project=code&value-pages=&action=accept");
    let (status, _, refused) =
        server.send("POST", &format!("{place}/input"), &kind, &body.replace("proof=", "proof=x"));
    assert!((400..500).contains(&status), "{refused}");
    let (status, _, sent) = server.send("POST", &format!("{place}/input"), &kind, &body);
    assert_eq!(status, 303, "{sent}");
    let second = next(&server, &run, &first);
    answer(&server, &run, &second, json!({"action": "cancel"}));
    let ended = server.wait_for(&run, "completed");
    assert_eq!(ended["result"]["added"], json!({"sure": {"action": "cancel"}}), "{ended}");
}

#[test]
fn the_user_of_our_own_client_answers_the_form_of_the_other_server() {
    let folder = project();
    let server = Server::start_with(folder.path(), &["--mcp-workflow", "add"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let call = |more: Value| {
        let mut params = json!({"name": "run_add", "arguments": {}, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "run_add"),
        ];
        let (_, _, body) = server.send("POST", "/v1/default/mcp", &headers, &message.to_string());
        let last = body.lines().filter_map(|line| line.strip_prefix("data:")).rfind(|data| data.contains('{'));
        serde_json::from_str::<Value>(last.unwrap_or(&body).trim()).unwrap_or_else(|_| panic!("{body}"))
    };
    let answered = |asked: &Value, content: Value| {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let response = json!({"action": "accept", "content": content});
        call(json!({"requestState": asked["requestState"], "inputResponses": {key: response}}))
    };
    let first = call(json!({}))["result"].clone();
    let (_, request) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let params = &request["params"];
    assert_eq!(params["message"], "Step `add`, tool `add` of MCP server `notes`: Where does it belong?");
    assert_eq!(params["requestedSchema"]["properties"]["project"]["title"], "Project");
    let wrong = answered(&first, json!({"project": "shop"}));
    assert!(wrong["error"]["message"].as_str().unwrap().contains("do not match the form"), "{wrong}");
    let second = answered(&first, json!({"project": "docs", "pages": 3}))["result"].clone();
    assert_eq!(second["resultType"], "input_required", "{second}");
    let ended = answered(&second, json!({"sure": false}))["result"].clone();
    assert_eq!(ended["resultType"], "complete", "{ended}");
    assert_eq!(ended["structuredContent"]["result"]["added"]["sure"]["content"], json!({"sure": false}), "{ended}");
}
