//! The lines that explain a failed call: the panic or traceback with its place, the functions that led to a trap, the
//! end of the log, and the limit that ended it with the key that changes it.

use opcell::{CellReceipt, report::printable};
use opcell_sandbox::receipt::{Level, LogTail, Stream};

/// Lines of the log that are shown unless all are wanted.
const LOG_LINES: usize = 10;

/// Functions of a backtrace that are shown unless all are wanted.
const FUNCTIONS: usize = 6;

/// Lines of a panic or traceback that are shown unless all are wanted: its end names the place.
const PANIC_LINES: usize = 20;

/// [`lines`] of a call that failed; of one that went well only if everything is wanted.
pub fn of_failed(receipt: &CellReceipt, said: &str, all: bool) -> Vec<String> {
    if all || failed(receipt) { lines(receipt, said, all) } else { Vec::new() }
}

/// Returns `true` if a cell's receipt is of a call that failed.
pub fn failed(receipt: &CellReceipt) -> bool {
    receipt.error.is_some()
}

/// The lines that explain how a call ended; of one that went well its log. `said` has been shown already, or will be;
/// `all`: whatever the number.
pub fn lines(receipt: &CellReceipt, said: &str, all: bool) -> Vec<String> {
    let most = |few: usize| if all { usize::MAX } else { few };
    let mut lines = Vec::new();
    let panic = receipt.panic.as_deref().unwrap_or_default();
    if !panic.is_empty() && !said.contains(panic.trim()) {
        lines.extend(last(panic.trim_end().lines().map(str::to_owned).collect(), most(PANIC_LINES), "earlier line"));
    }
    let functions = &receipt.backtrace;
    if !functions.is_empty() {
        lines.push("in:".to_owned());
        let left = functions.len().saturating_sub(most(FUNCTIONS));
        lines.extend(functions.iter().take(most(FUNCTIONS)).map(|name| format!("  {name}")));
        if left > 0 {
            lines.push(format!("  called by {left} more; -v shows them"));
        }
    }
    lines.extend(log(&receipt.log, most(LOG_LINES)));
    if let Some(help) = help(receipt, said) {
        lines.push(help);
    }
    lines.iter().map(|line| printable(line).into_owned()).collect()
}

/// The end of the log, under a heading.
fn log(log: &LogTail, most: usize) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for entry in &log.lines {
        let level = match entry.stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Log => name_of(entry.level),
        };
        // A message of several lines is indented as one.
        let mut parts = entry.message.trim_end().lines();
        shown.push(format!("  {level:6}  {}", parts.next().unwrap_or_default()));
        shown.extend(parts.map(|part| format!("          {part}")));
    }
    if shown.is_empty() {
        return shown;
    }
    let mut lines = vec!["log:".to_owned()];
    let dropped = log.dropped_bytes;
    if dropped > 0 {
        lines.push(format!("  (the receipt keeps the end; {dropped} bytes before it are gone: limit `log-bytes`)"));
    }
    lines.extend(last(shown, most, "earlier line"));
    lines
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}

/// The last of some lines, after the number of those before.
fn last(mut lines: Vec<String>, most: usize, what: &str) -> Vec<String> {
    let left = lines.len().saturating_sub(most);
    if left > 0 {
        lines.drain(..left);
        let plural = if left == 1 { "" } else { "s" };
        lines.insert(0, format!("  ({left} {what}{plural}; -v shows all)"));
    }
    lines
}

/// A key in `[plugins.NAME.ceiling]`, or how a stack is made larger.
fn help(receipt: &CellReceipt, said: &str) -> Option<String> {
    let error = receipt.error.as_deref().unwrap_or_default();
    if error == "stack-overflow" || said.contains("out of bounds memory access") {
        let may = if error == "stack-overflow" { "" } else { "a stack that is used up may look like this: " };
        return Some(format!(
            "help: {may}recurse less deeply, and keep large arrays on the heap; a compiler's own stack is as large as \
             `-zstack-size=BYTES` says when the plugin is built (`.cargo/config.toml` of a Rust plugin)"
        ));
    }
    let limit =
        if error == "plugin-failure" && is_out_of_memory(said) { Some("memory") } else { receipt.limit.as_deref() };
    let spec = opcell_sandbox::limits::TABLE.iter().find(|spec| limit == Some(spec.key))?;
    let key = match toml_key(&receipt.plugin) {
        Some(plugin) => format!("[plugins.{plugin}.ceiling]"),
        None => "[limits]".to_owned(),
    };
    Some(format!(
        "help: `{}` under `{key}` in opcell.toml allows more, up to {} ({} unless it says otherwise); `[limits]` in \
         plugin.toml, the step and a case may ask for less",
        spec.key,
        spec.unit.show(spec.maximum),
        spec.unit.show(spec.default)
    ))
}

/// Returns `true` if a call failed as interpreters report that the memory of the cell is used up: the engine ends no call
/// then.
fn is_out_of_memory(said: &str) -> bool {
    let marks = ["out-of-memory: ", "exception: MemoryError", "exception: InternalError: out of memory"];
    marks.iter().any(|mark| said.contains(mark))
}

/// A plugin's name as a part of a table's name.
fn toml_key(plugin: &str) -> Option<&str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    (!plugin.is_empty() && plugin.chars().all(plain)).then_some(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::receipts::cell_with;

    fn of(json: &str, said: &str, all: bool) -> Vec<String> {
        of_failed(&cell_with(json), said, all)
    }

    #[test]
    fn a_failed_call_shows_its_traceback_and_the_end_of_its_log() {
        let log: Vec<String> =
            (0..12).map(|n| format!(r#"{{"level":"info","stream":"log","message":"line {n}"}}"#)).collect();
        let receipt = format!(
            r#"{{"error":"plugin-failure","panic":"Traceback:\n  File \"plugin.py\", line 43\n","log":{{"lines":[{}]}}}}"#,
            log.join(",")
        );
        let shown = of(&receipt, "exception: KeyError", false);
        assert_eq!(
            shown[..4],
            ["Traceback:", "  File \"plugin.py\", line 43", "log:", "  (2 earlier lines; -v shows all)"]
        );
        assert_eq!((shown.len(), shown[4].as_str()), (14, "  info    line 2"));
        assert_eq!(of(&receipt, "", true).len(), 15);
    }

    #[test]
    fn what_the_message_says_already_is_not_repeated_and_names_are_listed() {
        let receipt = r#"{"error":"trap","panic":"panicked at src/lib.rs:3","backtrace":["kit::inner","kit::outer"]}"#;
        let said = "trap: the plugin panicked: panicked at src/lib.rs:3";
        assert_eq!(of(receipt, said, false), ["in:", "  kit::inner", "  kit::outer"]);
    }

    #[test]
    fn a_limit_is_named_with_the_table_of_its_key() {
        let shown = of(r#"{"error":"memory","limit":"memory","plugin":"geo"}"#, "", false);
        assert!(shown[0].starts_with("help: `memory` under `[plugins.geo.ceiling]` in opcell.toml"), "{shown:?}");
        assert!(shown[0].contains("up to 1 GiB (64 MiB unless"), "{shown:?}");
        let receipt = r#"{"error":"plugin-failure","plugin":"geo"}"#;
        for said in ["it failed: out-of-memory: the program …", "exception: MemoryError:  (src/plugin.py:49)"] {
            assert_eq!(of(receipt, said, false), shown, "an interpreter that reports its limit");
        }
        assert!(of(receipt, "exception: KeyError: 'MemoryError'", false).is_empty());
        let shown = of(r#"{"error":"stack-overflow"}"#, "", false);
        assert!(shown[0].contains("-zstack-size=BYTES"), "{shown:?}");
    }

    #[test]
    fn a_call_that_went_well_shows_its_log_only_when_all_is_wanted() {
        let receipt = r#"{"log":{"lines":[{"level":"info","stream":"stdout","message":"hello"}]}}"#;
        assert!(of(receipt, "", false).is_empty());
        assert_eq!(of(receipt, "", true), ["log:", "  stdout  hello"]);
    }
}
