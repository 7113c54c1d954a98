//! `opcell key`: the keys that sign plugins.

use super::{Exit, Failure, Terminal, missing::signing_keys};
use clap::Subcommand;
use opcell_registry::signature::DEFAULT_KEY;
use opcell_workflow::Diagnostic;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key that only this user can read, and print its public half for those who check signatures.
    New {
        /// Name of the key.
        #[arg(default_value = DEFAULT_KEY)]
        name: String,
    },
    /// List the keys with their public halves.
    List,
}

pub fn key(command: &KeyCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        KeyCommand::New { name } => new(name, terminal),
        KeyCommand::List => list(terminal),
    }
}

fn new(name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let (public, file) = signing_keys()?.create(name).map_err(|error| {
        let finding = Diagnostic::error("key-not-made", format!("the key `{name}` cannot be made: {error}"));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => finding.help("a key is never replaced; choose another name"),
            _ => finding,
        }
    })?;
    if terminal.json {
        terminal.json(&json!({"name": name, "public": public.to_string(), "file": file}))?;
        return Ok(Exit::Done);
    }
    terminal.line(&public.to_string())?;
    terminal.note(&format!(
        "the secret half is in {}; keep a copy where others cannot read it: without it, users of your plugins have to accept \
         another key",
        file.display()
    ));
    Ok(Exit::Done)
}

fn list(terminal: &Terminal) -> Result<Exit, Failure> {
    let keys = signing_keys()?;
    let (mut entries, mut broken) = (Vec::new(), false);
    for name in keys.names()? {
        match keys.open(&name) {
            Ok(key) if terminal.json => entries.push(json!({"name": name, "public": key.public().to_string()})),
            Ok(key) => terminal.line(&format!("{name}  {}", key.public()))?,
            Err(error) => {
                broken = true;
                terminal.rejected(&Diagnostic::error("key-unreadable", format!("{name}: {error}")).into());
            }
        }
    }
    if terminal.json {
        terminal.json(&json!(entries))?;
    }
    Ok(if broken { Exit::InputWrong } else { Exit::Done })
}
