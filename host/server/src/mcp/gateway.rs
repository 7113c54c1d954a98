//! The gateway: the tools of the project's MCP servers beside its own, one by one or behind a search.

use super::{
    McpServer,
    search::Index,
    tools::{Target, ToolList},
};
use opcell::{
    Host,
    gateway::{GatewayListing, matches},
};
use opcell_schema::shown;
use opcell_types::{Value, text::printable};
use rmcp::{
    RoleServer,
    model::{CallToolResult, ContentBlock, Tool, ToolAnnotations},
    service::RequestContext,
};
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::Mutex as AsyncMutex;

/// The age of what servers offer after which they are asked again. A server that says nothing of changes is asked as it
/// allows.
const FRESH: Duration = Duration::from_secs(15);

/// The tools that a search gives: by default, and at most.
const RESULTS: (usize, usize) = (8, 20);

/// Bytes of a description in the results of a search.
const SHOWN_BYTES: usize = 300;

/// Bytes of a query.
const QUERY_BYTES: usize = 2 << 10;

pub(super) const SEARCH: &str = "search_tools";
pub(super) const DESCRIBE: &str = "describe_tool";
pub(super) const CALL: &str = "call_tool";

/// The face of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Face {
    /// Every tool by itself.
    Tools,
    /// A search over the tools, a description of one, and a call by its name.
    Search,
}

/// The servers' tools that a gateway offers.
#[derive(Debug, Clone)]
pub struct Gateway {
    face: Face,
    patterns: Vec<String>,
}

impl Gateway {
    /// Offers every tool whose `SERVER/TOOL` matches one of the patterns, in which `*` stands for any text; without
    /// patterns, every tool.
    #[must_use]
    pub fn new(face: Face, patterns: Vec<String>) -> Self {
        Self { face, patterns }
    }

    fn offers(&self, server: &str, tool: &str) -> bool {
        let name = format!("{server}/{tool}");
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| matches(pattern, &name))
    }
}

/// The gateway of a server, with what it last saw.
pub(super) struct Gate {
    gateway: Gateway,
    seen: Mutex<Option<Seen>>,
    /// Held by whoever asks the servers.
    asking: AsyncMutex<()>,
}

struct Seen {
    host: Host,
    at: Instant,
    all: Arc<Offered>,
}

/// Everything that can be called, and the search over it.
pub(super) struct Offered {
    pub(super) tools: ToolList,
    listing: GatewayListing,
    index: OnceLock<Index>,
}

impl Gate {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self { gateway, seen: Mutex::default(), asking: AsyncMutex::default() }
    }

    pub(super) fn face(&self) -> Face {
        self.gateway.face
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools that were seen last of this host, up to an age.
    fn known(&self, host: &Host, most: Duration) -> Option<Arc<Offered>> {
        let seen = self.seen();
        let known = seen.as_ref().filter(|seen| is_same(&seen.host, host) && seen.at.elapsed() < most);
        known.map(|known| known.all.clone())
    }

    /// The tools as they were listed last, where they are listed one by one.
    pub(super) fn listed(&self, host: &Host) -> Option<Arc<Offered>> {
        (self.gateway.face == Face::Tools).then(|| self.known(host, Duration::MAX)).flatten()
    }

    /// The tools that are offered now. While one request asks the servers, which may take as long as the slowest of
    /// them, the others get what was seen last.
    pub(super) async fn offered(&self, host: Host, workflows: &BTreeSet<String>) -> Arc<Offered> {
        if let Some(fresh) = self.known(&host, FRESH) {
            return fresh;
        }
        let _asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(_) => match self.known(&host, Duration::MAX) {
                Some(last) => return last,
                None => self.asking.lock().await,
            },
        };
        if let Some(fresh) = self.known(&host, FRESH) {
            return fresh;
        }
        let mut listing = host.gateway().await;
        listing.tools.retain(|tool| self.gateway.offers(&tool.server, &tool.tool));
        let tools = ToolList::with(&host, workflows, remote(&listing));
        let mut seen = self.seen();
        let known = seen.as_ref().filter(|seen| is_same(&seen.host, &host) && seen.all.listing == listing);
        // The index is kept where it would be the same.
        let all = match known {
            Some(known) if known.all.tools.all().eq(tools.all()) => known.all.clone(),
            _ => Arc::new(Offered { tools, listing, index: OnceLock::new() }),
        };
        *seen = Some(Seen { host, at: Instant::now(), all: all.clone() });
        all
    }
}

/// Returns `true` if nothing was exchanged between the two.
fn is_same(first: &Host, second: &Host) -> bool {
    std::ptr::eq(first.catalog(), second.catalog())
}

fn remote(listing: &GatewayListing) -> Vec<(String, Tool, Target)> {
    let tool = |tool: &opcell::gateway::GatewayTool| {
        let schema = match Json::from(&tool.parameters) {
            Json::Object(schema) => schema,
            _ => serde_json::Map::new(),
        };
        let mut schema = schema;
        schema.entry("type").or_insert_with(|| json!("object"));
        let annotations = ToolAnnotations::new().read_only(false).destructive(true).open_world(true);
        let offered = Tool::new("", shown::text(&tool.description), Arc::new(schema)).with_annotations(annotations);
        let target = Target::Remote(tool.server.clone(), tool.tool.clone());
        (format!("{}__{}", tool.server, tool.tool), offered, target)
    };
    listing.tools.iter().map(tool).collect()
}

/// The tools of the face of a search.
pub(super) fn faces() -> Vec<Tool> {
    let tool = |name: &'static str, about: &'static str, properties: Json, required: Json, reads: bool| {
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        let annotations = match reads {
            true => ToolAnnotations::new().read_only(true).idempotent(true).open_world(false),
            false => ToolAnnotations::new().read_only(false).destructive(true).open_world(true),
        };
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, about, Arc::new(schema)).with_annotations(annotations)
    };
    let name = json!({"type": "string", "description": "As `search_tools` gives it"});
    vec![
        tool(
            CALL,
            "Calls a tool by its name",
            json!({"name": name, "arguments": {"type": "object", "description": "As `describe_tool` gives their schema"}}),
            json!(["name"]),
            false,
        ),
        tool(
            DESCRIBE,
            "Gives a tool's description and the schema of its arguments",
            json!({"name": name}),
            json!(["name"]),
            true,
        ),
        tool(
            SEARCH,
            "Finds tools by words in their names, descriptions and arguments",
            json!({
                "query": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": RESULTS.1, "description": "8 by default"},
            }),
            json!(["query"]),
            true,
        ),
    ]
}

fn wrong(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

fn given(result: Json) -> CallToolResult {
    let mut given = CallToolResult::success(vec![ContentBlock::text(result.to_string())]);
    given.structured_content = Some(result);
    given
}

impl Offered {
    /// The tools that fit a query.
    pub(super) fn search(&self, arguments: &Value) -> CallToolResult {
        let Some(query) = arguments.get("query").and_then(Value::as_str) else {
            return wrong("`query` must be a string");
        };
        if query.len() > QUERY_BYTES {
            return wrong(format!("`query` has more than {QUERY_BYTES} bytes"));
        }
        let limit = match arguments.get("limit") {
            None => RESULTS.0,
            Some(limit) => match Json::from(limit).as_u64().and_then(|limit| usize::try_from(limit).ok()) {
                Some(limit) if (1..=RESULTS.1).contains(&limit) => limit,
                _ => return wrong(format!("`limit` must be between 1 and {}", RESULTS.1)),
            },
        };
        let index = self.index.get_or_init(|| Index::of(self.tools.all()));
        let all: Vec<&Tool> = self.tools.all().collect();
        let found: Vec<Json> = index
            .search(query, limit)
            .into_iter()
            .filter_map(|number| all.get(number))
            .map(|tool| {
                let about = printable(tool.description.as_deref().unwrap_or_default(), SHOWN_BYTES);
                json!({"name": tool.name, "description": about})
            })
            .collect();
        given(json!({"tools": found, "of": all.len()}))
    }

    /// One tool with its schema; for one that is left out, the reason.
    pub(super) fn describe(&self, arguments: &Value) -> CallToolResult {
        let Some(name) = arguments.get("name").and_then(Value::as_str) else {
            return wrong("`name` must be a string");
        };
        match self.tools.tool(name) {
            Some(tool) => match serde_json::to_value(tool) {
                Ok(tool) => given(tool),
                Err(error) => wrong(error.to_string()),
            },
            None => wrong(self.unknown(name)),
        }
    }

    /// A sentence about a name that no tool has.
    pub(super) fn unknown(&self, name: &str) -> String {
        let of = |left: &&opcell::gateway::LeftOut| match &left.tool {
            Some(tool) => format!("{}__{tool}", left.server) == name,
            None => name.starts_with(&format!("{}__", left.server)),
        };
        let name = crate::api::shown(name);
        match self.listing.left_out.iter().find(of) {
            Some(left) => format!("`{name}` is not offered: {}", left.why),
            None => format!("there is no tool `{name}`"),
        }
    }
}

impl McpServer {
    /// Calls a tool of one of the project's servers.
    pub(super) async fn call_server(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let client = super::caller::Client::of(context);
        let host = self.tenant.host.now();
        let mut call = host.invoke_tool(server, tool, arguments).cancel(context.ct.clone());
        if let Some(traceparent) = super::traceparent(context) {
            call = call.traceparent(traceparent);
        }
        let called = call.await;
        let ended = called.as_ref().map_or_else(|error| error.failure.reason.to_string(), |_| "ok".to_owned());
        tracing::info!(target: "opcell::audit", caller = %client.name, tenant = %self.tenant.name, server, tool, ended,
            "called a tool of an MCP server");
        super::result_of(called, &client, super::Parts::AreBlocks)
    }
}

/// The blocks of a result that is a list of them.
pub(super) fn blocks(data: &Json) -> Option<Vec<ContentBlock>> {
    let is_block = |part: &Json| part.get("type").is_some_and(Json::is_string);
    let parts = data.as_array().filter(|parts| !parts.is_empty() && parts.iter().all(is_block))?;
    parts.iter().map(|part| serde_json::from_value(part.clone()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_must_read_for_a_search_is_little() {
        let bytes = serde_json::to_string(&faces()).unwrap().len();
        assert!(bytes < 1_500, "{bytes}");
    }

    #[test]
    fn a_list_of_blocks_is_passed_on_as_blocks() {
        let image = json!([{"type": "text", "text": "a"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
        assert_eq!(blocks(&image).map(|blocks| blocks.len()), Some(2));
        for data in [json!([]), json!([1]), json!({"type": "text"}), json!([{"type": "own"}])] {
            assert!(blocks(&data).is_none(), "{data}");
        }
    }
}
