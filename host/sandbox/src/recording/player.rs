//! Answers host calls from a recording: each answer once, to the call that was given the same.

use super::{Cost, HostCall, NotRecorded, Recording, recorder::shortened};
use opcell_types::text::printable;
use serde_json::{Value, json};
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
    /// Calls that the recording has one after another and that are started now, by their numbers.
    started: HashMap<u32, usize>,
    /// The number of the next such call; `None` if the recording has calls that were started.
    next_number: Option<u32>,
    pub(super) missing: Option<NotRecorded>,
}

impl Player {
    pub(crate) fn new(recording: Arc<Recording>) -> Self {
        let mut left: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (at, call) in recording.calls.iter().enumerate() {
            left.entry((call.call.clone(), call.given.to_string())).or_default().push_back(at);
        }
        let has_started = recording.calls.iter().any(|call| call.call.starts_with("calls."));
        let next_number = (!has_started).then_some(0);
        Self { recording, left, started: HashMap::new(), next_number, missing: None }
    }

    pub(super) fn next(&mut self, call: &str, given: Value) -> Result<HostCall, NotRecorded> {
        let given = shortened(given);
        let key = (call.to_owned(), given.to_string());
        let next = self.left.get_mut(&key).and_then(VecDeque::pop_front);
        if let Some(found) = next.and_then(|at| self.recording.calls.get(at)) {
            return Ok(found.clone());
        }
        if let Some(found) = self.made_one_by_one(call, &given) {
            return Ok(found);
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

    /// A call that is started, or its end, where the recording is of a cell that made one call after another: such as of a
    /// program whose interpreter has learned to make several at once since. The calls end in the recorded order.
    fn made_one_by_one(&mut self, call: &str, given: &Value) -> Option<HostCall> {
        let number = self.next_number?;
        let (call, given) = (call.to_owned(), given.clone());
        match call.as_str() {
            "calls.start" => {
                let key = ("tools.call".to_owned(), given.to_string());
                let at = self.left.get_mut(&key)?.pop_front()?;
                let known = self.recording.calls.get(at)?;
                let answer = known.answer.as_ref()?;
                if answer.pointer("/Err/Denied").is_some() {
                    // It was refused before it began.
                    return Some(HostCall { call, ..known.clone() });
                }
                self.started.insert(number, at);
                self.next_number = Some(number + 1);
                let cost = Cost { calls: known.cost.calls, bytes_out: known.cost.bytes_out, ..Cost::default() };
                Some(HostCall { call, given, answer: Some(json!({ "Ok": number })), cost, ..HostCall::default() })
            }
            "calls.wait-any" => {
                let numbers: Vec<u32> = serde_json::from_value(given.clone()).ok()?;
                let of = |number: u32| Some((*self.started.get(&number)?, number));
                let (at, number) = numbers.into_iter().filter_map(of).min()?;
                self.started.remove(&number);
                let known = self.recording.calls.get(at)?;
                let answer = Some(json!({ "Ok": { "call": number, "answer": known.answer } }));
                let cost = Cost { calls: 0, bytes_out: 0, ..known.cost };
                Some(HostCall { call, given, answer, cost, ..known.clone() })
            }
            _ => None,
        }
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
