//! Notes host calls, up to a size.

use super::{Clocks, Cost, HostCall, MAX_BYTES, MAX_GIVEN, Recording};
use opcell_types::Denial;
use serde_json::Value;

/// The cost of an entry beside its texts: a flood of empty calls is bounded too.
const ENTRY: u64 = 64;

/// The recording of a cell while it runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    bytes_left: u64,
    clocks: Option<Clocks>,
}

impl Recorder {
    /// `clocks` note their readings themselves.
    pub(crate) fn new(clocks: Option<Clocks>, preopens: bool) -> Self {
        Self { recording: Recording { preopens, ..Recording::default() }, bytes_left: MAX_BYTES, clocks }
    }

    /// The place of a call that begins, if there is one left for it.
    pub(super) fn begin(&mut self, call: &str, given: Value) -> Option<usize> {
        let given = shortened(given);
        let bytes = ENTRY + size(&given);
        if !self.take(bytes) {
            self.recording.calls_left_out += 1;
            return None;
        }
        self.recording.calls.push(HostCall { call: call.to_owned(), given, ..HostCall::default() });
        Some(self.recording.calls.len() - 1)
    }

    pub(super) fn end(&mut self, at: usize, answer: Option<Value>, denials: Vec<Denial>, cost: Cost) {
        let bytes = answer.as_ref().map_or(0, size) + denials.iter().map(denial_size).sum::<u64>();
        let fits = self.take(bytes);
        let Some(call) = self.recording.calls.get_mut(at) else { return };
        call.cost = cost;
        if fits {
            (call.answer, call.denials) = (answer, denials);
        } else {
            call.answer_left_out = bytes;
        }
    }

    fn take(&mut self, bytes: u64) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                true
            }
            None => {
                self.recording.bytes_left_out = self.recording.bytes_left_out.saturating_add(bytes);
                false
            }
        }
    }

    pub(crate) fn into_recording(self) -> Recording {
        let mut recording = self.recording;
        if let Some(clocks) = self.clocks {
            clocks.finish(&mut recording);
        }
        recording
    }
}

/// Returns a call's arguments in the form in which recordings hold them.
pub(super) fn shortened(mut given: Value) -> Value {
    // JSON says nothing about the order of members.
    given.sort_all_objects();
    let text = given.to_string();
    if text.len() <= MAX_GIVEN {
        return given;
    }
    serde_json::json!({ "bytes": text.len(), "blake3": blake3::hash(text.as_bytes()).to_hex().as_str() })
}

fn size(value: &Value) -> u64 {
    value.to_string().len() as u64
}

fn denial_size(denial: &Denial) -> u64 {
    serde_json::to_string(denial).map_or(0, |text| text.len() as u64)
}
