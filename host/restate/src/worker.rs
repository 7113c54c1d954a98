//! A worker that Restate gives turns.

use crate::{
    admin::Server,
    contact::Contact,
    object::OpcellRun,
    offers::Offers,
    serve::{self, Limits},
};
use opcell_engine::{
    Engine,
    worker::{Turns, WorkerEvent, WorkerOptions},
};
use restate_sdk::{
    endpoint::{Endpoint, ServiceOptions},
    service::IntoServiceDefinition as _,
};
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;
use url::Url;

/// The time for which a turn may be silent before the server asks for it back. It takes as long as the cell, model or
/// tool that it waits for; a worker that is gone is noticed by its connection.
const SILENCE: Duration = Duration::from_secs(3_600);

/// The time for which the server remembers the keys of calls, and their results.
const RETENTION: Duration = Duration::from_secs(300);

/// The addresses at which a Restate server and this worker find each other.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestateOptions {
    /// The server's admin API, such as `http://127.0.0.1:9070`.
    pub admin: Url,
    /// The URL at which the server takes calls; port 8080 of the same machine by default.
    pub ingress: Url,
    /// The address at which this worker listens for the server. Beyond loopback only with `identity_key`.
    pub listen: SocketAddr,
    /// The URL at which the server reaches the workers, a load balancer if there are several; the address where this
    /// one listens by default.
    pub advertise: Option<Url>,
    /// The public key that the server signs its requests with, `publickeyv1_…`; others are refused.
    pub identity_key: Option<String>,
    /// The options of driving runs.
    pub worker: WorkerOptions,
}

impl RestateOptions {
    /// A server on this machine and a worker beside it.
    #[must_use]
    pub fn new(admin: Url) -> Self {
        let mut ingress = admin.clone();
        // Only an address without a host takes no port, and no server is there.
        let _ = ingress.set_port(Some(8080));
        Self {
            admin,
            ingress,
            listen: SocketAddr::from(([127, 0, 0, 1], 9080)),
            advertise: None,
            identity_key: None,
            worker: WorkerOptions::default(),
        }
    }
}

/// Why a worker cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestateError {
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {error}; choose another address for the Restate server to reach")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why; part of the message, and therefore not a source that would be printed once more.
        error: std::io::Error,
    },
    /// Anybody could have runs driven.
    #[error(
        "{0} is reached from other machines, and nothing would tell a Restate server from anybody else; give the \
         server's public key with the identity key, or listen on 127.0.0.1"
    )]
    Unsigned(SocketAddr),
    /// The key is not one.
    #[error(
        "the identity key is not one of Restate: {0}; expected `publickeyv1_…`, as the server prints it at its start"
    )]
    Key(String),
    /// The HTTP client cannot be made, or an address is none.
    #[error("{0}")]
    Client(String),
}

/// A worker that listens.
pub struct RestateWorker {
    endpoint: Endpoint,
    listener: TcpListener,
    address: SocketAddr,
    advertise: Url,
    server: Server,
    engine: Engine,
    grace: Duration,
    events: mpsc::UnboundedReceiver<WorkerEvent>,
    report: mpsc::UnboundedSender<WorkerEvent>,
}

impl RestateWorker {
    /// Listens for the server.
    ///
    /// # Errors
    /// [`RestateError`].
    pub async fn listen<T: Turns>(turns: T, options: RestateOptions) -> Result<Self, RestateError> {
        let address = options.listen;
        if options.identity_key.is_none() && !address.ip().is_loopback() {
            return Err(RestateError::Unsigned(address));
        }
        let engine = turns.engine().clone();
        let (report, events) = mpsc::unbounded_channel();
        let runs = OpcellRun::new(turns, &options.worker, report.clone());
        let endpoint = endpoint(runs, options.identity_key.as_deref())?;
        let failed = |error| RestateError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let advertise = match options.advertise {
            Some(advertise) => advertise,
            None => {
                Url::parse(&format!("http://{address}")).map_err(|error| RestateError::Client(error.to_string()))?
            }
        };
        let server = Server::new(options.admin, options.ingress).map_err(RestateError::Client)?;
        let grace = options.worker.grace;
        Ok(Self { endpoint, listener, address, advertise, server, engine, grace, events, report })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes turns until `stop` is cancelled; then the engine shuts down, and every run is given back to the journal.
    ///
    /// # Errors
    /// Those of `report`.
    pub async fn run<E>(
        self,
        stop: CancellationToken,
        mut report: impl FnMut(WorkerEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { endpoint, listener, advertise, server, engine, grace, mut events, report: say, .. } = self;
        let say = move |event| drop(say.send(event));
        let serving = tokio::spawn(serve::serve(listener, endpoint, Limits::default(), stop.clone()));
        let offers = Offers::new(server, engine.clone(), advertise);
        let offering = tokio::spawn(offers.run(stop.clone(), Contact::new(say)));
        let mut result = Ok(());
        while result.is_ok() {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(event) = events.recv() => result = report(event),
            }
        }
        stop.cancel();
        engine.shutdown(grace).await;
        // Neither panics; what they hold is not needed any more.
        let _ = tokio::join!(serving, offering);
        while let (true, Ok(event)) = (result.is_ok(), events.try_recv()) {
            result = report(event);
        }
        result
    }
}

/// The endpoint of a worker's runs, for the server with this key only, if there is one.
pub(crate) fn endpoint(runs: OpcellRun, identity_key: Option<&str>) -> Result<Endpoint, RestateError> {
    let runs = runs.into_service_definition().options(
        ServiceOptions::new()
            .inactivity_timeout(SILENCE)
            .abort_timeout(SILENCE)
            .idempotency_retention(RETENTION)
            .journal_retention(RETENTION),
    );
    let endpoint = Endpoint::builder().bind(runs);
    let Some(key) = identity_key else { return Ok(endpoint.build()) };
    let endpoint = endpoint.identity_key(key).map_err(|error| RestateError::Key(error.to_string()))?;
    Ok(endpoint.build())
}
