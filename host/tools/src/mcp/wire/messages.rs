//! The messages of JSON-RPC as the protocol's library takes them.

use super::CURRENT_VERSION;
use opcell_types::text::printable;
use rmcp::model::{
    CustomNotification, CustomRequest, ErrorCode, JsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage,
    ServerNotification, ServerRequest, ServerResult,
};
use serde_json::{Value as Json, json};

/// Version of the protocol of a server that names none: the first one.
const OLDEST_VERSION: &str = "2024-11-05";

/// An ID as this side writes them. `3.0` is 3.
pub(super) fn own_id(id: &Json) -> Option<RequestId> {
    match id {
        Json::String(text) => Some(NumberOrString::String(text.as_str().into())),
        Json::Number(number) => {
            let whole = |float: f64| (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64);
            number.as_i64().or_else(|| number.as_f64().and_then(whole)).map(NumberOrString::Number)
        }
        _ => None,
    }
}

fn with_method(method: &str, params: Option<Json>) -> Json {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let (Some(params), Some(entries)) = (params, message.as_object_mut()) {
        entries.insert("params".to_owned(), params);
    }
    message
}

/// A request of the server. One whose parameters the library does not know is one of an unknown method.
pub(super) fn request(method: String, params: Option<Json>, id: RequestId) -> ServerJsonRpcMessage {
    // A sign of life takes no parameters.
    let params = params.filter(|_| method != "ping");
    let mut message = with_method(&method, params.clone());
    if let Some(entries) = message.as_object_mut() {
        entries.insert("id".to_owned(), id.clone().into_json_value());
    }
    serde_json::from_value(message).unwrap_or_else(|_| {
        JsonRpcMessage::request(ServerRequest::CustomRequest(CustomRequest::new(method, params)), id)
    })
}

pub(super) fn notification(method: String, params: Option<Json>) -> ServerJsonRpcMessage {
    let params = params.filter(|_| !method.ends_with("/list_changed"));
    serde_json::from_value(with_method(&method, params.clone())).unwrap_or_else(|_| {
        JsonRpcMessage::notification(ServerNotification::CustomNotification(CustomNotification::new(method, params)))
    })
}

/// Returns `true` if an error says that the revision was not taken, and that it is spoken: a server may refuse the first
/// request of a client, such as one that it cannot place.
pub(super) fn refuses_revision(error: &Json) -> bool {
    let supported = error.pointer("/data/supported").and_then(Json::as_array);
    let code = error.get("code").and_then(Json::as_i64);
    code == Some(i64::from(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION.0))
        && supported.is_some_and(|versions| versions.iter().any(|version| version == CURRENT_VERSION))
}

/// The answer to `server/discover`, in what this side uses of it.
pub(super) fn discovered(result: &Json) -> Result<ServerResult, String> {
    let not_one = || "its answer to `server/discover` names no revision that is spoken here".to_owned();
    let versions = result.get("supportedVersions").and_then(Json::as_array).ok_or_else(not_one)?;
    if !versions.iter().any(|version| version == CURRENT_VERSION) {
        return Err(not_one());
    }
    let known = json!({
        "resultType": "complete",
        "supportedVersions": [CURRENT_VERSION],
        "capabilities": {},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "?", "version": "?"}},
        "serverInfo": {"name": "?", "version": "?"},
    });
    serde_json::from_value(known).map(ServerResult::DiscoverResult).map_err(|error| {
        tracing::debug!("the answer to discovery: {error}");
        not_one()
    })
}

/// The answer to the handshake, in what this side uses of it.
pub(super) fn initialized(result: &Json) -> Result<ServerResult, String> {
    let Json::Object(said) = result else {
        return Err(format!("it answered `initialize` with {} instead of an object", kind(result)));
    };
    let text = |of: Option<&Json>| of.and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let server = said.get("serverInfo");
    let known = json!({
        "protocolVersion": text(said.get("protocolVersion")).unwrap_or_else(|| OLDEST_VERSION.to_owned()),
        "capabilities": {},
        "serverInfo": {
            "name": text(server.and_then(|server| server.get("name"))).unwrap_or_else(|| "?".to_owned()),
            "version": text(server.and_then(|server| server.get("version"))).unwrap_or_else(|| "?".to_owned()),
        },
    });
    let known = serde_json::from_value(known);
    known.map(ServerResult::InitializeResult).map_err(|_| "its answer to `initialize` cannot be read".to_owned())
}

/// The kind of a value, for a sentence.
pub(in super::super) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// The text of an error of JSON-RPC: its message, and the data beside it.
pub(in super::super) fn error_text(error: &Json, most: usize) -> String {
    let text = match error {
        Json::String(text) => text.clone(),
        Json::Object(entries) => {
            let said = |key: &str| entries.get(key).filter(|value| !value.is_null());
            let as_text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match (said("message").map(as_text), said("data").map(as_text)) {
                (Some(message), Some(data)) if !message.is_empty() && !message.contains(&data) => {
                    format!("{message}: {data}")
                }
                (Some(message), _) if !message.is_empty() => message,
                (_, Some(data)) => data,
                _ => error.to_string(),
            }
        }
        other => other.to_string(),
    };
    printable(&text, most)
}
