//! `opcell key new`.

use crate::cli::{Exit, Failure, Terminal, missing::signing_keys};
use clap::Args;
use opcell_ir::Diagnostic;
use opcell_registry::signature::{DEFAULT_KEY, Helper};
use serde_json::json;

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the key.
    #[arg(default_value = DEFAULT_KEY)]
    name: String,
    /// Keep the key in a keyring of the system, by the program `docker-credential-HELPER`: `secretservice`,
    /// `pass`, `osxkeychain`. By default it is a file with mode 0600.
    #[arg(long, value_name = "HELPER")]
    helper: Option<String>,
}

pub fn new(args: &NewArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let (name, helper) = (args.name.as_str(), args.helper.as_deref());
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
