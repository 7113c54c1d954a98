//! The things that commands need and may not find: a project, its lock, a place for keys.

use super::Failure;
use opcell::{
    config::{Config, lock::Lock},
    places::Places,
};
use opcell_ir::Diagnostic;
use opcell_registry::signature::Keys;

/// The text of a list that is empty because there is no project.
pub const NO_PROJECT: &str = "there is no opcell.toml in this directory or above; `opcell init` makes one";

/// The finding of a command that needs a project file.
pub fn no_project() -> Diagnostic {
    Diagnostic::error("no-project", "there is no opcell.toml in this directory or above")
        .help("`opcell init` makes one")
}

/// The project's lock.
pub fn lock(config: &Config) -> Result<&Lock, Failure> {
    Ok(config.lock.as_ref().ok_or_else(no_project)?)
}

/// The keys of this user.
pub fn signing_keys() -> Result<Keys, Failure> {
    let no_home = || Diagnostic::error("no-key", "there is no home directory that could hold keys; set HOME");
    Ok(Places::of_user().signing_keys().ok_or_else(no_home)?)
}
