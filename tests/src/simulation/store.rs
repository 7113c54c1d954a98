//! The store, and what lies between it and each process.
//!
//! The store itself keeps the contract of [`Journal`]: fences, leases by its own clock, all or nothing. Requests to it
//! and answers from it may come late, get lost or come twice; a reading without ownership may show an earlier state.

use super::chance::Chance;
use async_trait::async_trait;
use opcell_journal::{
    Append, ClockJump, Cut, Fence, InboxMessage, Journal, JournalError, MemoryJournal, NewRun, OpenedRun, Ownership,
    Record, Retention, RunEntry, RunId,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// The time for which a silent process keeps its runs.
const LEASE: Duration = Duration::from_secs(10);

/// The store's time at the beginning, in microseconds since 1970.
const EPOCH: i64 = 1_700_000_000_000_000;

fn lost() -> JournalError {
    JournalError::Storage(Arc::new(std::io::Error::other("the network lost it")))
}

/// The store that processes share.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Mutex<Inner>>,
    began: Instant,
}

struct Inner {
    /// Records, states and inboxes; owners are ours, because theirs never run out.
    runs: MemoryJournal,
    owners: HashMap<RunId, Owned>,
    /// Acknowledged records of each run, as lengths.
    acknowledged: HashMap<RunId, u64>,
    broken: Vec<String>,
    /// Planted: it forgets some of what it acknowledges.
    forgets: bool,
}

#[derive(Clone)]
struct Owned {
    fence: Fence,
    by: Option<Arc<Lease>>,
}

/// The lease of one process, as the store sees it.
#[derive(Debug)]
struct Lease {
    name: String,
    until: Mutex<Instant>,
}

impl Lease {
    fn is_alive(&self) -> bool {
        Instant::now() < *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    pub fn new(forgets: bool) -> Self {
        let inner = Inner {
            runs: MemoryJournal::keeping(u64::MAX),
            owners: HashMap::new(),
            acknowledged: HashMap::new(),
            broken: Vec::new(),
            forgets,
        };
        Self { inner: Arc::new(Mutex::new(inner)), began: Instant::now() }
    }

    /// Returns the records that were acknowledged and are not there.
    pub fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// A process's connection.
    pub fn process(&self, name: &str, chance: Chance, faults: bool) -> Process {
        let process = Process {
            store: self.clone(),
            name: name.to_owned(),
            chance: Arc::new(Mutex::new(chance)),
            faults,
            life: watch::Sender::new(Life::Runs),
            lease: Arc::new(Mutex::new(new_lease(name))),
        };
        let beating = process.clone();
        tokio::spawn(async move { beating.beat().await });
        process
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        EPOCH + i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

fn new_lease(name: &str) -> (Arc<Lease>, Ownership) {
    let lease = Lease { name: name.to_owned(), until: Mutex::new(Instant::now() + LEASE) };
    // Simulated time decides; the process's own clock is not.
    let far = std::time::Instant::now() + Duration::from_secs(1 << 30);
    (Arc::new(lease), Ownership::leased(far))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Paused,
    Gone,
}

/// One process, and its way to the store.
#[derive(Clone)]
pub struct Process {
    store: Store,
    name: String,
    chance: Arc<Mutex<Chance>>,
    faults: bool,
    life: watch::Sender<Life>,
    lease: Arc<Mutex<(Arc<Lease>, Ownership)>>,
}

impl Process {
    /// Nothing of it happens any more.
    pub fn kill(&self) {
        self.life.send_replace(Life::Gone);
    }

    pub fn pause(&self, paused: bool) {
        self.life.send_if_modified(|life| {
            let may = *life != Life::Gone;
            if may {
                *life = if paused { Life::Paused } else { Life::Runs };
            }
            may
        });
    }

    pub fn is_gone(&self) -> bool {
        *self.life.borrow() == Life::Gone
    }

    /// The gate at which a process stops when it is stopped, and stays when it is dead.
    pub async fn gate(&self) {
        let mut life = self.life.subscribe();
        let _ = life.wait_for(|life| *life == Life::Runs).await;
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.chance.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns `true` if something goes wrong this time.
    fn wrong(&self, once_in: u64) -> bool {
        self.faults && self.chance(|chance| chance.once_in(once_in))
    }

    fn lease(&self) -> (Arc<Lease>, Ownership) {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A request on its way.
    async fn travel(&self) {
        self.gate().await;
        if self.faults {
            let time = self.chance(|chance| if chance.once_in(20) { chance.time(900) } else { chance.time(8) });
            sleep(time).await;
        }
    }

    /// An answer on its way.
    async fn arrive(&self) {
        self.travel().await;
        self.gate().await;
    }

    /// A request and its answer. What is done may be done although the answer is lost.
    async fn ask<T>(&self, work: impl AsyncFnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
        self.travel().await;
        if self.wrong(150) {
            return Err(lost());
        }
        let done = work().await;
        self.arrive().await;
        if self.wrong(150) { Err(lost()) } else { done }
    }

    /// Signs of life, until the process is gone.
    async fn beat(&self) {
        while !self.is_gone() {
            sleep(LEASE / 3).await;
            self.travel().await;
            if self.wrong(30) {
                continue;
            }
            let (lease, ownership) = self.lease();
            if lease.is_alive() {
                *lease.until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + LEASE;
                continue;
            }
            ownership.lose();
            *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = new_lease(&self.name);
        }
    }

    /// Checks whether a run is this process's under a fence, and its lease has not run out.
    fn owns(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        let inner = self.store.lock();
        let owned = inner.owners.get(run).ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
        if owned.fence != fence {
            return Err(JournalError::Fenced { run: run.clone(), held: fence, newest: owned.fence });
        }
        match &owned.by {
            Some(lease) if lease.is_alive() => Ok(()),
            _ => Err(JournalError::LeaseLost { run: run.clone() }),
        }
    }

    fn runs(&self) -> MemoryJournal {
        self.store.lock().runs.clone()
    }

    /// Gives up what may have been taken although no one knows.
    fn give_back_later(&self, run: &RunId, fence: Fence) {
        let (process, run) = (self.clone(), run.clone());
        tokio::spawn(async move {
            process.travel().await;
            process.give_back(&run, fence);
        });
    }

    fn give_back(&self, run: &RunId, fence: Fence) {
        if let Some(owned) = self.store.lock().owners.get_mut(run)
            && owned.fence == fence
        {
            owned.by = None;
        }
    }

    fn acknowledge(&self, run: &RunId, last: Option<u64>) {
        if let Some(last) = last {
            let mut inner = self.store.lock();
            let before = inner.acknowledged.entry(run.clone()).or_default();
            *before = last.max(*before);
        }
    }
}

#[async_trait]
impl Journal for Process {
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        let (lease, _) = self.lease();
        let (run, ended) = (new.run.clone(), new.state.ended);
        let last = new.records.last().map(|last| last.seq);
        let made = self
            .ask(async || {
                self.runs().create(new).await?;
                let by = (!ended).then_some(lease);
                self.store.lock().owners.insert(run.clone(), Owned { fence: Fence(1), by });
                Ok(Fence(1))
            })
            .await;
        match &made {
            Ok(_) => self.acknowledge(&run, last),
            Err(_) => self.give_back_later(&run, Fence(1)),
        }
        made
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        let mut taken = None;
        let opened = self
            .ask(async || {
                let (lease, _) = self.lease();
                let fence = {
                    let mut inner = self.store.lock();
                    let owned = inner.owners.get_mut(run).ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
                    if let Some(by) = owned.by.as_ref().filter(|by| by.is_alive()) {
                        return Err(JournalError::Held { run: run.clone(), owner: by.name.clone() });
                    }
                    *owned = Owned { fence: Fence(owned.fence.0 + 1), by: Some(lease) };
                    owned.fence
                };
                taken = Some(fence);
                let runs = self.runs();
                // Its own fences follow ours.
                let inner_fence = Fence(fence.0 - 1);
                runs.release(run, inner_fence).await?;
                let opened = runs.acquire(run, cut).await?;
                let acknowledged = self.store.lock().acknowledged.get(run).copied().unwrap_or(0);
                let there =
                    opened.records.last().map(|last| last.seq).or(opened.snapshot.as_ref().map(|last| last.seq));
                if there.unwrap_or(0) < acknowledged {
                    let text = format!("{run}: {acknowledged} records were acknowledged, and {there:?} are there");
                    self.store.lock().broken.push(text);
                }
                Ok(OpenedRun { fence, ..opened })
            })
            .await;
        if let (Err(_), Some(fence)) = (&opened, taken) {
            self.give_back_later(run, fence);
        }
        opened
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.travel().await;
        self.give_back(run, fence);
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        let (run, fence) = (append.run.clone(), append.fence);
        let last = append.records.last().map(|last| last.seq);
        let ended = append.state.as_ref().is_some_and(|state| state.ended);
        let copy = append.clone();
        let mut done = false;
        let written = self
            .ask(async || {
                self.owns(&run, fence)?;
                if self.store.lock().forgets && self.wrong(20) {
                    return Ok(());
                }
                self.runs().append(append).await?;
                done = true;
                if ended && let Some(owned) = self.store.lock().owners.get_mut(&run) {
                    owned.by = None;
                }
                Ok(())
            })
            .await;
        // A request that comes twice must not count twice.
        if !copy.records.is_empty()
            && self.wrong(50)
            && self.owns(&run, fence).is_ok()
            && self.runs().append(copy).await.is_ok()
            && done
        {
            self.store.lock().broken.push(format!("{run}: the same append was taken twice"));
        }
        if written.is_ok() {
            self.acknowledge(&run, last);
        }
        written
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.ask(async || {
            let mut records = self.runs().read(run, after, limit).await?;
            // A replica may be behind.
            if self.wrong(10) {
                records.pop();
            }
            Ok(records)
        })
        .await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.ask(async || self.runs().runs().await).await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.ask(async || {
            let mut found = Vec::new();
            for run in self.runs().runs().await? {
                let held = self
                    .store
                    .lock()
                    .owners
                    .get(&run.run)
                    .is_some_and(|owned| owned.by.as_ref().is_some_and(|by| by.is_alive()));
                // A stale list offers what another process holds.
                let free = !held || self.wrong(10);
                let due = run.state.due.is_some_and(|due| due <= now);
                if free && !run.state.ended && (due || !self.runs().inbox(&run.run).await?.is_empty()) {
                    found.push(run.run);
                }
            }
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            Ok(found)
        })
        .await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.runs().retain(rule).await
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.runs().check_clock(now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.runs().delete(run).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.ask(async || self.runs().post(run, at, payload).await).await
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.ask(async || self.runs().inbox(run).await).await
    }

    fn now(&self) -> Option<i64> {
        Some(self.store.now())
    }

    fn ownership(&self) -> Ownership {
        self.lease().1
    }
}
