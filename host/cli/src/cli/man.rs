//! `opcell man`: pages made of the same description as the command line itself.

use super::{Exit, Failure, Terminal};
use clap::{Args, Command};
use opcell_types::files::{Readers, make_folder};
use std::{
    io::{self, Write as _},
    path::PathBuf,
};

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write `opcell.1` and a page for every subcommand into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub fn man(args: &ManArgs, command: Command, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(Exit::Done);
    };
    let made = make_folder(folder, Readers::Shared)?;
    // The pages are made apart, because their maker would write through links.
    let apart = tempfile::tempdir()?;
    clap_mangen::generate_to(command, apart.path())?;
    for page in std::fs::read_dir(apart.path())? {
        let page = page?;
        made.replace(page.file_name(), &std::fs::read(page.path())?, Readers::Shared)?;
    }
    terminal.note(&format!("wrote the manual into {}", folder.display()));
    Ok(Exit::Done)
}
