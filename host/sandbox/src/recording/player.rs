//! Answers host calls from a recording: each answer once, to the call that was given the same.

use super::{HostCall, NotRecorded, Recording, recorder::shortened};
use opcell_types::text::printable;
use serde_json::Value;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Characters of a call that an error shows.
const SHOWN: usize = 300;

/// A recording while a cell replays it.
#[derive(Debug)]
pub(crate) struct Player {
    recording: Arc<Recording>,
    /// Calls that have not been made yet, by function and what they were given.
    left: HashMap<(String, String), VecDeque<usize>>,
    pub(super) missing: Option<NotRecorded>,
}

impl Player {
    pub(crate) fn new(recording: Arc<Recording>) -> Self {
        let mut left: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (at, call) in recording.calls.iter().enumerate() {
            left.entry((call.call.clone(), call.given.to_string())).or_default().push_back(at);
        }
        Self { recording, left, missing: None }
    }

    pub(super) fn next(&mut self, call: &str, given: Value) -> Result<HostCall, NotRecorded> {
        let given = shortened(given);
        let key = (call.to_owned(), given.to_string());
        let next = self.left.get_mut(&key).and_then(VecDeque::pop_front);
        if let Some(found) = next.and_then(|at| self.recording.calls.get(at)) {
            return Ok(found.clone());
        }
        let made = self.recording.calls.iter().filter(|known| known.call == call && known.given == given).count();
        let times = if made > 0 { format!(" more than {made} times") } else { String::new() };
        let full = match self.recording.calls_left_out {
            0 => String::new(),
            left_out => format!("; {left_out} calls were left out because the record was full"),
        };
        let why = times + &full;
        Err(NotRecorded { call: shown_as(call, &given), why })
    }

    /// The recording with those calls only that were not made.
    pub(crate) fn into_rest(self) -> Recording {
        let mut rest: Vec<usize> = self.left.into_values().flatten().collect();
        rest.sort_unstable();
        let calls = rest.into_iter().filter_map(|at| self.recording.calls.get(at).cloned()).collect();
        Recording { calls, ..Recording::default() }
    }
}

pub(super) fn shown(call: &HostCall) -> String {
    shown_as(&call.call, &call.given)
}

/// A call for people: `tools.call ["http.fetch", {…}]`.
pub(super) fn shown_as(call: &str, given: &Value) -> String {
    let given = if given.is_null() { String::new() } else { format!(" {given}") };
    format!("`{}`", printable(&format!("{call}{given}"), SHOWN))
}

impl HostCall {
    /// For people, cut to a readable length.
    #[must_use]
    pub fn shown(&self) -> String {
        shown(self)
    }
}
