//! A journal that counts what is asked of it, and holds readers up when it is told to.

use async_trait::async_trait;
use opcell::{Host, Value, Workflow, document};
use opcell_engine::RunOptions;
use opcell_journal::{
    Append, ClockJump, Cut, Fence, InboxMessage, Journal, JournalError, LazyRecords, MemoryJournal, NewRun, OpenedRun,
    Record, Retention, RunEntry, RunId,
};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};

#[derive(Clone)]
pub struct Counting(Arc<Counts>);

struct Counts {
    journal: MemoryJournal,
    records: AtomicU64,
    touched: AtomicU64,
    reading: AtomicU64,
    most: AtomicU64,
    held: watch::Sender<bool>,
    blocked: Mutex<bool>,
    unblocked: Condvar,
}

impl Default for Counting {
    fn default() -> Self {
        Self(Arc::new(Counts {
            journal: MemoryJournal::keeping(1_000_000),
            records: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            reading: AtomicU64::new(0),
            most: AtomicU64::new(0),
            held: watch::Sender::new(false),
            blocked: Mutex::default(),
            unblocked: Condvar::new(),
        }))
    }
}

#[allow(dead_code, reason = "each test program uses a part of it")]
impl Counting {
    /// Records that were given to readers.
    pub fn records(&self) -> u64 {
        self.0.records.load(SeqCst)
    }

    /// Whatever was asked for but what workers ask for all the time.
    pub fn touched(&self) -> u64 {
        self.0.touched.load(SeqCst)
    }

    /// Readers at the same time, at the most.
    pub fn most_at_once(&self) -> u64 {
        self.0.most.load(SeqCst)
    }

    pub fn hold(&self) {
        self.0.most.store(0, SeqCst);
        self.0.held.send_replace(true);
    }

    pub fn release(&self) {
        self.0.held.send_replace(false);
    }

    /// Until what this returns is dropped, whoever reads keeps the thread busy on which it does.
    pub fn block(&self) -> Blocked {
        *self.0.blocked.lock().unwrap() = true;
        Blocked(self.clone())
    }

    fn touch(&self) -> &MemoryJournal {
        self.0.touched.fetch_add(1, SeqCst);
        &self.0.journal
    }
}

pub struct Blocked(Counting);

impl Drop for Blocked {
    fn drop(&mut self) {
        *self.0.0.blocked.lock().unwrap() = false;
        self.0.0.unblocked.notify_all();
    }
}

#[async_trait]
impl Journal for Counting {
    fn reads_payloads(&self) -> bool {
        false
    }
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        self.touch().create(new).await
    }
    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        self.touch().acquire(run, cut).await
    }
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.touch().release(run, fence).await
    }
    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.touch().append(append).await
    }
    async fn append_deferred(&self, append: Append, records: Arc<dyn LazyRecords>) -> Result<(), JournalError> {
        self.touch().append_deferred(append, records).await
    }
    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        let now = self.0.reading.fetch_add(1, SeqCst) + 1;
        self.0.most.fetch_max(now, SeqCst);
        let _ = self.0.held.subscribe().wait_for(|held| !held).await;
        drop(self.0.unblocked.wait_while(self.0.blocked.lock().unwrap(), |blocked| *blocked).unwrap());
        let read = self.touch().read(run, after, limit).await;
        self.0.records.fetch_add(read.as_ref().map_or(0, Vec::len) as u64, SeqCst);
        self.0.reading.fetch_sub(1, SeqCst);
        read
    }
    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.touch().runs().await
    }
    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.0.journal.runnable(now, limit).await
    }
    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.touch().retain(rule).await
    }
    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.touch().check_clock(now, trust).await
    }
    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.touch().delete(run).await
    }
    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.touch().post(run, at, payload).await
    }
    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.touch().inbox(run).await
    }
}

/// A workflow whose runs have as many events as wanted.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub fn workflow() -> Workflow {
    each("[]")
}

/// The same, each of whose elements returns something.
pub fn each(returned: &str) -> Workflow {
    let text = format!(
        "---\nname: each\ndescription: Many.\n---\n\n```workflow\ninputs: {{ items: {{ type: array }}, said: {{ type: array, default: [] }} }}\nsteps:\n  - {{ id: each, type: transform, operation: filter, where: $item.ok, each: $inputs.items, inputs: {{ items: {{ type: array, value: {returned} }} }}, outputs: {{ items: {{ type: array }} }} }}\n```\n"
    );
    Workflow::of(document::compile(Path::new("each.md"), text)).unwrap()
}

/// A run of a few hundred events that has ended.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub async fn ended(host: &Host, run: &str, elements: usize) {
    let items = Value::from_json(&json!({"items": vec![json!({"ok": true}); elements]}).to_string()).unwrap();
    let options = RunOptions { run: Some(run.parse().unwrap()), ..RunOptions::default() };
    host.start_with(&workflow(), items, options).await.unwrap().finished().await.unwrap();
}

/// The answer to a request; headers may be followed by a body after an empty line of theirs.
#[allow(dead_code, reason = "each test program uses a part of it")]
pub async fn request(address: &str, method: &str, path: &str, more: &str) -> String {
    let (headers, body) = more.split_once("\r\n\n").map_or((more, ""), |(headers, body)| (headers, body));
    let headers = headers.trim_end();
    let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
