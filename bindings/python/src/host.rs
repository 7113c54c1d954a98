//! A host and its calls.

use crate::{
    error::{self, exception},
    model::PythonModel,
    pending::{Finish, Pending},
    run::{NativeRun, NativeWorkflow},
    tool::PythonTool,
    value::{from_python, to_python},
};
use opcell::{
    CallError, CallOutput, CancellationToken, Config, Effects, Failure, Host, HostBuilder, NewRunId, Receipt,
    ResumeOptions, RunOptions, RunText, ToolDescription, Value, consent::Requests,
};
use opcell_bindings::{
    data,
    error::{Raised, failure},
    settings::{HostSettings, TenantSettings, WrongSettings},
    updates::TextFeed,
};
use pyo3::{exceptions::PyValueError, prelude::*};
use std::{collections::HashMap, future::IntoFuture, mem::ManuallyDrop, path::PathBuf, sync::Arc, time::Duration};

/// A tool of the program: name, description, schema of its arguments, effects, `True` for plugins, `True` for
/// documents, and the function that has a call performed.
type ToolSettings = (String, String, Py<PyAny>, String, bool, bool, Py<PyAny>);

/// A host that is built.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct NativeHost {
    host: ManuallyDrop<Host>,
    /// The process that built it.
    process: u32,
}

/// A host has threads, and waits for them when it is dropped: after a fork it is left as it is.
impl Drop for NativeHost {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: `host` is not used again, for this is the end of the only value that has it.
            unsafe { ManuallyDrop::drop(&mut self.host) }
        }
    }
}

/// The end of a call: its result or its failure, each with the receipt.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct NativeReply {
    result: Result<CallOutput, CallError>,
}

/// Turns an error into a step that raises it.
pub(crate) fn raising(raised: impl Into<Raised>) -> Finish {
    let raised = raised.into();
    Box::new(move |py| Err(exception(py, &raised)))
}

/// A step that returns the Python object of a value.
pub(crate) fn returning(value: Value) -> Finish {
    Box::new(move |py| Ok(to_python(py, &value)?.unbind()))
}

/// The arguments that a caller gives.
pub(crate) fn given(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    from_python(object).map_err(|problem| error::unfit(what, &problem))
}

/// Builds a host of its settings, of the bytes of components by the names of their plugins, of tools, and of models: one
/// that answers whatever a session names, and those of providers, each a function that has a round performed.
#[pyfunction]
pub(crate) fn open_host(
    settings: &Bound<'_, PyAny>,
    components: HashMap<String, Vec<u8>>,
    tools: Vec<ToolSettings>,
    model: Option<Py<PyAny>>,
    providers: Vec<(String, Py<PyAny>)>,
) -> PyResult<Pending> {
    let py = settings.py();
    let settings = HostSettings::read(&given("the settings", settings)?).map_err(PyValueError::new_err)?;
    let tools = tools.into_iter().map(|tool| described(py, tool)).collect::<PyResult<Vec<_>>>()?;
    Ok(Pending::new(async move {
        let read = tokio::task::spawn_blocking(move || settings.builder(components)).await;
        let builder = match read {
            Ok(Ok(builder)) => builder,
            Ok(Err(WrongSettings::Rejected(rejected))) => return raising(rejected),
            Ok(Err(WrongSettings::Setting(problem))) => return Box::new(|_| Err(PyValueError::new_err(problem))),
            Err(error) => return Box::new(move |_| Err(error::plain("host", "host-not-built", &error.to_string()))),
        };
        let builder = tools.into_iter().fold(builder, offered);
        let builder = model.into_iter().fold(builder, |builder, model| builder.model(PythonModel::new(model)));
        let providers = providers.into_iter();
        let builder = providers.fold(builder, |builder, (name, model)| builder.provider(name, PythonModel::new(model)));
        match builder.build().await {
            Ok(host) => Box::new(move |py| {
                let native = NativeHost { host: ManuallyDrop::new(host), process: std::process::id() };
                Ok(Py::new(py, native)?.into_any())
            }),
            Err(error) => raising(error),
        }
    }))
}

/// The feed for the answers of a run's models, if it is asked for: with one, providers send them in pieces. 0: none;
/// 1: text and tool calls; 2: reasoning as well.
fn feed(pieces: u8) -> Option<Arc<TextFeed>> {
    (pieces > 0).then(|| Arc::new(TextFeed::new(pieces > 1)))
}

fn sink(feed: Option<&Arc<TextFeed>>) -> Option<Arc<dyn RunText>> {
    feed.map(|feed| feed.clone() as Arc<dyn RunText>)
}

fn described(py: Python<'_>, tool: ToolSettings) -> PyResult<(Arc<PythonTool>, bool, bool)> {
    let (name, description, schema, effects, for_plugins, for_documents, submit) = tool;
    let effects = match effects.as_str() {
        "pure" => Effects::Pure,
        "idempotent" => Effects::Idempotent,
        "once" => Effects::Once,
        other => {
            let message = format!("the effects `{other}` of the tool `{name}` are not `pure`, `idempotent` or `once`");
            return Err(PyValueError::new_err(message));
        }
    };
    let parameters = given("the schema of a tool", schema.bind(py))?;
    let description = ToolDescription::new(name, description, parameters);
    Ok((Arc::new(PythonTool { description, effects, submit: Arc::new(submit) }), for_plugins, for_documents))
}

fn offered(builder: HostBuilder, (tool, for_plugins, for_documents): (Arc<PythonTool>, bool, bool)) -> HostBuilder {
    let builder = if for_plugins { builder.tool(tool.clone()) } else { builder };
    if for_documents { builder.document_tool(tool) } else { builder }
}

/// The requests of a project file that reach outside of its folder, with the digest that a consent names.
#[pyfunction]
pub(crate) fn requests(py: Python<'_>, project: PathBuf) -> PyResult<Py<PyAny>> {
    let read = py.detach(|| {
        let config = Config::load(&project)?;
        let requests = Requests::of(&config);
        Ok::<_, opcell::Rejected>(data::requests(&requests))
    });
    let requests = read.map_err(|rejected| exception(py, &rejected.into()))?;
    Ok(to_python(py, &requests)?.unbind())
}

#[pymethods]
impl NativeHost {
    /// Calls an operation; the result is a `NativeReply`.
    #[pyo3(signature = (operation, arguments, timeout=None, user=None, tenant=None, idempotency_key=None))]
    fn invoke(
        &self,
        operation: &str,
        arguments: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        user: Option<String>,
        tenant: Option<String>,
        idempotency_key: Option<String>,
    ) -> PyResult<Pending> {
        let arguments = given(&format!("the arguments of `{operation}`"), arguments)?;
        let cancel = CancellationToken::new();
        let mut call = self.host.invoke(operation, arguments).cancel(cancel.clone());
        if let Some(timeout) = seconds("timeout", timeout)? {
            call = call.timeout(timeout);
        }
        if let Some(user) = user {
            call = call.user(user);
        }
        if let Some(tenant) = tenant {
            call = call.tenant(tenant);
        }
        if let Some(key) = idempotency_key {
            call = call.idempotency_key(key);
        }
        let call = call.into_future();
        Ok(Pending::cancelled_by(cancel, async move {
            let result = call.await;
            Box::new(move |py: Python<'_>| Ok(Py::new(py, NativeReply { result })?.into_any())) as Finish
        }))
    }

    /// Every operation and judge of the plugins.
    fn operations(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let entries = self.host.catalog().entries().into_iter().map(|entry| Value::of(entry).unwrap_or_default());
        Ok(to_python(py, &Value::from(entries.collect::<Vec<_>>()))?.unbind())
    }

    /// The plugins that were left out, each with why.
    fn left_out(&self) -> Vec<(String, String)> {
        self.host.left_out().iter().map(|error| (error.plugin.clone(), error.to_string())).collect()
    }

    /// A workflow by its path or its name in the project.
    fn workflow(&self, py: Python<'_>, target: &str) -> PyResult<NativeWorkflow> {
        let opened = py.detach(|| self.host.open(target));
        opened.map(NativeWorkflow::new).map_err(|rejected| exception(py, &rejected.into()))
    }

    /// Findings about a workflow on this host.
    fn check(&self, py: Python<'_>, workflow: &NativeWorkflow) -> PyResult<Py<PyAny>> {
        let findings = py.detach(|| self.host.check(&workflow.workflow));
        workflow.findings(py, &findings)
    }

    /// Starts a run; the result is a `NativeRun`.
    #[pyo3(signature = (workflow, input, detach, text=0, id=None, user=None, tenant=None))]
    #[allow(clippy::too_many_arguments, reason = "Python passes its options")]
    fn start(
        &self,
        workflow: &NativeWorkflow,
        input: &Bound<'_, PyAny>,
        detach: bool,
        text: u8,
        id: Option<&str>,
        user: Option<&str>,
        tenant: Option<&str>,
    ) -> PyResult<Pending> {
        let input = given("the input of the run", input)?;
        let id =
            id.map(str::parse::<NewRunId>).transpose().map_err(|error| PyValueError::new_err(error.to_string()))?;
        let text = feed(text);
        let options = RunOptions {
            run: id,
            detach,
            sink: sink(text.as_ref()),
            user: user.map(Into::into),
            tenant: tenant.map(Into::into),
            ..RunOptions::default()
        };
        let (host, workflow) = (Host::clone(&self.host), workflow.workflow.clone());
        Ok(Pending::new(async move {
            match host.start_with(&workflow, input, options).await {
                Ok(run) => NativeRun::finish(run, text),
                Err(error) => raising(error),
            }
        }))
    }

    /// Drives a run of the journal that has no driver; the result is a `NativeRun`.
    #[pyo3(signature = (id, detach, text=0))]
    fn resume(&self, id: String, detach: bool, text: u8) -> Pending {
        let (host, text) = (Host::clone(&self.host), feed(text));
        Pending::new(async move {
            let options = ResumeOptions { detach, sink: sink(text.as_ref()), ..ResumeOptions::default() };
            match host.resume(&id, options).await {
                Ok(run) => NativeRun::finish(run, text),
                Err(error) => raising(error),
            }
        })
    }

    /// Drives every run of the journal that has no driver: a list of an ID, a `NativeRun` and an exception, one of
    /// which is `None`.
    fn resume_all(&self, detach: bool) -> Pending {
        let host = Host::clone(&self.host);
        Pending::new(async move {
            match host.resume_all(ResumeOptions { detach, ..ResumeOptions::default() }).await {
                Ok(resumed) => Box::new(move |py: Python<'_>| {
                    let mut found = Vec::new();
                    for resumed in resumed {
                        let id = resumed.id.to_string();
                        found.push(match resumed.run {
                            Ok(run) => (id, NativeRun::finish(run, None)(py)?, py.None()),
                            Err(error) => {
                                let error = exception(py, &error.into());
                                (id, py.None(), error.into_value(py).into_any())
                            }
                        });
                    }
                    Ok(found.into_pyobject(py)?.into_any().unbind())
                }),
                Err(error) => raising(error),
            }
        })
    }

    /// A run of the journal by its ID, whichever process drives it.
    fn run_by_id(&self, id: &str) -> NativeRun {
        NativeRun::of_journal(self.host.run(id))
    }

    /// Makes a tenant known, or replaces it, with its own models as of a host.
    fn set_tenant(
        &self,
        settings: &Bound<'_, PyAny>,
        model: Option<Py<PyAny>>,
        providers: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<Pending> {
        let settings = TenantSettings::read(&given("the tenant", settings)?);
        let tenant = settings.and_then(TenantSettings::tenant).map_err(PyValueError::new_err)?;
        let tenant = model.into_iter().fold(tenant, |tenant, model| tenant.model(PythonModel::new(model)));
        let providers = providers.into_iter();
        let tenant = providers.fold(tenant, |tenant, (name, model)| tenant.provider(name, PythonModel::new(model)));
        let host = Host::clone(&self.host);
        Ok(Pending::new(async move { host.set_tenant(tenant).await.map_or_else(raising, |()| returning(Value::Null)) }))
    }

    /// Forgets a tenant. Returns `False` if there was none.
    fn remove_tenant(&self, name: &str) -> bool {
        self.host.remove_tenant(name)
    }

    /// Closes the host: calls and runs in flight have `grace` seconds.
    fn close(&self, grace: f64) -> PyResult<Pending> {
        let grace = seconds("grace", Some(grace))?.unwrap_or_default();
        let host = Host::clone(&self.host);
        Ok(Pending::new(async move {
            host.close(grace).await;
            returning(Value::Null)
        }))
    }
}

fn seconds(what: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = |_| PyValueError::new_err(format!("{what} is a number of seconds from 0"));
    seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(wrong)).transpose()
}

impl NativeReply {
    fn receipt_of(&self) -> Option<&Receipt> {
        match &self.result {
            Ok(output) => output.receipt(),
            Err(error) => error.receipt(),
        }
    }

    fn failure_of(&self) -> Option<&Failure> {
        self.result.as_ref().err().map(|error| &error.failure)
    }
}

#[pymethods]
impl NativeReply {
    /// The result, for programs; `None` of a failure.
    fn data(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let data = self.result.as_ref().map_or(&Value::Null, |output| &output.data);
        Ok(to_python(py, data)?.unbind())
    }

    /// The result in a sentence.
    fn summary(&self) -> Option<&str> {
        self.result.as_ref().ok().and_then(|output| output.summary.as_deref())
    }

    /// More about the result.
    fn details(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let details = self.result.as_ref().ok().and_then(|output| output.details.as_ref());
        Ok(to_python(py, details.unwrap_or(&Value::Null))?.unbind())
    }

    /// Returns `True` if the call has a result.
    fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The failure as data.
    fn failure(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let failure = self.failure_of().map(failure);
        Ok(to_python(py, &failure.unwrap_or(Value::Null))?.unbind())
    }

    /// The receipt as data.
    fn receipt(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let receipt = self.receipt_of().map(|receipt| (**receipt).clone());
        Ok(to_python(py, &receipt.unwrap_or(Value::Null))?.unbind())
    }
}
