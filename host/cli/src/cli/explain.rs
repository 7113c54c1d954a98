//! `opcell explain`: the meaning and the remedy of an error code.

use super::{Exit, Failure, Terminal};
use clap::Args;
use opcell_ir::Diagnostic;
use opcell_types::suggest::hint;
use serde::{Deserialize, Serialize};

/// Made from the sources and from `explain/remedies.toml`: `SNAPSHOTS=overwrite cargo test -p opcell-tests --test
/// error_codes` writes it, and `docs/errors.md` with it.
const CODES: &str = include_str!("explain/codes.json");

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code, such as `no-model`. Without one, every code is listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// One error code.
#[derive(Debug, Deserialize, Serialize)]
struct Code {
    code: String,
    /// The kinds of error that have it.
    kinds: Vec<String>,
    meaning: Option<String>,
    /// The messages that it comes with; `…` marks the variable part.
    messages: Vec<String>,
    remedies: Vec<String>,
}

/// Every code with its meaning.
pub(super) fn codes() -> Result<Vec<(String, String)>, Failure> {
    let codes: Vec<Code> = serde_json::from_str(CODES).map_err(anyhow::Error::from)?;
    Ok(codes.into_iter().map(|code| (code.code, code.meaning.unwrap_or_default())).collect())
}

pub fn explain(args: &ExplainArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let codes: Vec<Code> = serde_json::from_str(CODES).map_err(anyhow::Error::from)?;
    let Some(name) = &args.code else {
        if terminal.json {
            terminal.json(&serde_json::json!(codes))?;
        } else {
            for code in &codes {
                terminal.line(&code.code)?;
            }
        }
        return Ok(Exit::Done);
    };
    let Some(code) = codes.iter().find(|code| code.code == *name) else {
        let hint = hint(name, codes.iter().map(|code| code.code.as_str()));
        let unknown = Diagnostic::error("unknown-code", format!("`{name}` is not an error code of Opcell{hint}"));
        return Err(unknown
            .help("`opcell explain` lists every code; a plugin's own codes are in its documentation")
            .into());
    };
    if terminal.json {
        terminal.json(&serde_json::json!(code))?;
        return Ok(Exit::Done);
    }
    terminal.line(&format!("{}: {}", code.code, code.kinds.join(", ")))?;
    let shown = |title: &str, texts: &mut dyn Iterator<Item = &String>| -> Result<(), Failure> {
        for (at, text) in texts.enumerate() {
            let start = if at == 0 { title } else { "" };
            terminal.line(&format!("  {start:<9}{text}"))?;
        }
        Ok(())
    };
    shown("means", &mut code.meaning.iter())?;
    shown("says", &mut code.messages.iter())?;
    shown("remedy", &mut code.remedies.iter())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_remedy_names_commands_and_options_that_exist() {
        let codes: Vec<Code> = serde_json::from_str(CODES).unwrap();
        assert!(codes.len() > 200);
        let mut root = Cli::command();
        root.build();
        let mut wrong = Vec::new();
        for (code, remedy) in codes.iter().flat_map(|code| code.remedies.iter().map(move |remedy| (&code.code, remedy)))
        {
            for quoted in remedy.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("opcell ")) {
                let mut command = &root;
                for word in quoted.split_whitespace() {
                    if let Some(below) = command.find_subcommand(word) {
                        command = below;
                    } else if let Some(option) = word.strip_prefix("--") {
                        let option = option.split('=').next().unwrap_or_default();
                        let known = command.get_arguments().any(|known| known.get_long() == Some(option));
                        if !known {
                            wrong.push(format!("{code}: {quoted}: no option --{option}"));
                        }
                    } else if command.has_subcommands() && command.get_positionals().next().is_none() {
                        wrong.push(format!("{code}: {quoted}: no command {word}"));
                        break;
                    }
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
