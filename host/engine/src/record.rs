//! Events as the journal keeps them.

use crate::error::RunError;
use opcell_core::{
    Recorded, State,
    event::SCHEMA_VERSION,
    id::Timestamp,
    large::{KnownValues, LargeValue, LargeValues},
    state::SNAPSHOT_VERSION,
};
use opcell_journal::{Journal, LazyPayload, LazyRecords, Payload, Record, RunId, Snapshot, StoredValue};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

/// The number of records that are read at once.
const RECORDS_PER_PAGE: u64 = 10_000;

/// Events in order that become records when they are first read, which in memory most never are.
#[derive(Debug)]
pub(crate) struct Unread(Vec<Recorded>);

impl Unread {
    pub(crate) fn new(events: Vec<Recorded>) -> Arc<Self> {
        Arc::new(Self(events))
    }

    pub(crate) fn events(&self) -> &[Recorded] {
        &self.0
    }

    pub(crate) fn into_events(self) -> Vec<Recorded> {
        self.0
    }

    pub(crate) fn records(self: &Arc<Self>) -> Vec<Record> {
        (0..self.0.len()).filter_map(|at| self.at(at)).collect()
    }

    fn at(self: &Arc<Self>, at: usize) -> Option<Record> {
        let payload = Payload::deferred(Arc::new(Unwritten { events: Arc::clone(self), at, text: OnceLock::new() }));
        Some(with_payload(self.0.get(at)?, payload))
    }
}

impl LazyRecords for Unread {
    fn first(&self) -> u64 {
        self.0.first().map_or(0, |first| first.seq)
    }

    fn last(&self) -> u64 {
        self.0.last().map_or(0, |last| last.seq)
    }

    fn last_at(&self) -> i64 {
        self.0.last().map_or(0, |last| last.at.0)
    }

    fn record(self: Arc<Self>, seq: u64) -> Option<Record> {
        let at = seq.checked_sub(LazyRecords::first(self.as_ref()))?;
        self.at(usize::try_from(at).ok()?)
    }
}

/// An event whose text is made when it is first read.
#[derive(Debug)]
struct Unwritten {
    events: Arc<Unread>,
    at: usize,
    text: OnceLock<Box<str>>,
}

impl Unwritten {
    fn recorded(&self) -> Option<&Recorded> {
        self.events.0.get(self.at)
    }
}

impl LazyPayload for Unwritten {
    fn text(&self) -> &str {
        self.text.get_or_init(|| self.recorded().map(|recorded| recorded.event.to_json()).unwrap_or_default().into())
    }

    fn source(&self) -> &dyn std::any::Any {
        self
    }
}

/// The first version of events that name large values.
const NAMES_VALUES: u32 = 3;

/// An event as the journal keeps it. `values`: those that the run has written, if the journal keeps values.
pub(crate) fn to_record(recorded: &Recorded, values: Option<&mut LargeValues>) -> Record {
    let named = values.and_then(|values| values.write(&recorded.event).ok());
    let payload = match named {
        Some((text, fresh)) => Payload::naming(text, fresh.into_iter().map(kept).collect()),
        None => recorded.event.to_json().into(),
    };
    with_payload(recorded, payload)
}

fn kept(value: LargeValue) -> StoredValue {
    StoredValue { digest: value.digest.as_str().into(), text: value.text }
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
pub(crate) fn to_snapshot(state: &State, values: Option<&mut LargeValues>) -> Option<Snapshot> {
    let payload = match values {
        Some(values) => values.write_known(state).ok()?,
        None => serde_json::to_string(state).ok()?,
    };
    Some(Snapshot { seq: state.seq(), version: SNAPSHOT_VERSION, payload: payload.into() })
}

/// Reads the events of records, and the values that they name.
pub(crate) struct Reader<'a> {
    journal: &'a dyn Journal,
    run: &'a RunId,
    known: KnownValues,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(journal: &'a dyn Journal, run: &'a RunId) -> Self {
        Self { journal, run, known: KnownValues::default() }
    }

    /// The events of records, in order.
    pub(crate) async fn events(&mut self, records: &[Record]) -> Result<Vec<Recorded>, RunError> {
        let written = records.iter().filter(|record| record.payload.source::<Unwritten>().is_none());
        let naming = written.filter(|record| record.version >= NAMES_VALUES).map(|record| &*record.payload);
        self.find_values(naming.collect::<Vec<_>>()).await?;
        records.iter().map(|record| from_record(self.run, record, &mut self.known)).collect()
    }

    /// The state that a snapshot holds; none where another version wrote it.
    pub(crate) async fn state(&mut self, snapshot: &Snapshot) -> Result<Option<State>, RunError> {
        if snapshot.version != SNAPSHOT_VERSION {
            return Ok(None);
        }
        self.find_values([&*snapshot.payload]).await?;
        let state: Option<State> = self.known.read(&snapshot.payload).ok();
        Ok(state.filter(|state| state.seq() == snapshot.seq))
    }

    /// Reads the values that texts name, those that these name, and so on.
    async fn find_values(&mut self, texts: impl IntoIterator<Item = &str>) -> Result<(), RunError> {
        let mut wanted: BTreeSet<Arc<str>> = BTreeSet::new();
        for text in texts {
            wanted.extend(self.known.unknown_in(text).iter().map(|digest| Arc::from(digest.as_str())));
        }
        let (mut asked, mut found) = (BTreeSet::new(), Vec::new());
        while !wanted.is_empty() {
            let digests: Vec<Arc<str>> = std::mem::take(&mut wanted).into_iter().collect();
            for value in self.journal.values(&digests).await? {
                let Ok(digest) = value.digest.parse() else { continue };
                let inner = self.known.unknown_in(&value.text);
                wanted.extend(inner.iter().map(|digest| Arc::from(digest.as_str())));
                found.push(LargeValue { digest, text: value.text });
            }
            asked.extend(digests);
            wanted.retain(|digest| !asked.contains(digest));
        }
        self.known.add(found);
        Ok(())
    }
}

/// A record as the event that it holds.
fn from_record(run: &RunId, record: &Record, known: &mut KnownValues) -> Result<Recorded, RunError> {
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
    // An event that this process still holds is not turned into text and parsed again.
    if let Some(recorded) = record.payload.source::<Unwritten>().and_then(Unwritten::recorded) {
        return Ok(recorded.clone());
    }
    let read = match record.version {
        NAMES_VALUES.. => known.read(&record.payload),
        _ => serde_json::from_str(&record.payload),
    };
    let event = read.map_err(|error| unreadable(error.to_string()))?;
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
    let mut reader = Reader::new(journal.as_ref(), run);
    loop {
        let after = events.last().map_or(0, |last| last.seq);
        let limit = RECORDS_PER_PAGE.min(up_to - after);
        let records = if limit == 0 { Vec::new() } else { journal.read(run, after, limit).await? };
        if records.is_empty() {
            return Ok(events);
        }
        events.extend(reader.events(&records).await?);
    }
}
