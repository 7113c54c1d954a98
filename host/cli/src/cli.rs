//! The `opcell` command: results on stdout, progress and findings on stderr.
//!
//! Exit codes: 0 done, 1 the run failed, 2 the input was wrong, 3 the run is suspended.

mod approve;
mod args;
mod audit;
mod bench;
mod chat;
mod check;
mod code;
mod compile;
mod complete;
mod completions;
mod consent;
#[cfg(feature = "server")]
mod content;
mod conversation;
mod doctor;
mod explain;
mod failure;
mod fill;
mod follow;
mod follow_up;
mod graph;
mod init;
mod input;
mod journal;
mod key;
mod lines;
mod live;
mod man;
mod mcp;
mod missing;
mod new;
mod new_file;
mod op;
mod passing;
mod plugin;
mod progress;
mod project;
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

use args::Global;
use clap::{
    CommandFactory as _, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use failure::{Exit, Failure};
use opcell::report::Rejected;
use project::{host, host_with, warn_of_skills};
use std::{process::ExitCode, time::Duration};
use terminal::Terminal;

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
    Mcp(mcp::McpCommand),
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
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of every command into a folder.
    Man(man::ManArgs),
    /// Measure what isolation costs on this machine: one operation natively, in the bare engine, in a cell, in a
    /// process.
    Bench(bench::BenchArgs),
    /// Run the built-in hostile plugins against this build and report what contained each.
    Selftest(selftest::SelftestArgs),
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
    match complete::answer(Cli::command) {
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
    audit::note(code, Cli::command);
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
        Command::Completions(args) => completions::completions(args),
        Command::Man(args) => man::man(args, Cli::command(), terminal),
        #[cfg(feature = "server")]
        Command::Mcp(args) => mcp::mcp(&cli.global, args, terminal).await,
        #[cfg(not(feature = "server"))]
        Command::Mcp(command) => mcp::servers(&cli.global, command, terminal).await,
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::serve(&cli.global, args, terminal).await,
        #[cfg(feature = "server")]
        Command::Token(command) => token::token(&cli.global, command, terminal),
        Command::Bench(args) => bench::bench(&cli.global, args, terminal).await,
        Command::Selftest(args) => selftest::selftest(args, terminal).await,
    }
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
