//! The journal on a real PostgreSQL: what every journal promises, and what many machines need as well.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use opcell_journal::{
    Cut, Journal, JournalError, NewRun, Retention, RunId, RunQuery,
    contract::{append, record},
};
use opcell_journal_postgres::{PostgresJournal, Settings, scratch};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// One server serves all tests; each test has a schema of its own.
fn server() -> Option<&'static str> {
    scratch::shared().unwrap()
}

fn settings(more: &str) -> Option<Settings> {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let url = server()?;
    let schema = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    Some(format!("{url}&schema=test_{schema}{more}").parse().unwrap())
}

async fn open(more: &str) -> Option<PostgresJournal> {
    Some(PostgresJournal::open(settings(more)?).await.unwrap())
}

/// Without a server the contract is held to the journal in memory, which costs nothing and keeps the shape of the
/// tests.
async fn store(more: &str) -> Arc<dyn Journal> {
    match open(more).await {
        Some(journal) => Arc::new(journal),
        None => Arc::new(opcell_journal::MemoryJournal::new()),
    }
}

mod direct {
    opcell_journal::contract!(async || ((), super::store("").await));
}

mod behind_a_transaction_pooler {
    opcell_journal::contract!(async || ((), super::store("&pooler=transaction").await));
}

#[tokio::test]
async fn a_run_belongs_to_the_process_that_holds_its_lease_and_to_no_other() {
    let Some(settings) = settings("&lease=1") else { return };
    let first = PostgresJournal::open(settings.clone()).await.unwrap();
    let second = PostgresJournal::open(settings).await.unwrap();
    let run: RunId = "r".into();
    let fence = first.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(matches!(second.acquire(&run, Cut::Tail).await, Err(JournalError::Held { .. })), "the lease is renewed");
    assert!(second.runs().await.unwrap()[0].driven);
    first.append(append(&run, fence, [1])).await.unwrap();
    first.close().await.unwrap();
    let opened = second.acquire(&run, Cut::Tail).await.unwrap();
    assert_eq!(opened.records, [record(1)]);
    assert!(matches!(first.append(append(&run, fence, [2])).await, Err(JournalError::Fenced { .. })));
}

#[tokio::test]
async fn an_owner_that_was_silent_for_longer_than_its_lease_cannot_write() {
    let Some(settings) = settings("&lease=1") else { return };
    let journal = PostgresJournal::open(settings.clone()).await.unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    let lost = journal.ownership();
    // What a process that was stopped finds when it continues: its lease is over, and perhaps no other process has
    // come.
    expire(&settings).await;
    let error = journal.append(append(&run, fence, [1])).await.unwrap_err();
    assert!(matches!(error, JournalError::LeaseLost { .. }), "{error}");
    tokio::time::timeout(Duration::from_secs(20), lost.lost()).await.unwrap();
    let error = journal.append(append(&run, fence, [1])).await.unwrap_err();
    assert!(
        matches!(error, JournalError::LeaseLost { .. }),
        "a new lease does not bring back what the old one owned: {error}"
    );
    let opened = journal.acquire(&run, Cut::Tail).await.unwrap();
    journal.append(append(&run, opened.fence, [1])).await.unwrap();
}

async fn client(settings_url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(settings_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn expire(settings: &Settings) {
    let sql = format!("UPDATE {}.owners SET alive_until = clock_timestamp() - interval '1 second'", settings.schema);
    client(server().unwrap()).await.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_there_once() {
    let Some(settings) = settings("") else { return };
    let schema = settings.schema.clone();
    let journal = PostgresJournal::open(settings).await.unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    let cutter = tokio::spawn(async move {
        let client = client(server().unwrap()).await;
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'opcell' AND (query LIKE 'WITH input%' OR query LIKE 'WITH done%')
                AND query LIKE '%{schema}.runs r%'"
        );
        loop {
            let _ = client.batch_execute(&sql).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for seq in 1..=200 {
        journal.append(append(&run, fence, [seq])).await.unwrap();
    }
    cutter.abort();
    assert_eq!(journal.read(&run, 0, 1_000).await.unwrap(), (1..=200).map(record).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_vanishes_as_it_takes_a_run_keeps_it_from_no_other() {
    let Some(settings) = settings("") else { return };
    let Some(url) = server() else { return };
    let port = url.split([':', '/']).find_map(|part| part.parse::<u16>().ok()).unwrap();
    let loses = Arc::new(AtomicBool::new(false));
    let way = scratch::losing_clients(port, "FOR UPDATE OF r NOWAIT", Arc::clone(&loses)).unwrap();
    let through = url.replace(&format!(":{port}/"), &format!(":{way}/"));
    let schema = settings.schema.clone();
    let vanishing: Settings = format!("{through}&schema={schema}").parse().unwrap();
    let (vanishing, other) =
        (PostgresJournal::open(vanishing).await.unwrap(), PostgresJournal::open(settings).await.unwrap());
    let run: RunId = "r".into();
    let fence = other.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    other.release(&run, fence).await.unwrap();
    loses.store(true, Ordering::SeqCst);
    let lost = tokio::spawn({
        let run = run.clone();
        async move { vanishing.acquire(&run, Cut::Tail).await.map(drop) }
    });
    let holds = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%{schema}.runs%'"
    );
    let watcher = client(url).await;
    while watcher.query_one(&holds, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let until = Instant::now() + Duration::from_secs(60);
    while let Err(held) = other.acquire(&run, Cut::Tail).await {
        assert!(matches!(held, JournalError::Held { .. }) && Instant::now() < until, "{held}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    lost.abort();
}

#[tokio::test]
async fn a_message_wakes_who_waits_for_work() {
    let Some(settings) = settings("") else { return };
    let (worker, sender) =
        (PostgresJournal::open(settings.clone()).await.unwrap(), PostgresJournal::open(settings).await.unwrap());
    let run: RunId = "r".into();
    let fence = sender.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    sender.release(&run, fence).await.unwrap();
    let waits = tokio::spawn(async move { worker.changed(Duration::from_secs(600)).await });
    // Listening starts a moment after the journal is open; what is sent before is found by looking.
    for _ in 0..100 {
        sender.post(&run, 0, "{}".into()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if waits.is_finished() {
            return;
        }
    }
    unreachable!("no one was woken");
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let Some(settings) = settings("") else { return };
    drop(PostgresJournal::open(settings.clone()).await.unwrap());
    let sql = format!("UPDATE {}.version SET version = 99", settings.schema);
    client(server().unwrap()).await.batch_execute(&sql).await.unwrap();
    let error = PostgresJournal::open(settings).await.unwrap_err();
    assert!(matches!(error, JournalError::Schema { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn a_record_that_was_edited_is_found() {
    let Some(settings) = settings("") else { return };
    let journal = PostgresJournal::open(settings.clone()).await.unwrap();
    let run: RunId = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.append(append(&run, fence, 1..=4)).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    let sql = format!("UPDATE {}.records SET payload = 'x' WHERE seq = 3", settings.schema);
    client(server().unwrap()).await.batch_execute(&sql).await.unwrap();
    assert_eq!(journal.read(&run, 0, 9).await.unwrap().len(), 2);
    assert!(matches!(journal.acquire(&run, Cut::Tail).await, Err(JournalError::Broken { last_good: 2, .. })));
    let opened = journal.acquire(&run, Cut::Anything).await.unwrap();
    assert_eq!((opened.records.len(), opened.damage.unwrap().cut), (2, 2));
    journal.append(append(&run, opened.fence, [3])).await.unwrap();
}

#[tokio::test]
async fn the_server_clock_is_the_one_that_counts() {
    let Some(journal) = open("").await else { return };
    let server = client(self::server().unwrap()).await;
    let row = server.query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::bigint", &[]).await.unwrap();
    let apart = (journal.clock().now() - row.get::<_, i64>(0)).abs();
    assert!(apart < 5_000_000, "{apart} us");
}

/// Rows that another machine of the fleet, or a person, wrote by hand: each spoils its own run and hides no other.
#[tokio::test]
async fn a_row_that_another_program_wrote_hides_no_other_run() {
    const STATEMENTS: [&str; 16] = [
        "UPDATE {s}.runs SET records = -1 WHERE run = 'bad'",
        "UPDATE {s}.runs SET records = 9223372036854775807 WHERE run = 'bad'",
        "UPDATE {s}.runs SET fence = -1 WHERE run = 'bad'",
        "UPDATE {s}.runs SET fence = 9223372036854775807 WHERE run = 'bad'",
        "UPDATE {s}.runs SET status = repeat('x', 10000000) WHERE run = 'bad'",
        "UPDATE {s}.runs SET status = E'\\x1b[2J', ended = true WHERE run = 'bad'",
        "UPDATE {s}.runs SET workflow = repeat('x', 10000000) WHERE run = 'bad'",
        "UPDATE {s}.runs SET due = -9223372036854775808 WHERE run = 'bad'",
        "UPDATE {s}.runs SET created_at = 9223372036854775807, updated_at = -9223372036854775808 WHERE run = 'bad'",
        "UPDATE {s}.runs SET owner = (SELECT owner FROM {s}.runs WHERE run = 'good') WHERE run = 'bad'",
        "UPDATE {s}.records SET seq = -1 WHERE seq = 2 AND run = (SELECT id FROM {s}.runs WHERE run = 'bad')",
        "UPDATE {s}.records SET version = -1, kind = '' WHERE run = (SELECT id FROM {s}.runs WHERE run = 'bad')",
        "UPDATE {s}.records SET checksum = '' WHERE run = (SELECT id FROM {s}.runs WHERE run = 'bad')",
        "INSERT INTO {s}.snapshots SELECT id, -1, -1, '{', '' FROM {s}.runs WHERE run = 'bad'",
        "INSERT INTO {s}.inbox (run, at, payload) SELECT id, -1, repeat('[', 1000000) FROM {s}.runs WHERE run = 'bad'",
        "INSERT INTO {s}.inbox (run, at, payload) VALUES (-1, 0, '')",
    ];
    for statement in STATEMENTS {
        let Some(settings) = settings("") else { return };
        let journal = PostgresJournal::open(settings.clone()).await.unwrap();
        let runs: [RunId; 2] = ["good".into(), "bad".into()];
        for run in &runs {
            let fence = journal.create(NewRun::empty(run, "w", 0)).await.unwrap();
            journal.append(append(run, fence, 1..=3)).await.unwrap();
            journal.release(run, fence).await.unwrap();
        }
        let sql = statement.replace("{s}", &settings.schema);
        client(server().unwrap()).await.batch_execute(&sql).await.unwrap();

        let listed = journal.runs().await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert!(listed.len() == 2 && listed.iter().all(|run| run.status(1).len() < 20), "{statement}: {listed:?}");
        let paged = journal.page(RunQuery { limit: 1, ..RunQuery::default() }).await.unwrap();
        let before = Some(paged[0].run.clone());
        assert_eq!(journal.page(RunQuery { before, ..RunQuery::default() }).await.unwrap().len(), 1, "{statement}");
        let counted: u64 = journal.tally(1).await.unwrap().values().map(|tally| tally.runs).sum();
        assert_eq!(counted, 2, "{statement}");
        assert!(journal.runnable(1, 9).await.unwrap().contains(&runs[0]), "{statement}");
        // An answer or an error, of this run alone.
        let _ = (journal.read(&runs[1], 0, 9).await, journal.inbox(&runs[1]).await);
        let _ = journal.acquire(&runs[1], Cut::Tail).await;
        assert_eq!(journal.read(&runs[0], 0, 9).await.unwrap().len(), 3, "{statement}");
        let opened = journal.acquire(&runs[0], Cut::Tail).await.unwrap();
        journal.append(append(&runs[0], opened.fence, [4])).await.unwrap();
        journal.retain(Retention { keep: Some(1), ended_after: None }).await.unwrap();
        assert!(journal.runs().await.unwrap().iter().any(|run| run.run == runs[0]), "{statement}");
    }
}
