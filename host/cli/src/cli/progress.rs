//! The progress of steps that a person sees while they run, and of cells when they have ended.

use super::{
    Terminal, reasons,
    receipts::{self, CallReceipts},
    units::{counted, milliseconds},
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use opcell::{CellReceipt, report::printable};
use opcell_engine::{
    Program, Status,
    event::{Destination, EffectId, EffectReply, Event, FrameId, InstanceId, Recorded, Timestamp},
    located::{Located, Locator},
    receipt::Receipt,
};
use opcell_ir::handoff;
use opcell_types::Value;
use std::{
    collections::HashMap,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

/// Cells that failed and are explained, unless everything is wanted.
const FAILED_CELLS: usize = 3;

/// Bytes of messages that are remembered.
const MAX_SAID: usize = 64 << 10;

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    Text,
    Reasoning,
    /// A call; each is a part of its own.
    Call(u32),
}

/// Names of a workflow's steps.
type Names = Arc<[Arc<str>]>;

/// Shows the steps of a run on stderr: live lines on a terminal, one line per entry and end elsewhere.
pub struct StepProgress {
    quiet: bool,
    verbose: bool,
    live: Option<MultiProgress>,
    locator: Locator,
    /// `true` for events of the past: what they change is known, and nothing is shown.
    recalls: bool,
    /// Steps that have not ended.
    steps: HashMap<FrameId, Entered>,
    main: Workflow,
    /// Delegated workflows that have not ended.
    delegated: HashMap<InstanceId, Workflow>,
    /// Pinned workflows with the names of their steps, by name.
    pinned: HashMap<Arc<str>, (Arc<Program>, Names)>,
    /// `true` if the last thing shown is text that its line may continue with.
    mid_line: bool,
    color: bool,
    /// The part of a model's answer that is shown.
    part: Option<PartKind>,
    /// Messages of failures that were shown.
    said: String,
    /// The receipts of all cells and tool calls, with their effects.
    receipts: Vec<(EffectId, Receipt)>,
}

/// A workflow that runs: the run's own, or one that a step delegates to.
struct Workflow {
    /// The number of delegated workflows around it, itself included.
    depth: usize,
    names: Names,
    /// The program, if its terminal contract promises a handoff.
    bound: Option<Arc<Program>>,
}

impl Workflow {
    fn indent(&self) -> String {
        "  ".repeat(self.depth.min(8))
    }
}

struct Entered {
    label: String,
    at: Timestamp,
    bar: Option<ProgressBar>,
    /// Elements of `each`: ended, and in all.
    elements: Option<(u64, u64)>,
    /// The progress that its call reports; of several, the one that reported last.
    call: Option<(EffectId, String)>,
}

impl Entered {
    fn line(&self) -> String {
        let mut line = self.label.clone();
        if let Some((ended, all)) = self.elements {
            line = format!("{line}  {ended} of {}", counted(all, "element"));
        }
        if let Some((_, told)) = &self.call {
            line = format!("{line}  {told}");
        }
        line
    }

    fn show(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(self.line());
        }
    }
}

impl StepProgress {
    /// `streams`: models' text is shown between the lines, which then do not move.
    pub fn new(terminal: &Terminal, names: Vec<Arc<str>>, streams: bool) -> Self {
        let live = (!streams && terminal.has_moving_lines()).then(MultiProgress::new);
        let (quiet, verbose) = (terminal.quiet, terminal.verbose);
        Self {
            quiet,
            verbose,
            live,
            locator: Locator::default(),
            recalls: false,
            steps: HashMap::new(),
            main: Workflow { depth: 0, names: names.into(), bound: None },
            delegated: HashMap::new(),
            pinned: HashMap::new(),
            mid_line: false,
            color: terminal.color,
            part: None,
            said: String::new(),
            receipts: Vec::new(),
        }
    }

    /// Remembers what was said about a failure, so that it is not said again.
    fn say(&mut self, message: &str) {
        if !self.recalls && self.said.len() < MAX_SAID {
            self.said.push_str(message);
            self.said.push('\n');
        }
    }

    /// A piece of a model's answer, as it comes: of text as it is, of other parts with their names before them, and
    /// dim in a terminal.
    pub fn part(&mut self, kind: PartKind, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if self.part.is_some_and(|part| part != kind) {
            self.end_text();
        }
        let name = match kind {
            _ if self.part == Some(kind) => "",
            PartKind::Text => "",
            PartKind::Reasoning => "reasoning: ",
            PartKind::Call(_) => "calls ",
        };
        self.part = Some(kind);
        let shown = printable(piece);
        let _ = match kind {
            PartKind::Text => write!(io::stderr(), "{shown}"),
            _ if self.color => write!(io::stderr(), "\u{1b}[2m{name}{shown}\u{1b}[0m"),
            _ => write!(io::stderr(), "{name}{shown}"),
        };
        self.mid_line = !piece.ends_with('\n');
    }

    /// The end of a part of a model's answer.
    pub fn end_text(&mut self) {
        self.part = None;
        if std::mem::take(&mut self.mid_line) {
            let _ = writeln!(io::stderr());
        }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, recorded: &Recorded) {
        for located in self.locator.locate(recorded) {
            self.observe_part(&located);
        }
    }

    /// Takes an event of the past: what is still under way is known, and nothing is shown.
    pub fn recall(&mut self, recorded: &Recorded) {
        self.recalls = true;
        self.observe(recorded);
        self.recalls = false;
    }

    fn observe_part(&mut self, located: &Located<'_>) {
        let Located { recorded, instance, step_frame, .. } = located;
        match &recorded.event {
            Event::DefinitionPinned { name, program: Some(program) } => {
                let names = program.ir().steps.iter().map(|step| step.name.clone()).collect();
                self.pinned.insert(name.clone(), (Arc::clone(program), names));
            }
            Event::InstanceStarted { instance: started, workflow, .. } => {
                let depth = self.workflow(*instance).depth + 1;
                let pinned = self.pinned.get(workflow);
                let bound = pinned.filter(|(program, _)| program.ir().terminal_contract.is_some());
                let bound = bound.map(|(program, _)| Arc::clone(program));
                let names = pinned.map(|(_, names)| Arc::clone(names)).unwrap_or_default();
                self.delegated.insert(*started, Workflow { depth, names, bound });
            }
            // Whoever reads the handoff gets null.
            Event::InstanceFinished { instance, end } => {
                let ended = self.delegated.remove(instance).filter(|_| end.status == Status::Completed);
                if let Some(Workflow { bound: Some(program), depth, .. }) = ended
                    && let Some(unkept) = handoff::unkept(program.ir(), end.handoff.as_ref())
                {
                    self.line(&format!("{}    note: `{}`: {unkept}", "  ".repeat(depth.min(8)), program.name()));
                }
            }
            Event::StepEntered { frame, name, visit, .. } => {
                self.entered(*frame, self.workflow(*instance).indent(), name, *visit, recorded.at);
            }
            Event::EachStarted { frame, items } => {
                let all = items.as_array().map_or(0, |items| items.len() as u64);
                if let Some(step) = self.steps.get_mut(frame) {
                    step.elements = Some((0, all));
                    step.show();
                }
            }
            Event::ElementFinished { .. } => {
                if let Some(step) = step_frame.and_then(|step| self.steps.get_mut(&step)) {
                    step.elements = step.elements.map(|(ended, all)| (ended + 1, all));
                    step.show();
                }
            }
            Event::StepSkipped { name, .. } => {
                let indent = self.workflow(*instance).indent();
                self.line(&format!("{indent}- {name}  skipped"));
            }
            Event::StepFinished { frame, result } => {
                let indent = self.workflow(*instance).indent();
                if let Some(step) = self.steps.remove(frame) {
                    let took = milliseconds(recorded.at.ms_since(step.at));
                    if let Some(bar) = step.bar {
                        bar.finish_and_clear();
                    }
                    if let Some(failure) = &result.failure {
                        self.say(&failure.message);
                    }
                    self.line(&match &result.failure {
                        None => format!("{indent}+ {}  {took}", step.label),
                        // The rule and its remedy follow when the run has ended.
                        Some(failure) if failure.denial.is_some() => {
                            format!("{indent}x {}  {took}  denied", step.label)
                        }
                        Some(failure) => {
                            format!("{indent}x {}  {took}  {}: {}", step.label, failure.reason, failure.message)
                        }
                    });
                }
            }
            Event::Routed { outcome: Some(outcome), to, redirected, .. } => {
                let workflow = self.workflow(*instance);
                let to = match to {
                    Destination::Done => "end",
                    Destination::Step(step) => workflow.names.get(*step as usize).map_or("step", AsRef::as_ref),
                };
                let why = redirected.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                let line = format!("{}    {outcome} -> {to}{why}", workflow.indent());
                self.line(&line);
            }
            Event::Guarded { guards, .. } => {
                self.line(&format!("    note: {} rewrote the answer", guards.join(", ")));
            }
            Event::Retrying { failure, delay_ms, .. } => {
                self.line(&format!(
                    "    again in {} after {}: {}",
                    milliseconds(*delay_ms),
                    failure.reason,
                    failure.message
                ));
            }
            // What a session goes without is not found out from its answers.
            Event::Replied { reply, .. } if let EffectReply::Open(Ok(opened)) = reply.as_ref() => {
                let notes = opened.sections.get("notes").and_then(Value::as_array).unwrap_or_default();
                for note in notes.iter().filter_map(Value::as_str) {
                    self.line(&format!("    note: {note}"));
                }
            }
            Event::Replied { effect, .. }
            | Event::Abandoned { effect, .. }
            | Event::GrantAsked { effect, .. }
            | Event::InputAsked { effect, .. } => {
                let receipt = recorded.event.receipt().map(|receipt| (*effect, receipt.without_record()));
                self.receipts.extend(receipt);
            }
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::StepPrepared { .. }
            | Event::ElementEntered { .. }
            | Event::GroupEntered { .. }
            | Event::GroupFinished { .. }
            | Event::Chosen { .. }
            | Event::Requested { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::TurnFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAnswered { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::CallsAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallsExpired { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked
            | Event::RunFinished(_) => {}
        }
    }

    fn workflow(&self, instance: Option<InstanceId>) -> &Workflow {
        instance.and_then(|instance| self.delegated.get(&instance)).unwrap_or(&self.main)
    }

    /// Shows the progress of a call in the line of its step; `None` at the end of the call.
    pub fn call(&mut self, call: EffectId, told: Option<String>) {
        let frame = match self.locator.step_of(call) {
            Some(frame) => Some(frame),
            // The call of a pure operation is recorded when it has ended.
            None if self.steps.len() == 1 => self.steps.keys().next().copied(),
            None => None,
        };
        let Some(step) = frame.and_then(|frame| self.steps.get_mut(&frame)) else { return };
        match told {
            Some(told) => step.call = Some((call, told)),
            None if step.call.as_ref().is_some_and(|(shown, _)| *shown == call) => step.call = None,
            None => return,
        }
        step.show();
    }

    fn entered(&mut self, frame: FrameId, indent: String, name: &str, visit: u32, at: Timestamp) {
        let label = label(name, visit);
        let bar = self.live.as_ref().filter(|_| !self.recalls).map(|live| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}  {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = live.add(ProgressBar::new_spinner().with_style(style).with_message(format!("{indent}{label}")));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            self.line(&format!("{indent}> {label}"));
        }
        self.steps.insert(frame, Entered { label, at, bar, elements: None, call: None });
    }

    fn line(&mut self, text: &str) {
        if self.recalls {
            return;
        }
        self.end_text();
        let text = printable(text);
        match &self.live {
            // Lines of the past stand above those that move.
            Some(live) => drop(live.println(text)),
            None if self.quiet => {}
            None => drop(writeln!(io::stderr(), "{text}")),
        }
    }

    /// Shows the cells and the calls of tools, and each denial with its remedy.
    ///
    /// Returns all receipts in the order of the calls: which of several at once ended first says nothing.
    pub fn finish(&mut self) -> Vec<Receipt> {
        for (_, step) in self.steps.drain() {
            if let Some(bar) = step.bar {
                bar.finish_and_clear();
            }
        }
        self.receipts.sort_by_key(|(effect, _)| *effect);
        let receipts: Vec<Receipt> =
            std::mem::take(&mut self.receipts).into_iter().map(|(_, receipt)| receipt).collect();
        // No one reads it, and there may be a hundred thousand receipts.
        if self.quiet && self.live.is_none() {
            return receipts;
        }
        // Nothing moves any more, and what draws the lines that move keeps at most a screen of those above them.
        self.live = None;
        let read: Vec<CallReceipts> = receipts.iter().map(CallReceipts::of).collect();
        for line in receipts::summary(&read, self.verbose).into_iter().chain(self.reasons(&read)) {
            self.line(&line);
        }
        receipts
    }

    /// The lines that explain the cells that failed: all of them if everything is wanted, else the last few.
    fn reasons(&self, receipts: &[CallReceipts]) -> Vec<String> {
        let cells = receipts.iter().filter_map(|receipts| receipts.cell.as_deref());
        let shown: Vec<&CellReceipt> = cells.filter(|cell| self.verbose || reasons::failed(cell)).collect();
        let most = if self.verbose { usize::MAX } else { FAILED_CELLS };
        let mut lines = Vec::new();
        for cell in shown.iter().skip(shown.len().saturating_sub(most)) {
            let reasons = reasons::of_failed(cell, &self.said, self.verbose);
            if !reasons.is_empty() {
                lines.extend([String::new(), format!("{}:", cell.operation)]);
                lines.extend(reasons.into_iter().map(|line| format!("  {line}")));
            }
        }
        lines
    }
}

fn label(name: &str, visit: u32) -> String {
    let label = if visit > 1 { format!("{name} (visit {visit})") } else { name.to_owned() };
    printable(&label).into_owned()
}
