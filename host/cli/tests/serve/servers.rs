//! The MCP servers of a project, on the page and in the API.

use super::server::{Server, opcell};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Lists what a file holds, and tells of a change with each call.
const SERVER: &str = r#"say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"method":"tools/list"'*) say "$(cat tools.json)" ;;
    *'"method":"tools/call"'*) echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; say '{"content":[{"type":"text","text":"found"}]}' ;;
  esac
done
"#;

fn list(folder: &Path, tools: &[(&str, &str)]) {
    let tool =
        |(name, about): &(&str, &str)| json!({"name": name, "description": about, "inputSchema": {"type": "object"}});
    let tools = json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()});
    fs::write(folder.join("tools.json"), tools.to_string()).unwrap();
}

#[test]
fn the_servers_are_shown_with_their_calls_and_the_changes_of_their_tools() {
    let folder = tempfile::tempdir().unwrap();
    let project = "workflows = [\".\"]\njournal = \"runs.db\"\n\n[mcp]\nnotes = { command = [\"sh\", \"server.sh\"] }\n\
                   gone = { command = [\"sh\", \"absent.sh\"] }\n\n[tools]\nfind = { mcp = \"notes\", tool = \"find\" }\n\
                   lost = { mcp = \"gone\", tool = \"lost\" }\n";
    fs::write(folder.path().join("opcell.toml"), project).unwrap();
    fs::write(folder.path().join("server.sh"), SERVER).unwrap();
    for name in ["find", "lost"] {
        let workflow = format!(
            r#"{{:name "{name}" :description "Finds" :steps [{{:name "find" :type :invoke :operation "{name}" :args {{}}}}]}}"#
        );
        fs::write(folder.path().join(format!("{name}.edn")), workflow).unwrap();
    }
    list(folder.path(), &[("find", "Finds notes.")]);
    assert!(opcell(folder.path()).arg("trust").status().unwrap().success());
    let server = Server::start(folder.path());
    let servers = || -> Vec<Value> {
        let (status, found) = server.get("/v1/default/servers");
        assert_eq!(status, 200, "{found}");
        found["servers"].as_array().unwrap().clone()
    };
    let run = |workflow: &str, run: &str, status: &str| {
        server.post("/v1/default/runs", &[], &json!({"workflow": workflow, "run": run}));
        server.wait_for(run, status)
    };
    let [notes, gone] = &servers()[..] else { panic!("two servers") };
    assert_eq!((&notes["name"], &notes["state"], &notes["calls"]), (&json!("notes"), &json!("idle"), &json!(0)));
    assert!(notes.get("tools").is_none() && gone["state"] == "idle", "nothing is started for looking: {notes}");

    run("find", "r1", "completed");
    run("lost", "r2", "failed");
    let [notes, gone] = &servers()[..] else { panic!("two servers") };
    assert_eq!((&notes["state"], &notes["tools"], &notes["calls"]), (&json!("running"), &json!(1), &json!(1)));
    assert_eq!((&notes["failures"], &notes["changes"]), (&json!(0), &json!([])));
    // `find`, its description and its schema; `{}` and `"found"`.
    assert_eq!((&notes["description-bytes"], &notes["bytes-sent"]), (&json!(33), &json!(2)));
    assert_eq!((&notes["description-tokens"], &notes["bytes-received"]), (&json!(9), &json!(7)));
    assert!(notes["mean-ms"].as_f64() > Some(0.0) && notes["longest-ms"].is_number(), "{notes}");
    assert!(gone["state"] == "failed" && gone["problem"].as_str().unwrap().contains("gone"), "{gone}");

    list(folder.path(), &[("find", "Finds notes, and sends them on."), ("send", "Sends.")]);
    run("find", "r3", "failed");
    let changes = json!([{"tool": "find", "change": "changed"}, {"tool": "send", "change": "new"}]);
    assert_eq!(servers()[0]["changes"], changes);
    let (status, _, page) = server.send("GET", "/t/default/servers", &[], "");
    assert_eq!(status, 200, "{page}");
    for part in ["notes", "running", "2 tools differ", "<code>send</code>: new", "opcell mcp diff notes", "failed"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The command says the same.
    let listed = opcell(folder.path()).args(["mcp", "list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let notes = listed.as_array().unwrap().iter().find(|server| server["name"] == "notes").unwrap();
    assert_eq!(notes["changes"], changes);
    assert!(notes["description-tokens"].as_u64() > Some(9), "{notes}");
    let listed = opcell(folder.path()).args(["mcp", "list"]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("since it was accepted: send new") && text.contains("descriptions: about "), "{text}");
}
