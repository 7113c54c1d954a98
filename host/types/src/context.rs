//! The place in a run at which a call happens.

use crate::progress::ProgressLog;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The place in a run at which a call happens, and on whose behalf. Plugins, tools and models get the same five facts; the trace, the
/// user and the tenant are the host's own: tools and sinks of the embedding program see them, plugins do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CallContext {
    /// Run id.
    pub run: Arc<str>,
    /// Step name as authored.
    pub step: Arc<str>,
    /// The number of the visit of the step, from 1.
    pub visit: u32,
    /// Attempt within the visit, from 1.
    pub attempt: u32,
    /// Stable across retries and resumes of the same effect.
    pub idempotency_key: Arc<str>,
    /// W3C trace context of whoever started the run (`traceparent`), if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Arc<str>>,
    /// The user on whose behalf the call is made, as the embedding program names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// The tenant on whose behalf the call is made, as the embedding program names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// The number of cells that the call is inside of: 0 for the call of a step or a model, 1 for a call that the cell of
    /// such a call makes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nesting: u8,
    /// The place in which the call tells its progress.
    #[serde(skip)]
    pub progress: ProgressLog,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(nesting: &u8) -> bool {
    *nesting == 0
}

impl Default for CallContext {
    /// A call outside of any run.
    fn default() -> Self {
        thread_local! {
            static NOWHERE: Arc<str> = "".into();
        }
        let nowhere = || NOWHERE.with(Arc::clone);
        Self {
            run: nowhere(),
            step: nowhere(),
            visit: 1,
            attempt: 1,
            idempotency_key: nowhere(),
            traceparent: None,
            user: None,
            tenant: None,
            nesting: 0,
            progress: ProgressLog::default(),
        }
    }
}
