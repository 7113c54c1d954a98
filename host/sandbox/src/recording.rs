//! Recordings of the host calls of a cell, and calling a plugin again with them.
//!
//! A cell that is recorded runs as every other one does; each host call is noted with its answer, up to
//! [`MAX_BYTES`]. A cell that replays a recording reaches nothing of its host: whatever was not recorded ends it with
//! [`CellError::NotRecorded`](crate::CellError::NotRecorded). Grants are not asked, because what they refused is
//! recorded like every other answer.
//!
//! The clocks' readings and the seed of random numbers belong to the recording. Directories that are granted through
//! WASI do not: a replay has none of them.

mod clocks;
mod player;
mod recorder;

pub(crate) use clocks::{Clocks, Wasi};
pub(crate) use player::Player;
pub(crate) use recorder::Recorder;

use crate::{
    budget::{Exceeded, Interface},
    receipt::FileBytes,
    state::CellState,
};
use opcell_types::Denial;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::sync::Arc;

/// The most that a recording keeps, in bytes of JSON.
pub const MAX_BYTES: u64 = 1 << 20;

/// The maximum size of a call's arguments that are kept whole, in bytes of JSON; of more, size and digest are kept.
pub(crate) const MAX_GIVEN: usize = 64 << 10;

/// Readings that are kept of each clock.
pub(crate) const MAX_READINGS: usize = 4_096;

/// The host calls of one cell, with arguments and answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Recording {
    /// In the order in which they were made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<HostCall>,
    /// Calls that were made when the recording was full.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls_left_out: u64,
    /// Bytes of JSON of what was left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_left_out: u64,
    /// The seed of the plugin's random numbers, in hexadecimal; empty where they have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub random_seed: String,
    /// Readings of the wall clock, in nanoseconds since 1970.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wall_clock: Vec<u64>,
    /// Readings of the monotonic clock, in nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monotonic_clock: Vec<u64>,
    /// `true` if the plugin had directories through WASI, whose use is not recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preopens: bool,
}

/// One call of a function of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct HostCall {
    /// The function: `tools.call`, `files.read` and the like.
    pub call: String,
    /// The arguments.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub given: Value,
    /// The answer; absent where it was left out, or the cell ended before there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Bytes of JSON of an answer that was left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub answer_left_out: u64,
    /// The refusals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<Denial>,
    /// The cost of the call to the cell's budget.
    #[serde(skip_serializing_if = "Cost::is_zero")]
    pub cost: Cost,
}

/// The cost of a host call to the cell's budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cost {
    /// Calls: one, or none where another call had paid.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// Bytes handed to the guest.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_in: u64,
    /// Bytes handed to the host.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_out: u64,
    /// Bytes of files that were read.
    #[serde(skip_serializing_if = "is_zero")]
    pub read: u64,
    /// Bytes of files that were written.
    #[serde(skip_serializing_if = "is_zero")]
    pub written: u64,
    /// Refusals beyond those that are listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_denials: u64,
}

impl Cost {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The treatment of a cell's host calls.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Tape {
    /// They reach the host.
    #[default]
    Off,
    /// They reach the host, and are recorded.
    Record,
    /// They are answered from a recording, and reach nothing.
    Replay(Arc<Recording>),
}

/// A host call that a recording has no answer for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("host call {call} was not recorded{why}")]
pub struct NotRecorded {
    /// The function and what it was given, cut to a readable length.
    pub call: String,
    /// Empty, or what is known about it.
    pub why: String,
}

/// The tape of a cell while it runs.
#[derive(Debug)]
pub(crate) enum Running {
    Recorder(Recorder),
    Player(Player),
}

/// A host call that has begun.
#[derive(Debug)]
pub(crate) struct StartedCall {
    /// Its place in the recording; `None` where it is not recorded.
    at: Option<usize>,
    before: Account,
}

/// A cell's account at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    calls: u64,
    bytes_in: u64,
    bytes_out: u64,
    files: FileBytes,
    denials: usize,
    more_denials: u32,
}

/// The continuation of a host call.
pub(crate) enum Step<T> {
    /// The host answers it.
    Live(Option<StartedCall>),
    /// The recording did.
    Answered(T),
}

/// Bytes as recordings hold them: text where they are text.
pub(crate) fn bytes_to_json(bytes: &[u8]) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => serde_json::json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// Bytes that a recording holds.
#[must_use]
pub fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        other => STANDARD.decode(other.get("base64")?.as_str()?).ok(),
    }
}

/// Bytes that are recorded as [`bytes_to_json`] says.
pub(crate) mod as_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        super::bytes_to_json(bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        super::bytes_of(&value).ok_or_else(|| D::Error::custom("expected a string or {\"base64\": …}"))
    }
}

/// An answer that is bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bytes(#[serde(with = "as_bytes")] pub(crate) Vec<u8>);

impl CellState {
    /// Returns `true` if host calls are recorded or replayed.
    pub(crate) fn is_taped(&self) -> bool {
        self.tape.is_some()
    }

    /// Begins a host call that was given `given`; `None` where no tape runs.
    pub(crate) fn begin<T: DeserializeOwned>(
        &mut self,
        interface: Interface,
        call: &str,
        given: Option<Value>,
    ) -> wasmtime::Result<Step<T>> {
        let before = self.account();
        let player = match (&mut self.tape, given) {
            (Some(Running::Recorder(recorder)), Some(given)) => {
                return Ok(Step::Live(Some(StartedCall { at: recorder.begin(call, given), before })));
            }
            (Some(Running::Player(player)), Some(given)) => player.next(call, given),
            _ => return Ok(Step::Live(None)),
        };
        let found = match player {
            Ok(found) => found,
            Err(missing) => {
                // A call too many ends at its own limit, as it would have.
                self.budget.charge(interface, 0)?;
                return Err(self.missing(missing));
            }
        };
        let answer = found.answer.clone().map(serde_json::from_value::<T>);
        self.book(interface, &found)?;
        match answer {
            Some(Ok(answer)) => Ok(Step::Answered(answer)),
            Some(Err(error)) => {
                let why = format!(" as this version reads it: {error}");
                Err(self.missing(NotRecorded { call: player::shown(&found), why }))
            }
            None => {
                let why = match found.answer_left_out {
                    0 => ": the recorded cell ended before the call was answered".to_owned(),
                    bytes => format!(
                        " whole: its answer of {bytes} bytes was left out of the record, which has at most {MAX_BYTES}"
                    ),
                };
                Err(self.missing(NotRecorded { call: player::shown(&found), why }))
            }
        }
    }

    /// Ends a host call that the host answered; `None` where it ended the cell.
    pub(crate) fn end<T: Serialize>(&mut self, begun: Option<StartedCall>, answer: Option<&T>) {
        let Some(StartedCall { at: Some(at), before }) = begun else { return };
        let after = self.account();
        let mut denials = self.denials.listed.get(before.denials..).unwrap_or_default().to_vec();
        let mut more_denials = after.more_denials - before.more_denials;
        // The newest refusal explains a failure, so a replay must meet it too, also where the receipt only counts it.
        if let (1.., Some(last)) = (more_denials, self.denials.last()) {
            denials.push(last.clone());
            more_denials -= 1;
        }
        let Some(Running::Recorder(recorder)) = &mut self.tape else { return };
        let cost = Cost {
            calls: after.calls - before.calls,
            bytes_in: after.bytes_in - before.bytes_in,
            bytes_out: after.bytes_out - before.bytes_out,
            read: after.files.read - before.files.read,
            written: after.files.written - before.files.written,
            more_denials: u64::from(more_denials),
        };
        // Answers are texts, numbers and their own types; none of them is refused.
        let answer = answer.and_then(|answer| serde_json::to_value(answer).ok());
        recorder.end(at, answer, denials, cost);
    }

    /// Books what a recorded call cost, as if it were made.
    fn book(&mut self, interface: Interface, call: &HostCall) -> Result<(), Exceeded> {
        let bytes = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let cost = call.cost;
        if cost.calls > 0 {
            self.budget.charge(interface, bytes(cost.bytes_out))?;
        }
        self.file_bytes.read = self.file_bytes.read.saturating_add(cost.read);
        self.file_bytes.written = self.file_bytes.written.saturating_add(cost.written);
        for denial in &call.denials {
            self.denials.note(denial.clone());
        }
        self.denials.more = self.denials.more.saturating_add(u32::try_from(cost.more_denials).unwrap_or(u32::MAX));
        self.budget.give(bytes(cost.bytes_in))
    }

    /// Remembered, because not every import can end the cell at once.
    fn missing(&mut self, missing: NotRecorded) -> wasmtime::Error {
        if let Some(Running::Player(player)) = &mut self.tape {
            player.missing.get_or_insert_with(|| missing.clone());
        }
        missing.into()
    }

    /// The first host call that the recording had no answer for.
    pub(crate) fn not_recorded(&self) -> Option<&NotRecorded> {
        match &self.tape {
            Some(Running::Player(player)) => player.missing.as_ref(),
            _ => None,
        }
    }

    fn account(&self) -> Account {
        Account {
            calls: self.budget.calls.total(),
            bytes_in: self.budget.bytes_in,
            bytes_out: self.budget.bytes_out,
            files: self.file_bytes,
            denials: self.denials.listed.len(),
            more_denials: self.denials.more,
        }
    }
}

/// Makes a host call, or takes its answer from the recording: `taped!(self, Tools, "tools.call", given, live)`.
///
/// `given` is evaluated only where a tape runs; `live` gives a `wasmtime::Result` and is what books the call.
macro_rules! taped {
    ($view:ident, $interface:ident, $call:literal, $given:expr, $live:expr) => {{
        let given = $view.0.is_taped().then(|| $given);
        match $view.0.begin($crate::budget::Interface::$interface, $call, given)? {
            $crate::recording::Step::Answered(answer) => Ok(answer),
            $crate::recording::Step::Live(begun) => {
                let answer = $live;
                $view.0.end(begun, answer.as_ref().ok());
                answer
            }
        }
    }};
}
pub(crate) use taped;
