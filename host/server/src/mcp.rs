//! Operations and workflows as tools of the Model Context Protocol, for stdio and for HTTP.
//!
//! An operation is a tool with its own schema, and annotations that follow from its effects. A workflow is a tool that
//! starts a run and waits for it a while; a run that takes longer, or that is suspended, is returned by its ID and
//! asked for with `opcell_run`; it is a prompt as well, which a person picks in their client. A client of revision 2026-07-28 that declares tasks gets a task instead, and one that
//! has forms is asked what the run asks. A skill is a resource, and listed with its files.

mod asked;
mod audit;
mod caller;
mod changes;
mod gateway;
mod params;
mod progress;
mod prompts;
mod runs;
mod search;
mod skills;
mod stdio;
mod tasks;
mod ticket;
mod tools;

use crate::tenant::Tenant;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use caller::Client;
use changes::Changes;
pub use gateway::{Face, Gateway};
use gateway::{Gate, Offered};
use opcell::{CallError, CallOutput, Host, trace::TraceContext};
use opcell_types::Value;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
        CompleteResult, ContentBlock, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams,
        GetPromptResponse, GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
        ListPromptsResult, ListResourcesResult, ListSkillsResult, ListToolsResult, MetaObject, PaginatedRequestParams,
        ReadResourceDirectoryRequestParams, ReadResourceRequestParams, ReadResourceResponse, Reference,
        ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
    },
    service::{NotificationContext, Peer, RequestContext, ServiceExt, SubscriptionContext},
};
use serde_json::{Map, Value as Json};
use std::{collections::BTreeSet, io, sync::Arc, time::Duration};
use tools::{OwnTools, Target, ToolList};

/// The interval at which it is checked that a client which is told of changes is still connected.
const CLOSED_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The key of the receipt in a result.
const RECEIPT: &str = "opcell/receipt";

/// Bytes of the name of a method that a message repeats.
const METHOD_BYTES: usize = 100;

/// Tools per page of a list.
const TOOLS_PER_PAGE: usize = 200;

/// The begin of what a cursor says.
const CURSOR: &str = "after ";

/// A server of one tenant's tools.
#[derive(Clone)]
pub struct McpServer {
    tenant: Arc<Tenant>,
    workflows: Arc<BTreeSet<String>>,
    changes: Changes,
    /// No worker drives the runs of the tenant: this server does, as long as it lasts.
    drives: bool,
    own: Arc<OwnTools>,
    gate: Option<Arc<Gate>>,
}

impl McpServer {
    /// Offers the operations of a tenant, and these of its workflows.
    #[must_use]
    pub fn new(tenant: Arc<Tenant>, workflows: impl IntoIterator<Item = String>) -> Self {
        Self {
            tenant,
            workflows: Arc::new(workflows.into_iter().collect()),
            changes: Changes::default(),
            drives: false,
            own: Arc::default(),
            gate: None,
        }
    }

    /// Offers the tools of the tenant's MCP servers as well.
    #[must_use]
    pub fn with_gateway(self, gateway: Gateway) -> Self {
        Self { gate: Some(Arc::new(Gate::new(gateway))), ..self }
    }

    /// Speaks on stdin and stdout until the client closes them.
    ///
    /// # Errors
    /// When the client does not speak the protocol.
    pub async fn stdio(mut self) -> io::Result<()> {
        self.drives = true;
        tokio::task::spawn_blocking(caller::look_at_who_started).await.map_err(io::Error::other)?;
        let (read, write) = rmcp::transport::stdio();
        match self.serve(stdio::Stdio::new(read, write)).await {
            Ok(service) => service.waiting().await.map(drop).map_err(io::Error::other),
            // A client that leaves before it says anything has not asked for anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Everything that can be called, and the gateway's view of it where there is one.
    async fn tools(&self) -> Listed {
        self.tenant.refresh().await;
        let host = self.tenant.host.now();
        match &self.gate {
            Some(gate) => Listed::Gateway(gate.face(), gate.offered(host, &self.workflows).await),
            None => Listed::Own(self.own.list(&host, &self.workflows)),
        }
    }

    /// Refuses a method for prompts where none are announced.
    fn announces_prompts(&self, method: &str) -> Result<(), ErrorData> {
        if self.workflows.is_empty() {
            let message = format!("there is no method `{method}`: no workflow is offered as a prompt");
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        }
        Ok(())
    }

    /// Reads skills, off the threads that must not wait.
    async fn of_skills<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Host) -> Result<T, ErrorData> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let tenant = self.tenant.clone();
        let read = tokio::task::spawn_blocking(move || read(&tenant.host.now())).await;
        read.map_err(|_| ErrorData::internal_error("reading the skill was abandoned", None))?
    }

    async fn invoke(&self, id: &str, arguments: Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let host = self.tenant.host.now();
        let mut call = host.invoke(id, arguments).cancel(context.ct.clone());
        if let Some(traceparent) = traceparent(context) {
            call = call.traceparent(traceparent);
        }
        let called = progress::with_progress(call, context).await;
        result_of(called, &Client::of(context), Parts::AreData)
    }
}

/// The trace that a request belongs to.
fn traceparent(context: &RequestContext<RoleServer>) -> Option<&str> {
    context.meta.get_traceparent().filter(|text| TraceContext::parse(text).is_some())
}

/// The meaning of a result that is a list of blocks of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// It is data like any other.
    AreData,
    /// A tool of another server gave these blocks.
    AreBlocks,
}

/// The result of a call, with its receipt.
fn result_of(called: Result<CallOutput, CallError>, client: &Client, parts: Parts) -> CallToolResult {
    let receipt = called.as_ref().map_or_else(CallError::receipt, CallOutput::receipt);
    let receipt = receipt.map(|receipt| Json::from(&**receipt));
    let mut result = match called {
        Ok(success) => {
            let data = Json::from(&success.data);
            let summary = success.summary.into_iter().map(ContentBlock::text);
            if let Some(blocks) = gateway::blocks(&data).filter(|_| parts == Parts::AreBlocks) {
                CallToolResult::success(summary.chain(blocks).collect())
            } else {
                let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                let mut result = CallToolResult::success(summary.chain([ContentBlock::text(text)]).collect());
                // Revisions before 2026-07-28 have objects there and nothing else.
                result.structured_content = Some(data).filter(|data| client.is_current || data.is_object());
                result
            }
        }
        Err(CallError { failure, .. }) => {
            let remedy = failure.denial.as_ref().and_then(|denial| opcell::remedy::render(&denial.remedy));
            let remedy = remedy.map(|remedy| format!("; to allow it: {remedy}")).unwrap_or_default();
            let text = format!("{}: {}{remedy}", failure.reason, failure.message);
            CallToolResult::error(vec![ContentBlock::text(text)])
        }
    };
    if let Some(receipt) = receipt {
        result.meta = Some(MetaObject(Map::from_iter([(RECEIPT.to_owned(), receipt)])));
    }
    result
}

/// The tools of a server, and how a client sees them.
enum Listed {
    Own(Arc<ToolList>),
    Gateway(Face, Arc<Offered>),
}

impl Listed {
    fn list(&self) -> &ToolList {
        match self {
            Self::Own(list) => list,
            Self::Gateway(_, offered) => &offered.tools,
        }
    }

    /// A page of what a client is listed, and `true` if it is the last one.
    fn page(&self, after: Option<&str>, most: usize) -> (Vec<Tool>, bool) {
        match self {
            Self::Gateway(Face::Search, _) => {
                let rest = gateway::faces().into_iter().filter(|tool| after.is_none_or(|after| *tool.name > *after));
                (rest.collect(), true)
            }
            _ => self.list().page(after, most),
        }
    }

    fn unknown(&self, name: &str) -> String {
        match self {
            Self::Own(_) => format!("there is no tool `{}`", crate::api::shown(name)),
            Self::Gateway(_, offered) => offered.unknown(name),
        }
    }
}

fn refused(problem: &crate::problem::Problem) -> CallToolResult {
    let remedy = problem.remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(format!("{}: {}{remedy}", problem.code, problem.detail))])
}

/// The name after which a page of a list begins. What is added or removed between two pages shifts none of the others.
fn after(request: Option<PaginatedRequestParams>) -> Result<Option<String>, ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(None) };
    let name = URL_SAFE_NO_PAD.decode(&cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match name.as_deref().and_then(|name| name.strip_prefix(CURSOR)) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(ErrorData::invalid_params("the cursor is not one of this server's", None)),
    }
}

/// The cursor of the page after the one that ends with this name.
fn cursor(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR}{last}"))
}

impl McpServer {
    /// The answer to a call of a tool.
    async fn called(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let listed = self.tools().await;
        let mut request = request;
        if let Listed::Gateway(Face::Search, offered) = &listed {
            let arguments = request.arguments.take().unwrap_or_default();
            match &*request.name {
                gateway::SEARCH => return Ok(offered.search(&Value::from(Json::Object(arguments))).into()),
                gateway::RUN_CODE => {
                    return Ok(self.run_code(offered, &Value::from(Json::Object(arguments)), context).await.into());
                }
                gateway::DESCRIBE => return Ok(offered.describe(&Value::from(Json::Object(arguments))).into()),
                gateway::CALL => {
                    let mut arguments = arguments;
                    let name = match arguments.remove("name") {
                        Some(Json::String(name)) => name,
                        _ => return Err(ErrorData::invalid_params("`name` must be a string", None)),
                    };
                    request.arguments = match arguments.remove("arguments") {
                        None | Some(Json::Null) => None,
                        Some(Json::Object(arguments)) => Some(arguments),
                        Some(_) => return Err(ErrorData::invalid_params("`arguments` must be an object", None)),
                    };
                    request.name = name.into();
                }
                _ => request.arguments = Some(arguments),
            }
        }
        let arguments = Value::from(Json::Object(request.arguments.unwrap_or_default()));
        let result = match listed.list().target(&request.name) {
            Some(Target::Operation(id)) => self.invoke(&id, arguments, context).await.into(),
            Some(Target::Workflow(name)) => match request.request_state {
                Some(state) => {
                    let responses = request.input_responses.unwrap_or_default();
                    self.again(&name, &state, responses, context).await?
                }
                None => self.start(&name, arguments, context).await?,
            },
            Some(Target::Run) => self.look(&arguments, context).await.into(),
            Some(Target::Remote(server, tool)) => self.call_server(&server, &tool, arguments, context).await.into(),
            None => return Err(ErrorData::invalid_params(listed.unknown(&request.name), None)),
        };
        Ok(result)
    }
}

/// Tells a client of an earlier revision that the lists changed, and returns `false` if it is gone.
async fn told(peer: &Peer<RoleServer>, has_prompts: bool) -> bool {
    peer.notify_tool_list_changed().await.is_ok() && (!has_prompts || peer.notify_prompt_list_changed().await.is_ok())
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_skills_with_directory_read();
        let mut info = ServerConfig::new(match self.workflows.is_empty() {
            true => capabilities.build(),
            false => {
                capabilities.enable_tasks().enable_prompts().enable_prompts_list_changed().enable_completions().build()
            }
        });
        info.server_info = Implementation::new("opcell", env!("CARGO_PKG_VERSION")).with_title("Opcell");
        info.instructions = Some(
            "Each tool runs in a metered WebAssembly cell; `_meta` of a result has its receipt. A refusal says what would allow it."
                .to_owned(),
        );
        info
    }

    /// Clients of revisions before 2026-07-28 are told of changes without asking for it.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.changes.listen(self).await;
        let has_prompts = !self.workflows.is_empty();
        tokio::spawn(async move {
            while !context.peer.is_transport_closed() {
                match tokio::time::timeout(CLOSED_CHECK_INTERVAL, changes.changed()).await {
                    Ok(Ok(())) if told(&context.peer, has_prompts).await => {}
                    Ok(_) => break,
                    Err(_) => {}
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let filter = SubscriptionFilter::builder().tools_list_changed();
        Some(if self.workflows.is_empty() { filter.build() } else { filter.prompts_list_changed().build() })
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.listen(self).await;
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    let sink = context.sink();
                    if changed.is_err() || sink.notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                    if !self.workflows.is_empty() && sink.notify_prompt_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let after = after(request)?;
        let (page, is_last) = self.tools().await.page(after.as_deref(), TOOLS_PER_PAGE);
        let next = page.last().filter(|_| !is_last).map(|tool| cursor(&tool.name));
        let mut result = ListToolsResult::with_all_items(page);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.announces_prompts("prompts/list")?;
        let after = after(request)?;
        let (page, is_last) = prompts::page(self.tools().await.list(), after.as_deref(), TOOLS_PER_PAGE);
        let next = page.last().filter(|_| !is_last).map(|prompt| cursor(&prompt.name));
        let mut result = ListPromptsResult::with_all_items(page);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.announces_prompts("prompts/get")?;
        let arguments = request.arguments.unwrap_or_default();
        prompts::get(self.tools().await.list(), &request.name, &arguments).map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.announces_prompts("completion/complete")?;
        match &request.r#ref {
            Reference::Prompt(prompt) => prompts::complete(self.tools().await.list(), &prompt.name, &request.argument),
            _ => Err(ErrorData::invalid_params("there are no resource templates to complete", None)),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let after = after(request)?;
        let mut rest = skills::list(&self.tenant.host.now());
        rest.sort_by(|a, b| a.uri.cmp(&b.uri));
        if let Some(after) = after {
            rest.retain(|resource| *resource.uri > *after);
        }
        let next = rest.get(TOOLS_PER_PAGE).and_then(|_| rest.get(TOOLS_PER_PAGE - 1)).map(|last| cursor(&last.uri));
        rest.truncate(TOOLS_PER_PAGE);
        let mut result = ListResourcesResult::with_all_items(rest);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.of_skills(move |host| skills::read(host, &request.uri)).await.map(Into::into)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match params::wrong(&request) {
            Some(wrong) => ErrorData::invalid_params(wrong, None),
            None => {
                let method = opcell_types::text::printable(&request.method, METHOD_BYTES);
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
            }
        })
    }

    /// The tool whose schema says which arguments a request over HTTP has as headers as well.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let host = self.tenant.host.now();
        match &self.gate {
            Some(gate) => gate.listed(&host)?.tools.tool(name).cloned(),
            None => self.own.list(&host, &self.workflows).tool(name).cloned(),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = audit::Call::of(&self.tenant.name, &request.name, &context);
        let result = self.called(request, &context).await;
        call.ended(&result);
        result
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task_now(&request.task_id, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let call = audit::Call::of(&self.tenant.name, "tasks/update", &context);
        let result = self.task_answered(&request.task_id, request.input_responses, &context).await;
        call.done(&request.task_id, result.as_ref().err());
        result
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let call = audit::Call::of(&self.tenant.name, "tasks/cancel", &context);
        let result = self.task_cancelled(&request.task_id, &context).await;
        call.done(&request.task_id, result.as_ref().err());
        result
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let after = after(request)?;
        let (page, last) = self.of_skills(move |host| skills::page(host, after.as_deref())).await?;
        let mut result = ListSkillsResult::with_all_items(page);
        result.next_cursor = last.map(|last| cursor(&last));
        Ok(result)
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.of_skills(move |host| skills::one(host, &request.uri)).await.map(GetSkillResult::new)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.of_skills(move |host| skills::directory(host, &request.uri)).await.map(ListResourcesResult::with_all_items)
    }
}
