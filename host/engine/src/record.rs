//! Events as the journal keeps them.

use crate::error::RunError;
use opcell_core::{Recorded, State, event::SCHEMA_VERSION, id::Timestamp, state::SNAPSHOT_VERSION};
use opcell_journal::{Journal, LazyPayload, Payload, Record, RunId, Snapshot};
use std::sync::{Arc, OnceLock};

/// How many records are read at once.
const PAGE: u64 = 10_000;

/// An event whose text is made when it is first read.
#[derive(Debug)]
struct Unwritten {
    recorded: Arc<Recorded>,
    text: OnceLock<Box<str>>,
}

impl LazyPayload for Unwritten {
    fn text(&self) -> &str {
        self.text.get_or_init(|| self.recorded.event.to_json().into())
    }
}

/// An event as the journal keeps it.
pub(crate) fn to_record(recorded: &Recorded) -> Record {
    with_payload(recorded, recorded.event.to_json().into())
}

/// The same for a journal that may never read the text.
pub(crate) fn to_lazy_record(recorded: &Arc<Recorded>) -> Record {
    with_payload(recorded, Payload::deferred(Arc::new(Unwritten { recorded: recorded.clone(), text: OnceLock::new() })))
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

pub(crate) fn fold(run: &RunId, state: &mut State, recorded: &Recorded) -> Result<(), RunError> {
    state.apply(recorded).map_err(|source| RunError::Replay { run: run.clone(), source })
}

pub(crate) async fn read_history(
    journal: &Arc<dyn Journal>,
    run: &RunId,
    up_to: u64,
) -> Result<Vec<Recorded>, RunError> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.seq);
        let limit = PAGE.min(up_to - after);
        let records = if limit == 0 { Vec::new() } else { journal.read(run, after, limit).await? };
        if records.is_empty() {
            return Ok(events);
        }
        for record in &records {
            events.push(from_record(run, record)?);
        }
    }
}
