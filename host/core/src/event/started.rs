//! The start of a run, and later changes of what it pinned.

use crate::{decide::ValueLimits, id::Timestamp, program::Program, wire};
use indexmap::IndexMap;
use opcell_ir::ir::{RunLimits, Session};
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The start of a run: everything that must not change while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunStarted {
    /// ID of the run.
    pub run: Arc<str>,
    /// The definition.
    pub program: Arc<Program>,
    /// The input of the run.
    #[serde(with = "wire")]
    pub input: Value,
    /// The request that started the first run.
    #[serde(with = "wire")]
    pub original: Value,
    /// Declared inputs: given values and defaults.
    #[serde(with = "wire")]
    pub inputs: Value,
    /// The workflow's limits, narrowed by the host's.
    #[serde(default)]
    pub limits: RunLimits,
    /// The limits on its values.
    #[serde(default, skip_serializing_if = "ValueLimits::is_default")]
    pub value_limits: ValueLimits,
    /// The maximum nesting of delegates.
    pub max_depth: u32,
    /// Number of entries into steps at which Opcell stops a workflow that sets no limit.
    pub visit_bound: u64,
    /// Digests of the plugins and other parts that the run depends on; Opcell compares them when it resumes the run.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// Session settings that every session of the run inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// The judge, or operation, that is asked before each transition of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorizer: Option<Arc<str>>,
    /// W3C trace context (`traceparent`) of the caller that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Arc<str>>,
    /// The user on whose behalf it runs, as the embedding program names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// The tenant on whose behalf it runs, as the embedding program names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// For a fork, its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Box<ForkOrigin>>,
}

/// Other versions of what a run pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Repinned {
    /// The new digests, by the pinned names.
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// The person, as the host knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}

/// The origin of a fork. The events that it shares happened before it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ForkOrigin {
    /// The run whose events it shares.
    pub run: Arc<str>,
    /// The last of them.
    pub seq: u64,
    /// When it was made.
    pub at: Timestamp,
    /// By whom, as the host knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}
