//! The one rule that says whether an event may happen and where it leads.
//!
//! Both PromptPack's state machine and the engine's event judges ask here, each about its own table of states. The
//! order of the checks is PromptPack's (RFC 0005 and RFC 0009): run limits, known state, terminal state, known event,
//! visits of the target. Nothing is changed by asking.

use crate::ir::RunLimits;

/// States and the events that lead from one to another.
pub trait EventTable {
    /// Returns `true` if there is such a state.
    fn has_state(&self, state: &str) -> bool;
    /// Returns `true` if no event leads out of this state.
    fn is_terminal(&self, state: &str) -> bool;
    /// Returns the target of an event in a state, visits not yet considered.
    fn target(&self, state: &str, event: &str) -> Option<&str>;
    /// The events of a state, sorted.
    fn events(&self, state: &str) -> Vec<&str>;
    /// Returns the limit on the visits of a state.
    fn visit_limit(&self, state: &str) -> Option<VisitLimit<'_>>;
}

/// The number of times a state may be entered, and the state to go to instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisitLimit<'a> {
    /// Entries, at least 1.
    pub max: u64,
    /// Entered in its place, without asking whether *its* limit is reached.
    pub instead: Option<&'a str>,
}

/// The usage of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Entries into states, the first one included.
    pub total_visits: u64,
    /// Tool calls by models.
    pub tool_calls: u64,
    /// Whole seconds since the run started.
    pub elapsed_seconds: u64,
}

/// A limit that a run has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Entries into states.
    TotalVisits,
    /// Tool calls by models.
    ToolCalls,
    /// Seconds since the run started.
    WallTime,
}

impl LimitKind {
    /// The limit's key in PromptPack's `engine.budget`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::TotalVisits => "max_total_visits",
            Self::ToolCalls => "max_tool_calls",
            Self::WallTime => "max_wall_time_sec",
        }
    }
}

/// A limit that is reached, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// The limit that was reached.
    pub limit: LimitKind,
    /// The amount that was used.
    pub current: u64,
    /// The amount that was allowed.
    pub max: u64,
}

/// An event that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed<'a> {
    /// The state that is entered.
    pub target: &'a str,
    /// Set when the target's limit sent the run elsewhere.
    pub redirect: Option<Redirect<'a>>,
}

/// Why a run entered another state than its event named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redirect<'a> {
    /// The state that the event named.
    pub original: &'a str,
    /// That state's limit.
    pub max_visits: u64,
}

/// Why an event may not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// A limit of the run is reached.
    Limit(LimitReached),
    /// The run is in a state that is not declared.
    UnknownState,
    /// The run is in a terminal state.
    Terminal,
    /// The state does not have this event.
    UnknownEvent,
    /// The target was entered as often as it may be, and names no other.
    MaxVisits {
        /// The state that the event named.
        target: &'a str,
        /// The number of times it was entered.
        visits: u64,
        /// The number of times it may be entered.
        max: u64,
    },
}

impl Refusal<'_> {
    /// The reason of the failure that the refusal becomes.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::MaxVisits { .. } => "max-visits-exceeded",
            Self::Terminal => "terminal-state",
            Self::Limit(_) | Self::UnknownState | Self::UnknownEvent => "no-match",
        }
    }
}

/// The message as PromptPack words it, because the rule is its own.
impl std::fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limit(reached) => {
                write!(
                    f,
                    "workflow budget exhausted: {} {} reached limit {}",
                    reached.limit.key(),
                    reached.current,
                    reached.max
                )
            }
            Self::UnknownState => f.write_str("the state does not exist"),
            Self::Terminal => f.write_str("current state is terminal (no outgoing transitions)"),
            Self::UnknownEvent => f.write_str("invalid event for current state"),
            Self::MaxVisits { target, visits, max } => {
                write!(f, "max visits exceeded: state {target:?} visited {visits} times (max {max})")
            }
        }
    }
}

/// The first limit that is reached: visits, then tool calls, then wall time.
///
/// # Errors
/// When one of them is.
pub fn check_limits(limits: &RunLimits, usage: Usage) -> Result<(), LimitReached> {
    [
        (LimitKind::TotalVisits, limits.total_visits, usage.total_visits),
        (LimitKind::ToolCalls, limits.tool_calls, usage.tool_calls),
        (LimitKind::WallTime, limits.wall_time_seconds, usage.elapsed_seconds),
    ]
    .into_iter()
    .find_map(|(limit, max, current)| max.filter(|max| current >= *max).map(|max| LimitReached { limit, current, max }))
    .map_or(Ok(()), Err)
}

/// Routes an event to its target.
///
/// # Errors
/// The first check that fails, in PromptPack's order.
pub fn route_event<'a>(
    table: &'a impl EventTable,
    state: &str,
    event: &str,
    limits: &RunLimits,
    usage: Usage,
    visits: impl Fn(&str) -> u64,
) -> Result<Routed<'a>, Refusal<'a>> {
    check_limits(limits, usage).map_err(Refusal::Limit)?;
    if !table.has_state(state) {
        return Err(Refusal::UnknownState);
    }
    if table.is_terminal(state) {
        return Err(Refusal::Terminal);
    }
    admit(table, table.target(state, event).ok_or(Refusal::UnknownEvent)?, visits)
}

/// Admits one more visit of a state, or returns the state that is entered in its place when it may not be.
///
/// # Errors
/// When it was entered as often as it may be, and names no other.
pub fn admit<'a>(
    table: &'a impl EventTable,
    target: &'a str,
    visits: impl Fn(&str) -> u64,
) -> Result<Routed<'a>, Refusal<'a>> {
    let Some(limit) = table.visit_limit(target).filter(|limit| visits(target) >= limit.max) else {
        return Ok(Routed { target, redirect: None });
    };
    match limit.instead {
        // A fallback that names its own state is entered as if there were no limit (the reference's rule).
        Some(instead) if instead == target => Ok(Routed { target, redirect: None }),
        Some(instead) => {
            Ok(Routed { target: instead, redirect: Some(Redirect { original: target, max_visits: limit.max }) })
        }
        None => Err(Refusal::MaxVisits { target, visits: visits(target), max: limit.max }),
    }
}
