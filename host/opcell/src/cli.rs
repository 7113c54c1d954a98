//! The `opcell` command: results on stdout, progress and findings on stderr.
//!
//! Exit codes: 0 done, 1 the run failed, 2 the input was wrong.

mod check;
mod compile;
mod input;
mod op;
mod plugin;
mod progress;
mod prompt;
mod run;
mod selftest;
mod terminal;

use crate::{
    config::Config,
    host::{Host, HostError, StartError},
    report::Rejected,
};
use clap::{Args, Parser, Subcommand};
use opcell_engine::RunError;
use opcell_workflow::Diagnostic;
use std::{path::PathBuf, process::ExitCode};
use terminal::Terminal;

/// Runs agent workflows whose operations are sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "opcell", version, about, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
struct Global {
    /// The project file; without it, `opcell.toml` here or in the nearest directory above.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Takes a grant of the project file away for this command: `PLUGIN:KIND[:NAME]`, such as `repo:files`.
    #[arg(long, global = true, value_name = "GRANT")]
    without_grant: Vec<String>,
    /// Writes the result as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Writes results and errors only.
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a workflow and prints its result.
    Run(run::RunArgs),
    /// Checks documents without running them: one verdict per file.
    Check(check::CheckArgs),
    /// Compiles a document and prints the execution model.
    Compile(compile::CompileArgs),
    /// Draws a document's steps and routes as a Mermaid flowchart.
    Graph(compile::CompileArgs),
    /// Shows what the model of each session step and LLM judge would be told, by section.
    Prompt(prompt::PromptArgs),
    /// Shows and changes what plugins may reach.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Lists and calls single operations.
    #[command(subcommand)]
    Op(op::OpCommand),
    /// Runs every known attack against this build and tells what contained it.
    Selftest(selftest::SelftestArgs),
    /// Compiles one component under resource limits; started by the sandbox only.
    #[command(hide = true, name = "compile-child")]
    CompileChild,
}

/// Why a command did not do its work.
#[derive(Debug)]
enum Failure {
    /// The input was wrong.
    Input(Rejected),
    /// Everything else: a pipe that broke, a thread that did not start.
    Other(anyhow::Error),
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Self {
        Self::Input(rejected)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Input(Rejected::plain(diagnostic))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Rejected(rejected) => Self::Input(rejected),
            HostError::Sandbox(error) => Self::Other(error.into()),
            HostError::Http(error) => Self::Other(error.into()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => Self::Input(rejected),
            StartError::Run(error) => error.into(),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Other(error.into())
    }
}

/// How a command that did its work ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    RunFailed,
    InputWrong,
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    if let Command::CompileChild = cli.command {
        return opcell_sandbox::compile::child_main();
    }
    let terminal = Terminal::new(cli.global.json, cli.global.quiet);
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(dispatch(&cli, &terminal)));
    match outcome {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::RunFailed) => ExitCode::from(1),
        Ok(Exit::InputWrong) => ExitCode::from(2),
        Err(Failure::Input(rejected)) => {
            terminal.rejected(&rejected);
            ExitCode::from(2)
        }
        // A reader that has seen enough (`opcell … | head`) is no failure worth a message.
        Err(Failure::Other(error)) if is_broken_pipe(&error) => ExitCode::from(1),
        Err(Failure::Other(error)) => {
            terminal.failure(&error);
            ExitCode::from(1)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

async fn dispatch(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Run(args) => run::run(&cli.global, args, terminal).await,
        Command::Check(args) => check::check(&cli.global, args, terminal).await,
        Command::Compile(args) => compile::compile(args, terminal),
        Command::Graph(args) => compile::graph(args, terminal),
        Command::Prompt(args) => prompt::prompt(&cli.global, args, terminal).await,
        Command::Plugin(command) => plugin::plugin(&cli.global, command, terminal).await,
        Command::Op(command) => op::op(&cli.global, command, terminal).await,
        Command::Selftest(args) => selftest::selftest(args, terminal).await,
        Command::CompileChild => Ok(Exit::Done),
    }
}

impl Global {
    /// Whether there is a project file.
    fn has_project(&self) -> Result<bool, Failure> {
        Ok(self.config.is_some() || Config::find(&std::env::current_dir()?).is_some())
    }

    /// The project: the named file, the found one, or an empty project here.
    fn config(&self) -> Result<Config, Failure> {
        let here = std::env::current_dir()?;
        let mut config = match self.config.clone().or_else(|| Config::find(&here)) {
            Some(file) => Config::load(&file)?,
            None => Config::empty(here),
        };
        for grant in &self.without_grant {
            config.withdraw(grant).map_err(|message| Diagnostic::error("unknown-grant", message))?;
        }
        Ok(config)
    }

    /// The project's host, its plugins loaded.
    async fn host(&self) -> Result<Host, Failure> {
        Ok(Host::builder().config(self.config()?).build().await?)
    }
}
