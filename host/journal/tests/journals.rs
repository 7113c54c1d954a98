//! What every journal does, and what the one in a file does beside.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use opcell_journal::{
    Append, Cut, Fence, Journal, JournalError, MemoryJournal, NewRun, Record, Retention, RunId, RunState, Snapshot,
    SqliteJournal,
};
use std::{path::Path, sync::Arc};
use tempfile::TempDir;

fn record(seq: u64) -> Record {
    Record {
        seq,
        kind: "happened".into(),
        version: 1,
        at: 1000 + seq.cast_signed(),
        payload: format!(r#"{{"n":{seq}}}"#).into(),
    }
}

fn append(run: &RunId, fence: Fence, seqs: impl IntoIterator<Item = u64>) -> Append {
    Append {
        run: run.clone(),
        fence,
        records: seqs.into_iter().map(record).collect(),
        state: None,
        snapshot: None,
        letters: None,
    }
}

fn ended(status: &'static str) -> Option<RunState> {
    Some(RunState { status: status.into(), ended: true, due: None })
}

fn stores() -> (TempDir, Vec<Arc<dyn Journal>>) {
    let directory = tempfile::tempdir().unwrap();
    let sqlite = SqliteJournal::open(directory.path().join("runs.db")).unwrap();
    (directory, vec![Arc::new(MemoryJournal::new()), Arc::new(sqlite)])
}

#[tokio::test]
async fn what_was_appended_is_read_back_in_order() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 5)).await.unwrap();
        journal.append(append(&run, fence, 1..=3)).await.unwrap();
        journal.append(append(&run, fence, 4..=4)).await.unwrap();
        assert_eq!(journal.read(&run, 0, 100).await.unwrap(), (1..=4).map(record).collect::<Vec<_>>());
        assert_eq!(journal.read(&run, 2, 1).await.unwrap(), [record(3)]);
        assert_eq!(journal.read(&run, 4, 1).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_gap_or_a_repetition_is_refused_and_leaves_nothing() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.append(append(&run, fence, 1..=2)).await.unwrap();
        for seqs in [vec![2], vec![4], vec![3, 5]] {
            let error = journal.append(append(&run, fence, seqs)).await.unwrap_err();
            assert!(matches!(error, JournalError::OutOfOrder { .. }), "{error}");
        }
        assert_eq!(journal.read(&run, 0, 100).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_run_has_one_owner_and_a_former_owner_cannot_write() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let first = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        assert!(matches!(journal.create(NewRun::empty(&run, "w", 0)).await, Err(JournalError::RunExists(_))));
        assert!(matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::Held { .. })));
        journal.append(append(&run, first, 1..=1)).await.unwrap();
        journal.release(&run, first).await.unwrap();
        let second = journal.acquire(&run, Cut::Tail).await.unwrap();
        assert_eq!((second.records.len(), second.damage), (1, None));
        let error = journal.append(append(&run, first, 2..=2)).await.unwrap_err();
        assert!(matches!(error, JournalError::Fenced { .. }), "{error}");
        journal.release(&run, first).await.unwrap();
        journal.append(append(&run, second.fence, 2..=2)).await.unwrap();
        assert!(
            matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::Held { .. })),
            "an old fence releases nothing"
        );
    }
}

#[tokio::test]
async fn an_unknown_run_is_an_error_everywhere() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "gone".into();
        assert!(matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::UnknownRun(_))));
        assert!(matches!(journal.read(&run, 0, 1).await, Err(JournalError::UnknownRun(_))));
        assert!(matches!(journal.append(append(&run, Fence(1), 1..=1)).await, Err(JournalError::UnknownRun(_))));
        assert!(matches!(journal.post(&run, 0, "{}".into()).await, Err(JournalError::UnknownRun(_))));
    }
}

#[tokio::test]
async fn letters_stay_until_records_say_what_they_say() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        for text in ["1", "2", "3"] {
            journal.post(&run, 7, text.into()).await.unwrap();
        }
        let letters = journal.letters(&run).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.payload.as_ref()).collect::<Vec<_>>(), ["1", "2", "3"]);
        let taken = Some(letters[1].id);
        journal.append(Append { letters: taken, ..append(&run, fence, [9]) }).await.unwrap_err();
        assert_eq!(journal.letters(&run).await.unwrap().len(), 3, "what is not recorded is not taken");
        journal.append(Append { letters: taken, ..append(&run, fence, [1]) }).await.unwrap();
        assert_eq!(journal.letters(&run).await.unwrap(), letters[2..]);
    }
}

#[tokio::test]
async fn retention_never_touches_a_run_that_has_not_ended() {
    let (_directory, stores) = stores();
    for journal in stores {
        for (name, at) in [("a", 1), ("b", 2), ("c", 3), ("live", 0)] {
            let run: RunId = name.into();
            let fence = journal.create(NewRun::empty(&run, "w", at)).await.unwrap();
            let state = if name == "live" { None } else { ended("completed") };
            journal.append(Append { state, ..append(&run, fence, 1..=1) }).await.unwrap();
            journal.release(&run, fence).await.unwrap();
        }
        let keep = |keep| Retention { keep: Some(keep), ended_after: None };
        let gone = journal.retain(keep(2)).await.unwrap();
        assert_eq!(gone, [RunId::from("a")]);
        let gone = journal.retain(Retention { keep: None, ended_after: Some(i64::MAX) }).await.unwrap();
        assert_eq!(gone.len(), 2);
        let left = journal.runs().await.unwrap();
        assert_eq!(left.iter().map(|run| run.run.as_ref()).collect::<Vec<_>>(), ["live"]);
        assert_eq!(left[0].records, 1);
    }
}

#[tokio::test]
async fn many_writers_at_once_lose_nothing() {
    let (_directory, stores) = stores();
    for journal in stores {
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    let run: RunId = format!("r{n}").into();
                    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
                    for seq in 1..=10 {
                        journal.append(append(&run, fence, [seq])).await.unwrap();
                    }
                    // A refused neighbour in the same transaction disturbs nobody.
                    journal.append(append(&run, fence, [99])).await.unwrap_err();
                    journal.read(&run, 0, 100).await.unwrap().len()
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 10);
        }
    }
}

fn edit(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

async fn with_records(path: &Path, count: u64) {
    let journal = SqliteJournal::open(path).unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(append(&run, fence, 1..=count)).await.unwrap();
}

/// Small appends of many runs stand in `arrivals` for a while, all others in `records`.
#[derive(Clone, Copy)]
enum Place {
    Arrivals,
    Records,
}

const PLACES: [Place; 2] = [Place::Arrivals, Place::Records];

impl Place {
    /// Four records of run `r`, in this place, and one statement about them: `TABLE` and `ID` are the place's.
    async fn edited(self, path: &Path, sql: &str) {
        with_records(path, 4).await;
        let (table, id) = match self {
            Self::Arrivals => {
                edit(
                    path,
                    "INSERT INTO arrivals SELECT id & 0xffff, id, kind, version, at, payload, checksum FROM records;
                     DELETE FROM records;",
                );
                ("arrivals", "record")
            }
            Self::Records => ("records", "id"),
        };
        let sql = sql.replace("TABLE", table).replace("ID", &format!("{id} & 0xffff"));
        assert!(rusqlite::Connection::open(path).unwrap().execute(&sql, []).unwrap() > 0, "{sql}");
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
    assert!(count("arrivals") > 0 && count("records") > 4_096, "{} {}", count("arrivals"), count("records"));
    assert_eq!((count("arrivals") + count("records"), count("events")), (10_000, 10_000));
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
    assert_eq!((count("runs"), count("arrivals") + count("records")), (1, 500));
}

/// The tables of the first schema, as it made them.
const SCHEMA_1: &str = "
CREATE TABLE runs (id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, workflow TEXT NOT NULL, fence INTEGER NOT NULL, owner TEXT,
    status TEXT NOT NULL, ended INTEGER NOT NULL, due INTEGER, records INTEGER NOT NULL, created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX runs_by_due ON runs (due) WHERE due IS NOT NULL;
CREATE TABLE records (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL,
    payload TEXT NOT NULL, checksum BLOB NOT NULL) STRICT;
CREATE TABLE snapshots (run INTEGER PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
    version INTEGER NOT NULL, payload TEXT NOT NULL, checksum BLOB NOT NULL) STRICT;
CREATE TABLE letters (id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    at INTEGER NOT NULL, payload TEXT NOT NULL) STRICT;
CREATE INDEX letters_by_run ON letters (run);
CREATE TRIGGER records_of_a_run AFTER DELETE ON runs BEGIN
    DELETE FROM records WHERE id > old.id << 32 AND id < (old.id + 1) << 32;
END;
CREATE VIEW events AS SELECT runs.run, records.id & 0xffffffff AS seq, records.kind, records.version, records.at, records.payload
    FROM records JOIN runs ON runs.id = records.id >> 32;
PRAGMA user_version = 1;";

#[tokio::test]
async fn a_store_of_the_first_schema_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (path, now) = (directory.path().join("old.db"), directory.path().join("now.db"));
    edit(&path, SCHEMA_1);
    with_records(&now, 4).await;
    let copy = format!(
        "ATTACH '{}' AS now; INSERT INTO runs SELECT * FROM now.runs;
         INSERT INTO records SELECT * FROM now.records;",
        now.display()
    );
    edit(&path, &copy);
    let journal = SqliteJournal::open(&path).unwrap();
    let run: RunId = "r".into();
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!((opened.records.len(), opened.damage), (4, None));
    journal.append(append(&run, opened.fence, 5..=6)).await.unwrap();
    assert_eq!(journal.read(&run, 0, 9).await.unwrap(), (1..=6).map(record).collect::<Vec<_>>());
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
    assert!(error.to_string().contains("another process drives it"), "{error}");
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
    for (place, (sql, last_good, cut, reason)) in [
        ("UPDATE TABLE SET at = 7 WHERE ID = 4", 3, 1, "record 4 has a wrong checksum"),
        (
            "UPDATE TABLE SET payload = 'x' WHERE ID >= 3",
            2,
            2,
            "record 3 has a wrong checksum",
        ),
        ("DELETE FROM TABLE WHERE ID = 4", 3, 1, "4 records were written, but only 3 are present"),
    ]
    .into_iter()
    .flat_map(|case| PLACES.map(|place| (place, case)))
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        place.edited(&path, sql).await;
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
    for (place, (sql, last_good, behind, reason)) in [
        (
            "UPDATE TABLE SET payload = '{}' WHERE ID = 3",
            2,
            1,
            "record 3 has a wrong checksum",
        ),
        ("DELETE FROM TABLE WHERE ID = 2", 1, 2, "record 2 is missing"),
    ]
    .into_iter()
    .flat_map(|case| PLACES.map(|place| (place, case)))
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.db");
        place.edited(&path, sql).await;
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
async fn a_snapshot_stands_for_the_records_before_it_and_a_damaged_one_for_none() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        let snapshot = Snapshot { seq: 3, version: 1, payload: "three".into() };
        journal.append(Append { snapshot: Some(snapshot.clone()), ..append(&run, fence, 1..=3) }).await.unwrap();
        journal.append(append(&run, fence, 4..=5)).await.unwrap();
        journal.release(&run, fence).await.unwrap();
        let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
        assert_eq!((opened.snapshot, opened.records), (Some(snapshot), vec![record(4), record(5)]));
        assert_eq!(journal.read(&run, 0, 9).await.unwrap().len(), 5, "the records stay");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    with_records(&path, 4).await;
    edit(&path, "INSERT INTO snapshots VALUES (1, 2, 1, 'made up', x'00')");
    let opened = SqliteJournal::open(&path).unwrap().acquire(&"r".into(), Cut::Tail).await.unwrap();
    assert_eq!((opened.snapshot, opened.records.len()), (None, 4));
}

#[tokio::test]
async fn a_run_is_made_with_its_first_records_or_not_at_all() {
    let (_directory, stores) = stores();
    for journal in stores {
        let new = |seqs: std::ops::RangeInclusive<u64>| NewRun {
            records: seqs.map(record).collect(),
            ..NewRun::empty(&"r".into(), "w", 0)
        };
        let error = journal.create(new(2..=3)).await.unwrap_err();
        assert!(matches!(error, JournalError::OutOfOrder { .. }), "{error}");
        assert!(matches!(journal.read(&"r".into(), 0, 1).await, Err(JournalError::UnknownRun(_))));
        let fence = journal.create(new(1..=2)).await.unwrap();
        journal.append(append(&"r".into(), fence, [3])).await.unwrap();
        assert_eq!(journal.read(&"r".into(), 0, 9).await.unwrap().len(), 3);
    }
}

#[tokio::test]
async fn runs_that_could_go_on_are_those_that_are_due_or_have_letters_and_no_owner() {
    let (_directory, stores) = stores();
    for journal in stores {
        let state = |due| RunState { status: "suspended".into(), ended: false, due };
        for (name, due) in [("later", Some(50)), ("now", Some(10)), ("waits", None), ("owned", Some(0)), ("told", None)]
        {
            let run: RunId = name.into();
            let fence = journal.create(NewRun { state: state(due), ..NewRun::empty(&run, "w", 0) }).await.unwrap();
            if name != "owned" {
                journal.release(&run, fence).await.unwrap();
            }
        }
        journal.post(&"told".into(), 0, "{}".into()).await.unwrap();
        let names = |runs: Vec<RunId>| {
            let mut names: Vec<String> = runs.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(names(journal.runnable(20, 9).await.unwrap()), ["now", "told"]);
        assert_eq!(names(journal.runnable(50, 9).await.unwrap()), ["later", "now", "told"]);
        assert_eq!(journal.runnable(50, 1).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_run_that_has_ended_has_no_owner_and_takes_no_letters() {
    let (_directory, stores) = stores();
    for journal in stores {
        let run: RunId = "r".into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.append(Append { state: ended("completed"), ..append(&run, fence, 1..=1) }).await.unwrap();
        assert!(!journal.runs().await.unwrap()[0].driven);
        let error = journal.post(&run, 0, "{}".into()).await.unwrap_err();
        assert_eq!(error.to_string(), "run `r` has ended (completed); it accepts no more messages");
        assert!(journal.acquire(&run, Cut::Tail).await.is_ok());
    }
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
fn a_store_of_a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    drop(SqliteJournal::open(&path).unwrap());
    edit(&path, "PRAGMA user_version = 99");
    let error = SqliteJournal::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::NewerSchema { found: 99, .. }), "{error}");
}
