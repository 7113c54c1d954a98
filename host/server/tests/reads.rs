//! Reads of runs: once, by few at a time, and never for another tenant.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

#[path = "support/counting.rs"]
mod counting;

use counting::{Counting, ended, request};
use opcell::{Host, RunOptions, Value, Workflow, document};
use opcell_server::{
    Serving, Settings, Tenant, Tenants,
    access::{
        Access,
        tokens::{Scope, TokenStore},
    },
    tenant::TenantLimits,
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// Serves tenants with journals that count; the address, and what stops it.
async fn serve(tenants: Vec<(&str, Host)>, access: Access) -> (String, CancellationToken) {
    let tenants = tenants.into_iter().map(|(name, host)| Tenant::new(name, host, TenantLimits::default()));
    let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
    settings.access = access;
    let serving = Serving::bind(settings, Tenants::new(tenants)).await.unwrap();
    let address = serving.url().unwrap().replace("http://", "");
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move { serving.run(stopping).await });
    (address, stop)
}

async fn host(journal: &Counting) -> Host {
    Host::builder().journal(journal.clone()).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_looked_at_is_not_read_again() {
    let journal = Counting::default();
    let host = host(&journal).await;
    ended(&host, "r", 2_000).await;
    let (address, stop) = serve(vec![("default", host.clone())], Access::Open).await;
    let all = host.engine().state_at(&"r".into(), None).await.unwrap().seq();
    assert!(all > 4_000, "{all}");
    for path in ["/v1/default/runs/r", "/t/default/runs/r"] {
        let before = journal.records();
        assert!(request(&address, "GET", path, "").await.starts_with("HTTP/1.1 200"), "{path}");
        let read = journal.records() - before;
        // The page shows 200 rows, each with the event that began it and the one that ended it.
        let most = if path.starts_with("/v1") { all + 4 } else { 2 * 200 + 8 };
        assert!(read <= most, "{path}: {read} of {all} records were read");
    }
    // A run of the same name is another one.
    host.engine().journal().delete(&"r".into()).await.unwrap();
    ended(&host, "r", 3).await;
    let again = host.engine().state_at(&"r".into(), None).await.unwrap().seq();
    let shown = request(&address, "GET", "/v1/default/runs/r", "").await;
    assert!(shown.contains(&format!("\"events\":{again},")), "{shown}");
    host.engine().journal().delete(&"r".into()).await.unwrap();
    assert!(request(&address, "GET", "/v1/default/runs/r", "").await.starts_with("HTTP/1.1 404"));
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_long_run_waits_for_its_beginning_and_goes_on_reading() {
    let journal = Counting::default();
    let host = host(&journal).await;
    ended(&host, "long", 14_000).await;
    let all = host.engine().runs().await.unwrap()[0].records;
    assert!(all > 25_000, "{all}");
    let (address, stop) = serve(vec![("default", host)], Access::Open).await;
    // How it ended is known before it has been read.
    let page = request(&address, "GET", "/t/default/runs/long", "").await;
    let read = format!("Reading the run: 10240 of {all} events");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains(&read), "{page}");
    assert!(page.contains("status completed") && page.contains("each[7]"), "{page}");
    assert!(page.contains(r#"<noscript><meta http-equiv="refresh""#), "{page}");
    let began = Instant::now();
    loop {
        let page = request(&address, "GET", "/t/default/runs/long", "").await;
        if !page.contains("Reading the run: ") {
            assert!(page.contains("status completed") && page.contains("1–200 of "), "{page}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_runs_are_read_at_a_time_and_more_than_many_waiting_are_refused() {
    let journal = Counting::default();
    let host = host(&journal).await;
    ended(&host, "r", 3).await;
    let (address, stop) = serve(vec![("default", host)], Access::Open).await;
    journal.hold();
    // Each another one, for those who look at the same run wait for each other.
    let mut waiting = tokio::task::JoinSet::new();
    for at in 0..1_100 {
        let address = address.clone();
        waiting.spawn(async move { request(&address, "GET", &format!("/v1/default/runs/r{at}"), "").await });
    }
    // Those beyond are refused while the others wait.
    let refused = waiting.join_next().await.unwrap().unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.to_ascii_lowercase().contains("retry-after: 1") && refused.contains("\"busy\""), "{refused}");
    assert!(journal.most_at_once() <= 4, "{}", journal.most_at_once());
    journal.release();
    let mut statuses = BTreeSet::new();
    while let Some(answer) = waiting.join_next().await {
        statuses.insert(answer.unwrap()[9..12].to_owned());
    }
    assert_eq!(statuses, ["404", "503"].map(str::to_owned).into());
    assert!(journal.most_at_once() <= 4, "{}", journal.most_at_once());
    assert!(request(&address, "GET", "/v1/default/runs/r", "").await.starts_with("HTTP/1.1 200"));
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_learns_nothing_of_another_on_any_path() {
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::of_project(folder.path(), Path::new("/project"));
    let token = store.create("zeta", "zeta", &[Scope::Read, Scope::Run, Scope::Approve, Scope::Admin]).unwrap();
    let metrics = store.create("prometheus", "default", &[Scope::Metrics]).unwrap();
    let (acme, zeta) = (Counting::default(), Counting::default());
    let (of_acme, of_zeta) = (host(&acme).await, host(&zeta).await);
    for host in [&of_acme, &of_zeta] {
        ended(host, "shared", 3).await;
    }
    ended(&of_acme, "secret", 3).await;
    let tenants = vec![("acme", of_acme), ("zeta", of_zeta)];
    let (address, stop) = serve(tenants, Access::Tokens(store)).await;
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    let described: serde_json::Value = serde_json::from_str(&opcell_server::api::openapi_text()).unwrap();
    let bodies = json!({"workflow": "w", "name": "go", "text": "{}", "at": 1, "arguments": {}});
    let before = acme.touched();
    let mut tried = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|_| path.starts_with("/v1/{tenant}")) {
            let mut answers = BTreeSet::new();
            for tenant in ["acme", "nothing"] {
                for run in ["secret", "shared", "none"] {
                    let path = path.replace("{tenant}", tenant).replace("{run}", run);
                    let path = path.replace(['{', '}'], "");
                    for body in [String::new(), bodies.to_string()] {
                        let answer =
                            request(&address, &method.to_ascii_uppercase(), &path, &format!("{headers}\n{body}")).await;
                        let plain: Vec<&str> =
                            answer.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect();
                        answers.insert(plain.join("\n"));
                        tried += 1;
                    }
                }
            }
            assert_eq!(answers.len(), 1, "{method} {path}: {answers:#?}");
            let answer = answers.first().unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 401"),
                "{method} {path}: {answer}"
            );
        }
    }
    assert!(tried > 300, "{tried}");
    // Nothing takes longer because it is there: the other's journal was not asked.
    assert_eq!(acme.touched(), before);
    // In its own tenant, a run of the other is none.
    let own = |run: &str| {
        let (address, headers, path) = (address.clone(), headers.clone(), format!("/v1/zeta/runs/{run}"));
        async move { request(&address, "GET", &path, &headers).await.replace(&path, "") }
    };
    assert!(own("shared").await.starts_with("HTTP/1.1 200"));
    assert_eq!(own("secret").await.replace("secret", "absent"), own("absent").await);
    // So is it to what finds runs, and to those who look at pages.
    for path in ["/v1/zeta/runs", "/v1/zeta/receipts", "/v1/zeta/denials", "/metrics"] {
        let answer = request(&address, "GET", path, &headers).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && !answer.contains("secret") && !answer.contains("acme"),
            "{answer}"
        );
    }
    // One scrape for all tenants, by a token that opens nothing else.
    let headers = format!("Authorization: Bearer {metrics}\r\n");
    let answer = request(&address, "GET", "/metrics", &headers).await;
    assert!(answer.contains("{tenant=\"acme\"") && answer.contains("{tenant=\"zeta\""), "{answer}");
    for path in ["/v1/zeta/runs", "/v1/acme/runs", "/v1/default/runs"] {
        let answer = request(&address, "GET", path, &headers).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_events_ends_when_its_token_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::of_project(folder.path(), Path::new("/project"));
    let token = store.create("reader", "default", &[Scope::Read]).unwrap();
    let host = host(&Counting::default()).await;
    let text = r#"{:name "waits" :description "Waits" :steps [{:name "go" :type :wait :signal "go"}]}"#;
    let waits = Workflow::of(document::compile(Path::new("waits.edn"), text.to_owned())).unwrap();
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let _waiting = host.start_with(&waits, Value::Null, options).await.unwrap();
    let (address, stop) = serve(vec![("default", host)], Access::Tokens(store.clone())).await;
    let reading = tokio::spawn(async move {
        let headers = format!("Authorization: Bearer {token}\r\nAccept: text/event-stream");
        request(&address, "GET", "/v1/default/runs/r/events", &headers).await
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!reading.is_finished());
    store.revoke(&store.list().unwrap()[0].id).unwrap();
    let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
    assert!(read.is_ok_and(|read| read.unwrap().contains("event: wait-started")), "the stream goes on");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_one_host_and_a_body_that_is_too_large_is_not_waited_for() {
    let (address, stop) = serve(vec![("default", host(&Counting::default()).await)], Access::Open).await;
    let other = request(&address, "GET", "/v1/default/runs", "Host: localhost:1").await;
    assert!(other.starts_with("HTTP/1.1 400") && other.contains("ambiguous-host"), "{other}");
    let other = request(&address, "GET", "http://evil.example/v1/default/runs", "").await;
    assert!(other.starts_with("HTTP/1.1 400") && other.contains("ambiguous-host"), "{other}");
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = format!(
        "POST /v1/default/runs HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut answer)).await;
    assert!(read.is_ok() && &answer == b"HTTP/1.1 413", "{answer:?}");
    stop.cancel();
}

/// A model that thinks, says a word, and the rest when it may.
struct Slow(std::sync::Arc<tokio::sync::Semaphore>);

#[opcell::async_trait]
impl opcell::Model for Slow {
    async fn complete(
        &self,
        round: &opcell::ModelRound,
        sink: Option<&dyn opcell::TextSink>,
    ) -> Result<opcell::ModelReply, opcell::Failure> {
        // The runs of a server are told of.
        let sink = sink.unwrap();
        sink.piece(opcell::AnswerPiece::Reasoning("hm"));
        sink.text("one ");
        let may = tokio::select! {
            may = self.0.acquire() => may,
            () = round.cancel.cancelled() => return Err(opcell::Failure::host("cancelled", "the run was cancelled")),
        };
        may.unwrap().forget();
        sink.text("two");
        Ok(opcell::ModelReply::text(&round.model, "one two"))
    }
}

/// Reads a stream of events until it has a text, or ends.
async fn read_until(stream: &mut TcpStream, all: &mut String, text: &str) {
    let mut buffer = [0; 4_096];
    while !all.contains(text) {
        let bytes = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(bytes > 0, "no {text} in {all}");
        all.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
}

async fn followed(address: &str, run: &str, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /v1/default/runs/{run}/events{query} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_told_while_they_come_to_those_who_ask_and_end_with_their_round() {
    let may = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let host = Host::builder().model(Slow(may.clone())).build().await.unwrap();
    let workflow = r#"{:name "ask" :description "Asks" :steps [{:name "ask" :type :session :model "m/n" :tools []
        :contributions [{:type :template :text "Say." :vars {}}]}]}"#;
    let (address, stop) = serve(vec![("default", host.clone())], Access::Open).await;
    let compiled = Workflow::of(document::compile(Path::new("ask.edn"), workflow.to_owned())).unwrap();
    for run in ["said", "stopped"] {
        // Left to the server's worker, which tells of what its models say.
        let options = RunOptions { run: Some(run.parse().unwrap()), detach: true, ..RunOptions::default() };
        options.release.cancel();
        host.start_with(&compiled, Value::Null, options).await.unwrap().finished().await.unwrap();
        let (mut plain, mut text, mut all) = (String::new(), String::new(), String::new());
        let mut unasked = followed(&address, run, "").await;
        let mut reader = followed(&address, run, "?pieces=text").await;
        read_until(&mut reader, &mut text, r#"data: {"text":"one ","effect":"#).await;
        let mut late = followed(&address, run, "?pieces=all").await;
        read_until(&mut late, &mut all, r#"data: {"text":"one ","effect":"#).await;
        assert!(all.contains(r#"data: {"reasoning":"hm","effect":"#), "{all}");
        assert!(!text.contains("hm"), "{text}");
        // One that goes away disturbs neither the run nor the others.
        drop(reader);
        match run {
            "said" => may.add_permits(1),
            _ => {
                let path = format!("/v1/default/runs/{run}/cancel");
                let answer = request(&address, "POST", &path, "content-type: application/json\r\n\n{}").await;
                assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
            }
        }
        read_until(&mut late, &mut all, "event: run-finished").await;
        read_until(&mut unasked, &mut plain, "event: run-finished").await;
        let (ended, finished) = (all.find(r#"{"ended":true,"#), all.find("event: run-finished"));
        assert!(ended.is_some() && ended < finished, "{all}");
        assert!(!plain.contains("event: piece"), "{plain}");
    }
    stop.cancel();
}
