//! `opcell runs trust-clock`: retention goes by the clock again.

use super::{Exit, Failure, Terminal};
use opcell::{config::Config, journals};
use opcell_ir::Diagnostic;
use serde_json::json;

pub async fn trust_clock(config: &Config, terminal: &Terminal) -> Result<Exit, Failure> {
    let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
    let now = journals::trust_clock(settings).await?;
    if terminal.json {
        terminal.json(&json!({"journal": settings.place.to_string(), "clock": now}))?;
    } else {
        terminal.line(&format!("retention of {} goes by {now}", settings.place))?;
    }
    Ok(Exit::Done)
}
