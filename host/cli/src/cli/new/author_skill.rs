//! `opcell new author-skill`: a skill that teaches an agent to author workflows.

use crate::cli::{
    Exit, Failure, Terminal,
    new_file::{create, unwritable, written},
};
use clap::Args;
use opcell_types::files::{Readers, make_folder};
use std::path::PathBuf;

const AUTHOR: &str = include_str!("../../../templates/workflowskill-author.md");

#[derive(Debug, Args)]
pub struct AuthorSkillArgs {
    /// Skill folder in which to create `workflowskill-author/SKILL.md`.
    #[arg(default_value = "skills", value_name = "FOLDER")]
    folder: PathBuf,
    /// Print the skill to standard output instead.
    #[arg(long)]
    print: bool,
}

pub fn author_skill(args: &AuthorSkillArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.print {
        terminal.line(AUTHOR)?;
        return Ok(Exit::Done);
    }
    let folder = args.folder.join("workflowskill-author");
    make_folder(&folder, Readers::Shared).map_err(|error| unwritable(&folder, &error))?;
    let path = folder.join("SKILL.md");
    create(&path, AUTHOR.as_bytes())?;
    written(&path, "add its folder to `skill-folders` in opcell.toml", terminal)
}
