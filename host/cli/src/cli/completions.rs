//! `opcell completions`: the script with which a shell completes commands and names.

use super::{Exit, Failure, complete};
use clap::Args;
use clap_complete::Shell;
use std::io::{self, Write as _};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    io::stdout().write_all(&complete::script(args.shell)?)?;
    Ok(Exit::Done)
}
