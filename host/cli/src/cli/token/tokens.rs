//! The store of the tokens of a project.

use crate::cli::{Failure, serve};
use opcell::Config;
use opcell_ir::Diagnostic;
use opcell_server::access::tokens::TokenStore;

pub(super) fn store(config: &Config) -> Result<TokenStore, Failure> {
    serve::token_store(config).ok_or_else(|| {
        Diagnostic::error(
            "no-state-directory",
            "no directory to keep tokens in: neither HOME nor XDG_STATE_HOME is set",
        )
        .help("set one of them to an absolute path")
        .into()
    })
}
