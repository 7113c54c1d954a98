//! What the host does for the cells of one plugin: its tools, and where its messages go.

use crate::http::{FetchError, HttpClient, HttpRule, request::FetchRequest};
use async_trait::async_trait;
use opcell_sandbox::{
    error::Failure,
    grants::Denial,
    host::{Context, HostServices, LogEvent, ServiceError, SkillDescription, ToolDescription},
};
use opcell_session::skills::{SkillError, SkillLibrary};
use opcell_types::Value;
use std::sync::Arc;

/// The name of the tool that performs HTTP requests.
pub const HTTP_FETCH: &str = "http.fetch";

/// A tool of the embedder, offered to plugins beside the host's own.
#[async_trait]
pub trait HostTool: Send + Sync {
    /// Its name, summary and arguments.
    fn description(&self) -> ToolDescription;

    /// Calls it for a plugin. Must not block.
    ///
    /// # Errors
    /// What the plugin is told.
    async fn call(&self, plugin: &str, arguments: Value, context: &Context) -> Result<Value, ServiceError>;
}

/// Receives what cells say while they run. Must not block.
pub trait LogSink: Send + Sync {
    /// A line or a progress report.
    fn log(&self, plugin: &str, context: &Context, event: LogEvent<'_>);
}

/// The services of one plugin.
pub(crate) struct PluginServices {
    pub plugin: Arc<str>,
    pub http: Arc<HttpClient>,
    pub rules: Vec<HttpRule>,
    pub tools: Arc<Vec<Arc<dyn HostTool>>>,
    pub skills: Arc<SkillLibrary>,
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

    async fn call_tool(&self, name: &str, arguments: &str, context: &Context) -> Result<String, ServiceError> {
        let arguments = Value::from_json(arguments)
            .map_err(|error| failed("invalid-arguments", format!("the arguments are not JSON: {error}")))?;
        let result = if name == HTTP_FETCH {
            self.http.fetch(&self.rules, &arguments).await.map_err(|error| self.refusal(error))?
        } else {
            let tool = self.tools.iter().find(|tool| tool.description().name == name);
            let tool = tool.ok_or_else(|| failed("not-found", format!("this host has no tool `{name}`")))?;
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

    async fn read_skill(&self, name: &str, _context: &Context) -> Result<String, ServiceError> {
        let (skills, name) = (self.skills.clone(), name.to_owned());
        off_runtime(move || skills.read(&name)).await
    }

    async fn read_skill_resource(&self, name: &str, path: &str, _context: &Context) -> Result<Vec<u8>, ServiceError> {
        let (skills, name, path) = (self.skills.clone(), name.to_owned(), path.to_owned());
        off_runtime(move || skills.read_resource(&name, &path)).await
    }

    fn log(&self, plugin: &str, context: &Context, event: LogEvent<'_>) {
        if let Some(sink) = &self.sink {
            sink.log(plugin, context, event);
        }
    }
}

impl PluginServices {
    fn refusal(&self, error: FetchError) -> ServiceError {
        match error {
            FetchError::Denied { capability, rule, grant } => ServiceError::Denied(Denial {
                capability,
                rule: format!("{rule} (plugin `{}`)", self.plugin),
                remedy: match grant {
                    Some(grant) => format!("opcell plugin grant {} {grant}", self.plugin),
                    None => "no setting allows it".to_owned(),
                },
            }),
            FetchError::Invalid(error) => failed("invalid-arguments", error.to_string()),
            FetchError::Secret(error) => failed("credential-missing", error.to_string()),
            FetchError::Failed { reason, message } => failed(reason, message),
        }
    }
}

/// Reads from disk where it keeps nobody waiting.
async fn off_runtime<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, ServiceError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result.map_err(|error| failed("skill-unreadable", error.to_string())),
        Err(_) => Err(failed("skill-unreadable", "reading the skill was abandoned".to_owned())),
    }
}

fn failed(reason: &str, message: String) -> ServiceError {
    ServiceError::Failed(Failure { reason: reason.to_owned(), message, details: None })
}
