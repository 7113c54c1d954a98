//! The transport of `opcell mcp`: a message per line, or a list of them as revision 2025-03-26 has it.
//!
//! A line that is no message is answered as JSON-RPC says. Requests in work are bounded: a client that sends requests
//! and does not take the answers is not read any further, so that neither fills memory.

use super::params;
use opcell_schema::json::{repaired, values_in};
use opcell_types::value::{rounded_integer, rounded_message};
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{Mutex as AsyncMutex, Semaphore},
};

/// Requests that are worked on, or whose answers wait to be taken.
const MAX_REQUESTS: usize = 64;

/// Time that answers under way have when the client has closed its side.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Bytes of one line.
const MAX_LINE: usize = 16 << 20;

/// KiB of memory of the requests in work: a line of two bytes for each value takes a hundred times what it has.
const MAX_UNITS: usize = 128 << 10;

/// Bytes that a value takes beside its text.
const VALUE_BYTES: usize = 100;

/// The memory of a message, in KiB.
fn units_of(line: &[u8]) -> usize {
    let bytes = values_in(line).saturating_mul(VALUE_BYTES).saturating_add(line.len());
    (bytes >> 10).clamp(1, MAX_UNITS)
}

/// Reads requests and writes answers.
pub(super) struct Stdio<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// `true` if the line was refused before its end.
    skips: bool,
    pending: VecDeque<Pending>,
    out: Arc<Out<W>>,
}

/// A message that was read and is not passed on yet.
enum Pending {
    /// With the KiB that it takes while it is worked on.
    Message(Box<ClientJsonRpcMessage>, usize),
    Refusal(Json, Option<u64>),
}

/// The way out, and the bound of what is under way to it.
struct Out<W> {
    write: AsyncMutex<Option<W>>,
    room: Semaphore,
    /// KiB that requests in work may still take.
    units: Semaphore,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    requests: HashMap<RequestId, InWork>,
    /// Lists whose answers are not all there.
    batches: HashMap<u64, Batch>,
    last_batch: u64,
}

/// A request in work.
#[derive(Clone, Copy, Default)]
struct InWork {
    /// The list that it came in.
    batch: Option<u64>,
    /// KiB that it takes.
    units: usize,
}

struct Batch {
    missing: usize,
    answers: Vec<Json>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Stdio<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        let out = Out {
            write: AsyncMutex::new(Some(write)),
            room: Semaphore::new(MAX_REQUESTS),
            units: Semaphore::new(MAX_UNITS),
            open: Mutex::default(),
        };
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            skips: false,
            pending: VecDeque::new(),
            out: Arc::new(out),
        }
    }

    /// Takes in what there is. `false` at the end of the stream.
    async fn advance(&mut self) -> bool {
        let Ok(available) = self.read.fill_buf().await else { return false };
        if available.is_empty() {
            return false;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let (piece, taken) = match end {
            Some(end) => (available.get(..end).unwrap_or_default(), end + 1),
            None => (available, available.len()),
        };
        if !self.skips && self.line.len() + piece.len() > MAX_LINE {
            self.skips = true;
            self.line = Vec::new();
            let error = ErrorData::invalid_request(format!("a message has more than {MAX_LINE} bytes"), None);
            self.pending.push_back(Pending::Refusal(refusal(&Json::Null, &error), None));
        }
        if !self.skips {
            self.line.extend_from_slice(piece);
        }
        self.read.consume(taken);
        if end.is_some() && !std::mem::take(&mut self.skips) {
            let line = std::mem::take(&mut self.line);
            self.line_ended(&line);
        }
        true
    }

    fn line_ended(&mut self, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return;
        }
        // What a model wrote may have halves of characters: it is not refused for them.
        let read = opcell_schema::json::from_slice::<Json>(line);
        let read = read.or_else(|error| opcell_schema::json::from_slice(repaired(line).as_bytes()).map_err(|_| error));
        let message = match read {
            Ok(message) => message,
            Err(error) => {
                let text = format!("the message is not JSON: {error}");
                let error = ErrorData::parse_error(text, None);
                self.pending.push_back(Pending::Refusal(refusal(&Json::Null, &error), None));
                return;
            }
        };
        if let Some(place) = rounded_integer(line) {
            let digits = String::from_utf8_lossy(line.get(place).unwrap_or_default());
            let error = ErrorData::invalid_params(rounded_message(&digits), None);
            // An ID that is rounded is not the client's.
            let id = message.get("id").filter(|id| !id.is_f64()).cloned().unwrap_or_default();
            self.pending.push_back(Pending::Refusal(refusal(&id, &error), None));
            return;
        }
        let units = units_of(line);
        match message {
            Json::Array(batch) if batch.is_empty() || batch.len() > MAX_REQUESTS => {
                let text = format!("a list of messages has between 1 and {MAX_REQUESTS} of them");
                let error = ErrorData::invalid_request(text, None);
                self.pending.push_back(Pending::Refusal(refusal(&Json::Null, &error), None));
            }
            Json::Array(batch) => {
                let number = {
                    let mut open = self.out.open();
                    open.last_batch += 1;
                    let number = open.last_batch;
                    // One more, so that it does not end before it was read whole.
                    open.batches.insert(number, Batch { missing: 1, answers: Vec::new() });
                    number
                };
                let units = (units / batch.len()).max(1);
                for message in batch {
                    self.message(message, Some(number), units);
                }
                if let Some(answers) = self.out.open().lacks_one_less(number) {
                    self.out.clone().write_later(answers, false);
                }
            }
            message => self.message(message, None, units),
        }
    }

    fn message(&mut self, mut message: Json, batch: Option<u64>, units: usize) {
        let id = message.get("id").cloned().unwrap_or_default();
        params::complete(&mut message);
        // A message without a method is an answer, and answers get no reply.
        let has = |key: &str| message.get(key).is_some();
        let is_asked = has("id") || !(has("method") || has("result") || has("error"));
        // The library takes these for no request at all.
        if let Some(wrong) = params::not_an_object(&message).filter(|_| is_asked) {
            if let Some(batch) = batch {
                self.out.open().lacks_one_more(batch);
            }
            let error = ErrorData::invalid_params(wrong, None);
            self.pending.push_back(Pending::Refusal(refusal(&id, &error), batch));
            return;
        }
        let read = match serde_json::from_value::<ClientJsonRpcMessage>(message) {
            Ok(JsonRpcMessage::Request(request)) => match params::wrong_in(&request.request) {
                Some(wrong) => Err(ErrorData::invalid_params(wrong, None)),
                None if !self.out.open().begins(&request.id, InWork { batch, units }) => {
                    Err(ErrorData::invalid_request("a request of this ID is in work", None))
                }
                None => Ok(JsonRpcMessage::Request(request)),
            },
            Ok(message) => Ok(message),
            Err(_) => Err(ErrorData::invalid_request("this is not a JSON-RPC 2.0 request", None)),
        };
        match read {
            Ok(JsonRpcMessage::Notification(notification)) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // It is not answered.
                    self.out.clone().abandoned(id);
                }
                let message = JsonRpcMessage::Notification(notification);
                self.pending.push_back(Pending::Message(Box::new(message), 0));
            }
            Ok(message) => self.pending.push_back(Pending::Message(Box::new(message), units)),
            Err(error) if is_asked => {
                if let Some(batch) = batch {
                    self.out.open().lacks_one_more(batch);
                }
                self.pending.push_back(Pending::Refusal(refusal(&id, &error), batch));
            }
            Err(_) => tracing::debug!("a notification that is none is ignored"),
        }
    }
}

impl<R, W> Transport<RoleServer> for Stdio<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let out = self.out.clone();
        async move {
            let Some(id) = answered(&message) else { return out.write(&message).await };
            let alone = out.open().ends_alone(&id);
            if let Some(units) = alone {
                // A list of tools may have a megabyte: it becomes text at once.
                out.units.add_permits(units);
                let written = out.write(&message).await;
                out.room.add_permits(1);
                return written;
            }
            let message = serde_json::to_value(&message)?;
            let (ended, units) = out.open().ends(&id, message);
            out.units.add_permits(units);
            match ended {
                Ended::Unknown(message) => out.write(&message).await,
                Ended::Waits => {
                    out.room.add_permits(1);
                    Ok(())
                }
                Ended::Whole(message) => {
                    let written = out.write(&message).await;
                    out.room.add_permits(1);
                    written
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // Waiting is given up and resumed: what waits stays where it is until there is room.
            let takes_room = match self.pending.front() {
                None => None,
                Some(Pending::Message(message, units)) if matches!(**message, JsonRpcMessage::Request(_)) => {
                    Some((true, *units))
                }
                Some(Pending::Message(..)) => Some((false, 0)),
                Some(Pending::Refusal(..)) => Some((true, 0)),
            };
            let Some((takes_room, units)) = takes_room else {
                if self.advance().await {
                    continue;
                }
                let rest = std::mem::take(&mut self.line);
                if !self.skips {
                    self.line_ended(&rest);
                }
                if self.pending.is_empty() {
                    return None;
                }
                continue;
            };
            if takes_room {
                let room = self.out.room.acquire().await.ok()?;
                self.out.units.acquire_many(u32::try_from(units).unwrap_or(u32::MAX)).await.ok()?.forget();
                room.forget();
            }
            match self.pending.pop_front() {
                Some(Pending::Message(message, _)) => return Some(*message),
                Some(Pending::Refusal(refusal, batch)) => {
                    let whole = match batch {
                        None => Some(refusal),
                        Some(batch) => self.out.open().joins(batch, refusal),
                    };
                    match whole {
                        Some(message) => self.out.clone().write_later(message, true),
                        None => self.out.room.add_permits(1),
                    }
                }
                None => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // What is under way to a client that still reads gets there.
        let all = u32::try_from(MAX_REQUESTS).unwrap_or(u32::MAX);
        drop(tokio::time::timeout(LAST_ANSWERS, self.out.room.acquire_many(all)).await);
        drop(self.out.write.lock().await.take());
        Ok(())
    }
}

/// The end of a request.
enum Ended {
    /// It was not in work; with its answer.
    Unknown(Json),
    /// The rest of its list is missing.
    Waits,
    /// The text to write: an answer, or the answers of a list.
    Whole(Json),
}

impl Open {
    /// Notes a request; `false` where one of its ID is in work.
    fn begins(&mut self, id: &RequestId, work: InWork) -> bool {
        if self.requests.contains_key(id) {
            return false;
        }
        self.requests.insert(id.clone(), work);
        if let Some(batch) = work.batch {
            self.lacks_one_more(batch);
        }
        true
    }

    fn lacks_one_more(&mut self, batch: u64) {
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.missing += 1;
        }
    }

    /// Ends a request that came in no list; with the KiB that it took.
    fn ends_alone(&mut self, id: &RequestId) -> Option<usize> {
        self.requests.get(id).filter(|work| work.batch.is_none())?;
        self.requests.remove(id).map(|work| work.units)
    }

    /// Ends a request; with the KiB that it took.
    fn ends(&mut self, id: &RequestId, answer: Json) -> (Ended, usize) {
        match self.requests.remove(id) {
            None => (Ended::Unknown(answer), 0),
            Some(InWork { batch: None, units }) => (Ended::Whole(answer), units),
            Some(InWork { batch: Some(batch), units }) => {
                (self.joins(batch, answer).map_or(Ended::Waits, Ended::Whole), units)
            }
        }
    }

    /// Adds an answer to its list. The answers of the list, if they are all there.
    fn joins(&mut self, batch: u64, answer: Json) -> Option<Json> {
        self.batches.get_mut(&batch)?.answers.push(answer);
        self.lacks_one_less(batch)
    }

    fn lacks_one_less(&mut self, number: u64) -> Option<Json> {
        let batch = self.batches.get_mut(&number)?;
        batch.missing = batch.missing.saturating_sub(1);
        if batch.missing > 0 {
            return None;
        }
        let answers = self.batches.remove(&number)?.answers;
        // A list of notifications is not answered.
        (!answers.is_empty()).then_some(Json::Array(answers))
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Out<W> {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, message: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(message)?;
        text.push(b'\n');
        let mut write = self.write.lock().await;
        let Some(write) = write.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
        write.write_all(&text).await?;
        write.flush().await
    }

    /// Writes without keeping the reader: it took room for it, or there is no more than one such message per list.
    fn write_later(self: Arc<Self>, message: Json, frees: bool) {
        drop(tokio::spawn(async move {
            if self.write(&message).await.is_err() {
                tracing::debug!("the client takes no answers any more");
            }
            if frees {
                self.room.add_permits(1);
            }
        }));
    }

    /// A request that its client cancelled.
    fn abandoned(self: Arc<Self>, id: &RequestId) {
        let (known, whole) = {
            let mut open = self.open();
            let known = open.requests.remove(id);
            let whole = known.and_then(|work| work.batch).and_then(|batch| open.lacks_one_less(batch));
            (known, whole)
        };
        if let Some(work) = known {
            self.room.add_permits(1);
            self.units.add_permits(work.units);
        }
        if let Some(message) = whole {
            self.write_later(message, false);
        }
    }
}

fn answered(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}

fn refusal(id: &Json, error: &ErrorData) -> Json {
    let id = if id.is_string() || id.is_number() { id.clone() } else { Json::Null };
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    const PING: &str = r#"{"jsonrpc":"2.0","id":ID,"method":"ping"}"#;

    fn ping(id: usize) -> String {
        PING.replace("ID", &id.to_string())
    }

    /// A transport, what its client writes, and what it reads.
    fn pair() -> (Stdio<DuplexStream, DuplexStream>, DuplexStream, DuplexStream) {
        let ((read, client_writes), (write, client_reads)) = (duplex(1 << 20), duplex(64 << 10));
        (Stdio::new(read, write), client_writes, client_reads)
    }

    async fn said(client: &mut DuplexStream) -> Json {
        let mut line = Vec::new();
        loop {
            match client.read_u8().await.unwrap() {
                b'\n' => return serde_json::from_slice(&line).unwrap(),
                byte => line.push(byte),
            }
        }
    }

    /// A call of a tool with this many numbers, as a line.
    fn call(id: usize, numbers: usize) -> String {
        let numbers = "0,".repeat(numbers);
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{{"a":[{numbers}0]}}}}}}"#
        ) + "\n"
    }

    #[tokio::test]
    async fn requests_in_work_take_a_bounded_memory_together() {
        let (mut transport, mut client, mut answers) = pair();
        let writing = tokio::spawn(async move {
            for id in 0..3 {
                client.write_all(call(id, 900_000).as_bytes()).await.unwrap();
            }
            client
        });
        assert!(transport.receive().await.is_some());
        // The next one would take more than there is, and waits for the end of the first.
        let next = tokio::time::timeout(Duration::from_millis(300), transport.receive()).await;
        assert!(next.is_err(), "two requests of a hundred megabytes are in work");
        transport.send(done(0)).await.unwrap();
        assert_eq!(said(&mut answers).await["id"], 0);
        assert!(transport.receive().await.is_some());
        transport.send(done(1)).await.unwrap();
        assert!(transport.receive().await.is_some());
        drop(writing.await.unwrap());
    }

    #[tokio::test]
    async fn a_line_of_more_values_than_may_be_is_refused() {
        let (mut transport, mut client, mut answers) = pair();
        let writing = tokio::spawn(async move {
            client.write_all(call(7, 2_000_000).as_bytes()).await.unwrap();
            client
        });
        let reading = tokio::spawn(async move { transport.receive().await.is_some() });
        let refused = said(&mut answers).await;
        assert_eq!(refused["id"], Json::Null);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("more than 1048576 values"), "{message}");
        drop(writing.await.unwrap());
        assert!(!reading.await.unwrap());
    }

    fn done(id: i64) -> ServerJsonRpcMessage {
        let result = rmcp::model::ServerResult::empty(());
        JsonRpcMessage::response(result, rmcp::model::NumberOrString::Number(id))
    }

    #[tokio::test]
    async fn what_is_no_request_is_answered_as_json_rpc_says() {
        let (mut transport, mut writes, mut reads) = pair();
        let call = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        let table = [
            ("{".to_owned(), json!(null), -32700, "not JSON"),
            ("{\"a\": NaN}".to_owned(), json!(null), -32700, "not JSON"),
            ("7".to_owned(), json!(null), -32600, "not a JSON-RPC 2.0 request"),
            ("{}".to_owned(), json!(null), -32600, "not a JSON-RPC 2.0 request"),
            (
                r#"{"jsonrpc":"2.0","id":123456789012345678901,"method":"ping"}"#.to_owned(),
                json!(null),
                -32602,
                "would be rounded",
            ),
            ("[]".to_owned(), json!(null), -32600, "between 1 and 64"),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_owned(),
                json!(null),
                -32600,
                "not a JSON-RPC 2.0 request",
            ),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#.to_owned(), json!(7), -32600, "not a JSON-RPC 2.0 request"),
            (call(r#"{"name":"t","arguments":"{}"}"#), json!(7), -32602, "must be an object, not a string"),
            (call(r#"{"name":"t","arguments":[]}"#), json!(7), -32602, "must be an object, not an array"),
            (call(r#"{"arguments":{}}"#), json!(7), -32602, "tools/call needs `name`, which must be a string"),
            (call("[1]"), json!(7), -32602, "must be an object, not an array"),
            (call(r#"{"name":"t","arguments":{"id":123456789012345678901}}"#), json!(7), -32602, "would be rounded"),
        ];
        let mut expected = Vec::new();
        for (line, id, code, words) in table {
            writes.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            expected.push((line, id, code, words));
        }
        writes.write_all(format!("{}\n", ping(1)).as_bytes()).await.unwrap();
        assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
        for (line, id, code, words) in expected {
            let answer = said(&mut reads).await;
            assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&id, Some(code)), "{line}: {answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{line}: {answer}");
        }
    }

    #[tokio::test]
    async fn half_a_character_is_repaired_and_a_handshake_of_few_words_is_one() {
        let (mut transport, mut writes, _reads) = pair();
        let half =
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"\ud83d"}}}"#;
        let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"\xe9\"}}";
        let hello = br#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":null}}"#;
        for line in [half.as_slice(), bytes, hello] {
            writes.write_all(&[line, b"\n"].concat()).await.unwrap();
        }
        for id in 1..=3 {
            let Some(JsonRpcMessage::Request(request)) = transport.receive().await else { panic!("no request {id}") };
            assert_eq!(request.id, rmcp::model::NumberOrString::Number(id));
            let is_handshake = matches!(request.request, rmcp::model::ClientRequest::InitializeRequest(_));
            assert_eq!(is_handshake, id == 3);
        }
    }

    #[tokio::test]
    async fn a_list_is_answered_by_a_list() {
        let (mut transport, mut writes, mut reads) = pair();
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let list = format!("[{},{told},7,{}]\n[{told}]\n", ping(1), ping(2));
        writes.write_all(list.as_bytes()).await.unwrap();
        drop(writes);
        let mut requests = 0;
        while let Some(message) = transport.receive().await {
            requests += usize::from(matches!(message, JsonRpcMessage::Request(_)));
        }
        assert_eq!(requests, 2);
        transport.send(done(2)).await.unwrap();
        transport.send(done(1)).await.unwrap();
        let answers = said(&mut reads).await;
        let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids, [Json::Null, json!(2), json!(1)]);
    }

    #[tokio::test]
    async fn a_client_that_takes_no_answers_is_not_read_any_further() {
        let (mut transport, mut writes, mut reads) = pair();
        let lines: String = (0..200).map(|id| ping(id) + "\n").collect();
        writes.write_all(lines.as_bytes()).await.unwrap();
        for _ in 0..MAX_REQUESTS {
            transport.receive().await.unwrap();
        }
        let more = |transport: &mut Stdio<DuplexStream, DuplexStream>| {
            futures_util::FutureExt::now_or_never(transport.receive()).flatten()
        };
        assert!(more(&mut transport).is_none(), "a request too many is in work");
        transport.send(done(0)).await.unwrap();
        assert_eq!(said(&mut reads).await["id"], 0);
        assert!(more(&mut transport).is_some());
        assert!(more(&mut transport).is_none());
        // One that is cancelled makes room as well, and an ID that is in work is not taken again.
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        transport.line_ended(cancel.as_bytes());
        assert!(more(&mut transport).is_some());
        transport.line_ended(ping(2).as_bytes());
        assert!(matches!(transport.pending.back(), Some(Pending::Refusal(..))));
    }
}
