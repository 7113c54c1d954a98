//! The limits on one tenant's requests, and that another does not notice them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

#[path = "support/counting.rs"]
mod counting;

use counting::{Counting, each, ended};
use opcell::{Host, Value};
use opcell_engine::RunOptions;
use opcell_server::{Serving, Settings, Tenant, Tenants, tenant::TenantLimits};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write as _},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Serves two tenants, `busy` with these limits and `quiet` with the usual ones; its address, and what stops it.
async fn serve(limits: TenantLimits) -> (String, CancellationToken) {
    let (busy, quiet) = (Host::builder().build().await.unwrap(), Host::builder().build().await.unwrap());
    serve_hosts([("busy", busy, limits), ("quiet", quiet, TenantLimits::default())]).await
}

async fn serve_hosts<const N: usize>(tenants: [(&str, Host, TenantLimits); N]) -> (String, CancellationToken) {
    let tenants = tenants.map(|(name, host, limits)| Tenant::new(name, host, limits));
    let settings = Settings::new("127.0.0.1:0".parse().unwrap());
    let serving = Serving::bind(settings, Tenants::new(tenants)).await.unwrap();
    let address = serving.url().unwrap().replace("http://", "");
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move { serving.run(stopping).await });
    (address, stop)
}

/// The head of the answer to a GET.
async fn get(address: &str, path: &str) -> String {
    try_get(address, path).await.unwrap()
}

/// The head of the answer to a GET, or the error of a connection that was cut.
async fn try_get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase())
}

#[tokio::test]
async fn a_tenant_that_floods_is_refused_and_another_is_served() {
    let mut limits = TenantLimits::default();
    limits.requests_per_second = 5;
    let (address, stop) = serve(limits).await;
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..60 {
        let head = get(&address, "/v1/busy/runs").await;
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(status != "429" || head.contains("retry-after: 1"), "{head}");
        *statuses.entry(status).or_default() += 1;
        assert!(get(&address, "/v1/quiet/runs").await.starts_with("http/1.1 200"));
    }
    assert!(statuses.get("200").is_some_and(|served| *served >= 5), "{statuses:?}");
    assert!(statuses.contains_key("429"), "{statuses:?}");
    assert_eq!(statuses.len(), 2, "{statuses:?}");
    stop.cancel();
}

#[tokio::test]
async fn an_unknown_tenant_is_refused_without_a_word_about_the_others() {
    let (address, stop) = serve(TenantLimits::default()).await;
    assert!(get(&address, "/v1/other/runs").await.starts_with("http/1.1 404"));
    assert!(get(&address, "/t/other").await.starts_with("http/1.1 404"));
    stop.cancel();
}

/// A host whose journal counts, with a run of this many elements that has ended.
async fn host_of(journal: &Counting, elements: usize) -> Host {
    let host = Host::builder().journal(journal.clone()).build().await.unwrap();
    ended(&host, "r", elements).await;
    host
}

/// A request that is sent, and whose answer is not read.
async fn ask(address: &str, path: &str, headers: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // What the system holds for a reader is not the server's.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// A GET by this thread, which is none of the server's: those may all be busy.
fn sent(address: &str, path: &str, headers: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Its answer; none after far longer than it takes.
fn answered(address: &str, path: &str) -> Option<String> {
    let mut stream = sent(address, path, "");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok().map(|_| answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_tenant_asks_for_keeps_no_thread_of_another_busy() {
    let (busy, quiet) = (Counting::default(), Counting::default());
    let hosts = [("busy", host_of(&busy, 3).await), ("quiet", host_of(&quiet, 3).await)];
    let (address, stop) = serve_hosts(hosts.map(|(name, host)| (name, host, TenantLimits::default()))).await;
    let blocked = busy.block();
    let stream = "Accept: text/event-stream\r\n";
    let mut asked = Vec::new();
    for (path, headers) in [
        ("/v1/busy/runs/r", ""),
        ("/v1/busy/runs/r/events", ""),
        ("/v1/busy/runs/r/events", stream),
        ("/v1/busy/runs/r/graph", ""),
        ("/v1/busy/runs/r/receipts", ""),
        ("/v1/busy/denials", ""),
        ("/v1/busy/runs/r/export", ""),
        ("/t/busy/runs/r", ""),
        ("/t/busy/runs/r/live", ""),
    ] {
        // More of each than there are threads.
        for _ in 0..8 {
            asked.push(sent(&address, path, headers));
        }
        for path in ["/v1/quiet/runs", "/v1/quiet/runs/r", "/v1/quiet/runs/r/events", "/t/quiet/runs/r"] {
            let answer = answered(&address, path);
            assert!(
                answer.is_some_and(|head| head.starts_with("HTTP/1.1 200")),
                "{path} of the other tenant has to wait"
            );
        }
    }
    drop((asked, blocked));
    assert!(get(&address, "/v1/busy/runs/r").await.starts_with("http/1.1 200"));
    stop.cancel();
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// A run of this many elements, each of which returns this many bytes.
async fn verbose(journal: &Counting, elements: usize, bytes: usize) -> Host {
    let host = Host::builder().journal(journal.clone()).build().await.unwrap();
    let said = json!({"ok": true, "text": "x".repeat(bytes)});
    let items = json!({"items": vec![json!({}); elements], "said": [said]});
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let input = Value::from_json(&items.to_string()).unwrap();
    let ended = host.start_with(&each("$inputs.said"), input, options).await.unwrap().finished().await.unwrap();
    assert_eq!(ended.status.as_str(), "completed");
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_events_who_read_nothing_hold_little_each() {
    const READERS: usize = 300;
    let host = verbose(&Counting::default(), 400, 10_000).await;
    let (address, stop) = serve_hosts([("default", host, TenantLimits::default())]).await;
    let before = resident();
    let mut asking = JoinSet::new();
    for reader in 0..READERS {
        // Each at another place, so that none has what another has.
        let (address, path) = (address.clone(), format!("/v1/default/runs/r/events?after={}", 2 + reader));
        asking.spawn(async move {
            let mut stream = ask(&address, &path, "Accept: text/event-stream\r\n").await;
            let mut head = [0; 15];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
            stream
        });
    }
    let readers = asking.join_all().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = resident().saturating_sub(before) / READERS;
    // A piece, what of one is on its way, and the connection: some 200 KiB, where what is left of the run has 2.5 MB.
    // The memory is that of this process, in which other tests run as well.
    assert!(each < 768 << 10, "{each} bytes for each reader that reads nothing");
    drop(readers);
    stop.cancel();
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Headers as literals.
fn literals(headers: &[(&str, &str)]) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let of = |(name, value): &(&str, &str)| {
        [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
    };
    headers.iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_a_client_does_not_take_are_bounded_and_given_back_when_it_goes() {
    let host = verbose(&Counting::default(), 400, 10_000).await;
    let (address, stop) = serve_hosts([("default", host, TenantLimits::default())]).await;
    let path = "/v1/default/runs/r/events?after=2";
    assert!(get(&address, path).await.starts_with("http/1.1 200"));
    let mut client = TcpStream::connect(&address).await.unwrap();
    // An initial window of 0: headers come, and bodies wait.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    client.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings.as_slice()].concat()).await.unwrap();
    let headers = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", address.as_str())];
    for stream in 0..64 {
        client.write_all(&frame(1, 5, 1 + 2 * stream, &literals(&headers))).await.unwrap();
    }
    let refused = async |wanted: bool| {
        for _ in 0..200 {
            // While the threads of a slow machine are busy with those answers, the server cuts a connection whose
            // request it could not read in time.
            if let Ok(head) = try_get(&address, path).await
                && head.starts_with("http/1.1 503") == wanted
            {
                assert!(!wanted || head.contains("retry-after: 1"), "{head}");
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    };
    assert!(refused(true).await, "as much waits as a client asks for");
    // What is short continues.
    assert!(get(&address, "/v1/default/runs").await.starts_with("http/1.1 200"));
    drop(client);
    assert!(refused(false).await, "what waited for a client that has gone is not given back");
    stop.cancel();
}

/// The head of the answer to a request of an MCP client, as it comes.
async fn speak(address: &str, tenant: &str, method: &str, session: Option<&str>) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
    let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} /v1/{tenant}/mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut some = [0; 1024];
        let read = stream.read(&mut some).await.unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&some[..read]);
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[tokio::test]
async fn sessions_of_mcp_clients_are_bounded_and_known_to_their_own_tenant_only() {
    let mut limits = TenantLimits::default();
    limits.requests_per_second = 10_000;
    let (address, stop) = serve(limits).await;
    let mut last = String::new();
    for at in 0..256 {
        let head = speak(&address, "busy", "POST", None).await;
        assert!(head.starts_with("http/1.1 200"), "{at}: {head}");
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        last = session.trim().to_owned();
    }
    let refused = speak(&address, "busy", "POST", None).await;
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(speak(&address, "quiet", "POST", None).await.starts_with("http/1.1 200"));
    let foreign = speak(&address, "quiet", "DELETE", Some(&last)).await;
    let unknown = speak(&address, "quiet", "DELETE", Some("00000000-0000-0000-0000-000000000000")).await;
    assert_eq!(foreign.lines().next(), unknown.lines().next(), "another tenant's session looks like none");
    assert!(speak(&address, "busy", "POST", None).await.starts_with("http/1.1 503"), "it is still open");
    let closed = speak(&address, "busy", "DELETE", Some(&last)).await;
    assert!(closed.starts_with("http/1.1 204"), "{closed}");
    assert!(speak(&address, "busy", "POST", None).await.starts_with("http/1.1 200"));
    stop.cancel();
}

/// The whole answer to a body that an MCP client posts.
async fn post(address: &str, session: &str, body: &str) -> String {
    let request = format!(
        "POST /v1/quiet/mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_list_of_messages_of_an_mcp_client_is_answered_by_a_list() {
    let mut limits = TenantLimits::default();
    limits.requests_per_second = 10_000;
    let (address, stop) = serve(limits).await;
    let head = speak(&address, "quiet", "POST", None).await;
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = format!(
        r#"[{told},{{"jsonrpc":"2.0","id":2,"method":"tools/list"}},{{"jsonrpc":"2.0","id":"x","method":"ping"}},7]"#
    );
    let answer = post(&address, &session, &list).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.to_ascii_lowercase().contains("application/json"), "{head}");
    let answers: serde_json::Value = serde_json::from_str(body).unwrap();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [serde_json::json!(2), serde_json::json!("x"), serde_json::Value::Null], "{answers}");
    assert!(answers[0]["result"]["tools"].is_array() && answers[1]["result"].is_object(), "{answers}");
    assert_eq!(answers[2]["error"]["code"], -32600);
    let unknown = post(&address, "00000000-0000-0000-0000-000000000000", &list).await;
    assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
    stop.cancel();
}
