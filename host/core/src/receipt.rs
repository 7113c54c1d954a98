//! Receipts: what calls used and touched, and how they ended.
//!
//! A [`Receipt`] is whatever the one who performed the call says. A [`CallReceipt`] is that of a call that no cell
//! answers for: of a tool of the host or of an MCP server, and of whatever was stopped.
//!
//! A cell's receipt is the sandbox's own. Where the two say the same, they say it under the same name: `operation`,
//! `duration-us`, `bytes-in`, `bytes-out`, `denials`, `error`. Only this one has a `status`. Arguments and results are
//! measured and never kept.

use crate::{failure::Failure, outcome::Used};
use opcell_types::{Denial, Touched, Value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Maximum characters of a name that others chose.
const MAX_NAME_CHARS: usize = 100;

/// A receipt that is made into a value when it is first read: most never are.
pub trait LazyReceipt: fmt::Debug + Send + Sync {
    /// The receipt as a value; the same every time.
    fn to_value(&self) -> Value;

    /// Returns the number of functions of the host that a cell called; `None` where no cell ran.
    fn host_calls(&self) -> Option<u64>;
}

/// The receipt of a call. Reads as a value.
///
/// Beside it there may be a record: what a cell's host calls were given and answered, for calling the plugin again. It
/// is written with the receipt, and is not part of what the receipt reads as. Its shape belongs to whoever performed
/// the call.
#[derive(Clone)]
pub struct Receipt {
    repr: Repr,
    record: Option<Arc<Value>>,
}

/// The name of the record in a receipt as it is written.
const RECORD: &str = "recorded";

#[derive(Clone)]
enum Repr {
    Value(Arc<Value>),
    Deferred(Arc<Deferred<dyn LazyReceipt>>),
}

struct Deferred<T: ?Sized> {
    value: OnceLock<Value>,
    of: T,
}

impl Receipt {
    /// A receipt that is made into a value when it is first read.
    #[must_use]
    pub fn deferred(of: impl LazyReceipt + 'static) -> Self {
        Self { repr: Repr::Deferred(Arc::new(Deferred { value: OnceLock::new(), of })), record: None }
    }

    /// The same receipt with a record beside it.
    #[must_use]
    pub fn with_record(self, record: Value) -> Self {
        Self { record: Some(Arc::new(record)), ..self }
    }

    /// Returns the record of the call.
    #[must_use]
    pub fn record(&self) -> Option<&Value> {
        self.record.as_deref()
    }

    /// The receipt alone, as states and views hold it.
    #[must_use]
    pub fn without_record(&self) -> Self {
        Self { repr: self.repr.clone(), record: None }
    }

    /// Returns the usage of the run that the call started, if it started one. No cell does, and its receipt is not made
    /// for that.
    #[must_use]
    pub fn used_by_started_run(&self) -> Option<Used> {
        match &self.repr {
            Repr::Deferred(deferred) if deferred.of.host_calls().is_some() => None,
            _ => used_by_started_run(self),
        }
    }

    /// Returns the number of tool calls that a program made, which count as those of its session do.
    #[must_use]
    pub fn inner_calls(&self) -> u64 {
        match &self.repr {
            Repr::Value(receipt) => receipt.get(INNER_CALLS).map_or(0, count),
            // Of a cell; a program's is inside the receipt of its call.
            Repr::Deferred(_) => 0,
        }
    }

    /// Returns the number of functions of the host that the receipt's cell called; `None` where no cell ran.
    #[must_use]
    pub fn host_calls(&self) -> Option<u64> {
        match &self.repr {
            Repr::Value(receipt) => cell_of(receipt).map(|cell| match cell.get("host-calls") {
                Some(Value::Object(calls)) => calls.values().map(count).sum(),
                Some(calls) => count(calls),
                None => 0,
            }),
            Repr::Deferred(deferred) => deferred.of.host_calls(),
        }
    }
}

fn count(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_f64().max(0.0) as u64,
        _ => 0,
    }
}

impl Deref for Receipt {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &self.repr {
            Repr::Value(value) => value,
            Repr::Deferred(deferred) => deferred.value.get_or_init(|| deferred.of.to_value()),
        }
    }
}

impl From<Value> for Receipt {
    fn from(value: Value) -> Self {
        Self { repr: Repr::Value(Arc::new(value)), record: None }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        **self == **other && self.record == other.record
    }
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(record) = &self.record {
            let mut written = match &**self {
                Value::Object(entries) => entries.clone(),
                _ => Default::default(),
            };
            written.insert(RECORD, (**record).clone());
            return Value::Object(written).serialize(serializer);
        }
        match &self.repr {
            // Written and not kept: a run may have a hundred thousand of them.
            Repr::Deferred(deferred) if deferred.value.get().is_none() => deferred.of.to_value().serialize(serializer),
            _ => (**self).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Receipt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let record = match &mut value {
            Value::Object(entries) if entries.contains_key(RECORD) => entries.remove(RECORD),
            _ => None,
        };
        Ok(Self { record: record.map(Arc::new), ..Self::from(value) })
    }
}

/// A receipt that may be there, as snapshots hold it: `[]` or `[receipt]`.
pub(crate) mod option {
    use super::Receipt;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(receipt: &Option<Receipt>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(receipt)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Receipt>, D::Error> {
        Ok(Vec::<Receipt>::deserialize(deserializer)?.pop())
    }
}

/// The provider of a tool. Written `host`, `mcp:SERVER` or `plugin:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// The host itself, or the program that it is part of.
    Host,
    /// An MCP server of the project.
    Mcp(Arc<str>),
    /// A plugin, in a cell.
    Plugin(Arc<str>),
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Mcp(server) => write!(f, "mcp:{server}"),
            Self::Plugin(plugin) => write!(f, "plugin:{plugin}"),
        }
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once(':') {
            Some(("mcp", server)) => Ok(Self::Mcp(server.into())),
            Some(("plugin", plugin)) => Ok(Self::Plugin(plugin.into())),
            None if text == "host" => Ok(Self::Host),
            _ => Err(serde::de::Error::custom("expected `host`, `mcp:SERVER` or `plugin:NAME`")),
        }
    }
}

/// The status that a call ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CallStatus {
    /// With a result.
    Completed,
    /// With a failure of its own.
    Failed,
    /// A rule denied it.
    Denied,
    /// Opcell stopped it after it had begun; its effects are unknown.
    Stopped,
    /// Opcell stopped it before it began.
    NotStarted,
}

/// The receipt of one call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CallReceipt {
    /// The name under which the tool was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The operation or judge that a step called; only if the call was stopped, because otherwise its cell or its tool
    /// is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Arc<str>>,
    /// The provider of the tool, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Its status at the end.
    pub status: CallStatus,
    /// The failure's kind, or the reason why the call was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// Microseconds from the request to the end.
    pub duration_us: u64,
    /// Bytes of the arguments, as JSON.
    pub bytes_in: u64,
    /// Bytes of the whole result, as text.
    pub bytes_out: u64,
    /// `true` if the caller got only a part of the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The denials, with their remedies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// Requests made and files used.
    #[serde(default, skip_serializing_if = "Touched::is_empty")]
    pub touched: Touched,
    /// The run that the call started, with its use, which also counts in the caller's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Value>,
    /// The tool calls that a program made, which count as those of its session do.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inner_calls: u64,
    /// The receipt of the cell that performed the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CallReceipt {
    /// Begins the receipt of a tool that is about to be called.
    #[must_use]
    pub fn of_tool(tool: &str, provider: Option<Provider>, arguments: &Value) -> Self {
        Self { tool: Some(name(tool)), provider, ..Self::new(arguments) }
    }

    /// Begins the receipt of an operation or a judge that a step calls.
    #[must_use]
    pub fn of_operation(operation: &str, arguments: &Value) -> Self {
        Self { operation: Some(name(operation)), ..Self::new(arguments) }
    }

    fn new(arguments: &Value) -> Self {
        Self {
            tool: None,
            operation: None,
            provider: None,
            status: CallStatus::NotStarted,
            error: None,
            duration_us: 0,
            bytes_in: bytes(arguments),
            bytes_out: 0,
            truncated: false,
            denials: Vec::new(),
            touched: Touched::default(),
            started: None,
            inner_calls: 0,
            receipt: None,
        }
    }

    /// It ended: with a result of this many bytes, or with a failure. `own`: what whoever performed it says.
    #[must_use]
    pub fn ended(mut self, took: Duration, result: Result<u64, &Failure>, own: Option<Receipt>) -> Self {
        self.duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.started = own.as_ref().and_then(|own| own.get(STARTED).cloned());
        self.receipt = own.filter(|own| own.host_calls().is_some());
        match result {
            Ok(bytes) => (self.status, self.bytes_out) = (CallStatus::Completed, bytes),
            Err(failure) => {
                // What a plugin says of its own failure is not the host's word; its cell's receipt is.
                let kind = match &self.receipt {
                    Some(cell) => cell.get("error").and_then(Value::as_str).unwrap_or("failed").into(),
                    None => {
                        self.denials.extend(failure.denial.as_deref().cloned());
                        failure.reason.clone()
                    }
                };
                self.status = match kind.as_ref() {
                    _ if !self.denials.is_empty() => CallStatus::Denied,
                    "denied" => CallStatus::Denied,
                    "cancelled" => CallStatus::Stopped,
                    _ => CallStatus::Failed,
                };
                self.error = Some(kind);
            }
        }
        self
    }

    /// It was stopped, some milliseconds after it began.
    #[must_use]
    pub fn stopped(self, after_ms: f64, why: &str) -> Self {
        let duration_us = (after_ms.max(0.0) * 1000.0) as u64;
        Self { status: CallStatus::Stopped, error: Some(why.into()), duration_us, ..self }
    }

    /// It was stopped before it began.
    #[must_use]
    pub fn not_started(self, why: &str) -> Self {
        Self { status: CallStatus::NotStarted, error: Some(why.into()), ..self }
    }

    /// Adds the resources that it touched outside of itself.
    #[must_use]
    pub fn touching(self, touched: Touched) -> Self {
        Self { touched, ..self }
    }

    /// Adds the number of tool calls that it made as a program.
    #[must_use]
    pub fn with_inner_calls(self, inner_calls: u64) -> Self {
        Self { inner_calls, ..self }
    }

    /// Records whether less than the whole result was passed on.
    #[must_use]
    pub fn truncated(self, truncated: bool) -> Self {
        Self { truncated, ..self }
    }

    /// As replies and journals hold it.
    #[must_use]
    pub fn to_receipt(&self) -> Option<Receipt> {
        let Some(record) = self.receipt.as_ref().and_then(Receipt::record) else {
            return Value::of(self).ok().map(Receipt::from);
        };
        let plain = Self { receipt: self.receipt.as_ref().map(Receipt::without_record), ..self.clone() };
        Some(Receipt::from(Value::of(&plain).ok()?).with_record(record.clone()))
    }
}

/// The key under which a receipt has the number of tool calls that a program made.
const INNER_CALLS: &str = "inner-calls";

/// The key under which a receipt has the run that a call started.
const STARTED: &str = "started";

/// Returns the receipt that a tool that starts a run gives back, for [`CallReceipt::ended`].
#[must_use]
pub fn of_started_run(run: &str, used: &Used) -> Option<Receipt> {
    let used = Value::of(used).ok()?;
    Some(Receipt::from(Value::object([(STARTED, Value::object([("run", Value::from(run)), ("used", used)]))])))
}

/// Returns the usage of the run that a call started, as its receipt has it.
#[must_use]
pub fn used_by_started_run(receipt: &Value) -> Option<Used> {
    let used = receipt.get(STARTED)?.get("used")?;
    used.to().ok()
}

/// Bytes of a value that is handed over: a text as it is, everything else as JSON.
#[must_use]
pub fn bytes(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.to_json().len(), str::len) as u64
}

/// Returns `true` if a receipt is of a call rather than of a cell.
#[must_use]
pub fn is_of_call(receipt: &Value) -> bool {
    // Tools' receipts in older stores have no status.
    receipt.get("status").or_else(|| receipt.get("tool")).is_some()
}

/// The cell's receipt in a receipt, if a cell ran: itself, or what a tool's holds under `receipt`.
#[must_use]
pub fn cell_of(receipt: &Value) -> Option<&Value> {
    if is_of_call(receipt) { receipt.get("receipt") } else { Some(receipt) }
}

fn name(name: &str) -> Arc<str> {
    name.chars().take(MAX_NAME_CHARS).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Counts how often it was made into a value.
    #[derive(Debug)]
    struct Counted(Arc<AtomicU64>, Option<u64>);

    impl LazyReceipt for Counted {
        fn to_value(&self) -> Value {
            self.0.fetch_add(1, Ordering::Relaxed);
            Value::object([(STARTED, Value::object([("used", Value::of(&Used::default()).unwrap_or_default())]))])
        }

        fn host_calls(&self) -> Option<u64> {
            self.1
        }
    }

    #[test]
    fn a_record_is_written_with_its_receipt_and_is_not_part_of_it() {
        let plain = r#"{"plugin":"p","host-calls":{"tools":1}}"#;
        let old: Receipt = serde_json::from_str(plain).unwrap();
        assert_eq!((old.record(), serde_json::to_string(&old).unwrap().as_str()), (None, plain));
        let record = Value::object([("calls", Value::array([]))]);
        let cell = old.clone().with_record(record.clone());
        assert_eq!(cell.to_json(), plain);
        let written = serde_json::to_string(&cell).unwrap();
        assert_eq!(written, r#"{"plugin":"p","host-calls":{"tools":1},"recorded":{"calls":[]}}"#);
        let read: Receipt = serde_json::from_str(&written).unwrap();
        assert_eq!((read.record(), &read), (Some(&record), &cell));
        assert_eq!(read.without_record(), old);
        // A tool's receipt takes over the record of the cell that performed it.
        let tool = CallReceipt::of_tool("t", None, &Value::Null).ended(Duration::ZERO, Ok(1), Some(cell));
        let tool = tool.to_receipt().unwrap();
        assert_eq!(tool.record(), Some(&record));
        assert_eq!((tool.get("receipt").unwrap().to_json().as_str(), tool.host_calls()), (plain, Some(1)));
    }

    #[test]
    fn the_receipt_of_a_cell_is_not_made_to_find_a_run_that_it_cannot_have_started() {
        let made = Arc::new(AtomicU64::new(0));
        let cell = Receipt::deferred(Counted(made.clone(), Some(3)));
        assert_eq!(cell.used_by_started_run(), None);
        assert_eq!(made.load(Ordering::Relaxed), 0);
        let other = Receipt::deferred(Counted(made.clone(), None));
        assert_eq!(other.used_by_started_run(), Some(Used::default()));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
