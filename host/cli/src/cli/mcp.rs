//! `opcell mcp`: operations and workflows as tools over stdio, and the MCP servers of the project.

use super::{
    Exit, Failure, Global, Terminal, live,
    tools::{self, McpCommand},
};
use clap::Args;
use opcell::LiveHost;
use opcell_ir::Diagnostic;
use opcell_server::{
    Tenant,
    mcp::{Face, Gateway, McpServer},
    tenant::TenantLimits,
};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    /// Offer this workflow as a tool, beside the operations of the plugins (repeatable).
    #[arg(long, value_name = "NAME")]
    workflow: Vec<String>,
    #[command(flatten)]
    gateway: GatewayArgs,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

/// The tools of the project's own MCP servers.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// Offer the tools of the project's MCP servers as well, as `SERVER__TOOL`.
    #[arg(long)]
    gateway: bool,
    /// With `--gateway`: offer a search over all tools, the description of one, and a call by name, in place of the
    /// tools.
    #[arg(long, requires = "gateway")]
    search: bool,
    /// With `--gateway`: offer only tools like this, such as `notes/*` (repeatable).
    #[arg(long, value_name = "SERVER/TOOL", requires = "gateway")]
    tool: Vec<String>,
}

impl GatewayArgs {
    fn gateway(&self) -> Option<Gateway> {
        let face = if self.search { Face::Search } else { Face::Tools };
        self.gateway.then(|| Gateway::new(face, self.tool.clone()))
    }
}

pub async fn mcp(global: &Global, args: &McpArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(command) = &args.command {
        return tools::mcp(global, command, terminal).await;
    }
    let host = crate::cli::host(global.trusted()?, terminal).await?;
    crate::cli::warn_of_skills(&host);
    for name in &args.workflow {
        match host.library().named(name) {
            Some(read) => drop(read?),
            None => {
                let unknown = Diagnostic::error("unknown-workflow", format!("there is no workflow `{name}`"));
                return Err(unknown.help("give its file's folder in `workflows` of opcell.toml").into());
            }
        }
    }
    let host = LiveHost::new(host);
    let tenant = Arc::new(Tenant::new(Tenant::DEFAULT, host.clone(), TenantLimits::default()));
    let mut server = McpServer::new(tenant, args.workflow.clone());
    if let Some(gateway) = args.gateway.gateway() {
        server = server.with_gateway(gateway);
    }
    tokio::select! {
        ended = server.stdio() => ended?,
        () = live::follow(&host, live::project(global), terminal, false) => {}
    }
    Ok(Exit::Done)
}
