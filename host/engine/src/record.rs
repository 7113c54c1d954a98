//! Events as the journal keeps them.

use crate::{
    error::RunError,
    event::{Recorded, SCHEMA_VERSION, Timestamp},
    state::{SNAPSHOT_VERSION, State},
};
use opcell_journal::{Payload, Record, RunId, Snapshot};
use std::sync::Arc;

/// An event as the journal keeps it.
pub(crate) fn to_record(recorded: &Recorded) -> Record {
    with_payload(recorded, recorded.event.to_json().into())
}

/// The same for a journal that may never read the text.
pub(crate) fn to_unread_record(recorded: &Arc<Recorded>) -> Record {
    with_payload(recorded, Payload::later(recorded.clone()))
}

fn with_payload(recorded: &Recorded, payload: Payload) -> Record {
    Record {
        seq: recorded.seq,
        kind: recorded.event.kind().into(),
        version: SCHEMA_VERSION,
        at: recorded.at.0,
        payload,
    }
}

/// A state as the journal keeps it; none for one that cannot be written.
pub(crate) fn to_snapshot(state: &State) -> Option<Snapshot> {
    let payload = serde_json::to_string(state).ok()?;
    Some(Snapshot { seq: state.seq(), version: SNAPSHOT_VERSION, payload: payload.into() })
}

/// The state that a snapshot holds; none where another version wrote it.
pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Option<State> {
    let read = || serde_json::from_str::<State>(&snapshot.payload).ok();
    let state = (snapshot.version == SNAPSHOT_VERSION).then(read).flatten()?;
    (state.seq() == snapshot.seq).then_some(state)
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
    Ok(Recorded::new(record.seq, Timestamp(record.at), event))
}
