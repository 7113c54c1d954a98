//! `opcell tools`: which tools there are, from where, and whether they can be called.

mod list;
pub mod show;

use super::{Exit, Failure, Global, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools that documents may call, what implements each, and why one cannot be called.
    ///
    /// Starts the MCP servers that tools are mapped to.
    List,
    /// Show one tool: its arguments, its result, how it fails, its limits, and a call of it.
    ///
    /// Tools of the host need no project; of a project, operations and what documents call are shown too.
    Show(show::ShowArgs),
}

pub async fn tools(global: &Global, command: &ToolsCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        ToolsCommand::List => list::list(global, terminal).await,
        ToolsCommand::Show(args) => show::show(global, args, terminal).await,
    }
}
