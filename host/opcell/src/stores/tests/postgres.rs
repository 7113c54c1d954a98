//! Stores on a real PostgreSQL: what many machines need as well.

use super::{GRANT, PLUGIN_RECORD_BYTES, PluginStores, World, ask, entry, fill_the_record, get, set};
use crate::config::JournalPlace;
use opcell_journal::{Cut, Journal as _, JournalError, NewRun, RunId};
use opcell_journal_postgres::{PostgresJournal, scratch};
use opcell_sandbox::store::{StoreAnswer, StoreError};
use opcell_types::CallContext;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A schema of its own on the server that the tests share.
pub(super) struct Schema {
    server: String,
    name: String,
}

impl World {
    /// `None`, after a line on stderr, where no PostgreSQL is installed.
    pub(super) fn server() -> Option<Self> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let name = format!("stores_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        let server = scratch::shared().unwrap()?.to_owned();
        Some(Self::Server(Schema { server, name }))
    }

    fn schema(&self) -> &Schema {
        match self {
            Self::Server(schema) => schema,
            Self::Memory(_) | Self::File(_) => unreachable!(),
        }
    }
}

impl Schema {
    pub(super) async fn open(&self) -> (PostgresJournal, PluginStores) {
        let url = format!("{}&schema={}", self.server, self.name);
        let journal = PostgresJournal::open(url.parse().unwrap()).await.unwrap();
        let place: JournalPlace = url.parse().unwrap();
        let stores = PluginStores::beside(Some(&place), Path::new("/project"));
        stores.serve_from(&journal).unwrap();
        (journal, stores)
    }

    fn port(&self) -> u16 {
        self.server.split([':', '/']).find_map(|part| part.parse().ok()).unwrap()
    }

    /// The same schema, by another port.
    fn through(&self, port: u16) -> Self {
        let server = self.server.replace(&format!(":{}/", self.port()), &format!(":{port}/"));
        Self { server, name: self.name.clone() }
    }

    /// Returns the connection of an administrator.
    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.server, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

/// Drives a run, if no other process does.
pub(super) async fn drive(journal: &PostgresJournal, run: &str) {
    let run: RunId = run.into();
    match journal.create(NewRun::empty(&run, "w", 0)).await {
        Ok(_) => {}
        Err(JournalError::RunExists(_)) => match journal.acquire(&run, Cut::Tail).await {
            Ok(_) | Err(JournalError::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        },
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_has_lost_its_run_writes_nothing() {
    let Some(world) = World::server() else { return };
    let (paused, next) = (world.process().await, world.process().await);
    let mut late = paused.call("p", "run", "run/1").await;
    ask(&mut *late, get("a")).await;
    let silent = format!("UPDATE {}.owners SET alive_until = clock_timestamp()", world.schema().name);
    world.schema().client().await.batch_execute(&silent).await.unwrap();
    // No other worker has come yet; then one has, which drives the run under its own name.
    let refused = late.ask("s", &GRANT, set("a", "late")).await.unwrap_err();
    assert!(refused.to_string().contains("no longer drives the run"), "{refused}");
    next.journal.as_ref().unwrap().close().await.unwrap();
    let next = world.process().await;
    let mut again = next.call("p", "run", "run/1").await;
    ask(&mut *again, get("a")).await;
    assert_eq!(ask(&mut *again, set("a", "again")).await, StoreAnswer::Stored(1));
    let refused = late.ask("s", &GRANT, set("a", "late")).await.unwrap_err();
    assert!(refused.to_string().contains("no longer drives the run"), "{refused}");
    // Calls outside of runs are no one's.
    assert_eq!(ask(&mut *paused.outside("p"), get("a")).await, StoreAnswer::Entry(entry("again", 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_one_takes_a_run_in_the_middle_of_a_write() {
    let Some(world) = World::server() else { return };
    let (driver, other) = (world.process().await, world.process().await);
    ask(&mut *driver.call("p", "run", "run/1").await, set("a", "1")).await;
    // Someone holds the store, so that the next write waits after it has looked whether the run is its own.
    let mut holder = world.schema().client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute(&format!("SELECT 1 FROM {}.stores FOR UPDATE", world.schema().name)).await.unwrap();
    let mut call = driver.call("p", "run", "run/2").await;
    let write = tokio::spawn(async move { call.ask("s", &GRANT, set("a", "2")).await });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.stores%'",
        world.schema().name
    );
    let watcher = world.schema().client().await;
    while watcher.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let silent = format!("UPDATE {}.owners SET alive_until = clock_timestamp()", world.schema().name);
    watcher.batch_execute(&silent).await.unwrap();
    let taken = other.journal.as_ref().unwrap().acquire(&"run".into(), Cut::Tail).await;
    assert!(matches!(taken, Err(JournalError::Held { .. })), "{taken:?}");
    held.rollback().await.unwrap();
    assert_eq!(write.await.unwrap(), Ok((StoreAnswer::Stored(2), false)));
}

/// A way to the server that loses the answers to commits while it is told to: each connection ends after the server has
/// committed, and before it is heard.
async fn losing_answers(server: u16, loses: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (mut server, loses) = (TcpStream::connect(("127.0.0.1", server)).await.unwrap(), loses.clone());
            tokio::spawn(async move {
                let (mut asked, mut answered) = (vec![0; 16 << 10], vec![0; 16 << 10]);
                loop {
                    tokio::select! {
                        Ok(length @ 1..) = client.read(&mut asked) => {
                            server.write_all(&asked[..length]).await?;
                            let commits = asked[..length].windows(7).any(|text| text == b"COMMIT\0");
                            if commits && loses.load(Ordering::Relaxed) {
                                let _ = server.read(&mut answered).await?;
                                return Ok(());
                            }
                        }
                        Ok(length @ 1..) = server.read(&mut answered) => client.write_all(&answered[..length]).await?,
                        else => return Ok::<_, std::io::Error>(()),
                    }
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_vanishes_in_the_middle_of_a_write_holds_no_store() {
    let Some(world) = World::server() else { return };
    let schema = world.schema();
    let (server, loses) = (schema.port(), Arc::new(AtomicBool::new(false)));
    let way = scratch::losing_clients(server, "FOR UPDATE", Arc::clone(&loses)).unwrap();
    let through = World::Server(schema.through(way));
    let (vanishing, other) = (through.process().await, world.process().await);
    ask(&mut *other.outside("p"), set("a", "1")).await;
    let mut lost = vanishing.outside("p");
    ask(&mut *lost, get("a")).await;
    loses.store(true, Ordering::SeqCst);
    let lost = tokio::spawn(async move { lost.ask("s", &GRANT, set("a", "lost")).await });
    let holds = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%{}.store%'",
        schema.name
    );
    let watcher = schema.client().await;
    while watcher.query_one(&holds, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ask(&mut *other.outside("p"), set("a", "2")).await, StoreAnswer::Stored(2));
    lost.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_is_lost_is_there_once() {
    let Some(World::Server(schema)) = World::server() else { return };
    let server = schema.port();
    let loses = Arc::new(AtomicBool::new(false));
    let way = losing_answers(server, loses.clone()).await;
    let world = World::Server(schema.through(way));
    let process = world.process().await;
    ask(&mut *process.outside("p"), set("n", "0")).await;
    loses.store(true, Ordering::Relaxed);
    let mut call = process.outside("p");
    for number in 1..=20_u64 {
        // Each write is there once: a version that is skipped was written twice.
        assert_eq!(ask(&mut *call, set("n", &number.to_string())).await, StoreAnswer::Stored(number + 1));
    }
    loses.store(false, Ordering::Relaxed);
    assert_eq!(ask(&mut *process.outside("p"), get("n")).await, StoreAnswer::Entry(entry("20", 21)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_of_a_plugin_is_bounded_on_a_server() {
    let Some(world) = World::server() else { return };
    fill_the_record(&world.process().await).await;
    let sql = format!("SELECT count(*), sum(bytes)::bigint FROM {}.store_calls", world.schema().name);
    let row = world.schema().client().await.query_one(&sql, &[]).await.unwrap();
    let (calls, bytes): (i64, i64) = (row.get(0), row.get(1));
    // A process looks each time that it has recorded another MiB, and a call's record has at most 4.
    assert!(calls > 4 && bytes.cast_unsigned() <= PLUGIN_RECORD_BYTES + (5 << 20), "{calls} {bytes}");
}

#[tokio::test]
async fn tables_of_another_version_are_refused() {
    let Some(world) = World::server() else { return };
    let first = world.process().await;
    ask(&mut *first.outside("p"), set("a", "1")).await;
    let sql = format!("UPDATE {}.store_version SET version = 99", world.schema().name);
    world.schema().client().await.batch_execute(&sql).await.unwrap();
    let refused = world.process().await.outside("p").ask("s", &GRANT, get("a")).await.unwrap_err();
    let expected = "the stores of the journal have version 99, and this program reads 1";
    assert_eq!(refused, StoreError::Failed(expected.to_owned()));
}

#[tokio::test]
async fn stores_of_a_run_that_is_long_over_go_and_others_stay() {
    let Some(world) = World::server() else { return };
    let process = world.process().await;
    let per_run = opcell_sandbox::StoreGrant { per_run: true, ..GRANT };
    for run in ["old", "new"] {
        process.call("p", run, "k").await.ask("s", &per_run, set("a", run)).await.unwrap();
    }
    ask(&mut *process.outside("p"), set("a", "project's")).await;
    let schema = &world.schema().name;
    let administrator = world.schema().client().await;
    let age = format!(
        "UPDATE {schema}.stores SET written_at = clock_timestamp() - interval '91 days' WHERE run IN ('old', '');
         UPDATE {schema}.store_calls SET at = clock_timestamp() - interval '31 days' WHERE call LIKE 'old%'"
    );
    administrator.batch_execute(&age).await.unwrap();
    process.end().await;
    let next = world.process().await;
    assert_eq!(ask(&mut *next.outside("p"), get("a")).await, StoreAnswer::Entry(entry("project's", 1)));
    let runs = administrator.query(&format!("SELECT run FROM {schema}.stores ORDER BY run"), &[]).await.unwrap();
    assert_eq!(runs.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>(), ["", "new"]);
    let calls = administrator.query(&format!("SELECT call FROM {schema}.store_calls"), &[]).await.unwrap();
    assert_eq!(calls.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>(), ["new\nk"]);
}

#[tokio::test]
async fn a_journal_that_someone_else_opened_has_no_stores() {
    let place: JournalPlace = "postgres://db.example/opcell".parse().unwrap();
    let stores = PluginStores::beside(Some(&place), Path::new("/p"));
    let refused = stores.of("p", &CallContext::default()).ask("s", &GRANT, get("a")).await.unwrap_err();
    assert!(refused.to_string().starts_with("this host keeps no stores"), "{refused}");
}
