//! Listening: addresses, TLS, limits of connections, and an orderly end.

use crate::{
    access::Access,
    api::{self, App, Draw},
    otlp::{Collector, Exporter},
    peer::Peer,
    schedule,
    stall::{StallAcceptor, WRITE_TIME, most_connections},
    tenant::{Tenant, Tenants},
    threads::{self, Threads},
};
use axum_server::{
    Handle,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use opcell::RunText;
use opcell_engine::{
    Engine, ResumeOptions, RunError, RunOutcome,
    worker::{Turns, Worker, WorkerEvent, WorkerOptions},
};
use opcell_journal::RunId;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The time that a client may take to send the head of a request, the first one included: a connection over which
/// nothing comes is one that others cannot have.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);

/// Headers of one request, and bytes of its head.
const MAX_HEADERS: usize = 64;
const MAX_HEAD: usize = 32 << 10;
const MAX_HEADER_LIST: u32 = 32 << 10;

/// Requests at a time over one connection of HTTP/2.
const STREAMS: u32 = 64;

/// The interval at which the files of TLS are polled.
const TLS_POLL: Duration = Duration::from_secs(2);

/// The settings of a server: its address, and its driving of runs.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The address to listen at.
    pub address: SocketAddr,
    /// Certificate and key; required beyond loopback.
    pub tls: Option<Tls>,
    /// The access to the server; tokens are required beyond loopback.
    pub access: Access,
    /// The options of driving the runs of each tenant.
    pub worker: WorkerOptions,
    /// Draws graphs; without it there are none.
    pub draw: Option<Draw>,
    /// Workflows that are tools for MCP clients, beside the operations.
    pub mcp_workflows: Vec<String>,
    /// The part that each tenant's MCP endpoint offers of the tools of the tenant's own MCP servers; absent: nothing.
    pub mcp_gateway: Option<crate::mcp::Gateway>,
    /// The collector of the traces of ended runs.
    pub collector: Option<Collector>,
}

impl Settings {
    /// A server for this machine.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            access: Access::default(),
            worker: WorkerOptions::default(),
            draw: None,
            mcp_workflows: Vec::new(),
            mcp_gateway: None,
            collector: None,
        }
    }

    /// Returns the settings that are missing to listen at this address; empty on loopback.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        if self.address.ip().is_loopback() {
            return Vec::new();
        }
        let tls = self.tls.is_none().then_some("TLS (`--tls-cert FILE --tls-key FILE`)");
        let tokens = (!self.access.requires_token()).then_some("tokens (make one with `opcell token new`)");
        tls.into_iter().chain(tokens).collect()
    }
}

/// Files of a certificate chain and its private key, PEM. Read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is reached by others, and something that protects it is missing.
    #[error("{address} can be reached from other machines, which requires {}", missing.join(" and "))]
    Unprotected {
        /// The address.
        address: SocketAddr,
        /// The missing settings.
        missing: Vec<&'static str>,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The files of TLS cannot be used.
    #[error("cannot use the certificate {} with the key {}: {source}", tls.certificate.display(), tls.key.display())]
    Tls {
        /// The files.
        tls: Tls,
        /// Why.
        source: io::Error,
    },
    /// A tenant's journal does not answer.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Serving failed.
    #[error("the server failed: {0}")]
    Io(#[from] io::Error),
}

/// Logs what a worker reports. Another worker that has taken a run over is no mistake.
fn logged(tenant: &str, event: WorkerEvent) {
    match event {
        WorkerEvent::Refused { run, why } => tracing::warn!(tenant, %run, why, "a run cannot continue here"),
        WorkerEvent::LeaseLost { run } => tracing::info!(tenant, %run, "another worker drives the run from now on"),
        WorkerEvent::Unreachable { why } => tracing::warn!(tenant, why, "the journal does not answer; trying again"),
        WorkerEvent::Reachable => tracing::warn!(tenant, "the journal answers again"),
        _ => {}
    }
}

/// A server that listens, and has not answered yet.
pub struct Serving {
    listener: TcpListener,
    tls: Option<(Tls, RustlsConfig)>,
    settings: Settings,
    tenants: Tenants,
}

impl Serving {
    /// Listens.
    ///
    /// # Errors
    /// [`ServeError::Unprotected`] beyond loopback without TLS and tokens; when the address or the files cannot be
    /// used.
    pub async fn bind(settings: Settings, tenants: Tenants) -> Result<Self, ServeError> {
        let address = settings.address;
        let missing = settings.missing();
        if !missing.is_empty() {
            return Err(ServeError::Unprotected { address, missing });
        }
        let tls = match &settings.tls {
            Some(tls) => {
                // Only the first one counts, and any is as good.
                let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
                let config = RustlsConfig::from_pem_file(&tls.certificate, &tls.key).await.map_err(unusable);
                Some((tls.clone(), config.map_err(|source| ServeError::Tls { tls: tls.clone(), source })?))
            }
            None => None,
        };
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { listener, tls, settings, tenants })
    }

    /// Returns the URL at which it listens: the port is known even if any was asked for.
    ///
    /// # Errors
    /// The system's.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listener.local_addr()?))
    }

    /// Answers requests and drives runs until `stop` is cancelled. Then no request and no run begins, what is under way
    /// may end within the worker's grace, and every run is given back to its journal.
    ///
    /// # Errors
    /// When a journal does not answer at the start, or the system refuses connections.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ServeError> {
        let Self { listener, tls, mut settings, tenants } = self;
        settings.address = listener.local_addr()?;
        let grace = settings.worker.grace;
        Threads::start(&tenants)?;
        let app = Arc::new(App::new(&settings, tenants.clone(), stop.clone())?);
        let router = api::router(app);
        let handle: Handle<SocketAddr> = Handle::new();
        let mut workers: JoinSet<Result<(), RunError>> = JoinSet::new();
        // What waits is sent within the grace, after the last run has been given back.
        let (mut exports, driven_all) = (JoinSet::new(), CancellationToken::new());
        if let Some(collector) = &settings.collector {
            for tenant in tenants.iter() {
                let (exporter, work) =
                    Exporter::new(tenant, collector.clone(), driven_all.clone()).map_err(io::Error::other)?;
                let _ = tenant.exporter.set(exporter);
                exports.spawn_on(work, &threads::of(tenant));
            }
        }
        for tenant in tenants.iter().cloned() {
            let threads = threads::of(&tenant);
            workers.spawn_on(schedule::run(tenant.clone(), stop.clone()), &threads);
            let worker = Worker::new(TenantTurns(tenant.clone()), settings.worker.clone());
            let stop = stop.clone();
            let driving = async move {
                let report = |event: WorkerEvent| {
                    match event {
                        WorkerEvent::Turn(outcome) => tenant.stopped(&outcome),
                        event => logged(&tenant.name, event),
                    }
                    Ok::<(), RunError>(())
                };
                worker.run(stop, report).await.map(drop)
            };
            workers.spawn_on(driving, &threads);
        }
        let ending = async {
            let mut first = Ok(());
            while let Some(ended) = workers.join_next().await {
                if let Ok(Err(error)) = ended {
                    stop.cancel();
                    first = first.and(Err(error));
                }
            }
            driven_all.cancel();
            let _ = tokio::time::timeout(grace, exports.join_all()).await;
            handle.graceful_shutdown(Some(grace));
            first
        };
        let stalls = StallAcceptor::new(WRITE_TIME, most_connections());
        let serving = async {
            match tls {
                Some((files, config)) => {
                    let reloading = reload(files, config.clone());
                    let acceptor = RustlsAcceptor::new(config).acceptor(stalls);
                    let server = axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle.clone());
                    let mut server = server.first_request_timeout(HEAD_TIME);
                    limit(server.http_builder());
                    tokio::select! {
                        served = server.serve(router.into_make_service_with_connect_info::<Peer>()) => served,
                        () = reloading => Ok(()),
                    }
                }
                None => {
                    let server = axum_server::from_tcp(listener)?.acceptor(stalls).handle(handle.clone());
                    let mut server = server.first_request_timeout(HEAD_TIME);
                    limit(server.http_builder());
                    server.serve(router.into_make_service_with_connect_info::<Peer>()).await
                }
            }
        };
        let (served, driven) = tokio::join!(serving, ending);
        driven?;
        Ok(served?)
    }
}

pub(crate) fn limit(builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>) {
    builder
        .http1()
        .timer(hyper_util::rt::TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(HEAD_TIME)
        .keep_alive_timeout(HEAD_TIME)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(MAX_HEADER_LIST);
}

/// The moment at which a certificate expires; nothing where that cannot be read.
async fn expiry(file: &Path) -> Option<jiff::Timestamp> {
    crate::certificate::valid_until(&tokio::fs::read_to_string(file).await.ok()?)
}

/// The reason for which the files cannot be used, in terms of the files: the library speaks of a handshake.
fn unusable(error: io::Error) -> io::Error {
    let library = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    io::Error::other(match library {
        Some(rustls::Error::NoCertificatesPresented) => "the certificate file holds no certificate",
        Some(rustls::Error::InvalidCertificate(_)) => "the certificate is not an X.509 certificate of version 3",
        Some(rustls::Error::InconsistentKeys(_)) => "the key is another certificate's",
        _ => return error,
    })
}

/// Reads the certificate and its key again when one of the files has changed. A pair that cannot be used changes
/// nothing, is told once, and is tried again: it may be half written. Warns once of a certificate that has expired.
async fn reload(files: Tls, config: RustlsConfig) {
    let stamp = |path: &Path| -> Option<SystemTime> { std::fs::metadata(path).ok()?.modified().ok() };
    let stamps = || (stamp(&files.certificate), stamp(&files.key));
    let mut known = stamps();
    let mut refused = None;
    // Nothing after the warning.
    let mut end = Some(expiry(&files.certificate).await);
    loop {
        if let Some(Some(passed)) = end
            && passed < jiff::Timestamp::now()
        {
            let file = files.certificate.display();
            tracing::warn!(%file, expired = %passed, "the certificate has expired: clients refuse it; put a new one in its place");
            end = None;
        }
        tokio::time::sleep(TLS_POLL).await;
        let now = stamps();
        if now == known {
            continue;
        }
        match config.reload_from_pem_file(&files.certificate, &files.key).await {
            Ok(()) => {
                tracing::info!("the certificate was read again");
                known = now;
                end = Some(expiry(&files.certificate).await);
            }
            Err(error) if refused != Some(now) => {
                tracing::warn!(error = %unusable(error), "the new certificate cannot be used; the old one stays");
                refused = Some(now);
            }
            Err(_) => {}
        }
    }
}

/// Gives a tenant's runs their turns, and tells whoever follows them what their models say.
#[derive(Clone)]
struct TenantTurns(Arc<Tenant>);

impl Turns for TenantTurns {
    fn engine(&self) -> &Engine {
        self.0.host.engine()
    }

    async fn turn(&self, run: &RunId, options: ResumeOptions) -> Result<RunOutcome, RunError> {
        let sink = Some(self.0.answers.of(run) as Arc<dyn RunText>);
        self.0.host.turn(run, ResumeOptions { sink, ..options }).await
    }
}
