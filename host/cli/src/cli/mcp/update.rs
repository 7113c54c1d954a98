//! `opcell mcp update`: the tools of servers as they are now become those of the lock.

use super::accepted::{asked, not_started, texts_of};
use crate::cli::{Exit, Failure, Global, Terminal, missing};
use clap::Args;
use opcell::{config::lock::LockedServer, places::Places};
use opcell_ir::Diagnostic;
use serde_json::json;

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The server's name in the project; without it, every server.
    server: Option<String>,
}

pub(super) async fn update(global: &Global, args: &UpdateArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let (config, servers) = asked(global, args.server.as_deref(), terminal).await?;
    let lock = missing::lock(&config)?;
    let (places, mut accepted, mut broken) = (Places::of_user(), Vec::new(), false);
    for server in &servers {
        if let Some(Failure::Input(rejected)) = not_started(server) {
            terminal.rejected(&rejected);
            broken = true;
            continue;
        }
        let now = texts_of(server);
        let digests = now.iter().map(|(name, tool)| (name.clone(), tool.digest.clone())).collect();
        let is_held = lock.server(&server.name) == Some(&LockedServer::new(digests));
        lock.accept_server(&server.name, now, &places)?;
        if !is_held {
            accepted.push(server.name.as_str());
        }
    }
    if terminal.json {
        terminal.json(&json!({"accepted": accepted}))?;
    } else if accepted.is_empty() {
        terminal.line("nothing changed since the lock was written")?;
    } else {
        terminal.line(&format!("accepted the tools of {}", accepted.join(", ")))?;
    }
    Ok(if broken { Exit::InputWrong } else { Exit::Done })
}
