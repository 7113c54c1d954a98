//! `opcell key list`.

use crate::cli::{Exit, Failure, Terminal, missing::signing_keys};
use opcell_ir::Diagnostic;
use opcell_registry::signature::Helper;
use serde_json::json;

pub fn list(terminal: &Terminal) -> Result<Exit, Failure> {
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
