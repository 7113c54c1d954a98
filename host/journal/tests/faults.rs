//! Storage that fails: writes that end short, disks that are full, fsync that fails, files that are torn, stale or
//! overwritten.
//!
//! What was acknowledged is there afterwards, whole and in order; nothing panics.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_journal::{Append, Cut, Fence, Journal, JournalError, NewRun, Record, RunId, SqliteJournal};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};
use vfs::{Fault, arm};

/// SQLite's own storage, with writes and syncs that fail on demand.
mod vfs {
    use rusqlite::ffi;
    use std::{
        ffi::{c_int, c_void},
        ptr,
        sync::{
            Mutex, Once, PoisonError,
            atomic::{AtomicI64, AtomicPtr, AtomicU8, Ordering},
        },
    };

    /// The operation that fails.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Fault {
        /// Half of a write is there.
        ShortWrite = 1,
        /// Nothing of it is.
        DiskFull = 2,
        /// No one knows what of it is.
        Sync = 3,
    }

    static REGISTER: Once = Once::new();
    static REAL: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());
    static METHODS: AtomicPtr<ffi::sqlite3_io_methods> = AtomicPtr::new(ptr::null_mut());
    static TABLES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    static FAULT: AtomicU8 = AtomicU8::new(0);
    static COUNTDOWN: AtomicI64 = AtomicI64::new(0);
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    /// Lets every write (or sync) fail from the `nth` one on, until it is dropped.
    pub struct Armed;

    impl Drop for Armed {
        fn drop(&mut self) {
            FAULT.store(0, Ordering::SeqCst);
        }
    }

    pub fn arm(fault: Fault, nth: i64) -> Armed {
        COUNTDOWN.store(nth, Ordering::SeqCst);
        FAULT.store(fault as u8, Ordering::SeqCst);
        Armed
    }

    /// Takes the place of the storage that SQLite uses by default. One test at a time: there is one storage.
    pub async fn install() -> tokio::sync::MutexGuard<'static, ()> {
        REGISTER.call_once(|| {
            // SAFETY: the default storage lives as long as the process; its copy is leaked, and differs in its name and
            // its way to open files, which hands over to the original.
            unsafe {
                let real = ffi::sqlite3_vfs_find(ptr::null());
                REAL.store(real, Ordering::SeqCst);
                let mut faulty = ptr::read(real);
                faulty.zName = c"faulty".as_ptr();
                faulty.pNext = ptr::null_mut();
                faulty.xOpen = Some(open);
                assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(faulty)), 1), ffi::SQLITE_OK);
            }
        });
        TURN.lock().await
    }

    unsafe extern "C" fn open(
        _: *mut ffi::sqlite3_vfs,
        name: ffi::sqlite3_filename,
        file: *mut ffi::sqlite3_file,
        flags: c_int,
        out: *mut c_int,
    ) -> c_int {
        // SAFETY: the arguments are SQLite's own, for the storage that opens the file; afterwards only the table of
        // methods is another one, which hands over to the original.
        unsafe {
            let real = REAL.load(Ordering::SeqCst);
            let Some(open) = (*real).xOpen else { return ffi::SQLITE_CANTOPEN };
            let opened = open(real, name, file, flags, out);
            let methods = (*file).pMethods.cast_mut();
            if opened == ffi::SQLITE_OK && !methods.is_null() {
                METHODS.store(methods, Ordering::SeqCst);
                let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
                // Files with and without locks have tables of their own, with the same methods to write and to sync.
                let known = tables.iter().find(|(real, _)| *real == methods as usize).map(|(_, faulty)| *faulty);
                let faulty = known.unwrap_or_else(|| {
                    let mut faulty = ptr::read(methods);
                    faulty.xWrite = Some(write);
                    faulty.xSync = Some(sync);
                    let leaked = std::ptr::from_mut(Box::leak(Box::new(faulty))) as usize;
                    tables.push((methods as usize, leaked));
                    leaked
                });
                (*file).pMethods = faulty as *const ffi::sqlite3_io_methods;
            }
            opened
        }
    }

    fn fails(kinds: &[Fault]) -> Option<Fault> {
        let armed = FAULT.load(Ordering::SeqCst);
        let fault = kinds.iter().copied().find(|kind| *kind as u8 == armed)?;
        (COUNTDOWN.fetch_sub(1, Ordering::SeqCst) <= 1).then_some(fault)
    }

    unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, bytes: *const c_void, count: c_int, at: i64) -> c_int {
        // SAFETY: the original's own method, on its own file.
        let real =
            |count| unsafe { (*METHODS.load(Ordering::SeqCst)).xWrite.map(|write| write(file, bytes, count, at)) };
        match fails(&[Fault::ShortWrite, Fault::DiskFull]) {
            None => real(count).unwrap_or(ffi::SQLITE_IOERR_WRITE),
            Some(Fault::ShortWrite) => {
                real(count / 2);
                ffi::SQLITE_IOERR_WRITE
            }
            Some(_) => ffi::SQLITE_FULL,
        }
    }

    unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
        if fails(&[Fault::Sync]).is_some() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        // SAFETY: the original's own method, on its own file.
        unsafe { (*METHODS.load(Ordering::SeqCst)).xSync.map_or(ffi::SQLITE_IOERR_FSYNC, |sync| sync(file, flags)) }
    }
}

/// Large enough that some records need pages of their own.
fn record(seq: u64) -> Record {
    let text = "x".repeat(usize::try_from(seq * 997 % 6000).unwrap());
    Record {
        seq,
        kind: "happened".into(),
        version: 1,
        at: 1000 + seq.cast_signed(),
        payload: format!(r#"{{"n":{seq},"text":"{text}"}}"#).into(),
    }
}

fn append(run: &RunId, fence: Fence, seq: u64) -> Append {
    Append { run: run.clone(), fence, records: vec![record(seq)], state: None, snapshot: None, inbox: None }
}

/// Events that were reported as cut, in all.
static CUT: AtomicU64 = AtomicU64::new(0);

/// The records of the run: the good ones, as whoever takes it up gets them.
async fn taken_up(path: &Path) -> Result<u64, JournalError> {
    let journal = SqliteJournal::open(path)?;
    let opened = journal.acquire(&"r".into(), Cut::Anything).await?;
    for (record_got, seq) in opened.records.iter().zip(1..) {
        assert_eq!(*record_got, record(seq), "a record that is given is the one that was written");
    }
    let last = opened.records.len() as u64;
    if let Some(damage) = &opened.damage {
        assert_eq!(damage.last_good, last, "what is said to be good is what is given");
        CUT.fetch_add(damage.cut, Ordering::SeqCst);
    }
    journal.append(append(&"r".into(), opened.fence, last + 1)).await?;
    Ok(last)
}

#[tokio::test]
async fn what_was_acknowledged_survives_storage_that_fails() {
    let _turn = vfs::install().await;
    for fault in [Fault::ShortWrite, Fault::DiskFull, Fault::Sync] {
        let mut failed = 0;
        for nth in 1..=20 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("runs.db");
            let journal = SqliteJournal::open(&path).unwrap();
            let run: RunId = "r".into();
            let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
            let mut acknowledged = 0;
            let armed = arm(fault, nth);
            for seq in 1..=12 {
                // As a driver does: behind a failure nothing more is appended.
                match journal.append(append(&run, fence, seq)).await {
                    Ok(()) => acknowledged = seq,
                    Err(error) => {
                        assert!(matches!(error, JournalError::Storage(_)), "{error}");
                        failed += 1;
                        break;
                    }
                }
            }
            drop(armed);
            drop(journal);
            let there = taken_up(&path).await.unwrap();
            assert!(
                there >= acknowledged,
                "{fault:?} at {nth}: {there} of {acknowledged} acknowledged events are there"
            );
            assert!(
                there <= acknowledged + 1,
                "{fault:?} at {nth}: {there} events are there, {acknowledged} were acknowledged"
            );
        }
        assert!(failed > 5, "{fault:?} came {failed} times only");
    }
}

/// Appends of many runs share transactions, and the small ones among them have no savepoint of their own.
#[tokio::test]
async fn what_was_acknowledged_among_many_survives_storage_that_fails() {
    let _turn = vfs::install().await;
    let small = |seq: u64| Record { payload: format!(r#"{{"n":{seq}}}"#).into(), ..record(seq) };
    for (fault, nth) in [Fault::ShortWrite, Fault::DiskFull, Fault::Sync]
        .into_iter()
        .flat_map(|fault| [3, 20, 60, 200].into_iter().map(move |nth| (fault, nth)))
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        let journal = SqliteJournal::open(&path).unwrap();
        let runs: Vec<RunId> = (0..24).map(|at| format!("run-{at}").into()).collect();
        let mut fences = Vec::new();
        for run in &runs {
            fences.push(journal.create(NewRun::empty(run, "w", 0)).await.unwrap());
        }
        let mut acknowledged = vec![0; runs.len()];
        let (mut refused, mut failed) = (0, false);
        let mut armed = None;
        for round in 1..=30_u64 {
            if round == 10 {
                armed = Some(arm(fault, nth));
            }
            // The last one of each round is a former owner's: no one else notices.
            let appends = runs.iter().zip(&fences).enumerate().map(|(at, (run, fence))| {
                let fence = if at as u64 == round % 24 { Fence(fence.0 + 7) } else { *fence };
                let (journal, run, records) = (journal.clone(), run.clone(), vec![small(acknowledged[at] + 1)]);
                let append = Append { run, fence, records, state: None, snapshot: None, inbox: None };
                tokio::spawn(async move { journal.append(append).await })
            });
            let appends: Vec<_> = appends.collect();
            for (at, append) in appends.into_iter().enumerate() {
                match append.await.unwrap() {
                    Ok(()) => acknowledged[at] += 1,
                    Err(JournalError::Fenced { .. }) => refused += 1,
                    Err(error) => {
                        assert!(round >= 10 && matches!(error, JournalError::Storage(_)), "{round}: {error}");
                        failed = true;
                    }
                }
            }
            if failed {
                break;
            }
        }
        assert!(refused >= 9, "{refused}");
        drop(armed);
        drop(journal);
        let journal = SqliteJournal::open(&path).unwrap();
        for (run, acknowledged) in runs.iter().zip(&acknowledged) {
            let opened = journal.acquire(run, Cut::Anything).await.unwrap();
            let there = opened.records.len() as u64;
            assert!((*acknowledged..=acknowledged + 1).contains(&there), "{run}: {there} beside {acknowledged}");
            assert!(opened.damage.is_none(), "{run}: {:?}", opened.damage);
            assert!(opened.records.iter().zip(1..).all(|(record, seq)| *record == small(seq)));
        }
    }
}

#[tokio::test]
async fn a_store_goes_on_when_its_disk_has_room_again() {
    let _turn = vfs::install().await;
    let directory = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(directory.path().join("runs.db")).unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(append(&run, fence, 1)).await.unwrap();
    let armed = arm(Fault::DiskFull, 1);
    journal.append(append(&run, fence, 2)).await.unwrap_err();
    assert_eq!(journal.read(&run, 0, 9).await.unwrap(), [record(1)], "reading needs no room");
    drop(armed);
    journal.append(append(&run, fence, 2)).await.unwrap();
    assert_eq!(journal.read(&run, 0, 9).await.unwrap(), [record(1), record(2)]);
}

/// The files of a store while it is open, as a machine that stops leaves them.
fn copy_of(path: &Path, to: &Path) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for ending in ["", "-wal"] {
        let from = format!("{}{ending}", path.display());
        fs::copy(&from, to.join(format!("runs.db{ending}"))).unwrap();
    }
    to.join("runs.db")
}

#[tokio::test]
async fn a_log_that_is_torn_anywhere_leaves_a_sound_beginning() {
    let _turn = vfs::install().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    for seq in 1..=10 {
        journal.append(append(&run, fence, seq)).await.unwrap();
    }
    let whole = fs::read(directory.path().join("runs.db-wal")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for cut in (0..whole.len()).step_by(whole.len() / 60) {
        let copy = copy_of(&path, &directory.path().join(format!("cut-{cut}")));
        fs::write(copy.with_extension("db-wal"), &whole[..cut]).unwrap();
        match taken_up(&copy).await {
            Ok(there) => drop(seen.insert(there)),
            // The beginning of the store itself was in the part that is gone.
            Err(JournalError::UnknownRun(_)) => {}
            Err(error) => unreachable!("cut at {cut}: {error}"),
        }
    }
    assert!(seen.len() > 5, "{seen:?}");
}

#[tokio::test]
async fn files_of_different_moments_are_refused_or_leave_a_sound_beginning() {
    let _turn = vfs::install().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let run: RunId = "r".into();
    let mut copies = Vec::new();
    for moment in 0..3_u64 {
        // Closing the store moves the log into the file, so every moment has another file and another log.
        let journal = SqliteJournal::open(&path).unwrap();
        let fence = match journal.create(NewRun::empty(&run, "w", 0)).await {
            Ok(fence) => fence,
            Err(_) => journal.acquire(&run, Cut::Tail).await.unwrap().fence,
        };
        for seq in moment * 6 + 1..=moment * 6 + 6 {
            journal.append(append(&run, fence, seq)).await.unwrap();
        }
        copies.push(copy_of(&path, &directory.path().join(format!("moment-{moment}"))));
        journal.release(&run, fence).await.unwrap();
    }
    for (file, log) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let place = directory.path().join(format!("file-{file}-log-{log}"));
        fs::create_dir(&place).unwrap();
        fs::copy(&copies[file], place.join("runs.db")).unwrap();
        fs::copy(copies[log].with_extension("db-wal"), place.join("runs.db-wal")).unwrap();
        match taken_up(&place.join("runs.db")).await {
            // The older of the two is a store as it was: it looks sound, and nothing older than that is lost.
            Ok(there) => {
                let (least, most) = (6 * file.min(log) as u64, 6 * (file.max(log) as u64 + 1));
                assert!((least..=most).contains(&there), "file {file} with log {log}: {there} events");
            }
            Err(JournalError::Corrupt { .. } | JournalError::UnknownRun(_) | JournalError::Storage(_)) => {}
            Err(error) => unreachable!("file {file} with log {log}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_page_that_was_overwritten_is_refused_or_leaves_a_sound_beginning() {
    let _turn = vfs::install().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let run: RunId = "r".into();
    let journal = SqliteJournal::open(&path).unwrap();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    for seq in 1..=20 {
        journal.append(append(&run, fence, seq)).await.unwrap();
    }
    drop(journal);
    // The handles close a moment later, in any order: what is still in the log is brought into the file here.
    let store = rusqlite::Connection::open(&path).unwrap();
    store.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    let busy: i64 = store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0, "no one holds the log");
    drop(store);
    let whole = fs::read(&path).unwrap();
    let (mut refused, mut shortened) = (0, 0);
    for at in (0..whole.len()).step_by(1711) {
        let mut broken = whole.clone();
        for byte in &mut broken[at..(at + 64).min(whole.len())] {
            *byte ^= 0xa5;
        }
        let place = directory.path().join(format!("at-{at}"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("runs.db"), broken).unwrap();
        CUT.store(0, Ordering::SeqCst);
        match taken_up(&place.join("runs.db")).await {
            Ok(there) => {
                assert_eq!(there + CUT.load(Ordering::SeqCst), 20, "at {at}: what is lost is said");
                shortened += usize::from(there < 20);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0 && shortened > 0, "{refused} refused, {shortened} shortened");
}

#[tokio::test]
async fn what_a_run_was_told_survives_storage_that_fails_and_is_there_once() {
    let _turn = vfs::install().await;
    for fault in [Fault::ShortWrite, Fault::DiskFull, Fault::Sync] {
        let mut failed = 0;
        for nth in 1..=8 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("runs.db");
            let journal = SqliteJournal::open(&path).unwrap();
            let run: RunId = "r".into();
            journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
            let armed = arm(fault, nth);
            let mut printed: usize = 0;
            for message in 0..6 {
                match journal.post(&run, 0, message.to_string().into()).await {
                    Ok(()) => printed += 1,
                    Err(error) => {
                        assert!(matches!(error, JournalError::Storage(_)), "{error}");
                        failed += 1;
                        break;
                    }
                }
            }
            drop(armed);
            drop(journal);
            let inbox = SqliteJournal::open(&path).unwrap().inbox(&run).await.unwrap();
            let there: Vec<&str> = inbox.iter().map(|message| message.payload.as_ref()).collect();
            let expected: Vec<String> = (0..there.len()).map(|message| message.to_string()).collect();
            assert_eq!(there, expected, "{fault:?} at {nth}");
            assert!(
                (printed..=printed + 1).contains(&there.len()),
                "{fault:?} at {nth}: {there:?}, {printed} were acknowledged"
            );
        }
        assert!(failed > 2, "{fault:?} came {failed} times only");
    }
}

#[tokio::test]
async fn a_run_that_could_not_be_released_is_free_when_its_process_is_gone() {
    let _turn = vfs::install().await;
    for fault in [Fault::ShortWrite, Fault::DiskFull, Fault::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        let journal = SqliteJournal::open(&path).unwrap();
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.append(append(&run, fence, 1)).await.unwrap();
        let armed = arm(fault, 1);
        let error = journal.release(&run, fence).await.unwrap_err();
        assert!(matches!(error, JournalError::Storage(_)), "{error}");
        drop(armed);
        assert_eq!(journal.read(&run, 0, 9).await.unwrap(), [record(1)], "{fault:?}");
        drop(journal);
        assert_eq!(taken_up(&path).await.unwrap(), 1, "{fault:?}");
    }
}
