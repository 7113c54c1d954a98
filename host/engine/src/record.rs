//! Events as the journal keeps them.

use crate::{
    error::RunError,
    event::{Recorded, SCHEMA_VERSION, Timestamp},
};
use opcell_journal::{Record, RunId};

/// An event as the journal keeps it.
pub(crate) fn to_record(recorded: &Recorded) -> Record {
    // Events hold strings, numbers and their own types only; none of them can fail to be written.
    let payload = serde_json::to_string(&recorded.event).unwrap_or_default();
    Record {
        seq: recorded.seq,
        kind: recorded.event.kind().into(),
        version: SCHEMA_VERSION,
        at: recorded.at.0,
        payload: payload.into(),
    }
}

/// A record as the event that it holds.
pub(crate) fn from_record(run: &RunId, record: &Record) -> Result<Recorded, RunError> {
    let unreadable = |problem: String| RunError::Unreadable {
        run: run.clone(),
        seq: record.seq,
        kind: record.kind.to_string(),
        version: record.version,
        problem,
    };
    if record.version > SCHEMA_VERSION {
        return Err(unreadable(format!("this version reads schemas up to {SCHEMA_VERSION}")));
    }
    let event = serde_json::from_str(&record.payload).map_err(|error| unreadable(error.to_string()))?;
    Ok(Recorded { seq: record.seq, at: Timestamp(record.at), event })
}
