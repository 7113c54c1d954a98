//! Plugins with more than their project grants them: at a person's word, and in a tenant.

use super::{Catalog, Loaded};
use crate::{
    config::Grant,
    http::{HttpRule, Method},
    tenants::InTenant,
};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::ports::Failure;
use opcell_types::denial::{Capability, HttpScope, Remedy};
use std::sync::{Arc, PoisonError};

/// Loads a plugin with more than its project grants it.
#[async_trait]
pub(crate) trait Widen: Send + Sync {
    /// The plugin with what it was granted at a person's word.
    async fn widened(&self, plugin: &str, granted: &[Remedy]) -> Result<Loaded, String>;

    /// The plugin as it serves a tenant.
    async fn in_tenant(&self, loaded: &Loaded, tenant: &str) -> Result<Arc<InTenant>, Failure>;
}

/// Widened plugins that are kept; the one that was made first makes room for another.
const MAX_WIDENED: usize = 64;

/// Plugins with more than their project grants them, by name and what was granted, in the order in which they were made.
pub(super) type Widened = IndexMap<(Arc<str>, Vec<Remedy>), Loaded>;

/// Returns the grant that a run can be given while it lasts: one that needs nothing but a name. A directory needs a
/// path, and a private network more than a word: both are for the project file.
pub(crate) fn granting(remedy: &Remedy) -> Option<Grant> {
    match remedy {
        Remedy::Grant { capability: Capability::Tool, name, .. } => Some(Grant::tool(name)),
        Remedy::Grant { capability: Capability::Skill, name, .. } => Some(Grant::skill(name)),
        Remedy::Grant { capability: Capability::Store, name, .. } => Some(Grant::store(name)),
        Remedy::ApproveCall { tool, arguments, .. } => Some(Grant::Call(tool.clone(), arguments.clone())),
        Remedy::AllowHttp { scope: HttpScope::Plugin(_), origin, method, private: false } => {
            let origin = origin.parse().ok()?;
            let methods = match method {
                Some(method) => vec![method.parse().ok()?],
                None => vec![Method::GET, Method::HEAD],
            };
            Some(Grant::Http(HttpRule::new(vec![origin], methods)))
        }
        _ => None,
    }
}

impl Catalog {
    /// Sets the way in which plugins are loaded with more than their project grants them.
    pub(crate) fn widen_with(&self, widen: impl Widen + 'static) {
        // A catalogue belongs to one host, which says so once.
        let _ = self.widen.set(Box::new(widen));
    }

    /// The plugin with what it was granted since the run began.
    pub(super) async fn widened(&self, plugin: &str, granted: &[Remedy]) -> Result<Loaded, Failure> {
        let key = (Arc::from(plugin), granted.to_vec());
        if let Some(loaded) = self.widened.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(loaded.clone());
        }
        let cannot =
            |why: String| Failure::host("not-granted", format!("plugin `{plugin}` cannot be granted this: {why}"));
        let widen = self.widen.get().ok_or_else(|| cannot("the host loads no plugins".to_owned()))?;
        let loaded = widen.widened(plugin, granted).await.map_err(cannot)?;
        // It is loaded from its file, which may hold another version by now.
        let own = self.loaded(plugin).map(|own| own.plugin.digest() == loaded.plugin.digest());
        if own == Some(false) {
            return Err(cannot("its file holds another version than the one that the run began with".to_owned()));
        }
        let mut widened = self.widened.lock().unwrap_or_else(PoisonError::into_inner);
        if widened.len() >= MAX_WIDENED {
            widened.shift_remove_index(0);
        }
        widened.insert(key, loaded.clone());
        Ok(loaded)
    }

    pub(super) async fn in_tenant(&self, loaded: &Loaded, tenant: &str) -> Result<Arc<InTenant>, Failure> {
        match self.widen.get() {
            Some(widen) => widen.in_tenant(loaded, tenant).await,
            None => Err(Failure::host("unknown-tenant", "this host has no tenants")),
        }
    }
}
