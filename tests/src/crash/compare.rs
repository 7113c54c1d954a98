//! What a run left behind, free of what may differ, and the differences between two of them.

use super::{
    child::RUN,
    world::{Deed, World},
};
use anyhow::{Result, bail};
use opcell_engine::{Engine, Event, Trace, event::Answer, outcome::RunOutcome};
use opcell_journal::SqliteJournal;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// What a run left behind.
#[derive(Debug, Clone, PartialEq)]
pub struct Remains {
    /// Status, result, artifacts, use.
    outcome: String,
    /// Deeds, each with how often it was done; those with one idempotency key are one.
    deeds: BTreeMap<Deed, usize>,
    /// How often each kind of event happened; what only an interruption brings is left out.
    kinds: BTreeMap<&'static str, usize>,
    /// Every entry into a step, without times and numbers.
    steps: BTreeSet<String>,
    /// Whether the journal decides again as it did.
    replays: bool,
}

impl Remains {
    /// Reads what a run left in a directory.
    pub async fn of(directory: &Path) -> Result<Self> {
        let journal = SqliteJournal::open(directory.join("runs.db"))?;
        let engine = Engine::builder().journal(Arc::new(journal)).build();
        let run: Arc<str> = RUN.into();
        let history = engine.history(&run).await?;
        let outcome = engine.state_at(&run, None).await?.outcome();
        if !outcome.status.has_ended() {
            bail!("the run has not ended");
        }
        let mut deeds: BTreeMap<Deed, usize> = BTreeMap::new();
        for deed in World::deeds(directory)? {
            *deeds.entry(deed).or_default() += 1;
        }
        let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
        for recorded in &history {
            let kind = match &recorded.event {
                // Who was asked, and said that it happened, stands for the reply that got lost.
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
        })
    }

    /// What differs from an undisturbed run after `kills` of them. Repeating is allowed where the operation allows it, never more
    /// often than the process was killed.
    pub fn differences(&self, undisturbed: &Self, kills: usize) -> Vec<String> {
        let mut found = Vec::new();
        if self.outcome != undisturbed.outcome {
            found.push(format!("outcome: {} instead of {}", self.outcome, undisturbed.outcome));
        }
        let done = |remains: &Self| -> BTreeMap<(String, u32, u32, String, String), usize> {
            let mut done = BTreeMap::new();
            for deed in remains.deeds.keys() {
                let what = (deed.step.clone(), deed.visit, deed.attempt, deed.what.clone(), deed.with.clone());
                *done.entry(what).or_default() += 1;
            }
            done
        };
        if done(self) != done(undisturbed) {
            found.push(format!("deeds: {:?} instead of {:?}", done(self), done(undisturbed)));
        }
        for (deed, times) in &self.deeds {
            let most = if deed.what == "work/publish" { 1 } else { 1 + kills };
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
        found
    }
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
