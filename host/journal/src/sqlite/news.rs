//! Wake-ups for workers that wait for messages: at once if this process posted one, and when the write-ahead log was
//! written if another did: after a glance at a busy log, at the system's word on a quiet one.

use super::on;
#[cfg(target_os = "linux")]
use super::watch::at_next_write;
use crate::journal::JournalError;
use rusqlite::Connection;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The longest wait: timers become due without a write, and a log that was written twice within the resolution of its
/// time stamp looks as it did after the first.
const LONGEST: Duration = Duration::from_millis(200);

/// The longest wait where only a write makes a run runnable before then.
const LONGEST_QUIET: Duration = Duration::from_secs(2);

/// The age after which the log's time stamp is another one than that of its next write.
const QUIET: Duration = Duration::from_secs(1);

/// The interval of glances at the log. A glance is one call of the system and reads nothing.
const GLANCE: Duration = Duration::from_millis(20);

/// The same for a log that was not written for a minute.
const GLANCE_DORMANT: Duration = Duration::from_millis(100);
const DORMANT: Duration = Duration::from_secs(60);

/// The same for a quiet log that the system watches: of a file system that is shared, it does not tell all.
const GLANCE_WATCHED: Duration = Duration::from_secs(1);

/// The time stamp and the length of the log: every commit of any process changes one of them.
type Written = Option<(SystemTime, u64)>;

/// The last state of the store that someone has looked at.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    written: Written,
    message: i64,
    /// The moment until which only a write makes a run runnable, where the look could tell.
    idle_until: Option<Instant>,
}

impl Seen {
    /// The time since the log was written; none where its clock is another.
    fn age(&self) -> Option<Duration> {
        self.written.and_then(|(at, _)| at.elapsed().ok())
    }
}

/// The runs that a look found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look {
    /// Some that can continue, or that another process drives, which may die without a write.
    Some,
    /// None; the next timer is due after this time.
    None { next_due: Option<Duration> },
}

/// Wakes whoever waits for runs that can continue.
#[derive(Debug)]
pub(super) struct News {
    log: PathBuf,
    posted: Notify,
    /// The system saw a write to the log.
    watched: Arc<Notify>,
    seen: Mutex<Seen>,
}

impl News {
    /// News of the store in a file.
    pub(super) fn new(store: &Path) -> Self {
        let mut log = OsString::from(store);
        log.push("-wal");
        Self { log: log.into(), posted: Notify::new(), watched: Arc::default(), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> Written {
        let log = fs::metadata(&self.log).ok()?;
        Some((log.modified().ok()?, log.len()))
    }

    /// The state of the log before a look at the store; [`News::looked`] receives it afterwards, so that a write during
    /// the look is noticed.
    pub(super) fn before_look(&self) -> Seen {
        Seen { written: self.written(), message: 0, idle_until: None }
    }

    /// Remembers that the runs of the store were looked at when `message` was its newest message.
    pub(super) fn looked(&self, before: Seen, message: i64, found: Look) {
        let idle_until = match found {
            Look::Some => None,
            Look::None { next_due } => {
                Some(Instant::now() + next_due.map_or(LONGEST_QUIET, |due| due.min(LONGEST_QUIET)))
            }
        };
        *self.seen() = Seen { message, idle_until, ..before };
    }

    /// Wakes whoever waits in this process, or else whoever waits next.
    pub(super) fn posted(&self) {
        self.posted.notify_waiters();
        self.posted.notify_one();
    }

    /// Waits until a message was posted since the last look, or for this long; returns `true` if one was.
    pub(super) async fn wait(&self, at_most: Duration, reader: &Arc<Mutex<Connection>>) -> bool {
        let (now, seen) = (Instant::now(), *self.seen());
        let quiet = seen.idle_until.filter(|_| seen.age().is_some_and(|age| age >= QUIET));
        let longest = quiet.map_or(LONGEST, |until| until.saturating_duration_since(now));
        let mut until = now + at_most.min(longest);
        let mut is_written = false;
        loop {
            let seen = *self.seen();
            if seen.idle_until.is_none() {
                // Something was written meanwhile, by which a run may have become runnable.
                until = until.min(Instant::now() + LONGEST);
            }
            // Before the watch begins: from here on no write is missed.
            let watched = self.watched.notified();
            let next = match seen.age() {
                _ if is_written => GLANCE,
                Some(age) if age >= QUIET && self.watch_begins(&seen) => GLANCE_WATCHED,
                Some(age) if age >= DORMANT => GLANCE_DORMANT,
                _ => GLANCE,
            };
            let next = until.min(Instant::now() + next);
            tokio::select! {
                () = self.posted.notified() => return true,
                () = watched, if !is_written => {
                    // The first write of a transaction comes before its end: a glance now would miss the message.
                    is_written = true;
                    continue;
                }
                () = sleep_until(next) => is_written = false,
            }
            if self.has_news(reader).await {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
        }
    }

    /// Returns `true` if the system will tell of the next write, and none came since the log was looked at.
    fn watch_begins(&self, seen: &Seen) -> bool {
        at_next_write(&self.log, &self.watched) && self.written() == seen.written
    }

    /// Returns `true` if the newest message is another one than at the last look. Most writes are events of runs.
    async fn has_news(&self, reader: &Arc<Mutex<Connection>>) -> bool {
        let written = self.written();
        let seen = *self.seen();
        if written == seen.written {
            return false;
        }
        // A store that cannot be read has its error told by the look that follows.
        let Ok(message) = on(reader.clone(), newest_message).await else { return true };
        if message != seen.message {
            return true;
        }
        let mut seen = self.seen();
        (seen.written, seen.idle_until) = (written, None);
        false
    }
}

/// Without the system's word there are only glances.
#[cfg(not(target_os = "linux"))]
fn at_next_write(_: &Path, _: &Arc<Notify>) -> bool {
    false
}

/// The number of the newest message that waits; 0 without one.
pub(super) fn newest_message(connection: &Connection) -> Result<i64, JournalError> {
    let mut query = connection.prepare_cached("SELECT coalesce(max(id), 0) FROM inbox").map_err(super::storage)?;
    query.query_row([], |row| row.get(0)).map_err(super::storage)
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use super::at_next_write;
    use super::{LONGEST, LONGEST_QUIET};
    use crate::{
        SqliteJournal,
        contract::append,
        journal::{Append, Cut, Journal as _, NewRun},
        record::{Fence, RunId, RunState},
    };
    use std::time::Duration;
    use tokio::time::Instant;

    fn due(due: Option<i64>) -> RunState {
        RunState { status: "waiting".into(), ended: false, due }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    /// The log as one that was written so long ago.
    fn aged(folder: &tempfile::TempDir, seconds: u64) {
        let log = std::fs::File::options().append(true).open(folder.path().join("runs.db-wal")).unwrap();
        log.set_modified(std::time::SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    async fn store() -> (tempfile::TempDir, SqliteJournal, RunId, Fence) {
        let folder = tempfile::tempdir().unwrap();
        let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
        let run: RunId = "waits".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.runnable(0, 1).await.unwrap();
        (folder, journal, run, fence)
    }

    #[tokio::test]
    async fn a_message_of_this_process_wakes_who_waits_and_who_is_about_to() {
        let (_folder, journal, run, _) = store().await;
        let waits = tokio::spawn({
            let journal = journal.clone();
            async move { journal.news.wait(HOUR, &journal.reader).await }
        });
        tokio::task::yield_now().await;
        journal.post(&run, 0, "{}".into()).await.unwrap();
        assert!(waits.await.unwrap());
        assert!(journal.news.wait(HOUR, &journal.reader).await);
    }

    #[tokio::test]
    async fn a_message_of_another_process_is_news_and_its_events_are_not() {
        let (folder, journal, run, fence) = store().await;
        let other = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
        other.append(append(&run, fence, [1])).await.unwrap();
        assert!(!journal.news.wait(HOUR, &journal.reader).await);
        other.post(&run, 0, "{}".into()).await.unwrap();
        assert!(journal.news.wait(HOUR, &journal.reader).await);
        // It is old once someone has looked at the runs.
        journal.runnable(0, 1).await.unwrap();
        assert!(!journal.news.wait(HOUR, &journal.reader).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_store_is_looked_at_seldom_and_in_time_for_its_timers() {
        let (folder, journal, run, fence) = store().await;
        journal.append(Append { state: Some(due(None)), ..append(&run, fence, [1]) }).await.unwrap();
        journal.release(&run, fence).await.unwrap();
        let wait = async |seconds: u64, now: i64| {
            aged(&folder, seconds);
            assert!(journal.runnable(now, 1).await.unwrap().is_empty());
            let began = Instant::now();
            assert!(!journal.news.wait(HOUR, &journal.reader).await);
            began.elapsed()
        };
        assert!(wait(5, 0).await >= LONGEST_QUIET);
        assert!(wait(0, 0).await < 2 * LONGEST);
        let fence = journal.acquire(&run, Cut::Tail).await.unwrap().fence;
        journal.append(Append { state: Some(due(Some(10_700))), ..append(&run, fence, [2]) }).await.unwrap();
        journal.release(&run, fence).await.unwrap();
        let waited = wait(5, 10_000).await;
        assert!(waited >= Duration::from_millis(690) && waited < LONGEST_QUIET, "{waited:?}");
    }

    /// Not of a paused clock: the system tells in its own time.
    #[tokio::test]
    async fn a_write_ends_the_wait_for_a_quiet_store() {
        let (folder, journal, run, fence) = store().await;
        journal.append(Append { state: Some(due(None)), ..append(&run, fence, [1]) }).await.unwrap();
        journal.release(&run, fence).await.unwrap();
        let other = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
        for is_message in [true, false] {
            aged(&folder, 5);
            journal.runnable(0, 1).await.unwrap();
            let began = Instant::now();
            let waits = tokio::spawn({
                let journal = journal.clone();
                async move { (journal.news.wait(HOUR, &journal.reader).await, began.elapsed()) }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            if is_message {
                other.post(&run, 0, "{}".into()).await.unwrap();
            } else {
                // It may be a timer that is due sooner.
                aged(&folder, 0);
            }
            let (news, waited) = waits.await.unwrap();
            assert_eq!(news, is_message);
            assert!(is_message || waited < LONGEST_QUIET, "{waited:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_tells_of_one_write_for_each_watch() {
        let (folder, journal, run, _) = store().await;
        let log = folder.path().join("runs.db-wal");
        let [first, second] = [(); 2].map(|()| std::sync::Arc::new(tokio::sync::Notify::new()));
        for _ in 0..2 {
            // Twice at once, as two waiters of one store do.
            assert!(at_next_write(&log, &first) && at_next_write(&log, &first) && at_next_write(&log, &second));
            let both = async { tokio::join!(first.notified(), second.notified()) };
            let written = async {
                tokio::task::yield_now().await;
                journal.post(&run, 0, "{}".into()).await.unwrap();
            };
            let told = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(both, written) });
            told.await.expect("the system told nothing in a minute");
        }
    }
}
