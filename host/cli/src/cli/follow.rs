//! Following a run until it ends or is suspended, and showing its result.

use super::{
    Exit, Failure, Terminal, approve, fill,
    progress::StepProgress,
    receipts::have_denials,
    skill::LogWriter,
    stop::Stop,
    stream::Text,
    units::{continued, counted},
};
use futures_util::StreamExt as _;
use opcell::{Host, remedy, run::Run};
use opcell_engine::{
    MESSAGE_SIGNAL, Recorded,
    outcome::{Question, RunOutcome, Status},
    receipt::Receipt,
};
use opcell_types::{Source, Value};
use serde_json::json;
use std::sync::Arc;

/// Watches a run.
pub trait RunObserver {
    /// Takes the next event; `is_new`: it was appended after the run was resumed.
    fn observe(&mut self, recorded: &Recorded, is_new: bool) -> Result<(), Failure>;

    /// Waits for the next piece of a model's text; forever if none is shown.
    async fn next_text(&mut self) {
        std::future::pending().await
    }

    /// Shows it.
    fn show_text(&mut self) {}
}

/// Shows the steps of a run as they come, what its models say if that is wanted, and keeps what a log of it needs.
pub struct Steps {
    progress: StepProgress,
    text: Option<Text>,
    log: LogWriter,
}

impl Steps {
    /// `streams`: what models say is shown between the lines of the steps.
    pub fn new(terminal: &Terminal, steps: Vec<Arc<str>>, text: Option<Text>, streams: bool, log: LogWriter) -> Self {
        Self { progress: StepProgress::new(terminal, steps, streams), text, log }
    }

    /// Shows how the run ended. `kept`: a journal has it, so that what it waits for can still be sent.
    pub fn end(mut self, outcome: &RunOutcome, kept: bool, terminal: &Terminal) -> Result<Exit, Failure> {
        let receipts = self.progress.finish();
        if self.log.replaces_result() {
            self.log.write(terminal)?;
        } else {
            show(outcome, &receipts, self.log.records()?, kept, terminal)?;
        }
        Ok(exit(outcome))
    }
}

impl RunObserver for Steps {
    fn observe(&mut self, recorded: &Recorded, is_new: bool) -> Result<(), Failure> {
        if let Some(text) = &mut self.text {
            text.observe(&recorded.event, &mut self.progress);
        }
        self.log.observe(recorded)?;
        if is_new {
            self.progress.observe(recorded)
        } else {
            self.progress.recall(recorded)
        }
        Ok(())
    }

    async fn next_text(&mut self) {
        Text::next_piece(&mut self.text).await;
    }

    fn show_text(&mut self) {
        if let Some(text) = &mut self.text {
            text.show(&mut self.progress);
        }
    }
}

/// Shows the steps of a run as they come, and its end. `past`: events that are nothing new.
pub async fn follow(
    host: &Host,
    run: &Run,
    steps: Vec<Arc<str>>,
    past: u64,
    stop: &Stop,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let mut steps = Steps::new(terminal, steps, None, false, LogWriter::default());
    let (outcome, _) = observe(host, run, past, &mut steps, stop).await?;
    let exit = steps.end(&outcome, true, terminal)?;
    if let Some(text) = stop.resumable(&outcome) {
        terminal.note(&text);
    }
    Ok(exit)
}

/// Watches a run until it ends, waits for an answer or is stopped; also gives its last event.
pub async fn observe(
    host: &Host,
    run: &Run,
    past: u64,
    watch: &mut impl RunObserver,
    stop: &Stop,
) -> Result<(RunOutcome, u64), Failure> {
    let ending = stop.end_of(host, run);
    let mut last = past;
    let mut events = run.events().await?;
    loop {
        // What happened before a piece of text is shown before it.
        let recorded = tokio::select! {
            biased;
            recorded = events.next() => recorded,
            () = watch.next_text() => {
                watch.show_text();
                continue;
            }
        };
        let Some(recorded) = recorded else { break };
        last = recorded.seq;
        watch.observe(&recorded, recorded.seq > past)?;
    }
    let outcome = run.finished().await?;
    ending.abort();
    Ok((outcome, last))
}

fn exit(outcome: &RunOutcome) -> Exit {
    match outcome.status {
        Status::Completed => Exit::Done,
        Status::Failed | Status::Blocked | Status::Cancelled => Exit::RunFailed,
        Status::Pending | Status::Running | Status::Suspended => Exit::Waiting,
    }
}

/// Prints the rest when every message has been shown.
pub fn show_without_result(outcome: &RunOutcome, kept: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    if outcome.status == Status::Completed && !terminal.json {
        let step = outcome.step.as_deref().unwrap_or_default();
        let used = &outcome.used;
        let (visits, calls) = (counted(used.visits, "visit"), counted(used.tool_calls, "tool call"));
        terminal.note(&format!("completed in `{step}`: {visits}, {calls}"));
        if outcome.artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) {
            terminal.note(&format!("artifacts: {}", outcome.artifacts.to_json()));
        }
    } else {
        show(outcome, &[], None, kept, terminal)?;
    }
    Ok(exit(outcome))
}

/// The result on stdout; why there is none, and what the run waits for, on stderr.
fn show(
    outcome: &RunOutcome,
    receipts: &[Receipt],
    steps: Option<serde_json::Value>,
    kept: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if terminal.json {
        let mut result = json!({
            "run": outcome.run, "status": outcome.status, "source": outcome.source, "reason": outcome.reason, "message": outcome.message,
            "denial": outcome.denial,
            "step": outcome.step, "result": outcome.result, "details": outcome.details, "used": outcome.used,
            "artifacts": outcome.artifacts, "questions": outcome.questions, "kept": kept, "receipts": receipts,
        });
        if let (Some(steps), Some(result)) = (steps, result.as_object_mut()) {
            result.insert("steps".to_owned(), steps);
        }
        terminal.json(&result)?;
    } else if outcome.status == Status::Completed {
        match outcome.result.as_str() {
            Some(text) => terminal.line(text)?,
            None => terminal.json(&outcome.result)?,
        }
    } else {
        let step = outcome.step.as_ref().map(|step| format!(" at step `{step}`")).unwrap_or_default();
        let reason = outcome.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        // What was denied has just been shown, with its remedy.
        let shown = !terminal.quiet && outcome.reason.as_deref() == Some("denied") && have_denials(receipts);
        let message = outcome.message.as_deref().filter(|_| !shown);
        let message = message.map(|message| format!(": {}", continued(message))).unwrap_or_default();
        let details = outcome.details.as_ref().filter(|_| outcome.source == Some(Source::Engine));
        let expression = details.and_then(|details| details.get("expression")?.as_str());
        let expression = expression.map(|text| format!(" in `{text}`")).unwrap_or_default();
        terminal.failed(&format!("{}{reason}{step}{message}{expression}", outcome.status));
        if let Some(missing) = outcome.details.as_ref().and_then(missing_inputs) {
            terminal.failed(&format!("give it when the run starts: {missing}"));
        }
        let denial = outcome.denial.as_ref().filter(|_| !shown);
        if let Some(remedy) = denial.and_then(|denial| remedy::render(&denial.remedy)) {
            terminal.failed(&format!("to allow it: {remedy}"));
        }
        // A run that stopped short keeps what it has gathered.
        if outcome.artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) {
            terminal.failed(&format!("artifacts: {}", outcome.artifacts.to_json()));
        }
        for question in &outcome.questions {
            terminal.failed(&match kept {
                true => ask(&outcome.run, question, &outcome.questions),
                false => ask_again(question),
            });
        }
    }
    Ok(())
}

/// The options that would have given a run what its input lacks. What a callee failed by is inside of what its caller
/// says about it.
fn missing_inputs(details: &Value) -> Option<String> {
    let mut details = details;
    while let Some(inner) = details.get("details") {
        details = inner;
    }
    let missing = details.get("missing-inputs")?.as_array()?;
    let options: Vec<String> = missing
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| !name.contains('.'))
        .map(|name| format!("--input {name}=VALUE"))
        .collect();
    (!options.is_empty()).then(|| options.join(" "))
}

/// Returns the question of a run that is not kept anywhere: nothing can be sent to it any more.
fn ask_again(question: &Question) -> String {
    match question {
        Question::Signal { name, step, question, .. } if name.as_ref() == MESSAGE_SIGNAL => format!(
            "{}state `{step}` waits for what the user says, and the run is not kept: start it with `--say TEXT`, talk to it with \
             `opcell chat`, or keep it with `--journal`",
            question.as_deref().map(|text| format!("{text}\n")).unwrap_or_default()
        ),
        Question::Signal { name, step, question, approval, .. } => {
            let question = question.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
            let what = if *approval { "an approval" } else { "a signal" };
            let command = if *approval { "approve" } else { "signal" };
            format!(
                "{question}step `{step}` waits for {what} `{name}`, and the run is not kept: start it with `--journal`, then \
                 `opcell runs {command} RUN {name}` resumes it"
            )
        }
        question @ Question::Call { .. } => format!(
            "{}  the run is not kept: start it with `--journal`, in a terminal, or with `--approve yes|deny`",
            approve::shown(question)
        ),
        question @ Question::Input { .. } => {
            let shown = fill::shown(question);
            format!("{shown}  the run is not kept: start it with `--journal`, or in a terminal")
        }
        question @ (Question::Doubt { .. } | Question::Grant { .. }) => ask("RUN", question, &[]),
    }
}

/// The command that approves what a run asks and nothing else: by name, by step where several ask under one name, by
/// the question's ID where the name was answered before.
pub fn approve_command(run: &str, question: &Question, all: &[Question]) -> String {
    let Question::Signal { name, step, path, id, again, .. } = question else { return String::new() };
    let others = |same: &dyn Fn(&Question) -> bool| all.iter().filter(|other| other.id() != Some(id)).any(same);
    let is_named =
        |other: &Question| matches!(other, Question::Signal { name: other, approval: true, .. } if other == name);
    let is_at =
        |other: &Question| matches!(other, Question::Signal { step: other, approval: true, .. } if other == step);
    let is_below =
        |other: &Question| matches!(other, Question::Signal { path: other, approval: true, .. } if other == path);
    let which = match (*again, others(&is_named)) {
        (false, false) => String::new(),
        (false, true) if !others(&is_at) => format!(" --step {step}"),
        (false, true) if !others(&is_below) => format!(" --step '{path}'"),
        _ => format!(" --question {id}"),
    };
    format!("opcell runs approve {run} {name}{which}")
}

/// Returns the question of a run, and the command that answers it.
pub fn ask(run: &str, question: &Question, all: &[Question]) -> String {
    let asked = question;
    match question {
        Question::Signal { name, step, question, approval, .. } => {
            let question = question.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
            let (what, command) = if *approval {
                ("an approval", format!("{} --why TEXT", approve_command(run, asked, all)))
            } else {
                ("a signal", format!("opcell runs signal {run} {name} [--data JSON]"))
            };
            format!("{question}step `{step}` waits for {what}:\n  {command}")
        }
        Question::Grant { step, what, denial, why, id, again, .. } => {
            let others =
                all.iter().any(|other| matches!(other, Question::Grant { denial: other, .. } if *other != *denial));
            let which = if others || *again { format!(" --question {id}") } else { String::new() };
            let plugin = denial.remedy.plugin().unwrap_or("?");
            let why = why.as_deref().map(|why| format!("; its reason: {why}")).unwrap_or_default();
            let written = match (remedy::fits(denial), remedy::render(&denial.remedy)) {
                (true, Some(command)) => format!("\n  `--grant always` writes what this does: {command}"),
                (true, None) => String::new(),
                (false, _) => {
                    format!("\n  It cannot be granted: what would be written is something else, {}", denial.remedy)
                }
            };
            format!(
                "step `{step}`: {what} was denied {}: {}. Plugin `{plugin}` requests it{why}:\n  opcell runs approve {run}{which} --grant once    \
                 # or run, or always; or --refuse{written}",
                denial.capability, denial.rule
            )
        }
        Question::Call { .. } => approve::ask(run, question),
        Question::Input { .. } => fill::ask(run, question),
        Question::Doubt { step, what, effect } => format!(
            "step `{step}`: {what} (effect {effect}) was in progress when the run was interrupted and must not be repeated without \
             confirmation:\n  opcell runs resume {run} --retry    # or --skip, or --fail"
        ),
    }
}
