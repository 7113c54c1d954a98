//! `opcell runs adopt`: letting runs go on that came with a journal from elsewhere.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::counted;
use clap::Args;
use opcell_ir::Diagnostic;
use opcell_journal::RunId;
use serde_json::json;

#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Run IDs, unique prefixes of them, or `last`.
    #[arg(value_name = "RUN", required_unless_present = "all")]
    runs: Vec<String>,
    /// Adopt every run of the journal.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
}

pub async fn adopt(open: &Open, args: &AdoptArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let journal = open.engine.journal();
    let mut meant: Vec<RunId> = Vec::new();
    for named in &args.runs {
        meant.push(open.run(named).await?);
    }
    if args.all {
        meant.extend(open.engine.runs().await?.into_iter().map(|entry| entry.run));
    }
    meant.retain(|run| journal.is_from_elsewhere(run));
    meant.sort_unstable();
    meant.dedup();
    journal.adopt(&meant)?;
    if terminal.json {
        terminal.json(&json!({"adopted": meant}))?;
    } else {
        terminal.line(&format!("adopted {}", counted(meant.len() as u64, "run")))?;
    }
    Ok(Exit::Done)
}

/// Why nothing is done for a run that its user has not adopted.
fn from_elsewhere(run: &RunId) -> Diagnostic {
    let message = format!("run `{run}` was not made here: it came with its journal");
    let help = format!("look at it with `opcell runs show {run}`; if it may go on: `opcell runs adopt {run}`");
    Diagnostic::error("run-from-elsewhere", message).help(help)
}

/// Asks about a run from elsewhere where a person can answer, and refuses it where none can.
pub fn ask(open: &Open, run: &RunId, workflow: &str, terminal: &Terminal) -> Result<(), Failure> {
    if !open.engine.journal().is_from_elsewhere(run) {
        return Ok(());
    }
    let question = format!(
        "Run `{run}` of the workflow `{workflow}` was not made here: it came with its journal.\n\
         What it does was decided by whoever made it: `opcell runs show {run}`"
    );
    match terminal.is_interactive() && terminal.confirms(&question, "Let it run?")? {
        true => Ok(open.engine.journal().adopt(std::slice::from_ref(run))?),
        false => Err(from_elsewhere(run).into()),
    }
}
