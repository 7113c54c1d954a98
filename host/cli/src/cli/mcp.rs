//! `opcell mcp`: operations and workflows as tools over stdio, and the MCP servers of the project.

mod accepted;
mod add;
mod diff;
mod list;
#[cfg(feature = "server")]
mod stdio;
mod update;

use super::{Exit, Failure, Global, Terminal};
#[cfg(feature = "server")]
use clap::Args;
use clap::Subcommand;

#[cfg(feature = "server")]
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(flatten)]
    stdio: stdio::StdioArgs,
    #[command(subcommand)]
    command: Option<McpCommand>,
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
    Diff(diff::DiffArgs),
    /// Accept the tools of servers as they are now: write their digests into `opcell.lock`.
    Update(update::UpdateArgs),
}

#[cfg(feature = "server")]
pub async fn mcp(global: &Global, args: &McpArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    match &args.command {
        Some(command) => servers(global, command, terminal).await,
        None => stdio::serve(global, &args.stdio, terminal).await,
    }
}

/// Does what a subcommand says with the MCP servers of the project.
pub async fn servers(global: &Global, command: &McpCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        McpCommand::List => list::list(global, terminal).await,
        McpCommand::Add(args) => add::add(global, args, terminal).await,
        McpCommand::Diff(args) => diff::diff(global, args, terminal).await,
        McpCommand::Update(args) => update::update(global, args, terminal).await,
    }
}
