//! Requests of a known method whose parameters are none of it. The protocol's library takes them for requests of an
//! unknown method, and a client that is told so believes that there are no tools.

use rmcp::model::{ClientRequest, CustomRequest};
use serde_json::{Value as Json, json};

/// Methods that this server answers.
const KNOWN: [&str; 14] = [
    "initialize",
    "ping",
    "resources/directory/read",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "skills/get",
    "skills/list",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// The fault in the parameters of a request, if its method is known.
pub(super) fn wrong_in(request: &ClientRequest) -> Option<String> {
    match request {
        ClientRequest::CustomRequest(request) => wrong(request),
        _ => None,
    }
}

/// As [`wrong_in`].
pub(super) fn wrong(request: &CustomRequest) -> Option<String> {
    let method = request.method.as_str();
    if !KNOWN.contains(&method) {
        return None;
    }
    let params = request.params.as_ref();
    let expected = |what: &str, key: &str, found: Option<&Json>| {
        format!("`{key}` of {method} must be {what}, and is {}", found.map_or("absent", kind))
    };
    Some(match params {
        None | Some(Json::Object(_)) => {
            let of = |key: &str| params.and_then(|params| params.get(key));
            match method {
                "tools/call" if !of("name").is_some_and(Json::is_string) => expected("a text", "name", of("name")),
                "tools/call" if of("arguments").is_some_and(|arguments| !arguments.is_object()) => {
                    expected("an object", "arguments", of("arguments"))
                }
                "tasks/get" | "tasks/update" | "tasks/cancel" if !of("taskId").is_some_and(Json::is_string) => {
                    expected("a text", "taskId", of("taskId"))
                }
                "tasks/update" if !of("inputResponses").is_some_and(Json::is_object) => {
                    expected("an object", "inputResponses", of("inputResponses"))
                }
                "resources/read" | "resources/directory/read" | "skills/get"
                    if !of("uri").is_some_and(Json::is_string) =>
                {
                    expected("a text", "uri", of("uri"))
                }
                "initialize" if !of("protocolVersion").is_some_and(Json::is_string) => {
                    expected("a text", "protocolVersion", of("protocolVersion"))
                }
                "initialize" if !of("capabilities").is_some_and(Json::is_object) => {
                    expected("an object", "capabilities", of("capabilities"))
                }
                "initialize" if !of("clientInfo").is_some_and(Json::is_object) => {
                    expected("an object", "clientInfo", of("clientInfo"))
                }
                _ => format!("the parameters of {method} are not as the protocol has them"),
            }
        }
        Some(other) => expected("an object", "params", Some(other)),
    })
}

/// Adds to a handshake the parts without which it can be answered all the same.
pub(super) fn complete(message: &mut Json) {
    if message.get("method").is_none_or(|method| method != "initialize") {
        return;
    }
    let Some(params) = message.get_mut("params").and_then(Json::as_object_mut) else { return };
    let usual = [("capabilities", json!({})), ("clientInfo", json!({"name": "?", "version": "?"}))];
    for (key, value) in usual {
        if params.get(key).is_none_or(Json::is_null) {
            params.insert(key.to_owned(), value);
        }
    }
    let Some(client) = params.get_mut("clientInfo").and_then(Json::as_object_mut) else { return };
    for key in ["name", "version"] {
        if client.get(key).is_none_or(Json::is_null) {
            client.insert(key.to_owned(), Json::from("?"));
        }
    }
}

/// The fault of a message of a known method whose parameters are no object.
pub(super) fn not_an_object(message: &Json) -> Option<String> {
    let method = message.get("method")?.as_str().filter(|method| KNOWN.contains(method))?;
    let params = message.get("params").filter(|params| !params.is_object() && !params.is_null())?;
    Some(format!("`params` of {method} must be an object, and is {}", kind(params)))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}
