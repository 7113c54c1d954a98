//! `opcell tools list` and `opcell mcp list`: which tools there are, from where, and whether they can be called.

mod accepted;
mod add;
pub mod show;

use super::{Exit, Failure, Global, Terminal, units::counted};
use clap::Subcommand;
use opcell::{ServerEntry, report::printable};
use opcell_types::text::one_line;
use serde_json::json;

/// Bytes of a description in a list.
const SHOWN: usize = 100;

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools that documents may call, what implements each, and why one cannot be called.
    ///
    /// Starts the MCP servers that tools are mapped to.
    List,
    /// Show one tool: its arguments, its result, how it fails, its limits, and a call of it.
    ///
    /// Tools of the host need no project; of a project, operations and what documents call are shown too.
    Show {
        /// The tool, such as `http.fetch`.
        #[arg(value_name = "TOOL")]
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Start every MCP server of the project and list its tools, resources and prompts, or why it does not start.
    List,
    /// Add a server that a registry publishes: show what it starts and asks for, then write it to the project.
    ///
    /// Reads the format `server.json` of the official registry. The version of a package is exact, its tools are pinned in
    /// `opcell.lock`, and its program is confined where the kernel can. Without a terminal, `--yes` is your consent.
    Add(add::AddArgs),
    /// Show how a server's tools differ from those that were accepted.
    Diff {
        /// The server's name in the project.
        server: String,
    },
    /// Accept the tools of servers as they are now: write their digests into `opcell.lock`.
    Update {
        /// The server's name in the project; without it, every server.
        server: Option<String>,
    },
}

pub async fn tools(global: &Global, command: &ToolsCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    if let ToolsCommand::Show { name } = command {
        return show::show(global, name, terminal).await;
    }
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
        let line = one_line(&format!("{:width$}  {}{about}", entry.name, entry.target), SHOWN + width);
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

pub async fn mcp(global: &Global, command: &McpCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        McpCommand::List => {}
        McpCommand::Add(args) => return add::add(global, args, terminal).await,
        McpCommand::Diff { server } => return accepted::diff(global, server, terminal).await,
        McpCommand::Update { server } => return accepted::update(global, server.as_deref(), terminal).await,
    }
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
            terminal.line(&printable(&one_line(&line, SHOWN)))?;
        }
        if !server.changes.is_empty() {
            terminal.line(&format!("    compare with `opcell mcp diff {}`", server.name))?;
        }
        for tool in &server.tools {
            let about = tool.problem.as_ref().map_or(tool.description.clone(), |why| format!("cannot be used: {why}"));
            terminal.line(&printable(&one_line(&format!("  {}  {about}", tool.name), SHOWN)))?;
            for warning in &tool.warnings {
                terminal.line(&printable(&one_line(&format!("    warning: {warning}"), SHOWN)))?;
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
            terminal.line(&printable(&one_line(line.trim_end(), SHOWN)))?;
        }
    }
    for refused in &server.refused_offers {
        terminal.line(&printable(&one_line(&format!("  warning: {refused}"), 2 * SHOWN)))?;
    }
    Ok(())
}

fn exit(broken: bool) -> Exit {
    if broken { Exit::InputWrong } else { Exit::Done }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
