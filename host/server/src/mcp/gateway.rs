//! The gateway: the tools of the project's MCP servers beside its own, one by one or behind a search.

use super::{
    McpServer,
    search::Index,
    tools::{Basis, Target, ToolList},
};
use opcell::{
    Host, ProgramLanguage,
    gateway::{CallObserver, GatewayListing, ProgramTarget, ProgramTargets, matches},
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
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Mutex as AsyncMutex;

/// The time after which a server that did not list its tools is asked again.
const RETRY: Duration = Duration::from_secs(15);

/// The tools that a search gives: by default, and at most.
const RESULTS: (usize, usize) = (8, 20);

/// Bytes of a description in the results of a search.
const SHOWN_BYTES: usize = 300;

/// Bytes of a query.
const QUERY_BYTES: usize = 2 << 10;

/// Bytes of the source of a program.
const SOURCE_BYTES: usize = 1 << 20;

pub(super) const SEARCH: &str = "search_tools";
pub(super) const DESCRIBE: &str = "describe_tool";
pub(super) const CALL: &str = "call_tool";
pub(super) const RUN_CODE: &str = "run_code";

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
    /// The number of lists that were made.
    made: AtomicU64,
    /// The number of looks at what the servers list.
    looks: AtomicU64,
}

struct Seen {
    basis: Basis,
    at: Instant,
    all: Arc<Offered>,
    /// The latest lists of the servers: those that `all` was made of, or newer ones.
    listing: GatewayListing,
}

impl Seen {
    /// Returns `true` if nothing has changed since, as far as that is known without asking a server.
    fn is_current(&self, host: &Host) -> bool {
        let may_wait = self.listing.is_whole() || self.at.elapsed() < RETRY;
        self.basis.is_of(host) && may_wait && self.listing.is_current()
    }
}

/// Everything that can be called, and the search over it.
pub(super) struct Offered {
    pub(super) tools: ToolList,
    listing: GatewayListing,
    index: OnceLock<Index>,
}

impl Gate {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self {
            gateway,
            seen: Mutex::default(),
            asking: AsyncMutex::default(),
            made: AtomicU64::default(),
            looks: AtomicU64::default(),
        }
    }

    pub(super) fn face(&self) -> Face {
        self.gateway.face
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools that were seen last of this host.
    fn last(&self, host: &Host) -> Option<Arc<Offered>> {
        self.seen().as_ref().filter(|seen| seen.basis.is_of(host)).map(|seen| seen.all.clone())
    }

    /// The same, if nothing has changed since.
    fn current(&self, host: &Host) -> Option<Arc<Offered>> {
        self.seen().as_ref().filter(|seen| seen.is_current(host)).map(|seen| seen.all.clone())
    }

    /// The tools as they were listed last, where they are listed one by one.
    pub(super) fn listed(&self, host: &Host) -> Option<Arc<Offered>> {
        (self.gateway.face == Face::Tools).then(|| self.last(host)).flatten()
    }

    /// The tools that are offered now. They are put together again only after something has changed: a plugin or a
    /// grant, a workflow, or what a server lists. While one request asks the servers, which may take as long as the
    /// slowest of them, the others get what was seen last.
    pub(super) async fn offered(&self, host: Host, workflows: &BTreeSet<String>) -> Arc<Offered> {
        if let Some(current) = self.current(&host) {
            return current;
        }
        let _asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(_) => match self.last(&host) {
                Some(last) => return last,
                None => self.asking.lock().await,
            },
        };
        if let Some(current) = self.current(&host) {
            return current;
        }
        let basis = Basis::of(&host);
        self.looks.fetch_add(1, Ordering::Relaxed);
        let mut listing = host.gateway().await;
        listing.tools.retain(|tool| self.gateway.offers(&tool.server, &tool.tool));
        // A server that was asked again usually says what it said before; the search over it is kept as well.
        let known = self
            .seen()
            .as_ref()
            .filter(|seen| seen.basis.is_of(&host) && seen.all.listing == listing)
            .map(|seen| seen.all.clone());
        let all = known.unwrap_or_else(|| {
            self.made.fetch_add(1, Ordering::Relaxed);
            let tools = ToolList::with(&host, workflows, remote(&listing));
            Arc::new(Offered { tools, listing: listing.clone(), index: OnceLock::new() })
        });
        *self.seen() = Some(Seen { basis, at: Instant::now(), all: all.clone(), listing });
        all
    }
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
            RUN_CODE,
            "Runs a program that calls tools, and returns its result and its log. A program is the body of an async \
             function: `const found = await call(NAME, ARGUMENTS)` calls a tool by its name, several at once with \
             `Promise.all`; `return` only what you need to read. It has the language and these calls: no files, no \
             network, no modules. Workflows are not called by programs",
            json!({
                "source": {"type": "string", "description": "The program"},
                "language": {"enum": ["javascript", "python"], "description": "javascript by default"},
            }),
            json!(["source"]),
            false,
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

/// The program that a client wants to run.
fn program(arguments: &Value) -> Result<(ProgramLanguage, &str), &'static str> {
    let language = match arguments.get("language").map(Value::as_str) {
        None | Some(Some("javascript")) => ProgramLanguage::Javascript,
        Some(Some("python")) => ProgramLanguage::Python,
        Some(_) => return Err("`language` must be \"javascript\" or \"python\""),
    };
    let source = arguments.get("source").and_then(Value::as_str).ok_or("`source` must be a string")?;
    if source.len() > SOURCE_BYTES {
        return Err("`source` has more than 1 MiB");
    }
    Ok((language, source))
}

impl McpServer {
    /// Runs a program that calls what the gateway offers, except workflows: a run outlives the program.
    pub(super) async fn run_code(
        &self,
        offered: &Offered,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let (language, source) = match program(arguments) {
            Ok(program) => program,
            Err(why) => return wrong(why),
        };
        let target = |tool: &Tool| {
            let target = match offered.tools.target(&tool.name)? {
                Target::Operation(id) => ProgramTarget::Operation(id),
                Target::Remote(server, tool) => ProgramTarget::ServerTool { server, tool },
                Target::Workflow(_) | Target::Run => return None,
            };
            Some((tool.name.to_string(), target))
        };
        let client = super::caller::Client::of(context);
        let (caller, tenant) = (client.name.clone(), self.tenant.name.clone());
        let observer: CallObserver = Arc::new(move |target, ended| {
            let ended = ended.err().unwrap_or("ok");
            let (server, tool) = match target {
                ProgramTarget::ServerTool { server, tool } => (&**server, &**tool),
                ProgramTarget::Operation(id) => ("", &**id),
                _ => ("", ""),
            };
            tracing::info!(target: "opcell::audit", %caller, %tenant, server, tool, ended, "a program called a tool");
        });
        let tools = ProgramTargets::new(offered.tools.all().filter_map(target).collect(), observer);
        let host = self.tenant.host.now();
        let mut call = host.run_program(language, source, tools).cancel(context.ct.clone());
        if let Some(traceparent) = super::traceparent(context) {
            call = call.traceparent(traceparent);
        }
        super::result_of(super::progress::with_progress(call, context).await, &client, super::Parts::AreData)
    }

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
        let called = super::progress::with_progress(call, context).await;
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

    /// A server that lists what a file holds, notes each time that it is asked, and tells of a change with each call.
    const SERVER: &str = r#"say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"method":"tools/list"'*) echo x >>lists; say "$(cat tools.json)" ;;
    *'"method":"tools/call"'*) echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; say '{"content":[]}' ;;
  esac
done
"#;

    #[tokio::test]
    async fn the_tools_are_put_together_again_only_after_a_change_which_is_seen_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let list = |tools: &[&str]| {
            let tools: Vec<Json> =
                tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
            std::fs::write(folder.path().join("tools.json"), json!({"tools": tools}).to_string()).unwrap();
        };
        let asked = || std::fs::read_to_string(folder.path().join("lists")).unwrap_or_default().lines().count();
        std::fs::write(folder.path().join("server.sh"), SERVER).unwrap();
        list(&["a"]);
        let project = "[mcp]\nnotes = { command = [\"sh\", \"server.sh\"] }\n".to_owned();
        let config = opcell::Config::parse("opcell.toml", project, folder.path()).unwrap();
        let host = Host::builder().config(config).build().await.unwrap();
        let gate = Gate::new(Gateway::new(Face::Tools, Vec::new()));
        let workflows = BTreeSet::from(["greet".to_owned()]);
        let has = |offered: &Offered, name: &str| offered.tools.tool(name).is_some();
        let made = || (gate.made.load(Ordering::Relaxed), gate.looks.load(Ordering::Relaxed));

        let first = gate.offered(host.clone(), &workflows).await;
        assert!(has(&first, "notes__a") && !has(&first, "notes__b"));
        for _ in 0..3 {
            assert!(Arc::ptr_eq(&first, &gate.offered(host.clone(), &workflows).await));
        }
        assert_eq!((made(), asked()), ((1, 1), 1), "nothing has changed");

        list(&["a", "b"]);
        host.invoke_tool("notes", "a", opcell::json!({})).await.unwrap();
        // What the server said is heard by a task of its own.
        let changed = async {
            loop {
                let now = gate.offered(host.clone(), &workflows).await;
                if has(&now, "notes__b") {
                    break now;
                }
                tokio::task::yield_now().await;
            }
        };
        let second = tokio::time::timeout(Duration::from_secs(60), changed).await.unwrap();
        assert!(Arc::ptr_eq(&second, &gate.offered(host.clone(), &workflows).await));
        assert_eq!((made(), asked()), ((2, 2), 2));

        // It tells of a change, and lists what it listed before: the search over it stays.
        host.invoke_tool("notes", "a", opcell::json!({})).await.unwrap();
        let heard = async {
            while asked() < 3 {
                assert!(Arc::ptr_eq(&second, &gate.offered(host.clone(), &workflows).await));
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
        assert_eq!(made(), (2, 3));

        let greet = r#"{:name "greet" :description "Greets" :steps [{:name "g" :type :exit :status :success}]}"#;
        host.library().add(opcell::Workflow::compile("greet.edn", greet).unwrap());
        let third = gate.offered(host.clone(), &workflows).await;
        assert!(has(&third, "run_greet"));
        assert_eq!((made(), asked()), ((3, 4), 3), "the servers were not asked for it");
    }

    #[tokio::test]
    async fn a_list_of_own_tools_is_made_once_for_each_state_of_the_host() {
        let host = Host::builder().build().await.unwrap();
        let (own, workflows) = (super::super::tools::OwnTools::default(), BTreeSet::from(["greet".to_owned()]));
        let first = own.list(&host, &workflows);
        assert!(Arc::ptr_eq(&first, &own.list(&host, &workflows)) && first.tool("run_greet").is_none());
        let greet = r#"{:name "greet" :description "Greets" :steps [{:name "g" :type :exit :status :success}]}"#;
        host.library().add(opcell::Workflow::compile("greet.edn", greet).unwrap());
        let second = own.list(&host, &workflows);
        assert!(second.tool("run_greet").is_some());
        let other = Host::builder().build().await.unwrap();
        assert!(own.list(&other, &workflows).tool("run_greet").is_none(), "another host has other tools");
    }

    #[test]
    fn what_a_model_must_read_for_a_search_is_little() {
        let bytes = serde_json::to_string(&faces()).unwrap().len();
        assert!(bytes < 2_100, "{bytes}");
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
