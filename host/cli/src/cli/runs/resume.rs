//! `opcell runs resume` and `fork`: driving runs with the plugins of this project.

use super::{Exit, Failure, Open, Sender, Terminal, adopt, meant};
use crate::cli::{
    approve, follow,
    stop::{Stop, StopArgs},
    units::counted,
};
use clap::Args;
use opcell::{config::Config, host::Host, standing};
use opcell_engine::{
    Message, ResumeOptions, RunError,
    event::{Answer, EffectId},
};
use opcell_ir::Diagnostic;
use opcell_journal::{Cut, JournalError, RunId};
use serde_json::json;

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    doubt: DoubtArgs,
    /// Number of the effect in doubt. Defaults to all of them.
    #[arg(long, value_name = "N", requires = "DoubtArgs")]
    effect: Option<u64>,
    #[command(flatten)]
    sender: Sender,
    /// Discard everything from the first corrupt event on, even if intact events follow it.
    #[arg(long)]
    cut: bool,
    #[command(flatten)]
    stop: StopArgs,
}

/// How to settle the effects in doubt.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct DoubtArgs {
    /// Re-execute the effect in doubt.
    #[arg(long)]
    retry: bool,
    /// Treat the effect in doubt as done, with the result null.
    #[arg(long)]
    skip: bool,
    /// Treat the effect in doubt as failed.
    #[arg(long)]
    fail: bool,
}

impl DoubtArgs {
    fn answer(&self) -> Option<Answer> {
        match (self.retry, self.skip, self.fail) {
            (true, ..) => Some(Answer::Retry),
            (_, true, _) => Some(Answer::Skip),
            (.., true) => Some(Answer::Fail),
            _ => None,
        }
    }
}

pub async fn resume(config: Config, args: &ResumeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let engine = host.engine();
    let entry = meant(&engine.runs().await?, &args.run)?.clone();
    adopt::ask(&Open { engine: engine.clone() }, &entry.run, &entry.workflow, terminal)?;
    if entry.state.ended {
        if args.doubt.answer().is_some() {
            let message = format!("run `{}` has ended ({}): no effect is in doubt", entry.run, entry.state.status);
            return Err(Diagnostic::error("run-ended", message).into());
        }
        terminal.note(&format!("run `{}` had already ended, with this result", entry.run));
    } else if let Some(answer) = args.doubt.answer() {
        approve::given_by_a_person()?;
        let effect = args.effect.map(EffectId);
        engine.send(&entry.run, &Message::Answer { effect, answer, by: args.sender.name() }).await?;
    }
    let cut = if args.cut { Cut::Anything } else { Cut::Tail };
    take_up(&host, &entry.run, cut, args.stop, terminal).await
}

async fn take_up(host: &Host, run: &RunId, cut: Cut, stop: StopArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let stop = Stop::listen(stop, true, terminal)?;
    let options = ResumeOptions { detach: true, cut, ..ResumeOptions::default() };
    let taken = match host.resume(run, options).await {
        Err(RunError::Journal(error)) if matches!(*error, JournalError::Broken { .. }) => {
            let message = error.to_string();
            let help =
                "restore the journal from a backup, or discard everything after that event with `--cut`".to_owned();
            return Err(Diagnostic::error("journal-tampered", message).help(help).into());
        }
        taken => taken?,
    };
    if let Some(damage) = taken.damage() {
        terminal.failed(&format!(
            "the end of the run was damaged: {}; {} lost; resumed after event {}",
            damage.reason,
            counted(damage.cut, "event"),
            damage.last_good
        ));
    }
    let past = taken.resumed_at();
    let state = host.engine().state_at(run, Some(past)).await?;
    let steps = state.program().map(|program| program.ir().steps.iter().map(|step| step.name.clone()).collect());
    follow::follow(host, &taken, steps.unwrap_or_default(), past, &stop, terminal).await
}

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

/// The new run.
#[derive(Debug, Args)]
struct NewRunOptions {
    /// ID of the new run; must be unique. Generated if omitted.
    #[arg(long = "as", value_name = "NAME", value_parser = crate::cli::run::run_id)]
    name: Option<opcell::run::NewRunId>,
    /// Create the run without driving it, to look at it before you resume it or leave it to a worker.
    #[arg(long)]
    hold: bool,
    #[command(flatten)]
    stop: StopArgs,
}

pub async fn fork(config: Config, args: &ForkArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let source = source(&host, &args.run, terminal).await?;
    forked(&host, &source, args.at, &args.options, terminal).await
}

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Step to begin again with, as it was last entered. Defaults to the call with which the run failed.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    options: NewRunOptions,
}

/// A run that has ended stays what it is: a fork makes the call again.
pub async fn retry(config: Config, args: &RetryArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let source = source(&host, &args.run, terminal).await?;
    let at = host.engine().retry_point(&source, args.step.as_deref()).await?;
    forked(&host, &source, at, &args.options, terminal).await
}

/// The run to share the first events of, which its user has adopted if it was not made here.
async fn source(host: &Host, named: &str, terminal: &Terminal) -> Result<RunId, Failure> {
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

async fn forked(
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
