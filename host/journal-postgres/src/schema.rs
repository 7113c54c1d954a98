//! The tables, and what brings a database to them.

use crate::{anchor, beside::IDLE_LIMIT, error::ServerError, settings::Settings, versions};
use tokio_postgres::GenericClient;

/// The newest schema that this code reads and writes.
pub(crate) const SCHEMA: i32 = 1;

/// Runs whose records share a partition. Ids only grow, so the records of old runs stand in old partitions, which go as
/// a whole.
pub(crate) const PARTITION: i64 = 1 << 20;

/// One process at a time brings a database up to date.
const MIGRATION_LOCK: i64 = 0x6f70_6365_6c6c;

const TABLES: &str = "
CREATE TABLE owners (
    owner text PRIMARY KEY,
    alive_until timestamptz NOT NULL
);
CREATE TABLE runs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL UNIQUE,
    workflow text NOT NULL,
    fence bigint NOT NULL,
    owner text,
    status text NOT NULL,
    ended boolean NOT NULL,
    due bigint,
    records bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX runs_by_due ON runs (due, id) WHERE due IS NOT NULL AND NOT ended;
CREATE INDEX runs_by_age ON runs (created_at DESC, run DESC);
CREATE TABLE records (
    run bigint NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    version integer NOT NULL,
    at bigint NOT NULL,
    payload text NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (run, seq)
) PARTITION BY RANGE (run);
CREATE TABLE snapshots (
    run bigint PRIMARY KEY,
    seq bigint NOT NULL,
    version integer NOT NULL,
    payload text NOT NULL,
    checksum bytea NOT NULL
);
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL,
    at bigint NOT NULL,
    payload text NOT NULL
);
CREATE INDEX inbox_by_run ON inbox (run, id);
CREATE TABLE version (version integer NOT NULL);
INSERT INTO version VALUES (1);
";

/// The schema that a database holds.
#[derive(Debug)]
pub(crate) enum Found {
    /// Tables of this schema, perhaps just made.
    Ours,
    /// Tables of a newer one.
    Newer(u32),
}

/// Makes the tables where there are none, and room for the records of runs to come.
pub(crate) async fn open(client: &mut tokio_postgres::Client, settings: &Settings) -> Result<Found, ServerError> {
    let schema = &settings.schema;
    let transaction = client.transaction().await?;
    transaction.batch_execute(IDLE_LIMIT).await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let there = transaction
        .query_one("SELECT to_regclass($1 || '.version') IS NOT NULL", &[schema])
        .await?
        .try_get::<_, bool>(0)?;
    let found = if there {
        let version: i32 =
            transaction.query_one(&format!("SELECT max(version) FROM {schema}.version"), &[]).await?.try_get(0)?;
        if version > SCHEMA {
            return Ok(Found::Newer(version.unsigned_abs()));
        }
        Found::Ours
    } else {
        transaction
            .batch_execute(&format!(
                "CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path TO {schema}; {TABLES}"
            ))
            .await?;
        Found::Ours
    };
    transaction.batch_execute(&anchor::TABLE.replace("{s}", schema)).await?;
    if settings.shares_versions {
        transaction.batch_execute(&versions::TABLE.replace("{s}", schema)).await?;
    }
    make_room(&transaction, schema).await?;
    transaction.commit().await?;
    Ok(found)
}

/// Makes the partitions of the newest runs and of those to come, so that no insert ever waits for one.
pub(crate) async fn make_room(client: &impl GenericClient, schema: &str) -> Result<(), ServerError> {
    let newest: i64 =
        client.query_one(&format!("SELECT coalesce(max(id), 0) FROM {schema}.runs"), &[]).await?.try_get(0)?;
    let current = newest / PARTITION;
    for part in current..=current + 1 {
        let (from, to) = (part * PARTITION, (part + 1) * PARTITION);
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.records_{part} PARTITION OF {schema}.records FOR VALUES FROM ({from}) TO ({to})"
        );
        client.batch_execute(&sql).await?;
    }
    Ok(())
}

/// Drops the partitions whose runs are all gone: deleting a million runs' records then costs a file.
pub(crate) async fn drop_empty(client: &impl GenericClient, schema: &str) -> Result<(), ServerError> {
    let oldest: Option<i64> = client.query_one(&format!("SELECT min(id) FROM {schema}.runs"), &[]).await?.try_get(0)?;
    let newest_known: i64 = client
        .query_one("SELECT coalesce((SELECT last_value FROM pg_sequences WHERE schemaname = $1 AND sequencename = 'runs_id_seq'), 1)", &[&schema])
        .await?
        .try_get(0)?;
    let first = oldest.unwrap_or(newest_known) / PARTITION;
    let partitions = client
        .query(
            "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
             WHERE i.inhparent = to_regclass($1 || '.records')",
            &[&schema],
        )
        .await?;
    for row in partitions {
        let name: String = row.try_get(0)?;
        let part = name.strip_prefix("records_").and_then(|part| part.parse::<i64>().ok());
        if part.is_some_and(|part| part < first) {
            client.batch_execute(&format!("DROP TABLE IF EXISTS {schema}.{name}")).await?;
        }
    }
    Ok(())
}
