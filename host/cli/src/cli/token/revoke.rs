//! `opcell token revoke`.

use super::tokens::store;
use crate::cli::{Exit, Failure, Terminal};
use clap::Args;
use opcell::Config;
use opcell_ir::Diagnostic;

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// ID, as `opcell token list` prints it.
    #[arg(value_name = "ID")]
    id: String,
}

pub fn revoke(config: &Config, args: &RevokeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let id = &args.id;
    if !store(config)?.revoke(id)? {
        let missing = Diagnostic::error("unknown-token", format!("there is no token `{id}`"));
        return Err(missing.help("`opcell token list` lists them").into());
    }
    terminal.note(&format!("token {id} is revoked"));
    Ok(Exit::Done)
}
