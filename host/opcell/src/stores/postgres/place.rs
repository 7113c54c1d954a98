//! One store of one plugin: what a request reads and writes in it.

use super::{
    super::{
        Caller,
        call::{Answer, Answered, Columns, Memory, OUTRUN, answered_too_much, entry_bytes, is_written, within_quota},
    },
    PAUSE, RECONNECT_TIMEOUT, Stop, Stores, Value, bytes, failed, number, text, value,
};
use opcell_journal_postgres::{IDLE_LIMIT, ServerError};
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreEntry, StoreError, StoreRequest},
};
use std::time::Instant;
use tokio::join;
use tokio_postgres::{Transaction, types::Type};

/// The statement that sets the time to wait for another transaction's lock.
const LOCK: &str = "SET LOCAL lock_timeout = '10s'";

/// One store of one plugin.
pub(super) struct Place<'a> {
    pub stores: &'a Stores,
    pub caller: &'a Caller,
    pub plugin: &'a str,
    pub name: &'a str,
    pub run: &'a str,
    pub grant: &'a StoreGrant,
}

/// The state that a write finds: the store, locked, and the entry of the key.
struct Locked {
    store: i64,
    bytes: u64,
    entries: u64,
    version: i64,
    /// The entry's bytes as the quota counts them.
    before: Option<u64>,
    entry: Option<StoreEntry>,
    /// The number of answers of the call that are recorded.
    recorded: i64,
}

/// The change of a write.
enum Change<'a> {
    Nothing,
    Put { value: &'a [u8], bytes: u64, entries: u64 },
    Remove,
}

impl Place<'_> {
    /// Returns the values that name the store, for statements that continue with a key.
    fn names(&self) -> [Value<'_>; 3] {
        [text(&self.plugin), text(&self.name), text(&self.run)]
    }

    pub(super) async fn read(&self, request: &StoreRequest) -> Result<Answer, Stop> {
        let [plugin, store, run] = self.names();
        match request {
            StoreRequest::List { prefix, after, limit } => {
                // Keys are bytes: those with the prefix are next to one another. One more says that there are more.
                let sql = "SELECT e.key FROM {s}.stores s JOIN {s}.store_entries e ON e.store = s.id
                    WHERE s.plugin = $1 AND s.store = $2 AND s.run = $3 AND e.key >= $4 AND ($5::bytea IS NULL OR e.key > $5)
                    ORDER BY e.key LIMIT $6";
                let (from, after) = (prefix.as_bytes(), after.as_deref().map(str::as_bytes));
                let most = i64::from(*limit) + 1;
                let values = [plugin, store, run, bytes(&from), value(&after, Type::BYTEA), number(&most)];
                let rows = self.stores.query(sql, &values).await?;
                let mut keys = Vec::new();
                for row in &rows {
                    let key = String::from_utf8_lossy(row.try_get(0)?).into_owned();
                    if !key.starts_with(prefix) {
                        break;
                    }
                    keys.push(key);
                }
                let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
                let more = keys.len() > limit;
                keys.truncate(limit);
                Ok(Ok(StoreAnswer::Page { keys, more }))
            }
            StoreRequest::Get { key }
            | StoreRequest::Set { key, .. }
            | StoreRequest::CompareAndSet { key, .. }
            | StoreRequest::Delete { key } => {
                let sql = "SELECT e.version, e.value FROM {s}.stores s JOIN {s}.store_entries e ON e.store = s.id
                    WHERE s.plugin = $1 AND s.store = $2 AND s.run = $3 AND e.key = $4";
                let key = key.as_bytes();
                let rows = self.stores.query(sql, &[plugin, store, run, bytes(&key)]).await?;
                let entry = rows.first().map(|row| {
                    Ok::<_, Stop>(StoreEntry {
                        version: row.try_get::<_, i64>(0)?.cast_unsigned(),
                        value: row.try_get(1)?,
                    })
                });
                Ok(Ok(StoreAnswer::Entry(entry.transpose()?)))
            }
        }
    }

    /// Writes, and gives the bytes of the call's record if there is one now.
    pub(super) async fn write(
        &self,
        request: &StoreRequest,
        asked: [u8; 32],
        memory: &Memory,
    ) -> Result<(Answered, Option<i64>), Stop> {
        let mut client = self.stores.beside.client().await?;
        let transaction = client.transaction().await.map_err(ServerError::from)?;
        let (key, makes) = match request {
            StoreRequest::Set { key, .. } | StoreRequest::CompareAndSet { key, .. } => (key, true),
            StoreRequest::Get { key } | StoreRequest::Delete { key } => (key, false),
            StoreRequest::List { prefix, .. } => (prefix, false),
        };
        let locked = self.lock(&transaction, key, makes).await?;
        let (answer, change) = self.decide(request, locked.as_ref());
        let answered = Answered { request: asked, answer };
        let (Some(locked), true) = (&locked, is_written(&answered.answer)) else {
            // Nothing to keep; the transaction goes as it is dropped.
            return Ok((answered, None));
        };
        let call = self.caller.call.as_deref();
        if call.is_some() && !memory.has_room(&answered.answer) {
            return Err(Stop::Refused(StoreError::Quota(answered_too_much())));
        }
        if call.is_some() && memory.is_outrun(locked.recorded) {
            return Err(failed(OUTRUN));
        }
        let change = self.change(&transaction, locked, key, &change);
        let record = async {
            match call {
                Some(call) => self.record(&transaction, call, memory, &answered).await.map(Some),
                None => Ok(None),
            }
        };
        let named = transaction.query_typed("SELECT pg_current_xact_id()::text", &[]);
        let named = async { Ok::<_, Stop>(named.await?) };
        // In the order of the statements: those that follow one that fails only say that one before them did.
        let (changed, recorded, named) = join!(change, record, named);
        changed?;
        let (recorded, named) = (recorded?, named?);
        let id: String = named.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        let committed = transaction.commit().await.map_err(ServerError::from);
        drop(client);
        match committed {
            Err(error) if error.is_transient() => self.ended(&id, error).await?,
            other => other?,
        }
        Ok((answered, recorded))
    }

    /// Locks the store and finds the entry, in one round trip: each statement sees what the one before it waited for.
    async fn lock(&self, transaction: &Transaction<'_>, key: &str, makes: bool) -> Result<Option<Locked>, Stop> {
        let [plugin, store, run] = self.names();
        let fence = async {
            let (true, Some(owner)) = (!self.caller.run.is_empty(), self.caller.owner.as_deref()) else {
                return Ok(());
            };
            let run = self.caller.run.as_str();
            let owned = transaction.query_typed(&self.stores.beside.owned_sql(), &[text(&run), text(&owner)]).await?;
            match owned.is_empty() {
                false => Ok(()),
                true => Err(failed(
                    "this worker no longer drives the run; the worker that does makes the call again if it must",
                )),
            }
        };
        let limits = format!("{IDLE_LIMIT}; {LOCK}");
        let limit = async { Ok::<_, Stop>(transaction.batch_execute(&limits).await?) };
        let make = async {
            let sql = "INSERT INTO {s}.stores (plugin, store, run, bytes, entries, version, written_at)
                VALUES ($1, $2, $3, 0, 0, 0, clock_timestamp()) ON CONFLICT (plugin, store, run) DO NOTHING";
            if makes {
                let values = [plugin.clone(), store.clone(), run.clone()];
                transaction.query_typed(&self.stores.sql(sql), &values).await?;
            }
            Ok::<_, Stop>(())
        };
        let lock = async {
            let sql = "SELECT id, bytes, entries, version FROM {s}.stores
                WHERE plugin = $1 AND store = $2 AND run = $3 FOR UPDATE";
            let values = [plugin.clone(), store.clone(), run.clone()];
            Ok::<_, Stop>(transaction.query_typed(&self.stores.sql(sql), &values).await?)
        };
        let find = async {
            let sql = "SELECT e.version, e.value FROM {s}.stores s JOIN {s}.store_entries e ON e.store = s.id
                WHERE s.plugin = $1 AND s.store = $2 AND s.run = $3 AND e.key = $4";
            let key = key.as_bytes();
            let values = [plugin.clone(), store.clone(), run.clone(), bytes(&key)];
            Ok::<_, Stop>(transaction.query_typed(&self.stores.sql(sql), &values).await?)
        };
        let count = async {
            let Some(call) = self.caller.call.as_deref() else { return Ok(0) };
            let sql = "SELECT count(*) FROM {s}.store_calls c JOIN {s}.store_answers a ON a.call = c.id
                WHERE c.plugin = $1 AND c.call = $2";
            let counted = transaction.query_typed(&self.stores.sql(sql), &[plugin.clone(), text(&call)]).await?;
            Ok::<_, Stop>(counted.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
        };
        let (limited, owned, made, stores, entries, recorded) = join!(limit, fence, make, lock, find, count);
        limited?;
        owned?;
        made?;
        let (stores, entries, recorded) = (stores?, entries?, recorded?);
        let Some(row) = stores.first() else { return Ok(None) };
        let entry = entries.first().map(|row| {
            Ok::<_, Stop>(StoreEntry { version: row.try_get::<_, i64>(0)?.cast_unsigned(), value: row.try_get(1)? })
        });
        let entry = entry.transpose()?;
        Ok(Some(Locked {
            store: row.try_get(0)?,
            bytes: row.try_get::<_, i64>(1)?.cast_unsigned(),
            entries: row.try_get::<_, i64>(2)?.cast_unsigned(),
            version: row.try_get(3)?,
            before: entry.as_ref().map(|entry| entry_bytes(key, entry.value.len() as u64)),
            entry,
            recorded,
        }))
    }

    fn decide<'a>(&self, request: &'a StoreRequest, locked: Option<&Locked>) -> (Answer, Change<'a>) {
        let Some(locked) = locked else {
            // Only a store that is made can be written to.
            return (Ok(StoreAnswer::Deleted(false)), Change::Nothing);
        };
        let (key, value) = match request {
            StoreRequest::CompareAndSet { expected, .. }
                if locked.entry.as_ref().map(|entry| entry.version) != *expected =>
            {
                return (Ok(StoreAnswer::Conflict(locked.entry.clone())), Change::Nothing);
            }
            StoreRequest::Set { key, value } | StoreRequest::CompareAndSet { key, value, .. } => (key, value),
            StoreRequest::Get { .. } | StoreRequest::List { .. } | StoreRequest::Delete { .. } => {
                let change = if locked.entry.is_some() { Change::Remove } else { Change::Nothing };
                return (Ok(StoreAnswer::Deleted(locked.entry.is_some())), change);
            }
        };
        let held = (locked.bytes, locked.entries);
        match within_quota(self.name, self.grant, held, locked.before, entry_bytes(key, value.len() as u64)) {
            Ok((bytes, entries)) => {
                let version = (locked.version + 1).cast_unsigned();
                (Ok(StoreAnswer::Stored(version)), Change::Put { value, bytes, entries })
            }
            Err(exceeded) => (Err(exceeded), Change::Nothing),
        }
    }

    async fn change(
        &self,
        transaction: &Transaction<'_>,
        locked: &Locked,
        key: &str,
        change: &Change<'_>,
    ) -> Result<(), Stop> {
        let version = locked.version + 1;
        let (held, entries) = match change {
            Change::Nothing => return Ok(()),
            Change::Put { bytes, entries, .. } => (*bytes, *entries),
            Change::Remove => {
                (locked.bytes.saturating_sub(locked.before.unwrap_or(0)), locked.entries.saturating_sub(1))
            }
        };
        let (held, entries) = (held.cast_signed(), entries.cast_signed());
        let count = async {
            let sql = "UPDATE {s}.stores SET version = $2, bytes = $3, entries = $4, written_at = clock_timestamp()
                WHERE id = $1";
            let values = [number(&locked.store), number(&version), number(&held), number(&entries)];
            Ok::<_, Stop>(transaction.query_typed(&self.stores.sql(sql), &values).await?)
        };
        let (store, key) = (number(&locked.store), key.as_bytes());
        let put = async {
            Ok::<_, Stop>(match change {
                Change::Put { value: content, .. } => {
                    let sql = "INSERT INTO {s}.store_entries (store, key, version, value) VALUES ($1, $2, $3, $4)
                        ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, value = excluded.value";
                    let values = [store, bytes(&key), number(&version), bytes(content)];
                    transaction.query_typed(&self.stores.sql(sql), &values).await?
                }
                _ => {
                    let sql = "DELETE FROM {s}.store_entries WHERE store = $1 AND key = $2";
                    transaction.query_typed(&self.stores.sql(sql), &[store, bytes(&key)]).await?
                }
            })
        };
        let (counted, put) = join!(count, put);
        counted.and(put).map(drop)
    }

    /// Records what the call was answered since its last write, with the write that follows from it; gives the bytes
    /// that the call's record has now.
    async fn record(
        &self,
        transaction: &Transaction<'_>,
        call: &str,
        memory: &Memory,
        answered: &Answered,
    ) -> Result<i64, Stop> {
        let (first, answers, held) = memory.with(answered);
        let mut requests: Vec<&[u8]> = Vec::new();
        let mut columns = Vec::new();
        for answered in answers {
            requests.push(&answered.request);
            columns.push(Columns::of(&answered.answer));
        }
        let plugin = text(&self.plugin);
        // What an earlier attempt was answered after it went another way.
        let forget = async {
            let sql = "DELETE FROM {s}.store_answers a USING {s}.store_calls c
                WHERE c.plugin = $1 AND c.call = $2 AND a.call = c.id AND a.seq >= $3";
            let values = [plugin.clone(), text(&call), number(&first)];
            Ok::<_, Stop>(transaction.query_typed(&self.stores.sql(sql), &values).await?)
        };
        let add = async {
            let sql = "WITH made AS (
                    INSERT INTO {s}.store_calls (plugin, call, bytes, at) VALUES ($1, $2, $3, clock_timestamp())
                    ON CONFLICT (plugin, call) DO UPDATE SET bytes = excluded.bytes, at = excluded.at RETURNING id
                )
                INSERT INTO {s}.store_answers (call, seq, request, kind, number, text, value)
                SELECT made.id, $4 + v.place - 1, v.request, v.kind, v.number, v.text, v.value FROM made,
                    unnest($5::bytea[], $6::text[], $7::bigint[], $8::text[], $9::bytea[])
                    WITH ORDINALITY AS v(request, kind, number, text, value, place)";
            let kinds: Vec<&str> = columns.iter().map(|columns| columns.kind.as_str()).collect();
            let numbers: Vec<Option<i64>> = columns.iter().map(|columns| columns.number).collect();
            let texts: Vec<Option<&str>> = columns.iter().map(|columns| columns.text.as_deref()).collect();
            let contents: Vec<Option<&[u8]>> = columns.iter().map(|columns| columns.value.as_deref()).collect();
            let values = [
                plugin.clone(),
                text(&call),
                number(&held),
                number(&first),
                value(&requests, Type::BYTEA_ARRAY),
                value(&kinds, Type::TEXT_ARRAY),
                value(&numbers, Type::INT8_ARRAY),
                value(&texts, Type::TEXT_ARRAY),
                value(&contents, Type::BYTEA_ARRAY),
            ];
            Ok::<_, Stop>(transaction.query_typed(&self.stores.sql(sql), &values).await?)
        };
        let (forgotten, added) = join!(forget, add);
        forgotten.and(added)?;
        Ok(held)
    }

    /// Finds out the end of a transaction whose commit has no answer: an error that lets the write be tried again
    /// unless it is there.
    async fn ended(&self, id: &str, lost: ServerError) -> Result<(), Stop> {
        let until = Instant::now() + RECONNECT_TIMEOUT;
        let mut pause = PAUSE.0;
        tracing::warn!(error = %lost, "a write to a store has no answer; looking whether it arrived");
        while Instant::now() < until {
            let status = self.stores.query("SELECT pg_xact_status($1::text::xid8)", &[text(&id)]).await;
            match status {
                Ok(rows) => match rows.first().map(|row| row.try_get::<_, Option<&str>>(0)).transpose()?.flatten() {
                    Some("committed") => return Ok(()),
                    Some("aborted") => return Err(Stop::Server(lost)),
                    // The server may not have noticed yet that no one is there.
                    Some(_) => {}
                    None => break,
                },
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(Stop::Server(error)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
        Err(failed("the store's server went away in the middle of a write, and whether it was written is not known"))
    }
}
