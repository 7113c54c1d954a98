//! Messages in one list, as revision 2025-03-26 of the protocol has them. The protocol's half takes them one by one.

#![allow(clippy::indexing_slicing, reason = "an absent member of a `serde_json::Value` reads as null and never panics")]

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
        request::Parts,
    },
    response::Response,
};
use futures_util::StreamExt as _;
use rmcp::ErrorData;
use serde_json::{Value as Json, json};
use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Messages of one list.
const MAX_MESSAGES: usize = 64;

/// Bytes of all answers to one list.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The list that a body is, if it is one.
///
/// # Errors
/// With the answer to a list that cannot be taken.
pub(super) fn of(body: &[u8], has_session: bool) -> Result<Option<Vec<Json>>, ErrorData> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        return Ok(None);
    }
    let Ok(Json::Array(messages)) = serde_json::from_slice(body) else { return Ok(None) };
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        let text = format!("a list of messages has between 1 and {MAX_MESSAGES} of them");
        return Err(ErrorData::invalid_request(text, None));
    }
    if !has_session {
        let text = "a list of messages belongs to a session: send `initialize` alone first";
        return Err(ErrorData::invalid_request(text, None));
    }
    Ok(Some(messages))
}

/// The treatment of a message.
enum Part {
    /// Nothing is answered.
    Silent,
    Answer(Json),
    /// It was not handed on.
    Wrong(Json),
    /// The protocol's half refused it as HTTP does; with the refusal of a request.
    Refused(Option<Json>, Response),
}

/// Hands on every message, in order, and answers with the list of the answers.
pub(super) async fn answer<F>(parts: &Parts, messages: Vec<Json>, handle: impl Fn(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let mut seen = HashSet::new();
    let mut begun = Vec::new();
    for message in messages {
        let response = match wrong(&message, &mut seen) {
            Some(why) => Err(refusal(&message, &ErrorData::invalid_request(why, None))),
            None => Ok(handle(request(parts, &message)).await),
        };
        begun.push((message, response));
    }
    let room = AtomicUsize::new(MAX_ANSWER_BYTES);
    let mut work = Vec::new();
    for (message, response) in begun {
        work.push(collect(message, response, &room));
    }
    let done = futures_util::future::join_all(work).await;
    let mut answers = Vec::new();
    let mut refused = None;
    let mut is_taken = false;
    for part in done {
        match part {
            Part::Silent => is_taken = true,
            Part::Answer(answer) => {
                is_taken = true;
                answers.push(answer);
            }
            Part::Wrong(refusal) => answers.push(refusal),
            Part::Refused(refusal, response) => {
                answers.extend(refusal);
                refused.get_or_insert(response);
            }
        }
    }
    // A session that is over, or a header that is missing, concerns all of them.
    if let Some(response) = refused.filter(|_| !is_taken) {
        return response;
    }
    if answers.is_empty() {
        return Response::builder().status(StatusCode::ACCEPTED).body(Body::empty()).unwrap_or_default();
    }
    let answer = Response::builder().header(CONTENT_TYPE, "application/json");
    answer.body(Body::from(Json::Array(answers).to_string())).unwrap_or_default()
}

/// The reason for which an entry of a list is not handed on.
fn wrong(message: &Json, seen: &mut HashSet<String>) -> Option<&'static str> {
    if !message.is_object() {
        return Some("this is not a JSON-RPC 2.0 request");
    }
    if message["method"] == "initialize" {
        return Some("`initialize` is sent alone, and not in a list");
    }
    let is_repeated = is_request(message) && !seen.insert(message["id"].to_string());
    is_repeated.then_some("a request of this ID is in the list already")
}

fn is_request(message: &Json) -> bool {
    message["method"].is_string() && message.get("id").is_some_and(|id| !id.is_null())
}

/// A message of a list as a request of its own.
fn request(parts: &Parts, message: &Json) -> Request {
    let mut request = Request::new(Body::from(message.to_string()));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    *request.extensions_mut() = parts.extensions.clone();
    request.headers_mut().remove(CONTENT_LENGTH);
    request
}

/// Reads the answer to a message out of the response to it.
async fn collect(message: Json, response: Result<Response, Json>, room: &AtomicUsize) -> Part {
    let response = match response {
        Ok(response) => response,
        Err(refusal) => return Part::Wrong(refusal),
    };
    if !is_request(&message) {
        return match response.status().is_success() {
            true => Part::Silent,
            false => Part::Refused(None, response),
        };
    }
    let (head, body) = response.into_parts();
    let mut pieces = body.into_data_stream();
    let (mut text, mut scanned): (Vec<u8>, usize) = (Vec::new(), 0);
    while let Some(Ok(piece)) = pieces.next().await {
        if !takes(room, piece.len()) {
            let why = format!(
                "the answers to a list of messages have at most {MAX_ANSWER_BYTES} bytes, and this one is beyond that"
            );
            return Part::Answer(refusal(&message, &ErrorData::internal_error(why, None)));
        }
        text.extend_from_slice(&piece);
        // A stream of events may stay open after the answer. No line is looked at twice.
        let Some(end) = text.iter().rposition(|byte| *byte == b'\n').filter(|end| *end >= scanned) else { continue };
        if let Some(answer) = event_in(text.get(scanned..end).unwrap_or_default(), &message["id"]) {
            return Part::Answer(answer);
        }
        scanned = end + 1;
    }
    let rest = text.get(scanned..).unwrap_or_default();
    let whole = serde_json::from_slice(&text).ok().filter(|whole| is_answer(whole, &message["id"]));
    if let Some(answer) = whole.or_else(|| event_in(rest, &message["id"])) {
        return Part::Answer(answer);
    }
    let said = opcell_types::text::printable(String::from_utf8_lossy(&text).trim(), 300);
    let why = if said.is_empty() { "the request was not answered".to_owned() } else { said };
    let refusal = refusal(&message, &ErrorData::invalid_request(why, None));
    match head.status.is_success() {
        true => Part::Answer(refusal),
        false => Part::Refused(Some(refusal), Response::from_parts(head, Body::from(Bytes::from(text)))),
    }
}

/// Takes bytes off the room that there is; `false` if there is less.
fn takes(room: &AtomicUsize, bytes: usize) -> bool {
    room.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes)).is_ok()
}

/// The answer to a request among lines of a stream of events.
fn event_in(lines: &[u8], id: &Json) -> Option<Json> {
    let events = lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    events.filter_map(|data| serde_json::from_slice(data).ok()).find(|message| is_answer(message, id))
}

fn is_answer(message: &Json, id: &Json) -> bool {
    message["id"] == *id && (message.get("result").is_some() || message.get("error").is_some())
}

fn refusal(message: &Json, error: &ErrorData) -> Json {
    let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default();
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Method;

    fn parts() -> Parts {
        let request = Request::builder().method(Method::POST).uri("/v1/t/mcp").header("mcp-session-id", "s");
        request.body(()).unwrap().into_parts().0
    }

    async fn json_of(response: Response) -> Json {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// A server that answers by events, and with nothing to what is no request.
    async fn events(request: Request) -> Response {
        assert_eq!(request.headers()["mcp-session-id"], "s");
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let message: Json = serde_json::from_slice(&body).unwrap();
        if message.get("id").is_none() {
            return Response::builder().status(StatusCode::ACCEPTED).body(Body::empty()).unwrap();
        }
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"of": message["method"]}});
        let text = format!("id: 0\ndata: \n\nevent: message\ndata: {progress}\n\ndata: {answer}\n\n");
        let open =
            futures_util::stream::once(async { Ok::<_, std::io::Error>(text) }).chain(futures_util::stream::pending());
        Response::new(Body::from_stream(open))
    }

    #[tokio::test]
    async fn a_list_is_answered_by_the_list_of_its_answers() {
        let list = json!([
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "a", "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "id": 2, "method": "initialize"},
            7
        ]);
        let messages = of(list.to_string().as_bytes(), true).unwrap().unwrap();
        let answers = json_of(answer(&parts(), messages, events).await).await;
        let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids, [json!(1), json!("a"), json!(1), json!(2), Json::Null], "{answers}");
        assert_eq!((&answers[0]["result"]["of"], &answers[1]["result"]["of"]), (&json!("ping"), &json!("tools/list")));
        for refused in 2..5 {
            assert_eq!(answers[refused]["error"]["code"], -32600, "{answers}");
        }
        let told = vec![json!({"jsonrpc": "2.0", "method": "notifications/initialized"})];
        assert_eq!(answer(&parts(), told, events).await.status(), StatusCode::ACCEPTED);
    }

    #[tokio::test]
    async fn a_session_that_is_over_is_said_as_http_says_it() {
        let gone = |_: Request| async {
            Response::builder().status(StatusCode::NOT_FOUND).body(Body::from("Session not found")).unwrap()
        };
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let list = vec![json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), told];
        assert_eq!(answer(&parts(), list, gone).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_list_has_messages_and_a_session() {
        let message = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(of(message.as_bytes(), true).unwrap().is_none());
        assert!(of(b"[]", true).is_err());
        assert!(of(format!("[{message}]").as_bytes(), false).is_err());
        assert!(of(format!("[{}]", [message; 65].join(",")).as_bytes(), true).is_err());
        assert_eq!(of(format!(" [{message}]").as_bytes(), true).unwrap().unwrap().len(), 1);
    }
}
