//! `opcell mcp diff` and `opcell mcp update`: tools of servers against the lock.

use super::{Exit, Failure, Global, SHOWN, Terminal, indented};
use crate::cli::missing;
use opcell::{
    ServerEntry,
    config::{Config, lock::LockedServer},
    places::Places,
    report::printable,
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_types::{Digest, text::one_line};
use serde_json::json;
use std::collections::BTreeMap;

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

fn digests(server: &ServerEntry) -> BTreeMap<String, Digest> {
    server.tools.iter().filter_map(|tool| Some((tool.name.clone(), tool.digest.clone()?))).collect()
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
    let held = config.lock.as_ref().and_then(|lock| lock.server(name)).map(|held| held.tools.clone());
    let now = digests(server);
    let before = held.clone().unwrap_or_default();
    let changed: Vec<&String> = now
        .iter()
        .filter(|(name, digest)| before.get(*name).is_some_and(|old| old != *digest))
        .map(|(name, _)| name)
        .collect();
    let added: Vec<&String> = now.keys().filter(|name| !before.contains_key(*name)).collect();
    let removed: Vec<&String> = before.keys().filter(|name| !now.contains_key(*name)).collect();
    if terminal.json {
        terminal.json(&json!({
            "server": name, "accepted": held.is_some(), "changed": changed, "added": added, "removed": removed,
        }))?;
        return Ok(Exit::Done);
    }
    if held.is_none() {
        terminal.note("opcell.lock does not hold this server yet: every tool is new");
    }
    for (mark, names, what) in [('~', &changed, "changed"), ('+', &added, "new"), ('-', &removed, "gone")] {
        for name in names {
            terminal.line(&printable(&one_line(&format!("{mark} {name}: {what}"), SHOWN)))?;
            // What a model will be shown, in full: this is what is accepted.
            if let Some(tool) = server.tools.iter().find(|tool| tool.name == **name) {
                terminal.line(&printable(&indented(&tool.description)))?;
                terminal.line(&printable(&indented(&format!("arguments: {}", tool.parameters))))?;
            }
        }
    }
    match changed.is_empty() && added.is_empty() && removed.is_empty() {
        true => terminal.line("its tools are as opcell.lock holds them")?,
        false => terminal.note(&format!("accept this with `opcell mcp update {name}`")),
    }
    Ok(Exit::Done)
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
        let now = digests(server);
        let is_held = lock.server(&server.name) == Some(&LockedServer::new(now.clone()));
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
