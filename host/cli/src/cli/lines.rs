//! The lines of a conversation: from a script, a pipe, or a person, who can edit them and go back to earlier ones.

use crate::cli::{Terminal, stop::Stop};
use opcell::{places::Places, report::printable};
use opcell_types::files::{Folder, Readers};
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};
use std::{
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
};

/// The prompt of a person.
const PROMPT: &str = "> ";

/// Bytes of a line of a program that are read.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Lines that the history holds.
const MAX_HISTORY_LINES: usize = 1_000;

/// A source of lines.
pub enum Lines {
    /// The lines were given beforehand, in order.
    Scripted(std::vec::IntoIter<String>),
    /// A pipe, or a person whose terminal cannot be drawn on. Read where it keeps the runtime's other threads going;
    /// nothing else happens meanwhile.
    Stdin {
        /// `true` if a person is prompted.
        prompts: bool,
        /// A signal while nothing but a line is waited for ends the process.
        stop: Stop,
    },
    /// A person at a terminal.
    Person(Box<Person>),
}

/// Edits lines, and knows those of earlier conversations.
pub struct Person {
    editor: Editor<(), FileHistory>,
    /// The file of earlier lines; none without a home directory, or where that was asked for.
    history: Option<PathBuf>,
    stop: Stop,
}

impl Lines {
    /// Lines from stdin; those of a person are kept in the history of this name, if there is one.
    pub(super) fn stdin(terminal: &Terminal, stop: &Stop, history: Option<&str>) -> Self {
        let asks = !terminal.quiet && io::stdin().is_terminal();
        if asks
            && io::stdout().is_terminal()
            && let Some(person) = Person::at_terminal(stop, history)
        {
            return Self::Person(Box::new(person));
        }
        Self::Stdin { prompts: asks, stop: stop.clone() }
    }

    /// The next line that is not empty; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        match self {
            Self::Scripted(lines) => Ok(lines.next()),
            Self::Stdin { prompts, stop } => {
                let prompts = *prompts;
                tokio::task::block_in_place(|| stop.while_idle(|| next_of_stdin(prompts)))
            }
            Self::Person(person) => tokio::task::block_in_place(|| person.next()),
        }
    }

    /// The next line of a program, as it is written.
    pub(super) fn next_of_program(&mut self, prompt: &str) -> io::Result<ProgramLine> {
        match self {
            Self::Scripted(lines) => Ok(lines.next().map_or(ProgramLine::End, ProgramLine::Text)),
            Self::Stdin { prompts, stop } => {
                let prompts = *prompts;
                tokio::task::block_in_place(|| stop.while_idle(|| program_line_of_stdin(prompts.then_some(prompt))))
            }
            Self::Person(person) => tokio::task::block_in_place(|| person.next_of_program(prompt)),
        }
    }

    /// Says something that is not part of the conversation.
    pub(super) fn answer(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", printable(text));
    }
}

/// A line of a program.
pub(super) enum ProgramLine {
    Text(String),
    /// The person starts anew.
    Interrupted,
    End,
}

fn program_line_of_stdin(prompt: Option<&str>) -> io::Result<ProgramLine> {
    if let Some(prompt) = prompt {
        write!(io::stderr(), "{prompt}")?;
    }
    let mut line = String::new();
    if io::stdin().lock().take(MAX_LINE_BYTES).read_line(&mut line)? == 0 {
        return Ok(ProgramLine::End);
    }
    if line.len() as u64 == MAX_LINE_BYTES {
        return Err(io::Error::other(format!("a line has more than {MAX_LINE_BYTES} bytes")));
    }
    Ok(ProgramLine::Text(line.trim_end_matches(['\n', '\r']).to_owned()))
}

fn next_of_stdin(prompts: bool) -> io::Result<Option<String>> {
    loop {
        if prompts {
            write!(io::stderr(), "{PROMPT}")?;
        }
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim();
        if !line.is_empty() {
            return Ok(Some(line.to_owned()));
        }
    }
}

impl Person {
    /// None where the terminal cannot be had.
    fn at_terminal(stop: &Stop, history: Option<&str>) -> Option<Self> {
        let config = Config::builder().max_history_size(MAX_HISTORY_LINES).ok()?.history_ignore_space(true).build();
        let mut editor = Editor::with_config(config).ok()?;
        let history = history.and_then(history_file);
        if let Some(history) = &history {
            // There is none before the first chat.
            let _ = editor.load_history(history);
        }
        Some(Self { editor, history, stop: stop.clone() })
    }

    fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let (editor, stop) = (&mut self.editor, &self.stop);
            let line = match stop.while_idle(|| editor.readline(PROMPT)) {
                Ok(line) => line,
                // The end of the conversation, and the end of a person's patience: the run stays as it is.
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
                Err(ReadlineError::Io(error)) => return Err(error),
                Err(other) => return Err(io::Error::other(other)),
            };
            let said = line.trim();
            if !said.is_empty() {
                // As it was typed: a line that begins with a space is not kept.
                self.remember(&line);
                return Ok(Some(said.to_owned()));
            }
        }
    }

    fn next_of_program(&mut self, prompt: &str) -> io::Result<ProgramLine> {
        let (editor, stop) = (&mut self.editor, &self.stop);
        match stop.while_idle(|| editor.readline(prompt)) {
            Ok(line) => {
                if !line.trim().is_empty() {
                    self.remember(&line);
                }
                Ok(ProgramLine::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(ProgramLine::Interrupted),
            Err(ReadlineError::Eof) => Ok(ProgramLine::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    fn remember(&mut self, line: &str) {
        let is_new = self.editor.add_history_entry(line).unwrap_or(false);
        if let (true, Some(history)) = (is_new, &self.history)
            && let Err(error) = self.editor.append_history(history)
        {
            tracing::debug!("{} cannot be written: {error}", history.display());
        }
    }
}

/// Returns the file of the user's lines, below the state that no project and no grant reaches.
fn history_file(name: &str) -> Option<PathBuf> {
    let state = Places::of_user().state?;
    Folder::open_or_make(&state, Readers::Owner).ok()?;
    Some(state.join(name))
}
