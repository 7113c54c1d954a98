//! The end of a command: its exit code, or the reason why it did not do its work.

use opcell::{
    host::{HostError, StartError},
    report::Rejected,
};
use opcell_engine::RunError;
use opcell_ir::Diagnostic;
use opcell_journal::JournalError;

/// Why a command did not do its work.
#[derive(Debug)]
pub(super) enum Failure {
    /// The input was wrong.
    Input(Rejected),
    /// Everything else: a pipe that broke, a thread that did not start.
    Other(anyhow::Error),
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Self {
        Self::Input(rejected)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Input(Rejected::plain(diagnostic))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Rejected(rejected) => Self::Input(rejected),
            HostError::Sandbox(error) => Self::Other(error.into()),
            HostError::Plugin(error) => Self::Input(error.to_rejected()),
            HostError::Journal(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => Self::Input(rejected),
            StartError::Run(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

impl From<RunError> for Failure {
    /// Maps an error that the operator can correct to wrong input; a failure of the storage is not.
    fn from(error: RunError) -> Self {
        let found = Diagnostic::error(error.kind(), error.to_string());
        match error {
            RunError::AlreadyAnswered { ref run, .. } => {
                found.help(format!("to stop the run: opcell runs cancel {run}")).into()
            }
            RunError::Journal(ref refused) => match refused.as_ref() {
                JournalError::Fenced { .. } | JournalError::OutOfOrder { .. } => Self::Other(error.into()),
                JournalError::Storage(_) => Self::Other(anyhow::anyhow!("{}: {refused}", refused.kind())),
                // Without the words that the run stopped: mostly none was under way.
                refused => {
                    let found = Diagnostic::error(refused.kind(), refused.to_string());
                    match damage_help(refused) {
                        Some(help) => found.help(help).into(),
                        None => found.into(),
                    }
                }
            },
            RunError::ShuttingDown | RunError::TooMuch { .. } | RunError::Gone(_) => Self::Other(error.into()),
            _ => found.into(),
        }
    }
}

/// The command that helps with a damaged journal.
fn damage_help(error: &JournalError) -> Option<String> {
    match error {
        JournalError::Torn { run, .. } => Some(format!(
            "`opcell runs resume {run}` cuts what is damaged and continues; `opcell runs restore FILE --replace` brings a \
             backup back"
        )),
        JournalError::Broken { .. } => {
            Some("`opcell runs restore FILE --replace` brings a backup of the journal back".to_owned())
        }
        JournalError::Corrupt { .. } => {
            Some("`opcell runs restore FILE --replace` puts a backup (`opcell runs backup`) in its place".to_owned())
        }
        _ => None,
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        RunError::from(error).into()
    }
}

/// The end of a command that did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Done,
    RunFailed,
    InputWrong,
    /// The run is suspended.
    Waiting,
}
