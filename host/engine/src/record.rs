//! Events as the journal keeps them.

use crate::error::RunError;
use opcell_core::{
    Recorded, State,
    event::SCHEMA_VERSION,
    id::Timestamp,
    large::{KnownValues, LargeValue, LargeValues, ReadLimits, memory_estimate},
    state::SNAPSHOT_VERSION,
};
use opcell_journal::{Journal, LazyPayload, LazyRecords, Payload, Record, RunId, Snapshot, StoredValue};
use opcell_types::value::MAX_DEPTH;
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

/// The number of records that are read at once.
const RECORDS_PER_PAGE: u64 = 10_000;

/// Bytes after which a page of events is full, however few there are: what their texts take in memory, and what their
/// values take when they are written.
const PAGE_BYTES: u64 = 64 << 20;

/// Bytes that the texts of all events of a run may take in memory, where it is read whole and a journal from elsewhere
/// may hold it: packs of one megabyte hold 250.
const HELD_BYTES: u64 = 512 << 20;

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
        Some((text, fresh)) => Payload::naming(text, fresh.into_iter().map(stored).collect()),
        None => recorded.event.to_json().into(),
    };
    with_payload(recorded, payload)
}

fn stored(value: LargeValue) -> StoredValue {
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
    /// Bytes that events may still take, where all of them are held.
    room: u64,
    /// Bytes that this reader charged for events.
    pub(crate) charged_bytes: u64,
}

impl<'a> Reader<'a> {
    /// For whoever drives the run.
    pub(crate) fn new(journal: &'a dyn Journal, run: &'a RunId) -> Self {
        Self { journal, run, known: KnownValues::within(ReadLimits::DRIVEN), room: u64::MAX, charged_bytes: 0 }
    }

    /// For whoever reads a run that may come from elsewhere.
    pub(crate) fn within(limits: ReadLimits, journal: &'a dyn Journal, run: &'a RunId) -> Self {
        Self { journal, run, known: KnownValues::within(limits), room: HELD_BYTES, charged_bytes: 0 }
    }

    /// As [`Self::within`], with what an earlier reader of the run left.
    pub(crate) fn resumed(left: ReadSoFar, journal: &'a dyn Journal, run: &'a RunId) -> Self {
        Self { journal, run, known: left.known, room: left.room, charged_bytes: 0 }
    }

    pub(crate) fn run(&self) -> &'a RunId {
        self.run
    }

    /// Returns the state that the next reader of the run continues with.
    pub(crate) fn left(self, is_end: bool) -> ReadSoFar {
        ReadSoFar { known: self.known, room: self.room, is_end }
    }

    /// The events of records, in order.
    pub(crate) async fn events(&mut self, records: &[Record]) -> Result<Vec<Recorded>, RunError> {
        self.find_values_of(records).await?;
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            self.charge(record)?;
            events.push(from_record(self.run, record, &mut self.known)?.0);
        }
        Ok(events)
    }

    /// The events of records, in order, up to the one with which a page is full.
    pub(crate) async fn page(&mut self, records: &[Record]) -> Result<Vec<Recorded>, RunError> {
        self.find_values_of(records).await?;
        let (mut events, mut bytes) = (Vec::with_capacity(records.len()), 0_u64);
        for record in records {
            let memory = self.charge(record)?;
            let (event, named) = from_record(self.run, record, &mut self.known)?;
            bytes = bytes.saturating_add(memory).saturating_add(named);
            if bytes > PAGE_BYTES && !events.is_empty() {
                self.room = self.room.saturating_add(memory);
                break;
            }
            events.push(event);
        }
        Ok(events)
    }

    /// Charges what an event takes in memory, unless this process holds it already.
    fn charge(&mut self, record: &Record) -> Result<u64, RunError> {
        if self.room == u64::MAX || is_held(record) {
            return Ok(0);
        }
        let memory = event_estimate(&record.payload);
        match self.room.checked_sub(memory) {
            Some(left) => self.room = left,
            None => return Err(RunError::TooLarge { run: self.run.clone(), seq: record.seq, bytes: HELD_BYTES }),
        }
        self.charged_bytes = self.charged_bytes.saturating_add(memory);
        Ok(memory)
    }

    async fn find_values_of(&mut self, records: &[Record]) -> Result<(), RunError> {
        let written = records.iter().filter(|record| !is_held(record));
        let naming = written.filter(|record| record.version >= NAMES_VALUES).map(|record| &*record.payload);
        self.find_values(naming.collect::<Vec<_>>()).await
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
        let mut room = self.known.room();
        // Each round finds values one level deeper.
        for _ in 0..=MAX_DEPTH {
            if wanted.is_empty() {
                break;
            }
            let digests: Vec<Arc<str>> = std::mem::take(&mut wanted).into_iter().collect();
            let values = self.journal.values(&digests, room).await?;
            self.known.leave_out(values.too_large);
            for value in values.found {
                let Ok(digest) = value.digest.parse() else { continue };
                room = room.saturating_sub(value.text.len() as u64);
                let inner = self.known.unknown_in(&value.text);
                wanted.extend(inner.iter().map(|digest| Arc::from(digest.as_str())));
                found.push(LargeValue { digest, text: value.text });
            }
            asked.extend(digests);
            wanted.retain(|digest| !asked.contains(digest));
        }
        self.known.leave_out(wanted);
        self.known.add(found);
        Ok(())
    }
}

/// The part of a run that was read, for reading on: its values stay the same ones, and its limits are the whole run's.
#[derive(Debug)]
pub struct ReadSoFar {
    known: KnownValues,
    room: u64,
    is_end: bool,
}

impl ReadSoFar {
    /// Nothing; what is read is looked at and not driven.
    #[must_use]
    pub fn nothing() -> Self {
        Self { known: KnownValues::within(ReadLimits::SHOWN), room: HELD_BYTES, is_end: false }
    }

    /// Returns `true` if the run had no more events than those that were read last.
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.is_end
    }

    /// Bytes that the texts of the events took so far.
    #[must_use]
    pub fn event_bytes(&self) -> u64 {
        HELD_BYTES.saturating_sub(self.room)
    }
}

/// Objects of an event that its own parts account for; what is beyond is elements of lists, such as messages.
const USUAL_OBJECTS: u64 = 16;

/// Bytes that an object of a list takes beyond the estimate of a value: it is read into a type with all its fields, and
/// the state has it as well.
const TYPED_OBJECT_BYTES: u64 = 256;

/// Bytes that an event and its part of the state take in memory at most, or nearly.
fn event_estimate(payload: &str) -> u64 {
    let objects = payload.as_bytes().chunks(1 << 14).map(|part| part.iter().filter(|byte| **byte == b'{').count());
    let objects = objects.sum::<usize>() as u64;
    memory_estimate(payload).saturating_add(objects.saturating_sub(USUAL_OBJECTS).saturating_mul(TYPED_OBJECT_BYTES))
}

/// Returns `true` if this process holds the event of a record, so that it is not turned into text and parsed again.
fn is_held(record: &Record) -> bool {
    record.payload.source::<Unwritten>().is_some()
}

/// A record as the event that it holds, with the bytes of JSON of the values that it names.
fn from_record(run: &RunId, record: &Record, known: &mut KnownValues) -> Result<(Recorded, u64), RunError> {
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
    if let Some(recorded) = record.payload.source::<Unwritten>().and_then(Unwritten::recorded) {
        return Ok((recorded.clone(), 0));
    }
    let read = match record.version {
        NAMES_VALUES.. => known.read_counted(&record.payload),
        _ => serde_json::from_str(&record.payload).map(|event| (event, 0)),
    };
    let (event, named) = read.map_err(|error| unreadable(error.to_string()))?;
    Ok((Recorded::new(record.seq, Timestamp(record.at), event), named))
}

pub(crate) fn fold(run: &RunId, state: &mut State, recorded: &Recorded) -> Result<(), RunError> {
    state.apply(recorded).map_err(|source| RunError::Replay { run: run.clone(), source })
}

/// The events of a run up to one of them.
pub(crate) async fn read_history(mut reader: Reader<'_>, up_to: u64) -> Result<Vec<Recorded>, RunError> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.seq);
        let limit = RECORDS_PER_PAGE.min(up_to - after);
        let records = match limit {
            0 => Vec::new(),
            _ => reader.journal.read(reader.run, after, limit).await?,
        };
        if records.is_empty() {
            return Ok(events);
        }
        events.extend(reader.events(&records).await?);
    }
}
