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
    steps: HashMap<FrameId, Entered>,
    /// The frames of the calls in flight.
    calls: HashMap<EffectId, FrameId>,
    /// Elements that are being executed, with their steps.
    elements: HashMap<FrameId, FrameId>,
    /// The places of the open frames; the run's own workflow where a frame is not listed.
    places: HashMap<FrameId, Place>,
    main: Place,
    /// Pinned workflows with the names of their steps, by name.
    pinned: HashMap<Arc<str>, (Arc<Program>, Names)>,
    /// Delegated workflows that are running and have a terminal contract, with how deep they are.
    bound: HashMap<InstanceId, (Arc<Program>, usize)>,
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

/// The depth of a frame among delegated workflows, and the names of the steps around it.
#[derive(Clone)]
struct Place {
    depth: usize,
    names: Names,
}

impl Place {
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
            steps: HashMap::new(),
            calls: HashMap::new(),
            elements: HashMap::new(),
            places: HashMap::new(),
            main: Place { depth: 0, names: names.into() },
            pinned: HashMap::new(),
            bound: HashMap::new(),
            mid_line: false,
            color: terminal.color,
            part: None,
            said: String::new(),
            receipts: Vec::new(),
        }
    }

    /// Remembers what was said about a failure, so that it is not said again.
    fn say(&mut self, message: &str) {
        if self.said.len() < MAX_SAID {
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
        recorded.parts().for_each(|part| self.observe_part(&part));
    }

    fn observe_part(&mut self, recorded: &Recorded) {
        self.place(&recorded.event);
        match &recorded.event {
            Event::Requested { effect, frame, .. } => drop(self.calls.insert(*effect, *frame)),
            Event::Replied { effect, .. } | Event::Abandoned { effect, .. } => drop(self.calls.remove(effect)),
            _ => {}
        }
        match &recorded.event {
            Event::StepEntered { frame, name, visit, .. } => self.entered(*frame, name, *visit, recorded.at),
            Event::EachStarted { frame, items } => {
                let all = items.as_array().map_or(0, |items| items.len() as u64);
                if let Some(step) = self.steps.get_mut(frame) {
                    step.elements = Some((0, all));
                    step.show();
                }
            }
            Event::ElementEntered { frame, parent, .. } => drop(self.elements.insert(*frame, *parent)),
            Event::ElementFinished { frame, .. } => {
                let parent = self.elements.remove(frame);
                if let Some(step) = parent.and_then(|parent| self.steps.get_mut(&parent)) {
                    step.elements = step.elements.map(|(ended, all)| (ended + 1, all));
                    step.show();
                }
            }
            Event::StepSkipped { parent, name, .. } => {
                let indent = self.place_of(*parent).indent();
                self.line(&format!("{indent}- {name}  skipped"));
            }
            Event::StepFinished { frame, result } => {
                let indent = self.place_of(*frame).indent();
                self.places.remove(frame);
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
            Event::Routed { frame, outcome: Some(outcome), to, redirected, .. } => {
                let place = self.place_of(*frame);
                let to = match to {
                    Destination::Done => "end",
                    Destination::Step(step) => place.names.get(*step as usize).map_or("step", AsRef::as_ref),
                };
                let why = redirected.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                let line = format!("{}    {outcome} -> {to}{why}", place.indent());
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
            // Whoever reads the handoff gets null.
            Event::InstanceFinished { instance, end } => {
                let bound = self.bound.remove(instance).filter(|_| end.status == Status::Completed);
                if let Some((program, depth)) = bound
                    && let Some(unkept) = handoff::unkept(program.ir(), end.handoff.as_ref())
                {
                    self.line(&format!("{}    note: `{}`: {unkept}", "  ".repeat(depth.min(8)), program.name()));
                }
            }
            event => self.keep_receipt(event),
        }
    }

    /// Shows the progress of a call in the line of its step; `None` at the end of the call.
    pub fn call(&mut self, call: EffectId, told: Option<String>) {
        let frame = match self.calls.get(&call) {
            Some(frame) => Some(self.elements.get(frame).copied().unwrap_or(*frame)),
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

    fn keep_receipt(&mut self, event: &Event) {
        let effect = match event {
            Event::Replied { effect, .. }
            | Event::Abandoned { effect, .. }
            | Event::GrantAsked { effect, .. }
            | Event::InputAsked { effect, .. } => *effect,
            _ => return,
        };
        self.receipts.extend(event.receipt().map(|receipt| (effect, receipt.without_record())));
    }

    fn place_of(&self, frame: FrameId) -> &Place {
        self.places.get(&frame).unwrap_or(&self.main)
    }

    /// Keeps track of which frames are inside of which delegated workflow.
    fn place(&mut self, event: &Event) {
        match event {
            Event::DefinitionPinned { name, program: Some(program) } => {
                let names = program.ir().steps.iter().map(|step| step.name.clone()).collect();
                self.pinned.insert(name.clone(), (Arc::clone(program), names));
            }
            Event::InstanceStarted { instance, frame, parent, workflow, .. } => {
                let depth = self.place_of(*parent).depth + 1;
                let pinned = self.pinned.get(workflow);
                if let Some((program, _)) = pinned.filter(|(it, _)| it.ir().terminal_contract.is_some()) {
                    self.bound.insert(*instance, (Arc::clone(program), depth));
                }
                let names = pinned.map(|(_, names)| Arc::clone(names)).unwrap_or_default();
                self.places.insert(*frame, Place { depth, names });
            }
            Event::StepEntered { frame, parent, .. }
            | Event::ElementEntered { frame, parent, .. }
            | Event::GroupEntered { frame, parent, .. } => {
                if let Some(place) = self.places.get(parent).cloned() {
                    self.places.insert(*frame, place);
                }
            }
            Event::ElementFinished { frame, .. } | Event::GroupFinished { frame, .. } => {
                drop(self.places.remove(frame))
            }
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::StepSkipped { .. }
            | Event::StepPrepared { .. }
            | Event::EachStarted { .. }
            | Event::Chosen { .. }
            | Event::Requested { .. }
            | Event::Replied { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::Retrying { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::InstanceFinished { .. }
            | Event::StepFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAsked { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAsked { .. }
            | Event::InputAnswered { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
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
    }

    /// Takes an event of the past: what is still under way is known, and nothing is shown.
    pub fn recall(&mut self, recorded: &Recorded) {
        recorded.parts().for_each(|part| self.recall_part(&part));
    }

    fn recall_part(&mut self, recorded: &Recorded) {
        self.place(&recorded.event);
        match &recorded.event {
            Event::StepEntered { frame, name, visit, .. } => {
                self.steps.insert(
                    *frame,
                    Entered { label: label(name, *visit), at: recorded.at, bar: None, elements: None, call: None },
                );
            }
            Event::StepFinished { frame, .. } => drop(self.steps.remove(frame)),
            Event::InstanceFinished { instance, .. } => drop(self.bound.remove(instance)),
            event => self.keep_receipt(event),
        }
    }

    fn entered(&mut self, frame: FrameId, name: &str, visit: u32, at: Timestamp) {
        let label = label(name, visit);
        let indent = self.place_of(frame).indent();
        let bar = self.live.as_ref().map(|live| {
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
