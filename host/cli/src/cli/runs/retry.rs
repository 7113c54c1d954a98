//! `opcell runs retry`: a new run that makes the failed call of another again.

use super::{
    Exit, Failure, Terminal,
    fork::{forked, source},
};
use crate::cli::args::NewRunOptions;
use clap::Args;
use opcell::config::Config;

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Step to begin again with, as it was last entered. Defaults to the call with which the run failed.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    options: NewRunOptions,
}

/// A run that has ended stays what it is: a fork makes the call again.
pub async fn retry(config: Config, args: &RetryArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let source = source(&host, &args.run, terminal).await?;
    let at = host.engine().retry_point(&source, args.step.as_deref()).await?;
    forked(&host, &source, at, &args.options, terminal).await
}
