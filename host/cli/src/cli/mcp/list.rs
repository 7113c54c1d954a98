//! `opcell mcp list`: the MCP servers of the project, their tools, resources and prompts.

use crate::cli::{
    Exit, Failure, Global, Terminal,
    units::{DESCRIPTION_BYTES, counted, indented},
};
use opcell::{ServerEntry, report::printable};
use opcell_types::text::one_line;
use serde_json::json;

pub async fn list(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let servers = global.host(terminal).await?.mcp_servers().await;
    let broken = servers.iter().any(|server| server.problem.is_some());
    if terminal.json {
        terminal.json(&json!(servers))?;
        return Ok(exit(broken));
    }
    if servers.is_empty() {
        terminal.note("no MCP servers: `[mcp.NAME]` of the project file names one");
    }
    for server in &servers {
        let state = match (&server.problem, server.has_started) {
            (None, _) => "starts",
            (Some(_), true) => "starts, and lists no tools",
            (Some(_), false) => "does not start",
        };
        terminal
            .line(&printable(&one_line(&format!("{}  {state}: {}", server.name, server.command.join(" ")), 200)))?;
        if let Some(problem) = &server.problem {
            terminal.line(&printable(&indented(problem)))?;
        }
        if let Some(confined) = &server.confined {
            terminal.line(&printable(&format!("    confined: {confined}")))?;
        }
        if server.tools.iter().any(|tool| tool.problem.is_none()) {
            terminal.line(&format!("    descriptions: about {}", counted(server.description_tokens, "token")))?;
        }
        for changed in &server.changes {
            let line = format!("    since it was accepted: {} {}", changed.tool, changed.change);
            terminal.line(&printable(&one_line(&line, DESCRIPTION_BYTES)))?;
        }
        if !server.changes.is_empty() {
            terminal.line(&format!("    compare with `opcell mcp diff {}`", server.name))?;
        }
        for tool in &server.tools {
            let about = tool.problem.as_ref().map_or(tool.description.clone(), |why| format!("cannot be used: {why}"));
            terminal.line(&printable(&one_line(&format!("  {}  {about}", tool.name), DESCRIPTION_BYTES)))?;
            for warning in &tool.warnings {
                terminal.line(&printable(&one_line(&format!("    warning: {warning}"), DESCRIPTION_BYTES)))?;
            }
        }
        if server.truncated {
            terminal.line("  and more tools, which are not used")?;
        }
        offers(server, terminal)?;
    }
    Ok(exit(broken))
}

/// Resources, templates and prompts of a server, and what of them is not used.
fn offers(server: &ServerEntry, terminal: &Terminal) -> Result<(), Failure> {
    let lists = [
        ("resource", &server.resources),
        ("resource template", &server.resource_templates),
        ("prompt", &server.prompts),
    ];
    for (kind, offers) in lists {
        for offer in offers {
            let arguments = match offer.arguments.is_empty() {
                true => String::new(),
                false => format!(" ({})", offer.arguments.join(", ")),
            };
            let line = format!("  {kind} {}{arguments}  {}", offer.name, offer.description);
            terminal.line(&printable(&one_line(line.trim_end(), DESCRIPTION_BYTES)))?;
        }
    }
    for refused in &server.refused_offers {
        terminal.line(&printable(&one_line(&format!("  warning: {refused}"), 2 * DESCRIPTION_BYTES)))?;
    }
    Ok(())
}

fn exit(broken: bool) -> Exit {
    if broken { Exit::InputWrong } else { Exit::Done }
}
