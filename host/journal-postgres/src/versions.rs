//! Versions of plugins in a table beside the runs, for workers on many machines.

use crate::{error::storage, journal::PostgresJournal};
use async_trait::async_trait;
use opcell_journal::{JournalError, SharedVersion, SharedVersions};
use std::collections::BTreeSet;
use tokio_postgres::types::{ToSql, Type};

/// The table, made by the first process whose URL says that versions are shared.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS {s}.plugin_versions (
    name text PRIMARY KEY,
    record text NOT NULL,
    component bytea NOT NULL,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp()
)";

#[async_trait]
impl SharedVersions for PostgresJournal {
    async fn names(&self) -> Result<BTreeSet<String>, JournalError> {
        let rows = self.query_again("SELECT name FROM {s}.plugin_versions", &[]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(storage)).collect()
    }

    async fn put(&self, name: &str, version: SharedVersion) -> Result<(), JournalError> {
        let sql =
            "INSERT INTO {s}.plugin_versions (name, record, component) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let (record, component) = (version.record.as_ref(), version.component.as_ref());
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&name, Type::TEXT), (&record, Type::TEXT), (&component, Type::BYTEA)];
        self.query_again(sql, &values).await.map(drop)
    }

    async fn get(&self, name: &str, max_bytes: u64) -> Result<Option<SharedVersion>, JournalError> {
        let sql = "SELECT record, component FROM {s}.plugin_versions WHERE name = $1 AND octet_length(component) <= $2";
        let most = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let rows = self.query_again(sql, &[(&name, Type::TEXT), (&most, Type::INT8)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let record: String = row.try_get(0).map_err(storage)?;
        let component: Vec<u8> = row.try_get(1).map_err(storage)?;
        Ok(Some(SharedVersion { record: record.into(), component: component.into() }))
    }

    async fn remove(&self, names: &[String]) -> Result<(), JournalError> {
        let sql = "DELETE FROM {s}.plugin_versions WHERE name = ANY($1)";
        self.query_again(sql, &[(&names, Type::TEXT_ARRAY)]).await.map(drop)
    }
}
