//! `opcell service`: the unit with which systemd runs `opcell serve` or `opcell worker`, and commands as its user.

mod install;
mod run;

use super::{Exit, Failure, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the systemd unit of a service, as the packages have it, for this program.
    Install(install::InstallArgs),
    /// Run a command of this program as the service's user, on the service's project: `opcell service run trust`.
    Run(run::RunArgs),
}

pub fn service(command: &ServiceCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        ServiceCommand::Install(args) => install::install(args, terminal),
        ServiceCommand::Run(args) => Err(run::run(args)),
    }
}
