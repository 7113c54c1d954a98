//! The engine's [`Sessions`]: opens sessions from what steps declare, asks models, calls tools.

mod builder;
mod code;
mod complete;
mod open;
mod problems;
mod settings;

use open::Current;

pub use builder::{Augmenter, BuildError, Extension, HostSessionsBuilder, MissingTools};

use crate::code::{Programs, RUN_CODE};
use crate::compaction::Windows;
use crate::models::{ListedModel, Model, Models};
use crate::prompt::{ContextFile, SystemPrompt};
use crate::skills::SkillLibrary;
use crate::tools::{SessionTool, Toolbox};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::approval::ToolApproval;
use opcell_engine::ports::{
    Effects, Failure, ModelReply, ModelRound, OpenSession, OpenedSession, Reply, Sessions, TextSink, ToolCall,
    Workflows,
};
use opcell_engine::receipt::Provider;
use opcell_ir::ir;
use opcell_types::{ToolDescription, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Gives facts about the session that is opened, as name and value; the date among them.
pub type RuntimeMetadata = Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

/// All that sessions of a host share.
pub struct HostSessions {
    models: Arc<Models>,
    answers: Arc<dyn Model>,
    tools: Arc<Toolbox>,
    /// Runs the programs of sessions that call tools by programs.
    programs: Option<Arc<dyn Programs>>,
    skills: Arc<SkillLibrary>,
    extensions: Vec<Extension>,
    workflows: Option<Arc<dyn Workflows>>,
    profiles: IndexMap<String, ir::Session>,
    defaults: ir::Session,
    context_files: Vec<ContextFile>,
    runtime_metadata: RuntimeMetadata,
    missing_tools: MissingTools,
    augmenters: Vec<Augmenter>,
    /// Rules for calls of tools that wait for a person, in every session.
    approve: ir::ApprovalRules,
    /// One permit for each round that may be under way.
    rounds: Option<Semaphore>,
    /// The tokens that models take.
    windows: Windows,
    /// Receives figures of rounds and calls.
    figures: Option<Arc<dyn SessionFigures>>,
}

/// Receives figures of what sessions do, for metrics. Must not block.
pub trait SessionFigures: Send + Sync {
    /// A model was asked, and has answered or failed to.
    fn answered(&self, round: RoundFigures<'_>);

    /// A tool was called, and has returned or failed.
    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>);
}

/// One round of a model.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RoundFigures<'a> {
    /// The model that was asked: `PROVIDER/MODEL`, or a name of its own.
    pub model: &'a str,
    /// The time from the request to the whole answer, repeated requests included.
    pub took: Duration,
    /// The answer.
    pub reply: Result<&'a ModelReply, &'a Failure>,
}

impl<'a> RoundFigures<'a> {
    /// The figures of a round.
    #[must_use]
    pub fn new(model: &'a str, took: Duration, reply: Result<&'a ModelReply, &'a Failure>) -> Self {
        Self { model, took, reply }
    }
}

impl std::fmt::Debug for HostSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSessions").finish_non_exhaustive()
    }
}

impl HostSessions {
    /// Starts from nothing: no models beside the known providers, no tools, no skills.
    #[must_use]
    pub fn builder() -> HostSessionsBuilder {
        HostSessionsBuilder::default()
    }

    /// The system prompt that a session would get, and the tools that its model is sent beside it; needs no model and
    /// starts no server: the tools of others lack their descriptions and parameters.
    ///
    /// # Errors
    /// When the session declares what is not there.
    pub fn prompt(&self, request: &OpenSession) -> Result<(SystemPrompt, Vec<ToolDescription>), Failure> {
        self.assemble(request, &Current::default()).map(|assembled| (assembled.prompt, assembled.tools))
    }

    /// The model that a session would ask first, where an operator listed it or the catalogue has it.
    #[must_use]
    pub fn listed_model(&self, request: &OpenSession) -> Option<ListedModel> {
        let settings = settings::effective(request, &self.profiles, &self.defaults).ok()?.settings;
        self.models.listed_for(settings.model.as_ref())
    }

    /// The models.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// The tools.
    #[must_use]
    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// The tools whose calls wait for a person by rules of the host, whatever a session says, with these rules.
    #[must_use]
    pub fn asking_tools(&self) -> Vec<(Option<Provider>, ToolApproval)> {
        let of = |tool: &SessionTool| {
            let approval = self.approval(&tool.description, &self.defaults, &Current::default())?;
            Some((Some(tool.tool.provider()), approval))
        };
        self.tools.tools().filter_map(of).collect()
    }

    /// The skills.
    #[must_use]
    pub fn skills(&self) -> &SkillLibrary {
        &self.skills
    }
}

#[async_trait]
impl Sessions for HostSessions {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let current = self.current_tools(&request).await?;
        self.open_session(&request, &current)
    }

    async fn complete(&self, round: ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        // What rules may still rewrite is not shown while it comes.
        let sink = sink.filter(|_| round.session.settings.guards.is_empty());
        let _permit = match &self.rounds {
            Some(rounds) => rounds.acquire().await.ok(),
            None => None,
        };
        let begun = Instant::now();
        let reply = self.complete_shortened(&round, sink).await;
        if let Some(figures) = &self.figures {
            figures.answered(RoundFigures::new(&round.model, begun.elapsed(), reply.as_ref()));
        }
        reply.map_err(|failure| self.models.ruled(&round, failure))
    }

    fn tool_effects(&self, tool: &str) -> Effects {
        self.tools.find(tool).map_or(Effects::Once, |offered| offered.tool.effects())
    }

    fn tool_provider(&self, tool: &str) -> Option<Provider> {
        self.tools.find(tool).map(|offered| offered.tool.provider())
    }

    fn is_resumable(&self, session: &OpenedSession, tool: &str) -> bool {
        let runs_program = session.code.is_some() && tool == RUN_CODE;
        runs_program && self.programs.as_ref().is_some_and(|programs| programs.are_resumable())
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        let begun = Instant::now();
        let reply = match &call.session.code {
            Some(code) if call.request.name == RUN_CODE => self.run_code(&call, code).await,
            _ => self.tools.call(&call).await,
        };
        if let Some(figures) = &self.figures {
            figures.called(&call.request.name, begun.elapsed(), reply.result.as_ref().err());
        }
        reply
    }
}

/// A failure to open a session.
fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::host(reason, message)
}

#[cfg(test)]
mod tests;
