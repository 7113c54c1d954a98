//! Connections to SQLite files that lose nothing that was committed, and that several processes use at once.

use rusqlite::{Connection, ErrorCode};
use std::{
    thread,
    time::{Duration, Instant},
};

/// The time to wait for another connection's transaction.
const BUSY: Duration = Duration::from_secs(5);

/// The pause between two attempts to change how a file is written.
const PAUSE: Duration = Duration::from_millis(2);

const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;";

/// Has a connection wait for others, write ahead, and commit for good.
///
/// # Errors
/// SQLite's; that the file is busy after five seconds.
pub fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    wait_for_others(connection)?;
    write_ahead(connection)?;
    connection.execute_batch(SETTINGS)
}

/// Has a connection wait for what others write.
pub(crate) fn wait_for_others(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)
}

/// Turns on the write-ahead log. If several connections open a new file at once, each reads it before it asks to be the
/// only one. SQLite sees that none of them can wait for the others, and refuses without waiting: whoever is refused has
/// to begin again.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let began = Instant::now();
    loop {
        match connection.execute_batch("PRAGMA journal_mode = WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY => {
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use std::sync::Barrier;

    #[test]
    fn all_who_open_a_new_file_at_once_may_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let path = folder.path().join(format!("{round}.db"));
            let start = Barrier::new(8);
            thread::scope(|threads| {
                for _ in 0..8 {
                    threads.spawn(|| {
                        let connection = Connection::open(&path).unwrap();
                        start.wait();
                        prepare(&connection).unwrap();
                        let write =
                            "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS t (x); INSERT INTO t VALUES (1); COMMIT";
                        connection.execute_batch(write).unwrap();
                    });
                }
            });
            let written = Connection::open(&path).unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0));
            assert_eq!(written, Ok(8));
        }
    }
}
