//! The settings of a host as a package hands them over: one object of JSON.

use opcell::{
    CompileMode, CompileProgram, Config, FilesGrant, Grant, HostBuilder, LimitRequest, NewPermissions, PluginConfig,
    Rejected, StoreGrant, Tenant, Value,
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

/// Settings of a host.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    project: Option<PathBuf>,
    plugins: Vec<PluginSettings>,
    workflows: Vec<PathBuf>,
    skills: Vec<PathBuf>,
    limits: Limits,
    cells: Option<u32>,
    journal: Option<PathBuf>,
    lock: Option<PathBuf>,
    cache: Option<PathBuf>,
    leave_out: bool,
    /// The program that compiles components, where the package has it.
    compiler: Option<PathBuf>,
    /// `true` to compile in this process.
    trusted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginSettings {
    name: String,
    /// `true` of a plugin that is part of the library: it has neither a path nor bytes.
    #[serde(default)]
    builtin: bool,
    path: Option<PathBuf>,
    grants: Vec<GrantSettings>,
    limits: Limits,
    settings: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum GrantSettings {
    Tool { name: String },
    Skill { name: String },
    Files { name: String, directory: PathBuf, write: bool, patterns: Vec<String> },
    Store { name: String, per_run: bool },
}

/// Limits by their keys: a number of the limit's unit, or a text such as `64 MiB`.
#[derive(Deserialize)]
#[serde(transparent)]
struct Limits(BTreeMap<String, Quantity>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Number(u64),
    Text(String),
}

impl Limits {
    fn request(&self) -> Result<LimitRequest, String> {
        let mut request = LimitRequest::default();
        for (key, quantity) in &self.0 {
            let key = key.replace('_', "-");
            let set = match quantity {
                Quantity::Number(number) => request.set(&key, *number),
                Quantity::Text(text) => request.set_text(&key, text),
            };
            set.map_err(|error| error.to_string())?;
        }
        Ok(request)
    }
}

impl GrantSettings {
    fn grant(self) -> Grant {
        match self {
            Self::Tool { name } => Grant::Tool(name),
            Self::Skill { name } => Grant::Skill(name),
            Self::Files { name, directory, write, patterns } => {
                let files = if write { FilesGrant::read_write(directory) } else { FilesGrant::read(directory) };
                Grant::Files(name, FilesGrant { patterns, ..files })
            }
            Self::Store { name, per_run } => Grant::Store(name, StoreGrant { per_run, ..StoreGrant::default() }),
        }
    }
}

/// Settings of a tenant, without its models.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSettings {
    name: String,
    limits: Limits,
    /// Grants by plugins.
    grants: BTreeMap<String, Vec<GrantSettings>>,
    /// Settings by plugins.
    settings: BTreeMap<String, BTreeMap<String, String>>,
    /// Keys by providers. Nothing shows them.
    keys: BTreeMap<String, String>,
}

impl TenantSettings {
    /// Reads settings.
    ///
    /// # Errors
    /// With the key that is unknown, missing or of another type.
    pub fn read(settings: &Value) -> Result<Self, String> {
        serde_json::from_value(serde_json::Value::from(settings)).map_err(|error| error.to_string())
    }

    /// Returns the tenant.
    ///
    /// # Errors
    /// When a limit does not fit.
    pub fn tenant(self) -> Result<Tenant, String> {
        let mut tenant = Tenant::new(self.name).limits(self.limits.request()?);
        for (plugin, grants) in self.grants {
            tenant = grants.into_iter().fold(tenant, |tenant, grant| tenant.grant(&plugin, grant.grant()));
        }
        for (plugin, settings) in self.settings {
            tenant = settings.into_iter().fold(tenant, |tenant, (key, text)| tenant.setting(&plugin, key, text));
        }
        Ok(self.keys.into_iter().fold(tenant, |tenant, (provider, key)| tenant.model_key(provider, key)))
    }
}

/// Settings that do not make a host.
pub enum WrongSettings {
    /// A finding in the project.
    Rejected(Rejected),
    /// A setting of the program.
    Setting(String),
}

impl From<String> for WrongSettings {
    fn from(problem: String) -> Self {
        Self::Setting(problem)
    }
}

impl HostSettings {
    /// Reads settings.
    ///
    /// # Errors
    /// With the key that is unknown, missing or of another type.
    pub fn read(settings: &Value) -> Result<Self, String> {
        serde_json::from_value(serde_json::Value::from(settings)).map_err(|error| error.to_string())
    }

    /// Returns the builder of the host, without its tools. Reads the project file. `components` are the bytes of plugins
    /// that have no path, by their names.
    ///
    /// # Errors
    /// When the project file is refused, or a setting does not fit.
    pub fn builder(self, mut components: HashMap<String, Vec<u8>>) -> Result<HostBuilder, WrongSettings> {
        let mut builder = opcell::Host::builder().limits(self.limits.request()?);
        if let Some(project) = &self.project {
            builder = builder.config(Config::load(project).map_err(WrongSettings::Rejected)?);
        }
        for plugin in self.plugins {
            let mut config = match (plugin.path, components.remove(&plugin.name)) {
                (None, None) if plugin.builtin => PluginConfig::builtin(&plugin.name)
                    .ok_or_else(|| format!("no plugin `{}` is part of the library; `code` is", plugin.name))?,
                (Some(path), None) => PluginConfig::new(plugin.name, path),
                (None, Some(component)) => PluginConfig::from_bytes(plugin.name, component),
                _ => return Err(format!("the plugin `{}` is either a file or bytes", plugin.name).into()),
            };
            config = config.limits(plugin.limits.request()?);
            config = plugin.grants.into_iter().fold(config, |config, grant| config.grant(grant.grant()));
            config = plugin.settings.into_iter().fold(config, |config, (key, text)| config.setting(key, text));
            builder = builder.plugin(config);
        }
        builder = self.workflows.into_iter().fold(builder, HostBuilder::workflows);
        builder = self.skills.into_iter().fold(builder, HostBuilder::skills);
        if let Some(cells) = self.cells {
            builder = builder.cells(cells);
        }
        if let Some(journal) = self.journal {
            builder = builder.sqlite(journal);
        }
        if let Some(lock) = self.lock {
            builder = builder.lock(lock);
        }
        if let Some(cache) = self.cache {
            builder = builder.cache(cache);
        }
        if self.leave_out {
            builder = builder.new_permissions(NewPermissions::LeaveOut);
        }
        Ok(match self.compiler {
            _ if self.trusted => builder.compile(CompileMode::TrustedInProcess),
            Some(path) => builder.compile(CompileMode::Child(CompileProgram { path, args: Vec::new() })),
            None => builder,
        })
    }
}
