//! `opcell new`: files to start from. Existing files are never overwritten.

mod author_skill;
mod workflowskill;

use super::{Exit, Failure, Terminal};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum NewCommand {
    /// Create `NAME.md`, a WorkflowSkill that runs as it is.
    #[command(name = "workflowskill")]
    WorkflowSkill(workflowskill::WorkflowSkillArgs),
    /// Create a skill that teaches an agent to author workflows.
    AuthorSkill(author_skill::AuthorSkillArgs),
}

pub fn new(command: &NewCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        NewCommand::WorkflowSkill(args) => workflowskill::workflowskill(args, terminal),
        NewCommand::AuthorSkill(args) => author_skill::author_skill(args, terminal),
    }
}
