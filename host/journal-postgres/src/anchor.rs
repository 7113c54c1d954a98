//! The anchor of the clock: one row.

use crate::{error::storage, journal::PostgresJournal};
use opcell_journal::{ClockAnchor, ClockJump, JournalError, MAX_PAUSE};
use tokio_postgres::types::{ToSql, Type};

/// The table, which older schemas lack.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS {s}.clock (
    id integer PRIMARY KEY CHECK (id = 1),
    trusted_at bigint NOT NULL,
    doubted_since bigint,
    discounted_until bigint NOT NULL
)";

/// Compares the clock with the times of the runs, and keeps the anchor. Processes that do so at once learn the same.
pub(crate) async fn check(journal: &PostgresJournal, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
    let newest = "SELECT greatest(max(created_at), max(updated_at)) FROM {s}.runs";
    let newest: Option<i64> = match journal.query_again(newest, &[]).await?.first() {
        Some(row) => row.try_get(0).map_err(storage)?,
        None => None,
    };
    let kept = "SELECT trusted_at, doubted_since, discounted_until FROM {s}.clock";
    let anchor = match journal.query_again(kept, &[]).await?.first() {
        Some(row) => ClockAnchor {
            trusted_at: row.try_get(0).map_err(storage)?,
            doubted_since: row.try_get(1).map_err(storage)?,
            discounted_until: row.try_get(2).map_err(storage)?,
        },
        None => ClockAnchor::first(newest, now),
    };
    let (anchor, jump) = match trust {
        true => (anchor.trust(newest, now), None),
        false => anchor.check(reached(journal, anchor, now).await?, newest, now),
    };
    let ClockAnchor { trusted_at, doubted_since, discounted_until } = anchor;
    let keep = "INSERT INTO {s}.clock (id, trusted_at, doubted_since, discounted_until) VALUES (1, $1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET trusted_at = $1, doubted_since = $2, discounted_until = $3";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&trusted_at, Type::INT8), (&doubted_since, Type::INT8), (&discounted_until, Type::INT8)];
    journal.query_again(keep, &values).await?;
    Ok(jump)
}

/// As [`ClockAnchor::reached`], where the runs are: a million of them stay there. Another program may have written
/// times whose difference is no `bigint`.
async fn reached(journal: &PostgresJournal, anchor: ClockAnchor, now: i64) -> Result<i64, JournalError> {
    let sql = "WITH times AS (
            SELECT $1::bigint AS at
            UNION SELECT created_at FROM {s}.runs WHERE created_at > $1 AND (created_at <= $2 OR created_at > $3)
            UNION SELECT updated_at FROM {s}.runs WHERE updated_at > $1 AND (updated_at <= $2 OR updated_at > $3)
        ), pauses AS (SELECT at, lead(at) OVER (ORDER BY at) AS next FROM times)
        SELECT min(at) FROM pauses WHERE next IS NULL OR next::numeric - at::numeric > $4::bigint";
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&anchor.trusted_at, Type::INT8),
        (&now, Type::INT8),
        (&anchor.discounted_until, Type::INT8),
        (&MAX_PAUSE, Type::INT8),
    ];
    match journal.query_again(sql, &values).await?.first() {
        Some(row) => row.try_get(0).map_err(storage),
        None => Ok(anchor.trusted_at),
    }
}
