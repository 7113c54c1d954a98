//! The servers of a project, and the tools that they list now.

use crate::cli::{Failure, Global, Terminal, host};
use opcell::{
    ServerEntry, ServerTool,
    config::{
        Config,
        accepted_tools::{ToolText, ToolTexts},
    },
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};

/// The servers that a command is about, started and asked.
pub(super) async fn asked(
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
    let mut servers = host(config.clone(), terminal).await?.mcp_servers().await;
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

pub(super) fn not_started(server: &ServerEntry) -> Option<Failure> {
    let problem = server.problem.as_ref()?;
    Some(Diagnostic::error("mcp-not-started", problem.clone()).into())
}
