//! Where a project keeps its runs.

use crate::{config::JournalSettings, host::HostError};
use opcell_journal::Journal;
use std::sync::Arc;
#[cfg(feature = "sqlite")]
use {
    opcell_journal::{JournalError, Retention, SqliteJournal},
    std::{io, path::Path, time::SystemTime},
};

/// Opens the journal, and makes it where there is none. Deletes nothing, whatever the settings keep.
///
/// # Errors
/// When it cannot be opened; see [`SqliteJournal::open`]. Without the feature `sqlite`, always.
#[cfg(feature = "sqlite")]
pub async fn open(settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    Ok(Arc::new(opened(settings)?))
}

#[cfg(feature = "sqlite")]
fn opened(settings: &JournalSettings) -> Result<SqliteJournal, JournalError> {
    if let Some(folder) = settings.path.parent() {
        make_private_folder(folder).map_err(|error| JournalError::Storage(Arc::new(error)))?;
    }
    SqliteJournal::open(&settings.path)
}

/// As [`open`], and deletes the ended runs that the settings do not keep: for a host that runs workflows, never for looking.
///
/// # Errors
/// As [`open`].
#[cfg(feature = "sqlite")]
pub async fn open_and_retain(settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    let journal = opened(settings)?;
    if settings.keep.is_some() || settings.max_age.is_some() {
        let oldest = settings.max_age.and_then(|age| SystemTime::now().checked_sub(age));
        let micros = oldest.and_then(|oldest| oldest.duration_since(SystemTime::UNIX_EPOCH).ok());
        let ended_after = micros.and_then(|since| i64::try_from(since.as_micros()).ok());
        for run in journal.retain(Retention { keep: settings.keep, ended_after }).await? {
            tracing::info!(%run, "removed an ended run that the settings no longer keep");
        }
    }
    Ok(Arc::new(journal))
}

/// Refuses: this program is built without journals in files.
///
/// # Errors
/// Always.
#[cfg(not(feature = "sqlite"))]
pub async fn open(_settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    Err(HostError::NotBuiltIn { what: "journals in files", feature: "sqlite" })
}

/// As [`open`].
///
/// # Errors
/// Always.
#[cfg(not(feature = "sqlite"))]
pub async fn open_and_retain(settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    open(settings).await
}

/// What runs were given and said may be nobody else's business: a folder that is made for them is its owner's alone.
#[cfg(feature = "sqlite")]
fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
