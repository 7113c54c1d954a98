//! Appends of many runs in one transaction: what comes while a commit waits for the disk shares the next one.

use crate::{
    error::{ServerError, storage},
    rows::{record_checksum, snapshot_checksum, unsigned},
    settings::Settings,
};
use deadpool_postgres::Pool;
use opcell_journal::{Append, Fence, JournalError, RunId};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};
use tokio_postgres::types::{ToSql, Type};

/// The most appends of one transaction: enough to share the wait, few enough that none waits long.
const GROUP: usize = 256;

/// Transactions under way at once: one gathers while another waits for the disk.
const FLUSHERS: usize = 2;

/// The time for which a broken connection is replaced before an append fails, and the pauses between attempts: first,
/// and at most.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

struct Job {
    append: Append,
    /// The run's last record before these.
    last: i64,
    reply: oneshot::Sender<Result<(), JournalError>>,
}

impl Job {
    fn after(&self) -> i64 {
        self.last + self.append.records.len().cast_signed() as i64
    }

    /// Returns `true` if there are only records and a state, and the run continues.
    fn is_plain(&self) -> bool {
        let Append { records, state, snapshot, inbox, .. } = &self.append;
        let ends = state.as_ref().is_some_and(|state| state.ended);
        !records.is_empty() && snapshot.is_none() && inbox.is_none() && !ends
    }
}

/// Hands appends to the flushers; they end when the last of these is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Appender {
    jobs: mpsc::UnboundedSender<Job>,
}

#[derive(Debug, thiserror::Error)]
#[error("the journal is being closed")]
struct Closed;

impl Appender {
    pub(crate) fn start(pool: &Pool, settings: &Settings) -> Self {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let inbox = Arc::new(Mutex::new(Inbox { jobs: inbox, held_back: Vec::new() }));
        let schema = &settings.schema;
        let sql = Arc::new(Statements {
            group: append_sql(schema, false),
            plain: append_sql(schema, true),
            one: one_append_sql(schema),
        });
        for _ in 0..FLUSHERS {
            let flusher =
                Flusher { pool: pool.clone(), settings: settings.clone(), sql: sql.clone(), inbox: inbox.clone() };
            tokio::spawn(flusher.work());
        }
        Self { jobs }
    }

    /// Appends, and returns once it is durable. `last` is what the first record follows.
    pub(crate) async fn append(&self, append: Append, last: i64) -> Result<(), JournalError> {
        let (reply, answer) = oneshot::channel();
        let closed = || JournalError::Storage(Arc::new(Closed));
        self.jobs.send(Job { append, last, reply }).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

struct Inbox {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Second appends of a run that is in the group already.
    held_back: Vec<Job>,
}

impl Inbox {
    /// The next group, each run at most once; `None` when no more will come.
    async fn group(&mut self) -> Option<Vec<Job>> {
        let mut group = Vec::new();
        let mut runs: HashSet<RunId> = HashSet::new();
        let mut held_back = Vec::new();
        let mut sort = |job: Job, group: &mut Vec<Job>| {
            if runs.insert(job.append.run.clone()) { group.push(job) } else { held_back.push(job) }
        };
        for job in std::mem::take(&mut self.held_back) {
            sort(job, &mut group);
        }
        if group.is_empty() {
            sort(self.jobs.recv().await?, &mut group);
        }
        while group.len() < GROUP {
            let Ok(job) = self.jobs.try_recv() else { break };
            sort(job, &mut group);
        }
        self.held_back = held_back;
        Some(group)
    }
}

/// The whole of a group in one statement. An append counts only where its fence is the run's newest, its owner's lease
/// has not run out by the server's clock, and its first record follows the run's last; the others leave nothing and
/// disturb none. A group whose runs all go on, without snapshots and messages that were taken, needs no more than the
/// first [`PLAIN`] values, and half the server's time.
fn append_sql(schema: &str, plain: bool) -> String {
    let all = if plain {
        String::new()
    } else {
        format!(
            ", kept AS (
            INSERT INTO {schema}.snapshots
            SELECT d.id, v.seq, v.version, v.payload, v.checksum
            FROM unnest($17::text[], $18::bigint[], $19::integer[], $20::text[], $21::bytea[])
                AS v(run, seq, version, payload, checksum)
            JOIN done d ON d.run = v.run
            ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, version = excluded.version, payload = excluded.payload,
                checksum = excluded.checksum
        ), read AS (
            DELETE FROM {schema}.inbox b USING done d WHERE b.run = d.id AND (d.ended OR b.id <= d.taken)
        ), old AS (
            DELETE FROM {schema}.snapshots s USING done d WHERE s.run = d.id AND d.ended
        )"
        )
    };
    format!(
        "WITH input AS (
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::boolean[], $7::bigint[],
                                 $8::bigint[], $9::bigint[])
                AS i(run, fence, last, after, status, ended, due, at, taken)
        ), mine AS (
            SELECT r.id, i.* FROM input i
            JOIN {schema}.runs r ON r.run = i.run
            JOIN {schema}.owners o ON o.owner = r.owner AND o.alive_until > clock_timestamp()
            WHERE r.fence = i.fence AND r.records = i.last
            ORDER BY r.id FOR UPDATE OF r
        ), done AS (
            UPDATE {schema}.runs r SET
                records = m.after,
                status = coalesce(m.status, r.status),
                ended = coalesce(m.ended, r.ended),
                due = CASE WHEN m.status IS NULL THEN r.due ELSE m.due END,
                owner = CASE WHEN m.ended THEN NULL ELSE r.owner END,
                updated_at = coalesce(m.at, r.updated_at)
            FROM mine m WHERE r.id = m.id
            RETURNING r.id, r.run, r.ended, m.taken
        ), added AS (
            INSERT INTO {schema}.records
            SELECT d.id, v.seq, v.kind, v.version, v.at, v.payload, v.checksum
            FROM unnest($10::text[], $11::bigint[], $12::text[], $13::integer[], $14::bigint[], $15::text[], $16::bytea[])
                AS v(run, seq, kind, version, at, payload, checksum)
            JOIN done d ON d.run = v.run
        ){all}
        SELECT run FROM done"
    )
}

/// The values of a statement for a plain group: how many of all.
const PLAIN: usize = 16;

const TYPES: [Type; 21] = [
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::BOOL_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
];

/// One plain append: most of those that a run makes alone. The server takes less than half the time of the statement
/// for a group.
fn one_append_sql(schema: &str) -> String {
    format!(
        "WITH done AS (
            UPDATE {schema}.runs r SET
                records = $4,
                status = coalesce($5, r.status),
                due = CASE WHEN $5 IS NULL THEN r.due ELSE $6 END,
                updated_at = $7
            FROM {schema}.owners o
            WHERE r.run = $1 AND r.fence = $2 AND r.records = $3
                AND o.owner = r.owner AND o.alive_until > clock_timestamp()
            RETURNING r.id, r.run
        ), added AS (
            INSERT INTO {schema}.records
            SELECT d.id, v.*
            FROM done d, unnest($8::bigint[], $9::text[], $10::integer[], $11::bigint[], $12::text[], $13::bytea[])
                AS v(seq, kind, version, at, payload, checksum)
        )
        SELECT run FROM done"
    )
}

const ONE_TYPES: [Type; 13] = [
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT4_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
];

/// The statements, with the schema in them.
struct Statements {
    group: String,
    plain: String,
    one: String,
}

struct Flusher {
    pool: Pool,
    settings: Settings,
    sql: Arc<Statements>,
    inbox: Arc<Mutex<Inbox>>,
}

impl Flusher {
    async fn work(self) {
        loop {
            let group = self.inbox.lock().await.group().await;
            let Some(group) = group else { return };
            self.flush(group).await;
        }
    }

    async fn flush(&self, group: Vec<Job>) {
        let until = Instant::now() + RECONNECT_TIMEOUT;
        let mut pause = PAUSE.0;
        let mut again = false;
        let results = loop {
            let tried = async {
                let done = self.write(&group).await?;
                self.results(&group, &done, again).await
            };
            match tried.await {
                Ok(results) => break results,
                Err(error) if error.is_transient() && Instant::now() < until => {
                    tracing::warn!(%error, "an append to the journal has no answer; connecting again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                    again = true;
                }
                Err(error) => {
                    let error = Arc::new(error);
                    break group.iter().map(|_| Err(JournalError::Storage(error.clone()))).collect();
                }
            }
        };
        for (job, result) in group.into_iter().zip(results) {
            // Whoever asked may have stopped waiting.
            let _ = job.reply.send(result);
        }
    }

    /// Writes what may be written, and gives the names of its runs.
    async fn write(&self, group: &[Job]) -> Result<HashSet<String>, ServerError> {
        match group {
            [job] if job.is_plain() => self.write_one(job).await,
            group => self.write_group(group).await,
        }
    }

    async fn write_one(&self, job: &Job) -> Result<HashSet<String>, ServerError> {
        let Append { run, fence, records, state, .. } = &job.append;
        let at = records.last().map_or(0, |last| last.at);
        let seqs: Vec<i64> = records.iter().map(|record| record.seq.cast_signed()).collect();
        let kinds: Vec<&str> = records.iter().map(|record| record.kind.as_ref()).collect();
        let versions: Vec<i32> = records.iter().map(|record| record.version.cast_signed()).collect();
        let ats: Vec<i64> = records.iter().map(|record| record.at).collect();
        let payloads: Vec<&str> = records.iter().map(|record| &*record.payload).collect();
        let sums: Vec<Vec<u8>> = records.iter().map(|record| record_checksum(run, record)).collect();
        let values: [&(dyn ToSql + Sync); 13] = [
            &run.as_ref(),
            &fence.0.cast_signed(),
            &job.last,
            &job.after(),
            &state.as_ref().map(|state| state.status.as_ref()),
            &state.as_ref().and_then(|state| state.due),
            &at,
            &seqs,
            &kinds,
            &versions,
            &ats,
            &payloads,
            &sums,
        ];
        self.runs_of(&self.sql.one, &values, &ONE_TYPES).await
    }

    async fn write_group(&self, group: &[Job]) -> Result<HashSet<String>, ServerError> {
        let appends = || group.iter().map(|job| &job.append);
        let runs: Vec<&str> = appends().map(|append| append.run.as_ref()).collect();
        let fences: Vec<i64> = appends().map(|append| append.fence.0.cast_signed()).collect();
        let lasts: Vec<i64> = group.iter().map(|job| job.last).collect();
        let afters: Vec<i64> = group.iter().map(Job::after).collect();
        let statuses: Vec<Option<&str>> =
            appends().map(|append| append.state.as_ref().map(|state| state.status.as_ref())).collect();
        let ended: Vec<Option<bool>> = appends().map(|append| append.state.as_ref().map(|state| state.ended)).collect();
        let due: Vec<Option<i64>> = appends().map(|append| append.state.as_ref().and_then(|state| state.due)).collect();
        let at: Vec<Option<i64>> = appends().map(|append| append.records.last().map(|last| last.at)).collect();
        let taken: Vec<Option<i64>> = appends().map(|append| append.inbox.map(u64::cast_signed)).collect();

        let records = || appends().flat_map(|append| append.records.iter().map(move |record| (&append.run, record)));
        let of: Vec<&str> = records().map(|(run, _)| run.as_ref()).collect();
        let seqs: Vec<i64> = records().map(|(_, record)| record.seq.cast_signed()).collect();
        let kinds: Vec<&str> = records().map(|(_, record)| record.kind.as_ref()).collect();
        let versions: Vec<i32> = records().map(|(_, record)| record.version.cast_signed()).collect();
        let ats: Vec<i64> = records().map(|(_, record)| record.at).collect();
        let payloads: Vec<&str> = records().map(|(_, record)| &*record.payload).collect();
        let sums: Vec<Vec<u8>> = records().map(|(run, record)| record_checksum(run, record)).collect();

        let snapshots = || {
            let kept = appends().filter(|append| !append.state.as_ref().is_some_and(|state| state.ended));
            kept.filter_map(|append| append.snapshot.as_ref().map(|snapshot| (&append.run, snapshot)))
        };
        let snapshots_of: Vec<&str> = snapshots().map(|(run, _)| run.as_ref()).collect();
        let snapshot_seqs: Vec<i64> = snapshots().map(|(_, snapshot)| snapshot.seq.cast_signed()).collect();
        let snapshot_versions: Vec<i32> = snapshots().map(|(_, snapshot)| snapshot.version.cast_signed()).collect();
        let snapshot_texts: Vec<&str> = snapshots().map(|(_, snapshot)| snapshot.payload.as_ref()).collect();
        let snapshot_sums: Vec<Vec<u8>> = snapshots().map(|(run, snapshot)| snapshot_checksum(run, snapshot)).collect();

        let values: [&(dyn ToSql + Sync); 21] = [
            &runs,
            &fences,
            &lasts,
            &afters,
            &statuses,
            &ended,
            &due,
            &at,
            &taken,
            &of,
            &seqs,
            &kinds,
            &versions,
            &ats,
            &payloads,
            &sums,
            &snapshots_of,
            &snapshot_seqs,
            &snapshot_versions,
            &snapshot_texts,
            &snapshot_sums,
        ];
        let (sql, most) = match group.iter().all(Job::is_plain) {
            true => (&self.sql.plain, PLAIN),
            false => (&self.sql.group, values.len()),
        };
        let (values, _) = values.split_at(most);
        let (types, _) = TYPES.split_at(most);
        self.runs_of(sql, values, types).await
    }

    /// The runs that a statement gives.
    async fn runs_of(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
        types: &[Type],
    ) -> Result<HashSet<String>, ServerError> {
        let client = self.pool.get().await?;
        let rows = if self.settings.transaction_pooler {
            let typed: Vec<_> = values.iter().copied().zip(types.iter().cloned()).collect();
            client.query_typed(sql, &typed).await?
        } else {
            let statement = client.prepare_typed_cached(sql, types).await?;
            client.query(&statement, values).await?
        };
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Returns the result of each append. Those that were not written are looked at again, to say why.
    async fn results(
        &self,
        group: &[Job],
        done: &HashSet<String>,
        again: bool,
    ) -> Result<Vec<Result<(), JournalError>>, ServerError> {
        let mut results = Vec::with_capacity(group.len());
        for job in group {
            let written = done.contains(job.append.run.as_ref());
            results.push(if written { Ok(()) } else { self.refusal(job, again).await? });
        }
        Ok(results)
    }

    async fn refusal(&self, job: &Job, again: bool) -> Result<Result<(), JournalError>, ServerError> {
        let sql = format!(
            "SELECT r.fence, r.records, r.ended, coalesce(o.alive_until > clock_timestamp(), false),
                (SELECT checksum FROM {0}.records v WHERE v.run = r.id AND v.seq = r.records)
             FROM {0}.runs r LEFT JOIN {0}.owners o ON o.owner = r.owner WHERE r.run = $1",
            self.settings.schema
        );
        let Append { run, fence, records, state, .. } = &job.append;
        let client = self.pool.get().await?;
        let Some(row) = client.query_typed(&sql, &[(&run.as_ref(), Type::TEXT)]).await?.into_iter().next() else {
            return Ok(Err(JournalError::UnknownRun(run.clone())));
        };
        let newest = Fence(unsigned(&row, 0)?);
        let (there, ended, alive): (i64, bool, bool) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        if again && newest == *fence && there == job.after() {
            // The answer to the first attempt was lost. No one else writes under this fence, so the same last record
            // says that it arrived, and a run that has ended as it was to end says so as well.
            let newest: Option<Vec<u8>> = row.try_get(4)?;
            let arrived = match records.last() {
                Some(last) => newest == Some(record_checksum(run, last)),
                None => ended && state.as_ref().is_some_and(|state| state.ended),
            };
            if arrived {
                return Ok(Ok(()));
            }
        }
        if newest != *fence {
            return Ok(Err(JournalError::Fenced { run: run.clone(), held: *fence, newest }));
        }
        if there != job.last {
            let last = there.unsigned_abs();
            let got = records.first().map_or(job.last.unsigned_abs() + 1, |first| first.seq);
            return Ok(Err(JournalError::OutOfOrder { run: run.clone(), last, expected: last + 1, got }));
        }
        if alive && !ended {
            // It changed between the two looks: whoever asks again gets an answer of now.
            return Err(ServerError::Connection("the run changed while it was looked at".to_owned()));
        }
        Ok(Err(JournalError::LeaseLost { run: run.clone() }))
    }
}

/// The last record of a run, for an append without records.
pub(crate) async fn last_record(pool: &Pool, settings: &Settings, run: &RunId) -> Result<i64, JournalError> {
    let sql = format!("SELECT records FROM {}.runs WHERE run = $1", settings.schema);
    let client = pool.get().await.map_err(storage)?;
    let rows = client.query_typed(&sql, &[(&run.as_ref(), Type::TEXT)]).await.map_err(storage)?;
    let row = rows.first().ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
    row.try_get(0).map_err(storage)
}
