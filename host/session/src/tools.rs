//! What a model may call: tools over file roots, a shell where the operator enables it, and whatever is injected from
//! outside (web access, plugin operations, delegation).

mod bound;
mod delegate;
mod files;
mod operation;
mod roots;
mod search;
mod shell;
mod toolbox;

pub use bound::BoundTool;
pub use delegate::{DELEGATE_TOOL, DelegateTool, Delegation};
pub use operation::OperationTool;
pub use roots::{FileRoot, FileRoots, RootError};
pub use shell::{Shell, ShellTool};
pub use toolbox::{RESULT_LIMIT, ToolError, Toolbox};

use crate::skills::SkillLibrary;
use async_trait::async_trait;
use opcell_engine::conversation::ToolSpec;
use opcell_engine::ports::{Effects, Failure, Reply, ToolCall};
use opcell_engine::receipt::Provider;
use opcell_types::Value;
use std::sync::Arc;

/// What the host says about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// Name, description and JSON Schema of the arguments, as a model sees them.
    pub spec: ToolSpec,
    /// The description in symbols, for prompts in lambda mode.
    pub lambda: Option<String>,
    /// What repeating a call does.
    pub effects: Effects,
    /// Who performs it.
    pub provider: Provider,
    /// The extension that it belongs to; sessions that leave the extension out do not have the tool.
    pub extension: Option<String>,
    /// Whether only sessions that declare it have it: tools that write, run commands or reach the network, and other
    /// names of tools.
    pub by_declaration: bool,
}

/// A tool.
#[async_trait]
pub trait SessionTool: Send + Sync {
    /// What the host says about it; the same at every call.
    fn description(&self) -> &ToolDescription;

    /// Name, description and schema as they are now, where someone else says them; asked when a session that declares
    /// the tool opens. Nothing: what [`Self::description`] says.
    ///
    /// # Errors
    /// When the tool is not there, so that the session that declares it gets it.
    async fn current(&self) -> Result<Option<ToolSpec>, Failure> {
        Ok(None)
    }

    /// Whether a call that is cancelled ends by itself at once, with a receipt of what it used. Any other is dropped.
    fn ends_when_cancelled(&self) -> bool {
        false
    }

    /// Does what is asked. The arguments have passed the schema. Never panics, never blocks the runtime.
    async fn call(&self, call: &ToolCall) -> Reply<Value>;
}

/// The tools over files: `read`, `ls`, `glob` and `grep`, and `write` and `edit` where a root is writable. `read`
/// serves skills too.
#[must_use]
pub fn file_tools(roots: FileRoots, skills: Arc<SkillLibrary>) -> Vec<Arc<dyn SessionTool>> {
    let writable = roots.any_writable();
    let files = Arc::new(files::Files { roots, skills });
    let mut tools = vec![files::read(&files), files::ls(&files), search::glob(&files), search::grep(&files)];
    if writable {
        tools.extend([files::write(&files), files::edit(&files)]);
    }
    tools
}

/// A tool's failure, as the model sees it.
fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::host(reason, message)
}

/// A description of a tool of ours.
fn describe(
    name: &str,
    description: &str,
    lambda: &str,
    effects: Effects,
    parameters: serde_json::Value,
) -> ToolDescription {
    ToolDescription {
        spec: ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: Value::from(parameters),
        },
        lambda: Some(lambda.to_owned()),
        effects,
        provider: Provider::Host,
        extension: None,
        by_declaration: false,
    }
}

#[cfg(test)]
mod tests;
