//! `opcell code run`: a program, in a cell of the plugin for its language.

use super::{
    program::{advice, ready},
    replay,
};
use crate::cli::{Exit, Failure, Global, Terminal, args::ProgramLanguage, input, op::invoke::report};
use clap::Args;
use opcell::{document, remedy};
use opcell_ir::Diagnostic;
use opcell_types::Value;
use std::path::{Path, PathBuf};

/// Bytes of a program that are read; arguments of a call may have less.
const MAX_SOURCE: u64 = 16 << 20;

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

pub async fn run(global: &Global, args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
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
    report(called, terminal, result, |remedy| advice(remedy, &command, has_plugin))
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
