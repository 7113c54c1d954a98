//! A host and its calls.

use crate::{
    connection::{Connection, Ended, done, runtime},
    error,
    model::JsModel,
    run::{NativeRun, NativeWorkflow},
    tool::JsTool,
    value::{Given, Json},
};
use napi::Status;
use napi_derive::napi;
use opcell::{
    CallError, CallOutput, CancellationToken, Config, Effects, Host, HostBuilder, NewRunId, ResumeOptions, RunOptions,
    RunText, ToolDescription, Value, consent::Requests,
};
use opcell_bindings::{
    data,
    error::{Raised, failure},
    settings::{HostSettings, TenantSettings, WrongSettings},
    updates::TextFeed,
};
use std::{collections::HashMap, future::IntoFuture as _, mem::ManuallyDrop, path::Path, sync::Arc, time::Duration};

/// A tool of the program.
#[napi(object, object_to_js = false)]
pub struct ToolSettings {
    /// The name by which it is called.
    pub name: String,
    /// The sentence that a model reads.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Given,
    /// `pure`, `idempotent` or `once`.
    pub effects: String,
    /// `true` to offer it to plugins.
    pub plugins: bool,
    /// `true` to offer it to documents.
    pub documents: bool,
}

/// Options of a call.
#[napi(object, object_to_js = false)]
pub struct CallOptions {
    /// The time of the call, in milliseconds.
    pub timeout_ms: Option<f64>,
    /// The user on whose behalf it is.
    pub user: Option<String>,
    /// The tenant on whose behalf it is.
    pub tenant: Option<String>,
    /// The key by which a call that is made again is recognised.
    pub idempotency_key: Option<String>,
}

/// Options of a run.
#[napi(object, object_to_js = false)]
pub struct StartOptions {
    /// `true` to release the run when it is suspended.
    pub detach: bool,
    /// The pieces of answers among the updates: 0 for none, 1 for text and tool calls, 2 for reasoning as well.
    pub text: u8,
    /// The run's ID.
    pub id: Option<String>,
    /// The user on whose behalf it is.
    pub user: Option<String>,
    /// The tenant on whose behalf it is.
    pub tenant: Option<String>,
}

/// A host, which is dropped on the runtime: it waits for its threads.
pub(crate) struct SharedHost(ManuallyDrop<Host>);

impl SharedHost {
    pub(crate) fn host(&self) -> Host {
        Host::clone(&self.0)
    }
}

impl Drop for SharedHost {
    fn drop(&mut self) {
        // SAFETY: it is not used again, for this is the end of the only value that has it.
        let host = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Ok(runtime) = runtime() {
            runtime.spawn_blocking(move || drop(host));
        }
    }
}

/// A host that is built.
#[napi]
pub struct NativeHost {
    connection: Arc<Connection>,
    host: Arc<SharedHost>,
    /// The number under which calls of its functions are reported.
    number: f64,
}

/// The end of a call: its result or its failure, each with the receipt.
#[napi]
pub struct NativeReply {
    result: Result<CallOutput, CallError>,
}

fn wrong(problem: impl Into<String>) -> napi::Error {
    napi::Error::new(Status::InvalidArg, problem.into())
}

fn milliseconds(what: &str, time: f64) -> napi::Result<Duration> {
    let wrong = |_| wrong(format!("{what} is a number of milliseconds from 0"));
    Duration::try_from_secs_f64(time / 1_000.0).map_err(wrong)
}

/// The feed for the answers of a run's models, if it is asked for: with one, providers send them in pieces. 0: none;
/// 1: text and tool calls; 2: reasoning as well.
fn feed(pieces: u8) -> Option<Arc<TextFeed>> {
    (pieces > 0).then(|| Arc::new(TextFeed::new(pieces > 1)))
}

fn sink(feed: Option<&Arc<TextFeed>>) -> Option<Arc<dyn RunText>> {
    feed.map(|feed| feed.clone() as Arc<dyn RunText>)
}

/// Reads the requests of a project file that reach outside of its folder.
pub(crate) async fn requests(project: String) -> Ended {
    let read =
        tokio::task::spawn_blocking(move || Config::load(Path::new(&project)).map(|config| Requests::of(&config)));
    let requests = read.await.map_err(|error| Raised::new("host", "panicked", &error.to_string()))??;
    done(Json(data::requests(&requests)))
}

fn described(tool: ToolSettings) -> napi::Result<(ToolDescription, Effects, bool, bool)> {
    let effects = match tool.effects.as_str() {
        "pure" => Effects::Pure,
        "idempotent" => Effects::Idempotent,
        "once" => Effects::Once,
        other => {
            let name = &tool.name;
            return Err(wrong(format!(
                "the effects `{other}` of the tool `{name}` are not `pure`, `idempotent` or `once`"
            )));
        }
    };
    let parameters = tool.schema.named("the schema of a tool")?;
    Ok((ToolDescription::new(tool.name, tool.description, parameters), effects, tool.plugins, tool.documents))
}

impl NativeHost {
    /// Begins to build a host.
    pub(crate) fn open(
        connection: &Arc<Connection>,
        number: f64,
        settings: &Value,
        components: HashMap<String, Vec<u8>>,
        tools: Vec<ToolSettings>,
        model: bool,
        providers: Vec<String>,
    ) -> napi::Result<impl Future<Output = Ended> + Send + 'static> {
        let settings = HostSettings::read(settings).map_err(wrong)?;
        let tools = tools.into_iter().map(described).collect::<napi::Result<Vec<_>>>()?;
        let connection = connection.clone();
        Ok(async move {
            let read = tokio::task::spawn_blocking(move || settings.builder(components)).await;
            let mut builder: HostBuilder = read
                .map_err(|error| Raised::new("host", "host-not-built", &error.to_string()))?
                .map_err(|refused| match refused {
                    WrongSettings::Rejected(rejected) => rejected.into(),
                    WrongSettings::Setting(problem) => error::setting(&problem),
                })?;
            for (index, (description, effects, for_plugins, for_documents)) in (0..).zip(tools) {
                let tool =
                    Arc::new(JsTool { connection: connection.clone(), host: number, index, description, effects });
                builder = if for_plugins { builder.tool(tool.clone()) } else { builder };
                builder = if for_documents { builder.document_tool(tool) } else { builder };
            }
            if model {
                builder = builder.model(JsModel { connection: connection.clone(), host: number, provider: None });
            }
            for name in providers {
                let provider = Some(name.clone());
                builder = builder.provider(name, JsModel { connection: connection.clone(), host: number, provider });
            }
            let host = Arc::new(SharedHost(ManuallyDrop::new(builder.build().await?)));
            connection.keep(&host);
            done(Self { connection, host, number })
        })
    }
}

#[napi]
impl NativeHost {
    /// Calls an operation. The result is its data if the call succeeds and `reply` is `false`, else a `NativeReply`.
    #[napi]
    pub fn invoke(
        &self,
        number: f64,
        operation: String,
        arguments: Given,
        reply: bool,
        options: CallOptions,
    ) -> napi::Result<()> {
        let arguments = arguments.read();
        let arguments = arguments.map_err(|problem| wrong(format!("the arguments of `{operation}`: {problem}")))?;
        let cancel = CancellationToken::new();
        let mut call = self.host.0.invoke(&operation, arguments).cancel(cancel.clone());
        if let Some(time) = options.timeout_ms {
            call = call.timeout(milliseconds("timeoutMs", time)?);
        }
        call = options.user.into_iter().fold(call, |call, user| call.user(user));
        call = options.tenant.into_iter().fold(call, |call, tenant| call.tenant(tenant));
        call = options.idempotency_key.into_iter().fold(call, |call, key| call.idempotency_key(key));
        let call = call.into_future();
        self.connection.begin_cancelled_by(number, cancel, async move {
            match call.await {
                Ok(output) if !reply => done(Json(output.data)),
                result => done(NativeReply { result }),
            }
        });
        Ok(())
    }

    /// Every operation and judge of the plugins.
    #[napi]
    pub fn operations(&self) -> Json {
        let entries = self.host.0.catalog().entries().into_iter().map(|entry| Value::of(entry).unwrap_or_default());
        Json(Value::from(entries.collect::<Vec<_>>()))
    }

    /// The plugins that were left out, each with why.
    #[napi]
    pub fn left_out(&self) -> Json {
        let left_out = self.host.0.left_out().iter();
        Json(Value::object(left_out.map(|error| (error.plugin.clone(), Value::from(error.to_string())))))
    }

    /// Opens a workflow by its path or its name in the project; the result is a `NativeWorkflow`.
    #[napi]
    pub fn workflow(&self, number: f64, target: String) {
        let host = self.host.host();
        self.connection.begin(number, NativeWorkflow::opened(move || host.open(&target)));
    }

    /// Findings about a workflow on this host.
    #[napi]
    pub fn check(&self, workflow: &NativeWorkflow) -> Json {
        workflow.findings(&self.host.0.check(&workflow.workflow))
    }

    /// Starts a run; the result is a `NativeRun`.
    #[napi]
    pub fn start(
        &self,
        number: f64,
        workflow: &NativeWorkflow,
        input: Given,
        options: StartOptions,
    ) -> napi::Result<()> {
        let input = input.named("the input of the run")?;
        let run = options.id.as_deref().map(str::parse::<NewRunId>).transpose();
        let text = feed(options.text);
        let options = RunOptions {
            run: run.map_err(|error| wrong(error.to_string()))?,
            detach: options.detach,
            sink: sink(text.as_ref()),
            user: options.user.map(Into::into),
            tenant: options.tenant.map(Into::into),
            ..RunOptions::default()
        };
        let (host, workflow, connection) = (self.host.host(), workflow.workflow.clone(), self.connection.clone());
        self.connection.begin(number, async move {
            done(NativeRun::new(connection, host.start_with(&workflow, input, options).await?, text))
        });
        Ok(())
    }

    /// Drives a run of the journal that has no driver; the result is a `NativeRun`.
    #[napi]
    pub fn resume(&self, number: f64, id: String, detach: bool, text: u8) {
        let (host, connection, text) = (self.host.host(), self.connection.clone(), feed(text));
        self.connection.begin(number, async move {
            let options = ResumeOptions { detach, sink: sink(text.as_ref()), ..ResumeOptions::default() };
            done(NativeRun::new(connection, host.resume(&id, options).await?, text))
        });
    }

    /// Drives every run of the journal that has no driver; the result is a list of an ID, a `NativeRun` and an error,
    /// one of which is `null`.
    #[napi]
    pub fn resume_all(&self, number: f64, detach: bool) {
        let (host, connection) = (self.host.host(), self.connection.clone());
        self.connection.begin(number, async move {
            let resumed = host.resume_all(ResumeOptions { detach, ..ResumeOptions::default() }).await?;
            let listed = resumed.into_iter().map(|resumed| {
                let id = resumed.id.to_string();
                match resumed.run {
                    Ok(run) => (id, Some(NativeRun::new(connection.clone(), run, None)), None),
                    Err(error) => (id, None, Some(error::data(error.into()))),
                }
            });
            done(listed.collect::<Vec<_>>())
        });
    }

    /// Returns a run of the journal by its ID, whichever process drives it.
    #[napi]
    pub fn run_by_id(&self, id: String) -> NativeRun {
        NativeRun::of_journal(self.connection.clone(), self.host.0.run(&id))
    }

    /// Makes a tenant known, or replaces it. `model` is the key of the function that answers whatever its sessions name,
    /// `providers` are pairs of a provider and the key of its function.
    #[napi]
    pub fn set_tenant(
        &self,
        number: f64,
        settings: Given,
        model: Option<String>,
        providers: Vec<(String, String)>,
    ) -> napi::Result<()> {
        let settings = TenantSettings::read(&settings.named("the tenant")?);
        let mut tenant = settings.and_then(TenantSettings::tenant).map_err(wrong)?;
        let function = |key| JsModel { connection: self.connection.clone(), host: self.number, provider: Some(key) };
        if let Some(key) = model {
            tenant = tenant.model(function(key));
        }
        tenant = providers.into_iter().fold(tenant, |tenant, (name, key)| tenant.provider(name, function(key)));
        let host = self.host.host();
        self.connection.begin(number, async move {
            host.set_tenant(tenant).await?;
            done(Json(Value::Null))
        });
        Ok(())
    }

    /// Forgets a tenant. Returns `false` if there was none.
    #[napi]
    pub fn remove_tenant(&self, name: String) -> bool {
        self.host.0.remove_tenant(&name)
    }

    /// Closes the host: calls and runs in flight have `grace` milliseconds.
    #[napi]
    pub fn close(&self, number: f64, grace: f64) -> napi::Result<()> {
        let grace = milliseconds("graceMs", grace)?;
        let host = self.host.host();
        self.connection.begin(number, async move {
            host.close(grace).await;
            done(Json(Value::Null))
        });
        Ok(())
    }
}

#[napi]
impl NativeReply {
    /// Returns `true` if the call has a result.
    #[napi]
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The result; `null` of a failure.
    #[napi]
    pub fn data(&self) -> Json {
        Json(self.result.as_ref().map_or(Value::Null, |output| output.data.clone()))
    }

    /// The result in a sentence.
    #[napi]
    pub fn summary(&self) -> Option<String> {
        self.result.as_ref().ok().and_then(|output| output.summary.as_deref().map(ToOwned::to_owned))
    }

    /// More about the result.
    #[napi]
    pub fn details(&self) -> Json {
        Json(self.result.as_ref().ok().and_then(|output| output.details.clone()).unwrap_or(Value::Null))
    }

    /// The failure as data.
    #[napi]
    pub fn failure(&self) -> Json {
        Json(self.result.as_ref().err().map_or(Value::Null, |error| failure(&error.failure)))
    }

    /// The receipt as data.
    #[napi]
    pub fn receipt(&self) -> Json {
        let receipt = match &self.result {
            Ok(output) => output.receipt(),
            Err(error) => error.receipt(),
        };
        Json(receipt.map_or(Value::Null, |receipt| (**receipt).clone()))
    }
}
