//! `opcell runs fork`: a new run that shares the first events of another.

use super::{Exit, Failure, Open, Terminal, adopt, meant, resume::take_up};
use crate::cli::{
    approve,
    args::{NewRunOptions, Sender},
};
use clap::Args;
use opcell::{config::Config, host::Host, standing};
use opcell_engine::RunError;
use opcell_journal::{Cut, RunId};
use serde_json::json;

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Number of the last shared event, as `opcell runs show --events` lists it.
    #[arg(long, value_name = "SEQ")]
    at: u64,
    #[command(flatten)]
    options: NewRunOptions,
}

pub async fn fork(config: Config, args: &ForkArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let source = source(&host, &args.run, terminal).await?;
    forked(&host, &source, args.at, &args.options, terminal).await
}

/// The run to share the first events of, which its user has adopted if it was not made here.
pub(super) async fn source(host: &Host, named: &str, terminal: &Terminal) -> Result<RunId, Failure> {
    let entry = meant(&host.engine().runs().await?, named)?.clone();
    adopt::ask(&Open { engine: host.engine().clone() }, &entry.run, &entry.workflow, terminal)?;
    Ok(entry.run)
}

/// Refuses a fork that this host could not drive, before there is one.
async fn continuable(host: &Host, source: &RunId, at: u64) -> Result<(), Failure> {
    let state = host.engine().shown_state(source, Some(at)).await?;
    let here = standing::loaded(host).await;
    match state.pins().iter().find(|(name, digest)| !here.has(name, digest)) {
        None => Ok(()),
        Some((name, pinned)) => {
            let found = here.current(name).map_or_else(|| "none".to_owned(), ToString::to_string);
            let (run, name, pinned) = (source.clone(), name.clone(), pinned.clone());
            Err(RunError::Pin { run, name, pinned, found }.into())
        }
    }
}

pub(super) async fn forked(
    host: &Host,
    source: &RunId,
    at: u64,
    options: &NewRunOptions,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if !options.hold {
        continuable(host, source, at).await?;
    }
    if host.engine().shares_approval(source, at).await? {
        approve::given_by_a_person()?;
    }
    let fork = host.engine().fork_by(source, at, options.name.clone(), Sender::default().name()).await?;
    if options.hold {
        match terminal.json {
            true => terminal.json(&json!({"run": fork}))?,
            false => terminal.line(&format!(
                "{fork}  created; inspect it with `opcell runs show {fork}`, resume it with `opcell runs resume {fork}`"
            ))?,
        }
        return Ok(Exit::Done);
    }
    if !terminal.json {
        terminal.note(&format!("run {fork}: run {source} after event {at}"));
    }
    take_up(host, &fork, Cut::Tail, options.stop, terminal).await
}
