//! The promises of every store, wherever it is kept, and those that hold only there.

use super::{
    PluginStores,
    call::{CALL_RECORD_BYTES, PLUGIN_RECORD_BYTES},
    file_beside, former_file_beside,
};
use crate::config::JournalPlace;
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreEntry, StoreError, StoreRequest, Stores},
};
use opcell_types::CallContext;
use std::path::Path;

#[cfg(feature = "postgres")]
mod postgres;

const GRANT: StoreGrant = StoreGrant { quota: 1 << 20, entries: 100, per_run: false };

fn context(run: &str, key: &str) -> CallContext {
    let mut context = CallContext::default();
    (context.run, context.step, context.idempotency_key) = (run.into(), "step".into(), key.into());
    context
}

fn get(key: &str) -> StoreRequest {
    StoreRequest::Get { key: key.to_owned() }
}

fn set(key: &str, value: &str) -> StoreRequest {
    StoreRequest::Set { key: key.to_owned(), value: value.into() }
}

fn delete(key: &str) -> StoreRequest {
    StoreRequest::Delete { key: key.to_owned() }
}

fn list(prefix: &str, after: Option<&str>, limit: u32) -> StoreRequest {
    StoreRequest::List { prefix: prefix.to_owned(), after: after.map(str::to_owned), limit }
}

fn swap(key: &str, expected: Option<u64>, value: &str) -> StoreRequest {
    StoreRequest::CompareAndSet { key: key.to_owned(), expected, value: value.into() }
}

fn entry(value: &str, version: u64) -> Option<StoreEntry> {
    Some(StoreEntry { value: value.into(), version })
}

async fn ask(stores: &mut dyn Stores, request: StoreRequest) -> StoreAnswer {
    stores.ask("s", &GRANT, request).await.unwrap().0
}

/// The place of a test's stores.
enum World {
    Memory(PluginStores),
    File(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Server(postgres::Schema),
}

impl World {
    fn memory() -> Option<Self> {
        Some(Self::Memory(PluginStores::in_memory()))
    }

    fn file() -> Option<Self> {
        Some(Self::File(tempfile::tempdir().unwrap()))
    }

    /// As a process of its own opens them.
    async fn process(&self) -> Process {
        let stores = match self {
            Self::Memory(stores) => stores.clone(),
            Self::File(folder) => opened(&folder.path().join("runs.db"), folder.path()),
            #[cfg(feature = "postgres")]
            Self::Server(schema) => {
                let (journal, stores) = schema.open().await;
                return Process { stores, journal: Some(journal) };
            }
        };
        Process {
            stores,
            #[cfg(feature = "postgres")]
            journal: None,
        }
    }
}

/// A process that drives runs and has their stores.
struct Process {
    stores: PluginStores,
    #[cfg(feature = "postgres")]
    journal: Option<opcell_journal_postgres::PostgresJournal>,
}

impl Process {
    /// A call of a plugin in a run, which this process drives from now on if no other does.
    async fn call(&self, plugin: &str, run: &str, key: &str) -> Box<dyn Stores> {
        #[cfg(feature = "postgres")]
        if let Some(journal) = &self.journal {
            postgres::drive(journal, run).await;
        }
        self.stores.of(plugin, &context(run, key))
    }

    /// Calls of a plugin outside of runs.
    fn outside(&self, plugin: &str) -> Box<dyn Stores> {
        self.stores.of(plugin, &CallContext::default())
    }

    /// It ends, and others may drive its runs.
    async fn end(self) {
        #[cfg(feature = "postgres")]
        if let Some(journal) = &self.journal {
            journal.close().await.unwrap();
        }
    }
}

macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        contract!(@in in_memory, World::memory; $($name),+);
        contract!(@in in_a_file, World::file; $($name),+);
        #[cfg(feature = "postgres")]
        contract!(@in on_a_server, World::server; $($name),+);
    };
    (@in $place:ident, $world:path; $($name:ident),+) => {
        mod $place {
            use super::World;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    if let Some(world) = $world() {
                        super::$name(&world).await;
                    }
                }
            )+
        }
    };
}

contract!(
    a_value_is_there_until_it_is_deleted_and_no_version_comes_twice,
    any_key_and_any_value_comes_back_as_it_was,
    keys_are_listed_by_page_and_prefix,
    a_quota_counts_bytes_and_entries_and_room_comes_back,
    plugins_stores_and_runs_see_nothing_of_one_another,
    of_many_who_compare_and_set_no_step_is_lost,
    of_many_who_fill_a_store_none_gets_beyond_its_quota,
    a_call_that_is_made_again_sees_what_it_saw_and_writes_nothing_twice,
    a_call_that_goes_another_way_than_before_is_answered_anew,
    a_refused_write_is_refused_again_and_what_came_after_it_is_not_repeated,
    of_two_attempts_at_once_one_writes,
    what_is_recorded_of_a_call_is_bounded,
);

async fn a_value_is_there_until_it_is_deleted_and_no_version_comes_twice(world: &World) {
    let process = world.process().await;
    let mut call = process.outside("p");
    assert_eq!(ask(&mut *call, get("a")).await, StoreAnswer::Entry(None));
    assert_eq!(ask(&mut *call, delete("a")).await, StoreAnswer::Deleted(false));
    assert_eq!(ask(&mut *call, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *call, get("a")).await, StoreAnswer::Entry(entry("1", 1)));
    assert_eq!(ask(&mut *call, delete("a")).await, StoreAnswer::Deleted(true));
    assert_eq!(ask(&mut *call, delete("a")).await, StoreAnswer::Deleted(false));
    assert_eq!(ask(&mut *call, swap("a", None, "2")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *call, swap("a", Some(1), "3")).await, StoreAnswer::Conflict(entry("2", 3)));
    assert_eq!(ask(&mut *call, swap("b", Some(3), "3")).await, StoreAnswer::Conflict(None));
}

async fn any_key_and_any_value_comes_back_as_it_was(world: &World) {
    let process = world.process().await;
    let mut call = process.outside("p");
    let keys = ["\0", "\0\0", "a\0b", "A", "a", "ä", "𝄞"];
    let value: Vec<u8> = (0..=255).collect();
    for key in keys {
        let request = StoreRequest::Set { key: key.to_owned(), value: value.clone() };
        call.ask("s", &GRANT, request).await.unwrap();
    }
    for (key, version) in keys.into_iter().zip(1..) {
        let expected = StoreEntry { value: value.clone(), version };
        assert_eq!(ask(&mut *call, get(key)).await, StoreAnswer::Entry(Some(expected)), "{key:?}");
    }
    let mut sorted = keys;
    sorted.sort_unstable();
    let listed = StoreAnswer::Page { keys: sorted.iter().map(|&key| key.to_owned()).collect(), more: false };
    assert_eq!(ask(&mut *call, list("", None, 9)).await, listed);
}

async fn keys_are_listed_by_page_and_prefix(world: &World) {
    let process = world.process().await;
    let mut call = process.outside("p");
    for key in ["b/2", "a", "b/1", "b/3", "c"] {
        ask(&mut *call, set(key, "")).await;
    }
    let page = |keys: &[&str], more| StoreAnswer::Page { keys: keys.iter().map(|&key| key.to_owned()).collect(), more };
    assert_eq!(ask(&mut *call, list("b/", None, 2)).await, page(&["b/1", "b/2"], true));
    assert_eq!(ask(&mut *call, list("b/", None, 3)).await, page(&["b/1", "b/2", "b/3"], false));
    assert_eq!(ask(&mut *call, list("b/", Some("b/2"), 2)).await, page(&["b/3"], false));
    assert_eq!(ask(&mut *call, list("", Some("b/3"), 9)).await, page(&["c"], false));
    assert_eq!(ask(&mut *call, list("d", None, 9)).await, page(&[], false));
}

async fn a_quota_counts_bytes_and_entries_and_room_comes_back(world: &World) {
    let process = world.process().await;
    let mut call = process.outside("p");
    let small = StoreGrant { quota: 2 * (StoreGrant::ENTRY_OVERHEAD + 11), entries: 100, per_run: false };
    let ten = "x".repeat(10);
    for key in ["a", "b"] {
        call.ask("s", &small, set(key, &ten)).await.unwrap();
    }
    let refused = call.ask("s", &small, set("c", "")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Quota(text) if text.contains("more than its quota of 150")), "{refused}");
    assert!(call.ask("s", &small, set("a", &"x".repeat(11))).await.is_err());
    call.ask("s", &small, set("a", "")).await.unwrap();
    call.ask("s", &small, StoreRequest::Delete { key: "b".into() }).await.unwrap();
    call.ask("s", &small, set("c", &ten)).await.unwrap();
    let few = StoreGrant { entries: 1, ..GRANT };
    call.ask("t", &few, set("a", "")).await.unwrap();
    call.ask("t", &few, set("a", "1")).await.unwrap();
    let refused = call.ask("t", &few, set("b", "")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Quota(text) if text.contains("more than 1 entries")), "{refused}");
}

async fn plugins_stores_and_runs_see_nothing_of_one_another(world: &World) {
    let process = world.process().await;
    ask(&mut *process.call("p", "r1", "k1").await, set("a", "mine")).await;
    let nothing = StoreAnswer::Entry(None);
    assert_eq!(ask(&mut *process.outside("q"), get("a")).await, nothing);
    let mut own = process.outside("p");
    assert_eq!(own.ask("t", &GRANT, get("a")).await.unwrap().0, nothing);
    assert_eq!(ask(&mut *own, get("a")).await, StoreAnswer::Entry(entry("mine", 1)));

    let per_run = StoreGrant { per_run: true, ..GRANT };
    let mut first = process.call("p", "r1", "k2").await;
    first.ask("s", &per_run, set("a", "run's")).await.unwrap();
    let mut second = process.call("p", "r2", "k3").await;
    assert_eq!(second.ask("s", &per_run, get("a")).await.unwrap().0, nothing);
    let outside = own.ask("s", &per_run, get("a")).await.unwrap_err();
    assert!(outside.to_string().contains("not part of one"), "{outside}");
    // A call of a person has an ID in place of a run's.
    let mut invoked = CallContext::default();
    (invoked.run, invoked.idempotency_key) = ("01a2".into(), "01a2".into());
    let mut invoked = process.stores.of("p", &invoked);
    assert_eq!(ask(&mut *invoked, set("b", "1")).await, StoreAnswer::Stored(2));
    let outside = invoked.ask("s", &per_run, get("a")).await.unwrap_err();
    assert!(outside.to_string().contains("not part of one"), "{outside}");
}

/// Each has its own connection, as processes have.
async fn of_many_who_compare_and_set_no_step_is_lost(world: &World) {
    let mut counters = Vec::new();
    for _ in 0..4 {
        let process = world.process().await;
        counters.push(tokio::spawn(async move {
            let mut call = process.outside("p");
            for _ in 0..25 {
                let mut seen = ask(&mut *call, get("n")).await;
                while let StoreAnswer::Entry(current) | StoreAnswer::Conflict(current) = seen {
                    let count = current
                        .as_ref()
                        .map_or(0, |entry| String::from_utf8_lossy(&entry.value).parse::<u64>().unwrap());
                    let expected = current.map(|entry| entry.version);
                    seen = ask(&mut *call, swap("n", expected, &(count + 1).to_string())).await;
                }
            }
        }));
    }
    for counter in counters {
        counter.await.unwrap();
    }
    let process = world.process().await;
    assert_eq!(ask(&mut *process.outside("p"), get("n")).await, StoreAnswer::Entry(entry("100", 100)));
}

async fn of_many_who_fill_a_store_none_gets_beyond_its_quota(world: &World) {
    let few = StoreGrant { entries: 10, ..GRANT };
    let mut writers = Vec::new();
    for writer in 0..4 {
        let process = world.process().await;
        writers.push(tokio::spawn(async move {
            let mut call = process.outside("p");
            let mut stored = 0;
            for number in 0..10 {
                match call.ask("s", &few, set(&format!("{writer}/{number}"), "x")).await {
                    Ok(_) => stored += 1,
                    Err(StoreError::Quota(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            stored
        }));
    }
    let mut stored = 0;
    for writer in writers {
        stored += writer.await.unwrap();
    }
    let process = world.process().await;
    let StoreAnswer::Page { keys, .. } = ask(&mut *process.outside("p"), list("", None, 100)).await else { panic!() };
    assert_eq!((stored, keys.len()), (10, 10));
}

async fn a_call_that_is_made_again_sees_what_it_saw_and_writes_nothing_twice(world: &World) {
    let count = async |process: &Process| {
        let mut call = process.call("p", "run", "run/1").await;
        let (StoreAnswer::Entry(seen), before) = call.ask("s", &GRANT, get("n")).await.unwrap() else { panic!() };
        let next = seen.as_ref().map_or(0, |entry| entry.value.len()) + 1;
        let expected = seen.map(|entry| entry.version);
        let (answer, recorded) = call.ask("s", &GRANT, swap("n", expected, &"x".repeat(next))).await.unwrap();
        assert_eq!(before, recorded);
        (answer, recorded)
    };
    let first = world.process().await;
    ask(&mut *first.call("p", "run", "run/0").await, set("n", "x")).await;
    assert_eq!(count(&first).await, (StoreAnswer::Stored(2), false));
    first.end().await;
    // Someone else continues before the call is made again, in another process.
    let second = world.process().await;
    ask(&mut *second.call("p", "run", "run/2").await, set("n", "xxxxx")).await;
    assert_eq!(count(&second).await, (StoreAnswer::Stored(2), true));
    let now = ask(&mut *second.outside("p"), get("n")).await;
    assert_eq!(now, StoreAnswer::Entry(entry("xxxxx", 3)));
    // The same call of another plugin, and another call of the same, are others.
    assert!(!second.call("q", "run", "run/1").await.ask("s", &GRANT, get("n")).await.unwrap().1);
    assert!(!second.call("p", "run", "run/3").await.ask("s", &GRANT, get("n")).await.unwrap().1);
}

async fn a_call_that_goes_another_way_than_before_is_answered_anew(world: &World) {
    let process = world.process().await;
    let mut first = process.call("p", "run", "run/1").await;
    ask(&mut *first, set("a", "1")).await;
    ask(&mut *first, set("b", "1")).await;
    let mut second = process.call("p", "run", "run/1").await;
    assert_eq!(ask(&mut *second, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *second, set("c", "1")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *second, set("b", "1")).await, StoreAnswer::Stored(4));
    // The third attempt finds what the second did.
    let mut third = process.call("p", "run", "run/1").await;
    assert_eq!(ask(&mut *third, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *third, set("c", "1")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *third, set("b", "1")).await, StoreAnswer::Stored(4));
    assert_eq!(ask(&mut *third, set("b", "1")).await, StoreAnswer::Stored(5));
}

async fn a_refused_write_is_refused_again_and_what_came_after_it_is_not_repeated(world: &World) {
    let process = world.process().await;
    let few = StoreGrant { entries: 1, ..GRANT };
    let attempt = async || {
        let mut call = process.call("p", "run", "run/1").await;
        call.ask("s", &few, set("a", "1")).await.unwrap();
        let refused = call.ask("s", &few, set("b", "1")).await.unwrap_err();
        (refused, call.ask("s", &few, set("a", "2")).await.unwrap())
    };
    let (refused, written) = attempt().await;
    assert_eq!(written, (StoreAnswer::Stored(2), false));
    assert_eq!(attempt().await, (refused, (StoreAnswer::Stored(2), true)));
}

/// As when a cell was abandoned in the middle of a write, and its call is made again.
async fn of_two_attempts_at_once_one_writes(world: &World) {
    let process = world.process().await;
    let mut abandoned = process.call("p", "run", "run/1").await;
    ask(&mut *abandoned, get("a")).await;
    let mut again = process.call("p", "run", "run/1").await;
    ask(&mut *again, get("a")).await;
    assert_eq!(ask(&mut *again, set("a", "1")).await, StoreAnswer::Stored(1));
    let refused = abandoned.ask("s", &GRANT, set("a", "1")).await.unwrap_err();
    assert!(refused.to_string().contains("another attempt"), "{refused}");
    assert_eq!(ask(&mut *again, set("a", "2")).await, StoreAnswer::Stored(2));
}

async fn what_is_recorded_of_a_call_is_bounded(world: &World) {
    let process = world.process().await;
    let large = "x".repeat(256 << 10);
    ask(&mut *process.outside("p"), set("a", &large)).await;
    let mut greedy = process.call("p", "run", "greedy").await;
    for _ in 0..=CALL_RECORD_BYTES >> 18 {
        ask(&mut *greedy, get("a")).await;
    }
    let refused = greedy.ask("s", &GRANT, set("b", "")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Quota(text) if text.contains("more than 4 MiB")), "{refused}");
    assert!(greedy.ask("s", &GRANT, get("a")).await.is_ok(), "it may still read");
}

/// Calls that together are answered more than is recorded of a plugin.
async fn fill_the_record(process: &Process) {
    let large = "x".repeat(256 << 10);
    ask(&mut *process.outside("p"), set("a", &large)).await;
    for call in 0..(PLUGIN_RECORD_BYTES >> 20) + 4 {
        let mut call = process.call("p", "run", &call.to_string()).await;
        for _ in 0..4 {
            ask(&mut *call, get("a")).await;
        }
        ask(&mut *call, set("b", "")).await;
    }
}

/// Stores in the file that belongs to this journal, as another process would open them.
fn opened(journal: &Path, root: &Path) -> PluginStores {
    PluginStores::beside(Some(&JournalPlace::File(journal.to_owned())), root)
}

#[tokio::test]
async fn what_is_recorded_of_a_plugin_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let world = World::File(folder);
    fill_the_record(&world.process().await).await;
    let connection = rusqlite::Connection::open(file_beside(&journal)).unwrap();
    let (calls, bytes): (i64, i64) = connection
        .query_row("SELECT count(*), sum(bytes) FROM calls", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert!(calls > 4 && bytes.cast_unsigned() <= PLUGIN_RECORD_BYTES, "{calls} {bytes}");
}

#[tokio::test]
async fn projects_that_share_a_journal_see_nothing_of_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("shared/runs.db");
    let (one, other) = (opened(&journal, &folder.path().join("one")), opened(&journal, &folder.path().join("other")));
    ask(&mut *one.of("p", &CallContext::default()), set("a", "mine")).await;
    assert_eq!(ask(&mut *other.of("p", &CallContext::default()), get("a")).await, StoreAnswer::Entry(None));
}

#[tokio::test]
async fn a_project_that_is_moved_with_its_journal_keeps_its_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let journal = Path::new(".opcell/runs.db");
    ask(&mut *opened(&before.join(journal), &before).of("p", &CallContext::default()), set("a", "1")).await;
    std::fs::rename(&before, &after).unwrap();
    let kept = ask(&mut *opened(&after.join(journal), &after).of("p", &CallContext::default()), get("a")).await;
    assert_eq!(kept, StoreAnswer::Entry(entry("1", 1)));
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    ask(&mut *opened(&journal, folder.path()).of("p", &CallContext::default()), set("a", "1")).await;
    let mode = std::fs::metadata(file_beside(&journal)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_file_with_anything_in_it_that_is_not_ours_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    ask(&mut *opened(&journal, folder.path()).of("p", &CallContext::default()), set("a", "1")).await;
    let file = rusqlite::Connection::open(file_beside(&journal)).unwrap();
    file.execute_batch("CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries; END").unwrap();
    let mut call = opened(&journal, folder.path()).of("p", &CallContext::default());
    let refused = call.ask("s", &GRANT, set("b", "1")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Failed(text) if text.contains("trigger `more`")), "{refused}");
}

#[tokio::test]
async fn journals_whose_names_differ_in_their_extension_share_no_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("runs.db"), folder.path().join("runs.sqlite"));
    ask(&mut *opened(&one, folder.path()).of("p", &CallContext::default()), set("a", "mine")).await;
    let seen = ask(&mut *opened(&other, folder.path()).of("p", &CallContext::default()), get("a")).await;
    assert_eq!(seen, StoreAnswer::Entry(None));
}

/// Stores as versions before 0.2 kept them.
async fn former(journal: &Path, root: &Path) {
    ask(&mut *opened(journal, root).of("p", &CallContext::default()), set("a", "1")).await;
    std::fs::rename(file_beside(journal), former_file_beside(journal)).unwrap();
}

#[tokio::test]
async fn stores_of_the_former_name_stay_and_the_new_one_gets_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    former(&journal, folder.path()).await;
    let kept = ask(&mut *opened(&journal, folder.path()).of("p", &CallContext::default()), get("a")).await;
    assert_eq!(kept, StoreAnswer::Entry(entry("1", 1)));
    assert!(file_beside(&journal).exists() && !former_file_beside(&journal).exists());
}

#[tokio::test]
async fn stores_of_the_former_name_stay_where_they_are_while_another_process_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    former(&journal, folder.path()).await;
    let other = rusqlite::Connection::open(former_file_beside(&journal)).unwrap();
    let mode: String = other.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    let count: i64 = other.query_row("SELECT count(*) FROM stores", [], |row| row.get(0)).unwrap();
    assert_eq!((mode.as_str(), count), ("wal", 1));
    let kept = ask(&mut *opened(&journal, folder.path()).of("p", &CallContext::default()), get("a")).await;
    assert_eq!(kept, StoreAnswer::Entry(entry("1", 1)));
    assert!(former_file_beside(&journal).exists());
}

#[tokio::test]
async fn stores_that_may_be_two_projects_are_neithers_until_their_owner_says_whose_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("runs.db"), folder.path().join("runs.sqlite"));
    former(&one, folder.path()).await;
    for journal in [&one, &other] {
        drop(opcell_journal::SqliteJournal::open(journal).unwrap());
    }
    for journal in [&one, &other] {
        let mut call = opened(journal, folder.path()).of("p", &CallContext::default());
        let refused = call.ask("s", &GRANT, get("a")).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Failed(text) if text.contains("rename it to runs.")), "{refused}");
    }
    std::fs::rename(former_file_beside(&one), file_beside(&one)).unwrap();
    let kept = ask(&mut *opened(&one, folder.path()).of("p", &CallContext::default()), get("a")).await;
    assert_eq!(kept, StoreAnswer::Entry(entry("1", 1)));
}
