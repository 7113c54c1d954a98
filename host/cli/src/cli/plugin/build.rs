//! `opcell plugin build`: from the source in a folder to a component with its manifest.

use super::{Component, sandbox};
use crate::cli::{
    Exit, Failure, Global, Terminal,
    consent::require_tool,
    units::{bytes, duration, milliseconds},
};
use clap::Args;
use opcell::{config::HOST_TOOLS, source};
use opcell_author::{AuthorError, Built, Profile, Project};
use opcell_ir::Diagnostic;
use opcell_sandbox::Grants;
use opcell_types::{
    Digest,
    files::{Readers, make_folder, replace},
    suggest::slip_of,
    text::one_line,
};
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The plugin's folder, or a core module or a source plugin to turn into a component; this folder if omitted.
    path: Option<PathBuf>,
    /// Build for size and speed; the default.
    #[arg(long, conflicts_with = "debug")]
    release: bool,
    /// Build quickly, with debug information, so that a panic names its place.
    #[arg(long)]
    debug: bool,
    /// Add the doc comments of this WIT package, a file or a folder, to a module or component: they become summaries of
    /// its operations.
    #[arg(long, value_name = "WIT", requires = "path", conflicts_with_all = ["release", "debug"])]
    wit: Option<PathBuf>,
}

/// Returns the failure of the command for an author's mistake.
pub(in crate::cli) fn wrong(error: &AuthorError) -> Failure {
    let code = match error {
        AuthorError::NoProject(_) => "no-plugin-project",
        AuthorError::Project { .. } => "plugin-project",
        AuthorError::MissingTool { .. } => "missing-tool",
        AuthorError::ToolFailed { .. } => "tool-failed",
        AuthorError::Disagreement { .. } => "manifest-disagreement",
        AuthorError::Component { .. } => "not-a-component",
        _ => "plugin-build",
    };
    let finding = Diagnostic::error(code, error.to_string());
    match error {
        AuthorError::MissingTool { install, .. } => finding.help(format!("install it: {install}")),
        AuthorError::NoProject(_) => finding.help("`opcell plugin new NAME --lang LANG` makes a plugin".to_owned()),
        _ => finding,
    }
    .into()
}

/// Builds the plugin of a folder off the runtime's threads: compilers take their time.
pub(super) async fn built(global: &Global, folder: &Path, profile: Profile) -> Result<(Project, Built), Failure> {
    let project = Project::read(folder).map_err(|error| wrong(&error))?;
    require_tool(global, &project)?;
    let task = tokio::task::spawn_blocking(move || {
        let built = opcell_author::build(&project, profile);
        (project, built)
    });
    let (project, built) = task.await.map_err(anyhow::Error::from)?;
    Ok((project, built.map_err(|error| wrong(&error))?))
}

/// Builds and prints progress; the tools' own messages follow on stderr.
pub(super) async fn noted(
    global: &Global,
    folder: &Path,
    profile: Profile,
    terminal: &Terminal,
) -> Result<(Project, Built), Failure> {
    let started = Instant::now();
    terminal.note(&format!("building {}", shown(&std::path::absolute(folder).unwrap_or_default())));
    let (project, built) = built(global, folder, profile).await?;
    let time = milliseconds(started.elapsed().as_secs_f64() * 1_000.0);
    let what = if built.reused { "nothing changed".to_owned() } else { format!("built in {time}") };
    terminal.note(&format!("{what}: {}", shown(&built.path)));
    if let (Some(why), false) = (built.varies, built.reused) {
        terminal.note(&format!("a clean build gets a different digest: {why}"));
    }
    Ok((project, built))
}

/// A path as short as it can be written here.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.display().to_string(),
        None => path.display().to_string(),
    }
}

pub(super) async fn build(global: &Global, args: &BuildArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let folder = source::in_folder(&folder).unwrap_or(folder);
    let profile = if args.debug { Profile::Debug } else { Profile::Release };
    let is_file = folder.is_file();
    if args.wit.is_some() && !is_file {
        let message = format!("`--wit` is about a WebAssembly file, and {} is not one", folder.display());
        return Err(Diagnostic::error("not-a-component", message).into());
    }
    if is_file && source::is_source(&folder) {
        return build_source(&folder, terminal).await;
    }
    let built = match is_file {
        true => opcell_author::componentize(&folder, args.wit.as_deref()).map_err(|error| wrong(&error))?,
        false => noted(global, &folder, profile, terminal).await?.1,
    };
    let component = if is_file { Component::read_any(&built.path)? } else { Component::read(&built.path)? };
    let outcome = Outcome { path: &built.path, reused: built.reused, varies: built.varies };
    report(&outcome, &component, terminal).await
}

/// The result of a build for the report.
struct Outcome<'a> {
    path: &'a Path,
    reused: bool,
    varies: Option<&'static str>,
}

/// Writes the component of a source plugin, for registries and hosts that take components alone.
async fn build_source(path: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let component = Component::read(path)?;
    let folder = path.parent().unwrap_or(Path::new("")).join("dist");
    let target = folder.join(format!("{}.wasm", component.name()));
    let unwritable = |error: std::io::Error| Diagnostic::error("unwritable", format!("{}: {error}", target.display()));
    make_folder(&folder, Readers::Shared).map_err(unwritable)?;
    replace(&target, &component.bytes, Readers::Shared).map_err(unwritable)?;
    report(&Outcome { path: &target, reused: false, varies: None }, &component, terminal).await
}

async fn report(built: &Outcome<'_>, component: &Component, terminal: &Terminal) -> Result<Exit, Failure> {
    // What it offers is known only to itself; asking it is the first call of every host as well.
    let plugin = component.load(&sandbox()?, Grants::default()).await?;
    let digest = Digest::of_hash(blake3::hash(&component.bytes));
    if terminal.json {
        terminal.json(&json!({
            "ok": true, "path": built.path, "bytes": component.bytes.len(), "digest": digest, "reused": built.reused,
            "reproducible": built.varies.is_none(),
            "manifest": component.surface.manifest, "operations": plugin.operations(), "judges": plugin.judges(),
            "empty-call": plugin.describe_receipt(),
        }))?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}  {}  {digest}\n", shown(built.path), bytes(component.bytes.len() as u64));
    for operation in plugin.operations() {
        let _ = writeln!(text, "operation   {}  {}", operation.id, operation.summary);
    }
    for judge in plugin.judges() {
        let _ = writeln!(text, "judge       {}  {}", judge.id, judge.summary);
    }
    let manifest = &component.surface.manifest;
    let requests = [
        ("tool", &manifest.tools),
        ("skill", &manifest.skills),
        ("files", &manifest.files),
        ("store", &manifest.stores),
    ];
    let mut asks =
        requests.into_iter().flat_map(|(kind, list)| list.iter().map(move |request| (kind, request))).peekable();
    if asks.peek().is_none() {
        text.push_str("requests    nothing\n");
    }
    for (kind, request) in asks {
        let _ = writeln!(text, "requests    {kind} {}: {}", request.name, request.reason);
    }
    if let Some(receipt) = plugin.describe_receipt() {
        let _ = writeln!(text, "empty call  {}, {}", bytes(receipt.peak_memory), duration(receipt.duration_us));
    }
    terminal.line(&opcell::report::printable(&text))?;
    for request in &manifest.tools {
        // A project may have a tool of any name.
        if let Some(meant) = slip_of(&request.name, HOST_TOOLS) {
            terminal.note(&format!("the host's own tool is `{meant}`, and not `{}`", one_line(&request.name, 100)));
        }
    }
    Ok(Exit::Done)
}
