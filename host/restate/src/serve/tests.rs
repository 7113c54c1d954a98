//! A client that is no Restate server speaks to a worker: it may be refused, and that is all that it gets. After each
//! attack the worker serves a turn that is as a server would ask for it.

use super::{Limits, serve};
use crate::{object::OpcellRun, worker};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer as _, SigningKey};
use h2::client::SendRequest;
use hyper::body::Bytes;
use opcell_engine::{Engine, Program, RunOptions, worker::WorkerOptions};
use opcell_journal::{Append, Cut, Journal as _, MemoryJournal, RunId};
use opcell_types::Value;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

const TURN: &str = "/invoke/OpcellRun/turn";
const SIGNAL: &str = "/invoke/OpcellRun/signal";

// Numbers of messages.
const START: u16 = 0x0000;
const SUSPENSION: u16 = 0x0001;
const ERROR: u16 = 0x0002;
const END: u16 = 0x0003;
const PROPOSE_RUN: u16 = 0x0005;
const INPUT: u16 = 0x0400;
const OUTPUT: u16 = 0x0401;
const ONE_WAY_CALL: u16 = 0x040e;
const RUN: u16 = 0x0411;
const RUN_COMPLETION: u16 = 0x8011;

/// The time after which a worker counts as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

const WAITS: &str =
    r#"{"version":"workflow-ir/v1","name":"w","steps":[{"name":"w","type":"wait","wait":{"signal":"go"}}]}"#;

/// A worker with a journal of its own.
struct Worker {
    address: SocketAddr,
    engine: Engine,
    journal: Arc<MemoryJournal>,
    _stop: DropGuard,
}

/// Bounds that a test reaches at once.
fn tight() -> Limits {
    Limits {
        connections: 8,
        streams: 16,
        invocations: 32,
        input_bytes: 1 << 20,
        total_bytes: 2 << 20,
        first: Duration::from_millis(500),
    }
}

impl Worker {
    async fn new(limits: Limits, identity_key: Option<&str>) -> Self {
        let journal = Arc::new(MemoryJournal::new());
        let engine = Engine::builder().journal(journal.clone()).build();
        let runs = OpcellRun::new(engine.clone(), &WorkerOptions::default(), mpsc::unbounded_channel().0);
        let endpoint = worker::endpoint(runs, identity_key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, endpoint, limits, stop.clone()));
        Self { address, engine, journal, _stop: stop.drop_guard() }
    }

    /// A run that waits for a signal.
    async fn waiting(&self, run: &str) -> RunId {
        let program = Program::new(Arc::new(serde_json::from_str(WAITS).unwrap())).unwrap();
        let options = RunOptions { run: Some(run.parse().unwrap()), detach: true, ..RunOptions::default() };
        let handle = self.engine.start(program, Value::Null, options).await.unwrap();
        handle.finished().await.unwrap();
        handle.run().clone()
    }

    async fn records(&self, run: &RunId) -> usize {
        self.journal.read(run, 0, 10_000).await.unwrap().len()
    }

    async fn has_ended(&self, run: &RunId) -> bool {
        self.engine.state_at(run, None).await.unwrap().status().has_ended()
    }

    async fn client(&self) -> SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        client
    }

    async fn ask(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(&mut self.client().await, path, headers, body).await
    }

    async fn invoke(&self, path: &str, body: &[u8]) -> Answer {
        self.ask(path, &[("content-type", "application/vnd.restate.invocation.v5")], body).await
    }

    /// A run that was made for it is driven to its end by a signal and a turn, as a Restate server asks for them.
    async fn serves_an_honest_turn(&self, run: &str) {
        tokio::time::timeout(PATIENCE, self.honest_turn(run)).await.expect("the worker does not answer");
    }

    async fn honest_turn(&self, run: &str) {
        let run = self.waiting(run).await;
        let before = self.records(&run).await;
        let body = [start("inv_honest", &run), input(br#"{"name":"go","data":1}"#)].concat();
        let sent = self.invoke(SIGNAL, &body).await;
        assert_eq!((sent.status, sent.kinds()), (200, vec![ONE_WAY_CALL, OUTPUT, END]), "{sent:?}");
        let turned = self.invoke(TURN, &[start("inv_turn", &run), input(b"")].concat()).await;
        assert_eq!((turned.status, turned.kinds()), (200, vec![RUN, PROPOSE_RUN, SUSPENSION]), "{turned:?}");
        assert!(turned.has(r#"{"due":null,"after":0.0}"#), "{turned:?}");
        assert!(self.records(&run).await > before, "the run was not driven");
        assert!(self.has_ended(&run).await, "the turn did not drive the run to its end");
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    /// `true` if it was complete, and not reset.
    is_whole: bool,
}

impl Answer {
    /// The messages, by their numbers.
    fn kinds(&self) -> Vec<u16> {
        let mut kinds = Vec::new();
        let mut rest = self.body.as_slice();
        while let Some((head, after)) = rest.split_first_chunk::<8>() {
            kinds.push(u16::from_be_bytes([head[0], head[1]]));
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            rest = after.get(length as usize..).unwrap_or_default();
        }
        kinds
    }

    fn has(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|part| part == text.as_bytes())
    }

    /// Nothing was done: an error before or in the messages, and no result of a turn.
    fn is_refused(&self) -> bool {
        let kinds = self.kinds();
        match self.status {
            200 => !kinds.contains(&PROPOSE_RUN) && (kinds.contains(&ERROR) || kinds.is_empty()),
            status => (400..=503).contains(&status),
        }
    }
}

async fn ask(client: &mut SendRequest<Bytes>, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut request = http::Request::post(format!("http://worker{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
    // The worker may have refused it before it has read all.
    let _ = stream.send_data(Bytes::copy_from_slice(body), true);
    read(response).await
}

async fn read(response: h2::client::ResponseFuture) -> Answer {
    let mut answer = Answer { status: 0, body: Vec::new(), is_whole: false };
    let Ok(response) = response.await else { return answer };
    answer.status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(part) = body.data().await {
        let Ok(part) = part else { return answer };
        let _ = body.flow_control().release_capacity(part.len());
        answer.body.extend_from_slice(&part);
    }
    answer.is_whole = true;
    answer
}

fn message(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    [&kind.to_be_bytes(), [0, 0].as_slice(), &length.to_be_bytes(), content].concat()
}

fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn field(key: u64, content: &[u8]) -> Vec<u8> {
    [number(key << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
}

fn begin(id: &str, key: &str, entries: u64, state: &[u8]) -> Vec<u8> {
    let parts = [field(1, id.as_bytes()), field(2, id.as_bytes()), number(3 << 3), number(entries), state.to_vec()];
    message(START, &[parts.concat(), field(6, key.as_bytes())].concat())
}

fn start(id: &str, key: &str) -> Vec<u8> {
    begin(id, key, 1, b"")
}

fn input(content: &[u8]) -> Vec<u8> {
    message(INPUT, &field(14, &field(1, content)))
}

/// The commands of a turn that a server remembers, with a result for it.
fn remembered(id: &str, key: &str, result: &str, state: &[u8]) -> Vec<u8> {
    let run = [number(11 << 3), number(1), field(12, b"turn")].concat();
    let result = [number(1 << 3), number(1), field(5, &field(1, result.as_bytes()))].concat();
    [begin(id, key, 3, state), input(b""), message(RUN, &run), message(RUN_COMPLETION, &result)].concat()
}

#[tokio::test]
async fn a_turn_is_refused_or_empty_unless_the_journal_gives_the_run_to_this_worker() {
    let worker = Worker::new(Limits::default(), None).await;
    for foreign in ["gone", "", "../r", "r\u{1b}]0;x\u{7}", &"r".repeat(1 << 20)] {
        let turned = worker.invoke(TURN, &[start("inv", foreign), input(b"")].concat()).await;
        assert!(turned.has(r#"{"due":null,"after":0.0}"#), "{turned:?}");
    }
    assert!(worker.journal.runs().await.unwrap().is_empty(), "a run is made of it");

    // A run that another worker drives.
    let run = worker.waiting("held").await;
    let owner = worker.journal.acquire(&run, Cut::Tail).await.unwrap();
    let before = worker.records(&run).await;
    for _ in 0..5 {
        let turned = worker.invoke(TURN, &[start("inv", &run), input(b"")].concat()).await;
        assert!(turned.has(r#"{"due":"#) && !turned.has(r#"{"due":null"#), "it is not tried again: {turned:?}");
    }
    assert_eq!(worker.records(&run).await, before);
    // Its owner has it still.
    let write =
        Append { run: run.clone(), fence: owner.fence, records: Vec::new(), state: None, snapshot: None, inbox: None };
    worker.journal.append(write).await.unwrap();
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn turns_and_signals_that_are_sent_again_change_nothing() {
    let worker = Worker::new(Limits::default(), None).await;
    let run = worker.waiting("r").await;
    let before = worker.records(&run).await;
    // A turn whose result the server remembers is not driven, whatever that result says.
    for (result, calls) in [
        (r#"{"due":null,"after":0.0}"#, false),
        (r#"{"due":1,"after":0.0}"#, true),
        (r#"{"due":9223372036854775807,"after":1e308}"#, true),
        (r#"{"due":1,"after":-1e308}"#, true),
    ] {
        for _ in 0..3 {
            let turned = worker.invoke(TURN, &remembered("inv", &run, result, b"")).await;
            assert!(!turned.kinds().contains(&PROPOSE_RUN), "{result} is driven: {turned:?}");
            assert_eq!(turned.kinds().contains(&ONE_WAY_CALL), calls, "{result}: {turned:?}");
        }
    }
    // Neither is one with a result or a state that is none.
    let state = field(4, &[field(1, b"due"), field(2, b"{{{")].concat());
    for body in [
        remembered("inv", &run, "[[[", b""),
        remembered("inv", &run, r#"{"due":1,"after":1e999}"#, b""),
        remembered("inv", &run, r#"{"due":1,"after":1.0}"#, &state),
    ] {
        let turned = worker.invoke(TURN, &body).await;
        assert!(turned.is_refused(), "{turned:?}");
    }
    assert_eq!(worker.records(&run).await, before);

    // One signal, however often the same call comes: before its turn, and after it.
    let mut records = Vec::new();
    for (run, times) in [("once", 1), ("often", 5)] {
        let run = worker.waiting(run).await;
        let body = [start("inv_once", &run), input(br#"{"name":"go","data":1}"#)].concat();
        for _ in 0..times {
            assert!(worker.invoke(SIGNAL, &body).await.kinds().contains(&END));
        }
        assert!(!worker.has_ended(&run).await, "it is driven by a turn only");
        for _ in 0..times {
            worker.invoke(TURN, &[start("inv", &run), input(b"")].concat()).await;
            worker.invoke(SIGNAL, &body).await;
        }
        assert!(worker.has_ended(&run).await);
        records.push(worker.records(&run).await);
    }
    assert_eq!(records[0], records[1]);
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn a_signal_is_read_strictly_and_reaches_no_run_that_does_not_wait_for_it() {
    let worker = Worker::new(Limits::default(), None).await;
    let run = worker.waiting("r").await;
    let before = worker.records(&run).await;
    let long = "x".repeat(1 << 20);
    for (id, key, body) in [
        ("inv", "gone", r#"{"name":"go"}"#.to_owned()),
        ("inv", "r", r#"{"name":"other"}"#.to_owned()),
        ("inv", "r", r#"{"name":"go","may-approve":true}"#.to_owned()),
        ("inv", "r", r#"{"name":"go","by":"ann"}"#.to_owned()),
        ("inv", "r", format!(r#"{{"name":"go","data":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000))),
        ("inv", "r", String::new()),
        ("inv", "r", "\u{0}".to_owned()),
        (&long, "r", r#"{"name":"go"}"#.to_owned()),
    ] {
        let sent = worker.invoke(SIGNAL, &[start(id, key), input(body.as_bytes())].concat()).await;
        assert!(!sent.kinds().contains(&ONE_WAY_CALL), "{} of {key}: {:?}", &body[..body.len().min(60)], sent.kinds());
    }
    let turned = worker.invoke(TURN, &[start("inv", &run), input(b"")].concat()).await;
    assert!(turned.has(r#"{"due":null"#), "{turned:?}");
    assert_eq!(worker.records(&run).await, before);
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn what_is_no_invocation_of_ours_is_refused() {
    let worker = Worker::new(Limits::default(), None).await;
    let run = worker.waiting("r").await;
    let before = worker.records(&run).await;
    let body = [start("inv", &run), input(b"")].concat();
    for path in [
        "/",
        "/x",
        "/invoke",
        "/invoke/OpcellRun",
        "/invoke/OpcellRun/",
        "/invoke/OpcellRun/drive",
        "/invoke//turn",
        "/invoke/Other/turn",
        "/invoke/OpcellRun/turn/x",
        "/OpcellRun/turn",
        "/invoke/OpcellRun/%74urn",
    ] {
        let refused = worker.invoke(path, &body).await;
        assert!(refused.is_refused(), "{path}: {refused:?}");
    }
    for kind in ["", "text/plain", "application/vnd.restate.invocation.v1", "application/vnd.restate.invocation.v99"] {
        let refused = worker.ask(TURN, &[("content-type", kind)], &body).await;
        assert!((400..500).contains(&refused.status), "{kind}: {refused:?}");
    }
    let refused = worker.ask("/discover", &[("accept", "text/html")], b"").await;
    assert_eq!(refused.status, 415);
    assert_eq!(worker.records(&run).await, before);
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn frames_that_are_none_end_their_invocation_alone() {
    let worker = Worker::new(Limits::default(), None).await;
    let run = worker.waiting("r").await;
    let before = worker.records(&run).await;
    let noise: Vec<u8> = (0_u32..4_096).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let key = [field(1, b"inv"), number(3 << 3), number(1), field(6, b"\xff\xfe")].concat();
    for body in [
        Vec::new(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        noise,
        // Cut off, and another message first.
        start("inv", &run)[..9].to_vec(),
        input(b""),
        // A key that is no text, a field that is longer than its message, numbers without end.
        [message(START, &key), input(b"")].concat(),
        message(START, &[number(1 << 3 | 2), number(u64::from(u32::MAX))].concat()),
        message(START, &[0x80; 32]),
        // More entries than are sent, or another command than the turn's own.
        [begin("inv", &run, u64::from(u32::MAX), b""), input(b"")].concat(),
        [begin("inv", &run, 2, b""), input(b""), message(OUTPUT, b"")].concat(),
        [begin("inv", &run, 2, b""), input(b""), message(RUN_COMPLETION, b"\xff")].concat(),
        [begin("inv", &run, 2, b""), input(b""), message(ERROR, b"")].concat(),
    ] {
        let refused = worker.invoke(TURN, &body).await;
        assert!(refused.is_refused(), "{:?}…: {refused:?}", &body[..body.len().min(24)]);
    }
    assert_eq!(worker.records(&run).await, before);
    worker.serves_an_honest_turn("honest").await;
}

/// The head of a request for a turn.
fn turn() -> http::Request<()> {
    let request = http::Request::post(format!("http://worker{TURN}"));
    request.header("content-type", "application/vnd.restate.invocation.v5").body(()).unwrap()
}

/// An invocation of which nothing is sent but its head, and the status that it gets.
async fn open(client: SendRequest<Bytes>) -> (u16, SendRequest<Bytes>, h2::SendStream<Bytes>) {
    let mut client = client.ready().await.unwrap();
    let (response, stream) = client.send_request(turn(), false).unwrap();
    let status = response.await.map_or(0, |response| response.status().as_u16());
    (status, client, stream)
}

/// Sends parts until the worker takes no more. Returns the bytes that it took, at most `most`.
async fn pour(client: &mut SendRequest<Bytes>, first: &[u8], part: usize, most: usize) -> usize {
    let (response, mut stream) = client.send_request(turn(), false).unwrap();
    let mut response = Box::pin(read(response));
    let mut sent = 0;
    let mut next = Bytes::copy_from_slice(first);
    while sent < most {
        stream.reserve_capacity(next.len());
        let granted = tokio::select! {
            biased;
            _ = &mut response => return sent,
            granted = std::future::poll_fn(|context| stream.poll_capacity(context)) => granted,
        };
        let Some(Ok(granted)) = granted else { return sent };
        let now = next.split_to(granted.min(next.len()));
        sent += now.len();
        if stream.send_data(now, false).is_err() {
            return sent;
        }
        if next.is_empty() {
            next = Bytes::from(vec![0; part]);
        }
    }
    sent
}

#[tokio::test]
async fn a_message_that_says_it_is_huge_is_cut() {
    let worker = Worker::new(tight(), None).await;
    let most = 16 << 20;
    let huge = [START.to_be_bytes().as_slice(), &[0, 0], &u32::MAX.to_be_bytes()].concat();
    let commands = begin("inv", "gone", u64::from(u32::MAX), b"");
    for (first, part) in [(huge.as_slice(), 16 << 10), (&huge, 1), (&commands, 16 << 10)] {
        let sent = pour(&mut worker.client().await, first, part, most).await;
        assert!(sent < 2 << 20, "{sent} bytes were taken in parts of {part}");
    }
    // Of many at once, the sum is bounded: beside it, each connection has an unread window of 1 MiB.
    let worker = Worker::new(Limits { input_bytes: 64 << 20, ..tight() }, None).await;
    let mut pouring = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut client = worker.client().await;
        let huge = huge.clone();
        pouring.spawn(async move { pour(&mut client, &huge, 16 << 10, most).await });
    }
    let sent: usize = pouring.join_all().await.into_iter().sum();
    assert!(sent < 12 << 20, "{sent} bytes were taken");
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn invocations_beyond_the_bound_are_refused_and_silent_ones_end() {
    let worker = Worker::new(tight(), None).await;
    // Each connection has 16 streams, and there are places for 32 invocations.
    let mut held = Vec::new();
    for _ in 0..3 {
        let client = worker.client().await;
        for _ in 0..12 {
            held.push(open(client.clone()).await);
        }
    }
    let statuses: Vec<u16> = held.iter().map(|(status, ..)| *status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 32, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    // They have sent nothing, and give their places back.
    let given_back = async {
        while open(worker.client().await).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, given_back).await.expect("silent invocations keep their places");
    tokio::time::sleep(tight().first).await;
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn streams_that_are_reset_give_back_what_they_had() {
    let worker = Worker::new(tight(), None).await;
    let mut client = worker.client().await;
    for reset in 0..200 {
        let (status, next, mut stream) = open(client).await;
        assert_eq!(status, 200, "after {reset} that were reset");
        client = next;
        stream.send_reset(h2::Reason::CANCEL);
        // The place is free when the worker has read the reset.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // At once: either the connection is cut off, or nothing of them stays.
    for _ in 0..5_000 {
        let Ok(ready) = client.ready().await else { break };
        client = ready;
        let Ok((response, mut stream)) = client.send_request(turn(), false) else { break };
        drop(response);
        stream.send_reset(h2::Reason::CANCEL);
    }
    worker.serves_an_honest_turn("honest").await;
}

#[tokio::test]
async fn connections_over_which_nothing_is_asked_are_closed() {
    let worker = Worker::new(tight(), None).await;
    // Twice as many as there is room for: with a preface, without, and with what is no HTTP/2.
    let mut idle = Vec::new();
    for number in 0..16 {
        let mut stream = TcpStream::connect(worker.address).await.unwrap();
        let sent: &[u8] = match number % 3 {
            0 => b"",
            1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            _ => b"GET /discover HTTP/1.1\r\nhost: x\r\n\r\n",
        };
        stream.write_all(sent).await.unwrap();
        idle.push(stream);
    }
    worker.serves_an_honest_turn("honest").await;
    for mut stream in idle {
        // Each is closed, whatever came before.
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "an idle connection stays open");
    }
    worker.serves_an_honest_turn("honest-2").await;
}

#[tokio::test]
async fn headers_without_end_are_cut() {
    let worker = Worker::new(tight(), None).await;
    let long = "x".repeat(4 << 10);
    let headers: Vec<(String, &str)> = (0..64).map(|number| (format!("x-{number}"), long.as_str())).collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(worker.ask("/health", &headers[..2], b"").await.status, 200);
    assert_ne!(worker.ask("/health", &headers, b"").await.status, 200);
    worker.serves_an_honest_turn("honest").await;
}

/// A request as a server with this key signs it.
fn signed(key: &SigningKey, algorithm: &str, path: &str, ends_in: i64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let (begins, ends) = (now.min(now + ends_in) - 60, now + ends_in);
    let head = URL_SAFE_NO_PAD.encode(format!(r#"{{"typ":"JWT","alg":"{algorithm}"}}"#));
    let claims = format!(r#"{{"aud":"{path}","exp":{ends},"iat":{begins},"nbf":{begins}}}"#);
    let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = match algorithm {
        "none" => String::new(),
        _ => URL_SAFE_NO_PAD.encode(key.sign(text.as_bytes()).to_bytes()),
    };
    format!("{text}.{signature}")
}

#[tokio::test]
async fn with_an_identity_key_nothing_is_told_to_and_done_for_others() {
    let (key, other) = (SigningKey::from_bytes(&[7; 32]), SigningKey::from_bytes(&[8; 32]));
    let public = format!("publickeyv1_{}", bs58::encode(key.verifying_key().to_bytes()).into_string());
    let worker = Worker::new(tight(), Some(&public)).await;
    let run = worker.waiting("r").await;
    let before = worker.records(&run).await;
    let body = [start("inv", &run), input(b"")].concat();
    let path = "/invoke/OpcellRun/turn";
    let v1 = ("x-restate-signature-scheme", "v1");
    let jwt = "x-restate-jwt-v1";
    let kind = ("content-type", "application/vnd.restate.invocation.v5");
    let forged = [
        signed(&other, "EdDSA", path, 60),
        signed(&key, "none", path, 60),
        signed(&key, "HS256", path, 60),
        signed(&key, "EdDSA", "/discover", 60),
        // Seen on the wire, and sent again later.
        signed(&key, "EdDSA", path, -5),
        String::new(),
        "a.b.c".to_owned(),
        ".".repeat(8_000),
    ];
    for path in [path, SIGNAL, "/discover", "/health"] {
        let mut tries = vec![vec![kind], vec![kind, v1], vec![kind, ("x-restate-signature-scheme", "unsigned")]];
        // What is signed for another path is not taken for this one.
        tries.extend(forged.iter().filter(|_| path == TURN).map(|forged| vec![kind, v1, (jwt, forged.as_str())]));
        for headers in tries {
            let refused = worker.ask(path, &headers, &body).await;
            assert_eq!(refused.status, 401, "{path} {headers:?}: {refused:?}");
            assert!(!refused.has("OpcellRun"), "{path}: {refused:?}");
        }
    }
    assert_eq!(worker.records(&run).await, before);

    // They take no places of invocations, also when they send without end.
    for _ in 0..64 {
        let mut client = worker.client().await;
        let sent = pour(&mut client, b"", 16 << 10, 4 << 20).await;
        assert!(sent < 2 << 20, "{sent}");
    }
    let honest = signed(&key, "EdDSA", path, 60);
    let headers = [kind, v1, (jwt, honest.as_str())];
    let turned = worker.ask(path, &headers, &body).await;
    assert_eq!((turned.status, turned.kinds()), (200, vec![RUN, PROPOSE_RUN, SUSPENSION]), "{turned:?}");
}
