//! Where output goes and how it looks.

use super::Global;
use clap::ValueEnum;
use opcell::{
    Severity,
    report::{Rejected, printable},
};
use std::io::{self, IsTerminal, Write};
use tracing::level_filters::LevelFilter;

/// When output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    fn on(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

/// Results go to stdout, everything else to stderr.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    /// Whether results and diagnostics are JSON on stdout.
    pub json: bool,
    /// Whether progress is suppressed.
    pub quiet: bool,
    /// Whether calls are printed one by one, even if there are many.
    pub verbose: bool,
    /// Whether stderr shows colours.
    pub color: bool,
    /// Whether stdout shows colours.
    pub color_out: bool,
}

impl Terminal {
    pub fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color: global.color.on(&io::stderr()),
            color_out: global.color.on(&io::stdout()),
        }
    }

    /// Columns of the terminal that shows results; none where it is not a terminal.
    pub fn width(&self) -> Option<usize> {
        console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
    }

    /// Prints warnings of the libraries to stderr from now on.
    pub fn show_warnings(&self) {
        let level = if self.quiet { LevelFilter::ERROR } else { LevelFilter::WARN };
        let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).with_max_level(level);
        // An embedder that runs the command line may have a subscriber already.
        let _ = lines.without_time().with_target(false).try_init();
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

    /// A line of progress; never a result.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{}", printable(text));
        }
    }

    /// Input that was wrong.
    pub fn rejected(&self, rejected: &Rejected) {
        if self.json {
            let _ = self.json(&serde_json::json!({"ok": false, "diagnostics": rejected.to_json()}));
        } else {
            let _ = io::stderr().write_all(rejected.render(self.color).as_bytes());
        }
    }

    /// What is wrong and does not stop the command.
    pub fn warning(&self, findings: &Rejected) {
        let mut findings = findings.clone();
        for finding in &mut findings.diagnostics {
            finding.severity = Severity::Warning;
        }
        let _ = io::stderr().write_all(findings.render(self.color).as_bytes());
    }

    /// An operation or a run that failed.
    pub fn failed(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    }

    /// An internal failure.
    pub fn failure(&self, error: &anyhow::Error) {
        if self.json {
            let _ = self.json(&serde_json::json!({"ok": false, "error": format!("{error:#}")}));
        } else {
            let _ = writeln!(io::stderr(), "error: {}", printable(&format!("{error:#}")));
        }
    }
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
