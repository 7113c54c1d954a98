//! Resources, templates of resources and prompts of a server: listed page by page within bounds, and read as data.
//!
//! They are untrusted as results of tools are. Nothing here decides who may read them: whoever calls has been granted it.

use super::{
    Binary, ListedPrompt, ListedResource, Offers, Server,
    ask::{MAX_PAGES, next_cursor, size},
    connection::Connection,
    failed, result,
    wire::{Answer, error_text, kind},
};
use opcell_types::{
    Failure, Value,
    text::{one_line, printable},
};
use rmcp::model::{
    ClientRequest, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use tokio::time::timeout;

/// Entries of one list that are used.
const MAX_ENTRIES: usize = 512;

/// Bytes of all entries of one list.
const MAX_LIST_BYTES: usize = 4 << 20;

/// Bytes of a URI or of a name.
const NAME_BYTES: usize = 2 << 10;

/// Bytes of a description.
const DESCRIPTION_BYTES: usize = 1 << 10;

/// Arguments of a prompt that are shown.
const MAX_ARGUMENTS: usize = 64;

/// Reasons why entries are not used.
const MAX_REFUSED: usize = 64;

/// Bytes of a text of the server that a sentence repeats.
const QUOTED_BYTES: usize = 200;

/// The capabilities that a server announces beside tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

impl Announced {
    /// Reads them in the answer to the handshake, or to discovery.
    pub(super) fn in_result(result: &Json) -> Self {
        let has = |name: &str| result.pointer(&format!("/capabilities/{name}")).is_some_and(|said| !said.is_null());
        Self { resources: has("resources"), prompts: has("prompts") }
    }
}

/// A list that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Resources,
    Templates,
    Prompts,
}

impl Kind {
    /// The key of the list in an answer.
    fn key(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The key of an entry that names it.
    fn name_key(self) -> &'static str {
        match self {
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Prompts => "name",
        }
    }

    fn request(self, cursor: Option<String>) -> ClientRequest {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        match self {
            Self::Resources => ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
            Self::Templates => {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
            }
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params)),
        }
    }
}

impl Server {
    /// Its resources, templates and prompts, as it lists them now; nothing of what it does not announce.
    ///
    /// # Errors
    /// `mcp-not-started`, `mcp-disconnected` or `timeout`. A list that cannot be read is among [`Offers::refused`].
    pub async fn offers(&self) -> Result<Offers, Failure> {
        let open = self.connection().await?;
        let limit = self.config().call_time;
        match timeout(limit, all(&open)).await {
            Ok(Ok(offers)) => Ok(offers),
            Ok(Err(answer)) => Err(self.no_result(answer)),
            Err(_) => {
                let ms = limit.as_millis();
                let message =
                    format!("MCP server `{}` did not list its resources and prompts within {ms} ms", self.name());
                Err(failed("timeout", message, true))
            }
        }
    }

    /// Reads a resource: its text where it is one text, else its parts.
    ///
    /// # Errors
    /// `mcp-no-resources` where the server announces none; otherwise as a call of a tool.
    pub async fn read_resource(&self, uri: &str, binary: Binary) -> Result<Value, Failure> {
        let open = self.connection().await?;
        if !open.announced().resources {
            let message = format!("MCP server `{}` has no resources", self.name());
            return Err(failed("mcp-no-resources", message, false));
        }
        let params = ReadResourceRequestParams::new(uri);
        let what = format!("resource `{}`", one_line(uri, QUOTED_BYTES));
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        let found = self.asked(&open, request, &what).await?;
        let contents = match list(&found, "contents") {
            Ok(contents) => contents,
            Err(why) => return Err(self.odd(&what, &why)),
        };
        if let [only] = contents.as_slice()
            && let Some(text) = only.get("text").and_then(Json::as_str)
        {
            return Ok(text.into());
        }
        Ok(contents.into_iter().map(|content| result::part(content, binary)).collect::<Vec<Value>>().into())
    }

    /// Gets a prompt with these arguments, an object of texts: its messages, each with its role and its content.
    ///
    /// # Errors
    /// `mcp-no-prompts` where the server announces none; otherwise as a call of a tool.
    pub async fn prompt(&self, name: &str, arguments: &Value, binary: Binary) -> Result<Value, Failure> {
        let open = self.connection().await?;
        if !open.announced().prompts {
            let message = format!("MCP server `{}` has no prompts", self.name());
            return Err(failed("mcp-no-prompts", message, false));
        }
        let mut params = GetPromptRequestParams::new(name);
        if let Json::Object(arguments) = Json::from(arguments)
            && !arguments.is_empty()
        {
            params = params.with_arguments(arguments);
        }
        let what = format!("prompt `{}`", one_line(name, QUOTED_BYTES));
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let found = self.asked(&open, request, &what).await?;
        let messages = match list(&found, "messages") {
            Ok(messages) => messages,
            Err(why) => return Err(self.odd(&what, &why)),
        };
        Ok(messages.into_iter().map(|message| said(message, binary)).collect::<Vec<Value>>().into())
    }

    async fn asked(&self, open: &Connection, request: ClientRequest, what: &str) -> Result<Json, Failure> {
        let limit = self.config().call_time;
        match timeout(limit, open.request(request)).await {
            Err(_) => {
                let (ms, unread) = (limit.as_millis(), open.last_unread());
                let message = format!("MCP server `{}` gave no answer for {what} within {ms} ms{unread}", self.name());
                Err(failed("timeout", message, true))
            }
            Ok(Answer::Result(found)) => match found.get("resultType").and_then(Json::as_str) {
                None | Some("complete") => Ok(found),
                Some("input_required") => {
                    let message = format!("MCP server `{}` asks for input before it gives {what}", self.name());
                    Err(failed("mcp-input-required", message, false))
                }
                Some(other) => {
                    let why = format!("a result of the unknown kind `{}`", one_line(other, QUOTED_BYTES));
                    Err(self.odd(what, &why))
                }
            },
            Ok(answer) => Err(self.no_result(answer)),
        }
    }

    fn odd(&self, what: &str, why: &str) -> Failure {
        failed("malformed-result", format!("MCP server `{}`: its answer for {what} has {why}", self.name()), false)
    }
}

/// A list of an answer.
fn list(found: &Json, key: &str) -> Result<Vec<Json>, String> {
    match found.get(key) {
        Some(Json::Array(entries)) => Ok(entries.clone()),
        Some(single @ Json::Object(_)) => Ok(vec![single.clone()]),
        None | Some(Json::Null) => Err(format!("no list `{key}`")),
        Some(other) => Err(format!("{} instead of the list `{key}`", kind(other))),
    }
}

/// A message of a prompt. Binary content of one that a model reads is described.
fn said(message: Json, binary: Binary) -> Value {
    let Json::Object(mut entries) = message else { return message.into() };
    let role = entries.remove("role").and_then(|role| role.as_str().map(|role| one_line(role, QUOTED_BYTES)));
    let content = match entries.remove("content") {
        Some(content) => match result::text_of(&content) {
            Some(text) => text.into(),
            None => result::part(content, binary),
        },
        None => Value::from(""),
    };
    Value::object([("role", Value::from(role.unwrap_or_else(|| "user".to_owned()))), ("content", content)])
}

/// Asks for every list that the server announces.
async fn all(open: &Connection) -> Result<Offers, Answer> {
    let announced = open.announced();
    let mut offers = Offers::default();
    if announced.resources {
        for entry in entries(open, Kind::Resources, &mut offers).await? {
            read(entry, Kind::Resources, &mut offers, |offers, entry| offers.resources.push(entry));
        }
        for entry in entries(open, Kind::Templates, &mut offers).await? {
            read(entry, Kind::Templates, &mut offers, |offers, entry| offers.templates.push(entry));
        }
    }
    if announced.prompts {
        for entry in entries(open, Kind::Prompts, &mut offers).await? {
            let arguments = entry.get("arguments").map(arguments).unwrap_or_default();
            read(entry, Kind::Prompts, &mut offers, |offers, entry| {
                let ListedResource { uri: name, description, .. } = entry;
                offers.prompts.push(ListedPrompt { name, description, arguments });
            });
        }
    }
    Ok(offers)
}

/// One list, page by page. What cannot be read is said, and ends the list; only a server that is gone ends all of them.
async fn entries(open: &Connection, list: Kind, offers: &mut Offers) -> Result<Vec<Json>, Answer> {
    let (mut found, mut cursor, mut bytes) = (Vec::new(), None, 0_usize);
    let mut seen = HashSet::new();
    for page in 1..=MAX_PAGES {
        let why = match open.request(list.request(cursor.take())).await {
            Answer::Result(mut listed) => match listed.get_mut(list.key()).map(Json::take) {
                Some(Json::Array(entries)) => {
                    for entry in entries {
                        bytes = bytes.saturating_add(size(&entry));
                        if found.len() == MAX_ENTRIES || bytes > MAX_LIST_BYTES {
                            offers.truncated = true;
                            return Ok(found);
                        }
                        found.push(entry);
                    }
                    // A cursor that was there before leads around in a circle.
                    cursor = next_cursor(&listed).filter(|next| seen.insert(next.clone()));
                    offers.truncated |= cursor.is_some() && page == MAX_PAGES;
                    match cursor {
                        Some(_) => continue,
                        None => break,
                    }
                }
                None | Some(Json::Null) => break,
                Some(other) => format!("it has {} instead of the list", kind(&other)),
            },
            Answer::Error(error) => error_text(&error, QUOTED_BYTES),
            Answer::Refused { why, .. } | Answer::Unreadable(why) => why,
            Answer::Lost(why) => return Err(Answer::Lost(why)),
        };
        offers.refused.push(format!("`{}` of the server cannot be read: {why}", list.key()));
        break;
    }
    Ok(found)
}

/// Reads one entry. One that cannot be named exactly as it is cannot be asked for.
fn read(entry: Json, list: Kind, offers: &mut Offers, put: impl FnOnce(&mut Offers, ListedResource)) {
    let text = |key: &str| entry.get(key).and_then(Json::as_str);
    let refusal = match text(list.name_key()) {
        None => Some(format!("an entry of `{}` has no `{}`", list.key(), list.name_key())),
        Some(name) if name.trim().is_empty() || one_line(name, NAME_BYTES) != name => {
            let shown = one_line(name, QUOTED_BYTES);
            Some(format!("`{shown}` of `{}` is too long or cannot be printed", list.key()))
        }
        Some(name) => {
            let about = text("description").or_else(|| text("title")).unwrap_or_default();
            let entry = ListedResource {
                uri: name.to_owned(),
                name: one_line(text("name").unwrap_or_default(), QUOTED_BYTES),
                description: printable(about, DESCRIPTION_BYTES),
                mime_type: text("mimeType").map(|kind| one_line(kind, QUOTED_BYTES)),
            };
            put(offers, entry);
            None
        }
    };
    if let Some(refusal) = refusal {
        if offers.refused.len() < MAX_REFUSED {
            offers.refused.push(refusal);
        } else {
            offers.truncated = true;
        }
    }
}

/// Names of a prompt's arguments, and whether it requires them.
fn arguments(listed: &Json) -> Vec<(String, bool)> {
    let of = |argument: &Map<String, Json>| {
        let name = argument.get("name")?.as_str()?;
        Some((one_line(name, QUOTED_BYTES), argument.get("required") == Some(&Json::Bool(true))))
    };
    let listed = listed.as_array().into_iter().flatten().filter_map(Json::as_object);
    listed.filter_map(of).take(MAX_ARGUMENTS).collect()
}
