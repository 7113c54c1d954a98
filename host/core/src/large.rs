//! Large values, written once and named by their digest wherever else events mention them.
//!
//! The input of a run, a step's inputs, its output and the run's result are often the same value, or share most of it.
//! While an event is written inside of [`LargeValues::write`], each aggregate with [`LARGE`] bytes or more of its own
//! is put beside the event, once, and the event holds `{"$value": DIGEST}`. Reading inside of [`KnownValues::read`]
//! puts the value back, the same one everywhere.

mod limits;

pub use limits::{ReadLimits, memory_estimate};

use crate::wire;
use opcell_types::{
    Digest, Value,
    value::{MAX_BYTES, MAX_DEPTH},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    mem::take,
    sync::Arc,
};

/// Bytes of JSON from which a value is kept beside the events that mention it.
pub const LARGE: u64 = 16 << 10;

/// The amount of written values that is remembered: bytes of JSON, and number of values.
const REMEMBERED: (u64, usize) = (64 << 20, 256);

/// The key under which events name a value.
pub(crate) const VALUE: &str = "$value";

/// The text before a digest in an event's text.
const NAME_PREFIX: &str = "{\"$value\":\"";

/// A value that events name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeValue {
    /// Digest of the text.
    pub digest: Digest,
    /// The value as events hold values; parts of it may be large values again.
    pub text: Arc<str>,
}

/// The large values that a run has written.
#[derive(Debug, Default)]
pub struct LargeValues {
    /// By address: that of a value which is kept stays its own.
    known: HashMap<usize, (Value, Digest)>,
    bytes: u64,
    fresh: Vec<LargeValue>,
    /// `true` if only values that have been written before are named.
    no_more: bool,
}

thread_local! {
    static WRITING: RefCell<Option<LargeValues>> = const { RefCell::new(None) };
    static READING: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

impl LargeValues {
    /// JSON text that names large values, and those among them that no text before has named.
    ///
    /// # Errors
    /// The serializer's.
    pub fn write<T: Serialize + ?Sized>(&mut self, of: &T) -> Result<(String, Vec<LargeValue>), serde_json::Error> {
        let text = self.text_of(of)?;
        let fresh = std::mem::take(&mut self.fresh);
        if self.bytes > REMEMBERED.0 || self.known.len() > REMEMBERED.1 {
            *self = Self::default();
        }
        Ok((text, fresh))
    }

    /// JSON text that names no other large values than those that were written before.
    ///
    /// # Errors
    /// The serializer's.
    pub fn write_known<T: Serialize + ?Sized>(&mut self, of: &T) -> Result<String, serde_json::Error> {
        self.no_more = true;
        let text = self.text_of(of);
        self.no_more = false;
        text
    }

    fn text_of<T: Serialize + ?Sized>(&mut self, of: &T) -> Result<String, serde_json::Error> {
        WRITING.set(Some(std::mem::take(self)));
        let text = serde_json::to_string(of);
        *self = WRITING.take().unwrap_or_default();
        text
    }
}

/// The name of a value that is being written, if it has one.
pub(crate) fn name_of(value: &Value) -> Option<Digest> {
    if !is_large(value) {
        return None;
    }
    let address = value.address()?;
    let known = WRITING.with_borrow(|writing| {
        let writing = writing.as_ref()?;
        let known = writing.known.get(&address).map(|(_, digest)| digest.clone());
        (known.is_some() || !writing.no_more).then_some(known)
    });
    if let Some(digest) = known? {
        return Some(digest);
    }
    // Names what is large in it first.
    let text = wire::parts_to_json(value).ok()?;
    let digest: Digest = blake3::hash(text.as_bytes()).to_hex().as_str().parse().ok()?;
    WRITING.with_borrow_mut(|writing| {
        if let Some(writing) = writing {
            writing.bytes = writing.bytes.saturating_add(value.measure().bytes());
            writing.known.insert(address, (value.clone(), digest.clone()));
            writing.fresh.push(LargeValue { digest: digest.clone(), text: text.into() });
        }
    });
    Some(digest)
}

/// Returns `true` if an aggregate is large beside those parts of it that are large themselves.
fn is_large(value: &Value) -> bool {
    let bytes = value.measure().bytes();
    if bytes < LARGE {
        return false;
    }
    let large = |part: &Value| Some(part.measure().bytes()).filter(|bytes| *bytes >= LARGE);
    let parts: u64 = match value {
        Value::Array(items) => items.iter().filter_map(large).fold(0, u64::saturating_add),
        Value::Object(entries) => entries.values().filter_map(large).fold(0, u64::saturating_add),
        _ => return false,
    };
    bytes.saturating_sub(parts) >= LARGE
}

/// Large values that were read, by digest: no more of them than the limits allow.
#[derive(Debug)]
pub struct KnownValues {
    values: HashMap<Arc<str>, Value>,
    /// Those that the limits leave out.
    beyond: HashSet<Arc<str>>,
    limits: ReadLimits,
    /// The rest of the limits, for values that come.
    left: ReadLimits,
    /// `true` if the text that was read last named more than the limits allow.
    was_beyond: bool,
}

/// The names that the thread that reads a text looks up.
#[derive(Debug)]
struct Reading {
    values: HashMap<Arc<str>, Value>,
    beyond: HashSet<Arc<str>>,
    limits: ReadLimits,
    /// Bytes of JSON that the names in this text stand for, each counted wherever it is named.
    named_bytes: u64,
    /// `true` once the text named more than the limits allow.
    is_beyond: bool,
}

impl Default for KnownValues {
    fn default() -> Self {
        Self::within(ReadLimits::DRIVEN)
    }
}

impl KnownValues {
    /// None yet.
    #[must_use]
    pub fn within(limits: ReadLimits) -> Self {
        Self { values: HashMap::new(), beyond: HashSet::new(), limits, left: limits, was_beyond: false }
    }

    /// Bytes of text that values which come may still have.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.left.stored_bytes
    }

    /// The digests that a text names and that are not known yet.
    #[must_use]
    pub fn unknown_in(&self, text: &str) -> Vec<Digest> {
        let after = text.match_indices(NAME_PREFIX).filter_map(|(at, named)| text.get(at + named.len()..));
        let is_known = |name: &str| self.values.contains_key(name) || self.beyond.contains(name);
        let digests = after.filter_map(|rest| rest.split_once('"')).filter(|(name, _)| !is_known(name));
        digests.filter_map(|(name, _)| name.parse().ok()).collect()
    }

    /// Leaves values out that there is no room for.
    pub fn leave_out(&mut self, digests: impl IntoIterator<Item = Arc<str>>) {
        self.beyond.extend(digests);
    }

    /// Adds values that were read, in whatever order. What is not what its digest says, or names what is not there, is
    /// left out.
    pub fn add(&mut self, mut read: Vec<LargeValue>) {
        read.retain(|value| blake3::hash(value.text.as_bytes()).to_hex().as_str() == value.digest.as_str());
        // A digest covers those that the text names, so there is always one that names no other. Each round makes
        // values one level deeper, so that whatever is left after as many as a value has levels nests too deep.
        for _ in 0..=MAX_DEPTH {
            let before = read.len();
            let (ready, waiting): (Vec<_>, Vec<_>) =
                read.into_iter().partition(|value| self.unknown_in(&value.text).is_empty());
            for LargeValue { digest, text } in ready {
                self.add_one(digest.as_str().into(), &text);
            }
            read = waiting;
            if read.is_empty() || read.len() == before {
                return;
            }
        }
        self.leave_out(read.into_iter().map(|value| Arc::from(value.digest.as_str())));
    }

    fn add_one(&mut self, digest: Arc<str>, text: &str) {
        let (stored, memory) = (text.len() as u64, memory_estimate(text));
        if stored > self.left.stored_bytes || memory > self.left.memory_bytes {
            self.beyond.insert(digest);
            return;
        }
        let value = match self.read::<wire::Exact>(text) {
            Ok(wire::Exact(value)) => value,
            Err(_) if self.was_beyond => {
                self.beyond.insert(digest);
                return;
            }
            Err(_) => return,
        };
        self.left.stored_bytes -= stored;
        self.left.memory_bytes -= memory;
        let measure = value.measure();
        if measure.depth() > MAX_DEPTH || measure.bytes() > self.limits.event_bytes.min(16 * MAX_BYTES) {
            self.beyond.insert(digest);
        } else {
            self.values.insert(digest, value);
        }
    }

    /// Reads JSON text that names large values.
    ///
    /// # Errors
    /// The deserializer's, and when the text names a value that is not known, or one that is left out where the limits
    /// do not elide.
    pub fn read<T: DeserializeOwned>(&mut self, text: &str) -> Result<T, serde_json::Error> {
        self.read_counted(text).map(|(read, _)| read)
    }

    /// As [`Self::read`], with the bytes of JSON that the names in the text stand for.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_counted<T: DeserializeOwned>(&mut self, text: &str) -> Result<(T, u64), serde_json::Error> {
        let (values, beyond) = (take(&mut self.values), take(&mut self.beyond));
        READING.set(Some(Reading { values, beyond, limits: self.limits, named_bytes: 0, is_beyond: false }));
        let read = serde_json::from_str(text);
        let reading = READING.take();
        let named_bytes = reading.as_ref().map_or(0, |reading| reading.named_bytes);
        if let Some(reading) = reading {
            self.was_beyond = reading.is_beyond;
            (self.values, self.beyond) = (reading.values, reading.beyond);
        }
        read.map(|read| (read, named_bytes))
    }
}

/// The text in the place of a value that is left out.
pub const ELIDED: &str = "…";

/// The value that a name refers to; `None` where names mean nothing.
pub(crate) fn named(digest: &str) -> Option<Result<Value, String>> {
    READING.with_borrow_mut(|reading| {
        let reading = reading.as_mut()?;
        let limits = reading.limits;
        let Some(value) = reading.values.get(digest) else {
            return Some(match reading.beyond.contains(digest) {
                true if limits.elides => Ok(Value::from(ELIDED)),
                true => {
                    reading.is_beyond = true;
                    Err(format!("the value {digest} is larger than what is read of a run, or nests deeper"))
                }
                false => Err(format!("the value {digest} is not in the journal, or is damaged")),
            });
        };
        let bytes = reading.named_bytes.saturating_add(value.measure().bytes());
        if bytes > limits.event_bytes {
            return Some(match limits.elides {
                true => Ok(Value::from(ELIDED)),
                false => {
                    reading.is_beyond = true;
                    Err(format!("its values take more than {} MiB", limits.event_bytes >> 20))
                }
            });
        }
        reading.named_bytes = bytes;
        Some(Ok(value.clone()))
    })
}

/// Returns `true` while a text is read whose large values may be left out.
pub(crate) fn elides() -> bool {
    READING.with_borrow(|reading| reading.as_ref().is_some_and(|reading| reading.limits.elides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder(#[serde(with = "wire")] Value);

    fn rows(count: i64) -> Value {
        Value::array((0..count).map(|n| Value::object([("id", Value::from(n)), ("$value", Value::from("x"))])))
    }

    fn known(values: Vec<LargeValue>) -> KnownValues {
        let mut known = KnownValues::default();
        known.add(values);
        known
    }

    #[test]
    fn a_large_value_is_written_once_however_often_and_wherever_it_is_mentioned() {
        let rows = rows(2_000);
        let mut values = LargeValues::default();
        let (first, fresh) = values.write(&Holder(rows.clone())).unwrap();
        let (second, none) = values.write(&Holder(Value::object([("items", rows.clone())]))).unwrap();
        assert!(first.len() < 100 && second.len() < 120, "{first} {second}");
        assert_eq!((fresh.len(), none.len()), (1, 0));
        let mut known = known(fresh);
        let (a, b) = (known.read::<Holder>(&first).unwrap(), known.read::<Holder>(&second).unwrap());
        assert_eq!(a.0, rows);
        assert!(b.0.get("items").unwrap().is_same(&a.0), "what was one value is one again");
    }

    #[test]
    fn a_snapshot_names_what_events_have_named_and_nothing_else() {
        let (known_rows, other) = (rows(2_000), rows(2_001));
        let mut values = LargeValues::default();
        let (_, fresh) = values.write(&Holder(known_rows.clone())).unwrap();
        let state = Value::array([known_rows, other.clone()]);
        let text = values.write_known(&Holder(state.clone())).unwrap();
        assert!((text.len() as u64) < other.measure().bytes() + 100 + 4_000 * 14, "{}", text.len());
        assert_eq!(known(fresh).read::<Holder>(&text).unwrap().0, state);
    }

    #[test]
    fn large_parts_of_large_values_are_values_of_their_own() {
        let text = Value::from("x".repeat(20_000));
        let whole = Value::object([("rows", rows(2_000)), ("more", Value::array([rows(2_000), text.clone(), text]))]);
        let (written, fresh) = LargeValues::default().write(&Holder(whole.clone())).unwrap();
        assert!(fresh.len() >= 2, "{}", fresh.len());
        let mut reversed = fresh.clone();
        reversed.reverse();
        assert_eq!(known(reversed).read::<Holder>(&written).unwrap().0, whole);
    }

    #[test]
    fn a_value_that_is_not_what_its_digest_says_is_not_taken() {
        let (written, mut fresh) = LargeValues::default().write(&Holder(rows(2_000))).unwrap();
        fresh[0].text = "[]".into();
        let error = known(fresh).read::<Holder>(&written).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }

    #[test]
    fn small_values_that_look_like_names_stay_what_they_are() {
        let value = Value::object([("$value", Value::from("0".repeat(64)))]);
        let (written, fresh) = LargeValues::default().write(&Holder(value.clone())).unwrap();
        assert!(fresh.is_empty());
        assert_eq!(KnownValues::default().read::<Holder>(&written).unwrap().0, value);
    }

    #[test]
    fn events_of_before_that_had_no_names_are_read_as_they_were_written() {
        let text = format!(r#"{{"$value":"{}"}}"#, "0".repeat(64));
        assert_eq!(serde_json::from_str::<Holder>(&text).unwrap().0.to_json(), text);
    }

    /// A value that names another one `names` times, as a journal from elsewhere may hold it.
    fn naming(inner: &LargeValue, names: usize) -> LargeValue {
        let name = format!("{NAME_PREFIX}{}\"}}", inner.digest);
        let text = format!("[{}]", vec![name; names].join(","));
        LargeValue { digest: blake3::hash(text.as_bytes()).to_hex().as_str().parse().unwrap(), text: text.into() }
    }

    fn large(text: String) -> LargeValue {
        LargeValue { digest: blake3::hash(text.as_bytes()).to_hex().as_str().parse().unwrap(), text: text.into() }
    }

    fn name(of: &LargeValue) -> String {
        format!("{NAME_PREFIX}{}\"}}", of.digest)
    }

    #[test]
    fn values_that_name_each_other_twice_do_not_grow_beyond_what_one_event_may_say() {
        let mut all = vec![large("[1]".to_owned())];
        for at in 0..40 {
            all.push(naming(&all[at], 2));
        }
        let mut shown = KnownValues::within(ReadLimits::SHOWN);
        shown.add(all.clone());
        for value in &all {
            let read = shown.read::<Holder>(&name(value)).unwrap().0;
            assert!(read.measure().bytes() <= ReadLimits::SHOWN.event_bytes, "{:?}", read.measure());
        }
        assert!(shown.read::<Holder>(&name(&all[40])).unwrap().0.to_json().contains(ELIDED));
        let mut driven = KnownValues::within(ReadLimits::DECIDED);
        driven.add(all.clone());
        assert!(driven.read::<Holder>(&name(&all[40])).unwrap_err().to_string().contains("larger than what is read"));
    }

    #[test]
    fn one_event_that_names_a_value_very_often_is_bounded() {
        let value = large(format!("[{}]", vec!["0"; 1 << 20].join(",")));
        let text = format!("[{}]", vec![name(&value); 10_000].join(","));
        let mut shown = KnownValues::within(ReadLimits::SHOWN);
        shown.add(vec![value.clone()]);
        let (read, bytes) = shown.read_counted::<Holder>(&text).unwrap();
        assert!(bytes <= ReadLimits::SHOWN.event_bytes && read.0.measure().bytes() < bytes + 100_000, "{bytes}");
        let (first, last) = (&read.0.as_array().unwrap()[0], &read.0.as_array().unwrap()[1]);
        assert!(first.is_same(last), "what is shared stays shared");
        assert_eq!(read.0.as_array().unwrap()[9_999], Value::from(ELIDED));
    }

    #[test]
    fn values_that_nest_deeper_than_values_do_are_left_out() {
        let mut all = vec![large("[1]".to_owned())];
        for at in 0..2_000 {
            all.push(naming(&all[at], 1));
        }
        let mut shown = KnownValues::within(ReadLimits::SHOWN);
        shown.add(all.clone());
        for value in &all {
            assert!(shown.read::<Holder>(&name(value)).unwrap().0.measure().depth() <= MAX_DEPTH);
        }
        assert_eq!(shown.read::<Holder>(&name(&all[2_000])).unwrap().0, Value::from(ELIDED));
    }

    #[test]
    fn what_is_read_of_a_run_is_bounded_by_the_memory_that_it_takes() {
        let lists = |n: usize| large(format!("[{n},{}]", vec!["[]"; 1 << 20].join(",")));
        let all: Vec<_> = (0..20).map(lists).collect();
        assert!(all.iter().map(|value| value.text.len() as u64).sum::<u64>() < ReadLimits::SHOWN.stored_bytes);
        let mut shown = KnownValues::within(ReadLimits::SHOWN);
        shown.add(all.clone());
        let kept = all.iter().filter(|value| shown.values.contains_key(value.digest.as_str())).count();
        assert!((1..10).contains(&kept), "{kept}");
    }
}
