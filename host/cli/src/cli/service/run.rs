//! `opcell service run`: a command as the user of the service.

use super::install::HOME;
use crate::cli::Failure;
use clap::Args;
use opcell_ir::Diagnostic;
use std::{ffi::OsString, io, os::unix::process::CommandExt, path::PathBuf, process::Command};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Folder of the service's project.
    #[arg(long, value_name = "DIR", default_value = HOME)]
    home: PathBuf,
    /// The command and its arguments, without `--config`.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Becomes the command, as the owner of the service's folder. Only why it could not is returned.
pub fn run(args: &RunArgs) -> Failure {
    let home = &args.home;
    let found = rustix::fs::stat(home).map_err(io::Error::from);
    let owner = match found {
        Ok(found) => found,
        Err(error) => {
            let message = format!("{}: {error}", home.display());
            return Diagnostic::error("service-unusable", message)
                .help("`opcell service install` says what goes where")
                .into();
        }
    };
    let me = rustix::process::geteuid();
    if !me.is_root() && me.as_raw() != owner.st_uid {
        let message = format!("{} belongs to the user {}", home.display(), owner.st_uid);
        return Diagnostic::error("service-unusable", message).help("run this as root").into();
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    let mut command = Command::new(program);
    command.args(&args.command).arg("--config").arg(home.join("opcell.toml")).current_dir(home);
    // As the unit sets them.
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("state")).env_remove("XDG_CACHE_HOME");
    command.env_remove("XDG_CONFIG_HOME");
    if me.is_root() {
        command.uid(owner.st_uid).gid(owner.st_gid);
    }
    command.exec().into()
}
