//! The cost of durability: `cargo run --release -p opcell-benches --bin durable [-- DIRECTORY] [--only NAME,…]`.
//!
//! Steps per second of runs in an SQLite journal beside the bare store that appends the same records in the same
//! transactions with the same fsync policy; latency of short runs, beside what one wait for the disk takes; resuming
//! against the journal's length; memory of runs that wait. The stores are made in DIRECTORY, which should be on the
//! disk that is meant (the current directory unless given); they are removed again.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, ResumeOptions, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_ir::WorkflowIr;
use opcell_journal::{
    Append, ClockJump, Cut, Fence, InboxMessage, Journal, JournalError, NewRun, OpenedRun, Record, Retention, RunEntry,
    RunId, SqliteJournal,
};
use opcell_types::Value;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

const STEPS: usize = 2_000;
const PARALLEL: usize = 100;
const STEPS_OF_EACH: usize = 100;
const ROUNDS: usize = 5;

struct NoOp;

#[async_trait]
impl Operations for NoOp {
    fn effects(&self, operation: &str) -> Option<Effects> {
        // What a pure call asks for need not be on the disk before it is made; every other call waits for that.
        Some(if operation.starts_with("pure/") { Effects::Pure } else { Effects::Idempotent })
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let data = match call.id.as_ref() {
            "again" => Value::from("AGAIN"),
            _ => Value::Null,
        };
        Reply { result: Ok(Success { data, summary: None, details: None }), receipt: None }
    }
}

/// Remembers every transaction of a run.
struct Remembering {
    inner: SqliteJournal,
    appends: Mutex<Vec<Vec<Record>>>,
}

impl Remembering {
    fn remember(&self, records: &[Record]) {
        self.appends.lock().unwrap_or_else(PoisonError::into_inner).push(records.to_vec());
    }
}

#[async_trait]
impl Journal for Remembering {
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        self.remember(&new.records);
        self.inner.create(new).await
    }
    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        self.inner.acquire(run, cut).await
    }
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.inner.release(run, fence).await
    }
    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.remember(&append.records);
        self.inner.append(append).await
    }
    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.inner.read(run, after, limit).await
    }
    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.inner.runs().await
    }
    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.inner.runnable(now, limit).await
    }
    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.inner.retain(rule).await
    }
    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.inner.check_clock(now, trust).await
    }
    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.inner.delete(run).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.inner.post(run, at, payload).await
    }
    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.inner.inbox(run).await
    }
}

/// Stores one after the other, each in a folder of its own that goes with it.
struct Place {
    folder: tempfile::TempDir,
    made: std::cell::Cell<usize>,
}

impl Place {
    fn file(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.folder.path().join(format!("{}.db", self.made.get()))
    }

    fn journal(&self) -> Result<SqliteJournal> {
        Ok(SqliteJournal::open(self.file())?)
    }
}

fn engine(journal: impl Journal + 'static) -> Engine {
    Engine::builder().operations(Arc::new(NoOp)).journal(Arc::new(journal)).build()
}

fn program(steps: &str) -> Result<Arc<Program>> {
    let text = format!(
        r#"{{"version":"workflow-ir/v1","name":"chain","dialect":{{"lifecycle":"sequential"}},"steps":[{steps}]}}"#
    );
    Ok(Program::new(Arc::new(serde_json::from_str::<WorkflowIr>(&text)?))?)
}

fn chain(operation: &str, steps: usize) -> Result<Arc<Program>> {
    let step = |i| format!(r#"{{"name":"s{i}","type":"invoke","invoke":{{"operation":"{operation}"}}}}"#);
    let steps: Vec<String> = (0..steps).map(step).collect();
    program(&steps.join(","))
}

/// Goes back to its only step this many times, then waits.
fn loop_then_wait(times: u64) -> Result<Arc<Program>> {
    let text = format!(
        r#"{{"version":"workflow-ir/v1","name":"loop","steps":[
            {{"name":"a","type":"invoke","invoke":{{"operation":"no/op"}},"judge":{{"type":"invoke","invoke":{{"operation":"again"}}}},
              "max-visits":{times},"on-max-visits":"w","on":[{{"outcome":{{"text":"AGAIN"}},"goto":{{"step":"a"}}}}]}},
            {{"name":"w","type":"wait","wait":{{"signal":"go"}}}}]}}"#
    );
    Ok(Program::new(Arc::new(serde_json::from_str::<WorkflowIr>(&text)?))?)
}

async fn complete(engine: &Engine, program: &Arc<Program>) -> Result<()> {
    let handle = engine.start(program.clone(), Value::object::<&str>([]), RunOptions::default()).await?;
    let outcome = handle.finished().await?;
    anyhow::ensure!(outcome.status == Status::Completed, "{outcome:?}");
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The store alone: the same records, the same transactions, WAL and `synchronous = FULL`.
fn bare(path: &Path, transactions: &[Vec<Record>]) -> Result<Duration> {
    let mut store = rusqlite::Connection::open(path)?;
    store.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE records (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL, payload TEXT NOT NULL);",
    )?;
    let started = Instant::now();
    for records in transactions {
        let transaction = store.transaction()?;
        let mut insert =
            transaction.prepare_cached("INSERT INTO records (kind, version, at, payload) VALUES (?1, ?2, ?3, ?4)")?;
        for record in records {
            insert.execute(rusqlite::params![record.kind, record.version, record.at, &*record.payload])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    Ok(started.elapsed())
}

fn per_second(steps: usize, time: Duration) -> f64 {
    steps as f64 / time.as_secs_f64()
}

fn show_throughput(what: &str, steps: usize, durable: Duration, bare: Duration) {
    println!(
        "{what:<32} {:>9.0} steps/s   bare store {:>9.0} steps/s   bare / durable {:.2}",
        per_second(steps, durable),
        per_second(steps, bare),
        durable.as_secs_f64() / bare.as_secs_f64()
    );
}

async fn one_run(place: &Place, operation: &str) -> Result<()> {
    let program = chain(operation, STEPS)?;
    let (mut durable, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let journal = Arc::new(Remembering { inner: place.journal()?, appends: Mutex::default() });
        let engine = Engine::builder().operations(Arc::new(NoOp)).journal(journal.clone()).build();
        let started = Instant::now();
        complete(&engine, &program).await?;
        durable.push(started.elapsed());
        let transactions = std::mem::take(&mut *journal.appends.lock().unwrap_or_else(PoisonError::into_inner));
        alone.push(bare(&place.file(), &transactions)?);
    }
    show_throughput(&format!("one run of {operation}"), STEPS, median(durable), median(alone));
    Ok(())
}

/// The bare store is given what 100 runs append in turns, one transaction for each round of turns: the best that
/// sharing can do.
async fn parallel_runs(place: &Place, operation: &str) -> Result<()> {
    let program = chain(operation, STEPS_OF_EACH)?;
    let (mut durable, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let journal = Arc::new(Remembering { inner: place.journal()?, appends: Mutex::default() });
        let engine = Engine::builder().operations(Arc::new(NoOp)).journal(journal.clone()).build();
        let started = Instant::now();
        let runs: Vec<_> = (0..PARALLEL)
            .map(|_| {
                let (engine, program) = (engine.clone(), program.clone());
                tokio::spawn(async move { complete(&engine, &program).await })
            })
            .collect();
        for run in runs {
            run.await??;
        }
        durable.push(started.elapsed());
        let appends = std::mem::take(&mut *journal.appends.lock().unwrap_or_else(PoisonError::into_inner));
        let transactions: Vec<Vec<Record>> = appends.chunks(PARALLEL).map(|turns| turns.concat()).collect();
        alone.push(bare(&place.file(), &transactions)?);
    }
    show_throughput(
        &format!("100 runs of {operation} at once"),
        PARALLEL * STEPS_OF_EACH,
        median(durable),
        median(alone),
    );
    Ok(())
}

/// Waits as every transaction does, whoever keeps the store: for a page more in a log, on the disk.
fn wait_for_the_disk(place: &Place) -> Result<()> {
    let mut file = fs::File::create_new(place.file())?;
    let mut times = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        file.write_all(&[7; 4120])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    println!("a page appended and on the disk   median {:.3} ms", median(times).as_secs_f64() * 1e3);
    Ok(())
}

const LATENCIES: usize = 300;

async fn latency(place: &Place, steps: usize) -> Result<()> {
    let journal = Arc::new(Remembering { inner: place.journal()?, appends: Mutex::default() });
    let engine = Engine::builder().operations(Arc::new(NoOp)).journal(journal.clone()).build();
    let program = chain("no/op", steps)?;
    let mut times = Vec::new();
    for _ in 0..LATENCIES {
        let started = Instant::now();
        complete(&engine, &program).await?;
        times.push(started.elapsed());
    }
    let transactions = journal.appends.lock().unwrap_or_else(PoisonError::into_inner).len() / LATENCIES;
    println!(
        "a run of {steps} step(s), start to result   median {:.3} ms, {transactions} transactions",
        median(times).as_secs_f64() * 1e3
    );
    Ok(())
}

async fn resume(place: &Place, events: u64) -> Result<()> {
    // A visit is six events: entered, requested, replied, finished, judged and routed, and two of the judge's call.
    let program = loop_then_wait((events / 8).max(1))?;
    let path = place.file();
    let options = RunOptions {
        run: Some(opcell_types::NewRunId::derived("r")),
        detach: true,
        visit_bound: Some(u64::MAX),
        ..RunOptions::default()
    };
    let engine_a = engine(SqliteJournal::open(&path)?);
    engine_a.start(program, Value::object::<&str>([]), options).await?.finished().await?;
    let recorded = engine_a.runs().await?.first().map_or(0, |run| run.records);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let engine = engine(SqliteJournal::open(&path)?);
        let started = Instant::now();
        let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
        let outcome = engine.resume(&"r".into(), options).await?.finished().await?;
        times.push(started.elapsed());
        anyhow::ensure!(outcome.status == Status::Suspended, "{outcome:?}");
    }
    println!("resume behind {recorded:>7} events   median {:.3} ms", median(times).as_secs_f64() * 1e3);
    Ok(())
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

async fn suspended(place: &Place, runs: usize) -> Result<()> {
    let path = place.file();
    let engine = engine(SqliteJournal::open(&path)?);
    let program = loop_then_wait(1)?;
    let wait = async |engine: &Engine| -> Result<()> {
        let options = RunOptions { detach: true, ..RunOptions::default() };
        engine.start(program.clone(), Value::object::<&str>([]), options).await?.finished().await?;
        Ok(())
    };
    // What the first runs set up is there once, not once per run.
    for _ in 0..200 {
        wait(&engine).await?;
    }
    let before = resident_bytes();
    for _ in 0..runs {
        wait(&engine).await?;
    }
    let after = resident_bytes();
    anyhow::ensure!(engine.runnable(1).await?.is_empty(), "a run that waits could go on");
    let stored = fs::metadata(&path)?.len() / (runs as u64 + 200);
    println!(
        "{runs} suspended runs   {} bytes of memory and {stored} bytes of disk each",
        after.saturating_sub(before) / runs
    );
    Ok(())
}

/// The groups that can be measured by themselves.
const GROUPS: [&str; 5] = ["one", "parallel", "latency", "resume", "suspended"];

#[tokio::main]
async fn main() -> Result<()> {
    let (mut directory, mut only) = (PathBuf::from("."), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => only = Some(words.next().context("`--only` needs names")?),
            _ => directory = word.into(),
        }
    }
    let only: Option<Vec<&str>> = only.as_deref().map(|only| only.split(',').collect());
    if let Some(unknown) = only.iter().flatten().find(|name| !GROUPS.contains(name)) {
        anyhow::bail!("nothing is named `{unknown}`; there are {}", GROUPS.join(", "));
    }
    let measures = |group: &str| only.as_ref().is_none_or(|only| only.contains(&group));
    let folder = tempfile::TempDir::new_in(&directory).with_context(|| directory.display().to_string())?;
    let place = Place { folder, made: std::cell::Cell::new(0) };
    for operation in ["no/op", "pure/op"] {
        if measures("one") {
            one_run(&place, operation).await?;
        }
        if measures("parallel") {
            parallel_runs(&place, operation).await?;
        }
    }
    wait_for_the_disk(&place)?;
    for steps in [1, 5].into_iter().filter(|_| measures("latency")) {
        latency(&place, steps).await?;
    }
    for events in [10, 1_000, 100_000].into_iter().filter(|_| measures("resume")) {
        resume(&place, events).await?;
    }
    if measures("suspended") {
        suspended(&place, 2_000).await?;
    }
    Ok(())
}
