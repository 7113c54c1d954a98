//! The messages of a server, read leniently before the protocol's library sees them.
//!
//! The library drops or misreads what bends its types: a result with an unknown block, `"error": null` beside a result,
//! a batch. Here each text becomes messages that it surely understands: an answer is passed on as a sealed [`Answer`],
//! whatever is in it, and is opened by whoever asked. What cannot be read ends the request that it answers, at once and
//! with a sentence.

mod messages;

use super::{
    headers::ParamHeader,
    jsonish::{Outline, says},
    offers::Announced,
    repair::{documents, parse},
};
use messages::{discovered, initialized, notification, own_id, refuses_revision, request};
pub(super) use messages::{error_text, kind};
use opcell_types::{
    ProgressLog,
    text::{one_line, printable},
};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomResult, ErrorCode, ErrorData, GetExtensions,
    GetMeta, JsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde_json::{Map, Value as Json, json};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Notify;

/// Messages of one batch that are read.
const MAX_BATCH: usize = 1_000;

/// Bytes of a text of the server that a sentence repeats.
const QUOTED_BYTES: usize = 200;

/// The notification by which either side gives a request up.
const CANCELLED: &str = "notifications/cancelled";

/// The notification by which a server tells the progress of a request.
const PROGRESS: &str = "notifications/progress";

/// The revision that begins with `server/discover` and has no handshake.
pub(super) const CURRENT_VERSION: &str = "2026-07-28";

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// With a result, as it was sent.
    Result(Json),
    /// With an error of JSON-RPC, as it was sent.
    Error(Json),
    /// With a refusal beside the protocol, such as a status of HTTP; the sentence begins with a lower-case letter.
    Refused {
        why: String,
        /// `true` if it may do it later.
        retriable: bool,
    },
    /// With something that is no answer; the sentence says why. It begins with a lower-case letter.
    Unreadable(String),
    /// Not at all: the sentence says what happened to the connection.
    Lost(String),
}

impl Answer {
    /// Takes an answer out of what the library passed on.
    pub(super) fn open(result: ServerResult) -> Self {
        let sealed = match result {
            ServerResult::CustomResult(CustomResult(Json::String(text))) => serde_json::from_str(&text).ok(),
            ServerResult::CustomResult(CustomResult(sealed)) => Some(sealed),
            _ => None,
        };
        let mut sealed = match sealed {
            Some(Json::Object(entries)) => entries,
            _ => Map::new(),
        };
        let text = |value: Json| value.as_str().unwrap_or_default().to_owned();
        if let Some(result) = sealed.remove("result") {
            Self::Result(result)
        } else if let Some(error) = sealed.remove("error") {
            Self::Error(error)
        } else if let Some(why) = sealed.remove("refused") {
            Self::Refused { why: text(why), retriable: sealed.remove("retriable") == Some(Json::Bool(true)) }
        } else if let Some(why) = sealed.remove("lost") {
            Self::Lost(text(why))
        } else {
            Self::Unreadable(sealed.remove("unreadable").map(text).unwrap_or_else(|| "its answer is empty".to_owned()))
        }
    }

    fn seal(self) -> Json {
        match self {
            Self::Result(result) => json!({"result": result}),
            Self::Error(error) => json!({"error": error}),
            Self::Refused { why, retriable } => json!({"refused": why, "retriable": retriable}),
            Self::Unreadable(why) => json!({"unreadable": why}),
            Self::Lost(why) => json!({"lost": why}),
        }
    }
}

/// The state of one connection: its requests, and the text that it could not read.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// `true` if messages are written as text again before the library reads them. Only a result that is a text is taken
    /// for none of its own types then.
    as_text: bool,
    state: Mutex<State>,
    /// Tells that discovery was answered after its time.
    late: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashSet<RequestId>,
    handshake: Option<RequestId>,
    /// The request to discover what the server speaks, which precedes the handshake.
    discovery: Option<RequestId>,
    /// The answer to discovery of a server that takes whatever comes first for the handshake: it answers no second one.
    opening: Option<Json>,
    /// The server speaks the current revision: it answered discovery after its time, or refused the handshake with that
    /// revision's name.
    speaks_current: bool,
    /// Discovery was not answered in its time.
    undiscovered: bool,
    /// Why the handshake failed, if the answer to it could not be read or did not come.
    trouble: Option<String>,
    /// The last line that was not understood.
    unread: Option<String>,
    /// The server's refusal of a session that it had given.
    session_lost: Option<String>,
    /// Why this side ended the connection.
    ended: Option<String>,
    /// The revision was refused once, and asked for again.
    asked_again: bool,
    /// The server says that it has resources, and prompts.
    announced: Announced,
    /// The arguments of tools that are sent as headers as well.
    params: HashMap<String, Arc<[ParamHeader]>>,
    /// Requests without an answer whose progress someone watches: the token that the server names, and where it is told.
    watched: HashMap<RequestId, (NumberOrString, ProgressLog)>,
}

impl State {
    /// Returns `true` if a request had no answer yet: it is no longer waited for, and told no progress of.
    fn take(&mut self, id: &RequestId) -> bool {
        drop(self.watched.remove(id));
        self.waiting.remove(id)
    }
}

impl Wire {
    /// For a transport that passes messages on as they are.
    pub(super) fn of_messages() -> Self {
        Self::default()
    }

    /// For a transport that passes messages on as text.
    #[cfg(feature = "http")]
    pub(super) fn of_texts() -> Self {
        Self { as_text: true, ..Self::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is sent: only what was asked for is answered.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let mut state = self.state();
                state.waiting.insert(request.id.clone());
                if let Some(log) = request.request.extensions().get::<ProgressLog>()
                    && let Some(token) = request.request.get_meta().get_progress_token()
                {
                    state.watched.insert(request.id.clone(), (token.0, log.clone()));
                }
                match request.request {
                    ClientRequest::InitializeRequest(_) => {
                        state.handshake = Some(request.id.clone());
                        state.session_lost = None;
                    }
                    ClientRequest::DiscoverRequest(_) => state.discovery = Some(request.id.clone()),
                    _ => {}
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.state().take(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// The answer to the handshake of a server that gave it to the request before.
    pub(super) fn take_opening(&self) -> Option<Json> {
        self.state().opening.take()
    }

    /// Takes back a request that could not be sent.
    pub(super) fn not_sent(&self, id: &RequestId) {
        self.state().take(id);
    }

    /// `true` if a request has no answer yet.
    pub(super) fn is_waiting(&self, id: &RequestId) -> bool {
        self.state().waiting.contains(id)
    }

    /// The only request without an answer, if there is exactly one.
    pub(super) fn only_waiting(&self) -> Option<RequestId> {
        let state = self.state();
        let mut waiting = state.waiting.iter();
        waiting.next().cloned().filter(|_| waiting.next().is_none())
    }

    /// Every request without an answer.
    pub(super) fn all_waiting(&self) -> Vec<RequestId> {
        self.state().waiting.iter().cloned().collect()
    }

    /// Why the handshake failed, where it is known.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// Returns `true` if a request begins a connection and has no answer yet.
    #[cfg(feature = "http")]
    pub(super) fn is_opening(&self, id: &RequestId) -> bool {
        let state = self.state();
        state.waiting.contains(id) && [&state.handshake, &state.discovery].contains(&&Some(id.clone()))
    }

    /// Notes that the server refuses the session; with a sentence that begins after its name.
    #[cfg(feature = "http")]
    pub(super) fn session_lost(&self, what: String) {
        self.state().session_lost = Some(what);
    }

    /// The server's refusal of a session and of the one after it; else why that one did not begin.
    pub(super) fn lost(&self) -> Option<String> {
        let state = self.state();
        state.session_lost.clone().or_else(|| state.trouble.as_ref().map(|why| format!("has lost the session: {why}")))
    }

    /// Returns `true` if arguments can be sent as headers.
    pub(super) fn has_headers(&self) -> bool {
        self.as_text
    }

    /// Notes the arguments that are sent as headers, by the names of their tools.
    pub(super) fn send_params(&self, params: HashMap<String, Arc<[ParamHeader]>>) {
        self.state().params = params;
    }

    /// The arguments of a tool that are sent as headers.
    #[cfg(feature = "http")]
    pub(super) fn params_of(&self, tool: &str) -> Option<Arc<[ParamHeader]>> {
        self.state().params.get(tool).cloned()
    }

    /// The capabilities that the server announced when the connection began.
    pub(super) fn announced(&self) -> Announced {
        self.state().announced
    }

    /// Notes why this side ends the connection.
    pub(super) fn end(&self, why: &str) {
        self.state().ended = Some(why.to_owned());
    }

    /// Why this side ended the connection, if it did.
    pub(super) fn ended(&self) -> Option<String> {
        self.state().ended.clone()
    }

    /// Notes a line that was not understood.
    pub(super) fn not_understood(&self, line: &[u8]) {
        let shown =
            one_line(String::from_utf8_lossy(line.get(..QUOTED_BYTES * 4).unwrap_or(line)).trim(), QUOTED_BYTES);
        self.state().unread = Some(shown);
    }

    /// The last line that was not understood, as the end of a message.
    pub(super) fn last_unread(&self) -> String {
        let state = self.state();
        let said =
            state.unread.as_ref().map(|line| format!("; the last that it wrote and was not understood: `{line}`"));
        said.unwrap_or_default()
    }

    /// The messages in a text. `of` is the request that the text answers, where that is known.
    ///
    /// # Errors
    /// When the text is not JSON; with what is wrong, as the end of a sentence.
    pub(super) fn read(&self, text: &[u8], of: Option<&RequestId>) -> Result<Vec<ServerJsonRpcMessage>, String> {
        Ok(self.messages(vec![parse(text)?], of))
    }

    /// The messages in a text that is not one document of JSON: several that follow each other, or answers and
    /// notifications among other words. A request among other words is the log of one, and is not answered.
    pub(super) fn read_within(&self, text: &[u8], of: Option<&RequestId>) -> Option<Vec<ServerJsonRpcMessage>> {
        let found = documents(text)?;
        let mut messages = self.messages(found.values, of);
        if !found.alone {
            messages.retain(|message| !matches!(message, JsonRpcMessage::Request(_)));
        }
        (found.alone || !messages.is_empty()).then_some(messages)
    }

    fn messages(&self, documents: Vec<Json>, of: Option<&RequestId>) -> Vec<ServerJsonRpcMessage> {
        let mut messages = Vec::new();
        for document in documents {
            match document {
                Json::Array(batch) => {
                    for message in batch.into_iter().take(MAX_BATCH) {
                        self.message(message, of, &mut messages);
                    }
                }
                message => self.message(message, of, &mut messages),
            }
        }
        messages
    }

    fn message(&self, message: Json, of: Option<&RequestId>, messages: &mut Vec<ServerJsonRpcMessage>) {
        let Json::Object(mut entries) = message else {
            self.not_understood(message.to_string().as_bytes());
            return;
        };
        let id = entries.remove("id").filter(|id| !id.is_null());
        let (result, error) = (entries.remove("result"), entries.remove("error"));
        // Answers also name the method that they answer, or an empty one.
        let is_answered = result.as_ref().is_some_and(|result| !result.is_null()) || error.as_ref().is_some_and(says);
        if let Some(Json::String(method)) = entries.remove("method")
            && !method.is_empty()
            && !is_answered
        {
            let params = entries.remove("params").filter(|params| params.is_object());
            match id.map(|id| (own_id(&id), id)) {
                Some((Some(id), _)) => messages.push(request(method, params, id)),
                Some((None, id)) => self.not_understood(format!("a request of the id {id}").as_bytes()),
                // The library would begin a task for each, in any order, and pass them on to nothing.
                None if method == PROGRESS => self.progressed(params.as_ref()),
                None => {
                    messages
                        .extend(params.as_ref().filter(|_| method == CANCELLED).and_then(|told| self.cancelled(told)));
                    messages.push(notification(method, params));
                }
            }
            return;
        }
        let is_object = result.as_ref().is_some_and(Json::is_object);
        let answer = match (result, error) {
            (_, Some(error)) if says(&error) => Answer::Error(error),
            (Some(result), _) => Answer::Result(result),
            (None, Some(error)) => Answer::Error(error),
            (None, None) => Answer::Unreadable("its answer has neither `result` nor `error`".to_owned()),
        };
        // Servers also print lines of logs, which may have an ID or an error of their own.
        let names_protocol = entries.contains_key("jsonrpc");
        let is_bare = entries.values().all(Json::is_null);
        let is_answer = match (&answer, &id) {
            (Answer::Unreadable(_), _) => names_protocol,
            (_, Some(_)) => names_protocol || is_bare || is_object || of.is_some(),
            (_, None) => names_protocol || of.is_some(),
        };
        match self.addressee(id.as_ref(), of) {
            Some(id) if is_answer => messages.extend(self.answer(&id, answer)),
            // Of a request that was given up, or was answered before.
            _ if is_answer && id.is_some() => self.late(id.as_ref(), &answer),
            _ => self.not_understood(Json::Object(entries).to_string().as_bytes()),
        }
    }

    /// Notes an answer to discovery that comes after its time, and drops any other one.
    fn late(&self, id: Option<&Json>, answer: &Answer) {
        let mut state = self.state();
        if let Answer::Result(result) = answer
            && state.discovery.is_some()
            && id.and_then(own_id) == state.discovery
            && discovered(result).is_ok()
        {
            state.speaks_current = true;
            self.late.notify_one();
        } else {
            tracing::debug!("an MCP server answers what nothing waits for");
        }
    }

    /// Waits until discovery is answered after its time.
    pub(super) async fn spoke_late(&self) {
        self.late.notified().await;
    }

    /// The end of the time of discovery: the server gets the handshake. Nothing for one that was answered.
    pub(super) fn undiscovered(&self, id: &RequestId) -> Option<ServerJsonRpcMessage> {
        // A server of an earlier revision may take no notice of a method that it does not know.
        let message = self.answer(id, Answer::Lost("it did not answer `server/discover`".to_owned()))?;
        self.state().undiscovered = true;
        Some(message)
    }

    /// Returns `true` if discovery was not answered in its time.
    #[cfg(feature = "http")]
    pub(super) fn is_undiscovered(&self) -> bool {
        self.state().undiscovered
    }

    /// Returns `true` if the server refused a handshake and speaks the current revision, which has none.
    pub(super) fn speaks_current(&self) -> bool {
        self.state().speaks_current
    }

    /// Tells the progress of a request that is watched, and drops any other.
    fn progressed(&self, told: Option<&Json>) {
        let Some(told) = told else { return };
        let Some(token) = told.get("progressToken").and_then(own_id) else { return };
        let Some(done) = told.get("progress").and_then(Json::as_f64) else { return };
        let log = self.state().watched.values().find(|(known, _)| *known == token).map(|(_, log)| log.clone());
        // Without the lock: a sink is not this crate's.
        if let Some(log) = log {
            let message = told.get("message").and_then(Json::as_str).unwrap_or_default();
            log.report(done, told.get("total").and_then(Json::as_f64), message);
        }
    }

    /// The end of a request that the server cancels.
    fn cancelled(&self, told: &Json) -> Option<ServerJsonRpcMessage> {
        let id = self.addressee(Some(told.get("requestId").filter(|id| !id.is_null())?), None)?;
        let reason = told.get("reason").and_then(Json::as_str).map(|reason| printable(reason.trim(), QUOTED_BYTES));
        let reason = reason.filter(|reason| !reason.is_empty()).map(|reason| format!(": {reason}"));
        let why = format!("it cancelled the request{}", reason.unwrap_or_default());
        self.answer(&id, Answer::Refused { why, retriable: true })
    }

    /// The request that an answer of this id is for. An answer without an id is for the only one that waits.
    fn addressee(&self, id: Option<&Json>, of: Option<&RequestId>) -> Option<RequestId> {
        match id {
            None => of.cloned().or_else(|| self.only_waiting()),
            Some(id) => {
                let text = id.as_str().and_then(|text| text.parse().ok()).map(NumberOrString::Number);
                own_id(id).into_iter().chain(text).find(|id| self.is_waiting(id))
            }
        }
    }

    /// The request that a text is meant to answer which is not JSON, or is too long to be read.
    pub(super) fn addressee_of(&self, outline: &Outline) -> Option<RequestId> {
        if outline.is_request() {
            return None;
        }
        match outline.id() {
            Some(id) => self.addressee(serde_json::from_str(id).ok().as_ref(), None),
            None => self.only_waiting().filter(|_| outline.is_message()),
        }
    }

    /// An answer as the library takes it; nothing for a request that was answered before.
    pub(super) fn answer(&self, id: &RequestId, answer: Answer) -> Option<ServerJsonRpcMessage> {
        let mut state = self.state();
        if !state.take(id) {
            return None;
        }
        if state.discovery.as_ref() == Some(id) {
            let found = match answer {
                Answer::Error(error) if refuses_revision(&error) && !state.asked_again => {
                    state.asked_again = true;
                    // The library asks once more.
                    let supported = json!({"supported": [CURRENT_VERSION]});
                    let text = error_text(&error, 500);
                    let error = ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, text, Some(supported));
                    return Some(JsonRpcMessage::error(error, Some(id.clone())));
                }
                Answer::Result(result) => {
                    state.announced = Announced::in_result(&result);
                    discovered(&result).inspect_err(|_| {
                        let is_handshake = result.get("protocolVersion").is_some_and(Json::is_string);
                        state.opening = is_handshake.then_some(result);
                    })
                }
                Answer::Error(error) => Err(error_text(&error, 500)),
                Answer::Unreadable(why) | Answer::Refused { why, .. } | Answer::Lost(why) => Err(why),
            };
            // Whatever else it answers, it does not speak a revision that begins this way.
            return Some(match found {
                Ok(result) => JsonRpcMessage::response(result, id.clone()),
                Err(why) => {
                    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
                    JsonRpcMessage::error(error, Some(id.clone()))
                }
            });
        }
        if state.handshake.as_ref() == Some(id) {
            let message = match answer {
                Answer::Result(result) => match initialized(&result) {
                    Ok(known) => {
                        state.announced = Announced::in_result(&result);
                        return Some(JsonRpcMessage::response(known, id.clone()));
                    }
                    Err(why) => why,
                },
                Answer::Error(error) => {
                    state.speaks_current |= refuses_revision(&error);
                    format!("it answered `initialize` with an error: {}", error_text(&error, 500))
                }
                Answer::Unreadable(why) | Answer::Refused { why, .. } | Answer::Lost(why) => why,
            };
            state.trouble = Some(message.clone());
            return Some(JsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id.clone())));
        }
        let sealed = answer.seal();
        let sealed = if self.as_text { Json::String(sealed.to_string()) } else { sealed };
        Some(JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(sealed)), id.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ServerNotification;
    use rmcp::model::{CallToolRequest, CallToolRequestParams};

    fn asked(wire: &Wire, id: i64) {
        let params = CallToolRequestParams::new("t".to_owned());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        wire.sent(&JsonRpcMessage::request(request, NumberOrString::Number(id)));
    }

    /// The answer to request 3, beside which request 4 waits.
    fn answer(text: &str) -> Option<Answer> {
        let wire = Wire::of_messages();
        asked(&wire, 3);
        asked(&wire, 4);
        let mut messages = wire.read(text.as_bytes(), None).ok()?.into_iter();
        match messages.next()? {
            JsonRpcMessage::Response(response) if response.id == NumberOrString::Number(3) => {
                Some(Answer::open(response.result))
            }
            _ => None,
        }
    }

    #[test]
    fn an_answer_is_found_whatever_is_odd_about_its_frame() {
        let done = Some(Answer::Result(json!("done")));
        for text in [
            r#"{"jsonrpc":"2.0","id":3,"result":"done"}"#,
            r#"{"id":3,"result":"done"}"#,
            r#"{"jsonrpc":"2.0","id":"3","result":"done","error":null}"#,
            r#"{"jsonrpc":"2.0","id":3.0,"result":"done","error":{}}"#,
            r#"[{"jsonrpc":"2.0","id":3,"result":"done"}]"#,
            r#"{"jsonrpc":"2.0","id":3,"method":null,"result":"done"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"","result":"done"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","result":"done"}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":"done","error":{"code":0,"message":"","data":null}}"#,
        ] {
            assert_eq!(answer(text), done, "{text}");
        }
        for text in [
            r#"{"id":5,"result":1}"#,
            r#"{"id":null,"result":1}"#,
            "7",
            "[]",
            r#"{"id":[3],"result":1}"#,
            r#"{"id":3}"#,
            r#"{"id":3,"level":"error","error":"retrying"}"#,
            r#"{"id":3,"level":"info","result":"ok"}"#,
        ] {
            assert_eq!(answer(text), None, "{text}");
        }
        assert_eq!(answer(r#"{"id":3,"ms":7,"result":{}}"#), Some(Answer::Result(json!({}))));
        assert_eq!(answer(r#"{"id":3,"result":null}"#), Some(Answer::Result(Json::Null)));
        assert_eq!(answer(r#"{"id":3,"error":"no","result":null}"#), Some(Answer::Error(json!("no"))));
        assert!(matches!(answer(r#"{"jsonrpc":"2.0","id":3}"#), Some(Answer::Unreadable(_))));
    }

    #[test]
    fn an_answer_survives_the_way_as_text() {
        let wire = Wire { as_text: true, ..Wire::default() };
        asked(&wire, 3);
        let said = json!({"tools": [], "nextCursor": null, "resultType": "complete", "content": [{"type": "video"}]});
        let text = json!({"id": 3, "result": said}).to_string();
        let message = wire.read(text.as_bytes(), None).unwrap().remove(0);
        let again: ServerJsonRpcMessage = serde_json::from_str(&serde_json::to_string(&message).unwrap()).unwrap();
        let JsonRpcMessage::Response(response) = again else { panic!("{again:?}") };
        assert_eq!(Answer::open(response.result), Answer::Result(said));
    }

    #[test]
    fn requests_and_notifications_of_the_server_are_passed_on_whatever_their_parameters_are() {
        let wire = Wire::of_messages();
        for text in [
            r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}"#,
            r#"{"id":1,"method":"sampling/createMessage","params":{"odd":1}}"#,
            r#"{"id":1,"method":"vendor/thing","params":7}"#,
        ] {
            let message = wire.read(text.as_bytes(), None).unwrap().remove(0);
            assert!(matches!(message, JsonRpcMessage::Request(_)), "{text}");
        }
        let changed = r#"{"method":"notifications/tools/list_changed","params":[],"id":null}"#;
        let JsonRpcMessage::Notification(changed) = wire.read(changed.as_bytes(), None).unwrap().remove(0) else {
            panic!("no notification")
        };
        assert!(matches!(changed.notification, ServerNotification::ToolListChangedNotification(_)));
    }

    #[test]
    fn a_request_that_the_server_cancels_ends_with_its_reason_and_another_does_not() {
        let wire = Wire::of_messages();
        asked(&wire, 3);
        let cancels = |id: i64| {
            let told = json!({"method": CANCELLED, "params": {"requestId": id, "reason": "shutting down"}}).to_string();
            wire.read(told.as_bytes(), None).unwrap()
        };
        assert_eq!(cancels(4).len(), 1, "the notification alone");
        let JsonRpcMessage::Response(ended) = cancels(3).remove(0) else { panic!("no answer") };
        let why = "it cancelled the request: shutting down".to_owned();
        assert_eq!(Answer::open(ended.result), Answer::Refused { why, retriable: true });
    }

    #[test]
    fn a_request_among_other_words_is_none() {
        let wire = Wire::of_messages();
        asked(&wire, 3);
        let log = r#"received {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}"#;
        assert!(wire.read_within(log.as_bytes(), None).is_none());
        let answered = wire.read_within(br#"10%{"jsonrpc":"2.0","id":3,"result":{}}"#, None);
        assert_eq!(answered.map(|messages| messages.len()), Some(1));
    }

    #[test]
    fn an_error_says_its_message_and_its_data() {
        for (error, said) in [
            (json!({"code": -1, "message": "no", "data": {"why": "quota"}}), r#"no: {"why":"quota"}"#),
            (json!({"code": -1, "message": "no: quota", "data": "quota"}), "no: quota"),
            (json!({"message": "", "data": "quota"}), "quota"),
            (json!({"code": -1}), r#"{"code":-1}"#),
            (json!("no"), "no"),
        ] {
            assert_eq!(error_text(&error, 100), said);
        }
    }
}
