//! `opcell service install`: the unit with which systemd runs `opcell serve` or `opcell worker`.

use crate::cli::{Exit, Failure, Terminal};
use clap::{Args, ValueEnum};
use opcell::config::lock::write_whole;
use opcell_ir::Diagnostic;
use opcell_types::files::{Readers, read_text_bounded};
use serde_json::json;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Folder in which the units of the packages have their project, journal and state.
pub(super) const HOME: &str = "/var/lib/opcell";

/// Folder in which systemd looks for units that no package brings.
const UNITS: &str = "/etc/systemd/system";

/// Bytes of a unit.
const MAX_UNIT_BYTES: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The service to install.
    #[arg(value_name = "SERVICE", default_value = "serve")]
    service: Service,
    /// Folder for the unit.
    #[arg(long, value_name = "DIR", default_value = UNITS)]
    to: PathBuf,
    /// Print the unit and write nothing.
    #[arg(long)]
    print: bool,
    /// Replace a unit that has been changed.
    #[arg(long)]
    replace: bool,
}

/// A service that systemd runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Service {
    /// The HTTP API and the page; drives runs.
    Serve,
    /// Drives runs.
    Worker,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Worker => "worker",
        }
    }

    /// The unit for a program at a path.
    fn unit(self, program: &str) -> String {
        let (purpose, description) = match self {
            Self::Serve => (
                "Serves one project on loopback: /var/lib/opcell/opcell.toml says which. Beyond loopback it needs TLS and tokens.",
                "Opcell server",
            ),
            Self::Worker => (
                "Drives the runs of one project: /var/lib/opcell/opcell.toml says which, and where its journal is.",
                "Opcell worker",
            ),
        };
        let text = include_str!("unit.service");
        text.replace("{purpose}", purpose)
            .replace("{description}", description)
            .replace("{program}", program)
            .replace("{command}", self.name())
    }
}

pub fn install(args: &InstallArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let program = std::env::current_exe()?;
    let program = program.to_str().filter(|path| !path.chars().any(|c| c.is_whitespace() || "%\"'\\$".contains(c)));
    let program = program.ok_or_else(|| {
        let message = "the path of this program has characters that mean something else in a unit";
        Diagnostic::error("service-unusable", message).help("install it as `/usr/local/bin/opcell`")
    })?;
    let name = format!("opcell-{}", args.service.name());
    let text = args.service.unit(program);
    if args.print {
        terminal.rendered(&text)?;
        return Ok(Exit::Done);
    }
    let unit = args.to.join(format!("{name}.service"));
    match read_text_bounded(&unit, MAX_UNIT_BYTES) {
        Ok(there) if there != text && !args.replace => {
            let message = format!("{} exists, and is not what would be written", unit.display());
            let help =
                "settings of your own belong into a drop-in (`systemctl edit`); to lose the changes: `--replace`";
            return Err(Diagnostic::error("already-exists", message).help(help).into());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(&unit, &error).into()),
        _ => {}
    }
    write_whole(&unit, &text, Readers::Mode(0o644)).map_err(|error| unwritable(&unit, &error))?;
    if terminal.json {
        terminal.json(&json!({"unit": unit, "project": Path::new(HOME).join("opcell.toml")}))?;
        return Ok(Exit::Done);
    }
    terminal.line(&unit.display().to_string())?;
    terminal.note(&format!(
        "the project goes into {HOME}; then, as root:\n  \
         opcell service run trust --show    # what it asks for\n  \
         opcell service run trust\n  \
         systemctl daemon-reload\n  \
         systemctl enable --now {name}\n  \
         opcell service run token new NAME  # a token of the project"
    ));
    Ok(Exit::Done)
}

fn unwritable(unit: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error("service-unusable", format!("{} cannot be written: {error}", unit.display()))
        .help("run this as root, or write it elsewhere: `--to DIR` or `--print`")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]
    #![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

    use super::*;

    #[test]
    fn the_units_of_the_packages_are_those_that_the_program_writes() {
        for service in [Service::Serve, Service::Worker] {
            let name = format!("opcell-{}.service", service.name());
            let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
            let unit = service.unit("/usr/bin/opcell");
            if std::env::var("SNAPSHOTS").is_ok_and(|mode| mode == "overwrite") {
                std::fs::write(&packaged, &unit).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&packaged).unwrap(), unit, "{}", packaged.display());
        }
    }
}
