//! `opcell op list`.

use crate::cli::{Exit, Failure, Global, Terminal, missing::NO_PROJECT, units::hanging};
use serde_json::json;

pub async fn list(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.looking(terminal).await?;
    let entries = host.catalog().entries();
    // The list is not whole: the warnings say which plugins it lacks.
    let is_whole = !host.left_out().iter().any(|left_out| left_out.error.is_of_component());
    let exit = if is_whole { Exit::Done } else { Exit::InputWrong };
    if terminal.json {
        terminal.json(&json!(entries))?;
        return Ok(exit);
    }
    let width = entries.iter().map(|entry| entry.id.len()).max().unwrap_or(0);
    if entries.is_empty() && global.proposed()?.file.is_none() {
        terminal.note(NO_PROJECT);
    }
    for entry in entries {
        let first = format!("{:width$}  {:10}  ", entry.id, entry.kind());
        let text = format!("{}: {}", entry.plugin, entry.summary);
        match terminal.width() {
            Some(width) => hanging(&first, &text, width).lines().try_for_each(|line| terminal.line(line))?,
            None => terminal.line(&(first + &text))?,
        }
    }
    Ok(exit)
}
