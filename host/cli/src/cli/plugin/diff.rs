//! `opcell plugin diff`: what an upgrade requests in addition.

use super::{Component, Exit, Failure, Global, Terminal, update};
use clap::Args;
use opcell::differences::{Difference, differences};
use opcell_sandbox::inspect::Surface;
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
        return update::diff_new_with_lock(global, &args.old, &new, terminal);
    }
    let old = Component::find(global, &args.old)?;
    let differences = differences(&old.surface, &new.surface);
    let more = differences.iter().any(Difference::wants_more);
    if terminal.json {
        terminal.json(&json!({"asks_for_more": more, "differences": differences}))?;
        return Ok(Exit::Done);
    }
    for difference in &differences {
        terminal.line(&opcell::report::printable(&difference.to_string()))?;
    }
    terminal.line(if more {
        "the new version requests more; an upgrade grants nothing of it"
    } else {
        "the new version requests nothing more"
    })?;
    Ok(Exit::Done)
}

/// Returns the differences of two versions beside their requests, a line each.
pub(super) fn of_surfaces(old: &Surface, new: &Surface) -> Vec<String> {
    differences(old, new)
        .iter()
        .filter(|found| !found.wants_more())
        .map(|found| format!("  {}", found.to_string().trim()))
        .collect()
}
