//! `opcell init`: a project to start from. Existing files are never overwritten.

use super::{Exit, Failure, Terminal, new::create};
use clap::Args;
use opcell::config::FILE_NAME;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What a project begins with. The journal's folder is not for version control, and says so itself.
const FILES: [(&str, &str); 3] = [
    (FILE_NAME, include_str!("../../templates/init-opcell.toml")),
    ("workflows/hello.edn", include_str!("../../templates/init-hello.edn")),
    (".opcell/.gitignore", "*\n"),
];

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Folder of the project; created if it does not exist.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
}

pub fn init(args: &InitArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut written = Vec::new();
    // The project file first: where there is one already, nothing is written.
    for (name, text) in FILES {
        let path = if args.folder == Path::new(".") { PathBuf::from(name) } else { args.folder.join(name) };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder).map_err(|error| super::new::unwritable(folder, &error))?;
        }
        let is_kept = name != FILE_NAME && path.exists();
        if !is_kept {
            create(&path, text)?;
            written.push(path.display().to_string());
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
    terminal.note(&format!("next: {cd}opcell run hello --input name=Ada"));
    terminal.note("then: opcell plugin add FILE, opcell plugin explain NAME, opcell plugin grant NAME files data=PATH");
    Ok(Exit::Done)
}

/// What runs were given and said may be confidential: the journal's folder is its owner's alone.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    if folder.ends_with(".opcell") {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    }
    builder.create(folder)
}
