//! Asking a server for its tools: bounded, page by page, each entry read by itself.

use super::{
    Listing,
    connection::Connection,
    entry,
    headers::{self, ParamHeader},
    wire::{Answer, error_text, kind},
};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use serde_json::Value as Json;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Tools of one server that are used; a model could not choose among more.
const MAX_TOOLS: usize = 512;

/// Pages of one listing.
pub(super) const MAX_PAGES: usize = 64;

/// Bytes of all entries of one listing: what is longer would fill memory page by page, and no model could read it.
const MAX_LISTING: usize = 8 << 20;

/// Bytes of the reason why a page was not read.
const REASON_BYTES: usize = 500;

/// Asks a server for all of its tools. Where a page after the first cannot be read, those before it are the list.
///
/// # Errors
/// With the answer that was none.
pub(super) async fn ask(server: &Connection) -> Result<Listing, Answer> {
    let mut found = Vec::new();
    let (mut cursor, mut truncated, mut bytes) = (None, false, 0_usize);
    let mut seen = HashSet::new();
    let mut partial = None;
    for page in 1.. {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ListToolsRequest::with_param(params);
        let mut listed = match server.request(ClientRequest::ListToolsRequest(request)).await {
            Answer::Result(listed) => listed,
            other => match unread(page, other) {
                Ok(why) => {
                    partial = Some((page, why));
                    break;
                }
                Err(answer) => return Err(answer),
            },
        };
        // Some leave out the object around the list.
        let tools = if listed.is_array() { Some(listed.take()) } else { listed.get_mut("tools").map(Json::take) };
        let entries = match tools {
            Some(Json::Array(entries)) => entries,
            // A page of nothing.
            Some(Json::Null) => Vec::new(),
            other => {
                let what = other.as_ref().map_or("nothing", kind);
                let why = format!("its list of tools has {what} instead of the list `tools`");
                partial = Some((page, unread(page, Answer::Unreadable(why))?));
                break;
            }
        };
        let fitting = entries.into_iter().take_while(|entry| {
            bytes = bytes.saturating_add(size(entry));
            bytes <= MAX_LISTING
        });
        found.extend(fitting);
        partial = listed.get("nextCursor").and_then(odd_cursor).map(|why| (page.saturating_add(1), why));
        // A cursor that was there before leads around in a circle, and an empty one nowhere.
        cursor = next_cursor(&listed).filter(|next| seen.insert(next.clone()));
        truncated = found.len() > MAX_TOOLS || bytes > MAX_LISTING || (cursor.is_some() && page == MAX_PAGES);
        if cursor.is_none() || truncated {
            break;
        }
    }
    found.truncate(MAX_TOOLS);
    // Weighing takes a while where a schema is made to; the runtime has other things to do.
    let has_headers = server.sends_params();
    let weighed = tokio::task::spawn_blocking(move || {
        let params = if has_headers { params_of(&found) } else { Vec::new() };
        (entry::weigh(found), params)
    });
    let (mut listing, params) = weighed.await.unwrap_or_default();
    let mut sent = HashMap::new();
    for (tool, params) in params {
        match params {
            Ok(params) => drop(sent.insert(tool, params)),
            Err(why) => {
                listing.tools.shift_remove(&tool);
                listing.refused.insert(tool, why);
            }
        }
    }
    server.send_params(sent);
    listing.truncated = truncated || partial.is_some();
    if let Some((page, why)) = partial {
        listing.refused.insert(format!("page {page}"), why.clone());
        listing.partial = Some(why);
    }
    Ok(listing)
}

/// The arguments of a tool that are sent as headers, or the reason why a client must not use the tool.
type ToolParams = Result<Arc<[ParamHeader]>, String>;

/// The tools that have arguments which are sent as headers.
fn params_of(found: &[Json]) -> Vec<(String, ToolParams)> {
    let of = |entry: &Json| {
        let name = entry.get("name")?.as_str()?.to_owned();
        match headers::in_schema(entry.get("inputSchema")?) {
            Ok(params) if params.is_empty() => None,
            params => Some((name, params.map(Arc::from))),
        }
    };
    found.iter().filter_map(of).collect()
}

/// The reason why a page was not read, where pages before it were: those are used. Without any, and where the server is
/// gone, there is no list.
fn unread(page: usize, answer: Answer) -> Result<String, Answer> {
    match answer {
        Answer::Error(error) if page > 1 => {
            Ok(format!("it answered with an error: {}", error_text(&error, REASON_BYTES)))
        }
        Answer::Unreadable(why) | Answer::Refused { why, .. } if page > 1 => Ok(why),
        other => Err(other),
    }
}

/// The reason why a cursor leads nowhere, unless that is what it says.
fn odd_cursor(cursor: &Json) -> Option<String> {
    let is_odd = matches!(cursor, Json::Object(_) | Json::Array(_) | Json::Bool(true));
    is_odd.then(|| format!("its cursor is {} instead of a string", kind(cursor)))
}

pub(super) fn next_cursor(listed: &Json) -> Option<String> {
    match listed.get("nextCursor")? {
        Json::String(text) if !text.is_empty() => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Bytes that an entry takes as JSON.
pub(super) fn size(entry: &Json) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, entry) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}
