//! The state machine: a workflow, the state of one run of it, and the one rule that moves it.

use crate::context::{Context, ContextError};
use jiff::Timestamp;
use opcell_ir::ir::RunLimits;
use opcell_ir::print::go::{list, quote};
use opcell_ir::routing::{EventTable as _, LimitKind, Refusal, Usage, route_event};
use opcell_types::value::Map;
use opcell_workflow::promptpack::Spec;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A run of a workflow, driven by its host. Every method that needs the time is given it, so that the machine itself
/// has no clock.
#[derive(Debug, Clone)]
pub struct StateMachine {
    spec: Arc<Spec>,
    limits: RunLimits,
    context: Context,
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TransitionResult {
    /// The state that was left.
    pub from: String,
    /// The state that was entered.
    pub to: String,
    /// Event that caused the transition.
    pub event: String,
    /// The event named another state, whose limit was reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redirected: bool,
    /// Why the destination is not the one of the event; empty if it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub redirect_reason: String,
    /// The state that the event named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub original_target: String,
    /// Further arguments that the model gave to the transition tool.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub host_extras: Map,
}

/// Why an event was refused. Nothing changed. The texts are the reference's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// The run is in a state that the workflow does not have.
    #[error("invalid event for current state: state {} not found in spec", quote(.state))]
    UnknownState {
        /// Name of the state.
        state: String,
    },
    /// The state does not have the event.
    #[error(
        "invalid event for current state: event {} not defined for state {} (available: {})",
        quote(.event), quote(.state), list(.available)
    )]
    InvalidEvent {
        /// The state that the run is in.
        state: String,
        /// The event that was raised.
        event: String,
        /// The events that could have been raised, sorted.
        available: Vec<String>,
    },
    /// The run is complete.
    #[error("current state is terminal (no outgoing transitions): state {} is terminal", quote(.state))]
    TerminalState {
        /// The state that the run is in.
        state: String,
    },
    /// The target was entered as often as it may be, and names no other state.
    #[error("max visits exceeded: state {} visited {visit_count} times (max {max_visits})", quote(.original_target))]
    MaxVisitsExceeded {
        /// The state that the run is in.
        from_state: String,
        /// The state that the event named.
        original_target: String,
        /// The event that was raised.
        event: String,
        /// The number of times the target was entered.
        visit_count: u64,
        /// The number of times it may be entered.
        max_visits: u64,
    },
    /// A limit of the run is reached.
    #[error("workflow budget exhausted: {} {current} reached limit {max}", .limit.key())]
    BudgetExhausted {
        /// The limit that was reached.
        limit: LimitKind,
        /// The amount used.
        current: u64,
        /// The amount allowed.
        max: u64,
        /// The state that the run is in.
        current_state: String,
    },
}

impl StateMachine {
    /// A run that enters the workflow's entry state.
    #[must_use]
    pub fn new(spec: impl Into<Arc<Spec>>, now: Timestamp) -> Self {
        let spec = spec.into();
        let context = Context::new(spec.entry.clone(), now);
        Self::from_context(spec, context)
    }

    /// A run that continues from a context, whatever the context says; the reference's rule. See [`Self::restore`].
    #[must_use]
    pub fn from_context(spec: impl Into<Arc<Spec>>, context: Context) -> Self {
        let spec = spec.into();
        Self { limits: spec.limits(), spec, context }
    }

    /// A run that continues from a context that came from outside.
    ///
    /// # Errors
    /// When the context cannot have come from a run of this workflow.
    pub fn restore(spec: impl Into<Arc<Spec>>, context: Context) -> Result<Self, ContextError> {
        let spec = spec.into();
        context.check(&spec)?;
        Ok(Self::from_context(spec, context))
    }

    /// The workflow.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The state of the run; clone it for a snapshot that the run no longer touches.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the state that the run is in.
    #[must_use]
    pub fn current_state(&self) -> &str {
        &self.context.current_state
    }

    /// The prompt that speaks here; empty in an unknown state.
    #[must_use]
    pub fn current_prompt_task(&self) -> &str {
        self.spec.states.get(self.current_state()).map_or("", |state| &state.prompt_task)
    }

    /// The events of the current state, sorted; a state marked terminal still lists those it has.
    #[must_use]
    pub fn available_events(&self) -> Vec<&str> {
        self.spec.events(self.current_state())
    }

    /// Returns `true` if no event can move the run on: unknown states count.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.spec.is_terminal(self.current_state())
    }

    /// Current artifact values.
    #[must_use]
    pub fn artifacts(&self) -> &BTreeMap<String, String> {
        &self.context.artifacts
    }

    /// Counts tool calls against the budget.
    pub fn increment_tool_calls(&mut self, n: u64) {
        self.context.increment_tool_calls(n);
    }

    /// Sets an artifact. Whether it appends is what the current state declares, else the first state by name that
    /// declares it, else no.
    pub fn set_artifact(&mut self, name: &str, value: &str) {
        let declared = |state: &opcell_workflow::promptpack::State| {
            state.artifacts.get(name).map(opcell_workflow::promptpack::spec::ArtifactDef::appends)
        };
        let append = self
            .spec
            .states
            .get(self.current_state())
            .and_then(declared)
            .or_else(|| self.spec.states.values().find_map(declared))
            .unwrap_or(false);
        self.context.set_artifact(name, value, append);
    }

    /// Returns the usage of the run by `now`.
    #[must_use]
    pub fn usage(&self, now: Timestamp) -> Usage {
        let elapsed = now.duration_since(self.context.started_at).as_secs();
        Usage {
            total_visits: self.context.total_visits(),
            tool_calls: self.context.total_tool_calls,
            elapsed_seconds: u64::try_from(elapsed).unwrap_or(0),
        }
    }

    /// Applies an event.
    ///
    /// # Errors
    /// When the event may not happen now; nothing has changed then.
    pub fn process_event(&mut self, event: &str, now: Timestamp) -> Result<TransitionResult, TransitionError> {
        let spec = Arc::clone(&self.spec);
        let from = self.context.current_state.clone();
        let visits = |state: &str| self.context.visit_counts.get(state).copied().unwrap_or(0);
        let routed = route_event(spec.as_ref(), &from, event, &self.limits, self.usage(now), visits)
            .map_err(|refusal| self.refused(refusal, event))?;
        self.context.record_transition(&from, routed.target, event, now);
        let mut result =
            TransitionResult { from, to: routed.target.to_owned(), event: event.to_owned(), ..Default::default() };
        if let Some(redirect) = routed.redirect {
            result.redirected = true;
            result.redirect_reason =
                format!("max_visits ({}) reached for {}", redirect.max_visits, quote(redirect.original));
            redirect.original.clone_into(&mut result.original_target);
        }
        Ok(result)
    }

    fn refused(&self, refusal: Refusal<'_>, event: &str) -> TransitionError {
        let state = self.context.current_state.clone();
        match refusal {
            Refusal::Limit(reached) => TransitionError::BudgetExhausted {
                limit: reached.limit,
                current: reached.current,
                max: reached.max,
                current_state: state,
            },
            Refusal::UnknownState => TransitionError::UnknownState { state },
            Refusal::Terminal => TransitionError::TerminalState { state },
            Refusal::UnknownEvent => TransitionError::InvalidEvent {
                available: self.available_events().into_iter().map(str::to_owned).collect(),
                event: event.to_owned(),
                state,
            },
            Refusal::MaxVisits { target, visits, max } => TransitionError::MaxVisitsExceeded {
                from_state: state,
                original_target: target.to_owned(),
                event: event.to_owned(),
                visit_count: visits,
                max_visits: max,
            },
        }
    }
}
