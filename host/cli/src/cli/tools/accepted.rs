//! `opcell mcp diff` and `opcell mcp update`: tools of servers against the lock.

use super::{Exit, Failure, Global, SHOWN, Terminal, indented};
use crate::cli::missing;
use opcell::{
    ServerEntry, ServerTool,
    config::{
        Config,
        accepted_tools::{ToolText, ToolTexts},
        lock::LockedServer,
    },
    places::Places,
    report::printable,
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_types::text::one_line;
use serde_json::{Value as Json, json};
use similar::TextDiff;
use std::{collections::BTreeMap, time::Duration};

/// The time after which a difference is shown in larger parts.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// The servers that a command is about, started and asked.
async fn asked(
    global: &Global,
    name: Option<&str>,
    terminal: &Terminal,
) -> Result<(Config, Vec<ServerEntry>), Failure> {
    let config = global.trusted()?;
    if let Some(name) = name.filter(|name| !config.servers.contains_key(*name)) {
        let finding = Diagnostic::error("unknown-server", format!("the project has no MCP server `{name}`"));
        let known: Vec<&str> = config.servers.keys().map(String::as_str).collect();
        let help = match did_you_mean(name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("its servers are: {}", known.join(", ")),
        };
        return Err(finding.help(help).into());
    }
    let mut servers = super::super::host(config.clone(), terminal).await?.mcp_servers().await;
    servers.retain(|server| name.is_none_or(|name| name == server.name));
    Ok((config, servers))
}

/// The usable tools of a server as they are now.
pub(super) fn texts_of(server: &ServerEntry) -> ToolTexts {
    let text = |tool: &ServerTool| {
        let text = ToolText::new(tool.digest.clone()?, tool.description.clone(), tool.parameters.clone());
        Some((tool.name.clone(), text))
    };
    server.tools.iter().filter_map(text).collect()
}

fn not_started(server: &ServerEntry) -> Option<Failure> {
    let problem = server.problem.as_ref()?;
    Some(Diagnostic::error("mcp-not-started", problem.clone()).into())
}

pub(super) async fn diff(global: &Global, name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
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
        terminal.line(&printable(&one_line(&format!("{mark} {tool}: {change}"), SHOWN)))?;
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

/// What a model is shown of a tool, a line for each part of the schema.
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

pub(super) async fn update(global: &Global, name: Option<&str>, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let (config, servers) = asked(global, name, terminal).await?;
    let lock = missing::lock(&config)?;
    let (places, mut accepted, mut broken) = (Places::of_user(), Vec::new(), false);
    for server in &servers {
        if let Some(Failure::Input(rejected)) = not_started(server) {
            terminal.rejected(&rejected);
            broken = true;
            continue;
        }
        let now = texts_of(server);
        let digests = now.iter().map(|(name, tool)| (name.clone(), tool.digest.clone())).collect();
        let is_held = lock.server(&server.name) == Some(&LockedServer::new(digests));
        lock.accept_server(&server.name, now, &places)?;
        if !is_held {
            accepted.push(server.name.as_str());
        }
    }
    if terminal.json {
        terminal.json(&json!({"accepted": accepted}))?;
    } else if accepted.is_empty() {
        terminal.line("nothing changed since the lock was written")?;
    } else {
        terminal.line(&format!("accepted the tools of {}", accepted.join(", ")))?;
    }
    Ok(if broken { Exit::InputWrong } else { Exit::Done })
}
