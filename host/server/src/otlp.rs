//! Traces of runs that have ended, sent to a collector of OpenTelemetry: OTLP over HTTP as JSON, made from the events.
//!
//! Sending never holds a run up: what ends while too much waits is left out and counted, and `opcell runs export
//! --otlp` has it still.

use crate::{api::pieces, tenant::Tenant};
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

/// Pauses before a collector that does not take a trace is asked again.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

/// The collector of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    url: Url,
    headers: Vec<(String, String)>,
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
        Ok(Self { url, headers: headers.collect::<Result<_, _>>()? })
    }
}

/// Takes runs that have ended.
#[derive(Clone)]
pub(crate) struct Exporter {
    runs: mpsc::Sender<RunId>,
    counts: Arc<Counts>,
}

/// Runs whose traces were sent, and those that were left out.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sent: AtomicU64,
    pub(crate) lost: AtomicU64,
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
        let (runs, mut waiting) = mpsc::channel::<RunId>(WAITING);
        let counts = Arc::new(Counts::default());
        let (tenant, counted) = (tenant.clone(), counts.clone());
        let work = async move {
            let client = HttpClient::new(FetchLimits::default());
            loop {
                let run = tokio::select! {
                    biased;
                    run = waiting.recv() => run,
                    () = stop.cancelled() => waiting.try_recv().ok(),
                };
                let Some(run) = run else { return };
                match send(&tenant, &run, &client, &rules, &collector).await {
                    Ok(()) => counted.sent.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        tracing::warn!(tenant = %tenant.name, %run, error, "a trace could not be sent");
                        counted.lost.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
        };
        Ok((Self { runs, counts }, work))
    }

    /// Sends the trace of a run, when its turn comes.
    pub(crate) fn ended(&self, run: &RunId) {
        if self.runs.try_send(run.clone()).is_err() {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Sends the trace of a run, a piece of it in each request.
async fn send(
    tenant: &Arc<Tenant>,
    run: &RunId,
    client: &HttpClient,
    rules: &[HttpRule],
    collector: &Collector,
) -> Result<(), String> {
    let mut pieces = pieces(tenant, run, None).await.map_err(|problem| problem.detail)?;
    while let Some(document) = pieces.next().await.map_err(|error| error.to_string())? {
        let headers = collector.headers.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str())));
        let json = [("content-type", Value::from("application/json"))];
        let request = Value::object([
            ("method", Value::from("POST")),
            ("url", Value::from(collector.url.as_str())),
            ("headers", Value::object(headers.chain(json))),
            ("body", Value::from(document)),
        ]);
        let mut pauses = PAUSES.iter();
        loop {
            let answer = client.fetch(rules, &request, &TouchLog::default()).await;
            let status = answer.as_ref().ok().and_then(|answer| match answer.get("status") {
                Some(Value::Number(status)) => status.as_u64(),
                _ => None,
            });
            let why = match (answer, status) {
                (_, Some(200..=299)) => break,
                // What the collector does not understand, it will not understand later.
                (_, Some(status @ (400..=407 | 409..=428 | 431..=499))) => {
                    return Err(format!("the collector answered {status}"));
                }
                (Ok(_), status) => format!("the collector answered {}", status.unwrap_or_default()),
                (Err(error), _) => error.to_string(),
            };
            match pauses.next() {
                Some(pause) => tokio::time::sleep(*pause).await,
                None => return Err(why),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Collector;

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
