//! What a person sees of steps while they run, and of cells when they have ended.

use super::Terminal;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use opcell::{remedy, report::printable, run::receipt};
use opcell_engine::{
    event::{Destination, EffectReply, Event, FrameId, Recorded, Timestamp},
    receipt::{Receipt, cell_of, is_of_call},
};
use opcell_types::Value;
use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    sync::Arc,
    time::Duration,
};

/// Shows the steps of a run on stderr: live lines on a terminal, one line per entry and end elsewhere.
pub struct StepProgress {
    quiet: bool,
    live: Option<MultiProgress>,
    steps: HashMap<FrameId, Entered>,
    names: Vec<Arc<str>>,
    /// Whether the last thing shown is text that its line may go on with.
    mid_line: bool,
    /// Of every cell and every call of a tool, in the order in which they ended.
    pub receipts: Vec<Receipt>,
}

struct Entered {
    label: String,
    at: Timestamp,
    bar: Option<ProgressBar>,
}

impl StepProgress {
    /// `streams`: models' text is shown between the lines, which then do not move.
    pub fn new(terminal: &Terminal, names: Vec<Arc<str>>, streams: bool) -> Self {
        let live = (!terminal.quiet && !streams && io::stderr().is_terminal()).then(MultiProgress::new);
        Self { quiet: terminal.quiet, live, steps: HashMap::new(), names, mid_line: false, receipts: Vec::new() }
    }

    /// A piece of a model's text, as it comes.
    pub fn text(&mut self, piece: &str) {
        if !piece.is_empty() {
            let _ = write!(io::stderr(), "{}", printable(piece));
            self.mid_line = !piece.ends_with('\n');
        }
    }

    /// The end of a model's text.
    pub fn end_text(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            let _ = writeln!(io::stderr());
        }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::StepEntered { frame, name, visit, .. } => self.entered(*frame, name, *visit, recorded.at),
            Event::StepSkipped { name, .. } => self.line(&format!("- {name}  skipped")),
            Event::StepFinished { frame, result } => {
                if let Some(step) = self.steps.remove(frame) {
                    let took = recorded.at.ms_since(step.at);
                    if let Some(bar) = step.bar {
                        bar.finish_and_clear();
                    }
                    self.line(&match &result.failure {
                        None => format!("+ {}  {took:.1} ms", step.label),
                        Some(failure) => {
                            format!("x {}  {took:.1} ms  {}: {}", step.label, failure.reason, failure.message)
                        }
                    });
                }
            }
            Event::Routed { outcome: Some(outcome), to, redirected, .. } => {
                let to = match to {
                    Destination::Done => "end",
                    Destination::Step(step) => self.names.get(*step as usize).map_or("step", AsRef::as_ref),
                };
                let why = redirected.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
                self.line(&format!("    {outcome} -> {to}{why}"));
            }
            Event::Guarded { guards, .. } => {
                self.line(&format!("    note: {} rewrote the answer", guards.join(", ")));
            }
            Event::Retrying { failure, delay_ms, .. } => {
                self.line(&format!("    again in {delay_ms:.0} ms after {}: {}", failure.reason, failure.message));
            }
            // What a session goes without is not found out from its answers.
            Event::Replied { reply: EffectReply::Open(Ok(opened)), .. } => {
                let notes = opened.sections.get("notes").and_then(Value::as_array).unwrap_or_default();
                for note in notes.iter().filter_map(Value::as_str) {
                    self.line(&format!("    note: {note}"));
                }
            }
            event => self.receipts.extend(receipt(event).cloned()),
        }
    }

    /// Takes an event of the past: what is still under way is known, and nothing is shown.
    pub fn recall(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::StepEntered { frame, name, visit, .. } => {
                self.steps.insert(*frame, Entered { label: label(name, *visit), at: recorded.at, bar: None });
            }
            Event::StepFinished { frame, .. } => drop(self.steps.remove(frame)),
            event => self.receipts.extend(receipt(event).cloned()),
        }
    }

    fn entered(&mut self, frame: FrameId, name: &str, visit: u32, at: Timestamp) {
        let label = label(name, visit);
        let bar = self.live.as_ref().map(|live| {
            let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = live.add(ProgressBar::new_spinner().with_style(style).with_message(label.clone()));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            self.line(&format!("> {label}"));
        }
        self.steps.insert(frame, Entered { label, at, bar });
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

    /// One line per cell, and one per call of a tool.
    pub fn finish(&mut self) {
        for (_, step) in self.steps.drain() {
            if let Some(bar) = step.bar {
                bar.finish_and_clear();
            }
        }
        let cells: Vec<String> = self.receipts.iter().filter_map(|receipt| cell_of(receipt)).map(cell_line).collect();
        let calls: Vec<String> =
            self.receipts.iter().filter(|receipt| is_of_call(receipt)).map(|receipt| call_line(receipt)).collect();
        for (title, lines) in [("\ncells:", cells), ("\ntools:", calls)] {
            if !lines.is_empty() {
                self.line(title);
            }
            lines.iter().for_each(|line| self.line(&format!("  {line}")));
        }
    }
}

fn label(name: &str, visit: u32) -> String {
    let label = if visit > 1 { format!("{name} (visit {visit})") } else { name.to_owned() };
    printable(&label).into_owned()
}

/// One line of a cell's receipt: what ran, how long, what it used, what it was refused.
pub fn cell_line(receipt: &Value) -> String {
    let text = |key: &str| text(receipt, key);
    let mut line = format!("{:24} {:>9}", text("operation"), milliseconds(count(receipt.get("duration-us"))));
    let _ = write!(line, "  {:>9} memory", bytes(count(receipt.get("peak-memory"))));
    let host_calls = receipt.get("host-calls").and_then(Value::as_object);
    let calls: u64 = host_calls.map_or(0, |calls| calls.values().map(|value| count(Some(value))).sum());
    let _ = write!(line, "  {calls:>5} host calls");
    if let Some(files) = receipt.get("file-bytes") {
        let (read, written) = (count(files.get("read")), count(files.get("written")));
        let _ = write!(line, "  {} read", bytes(read));
        if written > 0 {
            let _ = write!(line, "  {} written", bytes(written));
        }
    }
    if !text("error").is_empty() {
        let _ = write!(line, "  {}", text("error"));
    }
    denials(&mut line, receipt);
    printable(&line).into_owned()
}

/// One line of the receipt of a call that no cell answers for: what was called, whose it is, how it ended.
pub fn call_line(receipt: &Value) -> String {
    let text = |key: &str| text(receipt, key);
    let called = if text("tool").is_empty() { text("operation") } else { text("tool") };
    let size = |key: &str| bytes(count(receipt.get(key)));
    // Older stores have milliseconds.
    let took =
        receipt.get("duration-us").map_or_else(|| count(receipt.get("duration-ms")) * 1000, |us| count(Some(us)));
    let mut line = format!("{called:24} {:>9}", milliseconds(took));
    let _ = write!(line, "  {:>9} in  {:>9} out", size("bytes-in"), size("bytes-out"));
    // `denied` once is enough.
    let error = if text("error") == text("status") { "" } else { text("error") };
    for part in [text("provider"), text("status"), error] {
        if !part.is_empty() {
            let _ = write!(line, "  {part}");
        }
    }
    if receipt.get("truncated") == Some(&Value::Bool(true)) {
        line.push_str("  truncated");
    }
    denials(&mut line, receipt);
    printable(&line).into_owned()
}

fn denials(line: &mut String, receipt: &Value) {
    for denial in remedy::of_receipt(receipt) {
        let _ = write!(line, "\n  denied {}: {}", denial.capability, denial.rule);
        if let Some(remedy) = remedy::render(&denial.remedy) {
            let _ = write!(line, "\n    to allow it: {remedy}");
        }
    }
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn count(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Number(n)) => n.as_u64().unwrap_or(0),
        _ => 0,
    }
}

fn milliseconds(us: u64) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..0x10_0000 => format!("{} KiB", n.div_ceil(1024)),
        _ => format!("{}.{} MiB", n >> 20, ((n & 0xf_ffff) * 10) >> 20),
    }
}
