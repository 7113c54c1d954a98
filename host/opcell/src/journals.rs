//! Opens the store in which a project keeps its runs.

mod origin;

use crate::{
    config::{JournalPlace, JournalSettings},
    host::HostError,
    places::Places,
    report::Rejected,
    stores::PluginStores,
};
use opcell_ir::Diagnostic;
use opcell_journal::{ClockJump, Journal, JournalError, Retention};
use opcell_types::FollowUp;
use std::{path::Path, sync::Arc, time::SystemTime};

/// Opens the journal, and makes it where there is none. Deletes nothing, whatever the settings keep.
///
/// # Errors
/// When it cannot be opened, or this program is built without such journals.
pub async fn open(settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    match &settings.place {
        JournalPlace::File(path) => of_file_with_origin(settings, path, &Places::of_user()).await,
        JournalPlace::Server(server) => server::open(server).await,
    }
}

async fn of_file_with_origin(
    settings: &JournalSettings,
    path: &Path,
    places: &Places,
) -> Result<Arc<dyn Journal>, HostError> {
    origin::opened(settings, places, || file::open(path)).await
}

/// As [`open`], and deletes the ended runs that the settings do not keep: for a host that runs workflows, never for
/// looking.
///
/// # Errors
/// As [`open`].
pub async fn open_and_retain(settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    retained(open(settings).await?, settings).await
}

/// As [`open_and_retain`]; stores of plugins that are kept on the journal's server are there as well.
pub(crate) async fn open_with_stores(
    settings: &JournalSettings,
    stores: &PluginStores,
    places: &Places,
) -> Result<Arc<dyn Journal>, HostError> {
    let journal = match &settings.place {
        JournalPlace::File(path) => of_file_with_origin(settings, path, places).await?,
        JournalPlace::Server(server) => server::open_with_stores(server, stores).await?,
    };
    retained(journal, settings).await
}

async fn retained(journal: Arc<dyn Journal>, settings: &JournalSettings) -> Result<Arc<dyn Journal>, HostError> {
    if settings.keep.is_some() || settings.max_age.is_some() {
        let now = now(&*journal);
        if let Some(jump) = journal.check_clock(now, false).await? {
            tracing::warn!("{}", doubt(jump));
            return Ok(journal);
        }
        let age = settings.max_age.map(|age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
        let ended_after = age.map(|age| now.saturating_sub(age));
        for run in journal.retain(Retention { keep: settings.keep, ended_after }).await? {
            tracing::info!(%run, "removed an ended run that the settings no longer keep");
        }
    }
    Ok(journal)
}

/// Microseconds since 1970 by the clock of the journal, or of this machine.
fn now(journal: &dyn Journal) -> i64 {
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
    let machine = micros.and_then(|since| i64::try_from(since.as_micros()).ok());
    journal.now().or(machine).unwrap_or_default()
}

/// The reason why nothing was deleted.
fn doubt(jump: ClockJump) -> String {
    let [now, recorded] = [jump.now, jump.recorded].map(shown_time);
    let (trust_clock, side) = (FollowUp::TrustClock, if jump.now < jump.recorded { "before" } else { "long after" });
    format!(
        "no ended run was deleted: the clock says {now}, which is {side} the newest record of the journal \
         ({recorded}). Correct the clock; if it is right: {trust_clock}. A clock that says the same for a day is taken \
         as right"
    )
}

fn shown_time(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros)
        .map_or_else(|_| format!("{micros} us since 1970"), |time| time.strftime("%F %T UTC").to_string())
}

/// Takes the clock as true, although it does not agree with the journal's records. Gives its time as text.
///
/// # Errors
/// As [`open`].
pub async fn trust_clock(settings: &JournalSettings) -> Result<String, HostError> {
    let journal = open(settings).await?;
    let now = now(&*journal);
    journal.check_clock(now, true).await?;
    Ok(shown_time(now))
}

/// Copies the journal whole into a new file, while others may use it. Gives the number of its runs.
///
/// # Errors
/// When it is on a server, is not sound, or the file is there already.
pub async fn backup(settings: &JournalSettings, copy: &Path) -> Result<u64, HostError> {
    let (store, copy) = (of_file(settings, "pg_dump")?.to_owned(), copy.to_owned());
    apart(move || file::backup(&store, &copy)).await
}

/// Puts a copy in the journal's place. Gives the number of its runs.
///
/// # Errors
/// When the journal is on a server; when it is there and is not to be replaced, or others have it open; when the copy
/// is not sound.
pub async fn restore(settings: &JournalSettings, copy: &Path, replace: bool) -> Result<u64, HostError> {
    let (store, copy) = (of_file(settings, "pg_restore")?.to_owned(), copy.to_owned());
    let restored = apart(move || file::restore(&copy, &store, replace)).await?;
    // Whoever restores a copy says that its runs are to go on.
    origin::own(settings, &Places::of_user()).map_err(|error| JournalError::Storage(Arc::new(error)))?;
    Ok(restored)
}

fn of_file<'a>(settings: &'a JournalSettings, instead: &str) -> Result<&'a Path, Rejected> {
    settings.place.file().ok_or_else(|| {
        let message = format!("the journal {} is on a server", settings.place);
        Rejected::plain(Diagnostic::error("journal-on-server", message).help(format!("use the server's `{instead}`")))
    })
}

async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| HostError::Journal(JournalError::Storage(Arc::new(error))))?
}

#[cfg(feature = "sqlite")]
mod file {
    use super::{Arc, Diagnostic, FollowUp, HostError, Journal, JournalError, Path, Rejected};
    use opcell_journal::{BackupError, SqliteJournal};
    use opcell_types::files::{Folder, Readers};
    use std::io;

    pub(super) fn backup(store: &Path, copy: &Path) -> Result<u64, HostError> {
        opcell_journal::backup(store, copy).map_err(refused)
    }

    pub(super) fn restore(copy: &Path, store: &Path, replace: bool) -> Result<u64, HostError> {
        if let Some(folder) = store.parent() {
            make_private_folder(folder).map_err(|error| JournalError::Storage(Arc::new(error)))?;
        }
        opcell_journal::restore(copy, store, replace).map_err(refused)
    }

    fn refused(error: BackupError) -> HostError {
        let finding = |code, help: &str| {
            HostError::Rejected(Rejected::plain(Diagnostic::error(code, error.to_string()).help(help.to_owned())))
        };
        match error {
            BackupError::Journal(error) => HostError::Journal(error),
            BackupError::Exists(_) => finding("already-exists", "choose another path"),
            BackupError::InUse(_) => {
                let list_runs = FollowUp::ListRuns;
                finding("journal-in-use", &format!("{list_runs} shows which runs are driven"))
            }
            _ => finding("unreadable", "the copy and the journal must be files that this user may read and write"),
        }
    }

    pub(super) fn identifier_in(path: &Path) -> Option<i32> {
        SqliteJournal::identifier_in(path)
    }

    pub(super) fn open(path: &Path) -> Result<Arc<dyn Journal>, HostError> {
        if let Some(folder) = path.parent() {
            make_private_folder(folder).map_err(|error| JournalError::Storage(Arc::new(error)))?;
        }
        Ok(Arc::new(SqliteJournal::open(path)?))
    }

    /// Makes a folder that is its owner's alone, because the inputs and messages of runs may be confidential.
    fn make_private_folder(folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        Folder::open_or_make(folder, Readers::Owner).map(drop)
    }
}

#[cfg(not(feature = "sqlite"))]
mod file {
    use super::{Arc, HostError, Journal, Path};

    const MISSING: HostError = HostError::NotBuiltIn { what: "journals in files", feature: "sqlite" };

    pub(super) fn backup(_store: &Path, _copy: &Path) -> Result<u64, HostError> {
        Err(MISSING)
    }

    pub(super) fn restore(_copy: &Path, _store: &Path, _replace: bool) -> Result<u64, HostError> {
        Err(MISSING)
    }

    pub(super) fn identifier_in(_path: &Path) -> Option<i32> {
        None
    }

    pub(super) fn open(_path: &Path) -> Result<Arc<dyn Journal>, HostError> {
        Err(HostError::NotBuiltIn { what: "journals in files", feature: "sqlite" })
    }
}

#[cfg(feature = "postgres")]
mod server {
    use super::{Arc, HostError, Journal, JournalError, PluginStores};
    use crate::{config::JournalServer, http::SecretSource, report::Rejected};
    use opcell_ir::Diagnostic;
    use opcell_journal_postgres::{PostgresJournal, Settings};

    pub(super) async fn open(server: &JournalServer) -> Result<Arc<dyn Journal>, HostError> {
        Ok(Arc::new(connect(server).await?))
    }

    pub(super) async fn open_with_stores(
        server: &JournalServer,
        stores: &PluginStores,
    ) -> Result<Arc<dyn Journal>, HostError> {
        let journal = connect(server).await?;
        stores.serve_from(&journal)?;
        Ok(Arc::new(journal))
    }

    async fn connect(server: &JournalServer) -> Result<PostgresJournal, HostError> {
        let refused = |message: String| Rejected::plain(Diagnostic::error("invalid-journal", message));
        let mut settings: Settings = server.url().parse().map_err(|error| refused(format!("{error}")))?;
        if let Some(password) = password(server).await.map_err(refused)? {
            settings.password(&password);
        }
        let journal = PostgresJournal::open(settings).await;
        Ok(journal.map_err(|error| match error {
            JournalError::Storage(cause) => JournalError::Unreachable { place: server.to_string(), cause },
            other => other,
        })?)
    }

    /// From where the settings say; the messages name the source and never the password.
    async fn password(server: &JournalServer) -> Result<Option<String>, String> {
        match &server.password {
            Some(SecretSource::Env(name)) => std::env::var(name).map(Some).map_err(|_| {
                format!("the environment variable `{name}`, from which the journal takes its password, is not set")
            }),
            Some(SecretSource::File(path)) => {
                let text = tokio::fs::read_to_string(path).await;
                let text =
                    text.map_err(|error| format!("cannot read the password file {}: {error}", path.display()))?;
                Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
            None if server.usual_password && !server.holds_password() => Ok(std::env::var("PGPASSWORD").ok()),
            None => Ok(None),
        }
    }
}

#[cfg(not(feature = "postgres"))]
mod server {
    use super::{Arc, HostError, Journal, PluginStores};
    use crate::config::JournalServer;

    const MISSING: HostError = HostError::NotBuiltIn { what: "journals on PostgreSQL", feature: "postgres" };

    pub(super) async fn open(_server: &JournalServer) -> Result<Arc<dyn Journal>, HostError> {
        Err(MISSING)
    }

    pub(super) async fn open_with_stores(
        _server: &JournalServer,
        _stores: &PluginStores,
    ) -> Result<Arc<dyn Journal>, HostError> {
        Err(MISSING)
    }
}
