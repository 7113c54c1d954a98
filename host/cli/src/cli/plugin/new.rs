//! `opcell plugin new`: a plugin that builds, passes its cases and runs, in a folder of its own.

use crate::cli::{Exit, Failure, Terminal};
use clap::{
    Arg, Args, Command,
    builder::{PossibleValue, TypedValueParser},
};
use opcell_author::{Language, template};
use opcell_ir::Diagnostic;
use serde_json::json;
use std::{ffi::OsStr, path::Path};

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the plugin, and of the folder that is created here.
    name: String,
    /// Language of the plugin.
    #[arg(long, value_name = "LANG", value_parser = LanguageParser)]
    lang: Language,
    /// Make a source plugin in JavaScript or Python: one file that runs as it is, with nothing to build.
    #[arg(long)]
    source: bool,
}

/// Reads a language, and lists all of them to shells that complete it.
#[derive(Debug, Clone)]
struct LanguageParser;

impl TypedValueParser for LanguageParser {
    type Value = Language;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Language, clap::Error> {
        let parse = |text: &str| text.parse::<Language>();
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Language::ALL.into_iter().map(|language| PossibleValue::new(language.name()))))
    }
}

pub(super) fn new(args: &NewArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.source && !template::has_source_plugins(args.lang) {
        let message =
            format!("`--source` takes JavaScript and Python: a plugin in {} needs a build", args.lang.title());
        return Err(Diagnostic::error("new-plugin", message).help("leave out `--source`").into());
    }
    let folder = Path::new(&args.name);
    let written = match args.source {
        true => template::create_source(folder, &args.name, args.lang),
        false => template::create(folder, &args.name, args.lang),
    };
    let written = written.map_err(|error| Diagnostic::error("new-plugin", error.to_string()))?;
    if terminal.json {
        terminal.json(&json!({"ok": true, "folder": args.name, "files": written}))?;
        return Ok(Exit::Done);
    }
    terminal.line(&format!("{}/  ({} files, {})", args.name, written.len(), args.lang.title()))?;
    let name = &args.name;
    if args.source {
        let invoke = format!("opcell op invoke {name}/greet --args name=Ada");
        let (file, install) = match args.lang {
            Language::Python => ("plugin.py", "\n  opcell code install python"),
            _ => ("plugin.js", ""),
        };
        terminal.note(&format!("next:\n  cd {name}{install}\n  opcell plugin test {file} && {invoke}"));
        return Ok(Exit::Done);
    }
    // A line of its own: it is typed once, and what follows again and again.
    let install = match args.lang {
        Language::Javascript => "\n  npm install",
        Language::Python => "\n  python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1",
        _ => "",
    };
    terminal.note(&format!("next:\n  cd {name}{install}\n  opcell plugin build && opcell plugin test"));
    Ok(Exit::Done)
}
