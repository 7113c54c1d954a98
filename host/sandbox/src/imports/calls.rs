//! `calls`: several calls of tools at once.
//!
//! A cell that is run again with a record learns of its calls' ends in the recorded order. Three things decide it, and
//! none of them is time: a call that was refused ends where it is started; one that the record answers has its place
//! there; and of the others, one ends only after the cell has been told of the one before ([`EndedCall::turn`]).

use super::{View, failure_to_guest, tools::given};
use crate::{
    bindings::opcell::{
        plugin0_1_0::{tools::ToolError, types::Failure as GuestFailure},
        plugin0_3_0::calls as wit,
    },
    budget::Interface,
    host::{EndedCall, StartedCall},
    recording::taped,
    state::CellState,
};
use opcell_types::Failure;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::task::{Id, JoinSet};

/// The rank of the first call that ended while the cell ran: after all that a record has.
const FIRST_LIVE_RANK: u64 = 1 << 33;

type Running = Pin<Box<dyn Future<Output = EndedCall> + Send>>;

/// The longest timer: 366 days.
const MAX_TIMER_MS: u64 = 366 * 24 * 3_600_000;

/// The calls that a cell has started.
#[derive(Default)]
pub(crate) struct StartedCalls {
    /// The number of the next one.
    next: u32,
    /// Those beyond the limit of calls in progress, in the order in which they were started.
    queued: VecDeque<(u32, Running)>,
    in_progress: JoinSet<EndedCall>,
    /// Those that ended where they began, until the cell is told.
    at_once: VecDeque<(u32, EndedCall)>,
    numbers: HashMap<Id, u32>,
    /// Those of them that are timers, which the limit does not count.
    timers: HashSet<u32>,
    /// Those that have not ended.
    pending: HashSet<u32>,
    /// Those that have, each with its rank in the order of ends, until the guest takes them.
    ended: HashMap<u32, (u64, Result<String, ToolError>)>,
    /// Those that have ended while the cell ran.
    live: u64,
}

impl StartedCalls {
    pub(crate) fn are_in_progress(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Begins calls that have waited for others to end.
    fn admit(&mut self, limit: u64) {
        while ((self.at_once.len() + self.in_progress.len() - self.timers.len()) as u64) < limit
            && let Some((number, mut call)) = self.queued.pop_front()
        {
            match first_poll(&mut call) {
                Poll::Ready(ended) => self.at_once.push_back((number, ended)),
                Poll::Pending => self.begin(number, call),
            }
        }
    }

    /// Runs a call in a task, which begins on another thread.
    fn begin(&mut self, number: u32, call: Running) {
        let task = self.in_progress.spawn(call);
        self.numbers.insert(task.id(), number);
    }

    /// The number of a new call.
    fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Waits for the end of a call in progress; `None` if there is none.
    async fn next_end(&mut self) -> Option<(u32, EndedCall)> {
        if let Some((number, ended)) = self.at_once.pop_front() {
            self.pending.remove(&number);
            return Some((number, ended));
        }
        let (id, ended) = match self.in_progress.join_next_with_id().await? {
            Ok((id, ended)) => (id, ended),
            Err(error) => (error.id(), panicked()),
        };
        let number = self.numbers.remove(&id)?;
        self.pending.remove(&number);
        self.timers.remove(&number);
        Some((number, ended))
    }

    /// The first of these calls to end, of those that have.
    fn first_of(&self, calls: &[u32]) -> Option<u32> {
        let ended = calls.iter().filter_map(|call| Some((self.ended.get(call)?.0, *call)));
        ended.min().map(|(_, call)| call)
    }

    /// A number that is that of no call, or of one whose end was given.
    fn unknown_of(&self, calls: &[u32]) -> Option<u32> {
        calls.iter().copied().find(|call| !self.pending.contains(call) && !self.ended.contains_key(call))
    }
}

/// Polls a call where it is made: one that ends at once needs neither a task nor the two hand-overs between threads.
fn first_poll(call: &mut Running) -> Poll<EndedCall> {
    let mut context = Context::from_waker(Waker::noop());
    catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context))).unwrap_or_else(|_| Poll::Ready(panicked()))
}

fn panicked() -> EndedCall {
    EndedCall::from(Err(Failure::host("panicked", "the host failed while it performed the call")))
}

impl wit::Host for View<'_> {
    async fn start(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<u32, ToolError>> {
        taped!(self, Tools, "calls.start", given(&name, &arguments), self.start_call(&name, &arguments))
    }

    async fn sleep(&mut self, milliseconds: u64) -> wasmtime::Result<Result<u32, GuestFailure>> {
        taped!(self, Tools, "calls.sleep", json!(milliseconds), self.start_timer(milliseconds))
    }

    async fn wait_any(&mut self, calls: Vec<u32>) -> wasmtime::Result<Result<wit::Ended, GuestFailure>> {
        taped!(self, Tools, "calls.wait-any", json!(calls), self.wait_for_any(&calls).await)
    }
}

impl View<'_> {
    pub(super) fn start_call(&mut self, name: &str, arguments: &str) -> wasmtime::Result<Result<u32, ToolError>> {
        let call = match self.admit_call(name, arguments)? {
            Ok(call) => call,
            Err(denied) => return Ok(Err(denied)),
        };
        self.0.host.awaits(None);
        let started = Arc::clone(&self.0.host).start_call(call);
        let limit = self.0.limits.concurrent_calls;
        let calls = self.0.calls.get_or_insert_default();
        let number = calls.take_number();
        match started {
            StartedCall::Running(call) => {
                calls.pending.insert(number);
                calls.queued.push_back((number, call));
                calls.admit(limit);
            }
            StartedCall::Ended(ended) => self.started_and_ended(number, ended)?,
        }
        Ok(Ok(number))
    }

    fn started_and_ended(&mut self, number: u32, ended: EndedCall) -> wasmtime::Result<()> {
        let rank = ended.nth.map_or(0, |nth| 1 + u64::from(nth));
        let answer = self.end_call(ended.result)?;
        let calls = self.0.calls.get_or_insert_default();
        calls.ended.insert(number, (rank, answer));
        if !calls.are_in_progress() {
            self.0.host.awaits(Some(1));
        }
        Ok(())
    }

    fn start_timer(&mut self, milliseconds: u64) -> wasmtime::Result<Result<u32, GuestFailure>> {
        self.0.budget.charge(Interface::Tools, 0)?;
        if milliseconds > MAX_TIMER_MS {
            let message = format!("{milliseconds} ms are more than a timer may have: 366 days");
            return Ok(Err(failure_to_guest(Failure::host("timer-too-long", message))));
        }
        self.0.host.awaits(None);
        let started = Arc::clone(&self.0.host).start_timer(milliseconds);
        let calls = self.0.calls.get_or_insert_default();
        let number = calls.take_number();
        match started {
            StartedCall::Running(timer) => {
                calls.pending.insert(number);
                calls.timers.insert(number);
                calls.begin(number, timer);
            }
            StartedCall::Ended(ended) => self.started_and_ended(number, ended)?,
        }
        Ok(Ok(number))
    }

    /// Waits for the end of one call, and takes it.
    pub(super) async fn wait_for(&mut self, call: u32) -> wasmtime::Result<Result<String, ToolError>> {
        match self.wait_for_any(&[call]).await? {
            Ok(ended) => Ok(ended.answer),
            Err(failure) => Ok(Err(ToolError::Failed(failure))),
        }
    }

    async fn wait_for_any(&mut self, calls: &[u32]) -> wasmtime::Result<Result<wit::Ended, GuestFailure>> {
        self.0.budget.take(size_of_val(calls))?;
        let started = self.0.calls.get_or_insert_default();
        let refusal = match started.unknown_of(calls) {
            Some(unknown) => Some(("unknown-call", format!("call {unknown} was not started, or its end was given"))),
            None if calls.is_empty() => Some(("no-calls", "there is no call to wait for".to_owned())),
            None => None,
        };
        if let Some((reason, message)) = refusal {
            // Otherwise the start of the call has paid.
            self.0.budget.charge(Interface::Tools, 0)?;
            return Ok(Err(failure_to_guest(Failure::host(reason, message))));
        }
        loop {
            let started = self.0.calls.get_or_insert_default();
            if let Some(call) = started.first_of(calls)
                && let Some((_, answer)) = started.ended.remove(&call)
            {
                // A cell without further calls waits for those that it makes one by one.
                let waits = (!started.are_in_progress()).then_some(1);
                self.0.host.awaits(waits);
                return Ok(Ok(wit::Ended { call, answer }));
            }
            let (number, EndedCall { result, turn, .. }) = wait(self.0).await.ok_or_else(lost)?;
            let answer = self.end_call(result)?;
            let started = self.0.calls.get_or_insert_default();
            let rank = FIRST_LIVE_RANK + started.live;
            started.live += 1;
            started.ended.insert(number, (rank, answer));
            drop(turn);
        }
    }
}

/// Waits for the end of any call in progress.
async fn wait(state: &mut CellState) -> Option<(u32, EndedCall)> {
    let limit = state.limits.concurrent_calls;
    let started = state.calls.as_mut()?;
    started.admit(limit);
    if started.at_once.is_empty() {
        state.host.awaits(Some(started.in_progress.len()));
    }
    started.next_end().await
}

/// Waits for the calls that are in progress when the export of a cell has returned, and not for timers. Their results
/// are nowhere to go.
pub(crate) async fn finish(state: &mut CellState) {
    let has_calls = |calls: &StartedCalls| calls.pending.len() > calls.timers.len();
    while state.calls.as_deref().is_some_and(has_calls) && wait(state).await.is_some() {}
}

fn lost() -> wasmtime::Error {
    wasmtime::Error::msg("a call of the cell has no end")
}

#[cfg(test)]
mod tests {
    use super::{EndedCall, Running, StartedCalls};
    use std::{future::pending, panic::panic_any};

    fn started(calls: impl IntoIterator<Item = Running>) -> StartedCalls {
        let mut started = StartedCalls::default();
        for call in calls {
            let number = started.take_number();
            started.pending.insert(number);
            started.queued.push_back((number, call));
        }
        started
    }

    fn ready(result: &str) -> Running {
        let result = Ok(result.to_owned());
        Box::pin(async { EndedCall::from(result) })
    }

    /// There is no runtime, which a task would need.
    #[test]
    fn calls_that_end_at_once_need_no_task_and_count_towards_the_limit() {
        let mut calls = started([ready("0"), Box::pin(async { panic_any("a fault of a tool") }), ready("2")]);
        for (number, result) in [(0, Ok("0")), (1, Err("panicked")), (2, Ok("2"))] {
            calls.admit(1);
            assert_eq!(calls.at_once.len(), 1);
            let (ended, EndedCall { result: found, .. }) = ended_now(&mut calls);
            let found = found.map_err(|failure| failure.reason.to_string());
            assert_eq!((ended, found.as_deref().map_err(String::as_str)), (number, result));
        }
        assert!(!calls.are_in_progress());
    }

    fn ended_now(calls: &mut StartedCalls) -> (u32, EndedCall) {
        let next = std::pin::pin!(calls.next_end());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match next.poll(&mut context) {
            std::task::Poll::Ready(Some(ended)) => ended,
            _ => panic!("the call waits"),
        }
    }

    #[tokio::test]
    async fn a_call_that_waits_continues_in_a_task() {
        let waits = Box::pin(async {
            tokio::task::yield_now().await;
            EndedCall::from(Ok("waited".to_owned()))
        });
        let mut calls = started([Box::pin(pending()), waits as Running, ready("at once")]);
        calls.admit(8);
        assert_eq!((calls.at_once.len(), calls.in_progress.len()), (1, 2));
        let mut numbers = Vec::new();
        for _ in 0..2 {
            numbers.push(calls.next_end().await.unwrap().0);
        }
        assert_eq!(numbers, [2, 1]);
        assert!(calls.are_in_progress());
    }
}
