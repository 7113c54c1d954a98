//! `opcell chat`: a conversation with a workflow whose states speak. Lines come from a person, or from a pipe.

use super::{
    Exit, Failure, Global, Terminal,
    args::{Approve, JournalArgs, PackArgs, StopArgs},
    conversation::{Approval, converse, require_states},
    follow::{self, RunObserver},
    lines::Lines,
    project::{put_in_force, show_warnings},
    skill,
    stop::Stop,
};
use clap::Args;
use opcell::{report::printable, run::Workflow};
use opcell_engine::{
    Event, MESSAGE_SIGNAL, Recorded, RunOptions, Status,
    conversation::Message,
    event::{Destination, EffectReply},
    located::{Located, Locator},
};
use opcell_ir::names::Outcome;
use std::{io, sync::Arc};

#[derive(Debug, Args)]
pub struct ChatArgs {
    /// PromptPack, or name of a conversational workflow of the project.
    #[arg(value_name = "PACK")]
    workflow: String,
    /// Variables of the pack: `key=value` (repeatable) or JSON.
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    #[command(flatten)]
    part: PackArgs,
    /// The answer for calls that wait for a person.
    #[arg(long, value_name = "ANSWER", default_value = "ask")]
    approve: Approve,
    /// Do not keep typed lines for later chats.
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    journal: JournalArgs,
    #[command(flatten)]
    stop: StopArgs,
}

pub async fn chat(global: &Global, args: &ChatArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut config = global.trusted()?;
    args.journal.choose(&mut config)?;
    put_in_force(&mut config, &args.workflow);
    let journaled = config.journal.is_some();
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let workflow = args.part.open(&host, &args.workflow)?;
    let given = skill::run_input(&workflow, &args.input, None)?;
    require_states(&workflow)?;
    show_warnings(&workflow, terminal);
    let stop = Stop::listen(args.stop, journaled, terminal)?;
    let options = RunOptions { run: args.journal.name(), detach: true, ..RunOptions::default() };
    let run = host.start_with(&workflow, given, options).await?;
    if journaled && !terminal.json {
        terminal.note(&format!("run {}", run.id()));
    }
    if !terminal.json && std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        terminal.note(&format!("{}: type a message; /help lists what else there is", workflow.ir().name));
    }
    let mut shown = Transcript::new(&workflow, terminal);
    let mut lines = Lines::stdin(terminal, &stop, (!args.no_history).then_some("chat-history"));
    let approval = Approval { approve: args.approve, global, terminal };
    let outcome = converse(&host, &workflow, run, &mut lines, &mut shown, None, &stop, &approval).await?;
    if let Some(text) = stop.resumable(&outcome) {
        terminal.note(&text);
        return Ok(Exit::Waiting);
    }
    if outcome.status != Status::Suspended || terminal.json {
        return follow::show_without_result(&outcome, journaled, terminal);
    }
    terminal.note(&match journaled {
        true => {
            format!(
                "the run is suspended; to continue: opcell runs signal {} {MESSAGE_SIGNAL} --data TEXT",
                outcome.run
            )
        }
        false => "left".to_owned(),
    });
    Ok(Exit::Done)
}

/// The conversation, on stdout, and the path of the run, on stderr.
struct Transcript<'t> {
    terminal: &'t Terminal,
    names: Vec<Arc<str>>,
    locator: Locator,
    /// The model's answer, until it is known whether a rule rewrites it.
    unsaid: Option<(Arc<str>, Message)>,
}

impl<'t> Transcript<'t> {
    fn new(workflow: &Workflow, terminal: &'t Terminal) -> Self {
        Self { terminal, names: workflow.step_names(), locator: Locator::default(), unsaid: None }
    }

    fn note(&self, text: &str) {
        if !self.terminal.json {
            self.terminal.note(text);
        }
    }

    fn says(&self, state: &str, message: &Message) -> io::Result<()> {
        match self.terminal.json || message.content.is_empty() {
            true => Ok(()),
            false => self.terminal.line(&printable(&format!("[{state}] {}", message.content))),
        }
    }
}

impl RunObserver for Transcript<'_> {
    fn observe(&mut self, recorded: &Recorded, is_new: bool) -> Result<(), Failure> {
        // Rules of a session rewrite an answer before anything else happens.
        if let Some((state, said)) = self.unsaid.take() {
            match &recorded.event {
                Event::Guarded { text, .. } => self.says(&state, &Message::assistant(text.as_ref()))?,
                _ => self.says(&state, &said)?,
            }
        }
        let located = self.locator.locate(recorded);
        if !is_new {
            return Ok(());
        }
        for Located { recorded, step, .. } in located {
            self.show(&recorded.event, step)?;
        }
        Ok(())
    }
}

impl Transcript<'_> {
    fn show(&mut self, event: &Event, state: Option<Arc<str>>) -> Result<(), Failure> {
        match event {
            Event::Replied { reply, .. }
                if let EffectReply::Round(Ok(reply)) = reply.as_ref()
                    && reply.summary.is_none() =>
            {
                self.unsaid = state.map(|state| (state, reply.message.clone()));
            }
            Event::ArtifactSet { name, value, .. } => self.note(&format!("  {name} = {}", value.to_json())),
            Event::Routed {
                outcome: Some(outcome), to: Destination::Step(step), redirected, original_target, ..
            } => {
                if let (Some(from), Some(to)) = (state, self.names.get(*step as usize)) {
                    let instead = original_target.as_ref().map(|to| format!(" instead of {to}")).unwrap_or_default();
                    let why = redirected.as_ref().map(|why| format!("{instead} ({why})")).unwrap_or_default();
                    let (Outcome::Text(event) | Outcome::Keyword(event)) = outcome;
                    self.note(&format!("  {from} -{event}-> {to}{why}"));
                }
            }
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::StepEntered { .. }
            | Event::StepSkipped { .. }
            | Event::StepPrepared { .. }
            | Event::EachStarted { .. }
            | Event::ElementEntered { .. }
            | Event::ElementFinished { .. }
            | Event::GroupEntered { .. }
            | Event::Chosen { .. }
            | Event::GroupFinished { .. }
            | Event::Requested { .. }
            | Event::Replied { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::Retrying { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::InstanceStarted { .. }
            | Event::InstanceFinished { .. }
            | Event::StepFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAsked { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAsked { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::InputAnswered { .. }
            | Event::CallsAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallsExpired { .. }
            | Event::Abandoned { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked
            | Event::RunFinished(_) => {}
        }
        Ok(())
    }
}
