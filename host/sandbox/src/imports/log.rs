//! `log`: lines, progress and the panic hook's report. They reach the receipt and the operator, never a model.

use super::View;
use crate::{
    bindings::opcell::plugin0_1_0::log as wit,
    budget::Interface,
    host::LogEvent,
    receipt::{Level, LogLine, Stream},
    state::CellState,
};
use opcell_types::text::printable;

/// Longest line; a longer one is cut.
const LINE_BYTES: usize = 4 << 10;

/// Lines that a receipt keeps, whatever their length.
const LINES: usize = 1_000;

impl wit::Host for View<'_> {
    fn log(&mut self, level: wit::Level, message: String) -> wasmtime::Result<()> {
        self.0.budget.charge(Interface::Log, message.len())?;
        let level = match level {
            wit::Level::Trace => Level::Trace,
            wit::Level::Debug => Level::Debug,
            wit::Level::Info => Level::Info,
            wit::Level::Warn => Level::Warn,
            wit::Level::Error => Level::Error,
        };
        append_line(self.0, level, Stream::Log, &message);
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64, message: String) -> wasmtime::Result<()> {
        self.0.budget.charge(Interface::Log, message.len())?;
        let message = printable(&message, LINE_BYTES);
        self.0.host.log(&self.0.linked.name, &self.0.context, LogEvent::Progress { done, total, message: &message });
        Ok(())
    }

    fn panicked(&mut self, message: String) -> wasmtime::Result<()> {
        self.0.budget.charge(Interface::Log, message.len())?;
        let limit = usize::try_from(self.0.limits.failure_bytes).unwrap_or(usize::MAX);
        self.0.panic = Some(printable(&message, limit));
        Ok(())
    }
}

/// Adds a line to the cell's log and drops the oldest beyond the limit: the end of a log says why a cell failed.
pub(crate) fn append_line(state: &mut CellState, level: Level, stream: Stream, message: &str) {
    let message = printable(message, LINE_BYTES);
    state.host.log(&state.linked.name, &state.context, LogEvent::Line { level, stream, message: &message });
    state.log_bytes += message.len() as u64;
    state.log.lines.push_back(LogLine { level, stream, message });
    while state.log_bytes > state.limits.log_bytes || state.log.lines.len() > LINES {
        let Some(oldest) = state.log.lines.pop_front() else { break };
        state.log_bytes -= oldest.message.len() as u64;
        state.log.dropped_bytes += oldest.message.len() as u64;
    }
}
