//! `opcell token`: who may send requests to `opcell serve`.

mod list;
mod new;
mod revoke;
mod tokens;

use super::{Exit, Failure, Global, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it. It is not shown again.
    New(new::NewArgs),
    /// List the tokens of the project, without their secrets.
    List,
    /// Revoke a token. A running server refuses it within a second.
    Revoke(revoke::RevokeArgs),
}

pub fn token(global: &Global, command: &TokenCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    match command {
        TokenCommand::New(args) => new::new(&config, args, terminal),
        TokenCommand::List => list::list(&config, terminal),
        TokenCommand::Revoke(args) => revoke::revoke(&config, args, terminal),
    }
}
