//! `opcell plugin remove`.

use super::{Exit, Failure, Global, Terminal, named};
use crate::cli::missing::no_project;
use clap::Args;
use opcell::{
    config::{
        Config,
        edit::{self, EditError},
        lock::write_whole,
    },
    places::Places,
};
use opcell_ir::Diagnostic;
use opcell_types::files::Readers;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The plugin's name in the project.
    plugin: String,
}

/// Rewrites the project file. Returns it, and whether anything changed.
pub(super) fn rewrite(
    config: &Config,
    change: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<(PathBuf, bool), Failure> {
    let file = config.file.clone().ok_or_else(no_project)?;
    let old = config.source.text();
    let new = change(old)
        .map_err(|error| Diagnostic::error("project-file-invalid", format!("{}: {error}", file.display())))?;
    Config::parse(&file.display().to_string(), new.clone(), &config.root)?;
    let changed = new != old;
    if changed {
        let file = file.canonicalize()?;
        write_whole(&file, &new, Readers::of(&file))?;
    }
    Ok((file, changed))
}

pub fn remove(global: &Global, args: &RemoveArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let config = global.proposed()?;
    let plugin = named(&config, &args.plugin)?;
    let consented = global.consented(&config)?;
    let (file, changed) = rewrite(&config, |text| edit::remove_plugin(text, &args.plugin))?;
    if !changed {
        let message = format!("plugin `{}` comes from a plugin folder and is not in {}", args.plugin, file.display());
        let help = format!("remove {}", plugin.path.display());
        return Err(Diagnostic::error("plugin-of-folder", message).help(help).into());
    }
    if let Some(lock) = &config.lock {
        lock.forget(&args.plugin, &Places::of_user())?;
    }
    if let Some(before) = consented {
        global.consent(&Config::load(&file)?, &before, |_| false, terminal)?;
    }
    if terminal.json {
        terminal.json(&json!({"plugin": args.plugin, "file": file, "removed": true}))?;
    } else {
        terminal.line(&format!("removed {} from {}, with its grants", args.plugin, file.display()))?;
    }
    Ok(Exit::Done)
}
