//! `opcell runs repin`: runs that continue with the versions of plugins that the project has now.

use super::{Exit, Failure, Open, Terminal, adopt, meant};
use crate::cli::args::Sender;
use clap::Args;
use opcell::{
    config::Config,
    host::{Host, MovedPin, RepinError},
};
use opcell_ir::Diagnostic;
use opcell_journal::{RunEntry, RunId};
use serde_json::json;

#[derive(Debug, Args)]
pub struct RepinArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN", required_unless_present = "all_of", conflicts_with = "all_of")]
    run: Option<String>,
    /// Move every run that has not ended and pinned another version of this plugin.
    #[arg(long, value_name = "PLUGIN")]
    all_of: Option<String>,
    #[command(flatten)]
    sender: Sender,
}

pub async fn repin(config: Config, args: &RepinArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    let by = args.sender.name();
    if let Some(named) = &args.run {
        let entry = meant(&host.engine().runs().await?, named)?.clone();
        let (open, run) = (Open { engine: host.engine().clone() }, entry.run);
        adopt::ask(&open, &run, &entry.workflow, terminal)?;
        let moved = host.repin(&run, by).await.map_err(refused)?;
        report(&[(run, Ok(moved))], terminal)?;
        return Ok(Exit::Done);
    }
    let mut outcomes = Vec::new();
    for run in concerned(&host, args.all_of.as_deref().unwrap_or_default()).await? {
        let outcome = host.repin(&run, by.clone()).await;
        outcomes.push((run, outcome));
    }
    report(&outcomes, terminal)?;
    Ok(if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) { Exit::Done } else { Exit::InputWrong })
}

/// The runs that have not ended and pinned another version of a plugin, without those that its user has not adopted.
async fn concerned(host: &Host, plugin: &str) -> Result<Vec<RunId>, Failure> {
    let Some(now) = host.catalog().plugins().find(|known| known.name() == plugin).map(|known| known.digest().clone())
    else {
        let message = format!("this project has no plugin `{plugin}` that is loaded");
        return Err(Diagnostic::error("unknown-plugin", message).help("`opcell plugin list` lists them").into());
    };
    let name = format!("plugin {plugin}");
    let mut runs = Vec::new();
    let journal = host.engine().journal();
    let open = |entry: &RunEntry| !entry.state.ended && !journal.is_from_elsewhere(&entry.run);
    for entry in host.engine().runs().await?.into_iter().filter(open) {
        let state = host.engine().shown_state(&entry.run, None).await?;
        if state.pins().get(name.as_str()).is_some_and(|pinned| **pinned != *now.as_str()) {
            runs.push(entry.run);
        }
    }
    Ok(runs)
}

fn refused(error: RepinError) -> Failure {
    match error {
        RepinError::Run(error) => error.into(),
        error => {
            let help = "the run continues with its own versions: `opcell runs resume`";
            Diagnostic::error("repin-refused", error.to_string()).help(help).into()
        }
    }
}

fn report(outcomes: &[(RunId, Result<Vec<MovedPin>, RepinError>)], terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let runs = outcomes.iter().map(|(run, outcome)| match outcome {
            Ok(moved) => json!({"run": run, "moved": moved}),
            Err(error) => json!({"run": run, "refused": error.to_string()}),
        });
        terminal.json(&json!(runs.collect::<Vec<_>>()))?;
        return Ok(());
    }
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    for (run, outcome) in outcomes {
        match outcome {
            Ok(moved) if moved.is_empty() => {
                terminal.line(&format!("{run}: it pinned the versions of this project"))?
            }
            Ok(moved) => {
                for MovedPin { name, from, to, .. } in moved {
                    let from = from.as_deref().map_or_else(|| "none".to_owned(), short);
                    terminal.line(&format!("{run}: {name} {from} -> {}", short(to)))?;
                }
            }
            Err(error) => terminal.failed(&error.to_string()),
        }
    }
    if outcomes.is_empty() {
        terminal.line("no run that has not ended pinned another version")?;
    }
    Ok(())
}
