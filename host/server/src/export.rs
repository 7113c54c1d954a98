//! A run for other tools, one line of JSON each: first what it is, then its events. `opcell runs export` prints the
//! same.

use opcell_engine::event::Recorded;
use serde_json::json;

/// The name of the format.
pub const FORMAT: &str = "opcell-run/v1";

/// The first line: which run, how it stands, and how many events follow.
#[must_use]
pub fn head(run: &str, workflow: &str, status: &str, events: u64) -> String {
    json!({"format": FORMAT, "run": run, "workflow": workflow, "status": status, "events": events}).to_string()
}

/// The line of an event.
#[must_use]
pub fn line(recorded: &Recorded) -> String {
    let head = json!({"seq": recorded.seq, "at": recorded.at.to_text()}).to_string();
    let head = head.strip_suffix('}').unwrap_or(&head);
    // As text: a tree of an event takes many times as much.
    format!("{head},\"event\":{}}}", recorded.event.to_json())
}
