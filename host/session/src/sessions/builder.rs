//! Puts a host's sessions together.

use super::{HostSessions, RuntimeMetadata, SessionFigures};
use crate::code::Programs;
use crate::models::{Model, Models, ModelsConfig, ModelsError, Recorder};
use crate::prompt::ContextFile;
use crate::skills::SkillLibrary;
use crate::tools::{RESULT_LIMIT, SessionTool, ToolError, Toolbox};
use indexmap::IndexMap;
use opcell_engine::ports::Workflows;
use opcell_ir::ir;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::Semaphore;

/// Something that adds to sessions: tools that name it, and text in their prompts. A plugin, mostly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extension {
    /// Unique.
    pub name: String,
    /// The description of its purpose.
    pub description: String,
    /// The same in symbols.
    pub lambda: Option<String>,
    /// Its contribution to prompts, with its priority: lower comes first, psi's default is 1000.
    pub contribution: Option<(i32, String)>,
}

/// An operation that each turn is shown to before its model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Augmenter {
    /// The ID of the operation.
    pub operation: Arc<str>,
    /// The reason why it cannot be called. No session opens then: what it would check, no one has checked.
    pub problem: Option<String>,
}

/// The treatment of a session that declares a tool which the host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingTools {
    /// The session does not open.
    Refuse,
    /// The session opens without it, and its prompt says so: a workflow written for another host runs with what is
    /// here.
    #[default]
    Withhold,
}

/// Parts that do not fit together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Models.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// Tools.
    #[error(transparent)]
    Tools(#[from] ToolError),
    /// The recording cannot be written.
    #[error("cannot record to {}: {error}", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

/// Collects the parts of [`HostSessions`].
#[derive(Default)]
pub struct HostSessionsBuilder {
    models: Option<Models>,
    record: Option<PathBuf>,
    tools: Vec<SessionTool>,
    result_limit: Option<usize>,
    skills: Arc<SkillLibrary>,
    extensions: Vec<Extension>,
    workflows: Option<Arc<dyn Workflows>>,
    programs: Option<Arc<dyn Programs>>,
    profiles: IndexMap<String, ir::Session>,
    defaults: ir::Session,
    context_files: Vec<ContextFile>,
    runtime_metadata: Option<RuntimeMetadata>,
    missing_tools: MissingTools,
    approve: ir::ApprovalRules,
    augmenters: Vec<Augmenter>,
    rounds: Option<u32>,
    figures: Option<Arc<dyn SessionFigures>>,
}

impl std::fmt::Debug for HostSessionsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSessionsBuilder").finish_non_exhaustive()
    }
}

impl HostSessionsBuilder {
    /// The models; without them, the providers that need no configuration.
    #[must_use]
    pub fn models(mut self, models: Models) -> Self {
        self.models = Some(models);
        self
    }

    /// Writes every round with its answer to a file that a scripted model reads.
    #[must_use]
    pub fn record_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: SessionTool) -> Self {
        self.tools([tool])
    }

    /// Adds tools; prompts list them in this order.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = SessionTool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Maximum bytes of a tool's result that a model receives; [`RESULT_LIMIT`] by default.
    #[must_use]
    pub fn result_limit(mut self, bytes: usize) -> Self {
        self.result_limit = Some(bytes);
        self
    }

    /// The skills. Give [`crate::tools::file_tools`] the same: `read` is how a model reads them.
    #[must_use]
    pub fn skills(mut self, skills: Arc<SkillLibrary>) -> Self {
        self.skills = skills;
        self
    }

    /// Adds an extension.
    #[must_use]
    pub fn extension(mut self, extension: Extension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// The workflows that models can be shown; calling them takes a [`crate::tools::delegate_tool`].
    #[must_use]
    pub fn workflows(mut self, workflows: Arc<dyn Workflows>) -> Self {
        self.workflows = Some(workflows);
        self
    }

    /// Runs the programs of sessions that call tools by programs; without it, no session can.
    #[must_use]
    pub fn programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// Named sets of session settings, for `session-profile`.
    #[must_use]
    pub fn profiles(mut self, profiles: IndexMap<String, ir::Session>) -> Self {
        self.profiles = profiles;
        self
    }

    /// Sets the settings of sessions where nothing else does: mode, temperature, tools and the like.
    #[must_use]
    pub fn defaults(mut self, defaults: ir::Session) -> Self {
        self.defaults = defaults;
        self
    }

    /// Files that every prompt shows.
    #[must_use]
    pub fn context_files(mut self, files: Vec<ContextFile>) -> Self {
        self.context_files = files;
        self
    }

    /// Facts that every prompt shows; today's date (UTC) unless said.
    #[must_use]
    pub fn runtime_metadata(mut self, facts: RuntimeMetadata) -> Self {
        self.runtime_metadata = Some(facts);
        self
    }

    /// Sets the treatment of a session that declares a tool which is not there.
    #[must_use]
    pub fn missing_tools(mut self, missing: MissingTools) -> Self {
        self.missing_tools = missing;
        self
    }

    /// Rules for calls of tools that wait for a person, in every session; what sessions say themselves counts as well.
    #[must_use]
    pub fn approve(mut self, rules: ir::ApprovalRules) -> Self {
        self.approve = rules;
        self
    }

    /// The operations that each turn is shown to before its model is asked, in this order.
    #[must_use]
    pub fn augmenters(mut self, augmenters: impl IntoIterator<Item = Augmenter>) -> Self {
        self.augmenters.extend(augmenters);
        self
    }

    /// The most rounds of models that are under way at a time; others wait. Without it there is no limit.
    #[must_use]
    pub fn rounds_at_a_time(mut self, rounds: u32) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Receives figures of each round of a model and each call of a tool.
    #[must_use]
    pub fn figures(mut self, figures: Arc<dyn SessionFigures>) -> Self {
        self.figures = Some(figures);
        self
    }

    /// Puts the parts together. Blocks when it records.
    ///
    /// # Errors
    /// When parts do not fit together, or the recording cannot be written.
    pub fn build(self) -> Result<HostSessions, BuildError> {
        let models = match self.models {
            Some(models) => models,
            None => Models::new(ModelsConfig::default())?,
        };
        let models = Arc::new(models);
        let answers: Arc<dyn Model> = match self.record {
            None => models.clone(),
            Some(path) => {
                let recorder = Recorder::create(models.clone(), &path);
                Arc::new(recorder.map_err(|error| BuildError::Record { path, error })?)
            }
        };
        Ok(HostSessions {
            models,
            answers,
            tools: Arc::new(Toolbox::new(self.tools, self.result_limit.unwrap_or(RESULT_LIMIT))?),
            programs: self.programs,
            skills: self.skills,
            extensions: self.extensions,
            workflows: self.workflows,
            profiles: self.profiles,
            defaults: self.defaults,
            context_files: self.context_files,
            runtime_metadata: self.runtime_metadata.unwrap_or_else(|| Arc::new(today)),
            missing_tools: self.missing_tools,
            approve: self.approve,
            augmenters: self.augmenters,
            rounds: self.rounds.map(|rounds| Semaphore::new(rounds as usize)),
            windows: crate::compaction::Windows::default(),
            figures: self.figures,
        })
    }
}

fn today() -> Vec<(String, String)> {
    let date = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    vec![("session start date".to_owned(), date.to_string())]
}
