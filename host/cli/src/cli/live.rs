//! Commands that last: their plugins are exchanged when a new version is accepted, and runs under way keep theirs.

use super::{Failure, Global, Terminal};
use opcell::{Config, Diagnostic, Exchange, LiveHost, Rejected};
use serde_json::json;

/// Exchanges plugins whenever what `read` reads, or a component, has changed. Says so on stderr, or with `lines` as
/// lines of JSON on stdout. Never returns.
pub async fn follow(
    live: &LiveHost,
    read: impl Fn() -> Result<Config, Failure> + Send + Sync + 'static,
    terminal: &Terminal,
    lines: bool,
) {
    live.follow(move || read().map_err(rejected), |exchange| say(&exchange, terminal, lines)).await;
}

/// Why a project cannot be used.
pub fn rejected(failure: Failure) -> Rejected {
    match failure {
        Failure::Input(rejected) => rejected,
        Failure::Other(error) => Rejected::plain(Diagnostic::error("project-file-unreadable", format!("{error:#}"))),
    }
}

/// Returns a function that reads the project of a command again. Consent is looked up, and asked of no one.
pub fn project(global: &Global) -> impl Fn() -> Result<Config, Failure> + Send + Sync + 'static {
    let global = global.clone();
    move || global.unasked()
}

/// A terminal that is gone stops no worker.
fn say(exchange: &Exchange, terminal: &Terminal, lines: bool) {
    match exchange {
        Exchange::Loaded { plugin, digest, before } => {
            tracing::info!(plugin, digest, before, "exchanged a plugin");
            if lines {
                let _ = terminal.line(&json!({"plugin": plugin, "digest": digest, "before": before}).to_string());
            } else if before.as_ref() == Some(digest) {
                terminal.note(&format!("plugin `{plugin}`: its grants, limits or settings have changed"));
            } else {
                let short = digest.get(..12).unwrap_or(digest);
                let runs = if before.is_some() { "; runs under way keep theirs" } else { "" };
                terminal.note(&format!("plugin `{plugin}`: a new version is loaded, {short}{runs}"));
            }
        }
        Exchange::Removed { plugin, before } => {
            tracing::info!(plugin, before, "removed a plugin");
            if lines {
                let _ = terminal.line(&json!({"plugin": plugin, "digest": null, "before": before}).to_string());
            } else {
                terminal.note(&format!("plugin `{plugin}` is removed; runs under way keep theirs"));
            }
        }
        Exchange::Refused { plugin, why } => {
            tracing::info!(plugin, why = %why, "a plugin stays as it is");
            if lines {
                let _ = terminal.line(&json!({"plugin": plugin, "refused": why.to_json()}).to_string());
            } else {
                terminal.note(&format!("plugin `{plugin}` stays as it is:"));
                terminal.warning(why);
            }
        }
        Exchange::Accepted { server } => {
            tracing::info!(server, "the tools of an MCP server were accepted");
            if lines {
                let _ = terminal.line(&json!({"server": server, "accepted": true}).to_string());
            } else {
                terminal.note(&format!("MCP server `{server}`: its tools are used as they were accepted now"));
            }
        }
        Exchange::Unreadable { why } => {
            tracing::info!(why = %why, "the project file cannot be used");
            if lines {
                let _ = terminal.line(&json!({"refused": why.to_json()}).to_string());
            } else {
                terminal.note("the project file cannot be used, and every plugin stays as it is:");
                terminal.warning(why);
            }
        }
        _ => {}
    }
}
