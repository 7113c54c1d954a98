//! `opcell plugin inspect`: the manifest and the interface of a component, without running it.

use super::{Component, Exit, Failure, Global, Terminal};
use clap::Args;
use opcell_sandbox::{limits::TABLE, manifest::Manifest};
use opcell_types::Capability as Kind;
use serde_json::json;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Name of a plugin of the project, or a `.wasm`, `.js` or `.py` file.
    #[arg(value_name = "PLUGIN")]
    target: String,
}

pub fn inspect(global: &Global, args: &InspectArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let component = Component::find(global, &args.target)?;
    let surface = &component.surface;
    if terminal.json {
        terminal.json(&json!({"path": component.path, "bytes": component.bytes.len(), "surface": surface}))?;
        return Ok(Exit::Done);
    }
    let manifest = &surface.manifest;
    let mut text = format!("{}  {} bytes\n", component.path.display(), component.bytes.len());
    match (&manifest.name, &manifest.version) {
        (Some(name), Some(version)) => {
            let _ = writeln!(text, "name     {name} {version}");
        }
        _ if component.is_typed() => {
            let how = if component.named.is_some() { "" } else { "; add it with `--typed`" };
            let _ = writeln!(text, "typed    not written for Opcell: each exported function is an operation{how}");
        }
        _ => text.push_str("no manifest: requests nothing\n"),
    }
    for export in &surface.exports {
        let _ = writeln!(text, "exports  {export}");
    }
    for import in &surface.imports {
        let _ = writeln!(text, "imports  {import}");
    }
    if surface.wasi {
        text.push_str("wasi     closed: no files, environment, network or input; output becomes log lines\n");
    }
    text.push_str(&requests(manifest));
    terminal.line(&opcell::report::printable(&text))?;
    Ok(Exit::Done)
}

/// The requests of a manifest with their reasons, one per line.
fn requests(manifest: &Manifest) -> String {
    let mut text = String::new();
    for (kind, list) in [
        (Kind::Tool, &manifest.tools),
        (Kind::Skill, &manifest.skills),
        (Kind::Files, &manifest.files),
        (Kind::Store, &manifest.stores),
    ] {
        for request in list {
            let access = request.access.map(|access| format!(" ({access})")).unwrap_or_default();
            let _ = writeln!(text, "asks for {} {}{access}: {}", kind.word(), request.name, request.reason);
        }
    }
    for spec in TABLE {
        if let Some(value) = manifest.limits.get(spec.key) {
            let _ = writeln!(text, "limits   {} to {}", spec.key, spec.unit.show(value));
        }
    }
    text
}
