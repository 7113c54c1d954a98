//! The progress of a long command: one line that moves on a terminal, a line each elsewhere.

use super::Terminal;
use indicatif::{ProgressBar, ProgressStyle};
use opcell::report::printable;
use std::{
    io::{self, IsTerminal},
    time::Duration,
};

/// Gone from the terminal when it is dropped.
pub struct Passing {
    bar: Option<ProgressBar>,
    terminal: Terminal,
}

impl Passing {
    pub fn new(terminal: &Terminal) -> Self {
        let bar = (!terminal.quiet && io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}  {elapsed}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            let bar = ProgressBar::new_spinner().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { bar, terminal: *terminal }
    }

    /// Shows the present activity.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(printable(text).into_owned()),
            None => self.terminal.note(text),
        }
    }

    /// Writes something that stays, above the line that moves.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
