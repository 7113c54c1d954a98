//! `opcell new workflowskill`: a WorkflowSkill that runs as it is.

use crate::cli::{
    Exit, Failure, Terminal,
    new_file::{create, written},
};
use clap::Args;
use opcell::report::Rejected;
use opcell_ir::Diagnostic;
use std::path::PathBuf;

const WORKFLOW: &str = include_str!("../../../templates/workflowskill.md");

#[derive(Debug, Args)]
pub struct WorkflowSkillArgs {
    /// Name of the workflow: lower-case letters, digits and hyphens.
    #[arg(default_value = "my-workflow", value_name = "NAME")]
    name: String,
}

pub fn workflowskill(args: &WorkflowSkillArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    check_name(&args.name)?;
    let path = PathBuf::from(format!("{}.md", args.name));
    create(&path, WORKFLOW.replace("{{name}}", &args.name).as_bytes())?;
    written(&path, &format!("opcell run {}", path.display()), terminal)
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
