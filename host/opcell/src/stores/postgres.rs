//! Stores in the schema of a journal on PostgreSQL, for workers on many machines.
//!
//! A write is one transaction. It locks the row of its store, so what it decides on, the version of an entry and how
//! much of the quota is left, is what it changes, whoever else writes. It also holds the run: a worker that has lost
//! its run, without knowing so yet, writes nothing, as it can append nothing.

mod place;
mod tables;

use super::{
    Caller, Question,
    call::{Answer, Answered, Columns, Memory, PLUGIN_RECORD_BYTES, digest, is_written, may_write},
};
use opcell_journal_postgres::{Beside, ServerError};
use opcell_sandbox::store::{StoreAnswer, StoreError};
use place::Place;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tables::Found;
use tokio::sync::OnceCell;
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

/// The time for which a broken connection is replaced before a request fails, and the pauses between attempts: first,
/// and at most. A cell rarely waits that long: its own limit on a host call ends it.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The bytes that a process records of a plugin's calls between two checks whether the oldest must be deleted.
const LOOK_AFTER_BYTES: u64 = 1 << 20;

/// Stores beside a journal on a server. Clones share connections.
#[derive(Debug, Clone)]
pub(super) struct Stores {
    beside: Beside,
    /// Set once the tables are there.
    opened: Arc<OnceCell<()>>,
    /// Bytes of records since the last look, by plugin.
    recorded: Arc<Mutex<HashMap<Arc<str>, u64>>>,
}

/// Why there is no answer.
#[derive(Debug)]
enum Stop {
    /// An error of the server.
    Server(ServerError),
    /// An error for the plugin.
    Refused(StoreError),
}

impl From<ServerError> for Stop {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

fn failed(message: &str) -> Stop {
    Stop::Refused(StoreError::Failed(message.to_owned()))
}

/// A value of a statement.
type Value<'a> = (&'a (dyn ToSql + Sync), Type);

fn value<T: ToSql + Sync>(value: &T, kind: Type) -> Value<'_> {
    (value, kind)
}

fn text<'a>(text: &'a &str) -> Value<'a> {
    (text, Type::TEXT)
}

fn number(number: &i64) -> Value<'_> {
    (number, Type::INT8)
}

fn bytes<'a>(bytes: &'a &[u8]) -> Value<'a> {
    (bytes, Type::BYTEA)
}

impl Stores {
    pub(super) fn new(beside: Beside) -> Self {
        Self { beside, opened: Arc::default(), recorded: Arc::default() }
    }

    /// The name under which this process drives its runs.
    pub(super) fn owner(&self) -> Arc<str> {
        self.beside.owner()
    }

    fn sql(&self, text: &str) -> String {
        text.replace("{s}", self.beside.schema())
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, ServerError> {
        Ok(self.beside.client().await?.query_typed(&self.sql(sql), values).await?)
    }

    /// Makes the tables where there are none, once in a process.
    async fn open(&self) -> Result<(), Stop> {
        let open = async || {
            let mut client = self.beside.client().await?;
            match tables::open(&mut client, self.beside.schema()).await? {
                Found::Ours => {}
                Found::Other(version) => {
                    let ours = tables::VERSION;
                    return Err(failed(&format!(
                        "the stores of the journal have version {version}, and this program reads {ours}"
                    )));
                }
            }
            drop(client);
            // What is old enough to go can wait.
            if let Err(error) = self.query(tables::FORGET_STORES, &[]).await {
                tracing::warn!(%error, "the stores of old runs could not be removed");
            }
            if let Err(error) = self.query(tables::FORGET_CALLS, &[]).await {
                tracing::warn!(%error, "the records of old calls could not be removed");
            }
            Ok(())
        };
        self.opened.get_or_try_init(open).await.map(drop)
    }

    /// Forgets a plugin's oldest calls when its records take too much.
    async fn make_room(&self, plugin: &Arc<str>, bytes: i64) {
        {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let since = recorded.entry(Arc::clone(plugin)).or_default();
            *since = since.saturating_add(bytes.unsigned_abs());
            if *since < LOOK_AFTER_BYTES {
                return;
            }
            *since = 0;
        }
        let sql = "DELETE FROM {s}.store_calls WHERE id IN (
                SELECT id FROM (
                    SELECT id, sum(bytes) OVER (ORDER BY id DESC) AS held FROM {s}.store_calls WHERE plugin = $1
                ) newest WHERE held > $2
            )";
        let (name, most): (&str, i64) = (plugin, PLUGIN_RECORD_BYTES.cast_signed());
        if let Err(error) = self.query(sql, &[text(&name), number(&most)]).await {
            tracing::warn!(%error, %plugin, "the records of a plugin's old calls could not be removed");
        }
    }
}

pub(super) async fn serve(
    stores: &Stores,
    memory: &mut Memory,
    question: Question,
) -> Result<(StoreAnswer, bool), StoreError> {
    let until = Instant::now() + RECONNECT_TIMEOUT;
    let mut pause = PAUSE.0;
    loop {
        match attempt(stores, memory, &question).await {
            Ok((answer, recorded)) => return answer.map(|answer| (answer, recorded)).map_err(StoreError::Quota),
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::Server(error)) if error.is_transient() && Instant::now() < until => {
                tracing::warn!(%error, "a store of a plugin does not answer; connecting again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
            // The operator's log has the whole error; a plugin is told its kind.
            Err(Stop::Server(error)) => {
                tracing::warn!(%error, "a store of a plugin cannot be used");
                let kind = match error {
                    ServerError::Connection(_) => "its server does not answer",
                    _ => "its server refuses",
                };
                return Err(StoreError::Failed(format!("the store cannot be used: {kind}")));
            }
        }
    }
}

/// The answer, and whether it is a recorded one. What fails has written nothing.
async fn attempt(stores: &Stores, memory: &mut Memory, question: &Question) -> Result<(Answer, bool), Stop> {
    stores.open().await?;
    let Question { caller, store, grant, request, .. } = question;
    let asked = digest(store, request);
    if let Some(call) = caller.call.as_deref().filter(|_| memory.is_new()) {
        memory.look_back(recorded(stores, caller, call).await?);
    }
    if let Some(earlier) = memory.earlier(&asked) {
        return Ok((earlier, true));
    }
    let run = if grant.per_run { caller.run.as_str() } else { "" };
    let place = Place { stores, caller, plugin: &caller.plugin, name: store, run, grant };
    if !may_write(request) {
        let answer = place.read(request).await?;
        if caller.call.is_some() {
            memory.given(Answered { request: asked, answer: answer.clone() }, false);
        }
        return Ok((answer, false));
    }
    let (answered, recorded) = place.write(request, asked, memory).await?;
    let (answer, written) = (answered.answer.clone(), is_written(&answered.answer));
    if caller.call.is_some() {
        memory.given(answered, written);
    }
    if let Some(bytes) = recorded {
        stores.make_room(&caller.plugin, bytes).await;
    }
    Ok((answer, false))
}

/// The answers that an earlier attempt of a call was given, up to its last write.
async fn recorded(stores: &Stores, caller: &Caller, call: &str) -> Result<VecDeque<Answered>, Stop> {
    let sql = "SELECT a.request, a.kind, a.number, a.text, a.value
        FROM {s}.store_calls c JOIN {s}.store_answers a ON a.call = c.id
        WHERE c.plugin = $1 AND c.call = $2 ORDER BY a.seq";
    let plugin: &str = &caller.plugin;
    let answered = |row: &Row| {
        let columns =
            Columns { kind: row.try_get(1)?, number: row.try_get(2)?, text: row.try_get(3)?, value: row.try_get(4)? };
        // A digest of another length recognises nothing.
        let request: Vec<u8> = row.try_get(0)?;
        Ok::<_, Stop>(Answered { request: request.try_into().unwrap_or_default(), answer: columns.answer() })
    };
    stores.query(sql, &[text(&plugin), text(&call)]).await?.iter().map(answered).collect()
}
