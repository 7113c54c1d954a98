//! The remains of a run, and the parts that must not differ from an undisturbed one.

use super::recorder::{Deed, Recorder};
use anyhow::{Context as _, Result};
use opcell_engine::{Engine, Event};
use opcell_journal::{Record, RunId};
use opcell_journal_postgres::scratch::Server;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// The remains of a run.
#[derive(Debug, Clone)]
pub struct Remains {
    /// Status, result, artifacts.
    outcome: String,
    /// By effect and step: how often each key was used.
    deeds: BTreeMap<(String, String), Vec<usize>>,
    signals: usize,
    replays: bool,
}

impl Remains {
    /// Reads what an ended run left.
    pub async fn of(engine: &Engine, recorder: &Recorder, run: &RunId) -> Result<Self> {
        let outcome = engine.state_at(run, None).await?.outcome();
        let mut deeds: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (Deed { what, step, .. }, times) in recorder.of(run) {
            deeds.entry((what, step)).or_default().push(times);
        }
        let history = engine.history(run).await.context("the history")?;
        let signals = history.iter().filter(|recorded| matches!(recorded.event, Event::SignalReceived(_))).count();
        let outcome = format!("{} {} {}", outcome.status, outcome.result.to_json(), outcome.artifacts.to_json());
        Ok(Self { outcome, deeds, signals, replays: engine.replay(run).await?.is_none() })
    }

    /// Returns the differences from an undisturbed run.
    pub fn differences(&self, undisturbed: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.outcome != undisturbed.outcome {
            found.push(format!("outcome: {} instead of {}", self.outcome, undisturbed.outcome));
        }
        let keys = |remains: &Self| -> BTreeMap<(String, String), usize> {
            remains.deeds.iter().map(|(deed, times)| (deed.clone(), times.len())).collect()
        };
        if keys(self) != keys(undisturbed) {
            found.push(format!("effects by key: {:?} instead of {:?}", keys(self), keys(undisturbed)));
        }
        for ((what, step), times) in self.deeds.iter().filter(|((what, _), _)| what == "once") {
            if times.iter().any(|times| *times > 1) {
                found.push(format!("{what} of step {step} happened {times:?} times"));
            }
        }
        if self.signals != undisturbed.signals {
            found.push(format!("{} signals instead of {}", self.signals, undisturbed.signals));
        }
        if !self.replays {
            found.push("the journal decides otherwise when it is decided again".to_owned());
        }
        found
    }

    /// Returns `true` if an undisturbed run did enough for there to be something to compare with.
    pub fn is_whole(&self) -> bool {
        self.outcome.starts_with("completed") && self.replays && self.deeds.len() > 1
    }

    /// For people.
    pub fn describe(&self) -> String {
        format!("{}, {} effects", self.outcome, self.deeds.values().map(Vec::len).sum::<usize>())
    }
}

/// The records that the journal has shown: it must never show anything else in their place.
#[derive(Default)]
pub struct Shown(HashMap<RunId, Vec<u64>>);

impl Shown {
    /// Returns the number of records of a run that it has shown.
    pub fn len(&self, run: &RunId) -> u64 {
        self.0.get(run).map_or(0, Vec::len) as u64
    }

    /// It shows these, after those before.
    pub fn note(&mut self, run: &RunId, records: &[Record]) {
        self.0.entry(run.clone()).or_default().extend(records.iter().map(digest));
    }

    /// Returns the records of a run that are not there any more.
    pub fn lost(&self, run: &RunId, records: &[Record]) -> Option<String> {
        let shown = self.0.get(run)?;
        let now: Vec<u64> = records.iter().map(digest).collect();
        let same = shown.iter().zip(&now).take_while(|(shown, now)| shown == now).count();
        (same < shown.len()).then(|| format!("record {} was shown, and is lost or another", same + 1))
    }
}

fn digest(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    (record.seq, &record.kind, record.version, record.at, &*record.payload).hash(&mut hasher);
    hasher.finish()
}

/// Returns the faults of the stores that cells wrote to: a write that was acknowledged and is not there, or one that
/// happened twice. Each call of `again` writes one entry under its key, before it does anything else.
///
/// # Errors
/// When the server does not say.
pub fn stored(server: &Server, recorder: &Recorder) -> Result<Vec<String>> {
    let port = server.port().to_string();
    let ask = |query: &str| {
        let mut psql = server.command("psql");
        psql.args(["-h", "127.0.0.1", "-U", "opcell", "-q", "-t", "-A", "-p", &port, "-c", query, "postgres"]);
        let output = psql.output().context("psql")?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        anyhow::ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(said)
    };
    // Each write and each removal is a version, and nothing is removed.
    let counts = ask("SELECT version, entries, (SELECT count(*) FROM fleet.store_entries) FROM fleet.stores")?;
    let counts: Vec<&str> = counts.split('|').collect();
    let keys = ask("SELECT convert_from(key, 'UTF8') FROM fleet.store_entries")?;
    let there: BTreeSet<&str> = keys.lines().collect();
    let mut found = Vec::new();
    if counts.iter().any(|count| Some(count) != counts.first()) || counts.len() != 3 {
        found.push(format!("writes, entries by count and entries are not as many: {counts:?}"));
    }
    for key in recorder.keys("again").iter().filter(|key| !there.contains(key.as_str())) {
        found.push(format!("what was written under {key} is gone"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remains(what: &str, times: &[usize]) -> Remains {
        let deeds = [((what.to_owned(), "s".to_owned()), times.to_vec())].into();
        Remains { outcome: "completed".to_owned(), deeds, signals: 1, replays: true }
    }

    #[test]
    fn a_once_effect_that_happens_twice_and_a_second_key_are_differences() {
        assert!(remains("again", &[3]).differences(&remains("again", &[1])).is_empty());
        assert_eq!(remains("again", &[1, 1]).differences(&remains("again", &[1])).len(), 1);
        assert_eq!(remains("once", &[2]).differences(&remains("once", &[1])).len(), 1);
        assert_eq!(remains("once", &[]).differences(&remains("once", &[1])).len(), 1);
    }

    #[test]
    fn a_record_that_changes_after_it_was_shown_is_lost() {
        let record =
            |text: &str| Record { seq: 1, kind: "k".into(), version: 1, at: 0, payload: text.to_owned().into() };
        let run: RunId = "r".into();
        let mut shown = Shown::default();
        shown.note(&run, &[record("a")]);
        assert_eq!(shown.lost(&run, &[record("a"), record("b")]), None);
        assert!(shown.lost(&run, &[record("b")]).is_some());
        assert!(shown.lost(&run, &[]).is_some());
    }
}
