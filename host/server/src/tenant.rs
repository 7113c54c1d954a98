//! Tenants: each has its own host, that is its own plugins, grants, journal and workflows, and its own limits. Their
//! hosts may share pools of cells ([`opcell::SharedPools`]): code and address space are then there once.

use crate::{
    answers::Answers,
    feed::Feeds,
    metrics::{self, Meter, RunCounters},
    otlp::Exporter,
    problem::Problem,
    threads::{self, Threads},
    view::Views,
};
use axum::http::StatusCode;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use opcell::{
    Config, LiveHost, Rejected, Remedy,
    standing::{self, STUCK_SECONDS, Standing},
    triggers::Trigger,
};
use opcell_engine::{RunError, RunOutcome, State};
use opcell_journal::{RunEntry, RunId, RunQuery};
use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

/// The time for which a look at the folders of workflows counts.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

/// Requests of webhooks in a second, signed or not.
const WEBHOOKS: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// Refused tokens in a second that are logged.
const REFUSALS: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// Runs whose IDs begin with that of a run, itself among them, that are looked through for it at once.
const NAMESAKES: usize = 50;

/// The limits on the requests of one tenant.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TenantLimits {
    /// Requests a second; 50,000 by default.
    pub requests_per_second: u32,
    /// Runs that the server drives at a time because they were started by a request; 1,024 by default.
    pub started_runs: usize,
    /// Calls of operations at a time, waiting ones included; 1,024 by default.
    pub calls: usize,
    /// Readers of events at a time; 4,096 by default.
    pub readers: usize,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self { requests_per_second: 50_000, started_runs: 1024, calls: 1024, readers: 4096 }
    }
}

/// Documents of one tenant's requests that are compiled at a time: one of some megabytes takes a second.
const COMPILING: usize = 2;

/// The project of a tenant, as whoever runs the server reads it.
pub trait Project: Send + Sync {
    /// The project as it is now, read as at the start of the server. Asks no one anything; may block.
    ///
    /// # Errors
    /// When it cannot be used, or needs consent.
    fn read(&self) -> Result<Config, Rejected>;

    /// Writes what would lift a denial into the project file, which it returns: every run has it from then on. May
    /// block; no two at a time.
    ///
    /// # Errors
    /// When the file cannot be written, or what was denied needs more than a word.
    fn grant(&self, remedy: &Remedy) -> Result<PathBuf, Rejected>;
}

/// One tenant.
pub struct Tenant {
    pub(crate) name: Arc<str>,
    pub(crate) host: LiveHost,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) answers: Answers,
    pub(crate) views: Arc<Views>,
    pub(crate) project: Option<Arc<dyn Project>>,
    pub(crate) meter: Option<Meter>,
    pub(crate) exporter: OnceLock<Exporter>,
    pub(crate) counters: RunCounters,
    pub(crate) started: Arc<Semaphore>,
    pub(crate) calls: Semaphore,
    pub(crate) readers: Arc<Semaphore>,
    /// Documents of requests that are compiled at a time.
    pub(crate) compiling: Arc<Semaphore>,
    pub(crate) triggers: Vec<Trigger>,
    /// Held by whoever writes the project file.
    pub(crate) writing: AsyncMutex<()>,
    /// Counts what waits to be sent to its clients.
    pub(crate) unsent: Arc<Semaphore>,
    pub(crate) limits: TenantLimits,
    /// Its own, where there are other tenants.
    pub(crate) threads: OnceLock<Threads>,
    rate: DefaultDirectRateLimiter,
    unsigned_rate: DefaultDirectRateLimiter,
    looked: Mutex<Option<Instant>>,
}

impl Tenant {
    /// The name of the only tenant of a project that declares none.
    pub const DEFAULT: &str = "default";

    /// A run as lists have it.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) async fn entry(&self, run: &RunId) -> Result<Option<RunEntry>, RunError> {
        let mut before = None;
        loop {
            let query = RunQuery { before, prefix: Some(run.clone()), limit: NAMESAKES, ..RunQuery::default() };
            let namesakes = self.host.engine().runs_page(query).await?;
            before = namesakes.last().map(|last| last.run.clone()).filter(|_| namesakes.len() >= NAMESAKES);
            let found = namesakes.into_iter().find(|entry| entry.run == *run);
            if found.is_some() || before.is_none() {
                return Ok(found);
            }
        }
    }

    /// The standing of a run. `known`: its state, if it was read.
    ///
    /// # Errors
    /// When the run cannot be read.
    pub(crate) async fn standing(&self, entry: &RunEntry, known: Option<&State>) -> Result<Standing, RunError> {
        let host = self.host.now();
        let here = standing::loaded(&host).await;
        Standing::of_known(host.engine(), entry, known, Some(&here), STUCK_SECONDS).await
    }

    /// A tenant with its host, whose plugins may be exchanged while it serves.
    #[must_use]
    pub fn new(name: &str, host: impl Into<LiveHost>, limits: TenantLimits) -> Self {
        let host = host.into();
        let rate = NonZeroU32::new(limits.requests_per_second).unwrap_or(NonZeroU32::MIN);
        Self {
            name: name.into(),
            feeds: Feeds::new(host.engine().clone()),
            answers: Answers::default(),
            views: Views::new(host.engine().clone()),
            project: None,
            meter: None,
            exporter: OnceLock::new(),
            host,
            counters: RunCounters::default(),
            started: Arc::new(Semaphore::new(limits.started_runs)),
            calls: Semaphore::new(limits.calls),
            readers: Arc::new(Semaphore::new(limits.readers)),
            compiling: Arc::new(Semaphore::new(COMPILING)),
            triggers: Vec::new(),
            writing: AsyncMutex::default(),
            unsent: threads::unsent(),
            limits,
            threads: OnceLock::new(),
            rate: RateLimiter::direct(Quota::per_second(rate)),
            unsigned_rate: webhook_limiter(),
            looked: Mutex::new(None),
        }
    }

    /// The same, with what starts runs without a person.
    #[must_use]
    pub fn with_triggers(self, triggers: Vec<Trigger>) -> Self {
        Self { triggers, ..self }
    }

    /// The same, with the project that it is made of: what is compared and exchanged when someone asks for it.
    #[must_use]
    pub fn with_project(self, project: impl Project + 'static) -> Self {
        Self { project: Some(Arc::new(project)), ..self }
    }

    /// The same, with what counts its cells and the writes of its journal.
    #[must_use]
    pub fn with_meter(self, meter: Meter) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// A run has stopped here.
    pub(crate) fn stopped(&self, outcome: &RunOutcome) {
        self.counters.stopped(outcome);
        if let Some(meter) = self.meter.as_ref().filter(|_| outcome.status.has_ended()) {
            meter.run_ended(&outcome.workflow, metrics::age(outcome.began), outcome.reason.as_deref());
        }
        if outcome.status.has_ended()
            && let Some(exporter) = self.exporter.get()
        {
            exporter.ended(&outcome.run);
        }
    }

    /// Counts one request.
    ///
    /// # Errors
    /// When the tenant has sent too many.
    pub(crate) fn admit(&self) -> Result<(), Problem> {
        self.rate.check().map_err(|_| too_many())
    }

    /// Counts one request of a webhook, whose sender is not known yet: a flood of those uses nothing of what the tenant
    /// may send itself.
    ///
    /// # Errors
    /// When there were too many.
    pub(crate) fn admit_unsigned(&self) -> Result<(), Problem> {
        self.unsigned_rate.check().map_err(|_| too_many())
    }

    /// Reads the workflows that have changed, unless that was done a moment ago.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.is_some_and(|looked| looked.elapsed() < REFRESH_INTERVAL) {
                return;
            }
            *looked = Some(Instant::now());
        }
        let tenant = self.clone();
        if tokio::task::spawn_blocking(move || tenant.host.now().library().refresh()).await.is_err() {
            tracing::warn!("the workflows of a tenant could not be read");
        }
    }
}

/// Counts requests of webhooks: of one tenant, or of all that do not exist, so that those look like one that does.
pub(crate) fn webhook_limiter() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(WEBHOOKS))
}

/// Counts refused tokens: a few in a second are worth a line in the log.
pub(crate) fn refusal_limiter() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(REFUSALS))
}

pub(crate) fn too_many() -> Problem {
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate-limited", "too many requests in a second");
    Problem { retry_after: Some(1), ..problem }.remedy("send fewer requests a second, or ask for a higher limit")
}

/// The tenants of a server, by name.
#[derive(Clone, Default)]
pub struct Tenants(Arc<BTreeMap<Arc<str>, Arc<Tenant>>>);

impl Tenants {
    /// All of them; of two with one name, the later one.
    #[must_use]
    pub fn new(tenants: impl IntoIterator<Item = Tenant>) -> Self {
        Self(Arc::new(tenants.into_iter().map(|tenant| (tenant.name.clone(), Arc::new(tenant))).collect()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.0.values()
    }
}
