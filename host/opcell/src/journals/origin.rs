//! Whose runs a journal in a project holds. A checkout may bring a journal along, with runs that wait to be driven and
//! questions that wait to be answered; what they do was decided by whoever made it.
//!
//! When a journal in a project's folder is seen for the first time, all runs that it holds come from elsewhere, unless
//! this user has just made it. They are listed among the user's own state, under what identifies the file: a file that
//! takes its place is another journal. A run from elsewhere can be looked at; it is driven once its user has adopted
//! it.
//!
//! A file that is written over a journal in place keeps what the system identifies it by. So each journal also has an
//! identifier of its own, a number at random in the file's header, which is noted beside its list. What is found under
//! another one comes from elsewhere.
//!
//! SQLite applies a log that lies beside the file, whoever wrote it. The log that a journal was last opened with is
//! noted beside its list, so that one which a checkout brings is refused before it replaces the user's own runs.

use super::file::identifier_in;
use crate::{
    config::{JournalPlace, JournalSettings, lock::write_whole},
    places::{Places, real},
};
use async_trait::async_trait;
use opcell_journal::{
    Append, ClockJump, Cut, Driver, Fence, FoundValues, InboxMessage, Journal, JournalError, LazyRecords, NewRun,
    OpenedRun, Ownership, Record, Retention, RunEntry, RunId, RunQuery, SharedVersions, StatusTally,
};
use opcell_types::FollowUp;
use opcell_types::files::{Folder, Readers, lock, read_text_bounded};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Runs from elsewhere in one journal: more have to be moved away.
const MAX_RUNS: usize = 100_000;

/// Bytes of such a list.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Returns the identity of a file, whatever its name: a file that replaces it was born later.
fn identity(file: &Path) -> io::Result<String> {
    let status = fs::metadata(file)?;
    let born = status.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let born = born.map_or_else(|| format!("{}", status.dev()), |at| format!("{:x}", at.as_nanos()));
    Ok(format!("{:x}-{born}", status.ino()))
}

/// The journal of a project, if it lies in the project's folder and may so have come with it.
fn in_project(settings: &JournalSettings) -> Option<&Path> {
    let (JournalPlace::File(file), Some(root)) = (&settings.place, &settings.project) else { return None };
    real(file).starts_with(real(root)).then_some(file.as_path())
}

/// The runs of a journal that come from elsewhere.
#[derive(Debug)]
struct List {
    /// Absent where the user has no state.
    file: Option<PathBuf>,
    read: Mutex<(Option<SystemTime>, Arc<BTreeSet<RunId>>)>,
}

impl List {
    fn runs(&self) -> Arc<BTreeSet<RunId>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process may have adopted some.
        if let Some(file) = &self.file
            && let Ok(changed) = fs::metadata(file).and_then(|status| status.modified())
            && read.0 != Some(changed)
            && let Ok(runs) = read_list(file)
        {
            *read = (Some(changed), Arc::new(runs));
        }
        read.1.clone()
    }

    fn without(&self, gone: &BTreeSet<RunId>) -> io::Result<()> {
        let _turn = self.file.as_deref().map(turn).transpose()?;
        let left: BTreeSet<RunId> = self.runs().iter().filter(|run| !gone.contains(*run)).cloned().collect();
        if let Some(file) = &self.file {
            write_list(file, &left)?;
        }
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = (None, Arc::new(left));
        Ok(())
    }
}

fn read_list(file: &Path) -> io::Result<BTreeSet<RunId>> {
    let status = file.symlink_metadata()?;
    if !status.is_file() || status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        return Err(io::Error::other("it could have been written by another user"));
    }
    let text = read_text_bounded(file, MAX_LIST_BYTES)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

fn write_list(file: &Path, runs: &BTreeSet<RunId>) -> io::Result<()> {
    let text = serde_json::to_string(runs).map_err(io::Error::other)?;
    write_whole(file, &text, Readers::Owner)
}

/// Keeps other processes from looking at the same time.
fn turn(list: &Path) -> io::Result<File> {
    lock(&list.with_file_name("lock"))
}

fn folder(places: &Places) -> io::Result<Option<PathBuf>> {
    let Some(folder) = places.state.as_ref().map(|state| state.join("journals")) else { return Ok(None) };
    Folder::open_or_make(&folder, Readers::Owner)?;
    Ok(Some(folder))
}

/// Endings of the logs that SQLite applies when it opens a file.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// Returns the log of a file that has this ending.
fn log_of(file: &Path, ending: &str) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push(ending);
    log.into()
}

/// The note on the log that a journal was last opened with.
fn note_of(list: &Path) -> PathBuf {
    list.with_extension("log")
}

/// Refuses a log with something in it that no process of this user's was seen with.
fn check_logs(file: &Path, list: &Path) -> Result<(), JournalError> {
    // In an unknown journal all runs come from elsewhere.
    if !list.exists() {
        return Ok(());
    }
    let noted = read_text_bounded(&note_of(list), MAX_LIST_BYTES).unwrap_or_default();
    for log in LOGS.map(|ending| log_of(file, ending)) {
        let Ok(status) = fs::symlink_metadata(&log) else { continue };
        if status.len() > 0 && !identity(&log).is_ok_and(|found| found == noted) {
            let (log, path) = (log.display().to_string(), file.display().to_string());
            return Err(JournalError::ForeignLog { log, path });
        }
    }
    Ok(())
}

/// Notes the log that a journal has now that it is open: it stays the same until the last process closes it.
fn note_log(file: &Path, list: &Path) -> io::Result<()> {
    let note = note_of(list);
    let Ok(now) = identity(&log_of(file, "-wal")) else { return Ok(()) };
    if read_text_bounded(&note, MAX_LIST_BYTES).is_ok_and(|noted| noted == now) {
        return Ok(());
    }
    write_whole(&note, &now, Readers::Owner)
}

/// The note on the identifier that a journal has in its file.
fn identifier_note_of(list: &Path) -> PathBuf {
    list.with_extension("id")
}

/// Returns `true` if a known journal's file was written over: it does not hold the identifier that was noted.
fn is_written_over(file: &Path, list: &Path) -> io::Result<bool> {
    match read_text_bounded(&identifier_note_of(list), MAX_LIST_BYTES) {
        Ok(noted) => Ok(identifier_in(file).is_none_or(|found| found.to_string() != noted)),
        // A journal that was last opened before there were identifiers.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Notes the identifier of a journal once its file holds it.
fn note_identifier(file: &Path, list: &Path) -> io::Result<()> {
    let Some(found) = identifier_in(file) else { return Ok(()) };
    let (note, found) = (identifier_note_of(list), found.to_string());
    if read_text_bounded(&note, MAX_LIST_BYTES).is_ok_and(|noted| noted == found) {
        return Ok(());
    }
    write_whole(&note, &found, Readers::Owner)
}

/// Opens a journal, and finds out which of its runs come from elsewhere.
pub(super) async fn opened<E: From<JournalError>>(
    settings: &JournalSettings,
    places: &Places,
    open: impl FnOnce() -> Result<Arc<dyn Journal>, E>,
) -> Result<Arc<dyn Journal>, E> {
    let JournalPlace::File(file) = &settings.place else { return open() };
    let is_new = || fs::metadata(file).map_or(true, |status| status.len() == 0);
    let is_guarded = in_project(settings).is_some();
    let failed = |error: io::Error| JournalError::Storage(Arc::new(error));
    // A read-only home keeps no list: what is there already comes from elsewhere each time.
    let folder = folder(places).unwrap_or_else(|error| {
        tracing::warn!(%error, "this user's own runs cannot be told from those of others");
        None
    });
    // Whoever has the turn may need this thread to end it.
    let turn = match folder.clone() {
        Some(folder) => {
            let waited = tokio::task::spawn_blocking(move || turn(&folder.join("lock"))).await;
            Some(waited.map_err(io::Error::other).and_then(|turn| turn).map_err(failed)?)
        }
        None => None,
    };
    let is_new = is_new();
    // Before the log is applied, which may hold the header of the journal that was here.
    let mut is_written_over_by_another = false;
    if let (true, Some(folder), Ok(identity)) = (is_guarded, &folder, identity(file)) {
        let list = folder.join(identity);
        check_logs(file, &list)?;
        is_written_over_by_another = list.exists() && is_written_over(file, &list).map_err(failed)?;
    }
    let journal = open()?;
    let list = folder.map(|folder| Ok::<_, io::Error>(folder.join(identity(file)?))).transpose().map_err(failed)?;
    if let Some(list) = &list {
        note_log(file, list).map_err(failed)?;
    }
    if !is_guarded && !is_new {
        // The user named it, or consented to it.
        return Ok(journal);
    }
    let listed = list.as_deref().filter(|_| !is_written_over_by_another);
    let known = listed.map(read_list).and_then(|read| match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read),
    });
    let runs = match known.transpose().map_err(failed)? {
        Some(runs) => runs,
        None => {
            let runs = if is_new { BTreeSet::new() } else { of_elsewhere(journal.as_ref(), file, is_guarded).await? };
            if let Some(list) = &list {
                write_list(list, &runs).map_err(failed)?;
            }
            runs
        }
    };
    // Last: whoever is ended before it finds the same again.
    if let Some(list) = &list {
        note_identifier(file, list).map_err(failed)?;
    }
    drop(turn);
    if !is_guarded {
        return Ok(journal);
    }
    let read = Mutex::new((None, Arc::new(runs)));
    Ok(Arc::new(OfProject { journal, path: file.display().to_string(), list: List { file: list, read } }))
}

async fn of_elsewhere(journal: &dyn Journal, file: &Path, is_guarded: bool) -> Result<BTreeSet<RunId>, JournalError> {
    let runs = journal.runs().await?;
    if runs.len() > MAX_RUNS {
        let reason =
            format!("it was not made here, and has {} runs; at most {MAX_RUNS} are looked through", runs.len());
        return Err(JournalError::Corrupt { path: file.display().to_string(), reason });
    }
    // Whoever has moved the journal, or has lost the list, learns at once why nothing drives its runs.
    let unfinished = runs.iter().filter(|run| !run.state.ended).count();
    if is_guarded && unfinished > 0 {
        tracing::warn!(
            "the journal {} was not made here, and has unfinished runs ({unfinished}): none is driven until it is adopted. \
             {} shows them; if they are yours: {}",
            file.display(),
            FollowUp::ListRuns,
            FollowUp::AdoptRuns
        );
    }
    Ok(runs.into_iter().map(|run| run.run).collect())
}

/// Takes a journal that was just put in its place as this user's own, with all of its runs.
///
/// # Errors
/// When that cannot be written down.
pub(super) fn own(settings: &JournalSettings, places: &Places) -> io::Result<()> {
    let Some(file) = in_project(settings) else { return Ok(()) };
    match folder(places)? {
        Some(folder) => {
            let list = folder.join(identity(file)?);
            write_list(&list, &BTreeSet::new())?;
            note_identifier(file, &list)
        }
        None => Ok(()),
    }
}

/// A journal in the folder of a project.
struct OfProject {
    journal: Arc<dyn Journal>,
    path: String,
    list: List,
}

#[async_trait]
impl Journal for OfProject {
    fn is_from_elsewhere(&self, run: &RunId) -> bool {
        self.list.runs().contains(run)
    }

    fn adopt(&self, runs: &[RunId]) -> Result<(), JournalError> {
        if self.list.file.is_none() && !runs.is_empty() {
            let lacking = io::Error::other("this user has no home to note that in: set `HOME` or `XDG_STATE_HOME`");
            return Err(JournalError::Storage(Arc::new(lacking)));
        }
        let gone = runs.iter().cloned().collect();
        self.list.without(&gone).map_err(|error| JournalError::Storage(Arc::new(error)))
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        if self.is_from_elsewhere(run) {
            return Err(JournalError::FromElsewhere { run: run.clone(), path: self.path.clone() });
        }
        self.journal.acquire(run, cut).await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        let elsewhere = self.list.runs();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let wanted = limit.saturating_add(elsewhere.len());
        let runs = self.journal.runnable(now, wanted as u64).await?;
        Ok(runs.into_iter().filter(|run| !elsewhere.contains(run)).take(limit).collect())
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.journal.check_clock(now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        let deleted = self.journal.delete(run).await?;
        if deleted && self.is_from_elsewhere(run) {
            self.adopt(std::slice::from_ref(run))?;
        }
        Ok(deleted)
    }

    async fn probe(&self) -> Result<(), JournalError> {
        self.journal.probe().await
    }

    fn reads_payloads(&self) -> bool {
        self.journal.reads_payloads()
    }

    fn keeps_values(&self) -> bool {
        self.journal.keeps_values()
    }

    async fn values(&self, digests: &[Arc<str>], max_bytes: u64) -> Result<FoundValues, JournalError> {
        self.journal.values(digests, max_bytes).await
    }

    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        self.journal.create(new).await
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.journal.release(run, fence).await
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.journal.append(append).await
    }

    async fn append_deferred(&self, append: Append, records: Arc<dyn LazyRecords>) -> Result<(), JournalError> {
        self.journal.append_deferred(append, records).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.journal.read(run, after, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.journal.runs().await
    }

    async fn page(&self, query: RunQuery) -> Result<Vec<RunEntry>, JournalError> {
        self.journal.page(query).await
    }

    async fn drivers(&self) -> Result<Vec<Driver>, JournalError> {
        self.journal.drivers().await
    }

    async fn tally(&self, now: i64) -> Result<BTreeMap<String, StatusTally>, JournalError> {
        self.journal.tally(now).await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.journal.retain(rule).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.journal.post(run, at, payload).await
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.journal.inbox(run).await
    }

    fn now(&self) -> Option<i64> {
        self.journal.now()
    }

    fn ownership(&self) -> Ownership {
        self.journal.ownership()
    }

    fn shared_versions(&self) -> Option<&dyn SharedVersions> {
        self.journal.shared_versions()
    }

    async fn changed(&self, at_most: Duration) {
        self.journal.changed(at_most).await;
    }
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use opcell_journal::SqliteJournal;
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("project/runs.db")
        }

        async fn open(&self) -> Arc<dyn Journal> {
            self.try_open().await.unwrap()
        }

        async fn try_open(&self) -> Result<Arc<dyn Journal>, JournalError> {
            fs::create_dir_all(self.folder.path().join("project")).unwrap();
            let places = Places { state: Some(self.folder.path().join("state")), ..Places::default() };
            let mut settings = JournalSettings::at(self.file());
            settings.project = Some(self.folder.path().join("project"));
            let open = || Ok(Arc::new(SqliteJournal::open(self.file())?) as Arc<dyn Journal>);
            opened::<JournalError>(&settings, &places, open).await
        }

        /// Makes a journal with one run, and waits until its threads have closed the file.
        async fn closed_with(&self, name: &str) {
            make(self.open().await.as_ref(), name).await;
            self.until_closed().await;
            // Connections that close at the same moment leave the log to the next one.
            while log_of(&self.file(), "-wal").exists() {
                drop(self.open().await);
                self.until_closed().await;
            }
        }

        async fn until_closed(&self) {
            let is_open = || {
                let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
                files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == self.file())
            };
            while is_open() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }

        /// A journal as a checkout brings it, with a run that waits for a driver.
        async fn checked_out(&self) {
            fs::create_dir_all(self.folder.path().join("project")).unwrap();
            let elsewhere = self.folder.path().join("elsewhere.db");
            let journal = SqliteJournal::open(&elsewhere).unwrap();
            make(&journal, "planted").await;
            // Whole, whatever its log still holds.
            opcell_journal::backup(&elsewhere, &self.file()).unwrap();
        }
    }

    async fn make(journal: &dyn Journal, name: &str) {
        let run: RunId = name.into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.release(&run, fence).await.unwrap();
    }

    async fn runnable(journal: &dyn Journal) -> Vec<RunId> {
        journal.runnable(1, 10).await.unwrap()
    }

    #[tokio::test]
    async fn runs_of_a_journal_that_this_user_made_are_driven_by_every_process() {
        let world = World::new();
        make(world.open().await.as_ref(), "a").await;
        let again = world.open().await;
        assert_eq!(runnable(again.as_ref()).await, ["a".into()]);
        again.acquire(&"a".into(), Cut::Tail).await.unwrap();
    }

    #[tokio::test]
    async fn a_run_that_came_with_a_checkout_is_not_driven_until_it_is_adopted() {
        let world = World::new();
        world.checked_out().await;
        let (journal, other) = (world.open().await, world.open().await);
        make(journal.as_ref(), "own").await;
        assert_eq!(runnable(journal.as_ref()).await, ["own".into()]);
        let planted: RunId = "planted".into();
        let refused = world.open().await.acquire(&planted, Cut::Tail).await.unwrap_err();
        assert_eq!(refused.kind(), "run-from-elsewhere", "{refused}");
        journal.adopt(std::slice::from_ref(&planted)).unwrap();
        assert!(!other.is_from_elsewhere(&planted), "a process that runs already sees it");
        other.acquire(&planted, Cut::Tail).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_takes_the_place_of_a_journal_is_another_journal() {
        let world = World::new();
        world.closed_with("planted").await;
        fs::remove_file(world.file()).unwrap();
        world.checked_out().await;
        assert!(runnable(world.open().await.as_ref()).await.is_empty());
    }

    /// A checkout brings no journal, but a log that holds another one.
    #[tokio::test]
    async fn a_log_that_came_with_a_checkout_replaces_no_run() {
        let world = World::new();
        world.closed_with("own").await;
        let elsewhere = world.folder.path().join("elsewhere.db");
        let journal = SqliteJournal::open(&elsewhere).unwrap();
        make(&journal, "planted").await;
        let log = log_of(&world.file(), "-wal");
        assert!(fs::metadata(log_of(&elsewhere, "-wal")).unwrap().len() > 0);
        fs::copy(log_of(&elsewhere, "-wal"), &log).unwrap();
        let refused = world.try_open().await.err().unwrap();
        assert_eq!(refused.kind(), "journal-log-from-elsewhere", "{refused}");
        fs::remove_file(&log).unwrap();
        assert_eq!(runnable(world.open().await.as_ref()).await, ["own".into()]);
    }

    #[tokio::test]
    async fn a_log_that_a_killed_process_left_is_its_users() {
        let world = World::new();
        make(world.open().await.as_ref(), "own").await;
        // Never closed: as after a kill, the log stays.
        let killed = world.open().await;
        make(killed.as_ref(), "other").await;
        std::mem::forget(killed);
        assert!(fs::metadata(log_of(&world.file(), "-wal")).unwrap().len() > 0);
        assert_eq!(runnable(world.open().await.as_ref()).await.len(), 2);
    }

    /// `cat evil > runs.db`: the file stays the same one, and what it holds does not.
    #[tokio::test]
    async fn a_journal_that_is_written_over_in_place_is_another_journal() {
        let world = World::new();
        world.closed_with("own").await;
        let same_file = identity(&world.file()).unwrap();
        let elsewhere = world.folder.path().join("elsewhere.db");
        let journal = SqliteJournal::open(world.folder.path().join("theirs.db")).unwrap();
        make(&journal, "planted").await;
        opcell_journal::backup(&world.folder.path().join("theirs.db"), &elsewhere).unwrap();
        let own = fs::read(world.file()).unwrap();
        fs::write(world.file(), fs::read(&elsewhere).unwrap()).unwrap();
        assert_eq!(identity(&world.file()).unwrap(), same_file);
        let journal = world.open().await;
        assert!(runnable(journal.as_ref()).await.is_empty());
        let refused = journal.acquire(&"planted".into(), Cut::Tail).await.unwrap_err();
        assert_eq!(refused.kind(), "run-from-elsewhere", "{refused}");
        // Adopted, it is this user's, and what was here before comes from elsewhere.
        journal.adopt(&["planted".into()]).unwrap();
        drop(journal);
        assert_eq!(runnable(world.open().await.as_ref()).await, ["planted".into()]);
        world.until_closed().await;
        let _ = fs::remove_file(log_of(&world.file(), "-wal"));
        fs::write(world.file(), own).unwrap();
        assert!(runnable(world.open().await.as_ref()).await.is_empty());
    }

    #[tokio::test]
    async fn a_journal_of_before_there_were_identifiers_stays_its_users() {
        let world = World::new();
        world.closed_with("own").await;
        let notes =
            || fs::read_dir(world.folder.path().join("state/journals")).unwrap().flatten().map(|note| note.path());
        let note = notes().find(|note| note.extension().is_some_and(|ending| ending == "id")).unwrap();
        fs::remove_file(&note).unwrap();
        let mut bytes = fs::read(world.file()).unwrap();
        bytes.get_mut(68..72).unwrap().fill(0);
        fs::write(world.file(), bytes).unwrap();
        assert_eq!(runnable(world.open().await.as_ref()).await, ["own".into()]);
        assert_eq!(fs::read_to_string(&note).ok(), identifier_in(&world.file()).map(|found| found.to_string()));
        assert!(note.exists(), "from now on it has one");
    }

    #[tokio::test]
    async fn a_list_that_others_may_write_is_not_believed() {
        let world = World::new();
        world.checked_out().await;
        drop(world.open().await);
        let lists = fs::read_dir(world.folder.path().join("state/journals")).unwrap();
        for list in lists.map(|entry| entry.unwrap().path()) {
            fs::set_permissions(&list, Permissions::from_mode(0o666)).unwrap();
        }
        let mut settings = JournalSettings::at(world.file());
        settings.project = Some(world.folder.path().join("project"));
        let places = Places { state: Some(world.folder.path().join("state")), ..Places::default() };
        let open = || Ok(Arc::new(SqliteJournal::open(world.file())?) as Arc<dyn Journal>);
        assert!(opened::<JournalError>(&settings, &places, open).await.is_err());
    }
}
