//! `opcell new`: files to start from. Existing files are never overwritten.

use super::{Exit, Failure, Terminal};
use clap::{Args, Subcommand};
use opcell::report::Rejected;
use opcell_ir::Diagnostic;
use opcell_types::files::{self, Readers, make_folder};
use serde_json::json;
use std::{
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
};

const WORKFLOW: &str = include_str!("../../templates/workflowskill.md");
const AUTHOR: &str = include_str!("../../templates/workflowskill-author.md");

#[derive(Debug, Subcommand)]
pub enum NewCommand {
    /// Create `NAME.md`, a WorkflowSkill that runs as it is.
    #[command(name = "workflowskill")]
    WorkflowSkill(WorkflowArgs),
    /// Create a skill that teaches an agent to author workflows.
    AuthorSkill(SkillArgs),
}

#[derive(Debug, Args)]
pub struct WorkflowArgs {
    /// Name of the workflow: lower-case letters, digits and hyphens.
    #[arg(default_value = "my-workflow", value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub struct SkillArgs {
    /// Skill folder in which to create `workflowskill-author/SKILL.md`.
    #[arg(default_value = "skills", value_name = "FOLDER")]
    folder: PathBuf,
    /// Print the skill to standard output instead.
    #[arg(long)]
    print: bool,
}

pub fn new(command: &NewCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        NewCommand::WorkflowSkill(args) => {
            check_name(&args.name)?;
            let path = PathBuf::from(format!("{}.md", args.name));
            create(&path, WORKFLOW.replace("{{name}}", &args.name).as_bytes())?;
            written(&path, &format!("opcell run {}", path.display()), terminal)
        }
        NewCommand::AuthorSkill(args) if args.print => {
            terminal.line(AUTHOR)?;
            Ok(Exit::Done)
        }
        NewCommand::AuthorSkill(args) => {
            let folder = args.folder.join("workflowskill-author");
            make_folder(&folder, Readers::Shared).map_err(|error| unwritable(&folder, &error))?;
            let path = folder.join("SKILL.md");
            create(&path, AUTHOR.as_bytes())?;
            written(&path, "add its folder to `skill-folders` in opcell.toml", terminal)
        }
    }
}

/// Names of skills, which are names of files here.
fn check_name(name: &str) -> Result<(), Rejected> {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if name.len() <= 64 && name.split('-').all(is_word) {
        return Ok(());
    }
    let message = format!("`{name}` is not a valid workflow name");
    let help = "expected at most 64 lower-case letters, digits and single hyphens, such as `triage-mail`";
    Err(Diagnostic::error("invalid-name", message).help(help).into())
}

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Rejected {
    Diagnostic::error("unwritable", format!("cannot write `{}`: {error}", path.display())).into()
}

/// Why a file that must be new was not made.
pub(super) fn not_created(path: &Path, error: &std::io::Error) -> Rejected {
    match error.kind() {
        ErrorKind::AlreadyExists => {
            Diagnostic::error("already-exists", format!("`{}` already exists; it was not changed", path.display()))
                .into()
        }
        _ => unwritable(path, error),
    }
}

fn create(path: &Path, content: &[u8]) -> Result<(), Rejected> {
    let mut file = files::create(path, Readers::Shared).map_err(|error| not_created(path, &error))?;
    file.write_all(content).map_err(|error| unwritable(path, &error))
}

fn written(path: &Path, next: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&json!({"written": path.display().to_string()}))?;
    } else {
        terminal.line(&path.display().to_string())?;
        terminal.note(&format!("next: {next}"));
    }
    Ok(Exit::Done)
}
