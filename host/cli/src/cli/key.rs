//! `opcell key`: the keys that sign plugins.

use super::{Exit, Failure, Terminal, missing::signing_keys};
use clap::Subcommand;
use opcell_ir::Diagnostic;
use opcell_registry::signature::{DEFAULT_KEY, Helper};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key that only this user can read, and print its public half for those who check signatures.
    New {
        /// Name of the key.
        #[arg(default_value = DEFAULT_KEY)]
        name: String,
        /// Keep the key in a keyring of the system, by the program `docker-credential-HELPER`: `secretservice`,
        /// `pass`, `osxkeychain`. By default it is a file with mode 0600.
        #[arg(long, value_name = "HELPER")]
        helper: Option<String>,
    },
    /// List the keys with their public halves.
    List,
}

pub fn key(command: &KeyCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        KeyCommand::New { name, helper } => new(name, helper.as_deref(), terminal),
        KeyCommand::List => list(terminal),
    }
}

fn new(name: &str, helper: Option<&str>, terminal: &Terminal) -> Result<Exit, Failure> {
    let keys = signing_keys()?;
    let made = match helper {
        Some(helper) => Helper::new(helper).and_then(|helper| keys.create_with(name, &helper)),
        None => keys.create(name),
    };
    let (public, file) = made.map_err(|error| {
        let finding = Diagnostic::error("key-not-made", format!("the key `{name}` cannot be made: {error}"));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => finding.help("a key is never replaced; choose another name"),
            _ => finding,
        }
    })?;
    if terminal.json {
        let shown = json!({"name": name, "public": public.to_string(), "file": file, "helper": helper});
        terminal.json(&shown)?;
        return Ok(Exit::Done);
    }
    terminal.line(&public.to_string())?;
    let place = match helper {
        Some(helper) => format!("kept by docker-credential-{helper}"),
        None => format!("in {}", file.display()),
    };
    terminal.note(&format!(
        "the secret half is {place}; keep a copy where others cannot read it: without it, users of your plugins have to \
         accept another key"
    ));
    Ok(Exit::Done)
}

fn list(terminal: &Terminal) -> Result<Exit, Failure> {
    let keys = signing_keys()?;
    let (mut entries, mut broken) = (Vec::new(), false);
    for name in keys.names()? {
        match keys.public(&name) {
            Ok((public, helper)) if terminal.json => {
                let helper = helper.as_ref().map(Helper::name);
                entries.push(json!({"name": name, "public": public.to_string(), "helper": helper}));
            }
            Ok((public, None)) => terminal.line(&format!("{name}  {public}"))?,
            Ok((public, Some(helper))) => {
                terminal.line(&format!("{name}  {public}  in docker-credential-{}", helper.name()))?;
            }
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
