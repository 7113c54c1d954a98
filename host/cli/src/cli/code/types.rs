//! `opcell code types`: the declarations of tools that a model reads.

use crate::cli::{Exit, Failure, Global, Terminal, args::ProgramLanguage};
use clap::Args;
use opcell::report::printable;
use opcell_engine::ports::OpenSession;
use opcell_ir::{Diagnostic, ir::Session};
use opcell_types::CallContext;
use serde_json::json;

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

pub async fn types(global: &Global, args: &TypesArgs, terminal: &Terminal) -> Result<Exit, Failure> {
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
