//! Traces of runs that have ended, sent to a collector of OpenTelemetry: OTLP over HTTP as JSON, made from the events.
//!
//! Sending never holds a run up. While the collector is away, the runs that end wait for it, up to a limit; what ends
//! beyond that is left out and counted, and `opcell runs export --otlp` has it still.

use crate::{
    api::{pieces, pieces_with_content},
    tenant::Tenant,
};
use async_trait::async_trait;
use opcell::http::{FetchLimits, HttpClient, HttpRule, Method, OriginPattern};
use opcell_journal::RunId;
use opcell_types::{TouchLog, Value};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Runs that wait to be sent.
const WAITING: usize = 4_096;

/// The pause before a collector that is away is asked again; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The collector of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    url: Url,
    headers: Vec<(String, String)>,
    has_content: bool,
}

impl Collector {
    /// The collector at an address: `/v1/traces` below it, as `OTEL_EXPORTER_OTLP_ENDPOINT` is read. `headers`:
    /// `name=value`, separated by commas.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(endpoint: &str, headers: &str) -> Result<Self, String> {
        let mut url = Url::parse(endpoint).map_err(|error| format!("`{endpoint}` is not an address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{endpoint}` is not an address with http or https"));
        }
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let given = headers.split(',').filter(|header| !header.trim().is_empty());
        // What does not parse may be a secret, and is not shown.
        let headers = given.map(|header| pair(header).ok_or("a header of the collector is not `name=value`"));
        Ok(Self { url, headers: headers.collect::<Result<_, _>>()?, has_content: false })
    }

    /// The same, which is sent the content of conversations as well: prompts, messages, arguments and results of tools.
    #[must_use]
    pub fn with_content(self, has_content: bool) -> Self {
        Self { has_content, ..self }
    }
}

/// Takes runs that have ended.
#[derive(Clone)]
pub(crate) struct Exporter {
    runs: mpsc::Sender<RunId>,
    counts: Arc<Counts>,
}

/// Runs whose traces were sent, those that wait, and those that were left out.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sent: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// The reason why a trace was not taken.
#[derive(Debug)]
enum Unsent {
    /// The collector may take it later.
    Away(String),
    /// It never will.
    Refused(String),
}

/// Sends traces.
#[async_trait]
trait Courier: Send + Sync {
    /// Sends the trace of a run without its `sent` first pieces, and counts those that are taken.
    async fn send(&self, run: &RunId, sent: &mut usize) -> Result<(), Unsent>;
}

impl Exporter {
    /// An exporter and the work that it takes, which ends after what waited when `stop` was cancelled.
    pub(crate) fn new(
        tenant: &Arc<Tenant>,
        collector: Collector,
        stop: CancellationToken,
    ) -> Result<(Self, impl Future<Output = ()> + use<>), String> {
        let origin = collector.url.origin().ascii_serialization();
        let origin: OriginPattern = origin.parse().map_err(|error| format!("the collector's address: {error}"))?;
        let rules = vec![HttpRule { private: true, ..HttpRule::new(vec![origin], vec![Method::POST]) }];
        let (runs, waiting) = mpsc::channel(WAITING);
        let counts = Arc::new(Counts::default());
        let (tenant, counted) = (tenant.clone(), counts.clone());
        let work = async move {
            let client = HttpClient::new(FetchLimits::default());
            let name = tenant.name.to_string();
            forward(&name, waiting, &stop, &counted, &ToCollector { tenant, client, rules, collector }).await;
        };
        Ok((Self { runs, counts }, work))
    }

    /// Sends the trace of a run, when its turn comes.
    pub(crate) fn ended(&self, run: &RunId) {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.runs.try_send(run.clone()).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Sends the traces of runs in the order in which they ended. Ends after what waited when `stop` was cancelled, or, if
/// the collector is away then, at once.
async fn forward(
    tenant: &str,
    mut waiting: mpsc::Receiver<RunId>,
    stop: &CancellationToken,
    counts: &Counts,
    courier: &dyn Courier,
) {
    loop {
        let run = tokio::select! {
            biased;
            run = waiting.recv() => run,
            () = stop.cancelled() => waiting.try_recv().ok(),
        };
        let Some(run) = run else { return };
        let sent = until_taken(tenant, &run, stop, courier).await;
        counts.waiting.fetch_sub(1, Ordering::Relaxed);
        let Err(unsent) = sent else {
            counts.sent.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        counts.lost.fetch_add(1, Ordering::Relaxed);
        let (Unsent::Away(error) | Unsent::Refused(error)) = &unsent;
        tracing::warn!(tenant, %run, error, "a trace could not be sent");
        if matches!(unsent, Unsent::Away(_)) {
            let left = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
            counts.waiting.fetch_sub(left, Ordering::Relaxed);
            counts.lost.fetch_add(left, Ordering::Relaxed);
            return;
        }
    }
}

/// Sends the trace of a run, again and again while the collector is away, until `stop` is cancelled.
async fn until_taken(tenant: &str, run: &RunId, stop: &CancellationToken, courier: &dyn Courier) -> Result<(), Unsent> {
    let (mut pause, mut sent) = (FIRST_PAUSE, 0);
    loop {
        let error = match courier.send(run, &mut sent).await {
            Err(Unsent::Away(error)) if !stop.is_cancelled() => error,
            done => return done,
        };
        if pause == FIRST_PAUSE {
            tracing::warn!(tenant, error, "the collector of traces is away; what ends now waits for it");
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The collector, and how to reach it.
struct ToCollector {
    tenant: Arc<Tenant>,
    client: HttpClient,
    rules: Vec<HttpRule>,
    collector: Collector,
}

#[async_trait]
impl Courier for ToCollector {
    async fn send(&self, run: &RunId, sent: &mut usize) -> Result<(), Unsent> {
        let refused = |error: String| Unsent::Refused(error);
        let pieces = match self.collector.has_content {
            true => pieces_with_content(&self.tenant, run).await,
            false => pieces(&self.tenant, run, None).await,
        };
        let mut pieces = pieces.map_err(|problem| refused(problem.detail))?;
        let mut at = 0;
        while let Some(document) = pieces.next().await.map_err(|error| refused(error.to_string()))? {
            if at >= *sent {
                self.post(document).await?;
                *sent += 1;
            }
            at += 1;
        }
        Ok(())
    }
}

impl ToCollector {
    async fn post(&self, document: String) -> Result<(), Unsent> {
        let headers = self.collector.headers.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str())));
        let json = [("content-type", Value::from("application/json"))];
        let request = Value::object([
            ("method", Value::from("POST")),
            ("url", Value::from(self.collector.url.as_str())),
            ("headers", Value::object(headers.chain(json))),
            ("body", Value::from(document)),
        ]);
        let answer = self.client.fetch(&self.rules, &request, &TouchLog::default()).await;
        let status = answer.as_ref().ok().and_then(|answer| match answer.get("status") {
            Some(Value::Number(status)) => status.as_u64(),
            _ => None,
        });
        match (answer, status) {
            (_, Some(200..=299)) => Ok(()),
            // What the collector does not understand, it will not understand later.
            (_, Some(status @ (400..=407 | 409..=428 | 431..=499))) => {
                Err(Unsent::Refused(format!("the collector answered {status}")))
            }
            (Ok(_), status) => Err(Unsent::Away(format!("the collector answered {}", status.unwrap_or_default()))),
            (Err(error), _) => Err(Unsent::Away(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// A collector that is away until an instant.
    struct Away {
        until: Instant,
        attempts: AtomicU64,
        /// It does not understand runs of this name.
        refuses: &'static str,
    }

    impl Away {
        fn new(until: Instant) -> Arc<Self> {
            Arc::new(Self { until, attempts: AtomicU64::new(0), refuses: "odd" })
        }
    }

    #[async_trait]
    impl Courier for Away {
        async fn send(&self, run: &RunId, sent: &mut usize) -> Result<(), Unsent> {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            if Instant::now() < self.until {
                return Err(Unsent::Away("connection refused".to_owned()));
            }
            if **run == *self.refuses {
                return Err(Unsent::Refused("the collector answered 400".to_owned()));
            }
            *sent += 1;
            Ok(())
        }
    }

    fn exporter() -> (Exporter, mpsc::Receiver<RunId>) {
        let (runs, waiting) = mpsc::channel(WAITING);
        (Exporter { runs, counts: Arc::new(Counts::default()) }, waiting)
    }

    fn forwarding(
        exporter: &Exporter,
        waiting: mpsc::Receiver<RunId>,
        courier: &Arc<Away>,
        stop: &CancellationToken,
    ) -> tokio::task::JoinHandle<()> {
        let (counts, courier, stop) = (exporter.counts.clone(), courier.clone(), stop.clone());
        tokio::spawn(async move { forward("default", waiting, &stop, &counts, &*courier).await })
    }

    /// Sent, waiting, lost.
    fn counted(exporter: &Exporter) -> (u64, u64, u64) {
        let counts = exporter.counts();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&counts.sent), of(&counts.waiting), of(&counts.lost))
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_was_away_for_an_hour_gets_what_waited_and_the_rest_is_counted() {
        let began = Instant::now();
        let hour = Duration::from_secs(3_600);
        let ((exporter, waiting), courier, stop) = (exporter(), Away::new(began + hour), CancellationToken::new());
        let work = forwarding(&exporter, waiting, &courier, &stop);
        let limit = WAITING as u64;
        // One is being sent, and does not wait in the queue.
        exporter.ended(&"run".into());
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..limit + 100 {
            // Not even the clock moves: a run that ends waits for nothing.
            exporter.ended(&"run".into());
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert_eq!(counted(&exporter), (0, limit + 1, 100));
        tokio::time::sleep(hour / 2).await;
        assert_eq!(counted(&exporter), (0, limit + 1, 100));
        let attempts = courier.attempts.load(Ordering::Relaxed);
        assert!((50..100).contains(&attempts), "{attempts} attempts in half an hour");
        tokio::time::sleep(hour / 2 + LONGEST_PAUSE).await;
        assert_eq!(counted(&exporter), (limit + 1, 0, 100));
        // What it never takes holds nothing up.
        exporter.ended(&"odd".into());
        exporter.ended(&"run".into());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(counted(&exporter), (limit + 2, 0, 101));
        stop.cancel();
        work.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_does_not_wait_for_a_collector_that_is_away() {
        let began = Instant::now();
        let ((exporter, waiting), stop) = (exporter(), CancellationToken::new());
        let courier = Away::new(began + Duration::from_secs(3_600));
        let work = forwarding(&exporter, waiting, &courier, &stop);
        (0..10).for_each(|_| exporter.ended(&"run".into()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let stopped = Instant::now();
        stop.cancel();
        work.await.unwrap();
        assert_eq!((counted(&exporter), stopped.elapsed()), ((0, 0, 10), Duration::ZERO));
    }

    #[test]
    fn a_collector_is_named_as_opentelemetry_does() {
        let collector = Collector::new("http://localhost:4318", "authorization=Bearer x, b = c").unwrap();
        assert_eq!(collector.url.as_str(), "http://localhost:4318/v1/traces");
        assert_eq!(collector.headers[1], ("b".to_owned(), "c".to_owned()));
        assert_eq!(Collector::new("https://c.example/otlp/", "").unwrap().url.path(), "/otlp/v1/traces");
        for (endpoint, headers) in [("localhost:4318", ""), ("file:///x", ""), ("http://c", "secret")] {
            let error = Collector::new(endpoint, headers).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
