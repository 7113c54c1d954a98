//! `opcell op`: single operations, outside of any workflow.

pub(super) mod invoke;
mod list;
pub mod replay;

use super::{Exit, Failure, Global, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum OpCommand {
    /// List the operations and judges of the project's plugins.
    List,
    /// Invoke one operation and print its data, or ask one judge and print its verdict.
    Invoke(invoke::InvokeArgs),
    /// Call a plugin again as a run recorded it, with no outside effect, and show what is different.
    Replay(replay::ReplayArgs),
}

pub async fn op(global: &Global, command: &OpCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        OpCommand::List => list::list(global, terminal).await,
        OpCommand::Invoke(args) => invoke::invoke(global, args, terminal).await,
        OpCommand::Replay(args) => replay::replay(global, args, terminal).await,
    }
}
