//! `opcell code`: programs, each in a cell of the plugin for their language.

mod install;
mod repl;
mod replay;

use super::{Exit, Failure, Global, Terminal, host, input, op};
use clap::{Args, Subcommand, ValueEnum};
use opcell::{
    Capability, Grant, Host, PluginConfig, Remedy, builtin, config::Config, document, places::Places, remedy,
    report::printable, services::HTTP_FETCH,
};
use opcell_engine::ports::OpenSession;
use opcell_ir::{
    Diagnostic,
    ir::{CodeMode, Session},
};
use opcell_types::{CallContext, Value};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The operations of the plugins.
const RUN_JAVASCRIPT: &str = "code/run";
const RUN_PYTHON: &str = "python/run";

/// Bytes of a program that are read; arguments of a call may have less.
const MAX_SOURCE: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub enum CodeCommand {
    /// Run a program in JavaScript or Python and print its result.
    Run(RunArgs),
    /// Write a program in JavaScript or Python line by line.
    ///
    /// Each line runs when it is complete, and prints its value. All lines are one program: it runs again for each line,
    /// with the recorded answers of its calls, and makes no call twice. A line that fails is left out of it.
    Repl(repl::ReplArgs),
    /// Build the runtime of a language that is not part of this command.
    Install(install::InstallArgs),
    /// Print the declarations of tools that a model reads before it writes a program.
    ///
    /// Starts the MCP servers that have the tools.
    Types(TypesArgs),
}

#[derive(Debug, Args)]
pub struct TypesArgs {
    /// Tool that the session declares (repeatable). Without it, the tools of sessions that declare none.
    #[arg(long, value_name = "TOOL")]
    tool: Vec<String>,
    /// Session profile of the project.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Language of the programs.
    #[arg(long, value_name = "LANG", default_value = "javascript")]
    language: ProgramLanguage,
}

/// A language of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgramLanguage {
    Javascript,
    Python,
}

impl ProgramLanguage {
    fn mode(self) -> CodeMode {
        match self {
            Self::Javascript => CodeMode::Javascript,
            Self::Python => CodeMode::Python,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Javascript => "JavaScript",
            Self::Python => "Python",
        }
    }

    /// The operation that runs a program, with its arguments.
    fn call(self, source: String, input: Value) -> (&'static str, Value) {
        let source = [("source", Value::from(source)), ("input", input)];
        let (run, named) = match self {
            Self::Javascript => (RUN_JAVASCRIPT, Some(("language", Value::from("javascript")))),
            Self::Python => (RUN_PYTHON, None),
        };
        (run, Value::object(named.into_iter().chain(source)))
    }

    /// The plugin whose cells run its programs.
    fn plugin(self) -> &'static str {
        match self {
            Self::Javascript => builtin::CODE,
            Self::Python => builtin::PYTHON,
        }
    }
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// File of the program: the body of an async function, so that `await` and `return` are at its top level. A file
    /// `*.py` is in Python. With `--replay` it may be omitted: then the recorded program runs again.
    #[arg(required_unless_present = "replay")]
    file: Option<PathBuf>,
    /// Language of the program, whatever its file is called.
    #[arg(long, value_name = "LANG")]
    language: Option<ProgramLanguage>,
    /// Input of the program: JSON, `@FILE`, `-`, or text. The program reads it as `input`.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Tool of the project, or ID of an operation, that the program may call (repeatable). It may call those that the
    /// project grants the plugin `code` as well.
    #[arg(long, value_name = "TOOL")]
    grant: Vec<String>,
    #[command(flatten)]
    replay: replay::ReplayArgs,
}

pub async fn code(global: &Global, command: &CodeCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        CodeCommand::Run(args) => run(global, args, terminal).await,
        CodeCommand::Repl(args) => repl::repl(global, args, terminal).await,
        CodeCommand::Install(args) => install::install(args, terminal).await,
        CodeCommand::Types(args) => types(global, args, terminal).await,
    }
}

async fn types(global: &Global, args: &TypesArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.host(terminal).await?;
    let session = Session {
        tools: (!args.tool.is_empty()).then(|| args.tool.clone()),
        session_profile: args.profile.clone(),
        code: Some(args.language.mode()),
        ..Session::default()
    };
    let context = CallContext::default();
    let request = OpenSession { context, session, judge: false, engine_tools: Vec::new(), inherited: None };
    let declared = host.sessions().declarations(&request).await;
    let declared = declared.map_err(|failure| Diagnostic::error("session-failed-to-open", failure.message))?;
    if terminal.json {
        let bytes = declared.text.len();
        terminal.json(&json!({"declarations": declared.text, "bytes": bytes, "left-out": declared.left_out}))?;
    } else {
        terminal.line(&printable(&declared.text))?;
    }
    Ok(Exit::Done)
}

async fn run(global: &Global, args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let program = args.file.as_deref().map(|file| read(file, args.language)).transpose()?;
    let input = args.input.as_deref().map(input::value).transpose()?;
    let (Some((source, language)), Some(file), None) = (&program, &args.file, &args.replay.replay) else {
        return replay::replay(global, &args.replay, program, input, terminal).await;
    };
    let (source, language) = (source.clone(), *language);
    let (run, arguments) = language.call(source, input.unwrap_or(Value::Null));
    let (host, has_plugin) = ready(global, language, &args.grant, terminal).await?;
    let called = host.invoke(run, arguments).await;
    let result = |data: &Value| data.get("result").cloned().unwrap_or(Value::Null);
    let command = format!("opcell code run {}", remedy::shell_word(&file.display().to_string()));
    op::report(called, terminal, result, |remedy| advice(remedy, &command, has_plugin))
}

/// The program of a file, with its language.
fn read(file: &Path, language: Option<ProgramLanguage>) -> Result<(String, ProgramLanguage), Failure> {
    let unreadable = |message: String| Diagnostic::error("unreadable", format!("{}: {message}", file.display()));
    let source = document::read_bounded(file, MAX_SOURCE).map_err(unreadable)?;
    let source = String::from_utf8(source).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    let is_python = file.extension().is_some_and(|kind| kind == "py");
    let by_name = if is_python { ProgramLanguage::Python } else { ProgramLanguage::Javascript };
    Ok((source, language.unwrap_or(by_name)))
}

/// A host whose plugin for programs is granted these tools as well, and whether the project has the plugin itself.
async fn ready(
    global: &Global,
    language: ProgramLanguage,
    grants: &[String],
    terminal: &Terminal,
) -> Result<(Host, bool), Failure> {
    let config = global.trusted()?;
    let has_plugin = config.plugins.contains_key(language.plugin());
    let config = with_program(config, language, grants)?;
    let named = |name: &str| name == HTTP_FETCH || config.tools.contains_key(name);
    let operations: Vec<_> = grants.iter().filter(|name| !named(name)).collect();
    let host = host(config, terminal).await?;
    for name in operations {
        if host.catalog().find(name).is_err() {
            let message = format!("the project has no tool and no operation `{name}`");
            let help = "`opcell tools list` and `opcell op list` show what there is".to_owned();
            return Err(Diagnostic::error("unknown-capability", message).help(help).into());
        }
    }
    Ok((host, has_plugin))
}

/// The remedy of a denial of a program: a grant of the command for a tool, and for the rest one of the plugin, which
/// the project has to have first.
fn advice(remedy: &Remedy, ran: &str, has_plugin: bool) -> Option<String> {
    let command = remedy::render(remedy)?;
    match remedy {
        Remedy::Grant { plugin, capability: Capability::Tool, name, .. }
            if **plugin == *builtin::CODE || **plugin == *builtin::PYTHON =>
        {
            Some(format!("{ran} --grant {}", remedy::shell_word(name)))
        }
        remedy if !has_plugin && remedy.plugin() == Some(builtin::CODE) => {
            Some(format!("add `[plugins.code]` with `source = \"builtin:code\"` to opcell.toml, then: {command}"))
        }
        _ => Some(command),
    }
}

/// The project with the plugin, which is granted these tools besides what the project grants it.
fn with_program(mut config: Config, language: ProgramLanguage, tools: &[String]) -> Result<Config, Failure> {
    let name = language.plugin();
    let own = match config.plugins.shift_remove(name) {
        Some(plugin) if plugin.builtin_component().is_some() => Some(plugin),
        Some(plugin) => {
            let message = format!("the project's plugin `{}` is another one: {}", plugin.name, plugin.path.display());
            let help = "give that plugin another name in the project file";
            return Err(Diagnostic::error("duplicate-plugin", message).help(help).into());
        }
        None if language == ProgramLanguage::Python => Some(python()?),
        None => PluginConfig::builtin(name),
    };
    if let Some(plugin) = own {
        let plugin = tools.iter().fold(plugin, |plugin, tool| plugin.grant(Grant::tool(tool)));
        config.plugins.insert(name.to_owned(), plugin);
    }
    Ok(config)
}

/// The runtime for Python, which the user has installed.
fn python() -> Result<PluginConfig, Failure> {
    PluginConfig::python(&Places::of_user()).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Diagnostic::error("missing-runtime", "the runtime for Python is not installed")
            .help("`opcell code install python` builds it, once for all projects of this user")
            .into(),
        _ => Diagnostic::error("unreadable", format!("the runtime for Python cannot be read: {error}")).into(),
    })
}
