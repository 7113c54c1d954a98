//! `opcell runs show`: what a run did, step by step.

use super::{Exit, Failure, Open, Terminal, list};
use crate::cli::{
    follow::ask,
    reasons,
    receipts::{CallReceipts, call_lines, cell_lines},
    units::{bytes, continued, counted, milliseconds},
};
use clap::Args;
use opcell::{
    config::Config,
    standing::{STUCK_SECONDS, Standing},
};
use opcell_engine::{
    Recorded, RunError, Trace,
    call::{Compacted, Summary},
    conversation::{Message, Role, Usage},
    event::CallAnswer,
    receipt::Receipt,
    trace::{CallTrace, ConversationTrace, Round, SentMessage, StepTrace, What},
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_journal::RunId;
use opcell_types::{InputAnswer, Value, value::MAX_BYTES};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
};

/// Events that are read at once.
const PAGE: u64 = 1_000;

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Show the run as of this event, as `--events` numbers it.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Show the entries of one step alone, or, as `NAME[N]`, of its element N, counted from 0.
    #[arg(long, value_name = "NAME|NAME[N]", conflicts_with = "events")]
    step: Option<String>,
    /// Show every event instead of a summary.
    #[arg(long)]
    events: bool,
    /// Show texts and values in full, including system prompts.
    #[arg(long)]
    full: bool,
}

pub async fn show(open: &Open, config: &Config, args: &ShowArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    if args.events {
        return events(open, &run, args, terminal).await;
    }
    let history = open.engine.shown_history(&run, args.at).await?;
    let mut trace = Trace::of(&run, &history).map_err(|source| RunError::Replay { run: run.clone(), source })?;
    if let Some(step) = &args.step {
        keep_step(&mut trace, step)?;
    }
    // Of the past, only what the events say is known.
    let standing = match args.at {
        None => {
            let entry = open.entry(&run).await?;
            let here = list::here(config, std::slice::from_ref(&entry)).await;
            Some(Standing::of(&open.engine, &entry, here.as_ref(), STUCK_SECONDS).await?)
        }
        Some(_) => None,
    };
    if terminal.json {
        terminal.json(&ShownRun { trace: &trace.within(MAX_BYTES), standing: standing.as_ref() })?;
    } else if args.full {
        terminal.line(&Page { width: usize::MAX }.run(&trace.within(MAX_BYTES), standing.as_ref()))?;
    } else {
        terminal.line(&Page { width: 160 }.run(&trace, standing.as_ref()))?;
    }
    Ok(Exit::Done)
}

/// Leaves the entries of one step, or of one element of it, and what happened inside them.
///
/// # Errors
/// If the run entered no such step.
fn keep_step(trace: &mut Trace, wanted: &str) -> Result<(), Failure> {
    let element = wanted.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let element = element.and_then(|(name, position)| Some((name, position.parse::<u32>().ok()?)));
    let is_wanted = |step: &StepTrace| {
        &*step.step == wanted || element.is_some_and(|(name, at)| &*step.step == name && step.element == Some(at))
    };
    if !trace.steps.iter().any(is_wanted) {
        let message = format!("run {} entered no step `{wanted}`", trace.run);
        let known: BTreeSet<&str> = trace.steps.iter().map(|step| &*step.step).collect();
        let name = element.map_or(wanted, |(name, _)| name);
        let help = match did_you_mean(name, known.iter().copied()) {
            Some(meant) if meant != name => format!("did you mean `{meant}`?"),
            Some(meant) => format!("`opcell runs show {} --step {meant}` shows its elements", trace.run),
            None => format!("`opcell runs show {}` lists its steps", trace.run),
        };
        return Err(Diagnostic::error("unknown-step", message).help(help).into());
    }
    // A step begins after the entry that it happens inside.
    let mut kept = HashSet::new();
    trace.steps.retain(|step| {
        let keep = is_wanted(step) || step.inside.is_some_and(|inside| kept.contains(&inside));
        if keep {
            kept.insert(step.frame);
        }
        keep
    });
    Ok(())
}

/// A run as JSON: its trace, with how it stands now.
#[derive(Serialize)]
struct ShownRun<'a> {
    #[serde(flatten)]
    trace: &'a Trace,
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<&'a Standing>,
}

/// Prints events as they are read: a run may have more of them than anyone wants to hold at once.
async fn events(open: &Open, run: &RunId, args: &ShowArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let up_to = args.at.unwrap_or(u64::MAX);
    let mut list = terminal.json.then(|| terminal.list());
    let mut last = 0;
    while last < up_to {
        let page = open.engine.events_after(run, last, PAGE.min(up_to - last)).await?;
        let Some(read) = page.last() else { break };
        last = read.seq;
        for recorded in &page {
            match &mut list {
                Some(list) => list.item(&Shown { recorded })?,
                None => {
                    let text = recorded.event.to_json();
                    let text = if args.full { text } else { short(&text, 160) };
                    let line = format!("{:>6}  {}  {text}", recorded.seq, recorded.at.to_text());
                    terminal.line(&printable_line(&line))?;
                }
            }
        }
    }
    if let Some(seq) = args.at.filter(|seq| *seq == 0 || *seq > last) {
        return Err(RunError::NoSuchEvent { run: run.clone(), seq, last }.into());
    }
    if let Some(list) = list {
        list.end()?;
    }
    Ok(Exit::Done)
}

/// An event as JSON for people.
struct Shown<'a> {
    recorded: &'a Recorded,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entries = serializer.serialize_map(Some(3))?;
        entries.serialize_entry("seq", &self.recorded.seq)?;
        entries.serialize_entry("at", &self.recorded.at.to_text())?;
        entries.serialize_entry("event", &self.recorded.event)?;
        entries.end()
    }
}

fn short(text: &str, width: usize) -> String {
    // No more words than fit: a text may have megabytes of them.
    let most_words = width.saturating_add(1);
    let one_line = text.split_whitespace().take(most_words).collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", one_line.get(..end).unwrap_or_default()),
        None => one_line,
    }
}

fn printable_line(text: &str) -> String {
    opcell::report::printable(text).into_owned()
}

/// The tokens among those read that a provider's cache gave and kept; empty without any.
fn cached(read: u64, written: u64) -> String {
    let parts = [(read, "read from the cache"), (written, "written to it")];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    match parts.collect::<Vec<_>>().join(", ") {
        parts if parts.is_empty() => parts,
        parts => format!(" ({parts})"),
    }
}

/// Prints the used part of the run's limits; nothing if it has none.
fn budget(page: &mut String, trace: &Trace) {
    let (limits, used) = (&trace.limits, &trace.used);
    let seconds = (trace.at.ms_since(trace.started_at) / 1000.0).floor();
    let parts: Vec<String> = [
        limits.total_visits.map(|max| format!("{} of {max} visits", used.visits)),
        limits.tool_calls.map(|max| format!("{} of {max} tool calls", used.tool_calls)),
        limits.wall_time_seconds.map(|max| format!("{seconds} of {max} s")),
        limits.tokens.map(|max| format!("{} of {max} tokens", used.tokens)),
        limits.cost.map(|max| format!("{} of {max} USD", used.cost)),
        limits.host_calls.map(|max| format!("{} of {max} host calls", used.host_calls)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parts.is_empty() {
        let _ = writeln!(page, "budget: {}", parts.join(", "));
    }
}

/// Bytes of JSON from which on a value is shown with its size, where it is cut: as many as make a journal keep it by
/// itself.
const LARGE: u64 = 16 << 10;

/// A run as text.
struct Page {
    /// Maximum characters shown of a value.
    width: usize,
}

impl Page {
    fn run(&self, trace: &Trace, standing: Option<&Standing>) -> String {
        let mut page = String::new();
        let status = standing.map_or_else(|| trace.end.status.as_str(), |standing| &standing.status);
        let reason = trace.end.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let _ = writeln!(page, "run {}  {}  {}{reason}", trace.run, trace.workflow, status);
        if let Some(standing) = standing.filter(|_| trace.end.status != opcell_engine::Status::Suspended) {
            let waits = standing.waits_for();
            if !waits.is_empty() {
                let _ = writeln!(page, "waits for {waits}");
            }
        }
        if let Some(standing) = standing.filter(|_| !trace.end.status.has_ended()) {
            let _ = writeln!(page, "driven by {}", standing.driven_by.as_deref().unwrap_or("no process"));
        }
        if let Some(origin) = &trace.forked {
            let by = origin.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let _ = writeln!(page, "forked from {} after event {}{by}", origin.run, origin.seq);
        }
        let took = milliseconds(trace.at.ms_since(trace.started_at));
        let _ = writeln!(page, "started {}, {took}, {}", trace.started_at.to_text(), counted(trace.seq, "event"));
        self.value(&mut page, 0, "input", &trace.input);
        for (name, digest) in &trace.pins {
            let _ = writeln!(page, "pinned {name} {}", short(digest, 16));
        }
        for step in &trace.steps {
            self.step(&mut page, step);
        }
        if !trace.messages.is_empty() {
            page.push_str("\nmessages:\n");
        }
        for sent in &trace.messages {
            self.message_sent(&mut page, sent);
        }
        let used = &trace.used;
        let _ = writeln!(
            page,
            "\nused: {}, {}, {}, {}, {}, {}{}, {} USD",
            counted(used.visits, "visit"),
            counted(used.cells, "cell"),
            counted(used.host_calls, "host call"),
            counted(used.rounds, "model round"),
            counted(used.tool_calls, "tool call"),
            counted(used.tokens, "token"),
            cached(used.cache_read_tokens, used.cache_write_tokens),
            used.cost
        );
        budget(&mut page, trace);
        self.artifacts(&mut page, 0, &trace.artifacts);
        if let Some(message) = &trace.end.message {
            let _ = writeln!(page, "{}", continued(message));
        }
        if trace.end.status == opcell_engine::Status::Completed {
            self.value(&mut page, 0, "result", &trace.end.result);
        }
        for question in &trace.questions {
            let _ = writeln!(page, "{}", ask(&trace.run, question, &trace.questions));
        }
        printable_line(&page)
    }

    fn step(&self, page: &mut String, step: &StepTrace) {
        let depth = step.depth as usize;
        let pad = "  ".repeat(depth);
        let element = step.element.map(|element| format!("[{element}]")).unwrap_or_default();
        let visit = if step.visit > 1 { format!(" (visit {})", step.visit) } else { String::new() };
        let target = step.target.as_deref().map(|target| format!(" {target}")).unwrap_or_default();
        let took = milliseconds(step.ended.ms_since(step.began));
        if step.skipped {
            let _ = writeln!(page, "\n{pad}#{} {}  skipped", step.seq, step.step);
            return;
        }
        let _ = writeln!(page, "\n{pad}#{} {}{element}{visit}  {}{target}  {took}", step.seq, step.step, step.form);
        let depth = depth + 1;
        self.optional(page, depth, "arguments", step.arguments.as_ref());
        self.optional(
            page,
            depth,
            "context",
            step.context.as_ref().filter(|context| context.as_array().is_none_or(|list| !list.is_empty())),
        );
        if let Some(talk) = &step.conversation {
            self.conversation(page, depth, talk);
        }
        if let Some(question) = &step.question {
            self.text(page, depth, "asks", question);
        }
        for failure in &step.retried {
            self.text(page, depth, "retried after", &format!("{}: {}", failure.reason, failure.message));
        }
        self.optional(page, depth, "result", step.result.as_ref());
        if let Some(failure) = &step.failure {
            let what = if step.ignored { "failed, ignored" } else { "failed" };
            self.text(page, depth, what, &format!("{}: {}", failure.reason, failure.message));
        }
        self.cells(page, depth, &step.receipts);
        for call in &step.inner_calls {
            let ended = match (&call.result, &call.failure) {
                (Some(result), _) => self.json(result),
                (None, Some(failure)) => format!("{}: {}", failure.reason, failure.message),
                (None, None) => "has not ended".to_owned(),
            };
            let number = format!("call {}", u64::from(call.place) + 1);
            self.text(page, depth, &number, &format!("{} {} → {ended}", call.tool, self.json(&call.arguments)));
        }
        if let Some(judge) = &step.judge {
            self.optional(page, depth, "judge's arguments", judge.arguments.as_ref());
            if let Some(talk) = &judge.conversation {
                self.conversation(page, depth + 1, talk);
            }
            if let Some(failure) = &judge.failure {
                self.text(page, depth, "judge failed", &format!("{}: {}", failure.reason, failure.message));
            }
            if let Some(rationale) = &judge.rationale {
                self.text(page, depth, "because", rationale);
            }
            self.cells(page, depth, &judge.receipts);
        }
        if let Some(transition) = &step.transition {
            let outcome = transition.outcome.as_ref().map(|outcome| format!("{outcome} ")).unwrap_or_default();
            let why = transition.redirected.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
            let pad = "  ".repeat(depth);
            let _ = writeln!(page, "{pad}{outcome}-> {}{why}", transition.to);
        }
        if let Some(used) = step.used.filter(|used| used.tokens + used.tool_calls > 0) {
            let so_far = [(used.visits, "visit"), (used.tool_calls, "tool call"), (used.tokens, "token")];
            let so_far = so_far.map(|(n, noun)| counted(n, noun)).join(", ");
            self.text(page, depth, "used so far", &so_far);
        }
        if let Some(artifacts) = &step.artifacts {
            self.artifacts(page, depth, artifacts);
        }
    }

    fn conversation(&self, page: &mut String, depth: usize, talk: &ConversationTrace) {
        let models = talk.rounds.last().map_or_else(|| talk.models.join(", "), |round| round.model.clone());
        let sum = |of: fn(&Usage) -> u64| talk.rounds.iter().map(|round| of(&round.usage)).fold(0, u64::saturating_add);
        let tokens = sum(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
        let cached = cached(sum(|usage| usage.cache_read_tokens), sum(|usage| usage.cache_write_tokens));
        self.text(
            page,
            depth,
            "model",
            &format!("{models}, {}, {}{cached}", counted(talk.rounds.len() as u64, "round"), counted(tokens, "token")),
        );
        for line in shortenings(&talk.rounds) {
            self.text(page, depth, "compacted", &line);
        }
        for (at, round) in talk.rounds.iter().enumerate() {
            if let Some(summary) = round.summary.as_deref() {
                self.summary(page, depth, at + 1, round, summary);
            }
            for warning in &round.warnings {
                self.text(page, depth, "warning", &format!("round {}: {warning}", at + 1));
            }
        }
        if !talk.tools.is_empty() {
            self.text(page, depth, "tools", &talk.tools.join(", "));
        }
        self.text(page, depth, "system", &talk.system);
        for message in &talk.messages {
            self.message(page, depth, message);
        }
        for failure in &talk.failures {
            self.text(page, depth, "failed", &format!("{}: {}", failure.reason, failure.message));
        }
    }

    /// A summary of older messages, or why there is none.
    fn summary(&self, page: &mut String, depth: usize, number: usize, round: &Round, summary: &Summary) {
        let messages = format!("messages {} to {}", summary.from + 1, summary.to);
        match &summary.failure {
            Some(failure) => {
                let why = format!("{}: {}", failure.reason, failure.message);
                let line = format!("round {number}: no summary of {messages}, older parts are left out by rule; {why}");
                self.text(page, depth, "warning", &line);
            }
            None => {
                let (before, after) = (summary.tokens_before, summary.tokens_after);
                let line = format!(
                    "round {number}: of {messages} by {} (about {after} tokens instead of {before})\n{}",
                    round.model, summary.text
                );
                self.text(page, depth, "summary", &line);
            }
        }
    }

    fn message(&self, page: &mut String, depth: usize, message: &Message) {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool if message.is_error => "tool failed",
            Role::Tool => "tool",
        };
        if !message.content.is_empty() {
            self.text(page, depth, who, &message.content);
        }
        for call in &message.tool_calls {
            self.text(page, depth, "calls", &format!("{} {}", call.name, self.json(&call.arguments)));
        }
    }

    fn message_sent(&self, page: &mut String, sent: &SentMessage) {
        let what = match &sent.what {
            What::Signal { name, data, .. } => format!("signal {name} {}", self.json(data)),
            What::Answer { effect, answer } => format!("effect {effect}: {answer:?}").to_lowercase(),
            What::Grant { effect, grant: Some(grant) } => {
                format!("effect {effect}: granted ({grant:?})").to_lowercase()
            }
            What::Grant { effect, grant: None } => format!("effect {effect}: not granted"),
            What::Call(call) => call_answered(call),
            What::Input(input) => {
                let values = match &input.answer {
                    InputAnswer::Accept(values) => self.json(values),
                    InputAnswer::Decline => "declined".to_owned(),
                    InputAnswer::Cancel => "cancelled".to_owned(),
                };
                format!("input for {}/{}: {values}", input.server, input.tool)
            }
            What::Cancel { reason } => format!("cancel: {reason}"),
            What::Repin { pins } => {
                let moved = pins.iter().map(|(name, digest)| format!("{name} {}", short(digest, 16)));
                format!("moved to {}", moved.collect::<Vec<_>>().join(", "))
            }
        };
        let by = sent.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let taken = sent.taken_by.as_deref().map(|step| format!(", taken by {step}")).unwrap_or_default();
        self.text(page, 1, &format!("#{} {}{by}", sent.seq, sent.at.to_text()), &format!("{what}{taken}"));
    }

    fn artifacts(&self, page: &mut String, depth: usize, artifacts: &Value) {
        if artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) {
            self.value(page, depth, "artifacts", artifacts);
        }
    }

    fn cells(&self, page: &mut String, depth: usize, receipts: &[Receipt]) {
        let pad = "  ".repeat(depth);
        let full = self.width == usize::MAX;
        for receipts in receipts.iter().map(CallReceipts::of) {
            if let Some(call) = &receipts.call {
                let _ = writeln!(page, "{pad}call {}", call_lines(call, full).join(&format!("\n{pad}")));
            }
            if let Some(cell) = &receipts.cell {
                let reasons = reasons::of_failed(cell, "", full).into_iter().map(|line| format!("  {line}"));
                let lines: Vec<String> = cell_lines(cell, full).into_iter().chain(reasons).collect();
                let _ = writeln!(page, "{pad}cell {}", lines.join(&format!("\n{pad}")));
            }
        }
    }

    fn optional(&self, page: &mut String, depth: usize, key: &str, value: Option<&Value>) {
        if let Some(value) = value {
            self.value(page, depth, key, value);
        }
    }

    fn value(&self, page: &mut String, depth: usize, key: &str, value: &Value) {
        let size = value.measure().bytes();
        let text = value.as_str().map_or_else(|| self.json(value), str::to_owned);
        if self.width < usize::MAX && size >= LARGE {
            self.text(page, depth, &format!("{key} ({})", bytes(size)), &text);
        } else {
            self.text(page, depth, key, &text);
        }
    }

    /// The JSON of a value, as far as it is shown.
    fn json(&self, value: &Value) -> String {
        match self.width {
            usize::MAX => value.to_json(),
            // A character has four bytes at most, and what is beyond the width is cut.
            width => value.json_prefix((width + 1) * 4),
        }
    }

    fn text(&self, page: &mut String, depth: usize, key: &str, text: &str) {
        let pad = "  ".repeat(depth);
        if self.width == usize::MAX && text.contains('\n') {
            let _ = writeln!(page, "{pad}{key}:");
            for line in text.lines() {
                let _ = writeln!(page, "{pad}  {line}");
            }
        } else {
            let _ = writeln!(page, "{pad}{key}: {}", short(text, self.width));
        }
    }
}

/// The answer for a call: what was shown, what was answered, and where.
fn call_answered(call: &CallTrace) -> String {
    let what = match &call.answer {
        CallAnswer::Approve { arguments, run } => {
            let changed = match arguments.is_nullish() {
                true => String::new(),
                false => format!(", changed to {}", arguments.to_json()),
            };
            format!("approved{}{changed}", if *run { " for this run" } else { "" })
        }
        CallAnswer::Refuse { reason: Some(reason) } => format!("refused: {reason}"),
        CallAnswer::Refuse { reason: None } => "refused".to_owned(),
    };
    let from = call.from.as_deref().map(|from| format!(", from {from}")).unwrap_or_default();
    let (tool, arguments, question) = (&call.tool, call.arguments.to_json(), &call.question);
    format!("call {tool} {what}{from}; shown {question}: {arguments}")
}

/// The parts of a conversation that its rounds were not sent: a line for each number of consecutive rounds without the same.
fn shortenings(rounds: &[Round]) -> Vec<String> {
    let mut found: Vec<(usize, usize, &Compacted)> = Vec::new();
    for (at, round) in rounds.iter().enumerate() {
        let Some(compacted) = round.compacted.as_deref() else { continue };
        match found.last_mut() {
            Some((_, last, same))
                if *last == at && (same.results, same.rounds) == (compacted.results, compacted.rounds) =>
            {
                (*last, *same) = (at + 1, compacted);
            }
            _ => found.push((at + 1, at + 1, compacted)),
        }
    }
    let line = |(first, last, compacted): (usize, usize, &Compacted)| match first == last {
        true => format!("round {first}: without {}", left_out(compacted)),
        false => format!("rounds {first} to {last}: without {}", left_out(compacted)),
    };
    found.into_iter().map(line).collect()
}

/// The parts of a conversation that were not sent.
fn left_out(of: &Compacted) -> String {
    let parts = [(of.results, "tool result"), (of.rounds, "round")];
    let parts = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, noun)| counted(n.into(), noun));
    let parts = parts.collect::<Vec<_>>().join(" and ");
    format!("{parts} (about {} tokens instead of {})", of.tokens_after, of.tokens_before)
}
