//! `opcell runs resume`: driving a run with the plugins of this project.

use super::{Exit, Failure, Open, Terminal, adopt, meant};
use crate::cli::{
    approve,
    args::{Sender, StopArgs},
    follow,
    stop::Stop,
    units::counted,
};
use clap::Args;
use opcell::{config::Config, host::Host};
use opcell_engine::{
    Message, ResumeOptions, RunError,
    event::{Answer, EffectId},
};
use opcell_ir::Diagnostic;
use opcell_journal::{Cut, JournalError, RunId};

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

/// The settlement of effects in doubt.
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

/// Drives a run from its journal and follows it.
pub(super) async fn take_up(
    host: &Host,
    run: &RunId,
    cut: Cut,
    stop: StopArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
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
