//! Health, readiness and metrics of a process that drives runs and serves no API: what a supervisor and a monitoring
//! system ask.
//!
//! No content and no token: `/health` and `/ready` say whether the process works, `/metrics` counts.

use crate::{
    api::{self, App},
    metrics::Meter,
    serve::{HEAD_TIME, ServeError, Settings, limit},
    stall::{StallAcceptor, WRITE_TIME, most_connections},
    tenant::{Tenant, TenantLimits, Tenants},
};
use opcell::LiveHost;
use opcell_engine::RunOutcome;
use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Answers until it is dropped.
pub struct Probes {
    address: SocketAddr,
    tenant: Arc<Tenant>,
    task: JoinHandle<()>,
}

impl Probes {
    /// Listens. `meter` counts what the host does. From the moment at which `stop` is cancelled, `/ready` says that the
    /// process is stopping.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub fn listen(
        address: SocketAddr,
        host: impl Into<LiveHost>,
        meter: Meter,
        stop: CancellationToken,
    ) -> Result<Self, ServeError> {
        let refused = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let tenants = Tenants::new([Tenant::new(Tenant::DEFAULT, host, TenantLimits::default()).with_meter(meter)]);
        let tenant =
            tenants.iter().next().map(Arc::clone).ok_or_else(|| refused(std::io::Error::other("no tenant")))?;
        let router = api::probes(Arc::new(App::new(&Settings::new(address), tenants, stop)?));
        let acceptor = StallAcceptor::new(WRITE_TIME, most_connections());
        let mut server = axum_server::from_tcp(listener)?.acceptor(acceptor).first_request_timeout(HEAD_TIME);
        let task = tokio::spawn(async move {
            limit(server.http_builder());
            if let Err(error) = server.serve(router.into_make_service()).await {
                tracing::warn!(%error, "health and metrics are not served any more");
            }
        });
        Ok(Self { address, tenant, task })
    }

    /// Returns the address at which it listens: the port is known even if any was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts a run that this process stopped driving.
    pub fn stopped(&self, outcome: &RunOutcome) {
        self.tenant.stopped(outcome);
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.task.abort();
    }
}
