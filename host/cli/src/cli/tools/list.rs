//! `opcell tools list`: the tools that documents may call, and why one cannot be called.

use crate::cli::{
    Exit, Failure, Global, Terminal,
    units::{DESCRIPTION_BYTES, indented},
};
use opcell::report::printable;
use opcell_types::text::one_line;
use serde_json::json;

pub async fn list(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.host(terminal).await?;
    let entries = host.tools().await;
    let asking = host.sessions().asking_tools();
    let broken = entries.iter().any(|entry| entry.problem.is_some());
    if terminal.json {
        let asks = |name: &str| {
            let approval = asking.iter().find(|(_, approval)| approval.tool == name);
            approval.map(|(_, approval)| approval.describe())
        };
        let mut listed = json!(entries);
        for (entry, shown) in entries.iter().zip(listed.as_array_mut().into_iter().flatten()) {
            if let (Some(shown), Some(asks)) = (shown.as_object_mut(), asks(&entry.name)) {
                shown.insert("approve".to_owned(), json!(asks));
            }
        }
        terminal.json(&listed)?;
        return Ok(exit(broken));
    }
    if entries.is_empty() && asking.is_empty() {
        terminal.note("no tools: `[tools]` of the project file maps names that documents call");
    }
    let width = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for entry in &entries {
        let about = if entry.description.is_empty() { String::new() } else { format!(": {}", entry.description) };
        let line = one_line(&format!("{:width$}  {}{about}", entry.name, entry.target), DESCRIPTION_BYTES + width);
        terminal.line(&printable(&line))?;
        if let Some(problem) = &entry.problem {
            terminal.line(&printable(&indented(problem)))?;
        }
    }
    for (_, approval) in &asking {
        terminal.line(&printable(&format!("{} {}", approval.tool, approval.describe())))?;
    }
    Ok(exit(broken))
}

fn exit(broken: bool) -> Exit {
    if broken { Exit::InputWrong } else { Exit::Done }
}
