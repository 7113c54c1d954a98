//! A journal from elsewhere never takes more memory than reading a run may: each way to read one, with the worst that a
//! small file can hold. One test, because memory is counted for the whole process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(unsafe_code, reason = "an allocator that counts")]

use opcell_engine::{Engine, Event, Program, RunOptions, Trace, large::ELIDED};
use opcell_journal::{Fence, Journal, NewRun, Payload, Record, RunId, SqliteJournal, StoredValue};
use opcell_types::Value;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Bytes that reading one run may take, whoever wrote it.
const MOST: usize = 700 << 20;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as for this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for this method.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fails where reading takes more than it may.
async fn within<T>(what: &str, read: impl Future<Output = T>) -> T {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let read = read.await;
    let took = PEAK.load(Relaxed) - before;
    assert!(took < MOST, "{what} took {} MiB", took >> 20);
    read
}

fn value(text: String) -> StoredValue {
    StoredValue { digest: blake3::hash(text.as_bytes()).to_hex().as_str().into(), text: text.into() }
}

fn name(of: &StoredValue) -> String {
    format!("{{\"$value\":\"{}\"}}", of.digest)
}

/// The first record of a run that waits, with another input, and the values that it names.
fn beginning(first: &Record, input: &str, values: Vec<StoredValue>) -> Record {
    let text = first.payload.replace(r#""input":{}"#, &format!(r#""input":{input}"#));
    assert_ne!(text, *first.payload, "the input is elsewhere: {text}");
    Record { payload: Payload::naming(text, values), ..first.clone() }
}

/// Values that name each other twice, 40 times: what they stand for has 2^40 parts.
fn laughing() -> (String, Vec<StoredValue>) {
    let mut all = vec![value(format!("[{}]", "1,".repeat(9_000) + "1"))];
    for at in 0..40 {
        all.push(value(format!("[{0},{0}]", name(&all[at]))));
    }
    (name(&all[40]), all)
}

/// Values of many small parts, which take 20 times their text in memory and 1/250 of it in the file.
fn unpacking() -> (String, Vec<StoredValue>) {
    let all: Vec<_> = (0..24).map(|at| value(format!("[{at},{}[]]", "[],".repeat(1 << 20)))).collect();
    (format!("[{}]", all.iter().map(name).collect::<Vec<_>>().join(",")), all)
}

/// One value that one event names very often.
fn naming_often() -> (String, Vec<StoredValue>) {
    let one = value(format!("[{}1]", "1,".repeat(1 << 20)));
    (format!("[{}]", vec![name(&one); 5_000].join(",")), vec![one])
}

/// Events of which packs hold 250 times what they take in the file.
fn packed(first: &Record) -> Vec<Record> {
    let data = format!("[{}[]]", "[],".repeat(80_000));
    let signal = |at: u64| {
        let text = format!(r#"{{"signal-received":{{"id":{at},"name":"go","data":{data},"by":null}}}}"#);
        Record { seq: at + 1, kind: "signal-received".into(), payload: text.into(), ..first.clone() }
    };
    std::iter::once(first.clone()).chain((1..120).map(signal)).collect()
}

async fn forge(journal: &SqliteJournal, run: &str, records: Vec<Record>) -> RunId {
    let run: RunId = run.into();
    let records = records.into_iter().map(|record| {
        let text = record.payload.replace(r#""run":"honest""#, &format!(r#""run":"{run}""#));
        let values = record.payload.values().to_vec();
        Record { payload: Payload::naming(text, values), ..record }
    });
    let new = NewRun { records: records.collect(), ..NewRun::empty(&run, "w", 0) };
    let fence: Fence = journal.create(new).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    run
}

#[tokio::test]
async fn a_run_from_elsewhere_is_read_in_bounded_memory_by_everyone() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
    let engine = Engine::builder().journal(Arc::new(journal.clone())).build();
    let ir = r#"{"version":"workflow-ir/v1","name":"w","steps":[{"name":"w","type":"wait","wait":{"signal":"go"}}]}"#;
    let program = Program::new(Arc::new(serde_json::from_str(ir).unwrap())).unwrap();
    let options = RunOptions { run: Some("honest".parse().unwrap()), detach: true, ..RunOptions::default() };
    let honest = engine.start(program, Value::object::<&str>([]), options).await.unwrap();
    honest.finished().await.unwrap();
    let first = journal.read(&"honest".into(), 0, 1).await.unwrap().remove(0);

    let mut forged = Vec::new();
    for (run, (input, values)) in [("laughing", laughing()), ("unpacking", unpacking()), ("often", naming_often())] {
        forged.push(forge(&journal, run, vec![beginning(&first, &input, values)]).await);
    }
    forged.push(forge(&journal, "packed", packed(&first)).await);
    drop((honest, first));

    for run in &forged {
        let shown = within(&format!("showing {run}"), engine.shown_history(run, None)).await;
        let json = within(&format!("printing {run}"), async {
            let trace = Trace::of(run, shown.as_ref().ok()?).unwrap();
            serde_json::to_string(&trace.within(64 << 20)).ok()
        })
        .await;
        assert!(json.as_ref().is_none_or(|json| json.contains(ELIDED)), "{run}");
        assert_eq!(json.is_none(), &**run == "packed", "{run}");
        drop((shown, json));
        within(&format!("exporting {run}"), async {
            let mut last = 0;
            loop {
                let page = engine.events_after(run, last, 1_000).await.unwrap();
                let Some(read) = page.last() else { break };
                last = read.seq;
                let bytes: usize = page.iter().map(|recorded| recorded.event.to_json().len()).max().unwrap();
                assert!(bytes < 100 << 20, "{run}: {bytes}");
            }
        })
        .await;
        let state = within(&format!("looking at {run}"), engine.shown_state(run, None)).await;
        assert_eq!(state.is_err(), &**run == "packed", "{run}");
        drop(state);
        // Each way is tried with one of them: reading any takes seconds in a build for tests.
        let decided = match &**run {
            "laughing" => within("deciding again", async { engine.replay(run).await.err() }).await,
            "unpacking" => {
                within("forking", async { engine.fork(run, 1, Some("fork".parse().unwrap())).await.err() }).await
            }
            _ => within("the history", async { engine.history(run).await.err() }).await,
        };
        let refused = decided.iter().map(|error| error.kind()).collect::<Vec<_>>();
        assert!(refused.iter().all(|kind| ["event-unreadable", "run-too-large"].contains(kind)), "{refused:?}");
        assert!(!refused.is_empty(), "{run}: nothing of it is left out where nothing may be missing");
    }
    let Event::RunStarted(started) = &engine.history(&"honest".into()).await.unwrap()[0].event else { unreachable!() };
    assert_eq!(started.run.as_ref(), "honest");
}
