//! A process's lease: as long as it shows signs of life, the runs that it drives are its own.

use crate::{clock::ServerClock, error::ServerError, schema, settings::Settings};
use deadpool_postgres::Pool;
use opcell_journal::Ownership;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Signs of life in one lease: two may be lost without harm.
const BEATS: u32 = 3;

/// Beats between two looks at what is worth tidying up.
const TIDY: u32 = 100;

/// The name under which a process owns runs now. A lease that ran out is never renewed: the process gets a new name,
/// and what it still believes to own under the old one can no longer be written.
#[derive(Debug)]
pub(crate) struct Lease {
    current: Mutex<Current>,
    pub clock: ServerClock,
    stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Current {
    owner: Arc<str>,
    ownership: Ownership,
}

fn new_owner() -> Current {
    let owner = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
    // Holds nothing until the server has written it down.
    Current { owner: owner.into(), ownership: Ownership::leased(Instant::now()) }
}

impl Lease {
    /// Takes a lease and keeps renewing it until the journal is dropped.
    pub(crate) async fn take(pool: Pool, settings: &Settings) -> Result<Arc<Self>, ServerError> {
        let lease = Arc::new(Self {
            current: Mutex::new(new_owner()),
            clock: ServerClock::default(),
            stop: CancellationToken::new(),
        });
        lease.register(&pool, settings).await?;
        let (beating, settings) = (Arc::downgrade(&lease), settings.clone());
        let stop = lease.stop.clone();
        tokio::spawn(async move {
            let every = settings.lease / BEATS;
            let mut beats = 0_u32;
            loop {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(every) => {}
                }
                let Some(lease) = beating.upgrade() else { break };
                let renewed = tokio::time::timeout(settings.lease, lease.renew(&pool, &settings)).await;
                match renewed {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "the journal's lease could not be renewed; trying again"),
                    Err(_) => tracing::warn!("the journal's lease could not be renewed in time; trying again"),
                }
                beats = beats.wrapping_add(1);
                if beats.is_multiple_of(TIDY) {
                    let _ = tidy(&pool, &settings).await;
                }
            }
        });
        Ok(lease)
    }

    fn current(&self) -> Current {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name under which runs are taken now.
    pub(crate) fn owner(&self) -> Arc<str> {
        self.current().owner
    }

    /// The lease under which runs are taken now.
    pub(crate) fn ownership(&self) -> Ownership {
        self.current().ownership
    }

    async fn register(&self, pool: &Pool, settings: &Settings) -> Result<(), ServerError> {
        let sql = format!(
            "INSERT INTO {}.owners VALUES ($1, clock_timestamp() + make_interval(secs => $2))
             RETURNING (extract(epoch FROM clock_timestamp()) * 1e6)::bigint",
            settings.schema
        );
        self.ask(pool, &sql, settings.lease).await?;
        // A sign of life that comes too late for this process's own clock is none: what it drives must have stopped by
        // then.
        let (ownership, stop) = (self.ownership(), self.stop.clone());
        tokio::spawn(async move {
            while let Some(until) = ownership.until().filter(|until| Instant::now() < *until) {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = ownership.lost() => return,
                    () = tokio::time::sleep_until(until.into()) => {}
                }
            }
            ownership.lose();
        });
        Ok(())
    }

    /// Renews a lease that has not run out; otherwise gives the process a new name.
    async fn renew(&self, pool: &Pool, settings: &Settings) -> Result<(), ServerError> {
        let sql = format!(
            "UPDATE {}.owners SET alive_until = clock_timestamp() + make_interval(secs => $2)
             WHERE owner = $1 AND alive_until > clock_timestamp()
             RETURNING (extract(epoch FROM clock_timestamp()) * 1e6)::bigint",
            settings.schema
        );
        if self.ownership().is_held() && self.ask(pool, &sql, settings.lease).await? && self.ownership().is_held() {
            return Ok(());
        }
        let lost = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, new_owner())
        };
        tracing::warn!(owner = %lost.owner, "the journal's lease ran out; other workers may take the runs of this process");
        lost.ownership.lose();
        self.register(pool, settings).await?;
        // Where the server still counts the old lease as held, others need not wait for its end.
        let sql = format!("DELETE FROM {}.owners WHERE owner = $1", settings.schema);
        let old: (&(dyn tokio_postgres::types::ToSql + Sync), _) =
            (&lost.owner.as_ref(), tokio_postgres::types::Type::TEXT);
        pool.get().await?.query_typed(&sql, &[old]).await?;
        Ok(())
    }

    /// Sends a sign of life; `false` when no lease was renewed.
    async fn ask(&self, pool: &Pool, sql: &str, lease: Duration) -> Result<bool, ServerError> {
        use tokio_postgres::types::Type;
        let client = pool.get().await?;
        let Current { owner, ownership } = self.current();
        let seconds = lease.as_secs_f64();
        let sent = Instant::now();
        let rows = client.query_typed(sql, &[(&owner.as_ref(), Type::TEXT), (&seconds, Type::FLOAT8)]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.clock.learn(sent, Instant::now(), row.try_get(0)?);
        ownership.renew(sent + lease);
        Ok(true)
    }

    /// Gives every run of this process back, so that others need not wait for the lease to run out.
    pub(crate) async fn end(&self, pool: &Pool, settings: &Settings) -> Result<(), ServerError> {
        self.stop.cancel();
        let client = pool.get().await?;
        let owner = self.owner();
        let sql = format!("DELETE FROM {}.owners WHERE owner = $1", settings.schema);
        client.query_typed(&sql, &[(&owner.as_ref(), tokio_postgres::types::Type::TEXT)]).await?;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes room for runs to come, and forgets owners that are long gone: a run whose owner is not listed has none.
async fn tidy(pool: &Pool, settings: &Settings) -> Result<(), ServerError> {
    let client = pool.get().await?;
    let schema = &settings.schema;
    client
        .batch_execute(&format!(
            "DELETE FROM {schema}.owners WHERE alive_until < clock_timestamp() - interval '1 hour'"
        ))
        .await?;
    schema::make_room(&**client, schema).await
}
