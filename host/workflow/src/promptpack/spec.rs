//! A pack's workflow as authored: states, events, guards, artifacts, budget.

use super::decode::{DecodeError, Decoder, Struct};
use opcell_ir::ir::{Control, RunLimits};
use opcell_ir::routing::{EventTable, VisitLimit};
use opcell_types::value::{Map, Value};
use serde::Serialize;
use std::collections::BTreeMap;

/// A pack's `workflow` (RFC 0005, RFC 0009).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spec {
    /// 1, or 2 where states say that they are terminal.
    pub version: i64,
    /// The state a run starts in.
    pub entry: String,
    /// By name.
    pub states: BTreeMap<String, State>,
    /// Host settings; `budget` holds the run's limits.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub engine: Map,
    /// Keys that the reference does not read.
    #[serde(flatten)]
    pub unknown: Map,
}

/// One state.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct State {
    /// The prompt that speaks; absent in composition states.
    pub prompt_task: String,
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Event to target state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on_event: BTreeMap<String, String>,
    /// `transient` or `persistent`: a storage hint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub persistence: String,
    /// `internal` (when empty), `external`, `hybrid` or `composition`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub orchestration: String,
    /// Path of the skills that are shown, or `none`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skills: String,
    /// The composition that runs instead of a prompt (RFC 0010).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub composition: String,
    /// A run that enters it is complete once it has spoken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Entries before `on_max_visits` is entered instead; 0 and below: no limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_visits: i64,
    /// The state entered instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub on_max_visits: String,
    /// Artifacts that this state declares; the names are shared by all states.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, ArtifactDef>,
    /// Keys that the reference does not read: `control` (RFC 0014), `extensions` (RFC 0016), and keys no one knows.
    #[serde(flatten)]
    pub unknown: Map,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// A declared artifact.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ArtifactDef {
    /// MIME type; documentation only in the reference.
    #[serde(rename = "type")]
    pub kind: String,
    /// A description of its content.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `append`; anything else replaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

/// Limits of a run, as `engine.budget` states them; 0 and below: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Budget {
    /// Entries into states.
    pub max_total_visits: i64,
    /// Tool calls by models.
    pub max_tool_calls: i64,
    /// Seconds since the run started.
    pub max_wall_time_sec: i64,
}

/// Why a workflow could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A value has the wrong type; the text is the reference's.
    #[error("parsing workflow config: {0}")]
    Decode(#[from] DecodeError),
    /// A state is `null`, which the reference accepts and then panics on.
    #[error("workflow.states[{}] is null: a state must be an object", opcell_ir::print::go::quote(.0))]
    NullState(String),
}

impl Spec {
    /// Reads an untyped workflow, as the reference does: keys match without regard to case, and `null` is not a
    /// workflow.
    ///
    /// # Errors
    /// When a value has the wrong type, or a state is `null`.
    pub fn from_config(config: &Value) -> Result<Option<Self>, SpecError> {
        if config.is_nullish() {
            return Ok(None);
        }
        let mut decoder = Decoder::default();
        let mut null_state = None;
        let mut spec = Self { unknown: SPEC.unknown(config), ..Self::default() };
        decoder.object(config, SPEC, |d, field, value| match field {
            "version" => d.int(value, &mut spec.version),
            "entry" => d.string(value, &mut spec.entry),
            "engine" => d.any_map(value, &mut spec.engine),
            "states" => d.map(value, "map[string]*workflow.State", |d, name, value| {
                if value.is_nullish() {
                    null_state.get_or_insert_with(|| name.to_owned());
                } else {
                    spec.states.insert(name.to_owned(), State::decode(d, value));
                }
            }),
            _ => {}
        });
        decoder.finish()?;
        null_state.map_or(Ok(Some(spec)), |name| Err(SpecError::NullState(name)))
    }

    /// The budget; one that does not decode is not a budget, as in the reference ([`checks`](mod@super::checks) reports
    /// it).
    #[must_use]
    pub fn budget(&self) -> Option<Budget> {
        let raw = self.engine.get("budget").filter(|raw| !raw.is_nullish())?;
        let mut decoder = Decoder::default();
        let mut budget = Budget::default();
        decoder.object(raw, BUDGET, |d, field, value| match field {
            "max_total_visits" => d.int(value, &mut budget.max_total_visits),
            "max_tool_calls" => d.int(value, &mut budget.max_tool_calls),
            "max_wall_time_sec" => d.int(value, &mut budget.max_wall_time_sec),
            _ => {}
        });
        decoder.finish().is_ok().then_some(budget)
    }

    /// The budget as run limits.
    #[must_use]
    pub fn limits(&self) -> RunLimits {
        let limit = |n: i64| u64::try_from(n).ok().filter(|n| *n > 0);
        self.budget().map_or_else(RunLimits::default, |budget| RunLimits {
            total_visits: limit(budget.max_total_visits),
            tool_calls: limit(budget.max_tool_calls),
            wall_time_seconds: limit(budget.max_wall_time_sec),
            ..RunLimits::default()
        })
    }

    /// The same workflow with only the fields that the reference keeps when it reads one.
    #[must_use]
    pub fn reference_form(&self) -> Self {
        let mut spec = self.clone();
        spec.unknown.clear();
        for state in spec.states.values_mut() {
            state.unknown.clear();
        }
        spec
    }
}

/// The events of an `on_event` map, sorted.
#[must_use]
pub fn sorted_events(on_event: &BTreeMap<String, String>) -> Vec<String> {
    on_event.keys().cloned().collect()
}

pub(super) const SPEC: Struct =
    Struct { full: "workflow.Spec", name: "Spec", fields: &["version", "entry", "states", "engine"] };

const BUDGET: Struct = Struct {
    full: "workflow.Budget",
    name: "Budget",
    fields: &["max_total_visits", "max_tool_calls", "max_wall_time_sec"],
};

pub(super) const STATE: Struct = Struct {
    full: "workflow.State",
    name: "State",
    fields: &[
        "prompt_task",
        "description",
        "on_event",
        "persistence",
        "orchestration",
        "skills",
        "composition",
        "terminal",
        "max_visits",
        "on_max_visits",
        "artifacts",
    ],
};

const ARTIFACT_DEF: Struct =
    Struct { full: "workflow.ArtifactDef", name: "ArtifactDef", fields: &["type", "description", "mode"] };

impl State {
    fn decode(decoder: &mut Decoder, config: &Value) -> Self {
        let mut state = Self { unknown: STATE.unknown(config), ..Self::default() };
        decoder.object(config, STATE, |d, field, value| match field {
            "prompt_task" => d.string(value, &mut state.prompt_task),
            "description" => d.string(value, &mut state.description),
            "on_event" => d.string_map(value, &mut state.on_event),
            "persistence" => d.named_string(value, "workflow.Persistence", &mut state.persistence),
            "orchestration" => d.named_string(value, "workflow.Orchestration", &mut state.orchestration),
            "skills" => d.string(value, &mut state.skills),
            "composition" => d.string(value, &mut state.composition),
            "terminal" => d.bool(value, &mut state.terminal),
            "max_visits" => d.int(value, &mut state.max_visits),
            "on_max_visits" => d.string(value, &mut state.on_max_visits),
            "artifacts" => d.map(value, "map[string]*workflow.ArtifactDef", |d, name, value| {
                if !value.is_nullish() {
                    state.artifacts.insert(name.to_owned(), ArtifactDef::decode(d, value));
                }
            }),
            _ => {}
        });
        state
    }

    /// Returns the party that speaks after this state is entered: `control`, `user` unless it says `agent` (RFC 0014).
    #[must_use]
    pub fn control(&self) -> Control {
        match self.unknown.get("control").and_then(Value::as_str) {
            Some("agent") => Control::Agent,
            _ => Control::User,
        }
    }

    /// Returns `true` if a composition runs instead of a prompt.
    #[must_use]
    pub fn is_composition(&self) -> bool {
        self.orchestration == "composition"
    }

    /// Terminal by its own word, or because no event leads on.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal || self.on_event.is_empty()
    }
}

impl ArtifactDef {
    fn decode(decoder: &mut Decoder, config: &Value) -> Self {
        let mut def = Self::default();
        decoder.object(config, ARTIFACT_DEF, |d, field, value| match field {
            "type" => d.string(value, &mut def.kind),
            "description" => d.string(value, &mut def.description),
            "mode" => d.string(value, &mut def.mode),
            _ => {}
        });
        def
    }

    /// Returns `true` if setting it again appends.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.mode == "append"
    }
}

impl EventTable for Spec {
    fn has_state(&self, state: &str) -> bool {
        self.states.contains_key(state)
    }

    fn is_terminal(&self, state: &str) -> bool {
        self.states.get(state).is_none_or(State::is_terminal)
    }

    fn target(&self, state: &str, event: &str) -> Option<&str> {
        self.states.get(state)?.on_event.get(event).map(String::as_str)
    }

    fn events(&self, state: &str) -> Vec<&str> {
        self.states.get(state).map(|state| state.on_event.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    fn visit_limit(&self, state: &str) -> Option<VisitLimit<'_>> {
        let state = self.states.get(state)?;
        let max = u64::try_from(state.max_visits).ok().filter(|max| *max > 0)?;
        Some(VisitLimit { max, instead: Some(state.on_max_visits.as_str()).filter(|name| !name.is_empty()) })
    }
}
