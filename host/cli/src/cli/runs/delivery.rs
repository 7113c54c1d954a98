//! The report of a message that was sent to a run.

use super::{Exit, Failure, Open, Terminal};
use opcell_engine::Delivery;
use opcell_journal::RunId;
use serde_json::json;

/// Says how a run continues that no one drives.
pub(super) async fn going_on(open: &Open, run: &RunId, terminal: &Terminal) -> Result<Exit, Failure> {
    if !open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven) {
        terminal.note(&format!(
            "the run continues with `opcell runs resume {run}`, or with the next worker of this journal"
        ));
    }
    Ok(Exit::Done)
}

/// Reports where a message went.
pub(super) async fn sent(open: &Open, run: &RunId, delivery: &Delivery, terminal: &Terminal) -> Result<Exit, Failure> {
    let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
    if terminal.json {
        let step = match delivery {
            Delivery::Now(step) => Some(step),
            Delivery::Queued => None,
        };
        terminal.json(&json!({"ok": true, "run": run, "step": step, "kept": step.is_none(), "driven": driven}))?;
        return Ok(Exit::Done);
    }
    terminal.note(&match delivery {
        Delivery::Now(step) => format!("sent: step `{step}` of run `{run}` receives it"),
        Delivery::Queued => format!("queued: no step of run `{run}` waits for it yet"),
    });
    going_on(open, run, terminal).await
}
