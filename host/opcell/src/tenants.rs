//! Tenants: grants, limits and settings of their own over the plugins of one host, for calls and runs that are made on
//! their behalf. A tenant costs what it says and the directories that it grants: no code, no pool, no thread.

use crate::{
    catalog::Loaded,
    config::{Grant, PluginGrants},
    embedded::EmbeddedModel,
    host::{Duplicate, HostError},
    report::Rejected,
    services::PluginServices,
};
use opcell_ir::Diagnostic;
use opcell_sandbox::{LimitRequest, Plugin, PluginContext, Settings};
use opcell_session::models::{Model, Models, TenantKey, TenantModel, TenantModels};
use opcell_types::Failure;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

/// A tenant or a user of the program, as plugins serve it: [`Host::set_tenant`](crate::Host::set_tenant).
///
/// A plugin reaches on its behalf exactly what is granted here, and nothing of what it was granted when it was loaded.
/// Limits are within the plugin's; `concurrent_cells` and `waiting_cells` count the tenant's own calls, and the number
/// of cells of the host ([`HostBuilder::cells`](crate::HostBuilder::cells)) is a cap over all tenants. What plugins keep
/// in stores is apart for each tenant. Its own models and keys answer its sessions; the host's answer the rest.
///
/// ```
/// use opcell::{Tenant, prelude::*};
///
/// # fn tenant(key: &str) -> Tenant {
/// Tenant::new("acme")
///     .grant("repo", Grant::read("workspace", "/srv/acme"))
///     .setting("repo", "branch", "main")
///     .model_key("openai", key)
///     .limits(LimitRequest { concurrent_cells: Some(4), ..LimitRequest::default() })
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a tenant does nothing until a host knows it"]
pub struct Tenant {
    name: Arc<str>,
    limits: LimitRequest,
    plugins: BTreeMap<String, PluginOfTenant>,
    /// The model that answers for every provider.
    model: Option<Arc<dyn Model>>,
    /// Models and keys by their providers.
    providers: BTreeMap<String, TenantModel>,
    /// Providers whose key is empty.
    without_key: Vec<String>,
    /// The first setting that was made twice.
    twice: Option<String>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let providers: Vec<&String> = self.providers.keys().collect();
        f.debug_struct("Tenant")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("plugins", &self.plugins)
            .field("providers", &providers)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PluginOfTenant {
    pub grants: PluginGrants,
    pub settings: Settings,
}

impl Tenant {
    /// A tenant on whose behalf plugins reach nothing.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            limits: LimitRequest::default(),
            plugins: BTreeMap::new(),
            model: None,
            providers: BTreeMap::new(),
            without_key: Vec::new(),
            twice: None,
        }
    }

    /// Lets a plugin reach one thing more on behalf of the tenant, as far as its manifest asks for it.
    pub fn grant(mut self, plugin: impl Into<String>, grant: Grant) -> Self {
        self.plugins.entry(plugin.into()).or_default().grants.add(grant);
        self
    }

    /// Sets what a plugin reads under `key` through `wasi:config/store` on behalf of the tenant.
    pub fn setting(mut self, plugin: impl Into<String>, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (plugin, key, value) = (plugin.into(), key.into(), value.into());
        let settings = &mut self.plugins.entry(plugin.clone()).or_default().settings;
        if settings.get(&key).is_some_and(|other| *other != value) {
            self.twice.get_or_insert_with(|| format!("the setting `{key}` of plugin `{plugin}`"));
        }
        settings.insert(key, value);
        self
    }

    /// Sets a model of the program that answers every round of the tenant's sessions, whatever model they name.
    pub fn model(mut self, model: impl Model + 'static) -> Self {
        let name = format!("model of tenant {}", self.name);
        if self.model.replace(EmbeddedModel::shared(&name, Arc::new(model))).is_some() {
            self.twice.get_or_insert_with(|| "`model`".to_owned());
        }
        self
    }

    /// Sets a model of the program that answers the tenant's rounds for models that are named `name/…`, in place of the
    /// host's provider of this name.
    pub fn provider(mut self, name: impl Into<String>, model: impl Model + 'static) -> Self {
        let name = name.into();
        let model = EmbeddedModel::shared(&format!("{name} of tenant {}", self.name), Arc::new(model));
        self.answer(name, TenantModel::Own(model));
        self
    }

    /// Sets the tenant's own key for a provider of the host, such as `openai`: its rounds are sent with this key alone,
    /// without headers that the project configures. The key stays in memory; nothing shows it.
    pub fn model_key(mut self, provider: impl Into<String>, key: impl AsRef<str>) -> Self {
        let provider = provider.into();
        match TenantKey::new(key.as_ref()) {
            Some(key) => self.answer(provider, TenantModel::Keyed(key)),
            None => self.without_key.push(provider),
        }
        self
    }

    fn answer(&mut self, provider: String, model: TenantModel) {
        if self.providers.contains_key(&provider) {
            self.twice.get_or_insert_with(|| format!("the provider `{provider}`"));
        }
        self.providers.insert(provider, model);
    }

    /// Checks that nothing is there twice, and that its models and keys can be used with the host's.
    pub(crate) fn check(&self, models: &Models) -> Result<(), HostError> {
        let of_grants = || {
            let conflict = self.plugins.iter().find_map(|(name, of)| Some((name, of.grants.conflict.as_ref()?)));
            conflict.map(|(name, what)| format!("{what} of plugin `{name}`"))
        };
        if let Some(what) = self.twice.clone().or_else(of_grants) {
            return Err(Duplicate::OfTenant { tenant: self.name.to_string(), what }.into());
        }
        let unfit = self.providers.iter().find_map(|(name, model)| match model {
            TenantModel::Keyed(_) if !models.takes_key(name) => {
                Some(format!("the host asks no provider `{name}` over HTTP, so that the key has no use"))
            }
            TenantModel::Own(_) if !models.has_provider(name) => {
                Some(format!("the host has no provider `{name}`, so that no session can name its models"))
            }
            TenantModel::Keyed(_) | TenantModel::Own(_) => None,
        });
        let empty = self.without_key.first().map(|name| format!("the key for the provider `{name}` is empty"));
        let both = self.model.as_ref().and(self.providers.keys().next());
        let both = both.map(|name| format!("a model answers for all, and there is something for `{name}` as well"));
        match empty.or(both).or(unfit) {
            Some(why) => {
                let message = format!("tenant `{}`: {why}", self.name);
                Err(Rejected::plain(Diagnostic::error("tenant-unusable", message)).into())
            }
            None => Ok(()),
        }
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

impl TenantModels for Tenants {
    fn of(&self, tenant: &str, provider: &str) -> Result<Option<TenantModel>, Failure> {
        let known = self.find(tenant)?;
        let of_all = || known.tenant.model.clone().map(TenantModel::Own);
        Ok(known.tenant.providers.get(provider).cloned().or_else(of_all))
    }
}
