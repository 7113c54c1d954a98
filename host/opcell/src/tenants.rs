//! Tenants: grants, limits and settings of their own over the plugins of one host, for calls and runs that are made on
//! their behalf. A tenant costs what it says and the directories that it grants: no code, no pool, no thread.

use crate::{
    catalog::Loaded,
    config::{Grant, PluginGrants},
    services::PluginServices,
};
use opcell_sandbox::{LimitRequest, Plugin, PluginContext, Settings};
use opcell_types::Failure;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

/// A tenant or a user of the program, as plugins serve it: [`Host::set_tenant`](crate::Host::set_tenant).
///
/// A plugin reaches on its behalf exactly what is granted here, and nothing of what it was granted when it was loaded.
/// Limits are within the plugin's; `concurrent_cells` and `waiting_cells` count the tenant's own calls, and the number
/// of cells of the host ([`HostBuilder::cells`](crate::HostBuilder::cells)) is a cap over all tenants. What plugins keep
/// in stores is apart for each tenant.
#[derive(Debug, Clone)]
#[must_use = "a tenant does nothing until a host knows it"]
pub struct Tenant {
    name: Arc<str>,
    limits: LimitRequest,
    plugins: BTreeMap<String, PluginOfTenant>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PluginOfTenant {
    pub grants: PluginGrants,
    pub settings: Settings,
}

impl Tenant {
    /// A tenant on whose behalf plugins reach nothing.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), limits: LimitRequest::default(), plugins: BTreeMap::new() }
    }

    /// Lets a plugin reach one thing more on behalf of the tenant, as far as its manifest asks for it.
    pub fn grant(mut self, plugin: impl Into<String>, grant: Grant) -> Self {
        self.plugins.entry(plugin.into()).or_default().grants.add(grant);
        self
    }

    /// Sets what a plugin reads under `key` through `wasi:config/store` on behalf of the tenant.
    pub fn setting(mut self, plugin: impl Into<String>, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.plugins.entry(plugin.into()).or_default().settings.insert(key.into(), value.into());
        self
    }

    /// Limits of the cells of every plugin on behalf of the tenant, where they are tighter than the plugin's.
    pub fn limits(mut self, limits: LimitRequest) -> Self {
        self.limits = limits.tighter(&self.limits);
        self
    }

    /// The tenant's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limit_request(&self) -> &LimitRequest {
        &self.limits
    }

    pub(crate) fn plugins(&self) -> impl Iterator<Item = &String> {
        self.plugins.keys()
    }

    pub(crate) fn plugin(&self, name: &str) -> PluginOfTenant {
        self.plugins.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn all_grants(&self) -> impl Iterator<Item = &PluginGrants> {
        self.plugins.values().map(|plugin| &plugin.grants)
    }
}

/// A plugin as it serves one tenant.
pub(crate) struct InTenant {
    pub context: Arc<PluginContext>,
    pub services: Arc<PluginServices>,
}

/// A tenant that a host knows, with the plugins that have served it.
pub(crate) struct KnownTenant {
    pub tenant: Tenant,
    /// Versions of plugins differ by their addresses; those that are gone are forgotten.
    made: Mutex<Vec<(Weak<Plugin>, Arc<InTenant>)>>,
}

impl KnownTenant {
    pub(crate) fn new(tenant: Tenant) -> Arc<Self> {
        Arc::new(Self { tenant, made: Mutex::default() })
    }

    /// A plugin as it serves the tenant, made at its first call.
    pub(crate) fn with<E>(
        &self,
        loaded: &Loaded,
        make: impl FnOnce(&Tenant) -> Result<InTenant, E>,
    ) -> Result<Arc<InTenant>, E> {
        if let Some(found) = self.found(loaded) {
            return Ok(found);
        }
        // Opening directories may take its time, and other calls of the tenant look here meanwhile.
        let new = Arc::new(make(&self.tenant)?);
        let address = Arc::as_ptr(&loaded.plugin);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = made.iter().find(|(plugin, _)| plugin.as_ptr() == address) {
            return Ok(found.clone());
        }
        made.retain(|(plugin, _)| plugin.strong_count() > 0);
        made.push((Arc::downgrade(&loaded.plugin), new.clone()));
        Ok(new)
    }

    /// The same, if it has been made.
    pub(crate) fn found(&self, loaded: &Loaded) -> Option<Arc<InTenant>> {
        let address = Arc::as_ptr(&loaded.plugin);
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.iter().find(|(plugin, _)| plugin.as_ptr() == address).map(|(_, found)| found.clone())
    }
}

/// The tenants of a host, and of those that it was reloaded as.
#[derive(Default)]
pub(crate) struct Tenants(RwLock<HashMap<Arc<str>, Arc<KnownTenant>>>);

impl Tenants {
    pub(crate) fn set(&self, tenant: Arc<KnownTenant>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(tenant.tenant.name.clone(), tenant);
    }

    pub(crate) fn remove(&self, name: &str) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// A tenant by its name. One that the host does not know has no grants to fall back on, least of all those of
    /// the plugin itself.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<KnownTenant>, Failure> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        known.ok_or_else(|| {
            let name = opcell_types::text::one_line(name, 100);
            Failure::host("unknown-tenant", format!("this host has no tenant `{name}`; it has to be set first"))
        })
    }
}
