//! `opcell runs resume` and `fork`: runs that go on, with the plugins of this project.

use super::{Exit, Failure, Teller, Terminal, meant};
use crate::cli::follow;
use clap::Args;
use opcell::{config::Config, host::Host};
use opcell_engine::{
    Message, ResumeOptions, RunError,
    event::{Answer, EffectId},
};
use opcell_journal::{Cut, JournalError, RunId};
use opcell_workflow::Diagnostic;

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The run: its name, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    doubt: DoubtArgs,
    /// Which effect, if several are in doubt; all of them unless given.
    #[arg(long, value_name = "N", requires = "DoubtArgs")]
    effect: Option<u64>,
    #[command(flatten)]
    teller: Teller,
    /// Gives up everything behind the first event that is not what was written, even if good ones stand behind it.
    #[arg(long)]
    cut: bool,
}

/// What to do with what was under way when the run was interrupted and must not happen twice.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct DoubtArgs {
    /// Does again what was under way and must not be repeated unasked.
    #[arg(long)]
    retry: bool,
    /// Takes it as done; its result is null.
    #[arg(long)]
    skip: bool,
    /// Takes it as failed.
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
    let host = Host::builder().config(config).build().await?;
    let engine = host.engine();
    let entry = meant(&engine.runs().await?, &args.run)?.clone();
    if entry.state.ended {
        if args.doubt.answer().is_some() {
            let message = format!("run `{}` has ended ({}); there is nothing to answer", entry.run, entry.state.status);
            return Err(Diagnostic::error("run-ended", message).into());
        }
        terminal.note(&format!("run `{}` has ended; this is how", entry.run));
    } else if let Some(answer) = args.doubt.answer() {
        let effect = args.effect.map(EffectId);
        engine.tell(&entry.run, &Message::Answer { effect, answer, by: args.teller.name() }).await?;
    }
    let cut = if args.cut { Cut::Anything } else { Cut::Tail };
    take_up(&host, &entry.run, cut, terminal).await
}

async fn take_up(host: &Host, run: &RunId, cut: Cut, terminal: &Terminal) -> Result<Exit, Failure> {
    let options = ResumeOptions { detach: true, cut, ..ResumeOptions::default() };
    let taken = match host.resume(run, options).await {
        Err(RunError::Journal(error)) if matches!(*error, JournalError::Broken { .. }) => {
            let message = error.to_string();
            let help = "restore the journal from a copy, or give up what is behind that event with `--cut`".to_owned();
            return Err(Diagnostic::error("journal-changed", message).help(help).into());
        }
        taken => taken?,
    };
    if let Some(damage) = taken.damage() {
        terminal.failed(&format!(
            "the end of the run was damaged: {}; {} events are lost, and it goes on behind event {}",
            damage.reason, damage.cut, damage.last_good
        ));
    }
    let past = taken.resumed_at();
    let state = host.engine().state_at(run, Some(past)).await?;
    let steps = state.program().map(|program| program.ir().steps.iter().map(|step| step.name.clone()).collect());
    follow::follow(&taken, steps.unwrap_or_default(), past, terminal).await
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// The run: its name, the beginning of it, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// The last event that both runs share.
    #[arg(long, value_name = "SEQ")]
    at: u64,
    /// Names the new run.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

pub async fn fork(config: Config, args: &ForkArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = Host::builder().config(config).build().await?;
    let run = meant(&host.engine().runs().await?, &args.run)?.run.clone();
    let fork = host.engine().fork(&run, args.at, args.name.as_deref().map(Into::into)).await?;
    if !terminal.json {
        terminal.note(&format!("run {fork}"));
    }
    take_up(&host, &fork, Cut::Tail, terminal).await
}
