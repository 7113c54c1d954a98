//! Pools of connections.

use crate::{error::ServerError, settings::Settings};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use std::time::Duration;

/// The time to wait for a free connection of the pool, and for the server to accept one.
const CONNECT: Duration = Duration::from_secs(30);

/// A pool of connections to the server that the settings name; none is made yet.
pub(crate) fn pool(settings: &Settings, connections: usize) -> Result<Pool, ServerError> {
    let tls = settings.tls().map_err(|error| ServerError::Server(error.to_string()))?;
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(settings.server.clone(), tls, config))
        .max_size(connections)
        .wait_timeout(Some(CONNECT))
        .create_timeout(Some(CONNECT))
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .build()
        .map_err(|error| ServerError::Server(error.to_string()))
}
