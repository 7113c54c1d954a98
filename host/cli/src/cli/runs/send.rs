//! `opcell runs signal`, `approve` and `cancel`: messages to a run, whoever drives it.

use super::{Exit, Failure, Open, Sender, Terminal};
use crate::cli::{Global, chat, input, plugin};
use clap::{Args, ValueEnum};
use opcell_engine::{
    Delivery, MESSAGE_SIGNAL, Message, ResumeOptions, RunError, State, Status,
    event::{EffectId, GrantScope},
    outcome::{Question, RunOutcome},
};
use opcell_journal::{JournalError, RunId};
use opcell_types::{Denial, Value};
use opcell_workflow::{
    Diagnostic,
    ir::{Form, Judge},
};
use serde_json::json;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct SignalArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Name of the signal.
    #[arg(value_name = "NAME")]
    name: String,
    /// Data of the signal: JSON, text, `@FILE` or `-` for standard input. Defaults to null.
    #[arg(long, value_name = "DATA")]
    data: Option<String>,
    #[command(flatten)]
    sender: Sender,
}

pub async fn signal(open: &Open, args: &SignalArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let data = args.data.as_deref().map(input::value).transpose()?.unwrap_or(Value::Null);
    let state = open.engine.state_at(&run, None).await?;
    if let Some(why) = refused(&state, &args.name) {
        return Err(Diagnostic::error("event-not-taken", why).help("`opcell runs show` shows where the run is").into());
    }
    let delivery = open.engine.signal(&run, &args.name.as_str().into(), data, args.sender.name()).await?;
    sent(open, &run, &delivery, terminal).await
}

/// Why the state that a run is in does not take an event from outside: kept, it would happen in a later state.
fn refused(state: &State, name: &str) -> Option<String> {
    let program = state.program()?;
    let mut current = state.current_steps().into_iter().filter_map(|(step, _)| program.ir().step(&step));
    let speaking = current.find(|step| {
        matches!(step.form, Form::Session { .. })
            && matches!(step.judge, Some(Judge::Event { .. }))
            && name != MESSAGE_SIGNAL
    })?;
    chat::refuses(Some(speaking), name)
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Name of the approval, or of what is to be granted, if the run asks for several.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Refuse instead: the step that asks fails.
    #[arg(long)]
    refuse: bool,
    /// Grant what a plugin was denied, where it is set up to ask (`on-denied = "ask"`).
    #[arg(long, value_name = "SCOPE", conflicts_with_all = ["refuse", "why"])]
    grant: Option<GrantFor>,
    /// Reason to record with the approval or refusal.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    sender: Sender,
}

/// How long a grant lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GrantFor {
    /// The call that was refused.
    Once,
    /// This run.
    Run,
    /// Every run: write it into the project file.
    Always,
}

pub async fn approve(open: &Open, global: &Global, args: &ApproveArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let state = open.engine.state_at(&run, None).await?;
    let asks = Asks::of(&state, args.name.as_deref());
    let approvals =
        state.questions().iter().any(|question| matches!(question, Question::Signal { approval: true, .. }));
    if args.grant.is_some() || (!approvals && !asks.effects.is_empty()) {
        return grant(open, global, args, (&run, &state), asks, terminal).await;
    }
    let wanted = |name: &Arc<str>| args.name.as_deref().is_none_or(|wanted| wanted == name.as_ref());
    let asked: Vec<Arc<str>> = state
        .questions()
        .into_iter()
        .filter_map(|question| match question {
            Question::Signal { name, approval: true, .. } if wanted(&name) => Some(name),
            _ => None,
        })
        .collect();
    let name = match asked.as_slice() {
        [name] => name.clone(),
        [] => {
            let what =
                args.name.as_deref().map_or_else(|| "an approval".to_owned(), |name| format!("approval `{name}`"));
            let message = format!("run `{run}` does not wait for {what}; it is {}", state.status());
            return Err(Diagnostic::error("nothing-to-approve", message).into());
        }
        several => {
            let message = format!("run `{run}` waits for {} approvals: {}", several.len(), several.join(", "));
            return Err(Diagnostic::error("ambiguous-approval", message).help("specify one of them".to_owned()).into());
        }
    };
    let mut data = vec![("approved", Value::from(!args.refuse))];
    data.extend(args.why.as_deref().map(|why| ("why", Value::from(why))));
    let by = args.sender.name();
    let delivery = open.engine.signal(&run, &name, Value::object(data), by.clone()).await?;
    if let (Delivery::Now(step), false) = (&delivery, terminal.json) {
        let answer = if args.refuse { "refused" } else { "approved" };
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        terminal.note(&format!("recorded: step `{step}` of run `{run}` is {answer}{by}"));
        return going_on(open, &run, terminal).await;
    }
    sent(open, &run, &delivery, terminal).await
}

/// Says how a run continues that no one drives.
async fn going_on(open: &Open, run: &RunId, terminal: &Terminal) -> Result<Exit, Failure> {
    if !open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven) {
        terminal.note(&format!(
            "the run continues with `opcell runs resume {run}`, or with the next worker of this journal"
        ));
    }
    Ok(Exit::Done)
}

/// What a run asks to be granted.
struct Asks {
    /// Each different one once.
    denials: Vec<Denial>,
    /// The effects that ask for them.
    effects: Vec<EffectId>,
}

impl Asks {
    /// What the run asks for now, or only what has this name.
    fn of(state: &State, name: Option<&str>) -> Self {
        let mut asks = Self { denials: Vec::new(), effects: Vec::new() };
        for question in state.questions() {
            if let Question::Grant { effect, denial, .. } = question
                && name.is_none_or(|name| denial.capability == name)
            {
                asks.effects.push(effect);
                if !asks.denials.contains(&denial) {
                    asks.denials.push(*denial);
                }
            }
        }
        asks
    }
}

/// Sends what was decided about one thing that a run asks to be granted. What it asks for later is another question.
async fn grant(
    open: &Open,
    global: &Global,
    args: &ApproveArgs,
    (run, state): (&RunId, &State),
    asks: Asks,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let denial = match asks.denials.as_slice() {
        [denial] => denial,
        [] => {
            let message = format!("run `{run}` does not ask for such a grant; it is {}", state.status());
            return Err(Diagnostic::error("nothing-to-approve", message).into());
        }
        several @ [first, ..] => {
            let names: Vec<String> = several.iter().map(|denial| format!("`{}`", denial.capability)).collect();
            let message = format!("run `{run}` asks for {} grants: {}", several.len(), names.join(", "));
            let help = format!("name one: opcell runs approve {run} '{}' --grant once", first.capability);
            return Err(Diagnostic::error("ambiguous-grant", message).help(help).into());
        }
    };
    let grant = match args.grant {
        Some(GrantFor::Once) => Some(GrantScope::Once),
        Some(GrantFor::Run) => Some(GrantScope::Run),
        Some(GrantFor::Always) => {
            plugin::grant_always(global, &denial.remedy, terminal)?;
            Some(GrantScope::Run)
        }
        None if args.refuse => None,
        None => {
            let message = format!("run `{run}` asks for a grant: {}", denial.capability);
            let help = format!("say for how long: opcell runs approve {run} --grant once|run|always, or --refuse");
            return Err(Diagnostic::error("grant-scope-missing", message).help(help).into());
        }
    };
    for effect in asks.effects {
        let message = Message::Grant { effect: Some(effect), grant, by: args.sender.name() };
        open.engine.send(run, &message).await?;
    }
    let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
    if terminal.json {
        terminal.json(&json!({"ok": true, "run": run, "grant": grant, "driven": driven}))?;
        return Ok(Exit::Done);
    }
    terminal.note(if grant.is_some() { "granted: the call is made again" } else { "refused: the call has failed" });
    going_on(open, run, terminal).await
}

async fn sent(open: &Open, run: &RunId, delivery: &Delivery, terminal: &Terminal) -> Result<Exit, Failure> {
    let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
    if terminal.json {
        let step = match delivery {
            Delivery::Now(step) => Some(step),
            Delivery::Queued => None,
        };
        terminal.json(&json!({"ok": true, "run": run, "step": step, "kept": step.is_none(), "driven": driven}))?;
        return Ok(Exit::Done);
    }
    terminal.note(&match delivery {
        Delivery::Now(step) => format!("sent: step `{step}` of run `{run}` receives it"),
        Delivery::Queued => format!("queued: no step of run `{run}` waits for it yet"),
    });
    going_on(open, run, terminal).await
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Reason to record with the cancellation.
    #[arg(long, value_name = "TEXT", default_value = "cancelled")]
    reason: String,
    #[command(flatten)]
    sender: Sender,
}

/// A run without a driver is ended here: cancelling needs no plugin, because no effect starts any more.
pub async fn cancel(open: &Open, args: &CancelArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let message = Message::Cancel { reason: args.reason.as_str().into(), by: args.sender.name() };
    open.engine.send(&run, &message).await?;
    let options = ResumeOptions { unpinned: true, ..ResumeOptions::default() };
    match open.engine.resume(&run, options).await {
        Ok(handle) => cancelled(&run, Some(handle.finished().await?), terminal),
        Err(RunError::Journal(error)) if matches!(*error, JournalError::Held { .. }) => cancelled(&run, None, terminal),
        Err(error) => Err(error.into()),
    }
}

fn cancelled(run: &RunId, outcome: Option<RunOutcome>, terminal: &Terminal) -> Result<Exit, Failure> {
    let status = outcome.as_ref().map(|outcome| outcome.status);
    if terminal.json {
        terminal.json(&json!({"ok": true, "run": run, "status": status}))?;
    } else {
        terminal.note(&match status {
            Some(Status::Cancelled) => format!("run `{run}` is cancelled"),
            Some(status) => format!("run `{run}` is {status}"),
            None => format!("asked the process that drives run `{run}` to cancel it"),
        });
    }
    Ok(Exit::Done)
}
