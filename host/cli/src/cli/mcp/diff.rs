//! `opcell mcp diff`: tools of a server against the lock.

use super::accepted::{asked, not_started, texts_of};
use crate::cli::{
    Exit, Failure, Global, Terminal, missing,
    units::{DESCRIPTION_BYTES, indented},
};
use clap::Args;
use opcell::{config::accepted_tools::ToolText, places::Places, report::printable};
use opcell_types::text::one_line;
use serde_json::{Value as Json, json};
use similar::TextDiff;
use std::{collections::BTreeMap, time::Duration};

/// The time after which a difference is shown in larger parts.
const DIFF_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The server's name in the project.
    server: String,
}

pub(super) async fn diff(global: &Global, args: &DiffArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let name = args.server.as_str();
    let (config, servers) = asked(global, Some(name), terminal).await?;
    let Some(server) = servers.first() else { return Ok(Exit::Done) };
    if let Some(failure) = not_started(server) {
        return Err(failure);
    }
    let lock = missing::lock(&config)?;
    let places = Places::of_user();
    let held = lock.server(name);
    let accepted = lock.accepted_texts(name, &places)?;
    let now = texts_of(server);
    let changes: Vec<(&str, &str)> = match held {
        Some(_) => server.changes.iter().map(|known| (known.tool.as_str(), known.change)).collect(),
        None => now.keys().map(|tool| (tool.as_str(), "new")).collect(),
    };
    if terminal.json {
        let names = |change: &str| -> Vec<&str> {
            changes.iter().filter(|(_, known)| *known == change).map(|(tool, _)| *tool).collect()
        };
        let both = |tool: &str| json!({"accepted": accepted.get(tool).map(shown), "now": now.get(tool).map(shown)});
        let texts: BTreeMap<&str, Json> = changes.iter().map(|(tool, _)| (*tool, both(tool))).collect();
        terminal.json(&json!({
            "server": name, "accepted": held.is_some(), "texts": texts,
            "changed": names("changed"), "added": names("new"), "removed": names("gone"),
        }))?;
        return Ok(Exit::Done);
    }
    if held.is_none() {
        terminal.note("opcell.lock does not hold this server yet: every tool is new");
    }
    for (tool, change) in &changes {
        let mark = match *change {
            "new" => '+',
            "gone" => '-',
            _ => '~',
        };
        terminal.line(&printable(&one_line(&format!("{mark} {tool}: {change}"), DESCRIPTION_BYTES)))?;
        let text = compared(change, accepted.get(*tool), now.get(*tool));
        terminal.line(&printable(&indented(&text)))?;
    }
    match changes.is_empty() {
        true => terminal.line("its tools are as opcell.lock holds them")?,
        false => terminal.note(&format!("accept this with `opcell mcp update {name}`")),
    }
    Ok(Exit::Done)
}

fn shown(text: &ToolText) -> Json {
    json!({"description": text.description, "arguments": text.parameters})
}

/// Returns a tool as a model is shown it, a line for each part of the schema.
fn lines(text: &ToolText) -> String {
    let parameters =
        serde_json::from_str::<Json>(&text.parameters).and_then(|read| serde_json::to_string_pretty(&read));
    let parameters = parameters.unwrap_or_else(|_| text.parameters.clone());
    format!("{}\narguments: {parameters}\n", text.description)
}

/// The lines by which a tool differs from what was accepted. All of them: this is what a person accepts.
fn compared(change: &str, accepted: Option<&ToolText>, now: Option<&ToolText>) -> String {
    let (before, after) = (accepted.map(lines).unwrap_or_default(), now.map(lines).unwrap_or_default());
    if change == "new" {
        return after;
    }
    if accepted.is_none() {
        let missing = "the text that was accepted is not on this machine: opcell.lock holds only its digest";
        return match now {
            None => missing.to_owned(),
            Some(_) => format!("{missing}. Now:\n{after}"),
        };
    }
    if before == after {
        return "its text looks the same: what differs is hidden from models, or beyond what they are shown".to_owned();
    }
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&before, &after);
    let changed = diff.unified_diff().context_radius(2).to_string();
    // The numbers of lines say nothing here. Lines of the texts have a mark in front, and do not begin so.
    let lines = changed.lines().map(|line| if line.starts_with("@@") { "…" } else { line });
    lines.skip_while(|line| *line == "…").collect::<Vec<_>>().join("\n")
}
