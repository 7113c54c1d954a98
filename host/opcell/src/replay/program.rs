//! Running a program again with what a journal has of it: the answers of its calls, its randomness, and the readings of
//! its clocks before each call. Nothing is called, and nothing is reached.
//!
//! A run journals the calls of the programs of its models' sessions, and those of a step that runs a program with tools:
//! it has to continue them. Nothing has to be switched on.

use super::{Difference, receipt_of};
use crate::{
    host::{CallError, CallOutput, Host, ProgramLanguage, output_of},
    programs::{RUN_JAVASCRIPT, RUN_PYTHON},
};
use futures_util::FutureExt as _;
use opcell_engine::{
    Recorded,
    call::ToolCall,
    effect::Task,
    event::{EffectId, EffectReply, Event},
    inner::{Concurrency, InnerJournal, PlacedCall},
    ports::{Reply, Success},
    program_record::ProgramRecord,
    receipt::{Receipt, cell_of},
    state::State,
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean, ir::CodeMode};
use opcell_session::code::{self, Program, ProgramCall, ProgramTools, Programs as _, RUN_CODE, StartedCall};
use opcell_types::{CallContext, Denial, Failure, FollowUp, Value};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};
use tokio_util::sync::CancellationToken;

/// A program of a run, whose calls the journal has.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedProgram {
    /// The event that has its end; the last event of the run if it has not ended.
    pub seq: u64,
    /// The step that ran it.
    pub step: Arc<str>,
    /// Its language.
    pub language: ProgramLanguage,
    /// Its source.
    pub source: String,
    /// Its input.
    pub input: Value,
    /// Its result, or its failure. Nothing where it has not ended, or the journal has only a part of the result.
    pub result: Option<Result<Value, Failure>>,
    record: ProgramRecord,
    context: CallContext,
    /// The refusals that the record of its calls does not have, as the receipt lists them.
    denials: Vec<Denial>,
    /// The call of a model that ran it.
    asked: Option<Box<ToolCall>>,
}

/// The end of a program that was run again.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReplayedProgram {
    /// As that of a call of `code/run`. A program that takes another way than its record fails as `diverged`, with both
    /// ways.
    pub output: Result<CallOutput, CallError>,
    /// The difference of its result from the recorded one, where it has taken the recorded way.
    pub difference: Option<Difference>,
    /// `true` if it read a clock more often than its record has readings, such as after its last call: the time was
    /// another one.
    pub read_clock_anew: bool,
}

impl RecordedProgram {
    /// The number of its recorded calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.record.calls()
    }

    fn of(state: &State, effect: EffectId, reply: Option<&EffectReply>) -> Option<Self> {
        let inner = state.inner_calls(effect)?;
        let (language, arguments, context, asked) = match state.effect(effect, None)?.task {
            Task::Invoke(call) if *call.id == *RUN_JAVASCRIPT => {
                (ProgramLanguage::Javascript, call.arguments, call.context, None)
            }
            Task::Invoke(call) if *call.id == *RUN_PYTHON => {
                (ProgramLanguage::Python, call.arguments, call.context, None)
            }
            Task::Tool(call) if call.request.name == RUN_CODE => {
                let language = match call.session.code.as_ref()?.language {
                    CodeMode::Python => ProgramLanguage::Python,
                    _ => ProgramLanguage::Javascript,
                };
                (language, call.request.arguments.clone(), CallContext::clone(&call.context), Some(call))
            }
            _ => return None,
        };
        let receipt = reply.and_then(receipt_of);
        Some(Self {
            seq: state.seq() + u64::from(reply.is_some()),
            step: context.step.clone(),
            language,
            source: arguments.get("source").and_then(Value::as_str)?.to_owned(),
            input: arguments.get("input").cloned().unwrap_or(Value::Null),
            result: reply.filter(|_| !receipt.is_some_and(is_cut)).and_then(result_of),
            record: ProgramRecord::journaled(inner.clone()),
            context,
            denials: receipt.map(denials_of).unwrap_or_default(),
            asked,
        })
    }

    /// The tools of the program while it is run again.
    fn tools(&self, journal: InnerJournal) -> Arc<dyn ProgramTools> {
        let of_session = self.asked.as_ref().and_then(|call| code::replayed_tools(call, journal.clone()));
        of_session.unwrap_or_else(|| {
            let names = self.record.tools().filter(|name| *name != TIMER).map(str::to_owned).collect();
            Arc::new(RecordedTools { journal, names, denials: self.denials.clone() })
        })
    }
}

/// The name of a timer among the calls of a program.
const TIMER: &str = "sleep";

fn is_cut(receipt: &Receipt) -> bool {
    receipt.get("truncated").is_some()
}

/// The result of a program in the data of its call.
fn result(data: &Value) -> Value {
    data.get("result").cloned().unwrap_or(Value::Null)
}

fn result_of(reply: &EffectReply) -> Option<Result<Value, Failure>> {
    match reply {
        EffectReply::Invoke(reply) => {
            Some(reply.result.as_ref().map(|success| result(&success.data)).map_err(Clone::clone))
        }
        EffectReply::Tool(reply) => Some(reply.result.as_ref().map(result).map_err(Clone::clone)),
        _ => None,
    }
}

fn denials_of(receipt: &Receipt) -> Vec<Denial> {
    let denials = cell_of(receipt).and_then(|cell| cell.get("denials"));
    denials.and_then(|denials| denials.to().ok()).unwrap_or_default()
}

/// The programs of a run whose calls it has journaled, in the order in which they ended; then those that have not ended.
/// With `step`, those of this step.
///
/// # Errors
/// When there is none.
pub fn programs(run: &str, events: &[Recorded], step: Option<&str>) -> Result<Vec<RecordedProgram>, Box<Diagnostic>> {
    let finding = |code, message: String| Box::new(Diagnostic::error(code, message));
    let (mut state, mut found, mut entered) = (State::default(), Vec::new(), BTreeSet::new());
    for recorded in events {
        for part in recorded.parts() {
            match &part.event {
                Event::StepEntered { name, .. } => {
                    entered.insert(name.clone());
                }
                Event::Replied { effect, reply } => found.extend(RecordedProgram::of(&state, *effect, Some(reply))),
                _ => {}
            }
        }
        let applied = state.apply(recorded);
        applied.map_err(|error| finding("unreadable", format!("run {run}, event {}: {error}", recorded.seq)))?;
    }
    let open: Vec<EffectId> = state.all_effects().collect();
    found.extend(open.into_iter().filter_map(|effect| RecordedProgram::of(&state, effect, None)));
    if let Some(step) = step {
        let show_run = FollowUp::ShowRun(run.to_owned());
        if !entered.iter().any(|name| **name == *step) {
            let unknown = finding("unknown-step", format!("run {run} entered no step `{step}`"));
            return Err(Box::new(unknown.help(match did_you_mean(step, entered.iter().map(|name| &**name)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("{show_run} lists its steps"),
            })));
        }
        found.retain(|program| *program.step == *step);
    }
    if found.is_empty() {
        let place = step.map(|step| format!("step `{step}` of ")).unwrap_or_default();
        let message = format!("{place}run {run} has no record of the calls of a program");
        let help = "runs record those of a session with `code`, and of a step that runs `code/run` or `python/run` with \
                    tools; a model's call of `code/run` is recorded as a call where [plugins.code] sets \
                    `record-host-calls = true`";
        return Err(Box::new(finding("not-recorded", message).help(help.to_owned())));
    }
    Ok(found)
}

impl Host {
    /// Runs a program with the recorded answers, randomness and clocks of a program of a run, and calls nothing: the
    /// recorded program itself, or another version of it.
    pub async fn replay_program(
        &self,
        recorded: &RecordedProgram,
        language: ProgramLanguage,
        source: &str,
        input: Value,
    ) -> ReplayedProgram {
        let journal = recorded.record.replayed();
        let timeline = journal.timeline();
        let program = Program {
            language: match language {
                ProgramLanguage::Javascript => CodeMode::Javascript,
                ProgramLanguage::Python => CodeMode::Python,
            },
            source: source.to_owned(),
            input,
            context: recorded.context.clone(),
            cancel: Arc::new(CancellationToken::new()),
            timeline: Some(timeline.clone()),
            tools: recorded.tools(journal.clone()),
        };
        let reply = journal.checked(self.programs().run(program).await);
        let difference = difference(recorded.result.as_ref(), &reply.result);
        let read_clock_anew = timeline.take_new().is_none_or(|new| !new.is_empty());
        let Reply { result, receipt } = reply;
        let result = result.map(|data| Success { data, summary: None, details: None });
        ReplayedProgram { output: output_of(Reply { result, receipt }), difference, read_clock_anew }
    }
}

/// The difference of a result from the recorded one. A program that has diverged shows both ways itself.
fn difference(recorded: Option<&Result<Value, Failure>>, now: &Result<Value, Failure>) -> Option<Difference> {
    let diverged = |result: &Result<Value, Failure>| matches!(result, Err(failure) if &*failure.reason == "diverged");
    let recorded = recorded.filter(|recorded| !diverged(recorded) && !diverged(now))?;
    let is_same = match (recorded, now) {
        (Ok(recorded), Ok(data)) => *recorded == result(data),
        (Err(recorded), Err(now)) => {
            // The failure that a model reads has the end of the log as well.
            let rest = recorded.message.strip_prefix(now.message.as_str());
            recorded.reason == now.reason && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("\nlog:\n"))
        }
        _ => false,
    };
    let shown = |result: Result<&Value, &Failure>| match result {
        Ok(value) => serde_json::Value::from(value),
        Err(failure) => json!({ "failure": failure }),
    };
    (!is_same).then(|| Difference {
        what: "result".to_owned(),
        recorded: shown(recorded.as_ref()),
        replayed: shown(now.as_ref().map(result).as_ref().map_err(|failure| *failure)),
    })
}

/// The tools of a program that a step ran: those that its record has.
struct RecordedTools {
    journal: InnerJournal,
    names: BTreeSet<String>,
    denials: Vec<Denial>,
}

impl RecordedTools {
    /// The recorded refusal of a tool that the plugin was not granted: such a call has no place in the record.
    fn denied(&self, name: &str) -> Option<Failure> {
        let is_of = |denial: &&Denial| denial.capability.strip_prefix("tool ") == Some(name);
        let denial = self.denials.iter().find(is_of).filter(|_| !self.names.contains(name));
        denial.cloned().map(Failure::denied)
    }
}

impl ProgramTools for RecordedTools {
    fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }

    fn start(self: Arc<Self>, call: ProgramCall) -> StartedCall {
        if let Some(denied) = self.denied(&call.name) {
            return denied.into();
        }
        // Nothing is asked that the record does not answer.
        match self.journal.begin(&call.name, &call.arguments, true, Concurrency::Alone).map(PlacedCall::recorded) {
            Ok(Ok(ended)) => StartedCall::Ended(ended),
            Ok(Err(_)) => Failure::host("diverged", "its record has no answer to this call").into(),
            Err(diverged) => diverged.into(),
        }
    }

    fn start_timer(self: Arc<Self>, ms: u64) -> StartedCall {
        match self.journal.start_timer(ms).map(PlacedCall::recorded) {
            Ok(Ok(ended)) => StartedCall::Ended(ended),
            Ok(Err(timer)) => StartedCall::Running(timer.end_timer().boxed()),
            Err(diverged) => diverged.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;
    use opcell_types::{Failure, Value};

    #[test]
    fn results_and_failures_are_compared_as_the_journal_has_them() {
        let data = |result: i64| Ok(Value::object([("result", Value::from(result)), ("logs", Value::array([]))]));
        let failed = |message: &str| Err(Failure::host("program-failed", message));
        assert!(difference(Some(&Ok(Value::from(2))), &data(2)).is_none());
        assert!(difference(None, &data(2)).is_none());
        let found = difference(Some(&Ok(Value::from(2))), &data(3)).unwrap();
        assert_eq!((found.recorded.to_string(), found.replayed.to_string()), ("2".to_owned(), "3".to_owned()));
        assert!(difference(Some(&failed("Error: no\nlog:\na line")), &failed("Error: no")).is_none());
        assert!(difference(Some(&failed("Error: no")), &failed("Error: yes")).is_some());
        assert!(difference(Some(&failed("Error: no")), &data(2)).is_some());
        assert!(difference(Some(&Ok(Value::Null)), &Err(Failure::host("diverged", "both ways"))).is_none());
    }
}
