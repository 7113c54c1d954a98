//! `opcell plugin dev`: the cases of a plugin, again on every change.

use super::test::{TestArgs, test};
use crate::cli::{Exit, Failure, Global, Terminal};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DevArgs {
    /// The plugin's folder; this one if omitted.
    path: Option<PathBuf>,
    /// Run only the cases whose name contains this.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
}

/// Tests as `test --watch` does.
pub(super) async fn dev(global: &Global, args: &DevArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    test(global, &TestArgs::watching(args.path.clone(), args.case.clone()), terminal).await
}
