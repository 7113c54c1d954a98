use super::{CALL_RECORD_BYTES, PLUGIN_RECORD_BYTES};
use crate::{
    config::JournalPlace,
    stores::{PluginStores, file_beside},
};
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreEntry, StoreError, StoreRequest, Stores},
};
use opcell_types::CallContext;
use std::path::Path;

const GRANT: StoreGrant = StoreGrant { quota: 1 << 20, entries: 100, per_run: false };

fn context(run: &str, key: &str) -> CallContext {
    let mut context = CallContext::default();
    (context.run, context.idempotency_key) = (run.into(), key.into());
    context
}

fn get(key: &str) -> StoreRequest {
    StoreRequest::Get { key: key.to_owned() }
}

fn set(key: &str, value: &str) -> StoreRequest {
    StoreRequest::Set { key: key.to_owned(), value: value.into() }
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

/// Stores in the file that belongs to this journal, as another process would open them.
fn opened(journal: &Path, root: &Path) -> PluginStores {
    PluginStores::beside(Some(&JournalPlace::File(journal.to_owned())), root)
}

#[tokio::test]
async fn a_value_is_there_until_it_is_deleted_and_no_version_comes_twice() {
    let stores = PluginStores::in_memory();
    let mut call = stores.of("p", &CallContext::default());
    assert_eq!(ask(&mut *call, get("a")).await, StoreAnswer::Entry(None));
    assert_eq!(ask(&mut *call, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *call, get("a")).await, StoreAnswer::Entry(entry("1", 1)));
    assert_eq!(ask(&mut *call, StoreRequest::Delete { key: "a".into() }).await, StoreAnswer::Deleted(true));
    assert_eq!(ask(&mut *call, StoreRequest::Delete { key: "a".into() }).await, StoreAnswer::Deleted(false));
    assert_eq!(ask(&mut *call, swap("a", None, "2")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *call, swap("a", Some(1), "3")).await, StoreAnswer::Conflict(entry("2", 3)));
}

#[tokio::test]
async fn keys_are_listed_by_page_and_prefix() {
    let stores = PluginStores::in_memory();
    let mut call = stores.of("p", &CallContext::default());
    for key in ["b/2", "a", "b/1", "b/3", "c"] {
        ask(&mut *call, set(key, "")).await;
    }
    let list = |prefix: &str, after: Option<&str>, limit| StoreRequest::List {
        prefix: prefix.to_owned(),
        after: after.map(str::to_owned),
        limit,
    };
    let page = |keys: &[&str], more| StoreAnswer::Page { keys: keys.iter().map(|&key| key.to_owned()).collect(), more };
    assert_eq!(ask(&mut *call, list("b/", None, 2)).await, page(&["b/1", "b/2"], true));
    assert_eq!(ask(&mut *call, list("b/", Some("b/2"), 2)).await, page(&["b/3"], false));
    assert_eq!(ask(&mut *call, list("", Some("b/3"), 9)).await, page(&["c"], false));
    assert_eq!(ask(&mut *call, list("d", None, 9)).await, page(&[], false));
}

#[tokio::test]
async fn a_quota_counts_bytes_and_entries_and_room_comes_back() {
    let stores = PluginStores::in_memory();
    let mut call = stores.of("p", &CallContext::default());
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

#[tokio::test]
async fn plugins_projects_stores_and_runs_see_nothing_of_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("shared/runs.db");
    let (one, other) = (opened(&journal, &folder.path().join("one")), opened(&journal, &folder.path().join("other")));
    ask(&mut *one.of("p", &context("r1", "k1")), set("a", "mine")).await;
    let nothing = StoreAnswer::Entry(None);
    assert_eq!(ask(&mut *other.of("p", &CallContext::default()), get("a")).await, nothing);
    assert_eq!(ask(&mut *one.of("q", &CallContext::default()), get("a")).await, nothing);
    let mut own = one.of("p", &CallContext::default());
    assert_eq!(own.ask("t", &GRANT, get("a")).await.unwrap().0, nothing);
    assert_eq!(ask(&mut *own, get("a")).await, StoreAnswer::Entry(entry("mine", 1)));

    let per_run = StoreGrant { per_run: true, ..GRANT };
    let mut first = one.of("p", &context("r1", "k2"));
    first.ask("s", &per_run, set("a", "run's")).await.unwrap();
    let mut second = one.of("p", &context("r2", "k3"));
    assert_eq!(second.ask("s", &per_run, get("a")).await.unwrap().0, nothing);
    let outside = own.ask("s", &per_run, get("a")).await.unwrap_err();
    assert!(outside.to_string().contains("not part of one"), "{outside}");
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

/// Each has its own connection, as processes have.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_compare_and_set_no_step_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let counters: Vec<_> = (0..4)
        .map(|_| {
            let stores = opened(&journal, folder.path());
            tokio::spawn(async move {
                let mut call = stores.of("p", &CallContext::default());
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
            })
        })
        .collect();
    for counter in counters {
        counter.await.unwrap();
    }
    let stores = opened(&journal, folder.path());
    assert_eq!(
        ask(&mut *stores.of("p", &CallContext::default()), get("n")).await,
        StoreAnswer::Entry(entry("100", 100))
    );
}

#[tokio::test]
async fn a_call_that_is_made_again_sees_what_it_saw_and_writes_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let count = async |stores: &PluginStores| {
        let mut call = stores.of("p", &context("run", "run/1"));
        let (StoreAnswer::Entry(seen), before) = call.ask("s", &GRANT, get("n")).await.unwrap() else { panic!() };
        let next = seen.as_ref().map_or(0, |entry| entry.value.len()) + 1;
        let expected = seen.map(|entry| entry.version);
        let (answer, recorded) = call.ask("s", &GRANT, swap("n", expected, &"x".repeat(next))).await.unwrap();
        assert_eq!(before, recorded);
        (answer, recorded)
    };
    let first = opened(&journal, folder.path());
    ask(&mut *first.of("p", &context("run", "run/0")), set("n", "x")).await;
    assert_eq!(count(&first).await, (StoreAnswer::Stored(2), false));
    drop(first);
    // Someone else goes on before the call is made again, in another process.
    let second = opened(&journal, folder.path());
    ask(&mut *second.of("p", &context("run", "run/2")), set("n", "xxxxx")).await;
    assert_eq!(count(&second).await, (StoreAnswer::Stored(2), true));
    let now = ask(&mut *second.of("p", &CallContext::default()), get("n")).await;
    assert_eq!(now, StoreAnswer::Entry(entry("xxxxx", 3)));
    // The same call of another plugin, and another call of the same, are others.
    assert!(!second.of("q", &context("run", "run/1")).ask("s", &GRANT, get("n")).await.unwrap().1);
    assert!(!second.of("p", &context("run", "run/3")).ask("s", &GRANT, get("n")).await.unwrap().1);
}

#[tokio::test]
async fn a_call_that_goes_another_way_than_before_is_answered_anew() {
    let stores = PluginStores::in_memory();
    let again = || stores.of("p", &context("run", "run/1"));
    let mut first = again();
    ask(&mut *first, set("a", "1")).await;
    ask(&mut *first, set("b", "1")).await;
    let mut second = again();
    assert_eq!(ask(&mut *second, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *second, set("c", "1")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *second, set("b", "1")).await, StoreAnswer::Stored(4));
    // The third attempt finds what the second did.
    let mut third = again();
    assert_eq!(ask(&mut *third, set("a", "1")).await, StoreAnswer::Stored(1));
    assert_eq!(ask(&mut *third, set("c", "1")).await, StoreAnswer::Stored(3));
    assert_eq!(ask(&mut *third, set("b", "1")).await, StoreAnswer::Stored(4));
    assert_eq!(ask(&mut *third, set("b", "1")).await, StoreAnswer::Stored(5));
}

#[tokio::test]
async fn a_refused_write_is_refused_again_and_what_came_after_it_is_not_repeated() {
    let stores = PluginStores::in_memory();
    let few = StoreGrant { entries: 1, ..GRANT };
    let attempt = async || {
        let mut call = stores.of("p", &context("run", "run/1"));
        call.ask("s", &few, set("a", "1")).await.unwrap();
        let refused = call.ask("s", &few, set("b", "1")).await.unwrap_err();
        (refused, call.ask("s", &few, set("a", "2")).await.unwrap())
    };
    let (refused, written) = attempt().await;
    assert_eq!(written, (StoreAnswer::Stored(2), false));
    assert_eq!(attempt().await, (refused, (StoreAnswer::Stored(2), true)));
}

#[tokio::test]
async fn what_is_recorded_of_a_call_and_of_a_plugin_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let stores = opened(&journal, folder.path());
    let large = "x".repeat(256 << 10);
    ask(&mut *stores.of("p", &CallContext::default()), set("a", &large)).await;
    let mut greedy = stores.of("p", &context("run", "greedy"));
    for _ in 0..=CALL_RECORD_BYTES >> 18 {
        ask(&mut *greedy, get("a")).await;
    }
    let refused = greedy.ask("s", &GRANT, set("b", "")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Quota(text) if text.contains("more than 4 MiB")), "{refused}");
    assert!(greedy.ask("s", &GRANT, get("a")).await.is_ok(), "it may still read");

    for call in 0..(PLUGIN_RECORD_BYTES >> 20) + 4 {
        let mut call = stores.of("p", &context("run", &call.to_string()));
        for _ in 0..4 {
            ask(&mut *call, get("a")).await;
        }
        ask(&mut *call, set("b", "")).await;
    }
    let connection = rusqlite::Connection::open(file_beside(&journal)).unwrap();
    let (calls, bytes): (i64, i64) = connection
        .query_row("SELECT count(*), sum(bytes) FROM calls", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert!(calls > 4 && bytes.cast_unsigned() <= PLUGIN_RECORD_BYTES, "{calls} {bytes}");
}

#[tokio::test]
async fn a_journal_on_a_server_has_no_stores_beside_it() {
    let place: JournalPlace = "postgres://db.example/opcell".parse().unwrap();
    let stores = PluginStores::beside(Some(&place), Path::new("/p"));
    let refused = stores.of("p", &CallContext::default()).ask("s", &GRANT, get("a")).await.unwrap_err();
    assert_eq!(refused, StoreError::Failed("this host keeps no stores: its journal is on a server".to_owned()));
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
