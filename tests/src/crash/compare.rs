//! The remains of a run, free of what may differ, and the differences between two of them.

use super::{
    child::RUN,
    recorder::{Deed, Line, Recorder, durable},
};
use crate::journey::effects;
use anyhow::{Context as _, Result, bail};
use opcell_engine::{
    Engine, Event, Trace,
    effect::Task,
    event::{Answer, EffectId, Recorded},
    outcome::RunOutcome,
    ports::Effects,
    state::State,
};
use opcell_journal::{Journal as _, SqliteJournal};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// The remains of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Remains {
    /// Status, result, artifacts, use.
    outcome: String,
    /// Deeds, each with how often it was done; those with one idempotency key are one.
    deeds: BTreeMap<Deed, usize>,
    /// The number of events of each kind; what only an interruption brings is left out.
    kinds: BTreeMap<&'static str, usize>,
    /// Every entry into a step, without times and numbers.
    steps: BTreeSet<String>,
    /// `true` if the journal decides again as it did.
    replays: bool,
    /// The faults that must not be in any run: something acknowledged that is not there, something done out of turn.
    broken: Vec<String>,
}

impl Remains {
    /// Reads what a run left in a directory.
    pub async fn of(directory: &Path) -> Result<Self> {
        let journal = SqliteJournal::open(directory.join("runs.db"))?;
        let run: Arc<str> = RUN.into();
        let kept: BTreeSet<u64> = journal.read(&run, 0, u64::MAX).await?.iter().map(digest).collect();
        let engine = Engine::builder().journal(Arc::new(journal)).build();
        let history = engine.history(&run).await?;
        let outcome = engine.state_at(&run, None).await?.outcome();
        if !outcome.status.has_ended() {
            bail!("the run has not ended");
        }
        let mut deeds: BTreeMap<Deed, usize> = BTreeMap::new();
        let lines = Recorder::lines(directory)?;
        for line in &lines {
            if let Line::Deed(deed) = line {
                *deeds.entry(deed.clone()).or_default() += 1;
            }
        }
        let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
        // Whether a call ends at once is an accident, too.
        for recorded in history.iter().flat_map(Recorded::parts) {
            let kind = match &recorded.event {
                // Who was asked, and said that it happened, replaces the reply that got lost.
                Event::Answered { answer: Answer::Skip, .. } => "replied",
                Event::InDoubt { .. } | Event::Answered { .. } => continue,
                event => event.kind(),
            };
            *kinds.entry(kind).or_default() += 1;
        }
        let trace = Trace::of(&run, &history)?;
        let steps = trace.steps.iter().map(|step| {
            let value = serde_json::to_value(step).unwrap_or_default();
            without_accidents(value).to_string()
        });
        Ok(Self {
            outcome: described(&outcome),
            deeds,
            kinds,
            steps: steps.collect(),
            replays: engine.replay(&run).await?.is_none(),
            broken: broken(&lines, &history, &kept)?,
        })
    }

    /// Returns the faults that must not be in any run, disturbed or not.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Returns the differences from an undisturbed run after `kills` of them. Repeating is allowed where the operation
    /// allows it, never more often than the process was killed.
    pub fn differences(&self, undisturbed: &Self, kills: usize) -> Vec<String> {
        let mut found = Vec::new();
        if self.outcome != undisturbed.outcome {
            found.push(format!("outcome: {} instead of {}", self.outcome, undisturbed.outcome));
        }
        let done = |remains: &Self| -> BTreeMap<(String, u32, u32, String, String), usize> {
            let mut done = BTreeMap::new();
            for deed in remains.deeds.keys() {
                let what = (deed.step.clone(), deed.visit, deed.attempt, deed.what.clone(), deed.with.clone());
                let times = done.entry(what).or_default();
                *times = if is_pure(&deed.what) { 1 } else { *times + 1 };
            }
            done
        };
        if done(self) != done(undisturbed) {
            found.push(format!("deeds: {:?} instead of {:?}", done(self), done(undisturbed)));
        }
        for (deed, times) in &self.deeds {
            let most = if ["work/publish", "read"].contains(&deed.what.as_str()) { 1 } else { 1 + kills };
            if *times > most {
                found.push(format!("{deed:?} was done {times} times"));
            }
        }
        if self.kinds != undisturbed.kinds {
            found.push(format!("events: {:?} instead of {:?}", self.kinds, undisturbed.kinds));
        }
        for step in self.steps.symmetric_difference(&undisturbed.steps) {
            found.push(format!("step: {step}"));
        }
        if !self.replays {
            found.push("the journal decides otherwise when it is decided again".to_owned());
        }
        found.extend_from_slice(&self.broken);
        found
    }
}

pub(super) fn digest(record: &opcell_journal::Record) -> u64 {
    match durable(record) {
        Line::Durable { digest, .. } => digest,
        _ => 0,
    }
}

/// Goes through what happened in its order: what was acknowledged has to be in the journal (`kept`: digests of its
/// records), and what was done has to be wanted at that moment, by what was durable then: requested, not in doubt,
/// without a reply. Pure operations do nothing that outlasts them, so the engine does not wait for the disk before it
/// calls them, and may call them again under another key.
pub(super) fn broken(lines: &[Line], history: &[Recorded], kept: &BTreeSet<u64>) -> Result<Vec<String>> {
    broken_by(lines, history, kept, is_pure, |state, deed| is_wanted(state, &deed.key))
}

/// The same, where `is_pure` and `is_wanted` say it of what was done.
pub(super) fn broken_by(
    lines: &[Line],
    history: &[Recorded],
    kept: &BTreeSet<u64>,
    is_pure: impl Fn(&str) -> bool,
    is_wanted: impl Fn(&State, &Deed) -> bool,
) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let (mut state, mut to_come) = (State::default(), history.iter().peekable());
    for line in lines {
        match line {
            Line::Durable { seq, digest } => {
                if !kept.contains(digest) {
                    broken.push(format!("event {seq} was acknowledged and is not there"));
                }
                while let Some(recorded) = to_come.next_if(|recorded| recorded.seq <= *seq) {
                    state.apply(recorded).with_context(|| format!("event {}", recorded.seq))?;
                }
            }
            Line::Deed(deed) if !is_pure(&deed.what) && !is_wanted(&state, deed) => {
                broken.push(format!("{deed:?} was done out of turn, after event {}", state.seq()));
            }
            Line::Deed(_) | Line::Sent { .. } | Line::Acknowledged { .. } => {}
        }
    }
    Ok(broken)
}

fn is_pure(operation: &str) -> bool {
    effects(operation) == Effects::Pure
}

fn is_wanted(state: &State, key: &str) -> bool {
    state.wanted(EffectId(0)).filter_map(|effect| state.effect(effect, None)).any(|effect| {
        let context = match &effect.task {
            Task::Invoke(call) | Task::Judge(call) => &call.context,
            Task::Open(open) => &open.context,
            Task::Round(round) => &round.context,
            Task::Tool(call) => &call.context,
            Task::Sleep { .. } | Task::Timeout { .. } | Task::Find { .. } => return false,
        };
        context.idempotency_key.as_ref() == key
    })
}

fn described(outcome: &RunOutcome) -> String {
    format!("{} {} {} {:?}", outcome.status, outcome.result.to_json(), outcome.artifacts.to_json(), outcome.used)
}

/// Takes out numbers of events and frames, times, and what cells measure.
fn without_accidents(mut value: serde_json::Value) -> serde_json::Value {
    if let Some(step) = value.as_object_mut() {
        for accidental in ["seq", "frame", "inside", "began", "ended", "used"] {
            step.remove(accidental);
        }
        let receipts = step.get_mut("receipts").and_then(serde_json::Value::as_array_mut);
        for receipt in receipts.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
            receipt.retain(|key, _| matches!(key.as_str(), "operation" | "plugin" | "host-calls" | "error"));
        }
        if let Some(transition) = step.get_mut("transition").and_then(serde_json::Value::as_object_mut) {
            transition.remove("seq");
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remains(times: usize, what: &str) -> Remains {
        let deed = Deed {
            key: "r/1".to_owned(),
            step: "s".to_owned(),
            visit: 1,
            attempt: 1,
            what: what.to_owned(),
            with: "{}".to_owned(),
        };
        Remains {
            outcome: "completed".to_owned(),
            deeds: [(deed, times)].into(),
            kinds: BTreeMap::new(),
            steps: BTreeSet::new(),
            replays: true,
            broken: Vec::new(),
        }
    }

    #[test]
    fn repeating_is_a_difference_where_it_must_not_be() {
        let undisturbed = remains(1, "work/item");
        assert!(remains(2, "work/item").differences(&undisturbed, 1).is_empty());
        assert_eq!(remains(3, "work/item").differences(&undisturbed, 1).len(), 1);
        assert_eq!(remains(2, "work/publish").differences(&remains(1, "work/publish"), 1).len(), 1);
    }

    #[test]
    fn what_is_missing_or_new_is_a_difference() {
        let undisturbed = remains(1, "work/item");
        assert_eq!(remains(1, "work/other").differences(&undisturbed, 1).len(), 1);
        let other = Remains { outcome: "failed".to_owned(), replays: false, ..undisturbed.clone() };
        assert_eq!(other.differences(&undisturbed, 1).len(), 2);
    }
}
