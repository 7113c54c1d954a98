//! `opcell code install`: the runtime of a language that is too large to be part of the command.

use crate::cli::{Exit, Failure, Terminal, plugin::build::wrong, units};
use clap::{Args, ValueEnum};
use opcell::places::Places;
use opcell_author::{AuthorError, Profile, Project, template};
use opcell_ir::Diagnostic;
use opcell_types::{
    Digest,
    files::{Readers, make_folder, replace},
};
use serde_json::json;
use std::path::Path;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Language of the runtime.
    language: Runtime,
}

/// A runtime that can be built.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Runtime {
    Python,
}

/// Builds the runtime with the tools on the path, and keeps it for all projects of this user.
pub async fn install(args: &InstallArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Runtime::Python = args.language;
    let place = Places::of_user().python_runtime().ok_or_else(|| {
        let message = "there is no folder to keep it in: HOME and XDG_STATE_HOME are not set";
        Diagnostic::error("missing-home", message).help("set HOME or XDG_STATE_HOME to an absolute path")
    })?;
    terminal.note("building the runtime for Python, which takes about half a minute");
    let task = tokio::task::spawn_blocking(move || built(&place).map(|bytes| (place, bytes)));
    let (place, bytes) = task.await.map_err(anyhow::Error::from)?.map_err(|error| failure(&error))?;
    let digest = Digest::of_hash(blake3::hash(&bytes));
    if terminal.json {
        terminal.json(&json!({"ok": true, "path": place, "bytes": bytes.len(), "digest": digest}))?;
    } else {
        terminal.line(&format!("{}  {}  {digest}", place.display(), units::bytes(bytes.len() as u64)))?;
    }
    Ok(Exit::Done)
}

fn built(place: &Path) -> Result<Vec<u8>, AuthorError> {
    let scratch = tempfile::tempdir().map_err(AuthorError::file(Path::new("a temporary folder")))?;
    let folder = scratch.path().join("python");
    template::create_python_runtime(&folder)?;
    let built = opcell_author::build(&Project::read(&folder)?, Profile::Release)?;
    let above = place.parent().unwrap_or(place);
    make_folder(above, Readers::Owner).map_err(AuthorError::file(above))?;
    replace(place, &built.bytes, Readers::Owner).map_err(AuthorError::file(place))?;
    Ok(built.bytes)
}

/// A tool that is missing has to be on the path: a folder's own would be chosen by whoever made the folder.
fn failure(error: &AuthorError) -> Failure {
    match error {
        AuthorError::MissingTool { tool, .. } => {
            let message = format!("{tool} builds the runtime, and it is not on the path");
            let help = "python3 -m venv ~/.opcell-python && ~/.opcell-python/bin/pip install componentize-py==0.25.1, \
                        then PATH=~/.opcell-python/bin:$PATH opcell code install python";
            Diagnostic::error("missing-tool", message).help(help).into()
        }
        other => wrong(other),
    }
}
