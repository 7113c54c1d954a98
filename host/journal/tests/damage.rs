//! A store with a row that another program wrote: it spoils its own run and hides no other.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_journal::{
    Cut, Journal, NewRun, Retention, RunEntry, RunId, RunQuery, SqliteJournal,
    contract::{append, record},
};

/// Assignments to the row of one run.
const ROWS: [&str; 14] = [
    "records = -1",
    "records = 9223372036854775807",
    "fence = -1",
    "fence = 9223372036854775807",
    "run = CAST(x'ff' AS TEXT)",
    "workflow = CAST(x'ff' AS TEXT)",
    "status = CAST(x'ff' AS TEXT)",
    "owner = CAST(x'ff' AS TEXT)",
    "status = printf('%.*c', 10000000, 'x')",
    "workflow = printf('%.*c', 10000000, 'x')",
    "run = printf('%.*c', 10000000, 'x')",
    "ended = 7",
    "due = -9223372036854775808",
    "created_at = 9223372036854775807, updated_at = -9223372036854775808",
];

async fn with_three_runs(row: &str) -> (tempfile::TempDir, SqliteJournal) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let journal = SqliteJournal::open(&path).unwrap();
    for run in ["first", "bad", "last"] {
        let run: RunId = run.into();
        let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
        journal.append(append(&run, fence, 1..=3)).await.unwrap();
        journal.release(&run, fence).await.unwrap();
    }
    let sql = format!("UPDATE runs SET {row} WHERE run = 'bad'");
    assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(&sql, []).unwrap(), 1, "{row}");
    (directory, journal)
}

async fn paged(journal: &SqliteJournal) -> Vec<RunEntry> {
    let mut found: Vec<RunEntry> = Vec::new();
    loop {
        let before = found.last().map(|last| last.run.clone());
        let page = journal.page(RunQuery { before, limit: 1, ..RunQuery::default() }).await.unwrap();
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

#[tokio::test]
async fn a_damaged_row_hides_no_other_run() {
    for row in ROWS {
        let (_directory, journal) = with_three_runs(row).await;
        let listed = journal.runs().await.unwrap_or_else(|error| panic!("{row}: {error}"));
        let sizes = listed.iter().map(|run| run.run.len() + run.workflow.len() + run.state.status.len());
        assert!(listed.len() == 3 && sizes.sum::<usize>() < 1_000, "{row}");
        let pages = paged(&journal).await;
        assert_eq!(pages.iter().map(|run| &*run.run).filter(|run| ["first", "last"].contains(run)).count(), 2, "{row}");
        assert_eq!(pages.len(), 3, "{row}");
        let counted: u64 = journal.tally(1).await.unwrap().values().map(|tally| tally.runs).sum();
        assert_eq!(counted, 3, "{row}");
        let runnable = journal.runnable(1, 9).await.unwrap();
        assert!(["first", "last"].iter().all(|run| runnable.contains(&(*run).into())), "{row}: {runnable:?}");

        let bad: RunId = "bad".into();
        // An answer or an error, of this run alone.
        let _ = (journal.read(&bad, 0, 9).await, journal.inbox(&bad).await, journal.acquire(&bad, Cut::Tail).await);
        let first: RunId = "first".into();
        let opened = journal.acquire(&first, Cut::Tail).await.unwrap();
        assert_eq!(opened.records.last(), Some(&record(3)), "{row}");
        journal.append(append(&first, opened.fence, [4])).await.unwrap();
        journal.retain(Retention { keep: Some(1), ended_after: None }).await.unwrap();
        assert!(journal.runs().await.unwrap().iter().any(|run| run.run == first), "{row}");
    }
}

#[tokio::test]
async fn a_run_whose_row_cannot_be_read_is_damaged() {
    for row in
        ["records = -1", "run = CAST(x'ff' AS TEXT)", "status = 'fine', ended = 1", "owner = CAST(x'ff' AS TEXT)"]
    {
        let (_directory, journal) = with_three_runs(row).await;
        let statuses: Vec<String> = journal.runs().await.unwrap().iter().map(|run| run.status(1).to_owned()).collect();
        assert_eq!(statuses.iter().filter(|status| *status == RunEntry::DAMAGED).count(), 1, "{row}: {statuses:?}");
    }
}

/// A process that ends in the middle of a checkpoint leaves a file that is shorter than its header says; the log has the
/// rest.
#[tokio::test]
async fn the_identifier_is_read_from_a_file_whose_checkpoint_was_cut_short() {
    let (directory, journal) = with_three_runs("records = 3").await;
    let path = directory.path().join("runs.db");
    drop(journal);
    let identifier = SqliteJournal::identifier_in(&path);
    assert!(identifier.is_some());
    let cut = directory.path().join("cut.db");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&cut, &bytes[..4096]).unwrap();
    assert_eq!(SqliteJournal::identifier_in(&cut), identifier);
    std::fs::write(&cut, b"").unwrap();
    assert_eq!(SqliteJournal::identifier_in(&cut), None);
}
