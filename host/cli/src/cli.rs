//! The `opcell` command: results on stdout, progress and findings on stderr.
//!
//! Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 the run is suspended.

mod approve;
mod audit;
mod bench;
mod chat;
mod check;
mod code;
mod compile;
mod complete;
mod doctor;
mod explain;
mod fill;
mod follow;
mod follow_up;
mod graph;
mod init;
mod input;
mod key;
mod live;
mod manual;
#[cfg(feature = "server")]
mod mcp;
mod missing;
mod new;
mod op;
mod passing;
mod plugin;
mod progress;
mod prompt;
mod reasons;
mod receipts;
#[cfg(test)]
mod reference;
mod run;
mod runs;
mod schema;
mod selftest;
#[cfg(feature = "server")]
mod serve;
#[cfg(unix)]
mod service;
mod skill;
mod stop;
mod stream;
mod terminal;
#[cfg(feature = "server")]
mod token;
mod tools;
mod triggers;
mod trust;
mod units;
mod worker;

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use opcell::{
    config::{Config, lock::Lock},
    consent,
    host::{Host, HostBuilder, HostError, NewPermissions, StartError, UnusablePlugins},
    library::{folders_of_project, folders_of_user},
    report::Rejected,
};
use opcell_engine::RunError;
use opcell_ir::Diagnostic;
use opcell_journal::JournalError;
use opcell_types::files::leads_out;
use std::{path::PathBuf, process::ExitCode, time::Duration};
use terminal::{Color, LogFormat, LogLevel, Terminal};

/// The end of the help.
const READ_ON: &str = "`opcell init --example notes` makes a project that runs as it is. `opcell explain CODE` says what an \
error code means and what to do.\nDocumentation: https://github.com/opcell/opcell/tree/main/docs";

/// Run agent workflows whose operations are sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "opcell", version, about, max_term_width = 100, after_help = READ_ON)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// Project file; by default `opcell.toml` in this directory or the nearest one above.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Withdraw a grant of the project file for this command: `PLUGIN:KIND[:NAME]`, such as `repo:files`.
    #[arg(long, global = true, value_name = "GRANT")]
    without_grant: Vec<String>,
    /// Allow what the project asks for, for this command, if its list has this digest (see `opcell trust --show`).
    /// OPCELL_TRUST does the same for several digests, separated by spaces.
    #[arg(long, global = true, value_name = "DIGEST")]
    trust: Vec<String>,
    /// Load only plugins that `opcell.lock` holds with their digest, and do not write it: for CI.
    #[arg(long, global = true)]
    locked: bool,
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Print results and errors only.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Print every call of a plugin or a tool, even if there were many.
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Level of the log on stderr; RUST_LOG is more precise, such as `warn,opcell_engine=debug`.
    #[arg(long, global = true, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Format of the log.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Use of colours. `auto`: on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow and print its result.
    #[command(
        after_help = "Read on: Input, waiting runs and exit codes: docs/how-to/keep-runs.md and docs/reference.md; models: docs/how-to/models.md."
    )]
    Run(run::RunArgs),
    /// Chat with a conversational workflow, such as a PromptPack.
    Chat(chat::ChatArgs),
    /// Inspect, resume and control the runs of a journal.
    Runs(runs::RunsArgs),
    /// Drive all runnable runs of a journal, with bounded concurrency and fair scheduling.
    Worker(worker::WorkerArgs),
    /// Create a project: a project file, a first workflow, and a journal for its runs.
    Init(init::InitArgs),
    /// Create a workflow from a template.
    #[command(subcommand)]
    New(new::NewCommand),
    /// Check documents without running them.
    #[command(
        after_help = "Read on: The languages: docs/psi.md, docs/workflowskill.md, docs/promptpack.md. Checking in CI: docs/how-to/ci.md. A code of a finding: `opcell explain CODE`."
    )]
    Check(check::CheckArgs),
    /// Compile a document and print its execution model (`workflow-ir/v1`).
    Compile(compile::CompileArgs),
    /// Print the JSON Schema of a format.
    Schema(schema::SchemaArgs),
    /// Draw the steps, judges and routes of a workflow as Mermaid, DOT or SVG.
    Graph(graph::GraphArgs),
    /// Show the prompt that each session step and LLM judge would send, section by section.
    #[command(
        after_help = "Read on: The parts of a prompt: docs/psi.md, *Session settings*. Models: docs/how-to/models.md. Caching: docs/how-to/prompt-caching.md."
    )]
    Prompt(prompt::PromptArgs),
    /// Allow what a project asks for outside its folder, show it, or revoke consent.
    Trust(trust::TrustArgs),
    /// Inspect plugins and change what they may reach.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Create and list the keys that sign plugins.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// List and invoke single operations.
    #[command(subcommand)]
    Op(op::OpCommand),
    /// Run programs in cells, with the tools that they are granted.
    #[command(subcommand)]
    Code(code::CodeCommand),
    /// List the tools that documents may call.
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    /// Offer operations and workflows as MCP tools over stdio, or inspect the MCP servers of the project.
    #[cfg(feature = "server")]
    Mcp(mcp::McpArgs),
    /// Inspect the MCP servers of the project.
    #[cfg(not(feature = "server"))]
    #[command(subcommand)]
    Mcp(tools::McpCommand),
    /// Serve the HTTP API, and drive the runs of its journal.
    #[cfg(feature = "server")]
    Serve(serve::ServeArgs),
    /// Write the systemd unit of the server or a worker, and run commands as its user.
    #[cfg(unix)]
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// List the schedules and webhooks that start runs while `opcell serve` runs, and when they are due.
    Triggers,
    /// Create, list and revoke the tokens of `opcell serve`.
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Check what Opcell needs of this machine, and print what is missing and how to fix it.
    Doctor,
    /// Explain an error code: its meaning, the messages that it comes with, and what to do.
    Explain(explain::ExplainArgs),
    /// Print a completion script for a shell.
    Completions(manual::CompletionsArgs),
    /// Print the manual page, or write the pages of every command into a folder.
    Man(manual::ManArgs),
    /// Measure what isolation costs on this machine: one operation natively, in the bare engine, in a cell, in a
    /// process.
    Bench(bench::BenchArgs),
    /// Run the built-in hostile plugins against this build and report what contained each.
    Selftest(selftest::SelftestArgs),
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
            HostError::Plugin(error) => Self::Input(error.to_rejected()),
            HostError::Journal(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => Self::Input(rejected),
            StartError::Run(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

impl From<RunError> for Failure {
    /// Maps an error that the operator can correct to wrong input; a failure of the storage is not.
    fn from(error: RunError) -> Self {
        let found = Diagnostic::error(error.kind(), error.to_string());
        match error {
            RunError::AlreadyAnswered { ref run, .. } => {
                found.help(format!("to stop the run: opcell runs cancel {run}")).into()
            }
            RunError::Journal(ref refused) => match refused.as_ref() {
                JournalError::Fenced { .. } | JournalError::OutOfOrder { .. } => Self::Other(error.into()),
                JournalError::Storage(_) => Self::Other(anyhow::anyhow!("{}: {refused}", refused.kind())),
                // Without the words that the run stopped: mostly none was under way.
                refused => {
                    let found = Diagnostic::error(refused.kind(), refused.to_string());
                    match damage_help(refused) {
                        Some(help) => found.help(help).into(),
                        None => found.into(),
                    }
                }
            },
            RunError::ShuttingDown | RunError::TooMuch { .. } | RunError::Gone(_) => Self::Other(error.into()),
            _ => found.into(),
        }
    }
}

/// The command that helps with a damaged journal.
fn damage_help(error: &JournalError) -> Option<String> {
    match error {
        JournalError::Torn { run, .. } => Some(format!(
            "`opcell runs resume {run}` cuts what is damaged and continues; `opcell runs restore FILE --replace` brings a \
             backup back"
        )),
        JournalError::Broken { .. } => {
            Some("`opcell runs restore FILE --replace` brings a backup of the journal back".to_owned())
        }
        JournalError::Corrupt { .. } => {
            Some("`opcell runs restore FILE --replace` puts a backup (`opcell runs backup`) in its place".to_owned())
        }
        _ => None,
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        RunError::from(error).into()
    }
}

/// The end of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done,
    RunFailed,
    InputWrong,
    /// The run is suspended.
    Waiting,
}

/// Says how a value is given to an option whose value may be left out.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let invalid = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    // The word after `--journal` was taken for an argument. The surplus argument is that word, or the first one after it
    // that is not an option.
    let surplus = |rest: &[String]| rest.iter().find(|word| !word.starts_with('-')) == invalid.as_ref();
    let follows = |at: &usize| match words.get(*at..).unwrap_or_default() {
        [option, value, rest @ ..] => option == "--journal" && (Some(value) == invalid.as_ref() || surplus(rest)),
        _ => false,
    };
    let runs = words
        .iter()
        .skip(1)
        .find(|word| !word.starts_with('-'))
        .is_some_and(|command| ["run", "chat"].contains(&command.as_str()));
    if let Some(value) = (0..words.len()).find(follows).filter(|_| runs).and_then(|at| words.get(at + 1)) {
        let tip = format!("the value follows an equals sign: `--journal={value}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The longest that what is still at work when a command is done keeps the process: it may read without end what
/// another side sends.
const MAX_SHUTDOWN: Duration = Duration::from_secs(5);

/// Does the work of a command, then abandons what does not end in time.
fn to_the_end<T>(runtime: tokio::runtime::Runtime, work: impl Future<Output = T>, patience: Duration) -> T {
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(patience);
    done
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // In a child that was started to compile a plugin, this is all that happens.
    opcell::prepare();
    follow_up::install();
    // Measured from outside, as a program that does nothing else: before anything of the command line is set up.
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(crate::bench::peer::NATIVE_ECHO) {
        return ExitCode::from(u8::from(!crate::bench::peer::native_echo_main(words.next().is_some())));
    }
    match complete::answer() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => {
            eprintln!("{}", error.to_string().trim_end());
            return ExitCode::from(2);
        }
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = with_tip(error).print();
            return ExitCode::from(code);
        }
    };
    opcell::lineage::adopt_orphans();
    let terminal = Terminal::new(&cli.global);
    if let Some((_, columns)) =
        console::Term::stderr().size_checked().or_else(|| console::Term::stdout().size_checked())
    {
        opcell::report::set_width(columns.into());
    }
    if let Err(finding) = terminal.show_log(&cli.global) {
        terminal.rejected(&Rejected::plain(*finding));
        return ExitCode::from(2);
    }
    let outcome = opcell::host::runtime()
        .map_err(Failure::from)
        .and_then(|runtime| to_the_end(runtime, dispatch(&cli, &terminal), MAX_SHUTDOWN));
    let code = match outcome {
        Ok(Exit::Done) => 0,
        Ok(Exit::RunFailed) => 1,
        Ok(Exit::InputWrong) => 2,
        Ok(Exit::Waiting) => 3,
        Err(Failure::Input(rejected)) => {
            terminal.rejected(&rejected);
            2
        }
        // A reader that has seen enough (`opcell … | head`) is not worth a message.
        Err(Failure::Other(error)) if is_broken_pipe(&error) => 1,
        Err(Failure::Other(error)) => {
            terminal.failure(&error);
            1
        }
    };
    audit::note(code);
    ExitCode::from(code)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

async fn dispatch(cli: &Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Chat(args) => chat::chat(&cli.global, args, terminal).await,
        Command::Run(args) => run::run(&cli.global, args, terminal).await,
        Command::Runs(args) => runs::runs(&cli.global, args, terminal).await,
        Command::Worker(args) => worker::worker(&cli.global, args, terminal).await,
        Command::Init(args) => init::init(args, terminal),
        Command::New(command) => new::new(command, terminal),
        Command::Check(args) => check::check(&cli.global, args, terminal).await,
        Command::Compile(args) => compile::compile(args, terminal),
        Command::Schema(args) => schema::schema(args, terminal),
        Command::Graph(args) => graph::graph(&cli.global, args, terminal).await,
        Command::Prompt(args) => prompt::prompt(&cli.global, args, terminal).await,
        Command::Trust(args) => trust::trust(&cli.global, args, terminal),
        Command::Plugin(command) => plugin::plugin(&cli.global, command, terminal).await,
        Command::Key(command) => key::key(command, terminal),
        Command::Op(command) => op::op(&cli.global, command, terminal).await,
        Command::Code(command) => code::code(&cli.global, command, terminal).await,
        Command::Tools(command) => tools::tools(&cli.global, command, terminal).await,
        Command::Triggers => triggers::triggers(&cli.global, terminal),
        #[cfg(unix)]
        Command::Service(command) => service::service(command, terminal),
        Command::Doctor => doctor::doctor(&cli.global, terminal),
        Command::Explain(args) => explain::explain(args, terminal),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args, terminal),
        #[cfg(feature = "server")]
        Command::Mcp(args) => mcp::mcp(&cli.global, args, terminal).await,
        #[cfg(not(feature = "server"))]
        Command::Mcp(command) => tools::mcp(&cli.global, command, terminal).await,
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::serve(&cli.global, args, terminal).await,
        #[cfg(feature = "server")]
        Command::Token(command) => token::token(&cli.global, command, terminal),
        Command::Bench(args) => bench::bench(&cli.global, args, terminal).await,
        Command::Selftest(args) => selftest::selftest(args, terminal).await,
    }
}

impl Global {
    /// Returns `true` if there is a project file.
    fn has_project(&self) -> Result<bool, Failure> {
        Ok(self.config.is_some() || Config::find(&std::env::current_dir()?).is_some())
    }

    /// The project file as it is written: the named one, or the found one if it is this user's own.
    fn written(&self) -> Result<Option<Config>, Failure> {
        let file = match &self.config {
            Some(file) => Some(file.clone()),
            None => Config::find(&std::env::current_dir()?),
        };
        let Some(file) = file else { return Ok(None) };
        if self.config.is_none() {
            consent::check_owner(&file)?;
        }
        Ok(Some(Config::load(&file)?))
    }

    /// The project for looking at: what reaches outside of its folder is there only if its user consented.
    fn config(&self) -> Result<Config, Failure> {
        let Some(config) = self.written()? else { return self.complete(Config::empty(std::env::current_dir()?)) };
        let asked = trust::Asked::of(self, &config)?;
        let config = if asked.is_allowed() { config } else { config.without_reach() };
        self.complete(config)
    }

    /// The project as its file says, for showing what it says. Nothing of it is used.
    fn proposed(&self) -> Result<Config, Failure> {
        let config = self.written()?;
        self.complete(config.map_or_else(|| std::env::current_dir().map(Config::empty), Ok)?)
    }

    /// The project for running. Asks its user where consent is needed and there is a terminal.
    fn trusted(&self) -> Result<Config, Failure> {
        self.if_allowed(trust::Asked::require)
    }

    /// The project for running, read again in the middle of a command that asks no one.
    fn unasked(&self) -> Result<Config, Failure> {
        self.if_allowed(|asked| asked.refuse_unless_allowed())
    }

    fn if_allowed(&self, require: impl Fn(trust::Asked) -> Result<(), Failure>) -> Result<Config, Failure> {
        let Some(config) = self.written()? else { return self.complete(Config::empty(std::env::current_dir()?)) };
        require(trust::Asked::of(self, &config)?)?;
        self.complete(config)
    }

    /// The requests of the project, if its user consented to them.
    fn consented(&self, config: &Config) -> Result<Option<consent::Requests>, Failure> {
        let asked = trust::Asked::of(self, config)?;
        Ok(asked.is_allowed().then(|| consent::Requests::of(config)))
    }

    /// Remembers consent to what a command has just written at its user's word, beside what there was consent to.
    fn consent(
        &self,
        config: &Config,
        before: &consent::Requests,
        also: impl Fn(&consent::Request) -> bool,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        if !trust::Asked::of(self, config)?.remember(before, also)? {
            terminal.note(
                "the project has changed meanwhile: what it asks for now is not allowed; see `opcell trust --show`",
            );
        }
        Ok(())
    }

    fn complete(&self, mut config: Config) -> Result<Config, Failure> {
        config.locked = self.locked;
        if self.locked {
            config.lock = config.lock.map(Lock::frozen);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        // In a folder that all may write, `.opcell` may be anybody's, and in a checkout a link to the user's other
        // files.
        let is_own = |folder: &PathBuf| {
            let in_project = folder.starts_with(&config.root) && home.as_ref() != Some(&config.root);
            let elsewhere = leads_out(folder, &config.root).filter(|_| in_project && folder.is_dir());
            if let Some(elsewhere) = &elsewhere {
                let (folder, elsewhere) = (folder.display(), elsewhere.display());
                tracing::warn!(
                    "{folder} is a link to {elsewhere} and is not read: name that in `workflows` of opcell.toml"
                );
            }
            folder.is_dir() && consent::is_own(folder) && elsewhere.is_none()
        };
        let of_user = home.as_deref().map(folders_of_user).unwrap_or_default();
        config.default_workflows = of_user.into_iter().filter(is_own).collect();
        config.workflows.splice(0..0, folders_of_project(&config.root).into_iter().filter(is_own));
        for grant in &self.without_grant {
            config.withdraw(grant).map_err(|message| Diagnostic::error("unknown-grant", message))?;
        }
        Ok(config)
    }

    /// The project's host, its plugins loaded.
    async fn host(&self, terminal: &Terminal) -> Result<Host, Failure> {
        host(self.trusted()?, terminal).await
    }

    /// A host for looking at the project: it has no journal, and does without what its user did not consent to.
    async fn looking(&self, terminal: &Terminal) -> Result<Host, Failure> {
        let mut config = self.config()?;
        config.journal = None;
        config.lock = config.lock.map(Lock::frozen);
        host(config, terminal).await
    }
}

/// A project's host. A plugin that asks for more than was agreed to, or whose component is missing or unusable, is left
/// out with a warning: whatever does not need it continues.
async fn host(config: Config, terminal: &Terminal) -> Result<Host, Failure> {
    host_with(config, |builder| builder.unusable_plugins(UnusablePlugins::LeaveOut), terminal).await
}

/// Warns of what is odd about the project's skills, once and in few lines: for commands whose models are offered them.
fn warn_of_skills(host: &Host) {
    for line in host.skills().summary() {
        tracing::warn!("{line}; `opcell check` lists all findings");
    }
}

/// The same, with more than its project says. Unless `with` says otherwise, an unusable plugin is an error: a server or
/// a worker that starts without it would fail runs that no one watches.
async fn host_with(
    config: Config,
    with: impl FnOnce(HostBuilder) -> HostBuilder,
    terminal: &Terminal,
) -> Result<Host, Failure> {
    let host = with(Host::builder().config(config).new_permissions(NewPermissions::LeaveOut)).build().await?;
    for left_out in host.left_out() {
        terminal.warning(&left_out.to_rejected());
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::to_the_end;
    use std::{sync::mpsc, time::Duration};

    #[test]
    fn what_does_not_end_does_not_keep_a_command() {
        // Open until the test has seen the command end.
        let (end, never) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let work = async {
            drop(tokio::spawn(async move {
                let _ = began.send(());
                let _ = never.recv();
            }));
            begun.recv().is_ok()
        };
        assert!(runtime.is_ok_and(|runtime| to_the_end(runtime, work, Duration::ZERO)));
        drop(end);
    }
}
