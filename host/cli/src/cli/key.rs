//! `opcell key`: the keys that sign plugins.

mod list;
mod new;

use super::{Exit, Failure, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key that only this user can read, and print its public half for those who check signatures.
    New(new::NewArgs),
    /// List the keys with their public halves.
    List,
}

pub fn key(command: &KeyCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        KeyCommand::New(args) => new::new(args, terminal),
        KeyCommand::List => list::list(terminal),
    }
}
