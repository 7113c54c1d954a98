//! `opcell trust`: consent to what a project asks for outside of its folder.

use super::{Exit, Failure, Global, Terminal, consent::Asked, missing::no_project};
use clap::Args;
use opcell::{consent::Trusted, places::Places};
use opcell_ir::Diagnostic;
use serde_json::json;
use std::path::Path;

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Consent only if the list still has this digest; its first 16 digits suffice.
    #[arg(value_name = "DIGEST")]
    digest: Option<String>,
    /// Show what the project asks for, and change nothing.
    #[arg(long, conflicts_with = "revoke")]
    show: bool,
    /// Revoke consent.
    #[arg(long, conflicts_with = "digest")]
    revoke: bool,
}

/// The command that gives the consent which the project needs now; `None` where it has it.
pub(super) fn command_needed(global: &Global) -> Result<Option<String>, Failure> {
    let Some(config) = global.written()? else { return Ok(None) };
    let asked = Asked::of(global, &config)?;
    Ok((!asked.is_allowed()).then(|| asked.command(&[asked.requests.short_digest()])))
}

pub fn trust(global: &Global, args: &TrustArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(config) = global.written()? else {
        return Err(no_project().into());
    };
    if args.revoke {
        return revoke(config.file.as_deref().unwrap_or(Path::new("")), terminal);
    }
    let mut asked = Asked::of(global, &config)?;
    if let Some(digest) = args.digest.as_deref().filter(|digest| !asked.requests.is_named_by(digest)) {
        let message = format!("the list has the digest {}, not {digest}", asked.requests.digest());
        let help = format!("look at it with `{}`", asked.command(&["--show"]));
        return Err(Diagnostic::error("trust-changed", message).help(help).into());
    }
    let allow = !args.show && !asked.requests.is_empty();
    if allow {
        asked.trusted.allow(&asked.project, &asked.requests)?;
    }
    let allowed = asked.requests.is_empty() || asked.trusted.has(&asked.project, &asked.requests);
    if terminal.json {
        let requests: Vec<_> = asked.requests.iter().collect();
        terminal.json(&json!({
            "project": asked.project, "digest": asked.requests.digest(), "allowed": allowed, "requests": requests,
        }))?;
        return Ok(Exit::Done);
    }
    if asked.requests.is_empty() {
        terminal.line("the project asks for no access outside its folder, and needs no consent")?;
        return Ok(Exit::Done);
    }
    let verdict = if allowed { "allowed" } else { "not allowed" };
    terminal.line(&format!(
        "{}\n{}{verdict}, digest {}",
        asked.headline(),
        asked.list(usize::MAX),
        asked.requests.digest()
    ))?;
    Ok(Exit::Done)
}

fn revoke(project: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    let revoked = Trusted::read(&Places::of_user())?.revoke(project)?;
    if terminal.json {
        terminal.json(&json!({"project": project, "revoked": revoked}))?;
    } else {
        terminal.line(if revoked { "consent is taken back" } else { "there was no consent to take back" })?;
    }
    Ok(Exit::Done)
}
