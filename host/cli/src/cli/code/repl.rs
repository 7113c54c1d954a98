//! `opcell code repl`: a program that a person writes line by line.
//!
//! The lines are one program. For each new one, the program runs again from its start, with the answers, the random numbers
//! and the readings of clocks that it had, so that no call is made twice; then the new line continues it. A line that fails
//! is left out of the program, and its calls out of the record.

mod complete;

use super::program::{advice, ready};
use crate::cli::{
    Exit, Failure, Global, Terminal,
    args::{ProgramLanguage, StopArgs},
    lines::{Lines, ProgramLine},
    stop::Stop,
};
use clap::Args;
use complete::is_open;
use opcell::{Host, report::printable};
use opcell_engine::program_record::ProgramRecord;
use opcell_types::{Failure as CallFailure, Value};
use serde_json::json;

/// The name of the file of earlier lines.
const HISTORY: &str = "code-history";

/// Entries of one program.
const MAX_ENTRIES: usize = 1_000;

/// Bytes of one program.
const MAX_PROGRAM_BYTES: usize = 256 << 10;

#[derive(Debug, Args)]
pub struct ReplArgs {
    /// Language of the program.
    #[arg(long, value_name = "LANG", default_value = "javascript")]
    language: ProgramLanguage,
    /// Tool of the project, or ID of an operation, that the program may call (repeatable). It may call those that the
    /// project grants the plugin `code` as well.
    #[arg(long, value_name = "TOOL")]
    grant: Vec<String>,
    /// Do not remember the lines for later programs.
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    stop: StopArgs,
}

/// The program so far.
struct Repl {
    host: Host,
    language: ProgramLanguage,
    /// The source, which ends where the next entry begins.
    source: String,
    /// The line at which the next entry begins, from 1.
    line: usize,
    entries: usize,
    record: ProgramRecord,
    /// Lines of the program's log that were shown.
    logged: usize,
    /// The result of a program that runs to its end.
    end: String,
}

/// An entry as a part of the program.
struct Form {
    /// The text before the entry and after it, with which it is run.
    run: (String, String),
    /// The same when it is part of a longer program.
    kept: (&'static str, &'static str),
}

/// The end of an entry.
enum Outcome {
    /// Its value, if it has one.
    Value(Option<Value>),
    /// It ended the program, which does not include it.
    Returned(Value),
    Failed(Box<CallFailure>),
}

pub async fn repl(global: &Global, args: &ReplArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let (host, has_plugin) = ready(global, args.language, &args.grant, terminal).await?;
    let stop = Stop::listen(args.stop, false, terminal)?;
    let mut lines = Lines::stdin(terminal, &stop, (!args.no_history).then_some(HISTORY));
    let is_interactive = !matches!(lines, Lines::Stdin { prompts: false, .. });
    if is_interactive {
        terminal.note(&format!("a program in {}, line by line; Ctrl-D ends it", args.language.name()));
    }
    let mut repl = Repl {
        host,
        language: args.language,
        source: String::new(),
        line: 1,
        entries: 0,
        record: ProgramRecord::default(),
        logged: 0,
        end: uuid::Uuid::new_v4().to_string(),
    };
    let mut has_failed = false;
    while let Some(entry) = repl.next_entry(&mut lines)? {
        let line = repl.line;
        let (outcome, logs) = repl.run(&entry).await;
        has_failed |= matches!(outcome, Outcome::Failed(_));
        repl.report(line, outcome, &logs, has_plugin, terminal)?;
    }
    // A person has seen what failed.
    Ok(if has_failed && !is_interactive { Exit::RunFailed } else { Exit::Done })
}

impl Repl {
    /// Reads lines until they are a whole entry; `None` at the end.
    fn next_entry(&self, lines: &mut Lines) -> Result<Option<String>, Failure> {
        let mut entry = String::new();
        loop {
            let prompt = format!("{}{} ", self.line + entry.lines().count(), if entry.is_empty() { ">" } else { "…" });
            match lines.next_of_program(&prompt)? {
                ProgramLine::End if entry.trim().is_empty() => return Ok(None),
                ProgramLine::End => return Ok(Some(entry)),
                ProgramLine::Interrupted => entry.clear(),
                ProgramLine::Text(line) => {
                    let ends_block = line.trim().is_empty() && self.language == ProgramLanguage::Python;
                    if entry.is_empty() && line.trim().is_empty() {
                        continue;
                    }
                    entry.push_str(&line);
                    entry.push('\n');
                    if !is_open(self.language, &entry, ends_block) {
                        return Ok(Some(entry));
                    }
                }
            }
        }
    }

    /// Runs the program with a new entry, which becomes part of it if it does not fail; the log is the new one.
    async fn run(&mut self, entry: &str) -> (Outcome, Vec<Value>) {
        if self.entries >= MAX_ENTRIES || self.source.len() + entry.len() > MAX_PROGRAM_BYTES {
            let message =
                format!("the program has {MAX_ENTRIES} entries or {MAX_PROGRAM_BYTES} bytes; begin another one");
            return (Outcome::Failed(Box::new(CallFailure::host("program-too-long", message))), Vec::new());
        }
        let mut last = None;
        for form in self.forms(entry) {
            let (before, after) = &form.run;
            let source = format!("{}{before}{entry}{after}", self.source);
            let (journal, open) = self.record.open();
            let (operation, arguments) = self.language.call(source, Value::Null);
            match self.host.invoke(operation, arguments).journaled(journal).await {
                Ok(output) => {
                    let result = output.data.get("result").cloned().unwrap_or_default();
                    let logs = output.data.get("logs").and_then(Value::as_array).unwrap_or_default();
                    let new: Vec<Value> = logs.iter().skip(self.logged).cloned().collect();
                    let outcome = self.outcome(entry, result);
                    if !matches!(outcome, Outcome::Returned(_)) {
                        self.logged = logs.len();
                        self.record = open.ended();
                        self.keep(entry, form.kept);
                    }
                    return (outcome, new);
                }
                Err(error) => {
                    let is_other_form = &*error.failure.reason == "program-invalid";
                    let failure = self.placed(error.failure, entry, before.chars().count());
                    let logs = failure.details.as_ref().and_then(|details| details.get("logs")).cloned();
                    let logs = logs.as_ref().and_then(Value::as_array).unwrap_or_default();
                    let new = logs.iter().skip(self.logged).cloned().collect();
                    last = Some((Outcome::Failed(Box::new(failure)), new));
                    if !is_other_form {
                        break;
                    }
                }
            }
        }
        last.unwrap_or_else(|| (Outcome::Value(None), Vec::new()))
    }

    /// The forms in which an entry is tried: as an expression, whose value is shown, and as statements.
    fn forms(&self, entry: &str) -> Vec<Form> {
        if self.language == ProgramLanguage::Python {
            // The value of an expression at the end is that of the program.
            return vec![Form { run: (String::new(), String::new()), kept: ("", "") }];
        }
        let declares = ["function", "class", "async function"].iter().any(|word| {
            let rest = entry.trim_start().strip_prefix(word);
            rest.is_some_and(|rest| rest.starts_with([' ', '*', '{']))
        });
        let expression = Form { run: ("return {value: (".to_owned(), ")}".to_owned()), kept: (";(", ");") };
        let statements = Form { run: (String::new(), format!(";return {:?}", self.end)), kept: ("", ";") };
        if declares { vec![statements] } else { vec![expression, statements] }
    }

    fn outcome(&self, entry: &str, result: Value) -> Outcome {
        if self.language == ProgramLanguage::Python {
            let mut lines = entry.lines().map(str::trim_start);
            let returns = lines.any(|line| line == "return" || line.starts_with("return "));
            return match returns && !entry.contains("def ") {
                true => Outcome::Returned(result),
                false => Outcome::Value(Some(result).filter(|value| !value.is_nullish())),
            };
        }
        match result.as_str() {
            Some(end) if end == self.end => Outcome::Value(None),
            _ if entry.trim_start().starts_with("return") => Outcome::Returned(result),
            _ => match result.as_object().filter(|object| object.len() <= 1) {
                Some(_) => Outcome::Value(result.get("value").cloned()),
                None => Outcome::Returned(result),
            },
        }
    }

    fn keep(&mut self, entry: &str, (before, after): (&str, &str)) {
        self.source.push_str(before);
        self.source.push_str(entry);
        self.source.push_str(after);
        self.line += entry.lines().count();
        self.entries += 1;
    }

    /// A failure whose place is the one in the entry, without what was put before it.
    fn placed(&self, failure: CallFailure, entry: &str, before: usize) -> CallFailure {
        let place = |name: &str| failure.details.as_ref()?.get(name)?.to_json().parse::<usize>().ok();
        let (Some(line), Some(column)) = (place("line"), place("column")) else { return failure };
        // The program's last entry ends on the line on which this one begins.
        let kept =
            self.source.lines().last().filter(|_| !self.source.ends_with('\n')).map_or(0, |end| end.chars().count());
        if line != self.line {
            return failure;
        }
        let (own_column, own_line) =
            (column.saturating_sub(before + kept).max(1), entry.lines().next().unwrap_or_default());
        let mut details = failure.details.as_ref().map(serde_json::Value::from).unwrap_or_default();
        let shown = details.get("source_line").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let message =
            failure.message.replace(&format!("{FILE}:{line}:{column}"), &format!("{FILE}:{line}:{own_column}"));
        let message = message.replace(&format!("`{shown}`"), &format!("`{}`", own_line.trim()));
        if let Some(details) = details.as_object_mut() {
            details.insert("column".to_owned(), json!(own_column));
            details.insert("source_line".to_owned(), json!(own_line.trim()));
        }
        CallFailure { message, details: Some(details.into()), ..failure }
    }

    fn report(
        &self,
        line: usize,
        outcome: Outcome,
        logs: &[Value],
        has_plugin: bool,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        if terminal.json {
            let shown = match outcome {
                Outcome::Value(value) => json!({"line": line, "ok": true, "logs": logs, "result": value}),
                Outcome::Returned(value) => {
                    json!({"line": line, "ok": true, "logs": logs, "result": value, "returned": true})
                }
                Outcome::Failed(failure) => json!({"line": line, "ok": false, "logs": logs, "failure": failure}),
            };
            terminal.line(&shown.to_string())?;
            return Ok(());
        }
        for text in logs.iter().filter_map(Value::as_str) {
            terminal.line(&printable(text))?;
        }
        match outcome {
            Outcome::Value(None) => {}
            Outcome::Value(Some(value)) => terminal.json(&serde_json::Value::from(&value))?,
            Outcome::Returned(value) => {
                terminal.json(&serde_json::Value::from(&value))?;
                terminal.note("`return` ends a program; the line is left out of it");
            }
            Outcome::Failed(failure) => {
                terminal.failed(&format!("{}: {}", failure.reason, printable(&failure.message)));
                let denial = failure.denial.as_ref();
                if let Some(remedy) = denial.and_then(|denial| advice(&denial.remedy, "opcell code repl", has_plugin)) {
                    terminal.failed(&format!("to allow it: {remedy}"));
                }
            }
        }
        Ok(())
    }
}

/// The name of a program in JavaScript in its errors.
const FILE: &str = "program.js";
