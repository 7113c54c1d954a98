//! `opcell plugin revoke`.

use super::{Exit, Failure, Global, Terminal, named, remove::rewrite};
use clap::{Args, ValueEnum};
use opcell::config::{
    Config,
    edit::{self, OldGrant},
};
use serde_json::json;

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// The plugin's name in the project.
    plugin: String,
    /// Kind of the grant.
    kind: Kind,
    /// Name of the tool, the skill, the directory or the store, or the host.
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A tool.
    Tool,
    /// A skill.
    Skill,
    /// A directory.
    Files,
    /// A store that the plugin keeps from one call to the next; it stays on disk.
    Store,
    /// Requests to a host.
    Http,
}

pub fn revoke(global: &Global, args: &RevokeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    named(&config, &args.plugin)?;
    let grant = match args.kind {
        Kind::Tool => OldGrant::Tool(&args.what),
        Kind::Skill => OldGrant::Skill(&args.what),
        Kind::Files => OldGrant::Files(&args.what),
        Kind::Store => OldGrant::Store(&args.what),
        Kind::Http => OldGrant::Http(&args.what),
    };
    let consented = global.consented(&config)?;
    let (file, changed) = rewrite(&config, |text| edit::revoke(text, &args.plugin, grant))?;
    if let Some(before) = consented.filter(|_| changed) {
        // Less than what was consented to.
        global.consent(&Config::load(&file)?, &before, |_| false, terminal)?;
    }
    if terminal.json {
        terminal.json(&json!({"plugin": args.plugin, "file": file, "changed": changed}))?;
    } else if changed {
        terminal.line(&format!("revoked in {}; see `opcell plugin explain {}`", file.display(), args.plugin))?;
    } else {
        terminal.line(&format!("nothing to change: {} grants no such thing", file.display()))?;
    }
    Ok(Exit::Done)
}
