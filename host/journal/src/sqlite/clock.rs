//! The anchor of the clock: one row.

use super::storage;
use crate::{
    clock::{ClockAnchor, ClockJump},
    journal::JournalError,
};
use rusqlite::{Connection, OptionalExtension, params};

/// Compares the clock with the times of the runs, and keeps the anchor.
pub(super) fn check(connection: &Connection, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
    checked(connection, now, trust).map_err(storage)
}

fn checked(connection: &Connection, now: i64, trust: bool) -> rusqlite::Result<Option<ClockJump>> {
    let newest: Option<i64> =
        connection.query_row("SELECT max(max(created_at), max(updated_at)) FROM runs", [], |row| row.get(0))?;
    let kept = connection.query_row("SELECT trusted_at, doubted_since, discounted_until FROM clock", [], |row| {
        Ok(ClockAnchor { trusted_at: row.get(0)?, doubted_since: row.get(1)?, discounted_until: row.get(2)? })
    });
    let anchor = kept.optional()?.unwrap_or_else(|| ClockAnchor::first(newest, now));
    let (anchor, jump) = if trust {
        (anchor.trust(newest, now), None)
    } else {
        let mut query = connection.prepare(
            "SELECT created_at FROM runs WHERE created_at > ?1 UNION SELECT updated_at FROM runs WHERE updated_at > ?1
             ORDER BY 1",
        )?;
        let recorded: Vec<i64> =
            query.query_map([anchor.trusted_at], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        anchor.check(anchor.reached(recorded, now), newest, now)
    };
    let ClockAnchor { trusted_at, doubted_since, discounted_until } = anchor;
    connection.execute(
        "INSERT OR REPLACE INTO clock (id, trusted_at, doubted_since, discounted_until) VALUES (1, ?1, ?2, ?3)",
        params![trusted_at, doubted_since, discounted_until],
    )?;
    Ok(jump)
}
