//! The promises of every journal (`opcell_journal::contract`), and those of the journal in a file.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_journal::{
    Append, Cut, Fence, Journal, JournalError, NewRun, Payload, Record, Retention, RunId, SqliteJournal, StoredValue,
    contract::{append, record},
};
use std::path::Path;

mod memory {
    opcell_journal::contract!(async || ((), std::sync::Arc::new(opcell_journal::MemoryJournal::new())));
}

mod sqlite {
    opcell_journal::contract!(async || {
        let directory = tempfile::tempdir().unwrap();
        let journal = opcell_journal::SqliteJournal::open(directory.path().join("runs.db")).unwrap();
        (directory, std::sync::Arc::new(journal))
    });
}

/// The table of records that came lately, in stores of schema 3 and 4.
const RECORDS_THAT_ARRIVE: &str = "
CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY,
    record INTEGER NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
";

fn edit(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

async fn with_records(path: &Path, count: u64) {
    let journal = SqliteJournal::open(path).unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(append(&run, fence, 1..=count)).await.unwrap();
}

/// Four records of run `r`, and one statement about them.
async fn with_edited_records(path: &Path, sql: &str) {
    with_records(path, 4).await;
    assert!(rusqlite::Connection::open(path).unwrap().execute(sql, []).unwrap() > 0, "{sql}");
}

/// The place of a small append of one of many runs: in `arrivals` at first, later in `packs`.
#[derive(Debug, Clone, Copy)]
enum Place {
    Staging,
    Packs,
}

/// Twenty runs, each of which appends so often at the same time as the others, two records at a time.
async fn append_together(path: &Path, name: &str, appends: u64) {
    let journal = SqliteJournal::open(path).unwrap();
    let writers = (0..20).map(|number| {
        let (journal, run) = (journal.clone(), RunId::from(format!("{name}{number}")));
        tokio::spawn(async move {
            let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
            for before in (0..appends).map(|append| append * 2) {
                journal.append(append(&run, fence, [before + 1, before + 2])).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Has others append until a staged append has left: how many share a transaction, and so arrive, is not the same
/// everywhere.
async fn until_it_has_left(path: &Path, staged: i64) {
    let store = rusqlite::Connection::open(path).unwrap();
    let is_there = || -> bool {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM staging WHERE id <= ?1) OR NOT EXISTS (SELECT 1 FROM staging WHERE id > ?1)";
        store.query_row(sql, [staged], |row| row.get(0)).unwrap()
    };
    let mut rounds = 0;
    while is_there() {
        assert!(rounds < 50, "staged {staged} does not leave");
        append_together(path, &format!("later{rounds}-"), 150).await;
        rounds += 1;
    }
}

#[tokio::test]
async fn records_that_arrive_together_are_the_same_in_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let of = |seq: u64| Record {
        payload: format!("\"{}\"", "x".repeat(if seq.is_multiple_of(7) { 5_000 } else { 3 })).into(),
        ..record(seq)
    };
    let runs: Vec<RunId> = (0..20).map(|n| format!("r{n}").into()).collect();
    let all: Vec<Record> = (1..=500).map(of).collect();
    let writers = runs.iter().cloned().map(|run| {
        let (journal, all) = (journal.clone(), all.clone());
        tokio::spawn(async move {
            let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
            for record in all {
                let records = vec![record];
                journal.append(Append { records, ..append(&run, fence, []) }).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let store = rusqlite::Connection::open(&path).unwrap();
    let count = |table: &str| -> i64 {
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert!(count("staging") > 0 && count("packs") > 0, "{} {}", count("staging"), count("packs"));
    let of_all = |run: &str| -> i64 {
        let sql = "SELECT (SELECT count(*) FROM records WHERE id >> 32 = ?1)
                        + (SELECT coalesce(sum(count), 0) FROM staging WHERE first >> 32 = ?1)
                        + (SELECT coalesce(sum(count), 0) FROM packs WHERE id >> 32 = ?1) FROM runs WHERE run = ?2";
        let row: i64 = store.query_row("SELECT id FROM runs WHERE run = ?1", [run], |row| row.get(0)).unwrap();
        store.query_row(sql, rusqlite::params![row, run], |row| row.get(0)).unwrap()
    };
    assert!(runs.iter().all(|run| of_all(run) == 500));
    for run in &runs {
        assert_eq!(journal.read(run, 0, 1_000).await.unwrap(), all);
        assert_eq!(journal.read(run, 100, 50).await.unwrap(), all[100..150]);
    }
    drop(journal);
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(journal.acquire(&runs[3], Cut::Tail).await.unwrap().records, all);
    // A run that goes takes its records with it, wherever they are.
    store.execute("UPDATE runs SET ended = 1, owner = NULL WHERE run <> 'r3'", []).unwrap();
    journal.retain(Retention { keep: Some(0), ended_after: None }).await.unwrap();
    assert_eq!((count("runs"), of_all("r3")), (1, 500));
    let others = "SELECT count(*) FROM events WHERE run <> 'r3'";
    assert_eq!(store.query_row(others, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// An append is damaged as a whole, as long as it is a staged append and when it has left.
#[tokio::test]
async fn damage_of_staged_records_is_found_where_they_are_and_after_compaction() {
    for (place, sql, reason) in [
        (Place::Staging, "UPDATE staging SET records = records || ' ' WHERE id = ?1", "has a wrong checksum"),
        (Place::Staging, "UPDATE staging SET checksum = zeroblob(16) WHERE id = ?1", "has a wrong checksum"),
        (Place::Staging, "UPDATE staging SET count = count + 1 WHERE id = ?1", "has a wrong checksum"),
        (Place::Staging, "DELETE FROM staging WHERE id = ?1", "is missing"),
        (Place::Packs, "UPDATE staging SET records = records || ' ' WHERE id = ?1", "has a wrong checksum"),
        (Place::Packs, "UPDATE staging SET count = 4294967295 WHERE id = ?1", "has a wrong checksum"),
        (Place::Packs, "DELETE FROM staging WHERE id = ?1", "is missing"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        append_together(&path, "r", 50).await;
        let store = rusqlite::Connection::open(&path).unwrap();
        // One that is followed by another of its run.
        let found = "SELECT staging.id, run, first & 0xffffffff FROM staging JOIN runs ON runs.id = first >> 32
                     WHERE first + count IN (SELECT first FROM staging) ORDER BY staging.id LIMIT 1";
        let (id, run, first): (i64, String, i64) =
            store.query_row(found, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let (run, last_good) = (RunId::from(run), first.cast_unsigned() - 1);
        assert_eq!(store.execute(sql, [id]).unwrap(), 1, "{sql}");
        if matches!(place, Place::Packs) {
            until_it_has_left(&path, id).await;
        }
        let journal = SqliteJournal::open(&path).unwrap();
        let error = journal.acquire(&run, Cut::Tail).await.unwrap_err();
        let JournalError::Broken { last_good: good, reason: found, .. } = error else { panic!("{sql}: {error}") };
        assert!((good, found.contains(reason)) == (last_good, true), "{place:?} {sql}: {good} {found}");
        let opened = journal.acquire(&run, Cut::Anything).await.unwrap();
        assert_eq!(opened.records, (1..=last_good).map(record).collect::<Vec<_>>(), "{sql}");
        journal.append(append(&run, opened.fence, last_good + 1..=last_good + 100)).await.unwrap();
        let all: Vec<Record> = (1..=last_good + 100).map(record).collect();
        assert_eq!(journal.read(&run, 0, 500).await.unwrap(), all, "{sql}");
    }
}

/// Whoever changed a staged append may have let it say that it belongs where something intact is.
#[tokio::test]
async fn a_staged_append_that_says_it_belongs_elsewhere_replaces_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let all = with_a_pack(&path).await;
    append_together(&path, "other", 50).await;
    let store = rusqlite::Connection::open(&path).unwrap();
    let first: i64 = store.query_row("SELECT min(id) FROM staging", [], |row| row.get(0)).unwrap();
    store.execute("UPDATE staging SET first = (SELECT min(id) FROM packs) WHERE id = ?1", [first]).unwrap();
    until_it_has_left(&path, first).await;
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(journal.acquire(&"r".into(), Cut::Tail).await.unwrap().records, all);
}

/// A run `r` of 4 + 200 + 4 records, the 200 of one append, and how many rows they have.
async fn with_a_pack(path: &Path) -> Vec<Record> {
    let journal = SqliteJournal::open(path).unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    for seqs in [1..=4, 5..=204, 205..=208] {
        journal.append(append(&run, fence, seqs)).await.unwrap();
    }
    (1..=208).map(record).collect()
}

#[tokio::test]
async fn many_records_of_one_append_are_one_small_row_and_are_read_from_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let all = with_a_pack(&path).await;
    let store = rusqlite::Connection::open(&path).unwrap();
    let number = |sql: &str| -> i64 { store.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!((number("SELECT count(*) FROM records"), number("SELECT count(*) FROM packs")), (8, 1));
    assert!(number("SELECT length(records) FROM packs") < 200 * 20);
    let journal = SqliteJournal::open(&path).unwrap();
    let run: RunId = "r".into();
    for (after, limit) in
        [(0, 500), (0, 5), (3, 3), (4, 200), (5, 1), (100, 10), (203, 2), (204, 9), (207, 1), (208, 5)]
    {
        let expected: Vec<Record> = all.iter().skip(after).take(limit).cloned().collect();
        assert_eq!(journal.read(&run, after as u64, limit as u64).await.unwrap(), expected, "{limit} after {after}");
    }
    assert_eq!(journal.acquire(&run, Cut::Tail).await.unwrap().records, all);
    store.execute("UPDATE runs SET ended = 1, owner = NULL", []).unwrap();
    journal.retain(Retention { keep: Some(0), ended_after: None }).await.unwrap();
    assert_eq!(number("SELECT count(*) FROM packs"), 0);
}

#[tokio::test]
async fn a_large_value_is_stored_once_as_long_as_a_run_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let value = StoredValue { digest: "d1".into(), text: "x".repeat(100_000).into() };
    let naming = |seq| Record { payload: Payload::naming("{}", vec![value.clone()]), ..record(seq) };
    let runs: [RunId; 2] = ["a".into(), "b".into()];
    for run in &runs {
        let fence = journal.create(NewRun { records: vec![naming(1)], ..NewRun::empty(run, "w", 0) }).await.unwrap();
        journal.append(Append { records: vec![naming(2)], ..append(run, fence, []) }).await.unwrap();
    }
    let store = rusqlite::Connection::open(&path).unwrap();
    let number = |sql: &str| -> i64 { store.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(number("SELECT count(*) FROM large_values"), 1);
    assert!(number("SELECT length(block) FROM large_values") < 2_000);
    let digests = ["none".into(), "d1".into()];
    assert_eq!(journal.values(&digests, 100_000).await.unwrap().found, [value]);
    let none = journal.values(&digests, 99_999).await.unwrap();
    assert_eq!((none.found, none.too_large), (Vec::new(), vec!["d1".into()]));
    for (run, left) in runs.iter().zip([1, 0]) {
        store.execute("UPDATE runs SET ended = 1, owner = NULL WHERE run = ?1", [run.as_ref()]).unwrap();
        journal.retain(Retention { keep: Some(0), ended_after: None }).await.unwrap();
        assert_eq!(number("SELECT count(*) FROM large_values"), left);
    }
}

#[tokio::test]
async fn a_damaged_pack_is_refused_and_cut_as_one() {
    for sql in [
        "UPDATE packs SET records = substr(records, 1, length(records) - 1)",
        "UPDATE packs SET checksum = zeroblob(16)",
        "UPDATE packs SET count = count - 1",
        "DELETE FROM packs",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        let all = with_a_pack(&path).await;
        edit(&path, sql);
        let journal = SqliteJournal::open(&path).unwrap();
        let run: RunId = "r".into();
        assert_eq!(journal.read(&run, 0, 500).await.unwrap(), all[..4], "{sql}");
        let error = journal.acquire(&run, Cut::Tail).await.unwrap_err();
        assert!(matches!(error, JournalError::Broken { last_good: 4, behind: 4, .. }), "{sql}: {error}");
        let opened = journal.acquire(&run, Cut::Anything).await.unwrap();
        assert_eq!((opened.records.len(), opened.damage.unwrap().cut), (4, 204));
        journal.append(append(&run, opened.fence, 5..=100)).await.unwrap();
        assert_eq!(journal.read(&run, 0, 500).await.unwrap(), all[..100]);
    }
}

#[tokio::test]
async fn a_store_from_before_packs_goes_on_with_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(
        &path,
        &format!(
            "DROP VIEW events; DROP TRIGGER records_of_a_run; DROP TABLE packs; DROP TABLE large_value_uses;
             DROP TABLE large_values; DROP TABLE staging; DROP TABLE clock; PRAGMA user_version = 3;
             {RECORDS_THAT_ARRIVE}
             CREATE VIEW events AS SELECT * FROM records;
             CREATE TRIGGER records_of_a_run AFTER DELETE ON runs BEGIN SELECT 1; END;"
        ),
    );
    let journal = SqliteJournal::open(&path).unwrap();
    let run: RunId = "r".into();
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    journal.append(append(&run, opened.fence, 5..=200)).await.unwrap();
    assert_eq!(journal.read(&run, 0, 500).await.unwrap(), (1..=200).map(record).collect::<Vec<_>>());
    let rows = rusqlite::Connection::open(&path).unwrap();
    let shown: i64 = rows.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(shown, 5, "a pack is one row of the view");
}

/// There was no anchor of the clock.
#[tokio::test]
async fn a_store_of_schema_6_is_upgraded_with_all_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(&path, "DROP TABLE clock; PRAGMA user_version = 6;");
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!(journal.read(&"r".into(), 0, 500).await.unwrap(), (1..=4).map(record).collect::<Vec<_>>());
    assert_eq!(journal.check_clock(1_004, false).await.unwrap(), None);
}

/// The staging table had another name.
#[tokio::test]
async fn a_store_of_schema_5_is_upgraded_with_all_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    append_together(&path, "before", 5).await;
    edit(
        &path,
        "DROP VIEW events; DROP TRIGGER records_of_a_run; DROP TABLE clock; PRAGMA user_version = 5;
         CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    records TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
         INSERT INTO arrivals SELECT * FROM staging; DROP TABLE staging;
         CREATE TRIGGER records_of_a_run AFTER DELETE ON runs BEGIN DELETE FROM arrivals; END;
         CREATE VIEW events AS SELECT * FROM arrivals;",
    );
    let staged = |table: &str| -> i64 {
        let store = rusqlite::Connection::open(&path).unwrap();
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let before = staged("arrivals");
    let journal = SqliteJournal::open(&path).unwrap();
    assert_eq!((staged("staging"), staged("sqlite_schema WHERE name = 'arrivals'")), (before, 0));
    for number in 0..20 {
        let run = RunId::from(format!("before{number}"));
        assert_eq!(journal.read(&run, 0, 500).await.unwrap(), (1..=10).map(record).collect::<Vec<_>>(), "{run}");
    }
    append_together(&path, "after", 5).await;
}

/// Each recent record had a row of its own.
#[tokio::test]
async fn a_store_of_schema_4_is_upgraded_with_all_its_records() {
    const TRIGGER: &str = "CREATE TRIGGER records_of_a_run AFTER INSERT ON records BEGIN DELETE FROM runs; END";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(
        &path,
        &format!(
            "DROP VIEW events; DROP TRIGGER records_of_a_run; DROP TABLE staging; DROP TABLE clock; PRAGMA user_version = 4;
             {RECORDS_THAT_ARRIVE}
             INSERT INTO arrivals (record, kind, version, at, payload, checksum)
                 SELECT id, kind, version, at, payload, checksum FROM records WHERE id & 0xffff > 2;
             DELETE FROM records WHERE id & 0xffff > 2;
             CREATE VIEW events AS SELECT * FROM records;
             -- One that would run while the records are brought to their place.
             {TRIGGER};"
        ),
    );
    let journal = SqliteJournal::open(&path).unwrap();
    let run: RunId = "r".into();
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!(opened.records, (1..=4).map(record).collect::<Vec<_>>());
    journal.append(append(&run, opened.fence, [5])).await.unwrap();
    let store = rusqlite::Connection::open(&path).unwrap();
    let shown: i64 = store.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(shown, 5);
    append_together(&path, "other", 5).await;
}

/// Whoever made the file would have them run: at the next look, at the next run, or while it is checked.
#[tokio::test]
async fn a_store_with_anything_in_it_that_is_not_ours_is_refused_before_it_is_used() {
    const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    for (sql, named) in [
        (format!("CREATE TRIGGER more AFTER INSERT ON runs BEGIN {ENDLESS}; END"), "trigger `more`"),
        ("CREATE TABLE more (x CHECK (x > 0))".to_owned(), "table `more`"),
        (format!("DROP VIEW events; CREATE VIEW events AS {ENDLESS}"), "view `events`"),
        (
            format!("ALTER TABLE inbox RENAME TO kept; CREATE VIEW inbox AS SELECT ({ENDLESS}) AS id, 1 AS run"),
            "table `kept`",
        ),
        ("DROP TRIGGER records_of_a_run".to_owned(), "trigger `records_of_a_run`"),
        ("CREATE INDEX more ON runs (abs(records))".to_owned(), "index `more`"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        with_records(&path, 4).await;
        edit(&path, &sql);
        for error in [
            SqliteJournal::open(&path).unwrap_err().to_string(),
            opcell_journal::backup(&path, &directory.path().join("copy.db")).unwrap_err().to_string(),
            opcell_journal::restore(&path, &directory.path().join("other.db"), false).unwrap_err().to_string(),
        ] {
            assert!(error.contains(named), "{sql}: {error}");
        }
    }
}

#[tokio::test]
async fn a_run_that_can_have_no_further_owner_is_refused_and_others_are_driven() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_edited_records(&path, "UPDATE runs SET fence = 9223372036854775807, owner = NULL").await;
    let journal = SqliteJournal::open(&path).unwrap();
    let refused = journal.acquire(&"r".into(), Cut::Tail).await.unwrap_err();
    assert_eq!(refused.kind(), "journal-corrupt", "{refused}");
    let other: RunId = "s".into();
    let fence = journal.create(NewRun::empty(&other, "w", 0)).await.unwrap();
    journal.append(append(&other, fence, 1..=1)).await.unwrap();
}

#[tokio::test]
async fn a_store_whose_statistics_were_gathered_is_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(&path, "ANALYZE");
    SqliteJournal::open(&path).unwrap();
}

#[tokio::test]
async fn a_run_whose_process_is_gone_can_be_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 3).await;
    let journal = SqliteJournal::open(&path).unwrap();
    assert!(!journal.runs().await.unwrap()[0].driven);
    let opened = journal.acquire(&"r".into(), Cut::Tail).await.unwrap();
    assert_eq!((opened.fence, opened.records.len(), opened.damage), (Fence(2), 3, None));
}

#[tokio::test]
async fn two_processes_never_own_one_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let (first, second) = (SqliteJournal::open(&path).unwrap(), SqliteJournal::open(&path).unwrap());
    let run: RunId = "r".into();
    let fence = first.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    let error = second.acquire(&run, Cut::Tail).await.unwrap_err();
    assert!(error.to_string().contains("this process drives it already"), "{error}");
    assert!(second.runs().await.unwrap()[0].driven);
    first.append(append(&run, fence, 1..=1)).await.unwrap();
    drop(first);
    // The writing thread and its file go a moment after the last handle.
    assert_eq!(second.acquire(&run, Cut::Tail).await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn a_writer_whose_run_is_gone_does_not_write_into_the_run_that_has_its_row_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let (gone, other): (RunId, RunId) = ("gone".into(), "other".into());
    let fence = journal.create(NewRun::empty(&gone, "w", 0)).await.unwrap();
    // Row numbers of what is deleted are given again, and fences begin at 1.
    edit(&path, "UPDATE runs SET run = 'other'");
    let error = journal.append(append(&gone, fence, 1..=1)).await.unwrap_err();
    assert!(matches!(error, JournalError::UnknownRun(_)), "{error}");
    assert_eq!(journal.read(&other, 0, 9).await.unwrap(), []);
}

#[tokio::test]
async fn a_damaged_end_is_cut_and_reported() {
    for (sql, last_good, cut, reason) in [
        ("UPDATE records SET at = 7 WHERE id & 0xffff = 4", 3, 1, "record 4 has a wrong checksum"),
        ("UPDATE records SET payload = 'x' WHERE id & 0xffff >= 3", 2, 2, "record 3 has a wrong checksum"),
        ("DELETE FROM records WHERE id & 0xffff = 4", 3, 1, "4 records were written, but only 3 are present"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        with_edited_records(&path, sql).await;
        let journal = SqliteJournal::open(&path).unwrap();
        let run: RunId = "r".into();
        let error = journal.read(&run, last_good, 100).await.unwrap_err();
        assert!(matches!(error, JournalError::Torn { .. }), "{error}");
        let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
        let damage = opened.damage.unwrap();
        assert_eq!((damage.last_good, damage.cut, damage.reason.as_str()), (last_good, cut, reason), "{sql}");
        assert_eq!(opened.records.len() as u64, last_good);
        journal.append(append(&run, opened.fence, [last_good + 1])).await.unwrap();
        assert_eq!(journal.read(&run, 0, 100).await.unwrap().len() as u64, last_good + 1);
    }
}

#[tokio::test]
async fn a_run_that_was_edited_in_the_middle_is_cut_only_when_somebody_says_so() {
    for (sql, last_good, behind, reason) in [
        ("UPDATE records SET payload = '{}' WHERE id & 0xffff = 3", 2, 1, "record 3 has a wrong checksum"),
        ("DELETE FROM records WHERE id & 0xffff = 2", 1, 2, "record 2 is missing"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        with_edited_records(&path, sql).await;
        let journal = SqliteJournal::open(&path).unwrap();
        let run: RunId = "r".into();
        for error in
            [journal.acquire(&run, Cut::Tail).await.unwrap_err(), journal.read(&run, last_good, 9).await.unwrap_err()]
        {
            let JournalError::Broken { last_good: good, reason: found, behind: left, .. } = error else {
                unreachable!("{error}")
            };
            assert_eq!((good, found.as_str(), left), (last_good, reason, behind));
        }
        let opened = journal.acquire(&run, Cut::Anything).await.unwrap();
        assert_eq!(opened.records.len() as u64, last_good);
        assert_eq!(opened.damage.unwrap().cut, 4 - last_good);
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(&path, "INSERT INTO snapshots VALUES (1, 2, 1, 'made up', x'00')");
    let opened = SqliteJournal::open(&path).unwrap().acquire(&"r".into(), Cut::Tail).await.unwrap();
    assert_eq!((opened.snapshot, opened.records.len()), (None, 4));
}

#[cfg(unix)]
#[test]
fn a_store_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let _journal = SqliteJournal::open(&path).unwrap();
    for file in ["runs.db", "runs.db-wal", "runs.db-shm"] {
        let mode = std::fs::metadata(directory.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "these are my notes, and they are longer than a header of a database would be".repeat(20))
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqliteJournal::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let other = directory.path().join("other.db");
    edit(&other, "CREATE TABLE mine (x)");
    assert!(SqliteJournal::open(&other).unwrap_err().to_string().contains("another application"));
}

#[test]
fn a_store_of_another_schema_is_refused_with_what_to_do_and_not_touched() {
    for (schema, remedy) in [(99, "use a newer opcell"), (2, "use the opcell that wrote it")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        drop(SqliteJournal::open(&path).unwrap());
        edit(&path, &format!("PRAGMA user_version = {schema}"));
        let error = SqliteJournal::open(&path).unwrap_err();
        assert!(matches!(error, JournalError::Schema { found, .. } if found == schema), "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
        assert!(SqliteJournal::open(&path).is_err(), "it is still of that schema");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn no_run_begins_in_a_file_that_was_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, away) = (directory.path().join("runs.db"), directory.path().join("away.db"));
    let journal = SqliteJournal::open(&path).unwrap();
    std::fs::rename(&path, &away).unwrap();
    let refused = journal.create(NewRun::empty(&"r".into(), "w", 0)).await.unwrap_err();
    assert!(matches!(refused, JournalError::Unreachable { .. }), "{refused}");
    assert!(refused.to_string().contains("removed or replaced"), "{refused}");
    std::fs::rename(&away, &path).unwrap();
    journal.create(NewRun::empty(&"r".into(), "w", 0)).await.unwrap();
}

#[tokio::test]
async fn a_copy_is_one_regular_file() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let journal = SqliteJournal::open(place("runs.db")).unwrap();
    journal.create(NewRun::empty(&"r".into(), "w", 0)).await.unwrap();
    drop(journal);
    opcell_journal::backup(&place("runs.db"), &place("copy.db")).unwrap();
    // A log was put beside it.
    std::fs::write(place("copy.db-wal"), "a log").unwrap();
    let refused = |copy: &str| opcell_journal::restore(&place(copy), &place("new.db"), false).unwrap_err().to_string();
    let said = refused("copy.db");
    assert!(said.contains("copy.db-wal") && said.contains("a copy has no log"), "{said}");
    std::fs::remove_file(place("copy.db-wal")).unwrap();
    // A pipe is not waited for, nor is a folder read.
    assert!(std::process::Command::new("mkfifo").arg(place("pipe")).status().unwrap().success());
    for other in ["pipe", "."] {
        let said = refused(other);
        assert!(said.contains("not a regular file"), "{said}");
    }
    assert_eq!(opcell_journal::restore(&place("copy.db"), &place("new.db"), false).unwrap(), 1);
}
