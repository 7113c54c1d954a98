//! Connections for tables that others keep beside the journal's, in its schema.

use crate::{error::ServerError, lease::Lease, pool::pool, settings::Settings};
use deadpool_postgres::{Object, Pool};
use std::sync::{Arc, Weak};

/// Connections of what is kept beside a journal, at most: its statements may wait for locks, and must not keep the
/// journal's own connections from appends and from signs of life.
const CONNECTIONS: usize = 4;

/// The first statement of a transaction: the locks of a process that vanished in the middle of one, with its machine or
/// its network, go after this time. No connection tells the server of it, and without a limit it would wait for hours.
pub const IDLE_LIMIT: &str = "SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// The server of a journal, for tables of others in the journal's schema. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Beside {
    pool: Pool,
    schema: Arc<str>,
    /// A weak lease: a reader of the journal's tables keeps no run from others when the journal is gone.
    lease: Weak<Lease>,
}

impl Beside {
    pub(crate) fn of(settings: &Settings, lease: &Arc<Lease>) -> Result<Self, ServerError> {
        let pool = pool(settings, settings.connections.min(CONNECTIONS))?;
        Ok(Self { pool, schema: settings.schema.as_str().into(), lease: Arc::downgrade(lease) })
    }

    /// A connection, for one transaction; it goes back when it is dropped. Behind a pooler in transaction mode nothing
    /// of a session outlives the transaction.
    ///
    /// # Errors
    /// When there is none.
    pub async fn client(&self) -> Result<Object, ServerError> {
        Ok(self.pool.get().await?)
    }

    /// The schema: a plain name that needs no quoting.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The name under which this process owns the runs that it drives now; one that owns none when the journal is gone.
    #[must_use]
    pub fn owner(&self) -> Arc<str> {
        self.lease.upgrade().map_or_else(|| "".into(), |lease| lease.owner())
    }

    /// A statement that gives a row as long as the owner (`$2`) owns the run (`$1`), and keeps others from taking the
    /// run until the transaction ends: what a transaction with it writes, no former owner can write.
    #[must_use]
    pub fn owned_sql(&self) -> String {
        let schema = &self.schema;
        format!(
            "SELECT 1 FROM {schema}.runs r JOIN {schema}.owners o ON o.owner = r.owner AND o.alive_until > clock_timestamp()
             WHERE r.run = $1 AND r.owner = $2 FOR KEY SHARE OF r"
        )
    }
}
