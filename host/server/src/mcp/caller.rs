//! The side that speaks the protocol: the caller of the HTTP request, or whoever started `opcell mcp`.

use crate::access::{Caller, tokens::Scope};
use axum::http::request::Parts;
use opcell::lineage::{self, Lineage};
use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The client at the standard input of this process may answer and grant.
static STDIO_DECIDES: AtomicBool = AtomicBool::new(false);

/// Finds out who started this process, before it reads its standard input: what Opcell itself started, such as a command
/// of a model or a server of tools, answers no question of a person. Blocks.
pub(super) fn look_at_who_started() {
    let decides = match lineage::of_this_process() {
        Lineage::Apart => true,
        lineage @ (Lineage::BelowOpcell | Lineage::Unknown) => {
            tracing::warn!(
                ?lineage,
                "this client is not shown what only a person answers: Opcell started it, or the system does not show who did"
            );
            false
        }
    };
    STDIO_DECIDES.store(decides, Ordering::Relaxed);
}

/// The name under which events record what came over stdio.
const STDIO: &str = "mcp";

/// The caller of a request, and what its client declared.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// As events and logs call it.
    pub(super) name: Arc<str>,
    may_approve: bool,
    may_administer: bool,
    /// The client declared the extension of tasks.
    pub(super) has_tasks: bool,
    /// The client asks its user for what a result of kind `input_required` wants.
    pub(super) has_forms: bool,
    /// The client speaks revision 2026-07-28 or a later one.
    pub(super) is_current: bool,
}

impl Client {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<Parts>();
        let caller = parts.map(|parts| parts.extensions.get::<Caller>());
        let (name, may_approve, may_administer): (Arc<str>, _, _) = match caller {
            None => {
                let decides = STDIO_DECIDES.load(Ordering::Relaxed);
                (STDIO.into(), decides, decides)
            }
            Some(Some(caller)) => (caller.name.clone(), caller.may(Scope::Approve), caller.may(Scope::Admin)),
            // A request that came by another way than the handler of this server decides nothing.
            Some(None) => ("unknown".into(), false, false),
        };
        let declared = context.client_capabilities();
        let is_current = context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        // A client that says only `{}` has forms.
        let elicits = declared.as_ref().and_then(|declared| declared.elicitation.as_ref());
        Self {
            name,
            may_approve,
            may_administer,
            has_tasks: declared.as_ref().is_some_and(|declared| declared.supports_tasks()),
            has_forms: elicits.is_some_and(|forms| forms.form.is_some() || forms.url.is_none()),
            is_current,
        }
    }

    /// Returns `true` if the caller may answer approvals.
    pub(super) fn may_approve(&self) -> bool {
        self.may_approve
    }

    /// Returns `true` if the caller may grant what a call was refused.
    pub(super) fn may_administer(&self) -> bool {
        self.may_administer
    }

    /// A caller that may do everything, for tests.
    #[cfg(test)]
    pub(super) fn with_rights(may_approve: bool, may_administer: bool) -> Self {
        Self { name: "ada".into(), may_approve, may_administer, has_tasks: true, has_forms: true, is_current: true }
    }
}
