//! `opcell code`: programs, each in a cell of the plugin for their language.

mod install;
mod program;
mod repl;
mod replay;
mod run;
mod types;

use super::{Exit, Failure, Global, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum CodeCommand {
    /// Run a program in JavaScript or Python and print its result.
    Run(run::RunArgs),
    /// Write a program in JavaScript or Python line by line.
    ///
    /// Each line runs when it is complete, and prints its value. All lines are one program: it runs again for each line,
    /// with the recorded answers of its calls, and makes no call twice. A line that fails is left out of it.
    Repl(repl::ReplArgs),
    /// Build the runtime of a language that is not part of this command.
    Install(install::InstallArgs),
    /// Print the declarations of tools that a model reads before it writes a program.
    ///
    /// Starts the MCP servers that have the tools.
    Types(types::TypesArgs),
}

pub async fn code(global: &Global, command: &CodeCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        CodeCommand::Run(args) => run::run(global, args, terminal).await,
        CodeCommand::Repl(args) => repl::repl(global, args, terminal).await,
        CodeCommand::Install(args) => install::install(args, terminal).await,
        CodeCommand::Types(args) => types::types(global, args, terminal).await,
    }
}
