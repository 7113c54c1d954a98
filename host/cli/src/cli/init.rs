//! `opcell init`: a project to start from. Existing files are never overwritten.

use super::{
    Exit, Failure, Terminal,
    new_file::{not_created, unwritable},
};
use crate::selftest::component_from_wat;
use clap::{Args, ValueEnum};
use opcell::config::FILE_NAME;
use opcell_types::files::{Readers, make_folder};
use serde_json::json;
use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

/// The journal's folder is not for version control, and says so itself.
const IGNORED: (&str, &str) = (".opcell/.gitignore", "*\n");

/// The files of an empty project.
const EMPTY: [(&str, &str); 3] = [
    (FILE_NAME, include_str!("../../templates/init-opcell.toml")),
    ("workflows/hello.edn", include_str!("../../templates/init-hello.edn")),
    IGNORED,
];

/// The files of the example `notes`, without its plugin.
const NOTES: [(&str, &str); 4] = [
    (FILE_NAME, include_str!("../../templates/notes/opcell.toml")),
    ("workflows/today.edn", include_str!("../../templates/notes/today.edn")),
    ("notes/today.md", include_str!("../../templates/notes/notes.md")),
    IGNORED,
];

const NOTES_PLUGIN: &str = include_str!("../../templates/notes/notes.wat");
const NOTES_MANIFEST: &str = include_str!("../../templates/notes/manifest.json");

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder of the project; created if it does not exist.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Start with a project that runs: a plugin, a workflow and what they read.
    #[arg(long, value_name = "NAME")]
    example: Option<Example>,
}

/// A project that ships inside the command. It needs no key and no tool chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Example {
    /// A plugin that lists open notes: it is denied, granted, leaves a receipt, and its run waits for a person.
    Notes,
}

impl Example {
    /// The files of the project, by their paths in its folder; the project file first.
    fn files(self) -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
        let Self::Notes = self;
        let plugin = component_from_wat(NOTES_PLUGIN, None, "operation-plugin", Some(NOTES_MANIFEST.trim()))?;
        let mut files = texts(&NOTES);
        files.push(("plugins/notes.wasm", plugin));
        Ok(files)
    }
}

fn texts(files: &[(&'static str, &str)]) -> Vec<(&'static str, Vec<u8>)> {
    files.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect()
}

pub fn init(args: &InitArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut written = Vec::new();
    let files = match args.example {
        Some(example) => example.files()?,
        None => texts(&EMPTY),
    };
    let made = make_folder(&args.folder, Readers::Shared);
    let made = made.map_err(|error| unwritable(&args.folder, &error))?;
    // The project file first: where there is one already, nothing is written.
    for (name, content) in files {
        let path = if args.folder == Path::new(".") { PathBuf::from(name) } else { args.folder.join(name) };
        let unwritten = |error: std::io::Error| unwritable(&path, &error);
        let below = Path::new(name);
        let above = below.parent().unwrap_or(Path::new(""));
        // What runs were given and said may be confidential: the journal's folder is its owner's alone.
        let readers = if above == Path::new(".opcell") { Readers::Owner } else { Readers::Shared };
        let folder = made.make_below(above, readers).map_err(unwritten)?;
        match folder.create(below.file_name().unwrap_or_default(), Readers::Shared) {
            Ok(mut file) => {
                file.write_all(&content).map_err(unwritten)?;
                written.push(path.display().to_string());
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && name != FILE_NAME => {}
            Err(error) => return Err(not_created(&path, &error).into()),
        }
    }
    if terminal.json {
        terminal.json(&json!({"written": written}))?;
        return Ok(Exit::Done);
    }
    for path in &written {
        terminal.line(path)?;
    }
    let cd = if args.folder == Path::new(".") { String::new() } else { format!("cd {} && ", args.folder.display()) };
    if args.example == Some(Example::Notes) {
        terminal.note(&format!("next: {cd}opcell run today"));
        return Ok(Exit::Done);
    }
    terminal.note(&format!("next: {cd}opcell run hello --input name=Ada"));
    terminal.note("then: opcell plugin add FILE, opcell plugin explain NAME, opcell plugin grant NAME files data=PATH");
    Ok(Exit::Done)
}
