//! Requests of a known method whose parameters are none of it. The protocol's library takes them for requests of an
//! unknown method, and a client that is told so believes that there are no tools.

use rmcp::model::{ClientCapabilities, ClientRequest, CustomRequest, Implementation};
use serde_json::{Map, Value as Json, json};

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
    let expected = |what: &str, key: &str, found: Option<&Json>| match found {
        Some(found) => format!("`{key}` of {method} must be {what}, not {}", kind(found)),
        None => format!("{method} needs `{key}`, which must be {what}"),
    };
    Some(match params {
        None | Some(Json::Object(_)) => {
            let of = |key: &str| params.and_then(|params| params.get(key));
            match method {
                "tools/call" if !of("name").is_some_and(Json::is_string) => expected("a string", "name", of("name")),
                "tools/call" if of("arguments").is_some_and(|arguments| !arguments.is_object()) => {
                    expected("an object", "arguments", of("arguments"))
                }
                "tasks/get" | "tasks/update" | "tasks/cancel" if !of("taskId").is_some_and(Json::is_string) => {
                    expected("a string", "taskId", of("taskId"))
                }
                "tasks/update" if !of("inputResponses").is_some_and(Json::is_object) => {
                    expected("an object", "inputResponses", of("inputResponses"))
                }
                "resources/read" | "resources/directory/read" | "skills/get"
                    if !of("uri").is_some_and(Json::is_string) =>
                {
                    expected("a string", "uri", of("uri"))
                }
                "initialize" if !of("protocolVersion").is_some_and(Json::is_string) => {
                    expected("a string", "protocolVersion", of("protocolVersion"))
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

/// Makes a handshake one that can be answered: parts that are missing or odd are read as far as they say something. A
/// capability that is not understood is none.
pub(super) fn complete(message: &mut Json) {
    if message.get("method").is_none_or(|method| method != "initialize") {
        return;
    }
    let Some(params) = message.get_mut("params").and_then(Json::as_object_mut) else { return };
    let capabilities = params.get("capabilities").and_then(Json::as_object).map(capabilities);
    params.insert("capabilities".to_owned(), capabilities.unwrap_or_default().into());
    let client = client(params.get("clientInfo").unwrap_or(&Json::Null));
    params.insert("clientInfo".to_owned(), client);
}

/// The capabilities that can be read; `true` and an empty list, as some languages write an empty object, are one
/// without details.
fn capabilities(said: &Map<String, Json>) -> Map<String, Json> {
    let read = said.iter().filter_map(|(name, value)| {
        let is_bare = *value == true || value.as_array().is_some_and(Vec::is_empty);
        let forms = if is_bare { vec![json!({})] } else { vec![value.clone(), json!({})] };
        let is_some = is_bare || value.is_object();
        let fits = |form: &Json| serde_json::from_value::<ClientCapabilities>(json!({name.as_str(): form})).is_ok();
        forms.into_iter().find(fits).filter(|_| is_some).map(|form| (name.clone(), form))
    });
    read.collect()
}

/// The client as it names itself.
fn client(said: &Json) -> Json {
    let text = |value: &Json| match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        _ => "?".to_owned(),
    };
    let known = match said {
        Json::Object(_) => json!({"name": text(&said["name"]), "version": text(&said["version"])}),
        name => json!({"name": text(name), "version": "?"}),
    };
    let mut whole = said.clone();
    if let (Json::Object(whole), Json::Object(known)) = (&mut whole, &known) {
        whole.extend(known.clone());
    }
    match serde_json::from_value::<Implementation>(whole.clone()) {
        Ok(_) => whole,
        Err(_) => known,
    }
}

/// The fault of a message of a known method whose parameters are no object.
pub(super) fn not_an_object(message: &Json) -> Option<String> {
    let method = message.get("method")?.as_str().filter(|method| KNOWN.contains(method))?;
    let params = message.get("params").filter(|params| !params.is_object() && !params.is_null())?;
    Some(format!("`params` of {method} must be an object, not {}", kind(params)))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn a_handshake_with_odd_parts_is_read_as_far_as_it_says_something() {
        let read = |params: Json| {
            let mut message = json!({"method": "initialize", "params": params});
            complete(&mut message);
            message["params"].take()
        };
        let usual = json!({"capabilities": {}, "clientInfo": {"name": "?", "version": "?"}});
        for params in [json!({}), json!({"capabilities": [], "clientInfo": null}), json!({"clientInfo": {}})] {
            assert_eq!(read(params.clone()), usual, "{params}");
        }
        let odd = json!({"roots": true, "sampling": [], "elicitation": null, "experimental": 5, "later": {"a": 1}});
        let known = read(json!({"capabilities": odd}));
        assert_eq!(known["capabilities"], json!({"roots": {}, "sampling": {}, "later": {"a": 1}}));
        let listed = read(json!({"capabilities": {"roots": {"listChanged": "yes"}}}));
        assert_eq!(listed["capabilities"], json!({"roots": {}}));
        let client = |client: Json| read(json!({"clientInfo": client}))["clientInfo"].clone();
        assert_eq!(client(json!("c")), json!({"name": "c", "version": "?"}));
        assert_eq!(client(json!({"name": "c", "version": 1.5, "title": 5})), json!({"name": "c", "version": "1.5"}));
        let whole = json!({"name": "c", "version": "1", "title": "C"});
        assert_eq!(client(whole.clone()), whole);
    }
}
