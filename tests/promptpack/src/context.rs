//! The serialisable state of a workflow run.

use jiff::Timestamp;
use opcell_ir::print::go;
use opcell_types::value::Map;
use opcell_workflow::promptpack::Spec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Transitions kept in [`Context::history`], and snapshots in [`Context::artifact_history`]; older ones are dropped,
/// oldest first.
pub const MAX_HISTORY_LENGTH: usize = 1000;

/// Artifact values by name. Snapshots share one map until a value changes.
pub type ArtifactValues = Arc<BTreeMap<String, String>>;

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTransition {
    /// The state that was left.
    pub from: String,
    /// The state that was entered.
    pub to: String,
    /// Event that caused the transition.
    pub event: String,
    /// When the state was entered.
    pub timestamp: Timestamp,
}

/// The artifacts as they were at one transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactSnapshot {
    /// The state that was left.
    pub from_state: String,
    /// The state that was entered.
    pub to_state: String,
    /// Event that was being processed.
    pub event: String,
    /// Every artifact that was set.
    #[serde(serialize_with = "share::serialize", deserialize_with = "share::deserialize")]
    pub values: ArtifactValues,
    /// When the artifact was set.
    pub timestamp: Timestamp,
}

/// The serialisable state of a workflow run. Recording a transition costs the same at the first and at the millionth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// The state that the run is in.
    pub current_state: String,
    /// The newest [`MAX_HISTORY_LENGTH`] transitions, oldest first.
    #[serde(deserialize_with = "null_as_default", default)]
    pub history: VecDeque<StateTransition>,
    /// The host's own data.
    #[serde(default, skip_serializing_if = "Map::is_empty", deserialize_with = "null_as_default")]
    pub metadata: Map,
    /// Entries by state; exact whatever the history has dropped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub visit_counts: BTreeMap<String, u64>,
    /// Tool calls by models.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_tool_calls: u64,
    /// Current artifact values.
    #[serde(
        default,
        skip_serializing_if = "none_set",
        serialize_with = "share::serialize",
        deserialize_with = "share::deserialize"
    )]
    pub artifacts: ArtifactValues,
    /// The artifacts at each of the newest [`MAX_HISTORY_LENGTH`] transitions that found any set, oldest first. (The
    /// reference keeps all of them; here a host that wants the older ones journals each as it comes.)
    #[serde(default, skip_serializing_if = "VecDeque::is_empty", deserialize_with = "null_as_default")]
    pub artifact_history: VecDeque<ArtifactSnapshot>,
    /// When the run started.
    pub started_at: Timestamp,
    /// When it last moved.
    pub updated_at: Timestamp,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn none_set(values: &ArtifactValues) -> bool {
    values.is_empty()
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

mod share {
    use super::{Arc, ArtifactValues, BTreeMap, Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &ArtifactValues, serializer: S) -> Result<S::Ok, S::Error> {
        values.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArtifactValues, D::Error> {
        let values: Option<BTreeMap<String, String>> = Option::deserialize(deserializer)?;
        Ok(Arc::new(values.unwrap_or_default()))
    }
}

/// Adds the newest entry; a ring that is longer than it may be, as restored ones are, is cut once.
fn push_bounded<T>(ring: &mut VecDeque<T>, newest: T) {
    if ring.len() >= MAX_HISTORY_LENGTH {
        ring.drain(..=ring.len() - MAX_HISTORY_LENGTH);
    }
    ring.push_back(newest);
}

/// Why a context cannot have come from a run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// It names a state that the workflow does not have.
    #[error("{field} names state {}, which the workflow does not have", go::quote(.state))]
    UnknownState {
        /// Field that names it.
        field: &'static str,
        /// Name of the state.
        state: String,
    },
    /// The last transition does not lead to the current state.
    #[error("the last transition in history leads to {}, but current_state is {}", go::quote(.to), go::quote(.current))]
    HistoryElsewhere {
        /// The state that history leads to.
        to: String,
        /// The current state of the context.
        current: String,
    },
    /// A transition does not start where the one before it ended.
    #[error("history is broken: a transition leaves {}, but the one before it entered {}", go::quote(.from), go::quote(.entered))]
    BrokenHistory {
        /// The state that it starts in.
        from: String,
        /// The state in which the one before it ended.
        entered: String,
    },
    /// The current state was never entered.
    #[error("visit_counts has no entry for the current state {}", go::quote(.0))]
    CurrentNeverEntered(String),
    /// The counts are smaller than what history alone shows.
    #[error("visit_counts says {} was entered {counted} times, but history shows {shown}", go::quote(.state))]
    TooFewVisits {
        /// The state.
        state: String,
        /// By the counts.
        counted: u64,
        /// By history.
        shown: u64,
    },
    /// The run was updated before it started.
    #[error("updated_at is before started_at")]
    UpdatedBeforeStarted,
}

impl Context {
    /// A run that has just entered a state.
    #[must_use]
    pub fn new(entry: impl Into<String>, now: Timestamp) -> Self {
        let entry = entry.into();
        Self {
            visit_counts: BTreeMap::from([(entry.clone(), 1)]),
            current_state: entry,
            history: VecDeque::new(),
            metadata: Map::new(),
            total_tool_calls: 0,
            artifacts: ArtifactValues::default(),
            artifact_history: VecDeque::new(),
            started_at: now,
            updated_at: now,
        }
    }

    /// An artifact's value; empty when it is not set.
    #[must_use]
    pub fn artifact(&self, name: &str) -> &str {
        self.artifacts.get(name).map_or("", String::as_str)
    }

    /// Sets an artifact, or appends to it without a separator.
    pub fn set_artifact(&mut self, name: &str, value: &str, append: bool) {
        let values = Arc::make_mut(&mut self.artifacts);
        let slot = values.entry(name.to_owned()).or_default();
        if !append {
            slot.clear();
        }
        slot.push_str(value);
    }

    /// Counts tool calls.
    pub fn increment_tool_calls(&mut self, n: u64) {
        self.total_tool_calls = self.total_tool_calls.saturating_add(n);
    }

    /// The newest transition.
    #[must_use]
    pub fn last_transition(&self) -> Option<&StateTransition> {
        self.history.back()
    }

    /// Transitions still in history: at most [`MAX_HISTORY_LENGTH`].
    #[must_use]
    pub fn transition_count(&self) -> usize {
        self.history.len()
    }

    /// Entries into states, the first one included.
    #[must_use]
    pub fn total_visits(&self) -> u64 {
        self.visit_counts.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Records a transition: history, visits, a snapshot of the artifacts if any is set, and where the run is now.
    pub fn record_transition(&mut self, from: &str, to: &str, event: &str, now: Timestamp) {
        push_bounded(
            &mut self.history,
            StateTransition { from: from.to_owned(), to: to.to_owned(), event: event.to_owned(), timestamp: now },
        );
        *self.visit_counts.entry(to.to_owned()).or_default() += 1;
        if !self.artifacts.is_empty() {
            push_bounded(
                &mut self.artifact_history,
                ArtifactSnapshot {
                    from_state: from.to_owned(),
                    to_state: to.to_owned(),
                    event: event.to_owned(),
                    values: Arc::clone(&self.artifacts),
                    timestamp: now,
                },
            );
        }
        to.clone_into(&mut self.current_state);
        self.updated_at = now;
    }

    /// Checks whether this context can have come from a run of a workflow. The reference restores whatever it is given.
    ///
    /// # Errors
    /// The first sign that it cannot.
    pub fn check(&self, spec: &Spec) -> Result<(), ContextError> {
        let known = |field, state: &str| {
            if spec.states.contains_key(state) {
                Ok(())
            } else {
                Err(ContextError::UnknownState { field, state: state.to_owned() })
            }
        };
        known("current_state", &self.current_state)?;
        self.visit_counts.keys().try_for_each(|state| known("visit_counts", state))?;
        let mut shown: BTreeMap<&str, u64> = BTreeMap::new();
        let mut before: Option<&StateTransition> = None;
        for transition in &self.history {
            known("history", &transition.from)?;
            known("history", &transition.to)?;
            if let Some(before) = before.filter(|before| before.to != transition.from) {
                return Err(ContextError::BrokenHistory { from: transition.from.clone(), entered: before.to.clone() });
            }
            *shown.entry(&transition.to).or_default() += 1;
            before = Some(transition);
        }
        if let Some(last) = before.filter(|last| last.to != self.current_state) {
            return Err(ContextError::HistoryElsewhere { to: last.to.clone(), current: self.current_state.clone() });
        }
        if !self.visit_counts.contains_key(&self.current_state) {
            return Err(ContextError::CurrentNeverEntered(self.current_state.clone()));
        }
        for (state, shown) in shown {
            let counted = self.visit_counts.get(state).copied().unwrap_or(0);
            if counted < shown {
                return Err(ContextError::TooFewVisits { state: state.to_owned(), counted, shown });
            }
        }
        if self.updated_at < self.started_at {
            return Err(ContextError::UpdatedBeforeStarted);
        }
        Ok(())
    }
}
