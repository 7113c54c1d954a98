//! What the host does for the cells of one plugin: its tools, and where its messages go.

use crate::{
    http::{HttpClient, HttpRule, request::FetchRequest},
    stores::PluginStores,
};
use async_trait::async_trait;
use opcell_sandbox::{
    Receipt as CellReceipt,
    host::{HostServices, LogEvent, SkillDescription, ToolDescription},
    store::Stores,
};
use opcell_session::skills::{SkillError, SkillLibrary};
use opcell_types::{CallContext, Failure, TouchLog, Value, denial::HttpScope};
use std::sync::Arc;

/// The name of the tool that performs HTTP requests.
pub const HTTP_FETCH: &str = "http.fetch";

/// A tool of the embedder, offered to plugins beside the host's own.
///
/// ```
/// use opcell::prelude::*;
///
/// /// The plugins of this host may ask which release they serve, if they are granted `release.current`.
/// struct Release(&'static str);
///
/// #[async_trait]
/// impl HostTool for Release {
///     fn description(&self) -> ToolDescription {
///         ToolDescription {
///             name: "release.current".to_owned(),
///             summary: "The release that is served".to_owned(),
///             arguments_schema: r#"{"type": "object", "additionalProperties": false}"#.to_owned(),
///         }
///     }
///
///     async fn call(&self, _plugin: &str, _arguments: Value, _context: &CallContext) -> Result<Value, Failure> {
///         Ok(Value::from(self.0))
///     }
/// }
///
/// let builder = Host::builder().tool(Release("2026.11"));
/// ```
#[async_trait]
pub trait HostTool: Send + Sync {
    /// Its name, summary and arguments.
    fn description(&self) -> ToolDescription;

    /// Calls it for a plugin. Must not block.
    ///
    /// # Errors
    /// Description for the plugin.
    async fn call(&self, plugin: &str, arguments: Value, context: &CallContext) -> Result<Value, Failure>;
}

/// Receives what cells say while they run. Must not block.
pub trait LogSink: Send + Sync {
    /// A line or a progress report.
    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>);

    /// A cell has ended, well or not: for figures of every call, whoever made it. Does nothing by default.
    fn ended(&self, context: &CallContext, receipt: &CellReceipt) {
        let _ = (context, receipt);
    }
}

/// The services of one plugin.
pub(crate) struct PluginServices {
    pub plugin: Arc<str>,
    pub http: Arc<HttpClient>,
    pub rules: Vec<HttpRule>,
    pub tools: Arc<Vec<Arc<dyn HostTool>>>,
    pub skills: Arc<SkillLibrary>,
    pub stores: PluginStores,
    pub sink: Option<Arc<dyn LogSink>>,
}

#[async_trait]
impl HostServices for PluginServices {
    fn tools(&self) -> Vec<ToolDescription> {
        let fetch = ToolDescription {
            name: HTTP_FETCH.to_owned(),
            summary: "Performs an HTTP request to a granted host".to_owned(),
            arguments_schema: FetchRequest::SCHEMA.to_owned(),
        };
        std::iter::once(fetch).chain(self.tools.iter().map(|tool| tool.description())).collect()
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        context: &CallContext,
        touched: &TouchLog,
    ) -> Result<String, Failure> {
        let arguments = Value::from_json(arguments)
            .map_err(|error| Failure::host("invalid-arguments", format!("the arguments are not JSON: {error}")))?;
        let result = if name == HTTP_FETCH {
            self.http
                .fetch(&self.rules, &arguments, touched)
                .await
                .map_err(|error| error.into_failure(&HttpScope::Plugin(self.plugin.clone())))?
        } else {
            let tool = self.tools.iter().find(|tool| tool.description().name == name);
            let tool = tool.ok_or_else(|| Failure::host("not-found", format!("this host has no tool `{name}`")))?;
            tool.call(&self.plugin, arguments, context).await?
        };
        Ok(result.to_json())
    }

    fn skills(&self) -> Vec<SkillDescription> {
        let describe = |skill: &opcell_session::skills::Skill| SkillDescription {
            name: skill.name.clone(),
            description: skill.description.clone(),
        };
        self.skills.skills().map(describe).collect()
    }

    async fn read_skill(&self, name: &str, _context: &CallContext) -> Result<String, Failure> {
        let (skills, name) = (self.skills.clone(), name.to_owned());
        off_runtime(move || skills.read(&name)).await
    }

    async fn read_skill_resource(&self, name: &str, path: &str, _context: &CallContext) -> Result<Vec<u8>, Failure> {
        let (skills, name, path) = (self.skills.clone(), name.to_owned(), path.to_owned());
        off_runtime(move || skills.read_resource(&name, &path)).await
    }

    fn stores(&self, context: &CallContext) -> Option<Box<dyn Stores>> {
        Some(self.stores.of(&self.plugin, context))
    }

    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        if let Some(sink) = &self.sink {
            sink.log(plugin, context, event);
        }
    }
}

/// Reads from disk on a thread where blocking is allowed.
async fn off_runtime<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result.map_err(|error| Failure::host("skill-unreadable", error.to_string())),
        Err(_) => Err(Failure::host("skill-unreadable", "reading the skill was abandoned".to_owned())),
    }
}
