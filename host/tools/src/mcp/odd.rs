#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

//! Servers as they are: each file of `tests/odd/` is a server, and what must come of it. Adding a file adds a case.
//!
//! | key | meaning |
//! | --- | --- |
//! | `about` | why servers do this |
//! | `replies` | per method the replies in order, the last one again and again: `{"result": …}`, `{"error": …}`, or `{"raw": …}`, a text or a list of texts and of `[text, times]`, in which `@ID@` is the ID of the request |
//! | `over` | `["lines", "http"]`: the transports that it is tried over; both where it is absent |
//! | `http` | `status`, `headers` for all answers of a server over HTTP; `on`: of this method only |
//! | `http.session` | `true`: the handshake begins a session |
//! | `usable`, `refused`, `truncated` | what becomes of the list of tools: names, and words of the reasons by name |
//! | `starts` | words of the failure, where the server does not start |
//! | `value`, `failure`, `says`, `warns` | what a call of the tool `t` gives: a value, or a reason; words of the message and of a warning |

use super::{Binary, CallOptions, McpServer, Remote, Server};
use crate::http::{HttpRule, Method};
use opcell_types::Value;
use serde_json::{Value as Json, json};
use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Mutex,
};

/// The time of a call: no case waits for it but those that must.
const CALL_TIME: Duration = Duration::from_secs(20);

/// Words of libraries, which no user reads.
const FOREIGN: [&str; 8] =
    ["rmcp", "Transport", "CustomResult", "Object {", "Unexpected response", "serde", "at line ", "StreamableHttp"];

/// A program that answers each request with the next file of its method.
const SCRIPT: &str = r#"while read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  method=${line#*\"method\":\"}; method=${method%%\"*}; method=${method%%/*}_${method#*/}
  eval "number=\${n_$method:-0}"
  if [ -e "$method.$((number + 1))" ]; then number=$((number + 1)); fi
  eval "n_$method=$number"
  [ -e "$method.$number" ] && sed "s/@ID@/$id/g" "$method.$number"
done
"#;

fn framed(reply: &Json) -> String {
    let frame = |key: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":@ID@,\"{key}\":{}}}\n", reply[key]);
    match (reply.get("raw"), reply.get("error")) {
        (Some(Json::String(raw)), _) => raw.clone(),
        (Some(Json::Array(parts)), _) => {
            let part = |part: &Json| match part {
                Json::Array(repeated) => repeated[0].as_str().unwrap().repeat(repeated[1].as_u64().unwrap() as usize),
                text => text.as_str().unwrap().to_owned(),
            };
            parts.iter().map(part).collect()
        }
        (_, Some(_)) => frame("error"),
        _ => frame("result"),
    }
}

/// The replies of a case, those for a plain server where it names none.
fn replies(case: &Json) -> HashMap<String, Vec<String>> {
    let usual = json!({
        "server/discover": [{"error": {"code": -32601, "message": "Method not found"}}],
        "initialize": [{"result": {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"},
        }}],
        "tools/list": [{"result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}}],
        "tools/call": [{"result": {"content": [{"type": "text", "text": "done"}]}}],
    });
    let mut replies: HashMap<String, Vec<String>> = HashMap::new();
    for of in [&usual, &case["replies"]].into_iter().filter_map(Json::as_object) {
        for (method, texts) in of {
            replies.insert(method.clone(), texts.as_array().unwrap().iter().map(framed).collect());
        }
    }
    replies
}

fn config(directory: &Path, remote: Option<Remote>) -> McpServer {
    McpServer {
        program: "sh".to_owned(),
        arguments: vec!["server.sh".to_owned()],
        directory: directory.to_owned(),
        env: Vec::new(),
        call_time: CALL_TIME,
        result_bytes: 4096,
        remote,
        confine: false,
        read: Vec::new(),
        write: Vec::new(),
        network: false,
    }
}

fn over_lines(case: &Json, folder: &Path) -> Server {
    std::fs::write(folder.join("server.sh"), SCRIPT).unwrap();
    for (method, texts) in replies(case) {
        for (index, text) in texts.iter().enumerate() {
            let (group, name) = method.split_once('/').unwrap_or((&method, &method));
            let file = format!("{group}_{name}.{}", index + 1);
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
    Server::new("odd".to_owned(), config(folder, None))
}

async fn over_http(case: &Json, folder: &Path) -> Server {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (case, counts) = (case.clone(), Arc::new(Mutex::new(HashMap::<String, usize>::new())));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_http(stream, case.clone(), counts.clone()));
        }
    });
    let methods = vec![Method::GET, Method::POST, Method::DELETE];
    let rule = HttpRule { private: true, ..HttpRule::new(vec![origin.parse().unwrap()], methods) };
    let url = format!("{origin}/mcp").parse().unwrap();
    Server::new("odd".to_owned(), config(folder, Some(Remote { url, rule })))
}

async fn answer_http(mut stream: tokio::net::TcpStream, case: Json, counts: Arc<Mutex<HashMap<String, usize>>>) {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    let body = loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                break if head.starts_with("POST") { body.to_owned() } else { String::new() };
            }
        }
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    };
    let message: Json = serde_json::from_str(&body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    let odd = case["http"].get("on").is_none_or(|on| on == method);
    let http = if odd { case["http"].clone() } else { Json::Null };
    let (status, headers, body) = match (method, message.get("id")) {
        ("", _) => ("405 Not Allowed".to_owned(), String::new(), String::new()),
        (_, None) => ("202 Accepted".to_owned(), String::new(), String::new()),
        (method, Some(id)) => {
            let texts = replies(&case).remove(method).unwrap_or_default();
            let mut counts = counts.lock().await;
            let count = counts.entry(method.to_owned()).or_default();
            let text = texts.get(*count).or(texts.last()).cloned().unwrap_or_default();
            *count += 1;
            let status = http["status"].as_str().unwrap_or("200 OK").to_owned();
            let mut headers = http["headers"].as_str().unwrap_or("content-type: application/json\r\n").to_owned();
            if method == "initialize" && case["http"]["session"] == true {
                headers.push_str("mcp-session-id: s\r\n");
            }
            (status, headers, text.replace("@ID@", &id.to_string()))
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

/// Everything about a case that is not as it must be.
async fn differences(case: &Json, server: &Server) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    let words = |key: &str| match &case[key] {
        Json::Array(words) => words.iter().map(|word| word.as_str().unwrap().to_owned()).collect(),
        Json::String(word) => vec![word.clone()],
        _ => Vec::new(),
    };
    match server.tools().await {
        Err(failure) => {
            said.push(failure.message.clone());
            let starts = words("starts");
            if starts.is_empty() || !starts.iter().all(|word| failure.message.contains(word)) {
                wrong.push(format!("it does not start: {}: {}", failure.reason, failure.message));
            }
        }
        Ok(listing) => {
            said.extend(listing.refused.values().cloned());
            let usable: Vec<&str> = listing.tools.keys().map(String::as_str).collect();
            let expected = words("usable");
            if case.get("starts").is_some() {
                wrong.push("it starts".to_owned());
            }
            if case.get("usable").is_some() && usable != expected {
                wrong.push(format!("usable are {usable:?}"));
            }
            for (name, why) in case["refused"].as_object().into_iter().flatten() {
                if !listing.refused.get(name).is_some_and(|said| said.contains(why.as_str().unwrap())) {
                    wrong.push(format!("refused are {:?}", listing.refused));
                }
            }
            if case["refused"].as_object().map_or(0, serde_json::Map::len) != listing.refused.len() {
                wrong.push(format!("refused are {:?}", listing.refused));
            }
            if listing.truncated != (case["truncated"] == true) {
                wrong.push(format!("truncated is {}", listing.truncated));
            }
        }
    }
    if case.get("value").is_none() && case.get("failure").is_none() {
        return wrong;
    }
    let called = server.call("t", &Value::object::<&str>([]), CallOptions::new(Binary::Keep)).await;
    match called {
        Ok(called) => {
            if case.get("value").cloned().map(Value::from) != Some(called.value.clone()) {
                wrong.push(format!("the call gives {}", called.value.to_json()));
            }
            let warned = called.warnings.join("\n");
            if warned.is_empty() != case.get("warns").is_none()
                || !words("warns").iter().all(|word| warned.contains(word))
            {
                wrong.push(format!("it warns: {warned}"));
            }
            said.push(warned);
        }
        Err(failure) => {
            let as_said = words("says").iter().all(|word| failure.message.contains(word));
            if case["failure"].as_str() != Some(&*failure.reason) || !as_said {
                wrong.push(format!("the call fails: {}: {}", failure.reason, failure.message));
            }
            said.push(failure.message);
        }
    }
    wrong.extend(
        said.iter()
            .filter(|said| FOREIGN.iter().any(|word| said.contains(word)))
            .map(|said| format!("foreign: {said}")),
    );
    wrong
}

#[tokio::test]
async fn every_odd_server_is_used_as_far_as_it_can_be_and_says_the_rest_in_sentences() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/odd");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut trials = tokio::task::JoinSet::new();
    let at_once = Arc::new(tokio::sync::Semaphore::new(8));
    for file in files {
        let case: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        for transport in ["lines", "http"] {
            let tried = case["over"].as_array().is_none_or(|over| over.iter().any(|named| named == transport));
            if tried {
                let (case, name, at_once) = (case.clone(), name.clone(), at_once.clone());
                trials.spawn(async move {
                    let _turn = at_once.acquire().await.unwrap();
                    let folder = tempfile::tempdir().unwrap();
                    let server = match transport {
                        "lines" => over_lines(&case, folder.path()),
                        _ => over_http(&case, folder.path()).await,
                    };
                    let wrong = differences(&case, &server).await;
                    (!wrong.is_empty()).then(|| format!("{name} over {transport}: {}", wrong.join("; ")))
                });
            }
        }
    }
    assert!(trials.len() > 50, "{} trials", trials.len());
    let mut wrong: Vec<String> = trials.join_all().await.into_iter().flatten().collect();
    wrong.sort();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
