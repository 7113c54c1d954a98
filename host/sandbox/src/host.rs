//! What the sandbox asks of its embedder while a cell runs. Everything here has already passed the cell's grants.

use crate::{
    error::Failure,
    grants::Denial,
    receipt::{Level, Stream},
};
use async_trait::async_trait;
use std::sync::{Arc, LazyLock};

/// Where in a run a call happens; handed to the guest and to the host's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Run identifier.
    pub run: Arc<str>,
    /// Step name as authored.
    pub step: Arc<str>,
    /// How often the step has been entered, from 1.
    pub visit: u32,
    /// Attempt within the visit, from 1.
    pub attempt: u32,
    /// Stable across retries and resumes of the same effect.
    pub idempotency_key: Arc<str>,
}

impl Default for Context {
    /// A call outside of any run.
    fn default() -> Self {
        static NOWHERE: LazyLock<Arc<str>> = LazyLock::new(|| "".into());
        let nowhere = || Arc::clone(&NOWHERE);
        Self { run: nowhere(), step: nowhere(), visit: 1, attempt: 1, idempotency_key: nowhere() }
    }
}

/// A tool of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// Such as `http.fetch`.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// JSON Schema of the arguments, as text.
    pub arguments_schema: String,
}

/// A skill of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDescription {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// Why a tool or skill gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServiceError {
    /// The host refuses, by a rule finer than the cell's grants.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// It ran and failed, or its arguments were wrong.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Something that a cell says while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent<'a> {
    /// A line of the log.
    Line {
        /// How much it matters.
        level: Level,
        /// Where it came from.
        stream: Stream,
        /// Printable text.
        message: &'a str,
    },
    /// How far the cell has come; `total` is zero when it is not known.
    Progress {
        /// Done so far.
        done: u64,
        /// Of how many.
        total: u64,
        /// Printable text.
        message: &'a str,
    },
}

/// The host's side of the imports. Implementations must not block.
///
/// The sandbox asks only for what the cell may use: a tool that is not granted never reaches [`Self::call_tool`].
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Every tool of the host; the sandbox shows a cell those that it may use.
    fn tools(&self) -> Vec<ToolDescription> {
        Vec::new()
    }

    /// Calls a tool with arguments as JSON text; the result is JSON text.
    async fn call_tool(&self, name: &str, _arguments: &str, _context: &Context) -> Result<String, ServiceError> {
        Err(not_here("tool", name))
    }

    /// Every skill of the host; the sandbox shows a cell those that it may use.
    fn skills(&self) -> Vec<SkillDescription> {
        Vec::new()
    }

    /// The body of a skill.
    async fn read_skill(&self, name: &str, _context: &Context) -> Result<String, ServiceError> {
        Err(not_here("skill", name))
    }

    /// A file that belongs to a skill, by its relative path as the guest wrote it: the implementation keeps it inside the skill.
    async fn read_skill_resource(&self, name: &str, _path: &str, _context: &Context) -> Result<Vec<u8>, ServiceError> {
        Err(not_here("skill", name))
    }

    /// A cell says something. Called while the guest waits.
    fn log(&self, _plugin: &str, _context: &Context, _event: LogEvent<'_>) {}
}

fn not_here(what: &str, name: &str) -> ServiceError {
    ServiceError::Failed(Failure {
        reason: "not-found".to_owned(),
        message: format!("this host has no {what} `{name}`"),
        details: None,
    })
}

/// A host that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl HostServices for NoServices {}
