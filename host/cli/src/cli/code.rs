//! `opcell code`: programs, each in a cell of the plugin that is part of Opcell.

use super::{Exit, Failure, Global, Terminal, host, input, op};
use clap::{Args, Subcommand};
use opcell::{
    Capability, Grant, PluginConfig, Remedy, builtin, config::Config, document, remedy, report::printable,
    services::HTTP_FETCH,
};
use opcell_engine::ports::OpenSession;
use opcell_ir::{
    Diagnostic,
    ir::{CodeMode, Session},
};
use opcell_types::{CallContext, Value};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The operation of the plugin.
const RUN: &str = "code/run";

/// Bytes of a program that are read; arguments of a call may have less.
const MAX_SOURCE: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub enum CodeCommand {
    /// Run a program in JavaScript and print its result.
    Run(RunArgs),
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
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// File of the program: the body of an async function, so that `await` and `return` are at its top level.
    file: PathBuf,
    /// Input of the program: JSON, `@FILE`, `-`, or text. The program reads it as `input`.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Tool of the project, or ID of an operation, that the program may call (repeatable). It may call those that the
    /// project grants the plugin `code` as well.
    #[arg(long, value_name = "TOOL")]
    grant: Vec<String>,
}

pub async fn code(global: &Global, command: &CodeCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        CodeCommand::Run(args) => run(global, args, terminal).await,
        CodeCommand::Types(args) => types(global, args, terminal).await,
    }
}

async fn types(global: &Global, args: &TypesArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.host(terminal).await?;
    let session = Session {
        tools: (!args.tool.is_empty()).then(|| args.tool.clone()),
        session_profile: args.profile.clone(),
        code: Some(CodeMode::Javascript),
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
    let unreadable = |message: String| Diagnostic::error("unreadable", format!("{}: {message}", args.file.display()));
    let source = document::read_bounded(&args.file, MAX_SOURCE).map_err(unreadable)?;
    let source = String::from_utf8(source).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    let input = args.input.as_deref().map(input::value).transpose()?;
    let arguments = [
        ("language", Value::from("javascript")),
        ("source", Value::from(source)),
        ("input", input.unwrap_or(Value::Null)),
    ];
    let config = global.trusted()?;
    let has_plugin = config.plugins.contains_key(builtin::CODE);
    let config = with_program(config, &args.grant)?;
    let named = |name: &str| name == HTTP_FETCH || config.tools.contains_key(name);
    let operations: Vec<_> = args.grant.iter().filter(|name| !named(name)).collect();
    let host = host(config, terminal).await?;
    for name in operations {
        if host.catalog().find(name).is_err() {
            let message = format!("the project has no tool and no operation `{name}`");
            let help = "`opcell tools list` and `opcell op list` show what there is".to_owned();
            return Err(Diagnostic::error("unknown-capability", message).help(help).into());
        }
    }
    let called = host.invoke(RUN, Value::object(arguments)).await;
    let result = |data: &Value| data.get("result").cloned().unwrap_or(Value::Null);
    op::report(called, terminal, result, |remedy| advice(remedy, &args.file, has_plugin))
}

/// The remedy of a denial of a program: a grant of the command for a tool, and for the rest one of the plugin, which
/// the project has to have first.
fn advice(remedy: &Remedy, file: &Path, has_plugin: bool) -> Option<String> {
    let command = remedy::render(remedy)?;
    match remedy {
        Remedy::Grant { plugin, capability: Capability::Tool, name, .. } if **plugin == *builtin::CODE => {
            let file = remedy::shell_word(&file.display().to_string());
            Some(format!("opcell code run {file} --grant {}", remedy::shell_word(name)))
        }
        remedy if !has_plugin && remedy.plugin() == Some(builtin::CODE) => {
            Some(format!("add `[plugins.code]` with `source = \"builtin:code\"` to opcell.toml, then: {command}"))
        }
        _ => Some(command),
    }
}

/// The project with the plugin, which is granted these tools besides what the project grants it.
fn with_program(mut config: Config, tools: &[String]) -> Result<Config, Failure> {
    let own = match config.plugins.shift_remove(builtin::CODE) {
        Some(plugin) if plugin.builtin_component().is_some() => Some(plugin),
        Some(plugin) => {
            let message = format!("the project's plugin `{}` is another one: {}", plugin.name, plugin.path.display());
            let help = "give that plugin another name in the project file";
            return Err(Diagnostic::error("duplicate-plugin", message).help(help).into());
        }
        None => PluginConfig::builtin(builtin::CODE),
    };
    if let Some(plugin) = own {
        let plugin = tools.iter().fold(plugin, |plugin, tool| plugin.grant(Grant::tool(tool)));
        config.plugins.insert(builtin::CODE.to_owned(), plugin);
    }
    Ok(config)
}
