//! Operations and workflows as tools of the Model Context Protocol, for stdio and for HTTP.
//!
//! An operation is a tool with its own schema, and annotations that follow from its effects. A workflow is a tool that
//! starts a run and waits for it a while; a run that takes longer, or that is suspended, is returned by its ID and
//! asked for with `opcell_run`. A skill is a resource.

mod changes;
mod params;
mod skills;
mod stdio;
mod tools;

use crate::{
    api::{Start, begin},
    tenant::Tenant,
};
use changes::Changes;
use opcell::{CallError, CallOutput, trace::TraceContext};
use opcell_engine::{MESSAGE_SIGNAL, Status};
use opcell_journal::RunId;
use opcell_types::Value;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
        Implementation, ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams,
        ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscriptionFilter,
    },
    service::{NotificationContext, RequestContext, ServiceExt, SubscriptionContext},
};
use serde_json::{Map, Value as Json, json};
use std::{collections::BTreeSet, io, sync::Arc, time::Duration};
use tools::{Target, ToolList};

/// The time for which a tool waits for the run that it started.
const WAIT: Duration = Duration::from_secs(50);

/// How often it is looked whether a client that is told of changes has gone.
const CLOSED: Duration = Duration::from_secs(10);

/// The key of the receipt in a result.
const RECEIPT: &str = "opcell/receipt";

/// Tools per page of a list.
const PAGE: usize = 200;

/// A server of one tenant's tools.
#[derive(Clone)]
pub struct McpServer {
    tenant: Arc<Tenant>,
    workflows: Arc<BTreeSet<String>>,
    changes: Changes,
}

impl McpServer {
    /// Offers the operations of a tenant, and these of its workflows.
    #[must_use]
    pub fn new(tenant: Arc<Tenant>, workflows: impl IntoIterator<Item = String>) -> Self {
        Self { tenant, workflows: Arc::new(workflows.into_iter().collect()), changes: Changes::default() }
    }

    /// Speaks on stdin and stdout until the client closes them.
    ///
    /// # Errors
    /// When the client does not speak the protocol.
    pub async fn stdio(self) -> io::Result<()> {
        let (read, write) = rmcp::transport::stdio();
        match self.serve(stdio::Stdio::new(read, write)).await {
            Ok(service) => service.waiting().await.map(drop).map_err(io::Error::other),
            // A client that leaves before it says anything has not asked for anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    async fn tools(&self) -> ToolList {
        self.tenant.refresh().await;
        ToolList::of(&self.tenant.host.now(), &self.workflows)
    }

    async fn invoke(&self, id: &str, arguments: Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let host = self.tenant.host.now();
        let called = host.invoke(id, arguments).cancel(context.ct.clone()).await;
        let receipt = called.as_ref().map_or_else(CallError::receipt, CallOutput::receipt);
        let receipt = receipt.map(|receipt| Json::from(&**receipt));
        let mut result = match called {
            Ok(success) => {
                let data = Json::from(&success.data);
                let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                let summary = success.summary.into_iter().map(ContentBlock::text);
                let mut result = CallToolResult::success(summary.chain([ContentBlock::text(text)]).collect());
                result.structured_content = Some(data).filter(Json::is_object);
                result
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

    async fn start(&self, workflow: &str, input: Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let traceparent = context.meta.get_traceparent().filter(|text| TraceContext::parse(text).is_some());
        let start = Start { workflow, input, run: None, idempotent: false, traceparent: traceparent.map(Arc::from) };
        let started = match begin(&self.tenant, start).await {
            Ok((run, _)) => run,
            Err(problem) => return refused(&problem),
        };
        self.follow(&started, WAIT, true, context).await
    }

    /// Waits for a run while it does something, and says how it stands.
    async fn follow(
        &self,
        run: &RunId,
        wait: Duration,
        owns: bool,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let token = context.meta.get_progress_token();
        let mut reader = self.tenant.feeds.reader(run.clone(), 0);
        let following = async {
            let mut entered = 0.0;
            while let Ok(Some(_)) = reader.next().await {
                for step in reader.entered() {
                    let Some(token) = &token else { break };
                    entered += 1.0;
                    let progress = ProgressNotificationParam::new(token.clone(), entered);
                    let _ = context.peer.notify_progress(progress.with_message(format!("step {step}"))).await;
                }
                if self.status(run).await.is_none_or(|status| status == Status::Suspended || status.has_ended()) {
                    break;
                }
            }
        };
        let cancelled = tokio::select! {
            () = following => false,
            () = tokio::time::sleep(wait) => false,
            () = context.ct.cancelled() => true,
        };
        if cancelled && owns {
            let reason = "cancelled by the client of the tool".into();
            let message = opcell_engine::Message::Cancel { reason, by: Some("mcp".into()) };
            let _ = self.tenant.host.engine().send(run, &message).await;
        }
        self.report(run).await
    }

    async fn status(&self, run: &RunId) -> Option<Status> {
        Some(self.tenant.views.of(run).await.ok()?.state().status())
    }

    async fn report(&self, run: &RunId) -> CallToolResult {
        let (outcome, questions, receipts) = match self.tenant.views.of(run).await {
            Ok(view) => (view.state().outcome(), view.state().questions(), view.receipts().collect()),
            Err(problem) => return refused(&problem),
        };
        let text = match outcome.status {
            Status::Completed => outcome.result.as_str().map_or_else(|| outcome.result.to_json(), str::to_owned),
            Status::Failed | Status::Cancelled => {
                let reason = outcome.reason.as_deref().unwrap_or("failed");
                format!("{reason}: {}", outcome.message.as_deref().unwrap_or_default())
            }
            status => format!("run `{run}` is {status}; ask for it again with the tool `{}`", tools::RUN),
        };
        let mut result = match outcome.status {
            Status::Failed | Status::Cancelled => CallToolResult::error(vec![ContentBlock::text(text)]),
            _ => CallToolResult::success(vec![ContentBlock::text(text)]),
        };
        result.structured_content = Some(json!({
            "run": run, "status": outcome.status, "result": Json::from(&outcome.result), "questions": questions,
        }));
        let receipts = self.receipts(run, receipts).await;
        result.meta = Some(MetaObject(Map::from_iter([
            ("opcell/run".to_owned(), json!(run)),
            ("opcell/used".to_owned(), json!(outcome.used)),
            ("opcell/receipts".to_owned(), Json::Array(receipts)),
        ])));
        result
    }

    /// The receipts that these events brought.
    async fn receipts(&self, run: &RunId, events: Vec<u64>) -> Vec<Json> {
        let events = self.tenant.views.events(run, events).await.unwrap_or_default();
        let of = |recorded| Some(Json::from(&**opcell::run::receipt(recorded)?));
        events.values().filter_map(|recorded| of(&recorded.event)).collect()
    }

    /// Looks at a run of one of the offered workflows, and perhaps says something to it.
    async fn look(&self, arguments: &Value, context: &RequestContext<RoleServer>) -> CallToolResult {
        let wrong = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
        let Some(run) = arguments.get("run").and_then(Value::as_str) else {
            return wrong("`run` must be the ID of a run".to_owned());
        };
        let run: RunId = run.into();
        let offered = match self.tenant.views.of(&run).await {
            Ok(view) => view.state().program().is_some_and(|program| self.workflows.contains(program.name().as_ref())),
            Err(problem) => return wrong(problem.detail),
        };
        if !offered {
            return wrong(format!("the journal has no run `{run}`"));
        }
        if let Some(message) = arguments.get("message").and_then(Value::as_str) {
            let sent = self
                .tenant
                .host
                .engine()
                .signal(&run, &MESSAGE_SIGNAL.into(), message.into(), Some("mcp".into()))
                .await;
            if let Err(error) = sent {
                return wrong(error.to_string());
            }
        }
        self.follow(&run, WAIT, false, context).await
    }
}

fn refused(problem: &crate::problem::Problem) -> CallToolResult {
    let remedy = problem.remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(format!("{}: {}{remedy}", problem.code, problem.detail))])
}

/// Returns the start of a page of a list of this length.
fn start_of(request: Option<PaginatedRequestParams>, length: usize) -> Result<usize, ErrorData> {
    match request.and_then(|request| request.cursor).map(|cursor| cursor.parse::<usize>()) {
        None => Ok(0),
        Some(Ok(start)) if start <= length => Ok(start),
        Some(_) => Err(ErrorData::invalid_params("the cursor is not one of this server's", None)),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_resources().build(),
        );
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
        tokio::spawn(async move {
            while !context.peer.is_transport_closed() {
                match tokio::time::timeout(CLOSED, changes.changed()).await {
                    Ok(Ok(())) if context.peer.notify_tool_list_changed().await.is_ok() => {}
                    Ok(_) => break,
                    Err(_) => {}
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.listen(self).await;
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
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
        let tools = self.tools().await;
        let start = start_of(request, tools.len())?;
        let page = tools.page(start, PAGE);
        let end = start + page.len();
        let mut result = ListToolsResult::with_all_items(page);
        result.next_cursor = (end < tools.len()).then(|| end.to_string());
        Ok(result)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = skills::list(&self.tenant.host.now());
        let (start, most) = (start_of(request, all.len())?, all.len());
        let page: Vec<_> = all.into_iter().skip(start).take(PAGE).collect();
        let end = start + page.len();
        let mut result = ListResourcesResult::with_all_items(page);
        result.next_cursor = (end < most).then(|| end.to_string());
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let tenant = self.tenant.clone();
        let read = tokio::task::spawn_blocking(move || skills::read(&tenant.host.now(), &request.uri)).await;
        let read = read.map_err(|_| ErrorData::internal_error("reading the skill was abandoned", None))?;
        Ok(read?.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match params::wrong(&request) {
            Some(wrong) => ErrorData::invalid_params(wrong, None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::from(Json::Object(request.arguments.unwrap_or_default()));
        let result = match self.tools().await.target(&request.name) {
            Some(Target::Operation(id)) => self.invoke(&id, arguments, &context).await,
            Some(Target::Workflow(name)) => self.start(&name, arguments, &context).await,
            Some(Target::Run) => self.look(&arguments, &context).await,
            None => {
                let text = format!("there is no tool `{}`", crate::api::shown(&request.name));
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        Ok(result.into())
    }
}
