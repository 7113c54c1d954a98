//! `opcell plugin diff`: what an upgrade requests in addition.

use super::{Component, Exit, Failure, Global, Terminal, change::Compared, update};
use clap::Args;
use opcell::differences::Difference;
use serde_json::json;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Version in use: name of a plugin of the project, as the lock holds it, or a file. Alone, what lies at its path
    /// is compared with the lock.
    old: String,
    /// Other version: a file.
    new: Option<String>,
}

pub async fn diff(global: &Global, args: &DiffArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(new) = &args.new else { return update::diff_with_lock(global, &args.old, terminal).await };
    let new = Component::find(global, new)?;
    if update::differs_from_lock(global, &args.old)? {
        // What lies at its path is not what is in use.
        return update::diff_new_with_lock(global, &args.old, new, terminal).await;
    }
    let old = Component::find(global, &args.old)?;
    // Typed operations have the plugin's name in their IDs.
    let name = old.name();
    let compared = Compared::new(&old.with_name(&name), &new.with_name(&name)).await?;
    let more = compared.differences.iter().any(Difference::wants_more);
    if terminal.json {
        terminal.json(&json!({"asks_for_more": more, "differences": compared.differences, "notes": compared.notes}))?;
        return Ok(Exit::Done);
    }
    for line in compared.lines(true) {
        terminal.line(&opcell::report::printable(line.trim()))?;
    }
    terminal.line(if more {
        "the new version requests more; an upgrade grants nothing of it"
    } else {
        "the new version requests nothing more"
    })?;
    Ok(Exit::Done)
}
