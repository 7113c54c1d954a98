//! A conversation with a run: opening the part of a pack that is asked, and driving the run from line to line.

use super::{
    approve,
    args::{Approve, Global, PackArgs},
    failure::Failure,
    follow::{self, RunObserver},
    lines::Lines,
    stop::Stop,
    terminal::Terminal,
    units::counted,
};
use opcell::{
    host::Host,
    report::Rejected,
    run::{Run, Workflow},
};
use opcell_engine::{MESSAGE_SIGNAL, ResumeOptions, RunOutcome, Sender, Status, outcome::Question, ports::RunText};
use opcell_ir::{
    Diagnostic,
    diagnostic::did_you_mean,
    ir::{Form, Judge, Orchestration, PromptString, SourceRef, Step},
    names::Outcome,
};
use opcell_types::Value;
use opcell_workflow::promptpack::Pack;
use std::{path::Path, sync::Arc};

const HELP: &str = "type a message, or: /event NAME [CONTEXT] raises an external event, /state shows the current state, \
                    /artifacts shows the artifacts, /quit leaves the chat";

/// A workflow to talk with has a state that speaks or listens.
///
/// # Errors
/// When it has none.
pub fn require_states(workflow: &Workflow) -> Result<(), Failure> {
    if workflow.ir().steps.iter().any(|step| matches!(step.judge, Some(Judge::Event { .. }))) {
        return Ok(());
    }
    let message = format!(
        "`{}` is not a conversational workflow: it has no state that takes messages or events",
        workflow.ir().name
    );
    Err(Diagnostic::error("not-conversational", message).help("`opcell run` runs every workflow").into())
}

/// A workflow whose first state is a composition starts at once, and with what is said first: under `text`, as what is
/// said later is.
pub fn first_said(workflow: &Workflow, given: Value, mut say: Vec<String>) -> (Value, Vec<String>) {
    let entry = workflow.ir().entry.as_ref().and_then(|entry| workflow.ir().step(entry));
    let takes_words = matches!(
        entry.map(|step| &step.form),
        Some(Form::Delegate { delegate }) if matches!(&delegate.prompt_string, PromptString::Source(spec) if spec.from == SourceRef::Handover)
    );
    let has_text = given.get("text").is_some() || given.as_object().is_none();
    if !takes_words || has_text || say.first().is_none_or(|first| first.starts_with('/')) {
        return (given, say);
    }
    let first = say.remove(0);
    let entries = given.as_object().into_iter().flat_map(|entries| entries.iter());
    let entries = entries.map(|(name, value)| (name.to_string(), value.clone()));
    (Value::object(entries.chain([("text".to_owned(), Value::from(first))])), say)
}

impl PackArgs {
    /// Opens a workflow by its file or name, or the part of the pack that is asked for. A prompt can be asked although
    /// another one of its pack is refused.
    ///
    /// # Errors
    /// When there is no such workflow, the document is not a pack, or the pack has no such prompt or agent.
    pub fn open(&self, host: &Host, target: &str) -> Result<Workflow, Rejected> {
        let whole = host.open(target);
        match (&self.prompt, &self.agent) {
            (Some(key), _) => match whole {
                Err(_) if Path::new(target).is_file() => Workflow::load_prompt(target, key),
                whole => whole?.prompt(key),
            },
            (None, Some(agent)) => as_agent(&whole?, agent),
            (None, None) => whole,
        }
    }
}

/// The workflow as an agent of its pack opens it: entered at the agent's state, or its prompt asked by itself.
fn as_agent(workflow: &Workflow, agent: &str) -> Result<Workflow, Rejected> {
    let json = workflow.document().and_then(|document| serde_json::from_str(document.source.text()).ok());
    let pack = json.and_then(|json: serde_json::Value| Pack::from_json(&json).ok());
    let members = pack.and_then(|pack| pack.agents).map(|agents| agents.members).unwrap_or_default();
    let Some(member) = members.get(agent) else {
        let names: Vec<&str> = members.keys().map(String::as_str).collect();
        let help = match did_you_mean(agent, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "`--prompt KEY` asks a prompt of a pack without agents".to_owned(),
            None => format!("its agents are: {}", names.join(", ")),
        };
        let message = format!("`{}` has no agent `{agent}`", workflow.ir().name);
        return Err(Rejected::plain(Diagnostic::error("unknown-agent", message).help(help)));
    };
    match member.state.as_deref().and_then(|state| workflow.entered_at(state)) {
        Some(entered) => Ok(entered),
        None => workflow.prompt(agent),
    }
}

/// The answer for calls that wait for a person.
pub struct Approval<'a> {
    pub approve: Approve,
    pub global: &'a Global,
    pub terminal: &'a Terminal,
}

/// Drives a run until it ends, or is suspended and there are no more lines.
#[allow(clippy::too_many_arguments, reason = "a command has all of these")]
pub async fn converse(
    host: &Host,
    workflow: &Workflow,
    mut run: Run,
    lines: &mut Lines,
    watch: &mut impl RunObserver,
    sink: Option<Arc<dyn RunText>>,
    stop: &Stop,
    approval: &Approval<'_>,
) -> Result<RunOutcome, Failure> {
    let mut past = 0;
    loop {
        let (outcome, last) = follow::observe(host, &run, past, watch, stop).await?;
        past = last;
        if outcome.status != Status::Suspended || stop.is_asked() {
            return Ok(outcome);
        }
        if approve::answer(host, Some(approval.global), &outcome, approval.approve, approval.terminal).await? {
            let options = ResumeOptions { detach: true, sink: sink.clone(), ..ResumeOptions::default() };
            run = host.resume(&outcome.run, options).await?;
            continue;
        }
        let Some(said) = next_word(&outcome, workflow, lines)? else { return Ok(outcome) };
        let id = outcome.run.clone();
        let sender = Sender { may_approve: approve::given_by_a_person().is_ok(), ..Sender::default() };
        host.engine().signal_from(&id, &said.signal, said.data, sender).await?;
        let options = ResumeOptions { detach: true, sink: sink.clone(), ..ResumeOptions::default() };
        run = host.resume(&id, options).await?;
    }
}

/// A message to send to a run.
struct Word {
    signal: Arc<str>,
    data: Value,
}

/// The next line that is a message to the run; lines that only ask are answered.
fn next_word(outcome: &RunOutcome, workflow: &Workflow, lines: &mut Lines) -> Result<Option<Word>, Failure> {
    let step = outcome.step.as_deref().and_then(|step| workflow.ir().step(step));
    while let Some(line) = lines.next()? {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        match command {
            "/quit" => return Ok(None),
            "/help" => lines.answer(HELP),
            "/state" => lines.answer(&state_line(outcome, step)),
            "/artifacts" => lines.answer(&outcome.artifacts.to_json()),
            "/event" => {
                let (event, context) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
                match refuses(step, event) {
                    Some(why) => lines.answer(&why),
                    None => {
                        let data = Value::object([("context", Value::from(context.trim()))]);
                        return Ok(Some(Word { signal: event.into(), data }));
                    }
                }
            }
            command if command.starts_with('/') => lines.answer(&format!("unknown command `{command}`; {HELP}")),
            _ if listens(outcome) => {
                return Ok(Some(Word { signal: MESSAGE_SIGNAL.into(), data: Value::from(line.as_str()) }));
            }
            _ => lines.answer(&format!("this state accepts no messages; {}", state_line(outcome, step))),
        }
    }
    Ok(None)
}

/// Returns `true` if a state waits for what is said, rather than for an event only.
fn listens(outcome: &RunOutcome) -> bool {
    outcome.questions.iter().any(|question| match question {
        Question::Signal { name, .. } => name.as_ref() == MESSAGE_SIGNAL,
        Question::Doubt { .. } | Question::Grant { .. } | Question::Call { .. } | Question::Input { .. } => false,
    })
}

/// Why a state does not take an event from outside.
pub fn refuses(step: Option<&Step>, event: &str) -> Option<String> {
    let step = step?;
    let events = events(step);
    if !events.contains(&event) {
        return Some(format!("state `{}` has no event `{event}`; it has: {}", step.name, events.join(", ")));
    }
    let internal = matches!(&step.judge, Some(Judge::Event { orchestration: Orchestration::Internal, .. }));
    (internal && matches!(step.form, Form::Session { .. }))
        .then(|| format!("state `{}` takes events only from its model (orchestration: internal)", step.name))
}

fn events(step: &Step) -> Vec<&str> {
    let mut events: Vec<&str> = step
        .on
        .iter()
        .map(|route| match &route.outcome {
            Outcome::Text(name) | Outcome::Keyword(name) => name.as_ref(),
        })
        .collect();
    events.sort_unstable();
    events
}

fn state_line(outcome: &RunOutcome, step: Option<&Step>) -> String {
    let Some(step) = step else { return "the run is not in any state".to_owned() };
    let used = &outcome.used;
    format!(
        "state `{}`, events: {}; {}, {}, {} so far",
        step.name,
        if step.on.is_empty() { "none".to_owned() } else { events(step).join(", ") },
        counted(used.visits, "visit"),
        counted(used.tool_calls, "tool call"),
        counted(used.rounds, "model round")
    )
}
