//! The journal itself.

use crate::{
    append::{Appender, last_record},
    beside::{Beside, IDLE_LIMIT},
    clock::ServerClock,
    error::{ServerError, storage},
    lease::Lease,
    pool::pool,
    rows::{good_records, in_order, record_checksum, snapshot_checksum, unsigned},
    schema::{self, Found, SCHEMA},
    settings::Settings,
    wake,
};
use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use opcell_journal::{
    Append, ClockJump, Cut, Damage, Driver, Fence, InboxMessage, Journal, JournalError, NewRun, OpenedRun, Ownership,
    Record, Retention, RunEntry, RunId, RunQuery, RunState, SharedVersions, Snapshot, StatusTally, tally,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Notify;
use tokio_postgres::{
    Row, Transaction,
    error::SqlState,
    types::{ToSql, Type},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The time for which reading tries again after a broken connection, and the pauses between attempts: first, and at
/// most.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A journal on PostgreSQL. Clones share it. Any number of processes on any number of machines can have it open; each
/// run has one owner among them.
///
/// Needs a tokio runtime with I/O and time, which must live as long as the journal: the lease is renewed on it.
#[derive(Debug, Clone)]
pub struct PostgresJournal {
    settings: Settings,
    pool: Pool,
    lease: Arc<Lease>,
    appender: Appender,
    woken: Arc<Notify>,
    _listening: Arc<DropGuard>,
}

impl PostgresJournal {
    /// Connects, makes the tables where there are none, and takes a lease.
    ///
    /// # Errors
    /// [`JournalError::Schema`], or the storage's: no connection, wrong password, no right to make a schema.
    pub async fn open(settings: Settings) -> Result<Self, JournalError> {
        let pool = pool(&settings, settings.connections)?;
        let mut client = pool.get().await.map_err(storage)?;
        if let Found::Newer(found) = schema::open(&mut client, &settings).await? {
            let path = settings.to_string();
            return Err(JournalError::Schema { path, found, supported: SCHEMA.unsigned_abs() });
        }
        drop(client);
        let lease = Lease::take(pool.clone(), &settings).await?;
        let appender = Appender::start(&pool, &settings);
        let stop = CancellationToken::new();
        let woken = wake::listen(settings.clone(), stop.clone());
        Ok(Self { settings, pool, lease, appender, woken, _listening: Arc::new(stop.drop_guard()) })
    }

    /// The server's clock: the one by which timers of runs must be set, since machines' clocks may differ by minutes.
    #[must_use]
    pub fn clock(&self) -> ServerClock {
        self.lease.clock.clone()
    }

    /// Gives up the lease, so that other processes can take this one's runs at once. Appends fail from then on.
    ///
    /// # Errors
    /// The storage's; the lease then runs out by itself.
    pub async fn close(&self) -> Result<(), JournalError> {
        Ok(self.lease.end(&self.pool, &self.settings).await?)
    }

    /// Connections of their own for tables that others keep in the journal's schema. None is made before it is used.
    ///
    /// # Errors
    /// When the settings of TLS can no longer be read.
    pub fn beside(&self) -> Result<Beside, JournalError> {
        Ok(Beside::of(&self.settings, &self.lease)?)
    }

    async fn client(&self) -> Result<Object, JournalError> {
        self.pool.get().await.map_err(storage)
    }

    /// As [`query`](Self::query), for a statement that may run twice: a connection that breaks is replaced for a while.
    pub(crate) async fn query_again(
        &self,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, JournalError> {
        let until = Instant::now() + RECONNECT_TIMEOUT;
        let mut pause = PAUSE.0;
        loop {
            match self.query(sql, values).await {
                Err(JournalError::Storage(error)) if is_transient(error.as_ref()) && Instant::now() < until => {
                    tracing::warn!(%error, "the journal does not answer; connecting again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                result => return result,
            }
        }
    }

    /// Gives a run back that this process owns under a fence, however long the server takes to answer: a run that its
    /// living owner forgot would wait for the owner's end.
    fn release_later(&self, run: &RunId, fence: Fence) -> tokio::task::JoinHandle<()> {
        let (journal, run, owner) = (self.clone(), run.clone(), self.lease.owner());
        tokio::spawn(async move {
            let sql = "WITH free AS (
                    UPDATE {s}.runs SET owner = NULL WHERE run = $1 AND fence = $2 RETURNING ended, due
                )
                SELECT pg_notify($3, '') FROM free WHERE NOT ended AND due IS NOT NULL";
            let channel = wake::channel(&journal.settings.schema);
            let values: [(&(dyn ToSql + Sync), Type); 3] =
                [(&run.as_ref(), Type::TEXT), (&fence.0.cast_signed(), Type::INT8), (&channel, Type::TEXT)];
            // Under another name, nothing is owned any more.
            while journal.lease.owner() == owner {
                match journal.query(sql, &values).await {
                    Err(JournalError::Storage(error)) if is_transient(error.as_ref()) => {
                        tokio::time::sleep(PAUSE.1).await;
                    }
                    Err(error) => return tracing::warn!(%run, %error, "the run could not be released"),
                    Ok(_) => return,
                }
            }
        })
    }

    /// Runs a statement that stands alone. `{s}` in it is the schema.
    async fn query(&self, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, JournalError> {
        let sql = sql.replace("{s}", &self.settings.schema);
        self.client().await?.query_typed(&sql, values).await.map_err(storage)
    }
}

/// A run's row, locked.
struct Locked {
    id: i64,
    fence: Fence,
    holder: Option<String>,
    records: u64,
}

async fn lock(transaction: &Transaction<'_>, schema: &str, run: &RunId) -> Result<Locked, JournalError> {
    let sql = format!(
        "SELECT r.id, r.fence, CASE WHEN o.alive_until > clock_timestamp() THEN r.owner END, r.records
         FROM {schema}.runs r LEFT JOIN {schema}.owners o ON o.owner = r.owner WHERE r.run = $1 FOR UPDATE OF r NOWAIT"
    );
    // In one round trip, and in this order.
    let run_name: [(&(dyn ToSql + Sync), Type); 1] = [(&run.as_ref(), Type::TEXT)];
    let (limited, rows) = tokio::join!(transaction.batch_execute(IDLE_LIMIT), transaction.query_typed(&sql, &run_name));
    limited.map_err(storage)?;
    let rows = rows.map_err(|error| match error.code() {
        // Whoever has the row is writing it this moment: taking the run, or driving it.
        Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            JournalError::Held { run: run.clone(), owner: "another process is writing it".to_owned() }
        }
        _ => storage(error),
    })?;
    let row = rows.first().ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
    Ok(Locked {
        id: row.try_get(0).map_err(storage)?,
        fence: Fence(unsigned(row, 1)?),
        holder: row.try_get(2).map_err(storage)?,
        records: unsigned(row, 3)?,
    })
}

async fn snapshot(
    transaction: &Transaction<'_>,
    schema: &str,
    run: &RunId,
    row: &Locked,
) -> Result<Option<Snapshot>, JournalError> {
    let sql = format!("SELECT seq, version, payload, checksum FROM {schema}.snapshots WHERE run = $1");
    let rows = transaction.query_typed(&sql, &[(&row.id, Type::INT8)]).await.map_err(storage)?;
    let Some(found) = rows.first() else { return Ok(None) };
    let snapshot = Snapshot {
        seq: unsigned(found, 0)?,
        version: found.try_get::<_, i32>(1).map_err(storage)?.unsigned_abs(),
        payload: found.try_get::<_, String>(2).map_err(storage)?.into(),
    };
    let sound = found.try_get::<_, &[u8]>(3).map_err(storage)? == snapshot_checksum(run, &snapshot);
    Ok((sound && snapshot.seq <= row.records).then_some(snapshot))
}

#[async_trait]
impl Journal for PostgresJournal {
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        in_order(&new.run, 0, &new.records)?;
        let last = new.records.last();
        let sums: Vec<Vec<u8>> = new.records.iter().map(|record| record_checksum(&new.run, record)).collect();
        let owner = self.lease.owner();
        let records = || new.records.iter();
        let values: [(&(dyn ToSql + Sync), Type); 14] = [
            (&new.run.as_ref(), Type::TEXT),
            (&new.workflow.as_ref(), Type::TEXT),
            (&(!new.state.ended).then_some(owner.as_ref()), Type::TEXT),
            (&new.state.status.as_ref(), Type::TEXT),
            (&new.state.ended, Type::BOOL),
            (&new.state.due, Type::INT8),
            (&new.at, Type::INT8),
            (&last.map_or(new.at, |last| last.at), Type::INT8),
            (&records().map(|record| record.seq.cast_signed()).collect::<Vec<_>>(), Type::INT8_ARRAY),
            (&records().map(|record| record.kind.as_ref()).collect::<Vec<_>>(), Type::TEXT_ARRAY),
            (&records().map(|record| record.version.cast_signed()).collect::<Vec<_>>(), Type::INT4_ARRAY),
            (&records().map(|record| record.at).collect::<Vec<_>>(), Type::INT8_ARRAY),
            (&records().map(|record| &*record.payload).collect::<Vec<_>>(), Type::TEXT_ARRAY),
            (&sums, Type::BYTEA_ARRAY),
        ];
        let sql = "WITH made AS (
                INSERT INTO {s}.runs (run, workflow, fence, owner, status, ended, due, records, created_at, updated_at)
                VALUES ($1, $2, 1, $3, $4, $5, $6, coalesce(array_length($9::bigint[], 1), 0), $7, $8)
                ON CONFLICT (run) DO NOTHING RETURNING id
            ), added AS (
                INSERT INTO {s}.records
                SELECT made.id, v.* FROM made,
                    unnest($9::bigint[], $10::text[], $11::integer[], $12::bigint[], $13::text[], $14::bytea[])
                    AS v(seq, kind, version, at, payload, checksum)
            )
            SELECT id FROM made";
        let made = self.query(sql, &values).await;
        match made {
            Ok(rows) if rows.is_empty() => Err(JournalError::RunExists(new.run)),
            Ok(_) => Ok(Fence(1)),
            Err(JournalError::Storage(error)) if is_transient(error.as_ref()) => {
                // The answer was lost. The run is ours if it is there under this process's name, made at this very
                // time.
                let same = "SELECT 1 FROM {s}.runs WHERE run = $1 AND fence = 1 AND created_at = $2 AND owner IS NOT DISTINCT FROM $3";
                let asked: [(&(dyn ToSql + Sync), Type); 3] = [
                    (&new.run.as_ref(), Type::TEXT),
                    (&new.at, Type::INT8),
                    (&(!new.state.ended).then_some(owner.as_ref()), Type::TEXT),
                ];
                let there = match self.query_again(same, &asked).await {
                    Ok(rows) => !rows.is_empty(),
                    Err(error) => {
                        self.release_later(&new.run, Fence(1));
                        return Err(error);
                    }
                };
                if there {
                    return Ok(Fence(1));
                }
                match self.query(sql, &values).await {
                    Ok(rows) if rows.is_empty() => Err(JournalError::RunExists(new.run)),
                    Ok(_) => Ok(Fence(1)),
                    Err(error) => {
                        self.release_later(&new.run, Fence(1));
                        Err(error)
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        let schema = &self.settings.schema;
        let mut client = self.client().await?;
        let transaction = client.transaction().await.map_err(storage)?;
        let row = lock(&transaction, schema, run).await?;
        if let Some(owner) = row.holder {
            return Err(JournalError::Held { run: run.clone(), owner });
        }
        let snapshot = snapshot(&transaction, schema, run, &row).await?;
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let sql = format!(
            "SELECT seq, kind, version, at, payload, checksum FROM {schema}.records WHERE run = $1 AND seq > $2 ORDER BY seq"
        );
        let values: [(&(dyn ToSql + Sync), Type); 2] = [(&row.id, Type::INT8), (&after.cast_signed(), Type::INT8)];
        let rows = transaction.query_typed(&sql, &values).await.map_err(storage)?;
        let read = good_records(run, after, &rows)?;
        let last_good = read.records.last().map_or(after, |record| record.seq);
        let missing = (row.records > last_good)
            .then(|| format!("{} records were written, but only {last_good} are present", row.records));
        let damage = match read.broken.or(missing) {
            None => None,
            Some(reason) if read.after > 0 && cut == Cut::Tail => {
                return Err(JournalError::Broken { run: run.clone(), last_good, reason, behind: read.after });
            }
            Some(reason) => {
                for table in ["records", "snapshots"] {
                    let sql = format!("DELETE FROM {schema}.{table} WHERE run = $1 AND seq > $2");
                    let values: [(&(dyn ToSql + Sync), Type); 2] =
                        [(&row.id, Type::INT8), (&last_good.cast_signed(), Type::INT8)];
                    transaction.query_typed(&sql, &values).await.map_err(storage)?;
                }
                Some(Damage { last_good, cut: row.records.saturating_sub(last_good), reason })
            }
        };
        let corrupt =
            |reason: &str| JournalError::Corrupt { path: format!("{schema}.runs"), reason: reason.to_owned() };
        let fence = row.fence.next().map_err(corrupt)?;
        let owner = self.lease.owner();
        let sql = format!("UPDATE {schema}.runs SET fence = $2, owner = $3, records = $4 WHERE id = $1");
        let values: [(&(dyn ToSql + Sync), Type); 4] = [
            (&row.id, Type::INT8),
            (&fence.0.cast_signed(), Type::INT8),
            (&owner.as_ref(), Type::TEXT),
            (&last_good.cast_signed(), Type::INT8),
        ];
        transaction.query_typed(&sql, &values).await.map_err(storage)?;
        if let Err(error) = transaction.commit().await {
            // It may have happened.
            self.release_later(run, fence);
            return Err(storage(error));
        }
        Ok(OpenedRun { fence, snapshot, records: read.records, damage })
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        // A server that does not answer keeps no one waiting: the task continues.
        let _ = tokio::time::timeout(PAUSE.1, self.release_later(run, fence)).await;
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        let last = match append.records.first() {
            Some(first) => {
                let last = first.seq.saturating_sub(1);
                in_order(&append.run, last, &append.records)?;
                last.cast_signed()
            }
            None => last_record(&self.pool, &self.settings, &append.run).await?,
        };
        self.appender.append(append, last).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        let sql = "SELECT v.seq, v.kind, v.version, v.at, v.payload, v.checksum, r.records
             FROM {s}.runs r LEFT JOIN LATERAL (
                SELECT * FROM {s}.records WHERE run = r.id AND seq > $2 ORDER BY seq LIMIT $3
             ) v ON true WHERE r.run = $1 ORDER BY v.seq";
        let (from, most) = (after.min(i64::MAX as u64).cast_signed(), limit.min(i64::MAX as u64).cast_signed());
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&run.as_ref(), Type::TEXT), (&from, Type::INT8), (&most, Type::INT8)];
        let mut rows = self.query_again(sql, &values).await?;
        let Some(first) = rows.first() else { return Err(JournalError::UnknownRun(run.clone())) };
        let written = unsigned(first, 6)?;
        if first.try_get::<_, Option<i64>>(0).map_err(storage)?.is_none() {
            rows.clear();
        }
        let read = good_records(run, after, &rows)?;
        let last_good = read.records.last().map_or(after, |record| record.seq);
        let expected = written.min(after.saturating_add(limit));
        let missing =
            (expected > last_good && read.broken.is_none()).then(|| format!("record {} is missing", last_good + 1));
        match read.broken.or(missing) {
            // What is good before it is given first.
            Some(_) if !read.records.is_empty() => Ok(read.records),
            Some(reason) if read.after > 0 => {
                Err(JournalError::Broken { run: run.clone(), last_good, reason, behind: read.after })
            }
            Some(reason) => Err(JournalError::Torn { run: run.clone(), last_good, reason }),
            None => Ok(read.records),
        }
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        let sql = "SELECT r.run, left(r.workflow, 4096), left(r.status, 64), r.ended, r.due, r.records, r.created_at, r.updated_at,
                coalesce(o.alive_until > clock_timestamp(), false), r.owner
            FROM {s}.runs r LEFT JOIN {s}.owners o ON o.owner = r.owner ORDER BY r.created_at DESC, r.run DESC";
        self.query_again(sql, &[]).await?.iter().map(|row| Ok(entry(row)?)).collect()
    }

    async fn page(&self, query: RunQuery) -> Result<Vec<RunEntry>, JournalError> {
        let (mut found, mut before) = (Vec::new(), query.before.clone());
        if let Some(run) = &before {
            let there =
                self.query_again("SELECT 1 FROM {s}.runs WHERE run = $1", &[(&run.as_ref(), Type::TEXT)]).await?;
            if there.is_empty() {
                return Err(JournalError::UnknownRun(run.clone()));
            }
        }
        // The prefix as bytes, whatever the order of the database's language is.
        let sql = "SELECT r.run, left(r.workflow, 4096), left(r.status, 64), r.ended, r.due, r.records, r.created_at, r.updated_at,
                coalesce(o.alive_until > clock_timestamp(), false), r.owner
            FROM {s}.runs r LEFT JOIN {s}.owners o ON o.owner = r.owner
            WHERE ($1::text IS NULL OR (r.created_at, r.run) < (SELECT b.created_at, b.run FROM {s}.runs b WHERE b.run = $1))
              AND ($2::text IS NULL OR starts_with(r.run, $2)) AND ($3::text IS NULL OR r.workflow = $3)
              AND ($4::text IS NULL OR r.status = $4)
              AND ($5::bigint IS NULL OR r.created_at >= $5) AND ($6::bigint IS NULL OR r.created_at < $6)
            ORDER BY r.created_at DESC, r.run DESC LIMIT $7";
        loop {
            let left = query.limit - found.len();
            if left == 0 {
                return Ok(found);
            }
            let most = left.clamp(100, 10_000);
            let values: [(&(dyn ToSql + Sync), Type); 7] = [
                (&before.as_deref(), Type::TEXT),
                (&query.prefix.as_deref(), Type::TEXT),
                (&query.workflow.as_deref(), Type::TEXT),
                (&query.stored_status(), Type::TEXT),
                (&query.since, Type::INT8),
                (&query.until, Type::INT8),
                (&i64::try_from(most).unwrap_or(i64::MAX), Type::INT8),
            ];
            let rows = self.query_again(sql, &values).await?;
            let runs = rows.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
            before = runs.last().map(|last| last.run.clone());
            let is_end = runs.len() < most;
            found.extend(runs.into_iter().filter(|run| query.matches(run)).take(left));
            if is_end {
                return Ok(found);
            }
        }
    }

    async fn drivers(&self) -> Result<Vec<Driver>, JournalError> {
        let sql = "SELECT o.owner, count(r.run) FROM {s}.owners o
            LEFT JOIN {s}.runs r ON r.owner = o.owner AND NOT r.ended
            WHERE o.alive_until > clock_timestamp() GROUP BY o.owner ORDER BY 2 DESC, 1";
        let own = self.lease.owner();
        let rows = self.query_again(sql, &[]).await?;
        let driver = |row: &Row| -> Result<Driver, ServerError> {
            let owner: String = row.try_get(0)?;
            Ok(Driver { is_this: *owner == *own, name: owner.into(), runs: unsigned(row, 1)? })
        };
        Ok(rows.iter().map(driver).collect::<Result<_, _>>()?)
    }

    async fn tally(&self, now: i64) -> Result<BTreeMap<String, StatusTally>, JournalError> {
        // One run of each kind stands for all of them.
        let sql = "SELECT min(r.run), min(r.workflow), left(r.status, 64), r.ended,
                CASE WHEN r.due <= $1 THEN 0 WHEN r.due IS NULL THEN NULL ELSE 9223372036854775807 END,
                least(r.records, 2), 0::bigint, min(r.updated_at), coalesce(o.alive_until > clock_timestamp(), false), NULL::text, count(*)
            FROM {s}.runs r LEFT JOIN {s}.owners o ON o.owner = r.owner GROUP BY 3, 4, 5, 6, 9";
        let rows = self.query_again(sql, &[(&now, Type::INT8)]).await?;
        let kinds = rows.iter().map(|row| Ok((entry(row)?, unsigned(row, 10)?)));
        let kinds = kinds.collect::<Result<Vec<_>, ServerError>>()?;
        Ok(tally(kinds.iter().map(|(run, count)| (run, *count)), now))
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        // Each half is an index scan that ends early, however many runs wait.
        let sql = "SELECT run FROM (
                (SELECT r.run, r.due AS since FROM {s}.runs r LEFT JOIN {s}.owners o ON o.owner = r.owner
                 WHERE r.due <= $1 AND NOT r.ended AND coalesce(o.alive_until < clock_timestamp(), true)
                 ORDER BY r.due, r.id LIMIT $2)
                UNION
                (SELECT DISTINCT ON (r.id) r.run, b.at FROM {s}.inbox b JOIN {s}.runs r ON r.id = b.run
                 LEFT JOIN {s}.owners o ON o.owner = r.owner
                 WHERE NOT r.ended AND coalesce(o.alive_until < clock_timestamp(), true)
                 ORDER BY r.id LIMIT $2)
            ) could GROUP BY run ORDER BY min(since) LIMIT $2";
        let limit = limit.min(i64::MAX as u64).cast_signed();
        let rows = self.query(sql, &[(&now, Type::INT8), (&limit, Type::INT8)]).await?;
        rows.iter().map(|row| Ok(row.try_get::<_, String>(0).map_err(storage)?.into())).collect()
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        let sql = "WITH ended AS (
                SELECT r.id, r.updated_at, row_number() OVER (ORDER BY r.updated_at DESC, r.run DESC) AS rank
                FROM {s}.runs r LEFT JOIN {s}.owners o ON o.owner = r.owner
                WHERE r.ended AND coalesce(o.alive_until < clock_timestamp(), true)
            ), gone AS (
                DELETE FROM {s}.runs r USING ended e
                WHERE r.id = e.id AND (e.rank > $1 OR e.updated_at < $2) RETURNING r.id, r.run
            ), records AS (
                DELETE FROM {s}.records v USING gone g WHERE v.run = g.id
            ), snapshots AS (
                DELETE FROM {s}.snapshots v USING gone g WHERE v.run = g.id
            ), inbox AS (
                DELETE FROM {s}.inbox v USING gone g WHERE v.run = g.id
            )
            SELECT run FROM gone";
        let keep = rule.keep.map(|keep| keep.min(i64::MAX as u64).cast_signed());
        let rows = self.query(sql, &[(&keep, Type::INT8), (&rule.ended_after, Type::INT8)]).await?;
        let gone = rows.iter().map(|row| Ok(row.try_get::<_, String>(0).map_err(storage)?.into())).collect();
        let client = self.client().await?;
        schema::drop_empty(&**client, &self.settings.schema).await?;
        gone
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        crate::anchor::check(self, now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        let sql = "WITH found AS (SELECT id FROM {s}.runs WHERE run = $1), gone AS (
                DELETE FROM {s}.runs r USING found f WHERE r.id = f.id AND r.ended RETURNING r.id
            ), records AS (
                DELETE FROM {s}.records v USING gone g WHERE v.run = g.id
            ), snapshots AS (
                DELETE FROM {s}.snapshots v USING gone g WHERE v.run = g.id
            ), inbox AS (
                DELETE FROM {s}.inbox v USING gone g WHERE v.run = g.id
            )
            SELECT (SELECT count(*) FROM gone) > 0 FROM found";
        let rows = self.query(sql, &[(&run.as_ref(), Type::TEXT)]).await?;
        match rows.first() {
            Some(row) => row.try_get(0).map_err(storage),
            None => Err(JournalError::UnknownRun(run.clone())),
        }
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        // The run's row is locked before the message gets its id: ids then grow in the order in which messages become
        // visible.
        let sql = "WITH open AS (
                SELECT id FROM {s}.runs WHERE run = $1 AND NOT ended FOR UPDATE
            ), posted AS (
                INSERT INTO {s}.inbox (run, at, payload) SELECT id, $2, $3 FROM open RETURNING id
            )
            SELECT pg_notify($4, '') FROM posted";
        let channel = wake::channel(&self.settings.schema);
        let values: [(&(dyn ToSql + Sync), Type); 4] =
            [(&run.as_ref(), Type::TEXT), (&at, Type::INT8), (&payload.as_ref(), Type::TEXT), (&channel, Type::TEXT)];
        if !self.query(sql, &values).await?.is_empty() {
            return Ok(());
        }
        let rows = self.query("SELECT status FROM {s}.runs WHERE run = $1", &[(&run.as_ref(), Type::TEXT)]).await?;
        let row = rows.first().ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
        Err(JournalError::Ended { run: run.clone(), status: row.try_get(0).map_err(storage)? })
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        let sql = "SELECT b.id, b.at, b.payload FROM {s}.inbox b JOIN {s}.runs r ON r.id = b.run WHERE r.run = $1 ORDER BY b.id";
        let rows = self.query_again(sql, &[(&run.as_ref(), Type::TEXT)]).await?;
        let message = |row: &Row| -> Result<InboxMessage, ServerError> {
            Ok(InboxMessage {
                id: unsigned(row, 0)?,
                at: row.try_get(1)?,
                payload: row.try_get::<_, String>(2)?.into(),
            })
        };
        rows.iter().map(|row| Ok(message(row)?)).collect()
    }

    fn now(&self) -> Option<i64> {
        Some(self.lease.clock.now())
    }

    fn ownership(&self) -> Ownership {
        self.lease.ownership()
    }

    fn shared_versions(&self) -> Option<&dyn SharedVersions> {
        self.settings.shares_versions.then_some(self)
    }

    async fn changed(&self, at_most: Duration) {
        // No one to wake us: look as often as a journal that is a file.
        let at_most = if self.settings.transaction_pooler { at_most.min(Duration::from_millis(500)) } else { at_most };
        let _ = tokio::time::timeout(at_most, self.woken.notified()).await;
    }
}

fn is_transient(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<ServerError>().is_some_and(ServerError::is_transient)
}

/// A run in a list. A row that another program wrote never hides the others.
fn entry(row: &Row) -> Result<RunEntry, ServerError> {
    let driven: bool = row.try_get(8)?;
    let owner: Option<String> = row.try_get(9)?;
    let run: RunId = row.try_get::<_, String>(0)?.into();
    let mut state =
        RunState { status: row.try_get::<_, String>(2)?.into(), ended: row.try_get(3)?, due: row.try_get(4)? };
    let records = unsigned(row, 5).unwrap_or_else(|_| {
        state = RunState { status: RunEntry::DAMAGED.into(), ended: true, due: None };
        0
    });
    Ok(RunEntry {
        run,
        workflow: row.try_get::<_, String>(1)?.into(),
        state,
        records,
        created_at: row.try_get(6)?,
        updated_at: row.try_get(7)?,
        driven,
        driver: owner.filter(|_| driven).map(Into::into),
    })
}
