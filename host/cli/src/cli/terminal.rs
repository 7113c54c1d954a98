//! The output of commands, and its form.

use super::args::{Global, LogFormat, LogLevel};
use clap::ValueEnum;
use opcell::{
    Diagnostic, Severity,
    report::{Rejected, printable, render_all},
};
use opcell_engine::event::Timestamp;
use opcell_ir::SourceFile;
use serde_json::json;
use std::{
    io::{self, BufRead as _, IsTerminal, Write},
    time::SystemTime,
};
use tracing_subscriber::EnvFilter;

/// Libraries whose warnings say nothing new. Those of MCP are of its own types, and what they are about is told by the
/// caller; that of Restate warns of each connection that a load balancer opens for a check and resets.
const SILENCED: &str = "rmcp=off,restate_sdk::http_server=error";

/// A level is for this program's own crates, and libraries continue to warn, but those [`SILENCED`]. `RUST_LOG` decides over everything, and `--log-level` over it.
fn log_filter(level: Option<LogLevel>, variable: Option<String>, quiet: bool) -> Result<EnvFilter, Box<Diagnostic>> {
    let directives = match (level, variable.filter(|text| !text.is_empty())) {
        (Some(LogLevel::Off), _) => "off".to_owned(),
        (Some(LogLevel::Error), _) => format!("error,{SILENCED}"),
        (Some(level), _) => {
            let level = level.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            format!("warn,{SILENCED},opcell={level}")
        }
        (None, Some(text)) => text,
        (None, None) if quiet => format!("error,{SILENCED}"),
        (None, None) => format!("warn,{SILENCED}"),
    };
    EnvFilter::try_new(&directives).map_err(|error| {
        let message = format!("`RUST_LOG` is not a filter: {error}");
        Box::new(
            Diagnostic::error("invalid-log-filter", message).help("expected such as `info` or `warn,opcell=debug`"),
        )
    })
}

/// Results go to stdout, everything else to stderr.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// `true` if results and diagnostics are JSON on stdout.
    pub json: bool,
    /// `true` if progress is suppressed.
    pub quiet: bool,
    /// `true` if calls are printed one by one, even if there are many.
    pub verbose: bool,
    /// `true` if stderr shows colours.
    pub color: bool,
    /// `true` if stdout shows colours.
    pub color_out: bool,
    /// Format of the lines on stderr.
    pub log: LogFormat,
}

impl Terminal {
    pub fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color.on(&io::stderr()),
            color_out: global.color.on(&io::stdout()),
            log: global.log_format,
        }
    }

    /// Columns of the terminal that shows results; none where it is not a terminal.
    pub fn width(&self) -> Option<usize> {
        console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
    }

    /// Lines of standard output, if it is a terminal.
    pub fn height(&self) -> Option<usize> {
        console::Term::stdout().size_checked().map(|(lines, _)| usize::from(lines))
    }

    /// Writes the log to stderr from now on: by default what warns. An embedder that runs the command line may have a
    /// subscriber already; then that one stays.
    pub fn show_log(&self, global: &Global) -> Result<(), Box<Diagnostic>> {
        let filter = log_filter(global.log_level, std::env::var("RUST_LOG").ok(), self.quiet)?;
        let is_asked_for = global.log_level.is_some() || std::env::var_os("RUST_LOG").is_some();
        let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_env_filter(filter);
        // A reader of the log that went away ends no run: what tells of it would be written to the same place, and
        // panic.
        let lines = lines.log_internal_errors(false);
        let _ = match global.log_format {
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
            LogFormat::Text if is_asked_for => lines.try_init(),
            LogFormat::Text => lines.without_time().with_target(false).try_init(),
        };
        Ok(())
    }

    /// One line of a result. A terminal obeys what it is sent, and whoever wrote a name or a result is not its user:
    /// there, what could steer it or hide text is shown as `?`. A file or a pipe gets every byte.
    pub fn line(&self, text: &str) -> io::Result<()> {
        if io::stdout().is_terminal() { self.rendered(&printable(text)) } else { self.rendered(text) }
    }

    /// As [`Self::line`], for a text whose parts are clean already and that may have colors.
    pub fn rendered(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") }
    }

    /// A result as JSON.
    pub fn json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        if io::stdout().is_terminal() {
            return self.rendered(&escaped(&serde_json::to_string_pretty(value)?));
        }
        let mut out = io::BufWriter::with_capacity(64 << 10, io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, value)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// A result as a list of JSON whose items come one at a time.
    pub fn list(&self) -> JsonList {
        JsonList { is_empty: true }
    }

    /// Returns `true` if a person can answer.
    pub fn is_interactive(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Returns `true` if the lines of steps move on this terminal, unless models' text is shown between them.
    pub fn has_moving_lines(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Asks a person, on a terminal; elsewhere, whoever wrote the command has said so already.
    pub fn confirms(&self, what: &str, question: &str) -> io::Result<bool> {
        if !self.is_interactive() {
            self.note(what);
            return Ok(true);
        }
        let mut err = io::stderr().lock();
        write!(err, "{}\n{question} [y/N] ", printable(what))?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// A line of progress; never a result.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.tell("INFO", text);
        }
    }

    /// A line on stderr, in the format of the log: whoever reads the log as JSON finds nothing else there.
    fn tell(&self, level: &str, text: &str) {
        let _ = match self.log {
            LogFormat::Text => writeln!(io::stderr(), "{}", printable(text)),
            LogFormat::Json => writeln!(io::stderr(), "{}", log_line(level, text, None)),
        };
    }

    /// Findings on stderr, in the format of the log.
    fn tell_findings(&self, findings: &[Diagnostic], rendered: impl FnOnce() -> String) {
        let mut err = io::stderr().lock();
        if self.log == LogFormat::Text {
            let _ = err.write_all(rendered().as_bytes());
            return;
        }
        for finding in findings {
            let level = if finding.severity == Severity::Error { "ERROR" } else { "WARN" };
            let _ = writeln!(err, "{}", log_line(level, &finding.message, Some(finding)));
        }
    }

    /// Prints the findings about a document, with its lines.
    pub fn findings(&self, source: &SourceFile, findings: &[Diagnostic]) {
        if !self.quiet {
            // Clean already, and in color.
            self.tell_findings(findings, || render_all(Some(source), findings, self.color));
        }
    }

    /// Input that was wrong.
    pub fn rejected(&self, rejected: &Rejected) {
        if self.json {
            let _ = self.json(&serde_json::json!({"ok": false, "diagnostics": rejected.to_json()}));
        } else {
            self.tell_findings(&rejected.diagnostics, || rejected.render(self.color));
        }
    }

    /// Prints findings that do not stop the command.
    pub fn warning(&self, findings: &Rejected) {
        let mut findings = findings.clone();
        for finding in &mut findings.diagnostics {
            finding.severity = Severity::Warning;
        }
        self.tell_findings(&findings.diagnostics, || findings.render(self.color));
    }

    /// An operation or a run that failed.
    pub fn failed(&self, text: &str) {
        self.tell("ERROR", text);
    }

    /// An internal failure.
    pub fn failure(&self, error: &anyhow::Error) {
        let text = causes(error);
        if self.json {
            let _ = self.json(&json!({"ok": false, "error": text}));
        } else {
            let prefix = if self.log == LogFormat::Text { "error: " } else { "" };
            self.tell("ERROR", &format!("{prefix}{text}"));
        }
    }
}

/// Asks for a line on stderr and reads it; `None` at the end of the input.
pub fn typed(prompt: &str) -> io::Result<Option<String>> {
    write!(io::stderr(), "{}", printable(prompt))?;
    let mut line = String::new();
    let read = tokio::task::block_in_place(|| io::stdin().lock().read_line(&mut line))?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

/// The causes of an error, outermost first. Some repeat those below them: each is said once.
fn causes(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}

/// A line as the log has them in JSON.
fn log_line(level: &str, text: &str, finding: Option<&Diagnostic>) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
    let mut line = json!({"timestamp": at.to_text(), "level": level, "message": text, "target": "opcell"});
    if let (Some(finding), Some(line)) = (finding, line.as_object_mut()) {
        line.insert("code".to_owned(), json!(finding.code));
        line.extend(finding.help.as_ref().map(|help| ("help".to_owned(), json!(help))));
    }
    line.to_string()
}

/// JSON for a terminal: within it, what would be shown as `?` has an escape that means the same.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(printable(c.encode_utf8(&mut [0; 4])), std::borrow::Cow::Owned(_)) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A list of JSON that is being printed.
pub struct JsonList {
    is_empty: bool,
}

impl JsonList {
    pub fn item(&mut self, item: &impl serde::Serialize) -> io::Result<()> {
        let text = serde_json::to_string_pretty(item)?;
        let text = if io::stdout().is_terminal() { escaped(&text) } else { text };
        let before = if std::mem::replace(&mut self.is_empty, false) { "[\n  " } else { ",\n  " };
        // JSON has no line breaks within its texts.
        let lines = text.replace('\n', "\n  ");
        let mut out = io::stdout().lock();
        out.write_all(before.as_bytes())?;
        out.write_all(lines.as_bytes())
    }

    pub fn end(self) -> io::Result<()> {
        let end: &[u8] = if self.is_empty { b"[]\n" } else { b"\n]\n" };
        io::stdout().lock().write_all(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_this_program_and_the_variable_for_everything() {
        let filter = |level, variable: Option<&str>, quiet| {
            log_filter(level, variable.map(str::to_owned), quiet).map(|filter| filter.to_string())
        };
        assert_eq!(filter(None, None, false).unwrap(), "restate_sdk::http_server=error,rmcp=off,warn");
        assert_eq!(filter(None, None, true).unwrap(), "restate_sdk::http_server=error,rmcp=off,error");
        assert_eq!(filter(None, Some("info"), true).unwrap(), "info");
        assert_eq!(
            filter(Some(LogLevel::Debug), Some("trace"), false).unwrap(),
            "restate_sdk::http_server=error,opcell=debug,rmcp=off,warn"
        );
        assert!(filter(None, Some("opcell=loud"), false).unwrap_err().message.contains("RUST_LOG"));
    }
}
