//! Contexts: what a plugin may reach and use on behalf of one tenant or user, over the code that is loaded once.
//!
//! A context has grants, limits and settings of its own, and a queue and a share of the processors of its own, so that
//! one tenant's calls neither take another's cells nor its time. It has no code, no engine and no pool: those are the
//! plugin's, and the number of cells that run at once is the sandbox's.

use crate::{
    error::LoadError,
    grants::{Grants, Policy},
    imports::files::Roots,
    limits::{EffectiveLimits, LimitRequest, Limits},
    plugin::{Linked, Plugin},
    sandbox::{Sandbox, Settings},
    schedule::{fair::Share, queue::Queue},
};
use opcell_types::Digest;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A context to make.
#[derive(Debug, Clone, Default)]
pub struct ContextRequest {
    /// The grants of the plugin, as far as its manifest asks for them. By default none; what the plugin itself was
    /// granted when it was loaded does not count.
    pub grants: Grants,
    /// Limits of each cell, and of the context's cells at a time; nowhere above the plugin's.
    pub limits: LimitRequest,
    /// The settings that the plugin reads through `wasi:config/store`, in place of its own.
    pub settings: Settings,
    /// `true` if the services of each call decide which tools it reaches, and no grant: every tool that the plugin's
    /// manifest asks for gets to them.
    pub tools_of_services: bool,
}

/// The grants, limits and settings of a plugin on behalf of one tenant or user. For
/// [`CellRequest::within`](crate::CellRequest).
pub struct PluginContext {
    /// The plugin that it was made for.
    digest: Digest,
    policy: Arc<Policy>,
    roots: Arc<Roots>,
    settings: Arc<Settings>,
    pub(crate) limits: EffectiveLimits,
    own: Arc<Limits>,
    queue: Arc<Queue>,
    share: Arc<Share>,
    /// The scope of the programs that are kept for it.
    scope: u64,
}

impl std::fmt::Debug for PluginContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginContext").field("grants", self.policy.grants()).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Makes a context for a plugin. Opens the directories that it grants.
    ///
    /// # Errors
    /// When a granted directory cannot be opened, or would reach what no grant extends to.
    pub fn context(&self, plugin: &Plugin, request: ContextRequest) -> Result<PluginContext, LoadError> {
        let ContextRequest { grants, limits, settings, tools_of_services } = request;
        static SCOPES: AtomicU64 = AtomicU64::new(1);
        // A context that reaches what its services have is made for one call, and belongs to the plugin as it was loaded.
        let scope = if tools_of_services { 0 } else { SCOPES.fetch_add(1, Ordering::Relaxed) };
        let policy = plugin.policy().with_grants(grants).with_tools_of_services(tools_of_services);
        let roots = self.open_roots(plugin.name(), policy.grants())?;
        let limits = plugin.effective_limits().narrowed(&limits);
        Ok(PluginContext {
            digest: plugin.digest().clone(),
            policy: Arc::new(policy),
            roots: Arc::new(roots),
            settings: Arc::new(settings),
            own: Arc::new(limits.limits.clone()),
            queue: Arc::new(Queue::new(&limits.limits)),
            share: self.share(),
            scope,
            limits,
        })
    }
}

impl PluginContext {
    /// The grants.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        self.policy.grants()
    }

    /// The limits of its cells.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.own
    }

    /// A plugin as it is in this context. `None` for another plugin, or another version of the plugin, than the one that
    /// the context was made for.
    pub(crate) fn of(&self, linked: &Linked) -> Option<Linked> {
        let is_its = self.policy.plugin() == &*linked.name && self.digest == linked.digest;
        is_its.then(|| Linked {
            name: Arc::clone(&linked.name),
            digest: linked.digest.clone(),
            engine: linked.engine.clone(),
            metering: linked.metering,
            pre: linked.pre.clone(),
            operations: linked.operations,
            judges: linked.judges,
            typed: linked.typed.clone(),
            policy: Arc::clone(&self.policy),
            limits: Arc::clone(&self.own),
            roots: Arc::clone(&self.roots),
            settings: Arc::clone(&self.settings),
            wasi: linked.wasi,
            http: linked.http,
            queue: Arc::clone(&self.queue),
            allotment: linked.allotment.clone(),
            share: Arc::clone(&self.share),
            code: Arc::clone(&linked.code),
            programs: linked.programs.clone(),
            scope: self.scope,
        })
    }
}
