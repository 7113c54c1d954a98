//! The tables of stores beside a journal on PostgreSQL. They have a version of their own: a program that knows no
//! stores continues with the journal.

use opcell_journal_postgres::{IDLE_LIMIT, ServerError};
use tokio_postgres::{Client, types::Type};

/// The tables' version; any other is refused.
pub(super) const VERSION: i32 = 1;

/// One process at a time makes the tables.
const LOCK: i64 = 0x6f70_6365_6c73;

const TABLES: &str = "
CREATE TABLE stores (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    plugin text NOT NULL,
    store text NOT NULL,
    run text NOT NULL,
    bytes bigint NOT NULL,
    entries bigint NOT NULL,
    version bigint NOT NULL,
    written_at timestamptz NOT NULL,
    UNIQUE (plugin, store, run)
) WITH (fillfactor = 70);
CREATE INDEX stores_by_age ON stores (written_at) WHERE run <> '';
-- Keys are bytes, as plugins compare them: no collation, and no character that a text cannot have.
CREATE TABLE store_entries (
    store bigint NOT NULL REFERENCES stores (id) ON DELETE CASCADE,
    key bytea NOT NULL,
    version bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (store, key)
);
-- Calls that wrote something.
CREATE TABLE store_calls (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    plugin text NOT NULL,
    call text NOT NULL,
    bytes bigint NOT NULL,
    at timestamptz NOT NULL,
    UNIQUE (plugin, call)
);
CREATE INDEX store_calls_by_plugin ON store_calls (plugin, id) INCLUDE (bytes);
CREATE INDEX store_calls_by_age ON store_calls (at);
-- What such a call was answered up to its last write.
CREATE TABLE store_answers (
    call bigint NOT NULL REFERENCES store_calls (id) ON DELETE CASCADE,
    seq bigint NOT NULL,
    request bytea NOT NULL,
    kind text NOT NULL,
    number bigint,
    text text,
    value bytea,
    PRIMARY KEY (call, seq)
);
CREATE TABLE store_version (version integer NOT NULL);
INSERT INTO store_version VALUES (1);
";

/// A run's store is removed 90 days after its last write, the record of a call after 30 days; this many of each when a
/// process first uses stores, and none that another one is busy with.
pub(super) const FORGET_STORES: &str = "DELETE FROM {s}.stores WHERE id IN (
    SELECT id FROM {s}.stores WHERE run <> '' AND written_at < clock_timestamp() - interval '90 days'
    ORDER BY written_at LIMIT 10000 FOR UPDATE SKIP LOCKED)";

/// As [`FORGET_STORES`].
pub(super) const FORGET_CALLS: &str = "DELETE FROM {s}.store_calls WHERE id IN (
    SELECT id FROM {s}.store_calls WHERE at < clock_timestamp() - interval '30 days'
    ORDER BY at LIMIT 10000 FOR UPDATE SKIP LOCKED)";

/// The schema of the tables that are there.
pub(super) enum Found {
    /// Tables of this version, perhaps just made.
    Ours,
    /// Tables of another version.
    Other(i32),
}

/// Makes the tables where there are none.
pub(super) async fn open(client: &mut Client, schema: &str) -> Result<Found, ServerError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(IDLE_LIMIT).await?;
    transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let sql = "SELECT to_regclass($1 || '.store_version') IS NOT NULL";
    let there = transaction.query_typed(sql, &[(&schema, Type::TEXT)]).await?;
    if there.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
        let rows = transaction.query_typed(&format!("SELECT max(version) FROM {schema}.store_version"), &[]).await?;
        let version: i32 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
        return Ok(if version == VERSION { Found::Ours } else { Found::Other(version) });
    }
    transaction.batch_execute(&format!("SET LOCAL search_path TO {schema}; {TABLES}")).await?;
    transaction.commit().await?;
    Ok(Found::Ours)
}
