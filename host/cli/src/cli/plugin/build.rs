//! `opcell plugin build`: from the source in a folder to a component with its manifest.

use super::Component;
use crate::cli::{Exit, Failure, Terminal};
use clap::Args;
use opcell_author::{AuthorError, Built, Profile, Project};
use opcell_workflow::Diagnostic;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The plugin's folder; this one if omitted.
    path: Option<PathBuf>,
    /// Build for size and speed; the default.
    #[arg(long, conflicts_with = "debug")]
    release: bool,
    /// Build quickly, with what a panic needs to say where.
    #[arg(long)]
    debug: bool,
}

/// What an author's mistake looks like to the command.
pub(super) fn wrong(error: &AuthorError) -> Failure {
    let code = match error {
        AuthorError::NoProject(_) => "no-plugin-project",
        AuthorError::Project { .. } => "plugin-project",
        AuthorError::MissingTool { .. } => "missing-tool",
        AuthorError::ToolFailed { .. } => "tool-failed",
        AuthorError::Disagreement { .. } => "manifest-disagreement",
        AuthorError::Component { .. } => "not-a-component",
        _ => "plugin-build",
    };
    Diagnostic::error(code, error.to_string()).into()
}

/// Builds the plugin of a folder off the runtime's threads: compilers take their time.
pub(super) async fn built(folder: &Path, profile: Profile) -> Result<(Project, Built), Failure> {
    let project = Project::read(folder).map_err(|error| wrong(&error))?;
    let task = tokio::task::spawn_blocking(move || {
        let built = opcell_author::build(&project, profile);
        (project, built)
    });
    let (project, built) = task.await.map_err(anyhow::Error::from)?;
    Ok((project, built.map_err(|error| wrong(&error))?))
}

pub(super) async fn build(args: &BuildArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let profile = if args.debug { Profile::Debug } else { Profile::Release };
    terminal.note(&format!("building {}", folder.display()));
    let (_, built) = built(&folder, profile).await?;
    let component = Component::read(&built.path)?;
    let manifest = &component.surface.manifest;
    let digest = blake3::hash(&built.bytes).to_hex().to_string();
    if terminal.json {
        terminal.json(&json!({
            "ok": true, "path": built.path, "bytes": built.bytes.len(), "digest": digest, "manifest": manifest,
        }))?;
        return Ok(Exit::Done);
    }
    terminal.line(&format!("{}  {} bytes  {digest}", built.path.display(), built.bytes.len()))?;
    let requests = [("tool", &manifest.tools), ("skill", &manifest.skills), ("files", &manifest.files)];
    let mut asks = requests.into_iter().flat_map(|(kind, list)| list.iter().map(move |request| (kind, request))).peekable();
    if asks.peek().is_none() {
        terminal.note("it asks for nothing");
    }
    for (kind, request) in asks {
        terminal.note(&format!("it asks for {kind} {}: {}", request.name, request.reason));
    }
    Ok(Exit::Done)
}
