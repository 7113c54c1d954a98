//! `opcell plugin search`: a static index, by file or address.

use super::{Exit, Failure, Terminal, registry};
use clap::Args;
use opcell::document;
use opcell_ir::Diagnostic;
use opcell_registry::{
    client::Client,
    search::{Index, MAX_INDEX},
};
use opcell_types::text::one_line;
use serde_json::json;
use std::path::Path;

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words that the name or the summary must contain. Without any, everything is listed.
    words: Vec<String>,
    /// The index: an `https://` address, or a file; OPCELL_INDEX if omitted.
    #[arg(long, value_name = "INDEX")]
    index: Option<String>,
}

pub async fn search(args: &SearchArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let named = args.index.clone().or_else(|| std::env::var("OPCELL_INDEX").ok());
    let Some(index) = named else {
        let finding = Diagnostic::error("no-index", "no index of plugins is named, and there is no default one");
        return Err(finding.help("name one with `--index https://…`, a file, or OPCELL_INDEX").into());
    };
    let wrong = |what: String| Diagnostic::error("index-unreadable", format!("{index}: {what}"));
    let bytes = if index.contains("://") {
        Client::new().read(&index, MAX_INDEX).await.map_err(|error| registry::wrong(&error))?
    } else {
        document::read_bounded(Path::new(&index), MAX_INDEX).map_err(wrong)?
    };
    let list = Index::parse(&bytes).map_err(wrong)?;
    let found = list.search(&args.words);
    if terminal.json {
        terminal.json(&json!(found))?;
        return Ok(Exit::Done);
    }
    for entry in &found {
        let line = one_line(&format!("{}  {}  {}", entry.name, entry.source, entry.summary), 300);
        terminal.line(&opcell::report::printable(&line))?;
    }
    match found.is_empty() {
        true => terminal.note("nothing found"),
        false => terminal
            .note("an index is not checked: `opcell plugin add SOURCE` shows who signed a plugin and what it asks for"),
    }
    Ok(Exit::Done)
}
