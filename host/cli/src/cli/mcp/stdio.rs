//! `opcell mcp` without a subcommand: operations and workflows as tools over stdio.

use crate::cli::{Exit, Failure, Global, Terminal, host, live, warn_of_skills};
use clap::Args;
use opcell::LiveHost;
use opcell_ir::Diagnostic;
use opcell_server::{
    Tenant,
    mcp::{Face, Gateway, McpServer},
    tenant::TenantLimits,
};
use std::sync::Arc;

/// The tools that are offered.
#[derive(Debug, Args)]
pub struct StdioArgs {
    /// Offer this workflow as a tool, beside the operations of the plugins (repeatable).
    #[arg(long, value_name = "NAME")]
    workflow: Vec<String>,
    #[command(flatten)]
    gateway: GatewayArgs,
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

pub async fn serve(global: &Global, args: &StdioArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = host(global.trusted()?, terminal).await?;
    warn_of_skills(&host);
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
