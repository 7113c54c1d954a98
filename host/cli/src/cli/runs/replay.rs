//! `opcell runs replay`.

use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_engine::Event;
use serde_json::json;

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
}

pub async fn replay(open: &Open, args: &ReplayArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let events = open.entry(&run).await?.records;
    let Some(divergence) = open.engine.replay(&run).await? else {
        if terminal.json {
            terminal.json(&json!({"ok": true, "run": run, "events": events}))?;
        } else {
            terminal.line(&format!("replayed {events} events of run {run}: this version decides the same"))?;
        }
        return Ok(Exit::Done);
    };
    let (recorded, decided) = (&divergence.recorded.event, divergence.decided.as_ref());
    if terminal.json {
        terminal.json(&json!({
            "ok": false, "run": run, "seq": divergence.recorded.seq, "recorded": recorded, "decided": decided,
        }))?;
    } else {
        terminal.failed(&format!(
            "run {run} was decided otherwise: event {} is\n  {}\nand this version decides\n  {}",
            divergence.recorded.seq,
            recorded.to_json(),
            decided.map_or_else(|| "null".to_owned(), Event::to_json)
        ));
    }
    Ok(Exit::RunFailed)
}
