//! A plugin of a project: its component, its grants, its limits.

use super::{Component, ComponentStore, LimitSpans, origin::Origin};
use crate::{builtin, http::HttpRule, places::Places, services::HTTP_FETCH, source};
use opcell_ir::Span;
use opcell_sandbox::{
    Exports, Settings,
    grants::{FilesGrant, Grants, StoreGrant},
    limits::LimitRequest,
};
use opcell_types::files::read_bounded;
use std::{io, path::PathBuf, sync::Arc};

/// The most that is read of a runtime that the user installed.
const MAX_RUNTIME: u64 = 256 << 20;

/// One plugin of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginConfig {
    /// Its name in this project.
    pub name: String,
    /// Path of the component's file; of one that is in no file, a note in parentheses.
    pub path: PathBuf,
    /// The component, where it is in no file.
    pub(crate) component: Option<Component>,
    /// The folder of the project whose file names it: links of a source are followed within it alone.
    pub(crate) project: Option<PathBuf>,
    /// The script of a skill that it is.
    pub script: Option<SkillScript>,
    /// The place at which the file names it.
    pub span: Option<Span>,
    /// The capabilities that it is granted.
    pub grants: PluginGrants,
    /// Its own limits. What is above its ceiling counts as the ceiling.
    pub limits: LimitRequest,
    /// Its own ceiling, where it is not the project's: it may be higher.
    pub ceiling: LimitRequest,
    /// The places at which the file sets its own limits.
    pub(crate) limit_spans: LimitSpans,
    /// The settings that it reads through `wasi:config/store`.
    pub settings: Settings,
    /// `true` if it is under work: whatever lies at its path is loaded, and every command says so.
    pub dev: bool,
    /// The rule by which its exports become operations and judges.
    pub exports: Exports,
    /// `true` if the arguments and answers of its host calls are recorded with its runs, for calling it again with the
    /// same ([`crate::replay`]); `None` follows [`Config::record_host_calls`](super::Config::record_host_calls).
    pub record_host_calls: Option<bool>,
    /// The treatment of a call that fails because it was refused something.
    pub on_denied: OnDenied,
    /// The registry that it comes from; its path is then where the store has the version of the lock, or the reference
    /// where the lock has none.
    pub origin: Option<Origin>,
}

/// A script of a skill, which models call as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillScript {
    /// The skill.
    pub skill: String,
    /// The script without its extension.
    pub name: String,
}

impl SkillScript {
    /// The name of the tool: `skill/NAME/SCRIPT`.
    #[must_use]
    pub fn tool(&self) -> String {
        format!("skill/{}/{}", self.skill, self.name)
    }
}

/// The treatment of a call that fails because its plugin was refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnDenied {
    /// It has failed.
    #[default]
    Fail,
    /// The run waits until a person grants it, for the call or for the run, or refuses it. Of calls that must not be
    /// repeated, only those of which every host call was refused.
    Ask,
}

/// The grants of a plugin. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginGrants {
    /// Tools, skills, files and preopens, enforced by the sandbox.
    pub capabilities: Grants,
    /// Requests that the tool `http.fetch` performs.
    pub http: Vec<HttpRule>,
    /// `true` if the manifest's text is added to prompts.
    pub prompt: bool,
    /// Calls of tools that a person has approved: the tool, and its arguments as JSON.
    pub approved: Vec<(String, String)>,
    /// The first thing that was granted twice under one name.
    pub(crate) conflict: Option<String>,
}

/// Something that a plugin may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grant {
    /// A tool of the host, by its name.
    Tool(String),
    /// A skill, by its name.
    Skill(String),
    /// A directory, under the name by which the plugin asks for it.
    Files(String, FilesGrant),
    /// A store in which the plugin keeps values from one call to the next, under the name by which it requests it.
    Store(String, StoreGrant),
    /// Requests of the tool `http.fetch`, which is granted with them.
    Http(HttpRule),
    /// One call of a tool that otherwise waits for a person: the tool, and its arguments as JSON.
    Call(String, String),
}

impl Grant {
    /// A tool of the host, such as `http.fetch`.
    #[must_use]
    pub fn tool(name: impl Into<String>) -> Self {
        Self::Tool(name.into())
    }

    /// A skill.
    #[must_use]
    pub fn skill(name: impl Into<String>) -> Self {
        Self::Skill(name.into())
    }

    /// Reading everything below a directory. A relative path starts at the process's working directory; the directory
    /// must exist when the plugin is loaded, and is opened then: one that takes its place later is not seen.
    #[must_use]
    pub fn read(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self::Files(name.into(), FilesGrant::read(directory))
    }

    /// Reading and writing everything below a directory, up to [`FilesGrant::DEFAULT_WRITE_QUOTA`] bytes within a
    /// day. Otherwise as [`Grant::read`].
    #[must_use]
    pub fn read_write(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self::Files(name.into(), FilesGrant::read_write(directory))
    }

    /// Returns a grant of a store in this project, within [`StoreGrant::default`].
    #[must_use]
    pub fn store(name: impl Into<String>) -> Self {
        Self::Store(name.into(), StoreGrant::default())
    }
}

impl PluginGrants {
    pub(crate) fn add(&mut self, grant: Grant) {
        let capabilities = &mut self.capabilities;
        match grant {
            Grant::Tool(name) => drop(capabilities.tools.insert(name)),
            Grant::Skill(name) => drop(capabilities.skills.insert(name)),
            Grant::Files(name, files) => {
                if capabilities.files.get(&name).is_some_and(|other| *other != files) {
                    self.conflict.get_or_insert_with(|| format!("the grant of files `{name}`"));
                }
                capabilities.files.insert(name, files);
            }
            Grant::Store(name, store) => {
                if capabilities.stores.get(&name).is_some_and(|other| *other != store) {
                    self.conflict.get_or_insert_with(|| format!("the grant of the store `{name}`"));
                }
                capabilities.stores.insert(name, store);
            }
            Grant::Call(tool, arguments) => self.approved.push((tool, arguments)),
            Grant::Http(rule) => {
                capabilities.tools.insert(HTTP_FETCH.to_owned());
                self.http.push(rule);
            }
        }
    }
}

impl PluginConfig {
    /// A plugin with no grants, within the host's limits. `name` is what receipts, denials and errors call it.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "plugins/repo.wasm");
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            component: None,
            project: None,
            script: None,
            span: None,
            grants: PluginGrants::default(),
            limits: LimitRequest::default(),
            ceiling: LimitRequest::default(),
            limit_spans: LimitSpans::new(),
            settings: Settings::new(),
            dev: false,
            exports: Exports::Contract,
            record_host_calls: None,
            on_denied: OnDenied::Fail,
            origin: None,
        }
    }

    /// A plugin whose component is in memory, such as one that is part of the program (`include_bytes!`). Otherwise as
    /// [`PluginConfig::new`].
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// # fn plugin(component: Vec<u8>) -> PluginConfig {
    /// PluginConfig::from_bytes("repo", component)
    /// # }
    /// ```
    #[must_use]
    pub fn from_bytes(name: impl Into<String>, component: impl Into<Arc<[u8]>>) -> Self {
        Self::of_component(name, Component::Bytes(component.into()))
    }

    /// A plugin whose component a store of the program has, under the plugin's name. Otherwise as
    /// [`PluginConfig::new`].
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// use opcell::{ComponentStore, StoreFailure};
    ///
    /// /// The plugins that users have installed.
    /// struct Installed;
    ///
    /// #[async_trait]
    /// impl ComponentStore for Installed {
    ///     async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
    ///         Err(format!("{plugin} is not installed").into())
    ///     }
    /// }
    ///
    /// let plugin = PluginConfig::stored("repo", Installed);
    /// ```
    #[must_use]
    pub fn stored(name: impl Into<String>, store: impl ComponentStore + 'static) -> Self {
        Self::of_component(name, Component::Stored(Arc::new(store)))
    }

    /// A plugin that is part of the library, such as [`builtin::CODE`], under its own name;
    /// `None` if there is none of this name. Otherwise as [`PluginConfig::new`].
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        builtin::component(name).map(|component| Self::of_component(name, Component::Builtin(component)))
    }

    /// The plugin [`builtin::PYTHON`] from the runtime that the user has installed. Blocks while it reads.
    ///
    /// # Errors
    /// When it cannot be read, or is not installed.
    pub fn python(places: &Places) -> io::Result<Self> {
        let path = places.python_runtime().ok_or(io::ErrorKind::NotFound)?;
        let component = read_bounded(&path, MAX_RUNTIME)?;
        Ok(Self::of_component(builtin::PYTHON, Component::Bytes(component.into())))
    }

    /// Returns the component of a plugin that is part of the library.
    #[must_use]
    pub fn builtin_component(&self) -> Option<&'static [u8]> {
        match self.component {
            Some(Component::Builtin(component)) => Some(component),
            _ => None,
        }
    }

    fn of_component(name: impl Into<String>, component: Component) -> Self {
        Self { path: component.place().into(), component: Some(component), ..Self::new(name, "") }
    }

    /// Reads the component of a plugin at a path, or makes it of a source; at most this many bytes.
    ///
    /// # Errors
    /// As [`source::read_component`].
    #[doc(hidden)]
    pub fn read(&self, most: u64) -> Result<Vec<u8>, String> {
        match &self.script {
            // An earlier version is a component.
            Some(script) if source::is_source(&self.path) => {
                source::read_script(&script.skill, &self.path, self.project.as_deref())
            }
            _ => source::read_component(&self.path, self.project.as_deref(), most),
        }
    }

    /// Returns `true` if a file has the component.
    pub(crate) fn is_file(&self) -> bool {
        self.component.is_none() && self.origin.is_none()
    }

    /// Lets the plugin reach one thing more, as far as its manifest asks for it.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "repo.wasm").grant(Grant::read("workspace", "/srv/repo"));
    /// ```
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grants.add(grant);
        self
    }

    /// Limits of its own, where they are tighter than the host's. Of several such limits the tightest counts.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let limits = LimitRequest { memory: Some(32 << 20), ..LimitRequest::default() };
    /// let repo = PluginConfig::new("repo", "repo.wasm").limits(limits);
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: LimitRequest) -> Self {
        self.limits = limits.tighter(&self.limits);
        self
    }

    /// Sets what the plugin reads under `key` through `wasi:config/store`.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "repo.wasm").setting("branch", "main");
    /// ```
    #[must_use]
    pub fn setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        if self.settings.get(&key).is_some_and(|other| *other != value) {
            self.grants.conflict.get_or_insert_with(|| format!("the setting `{key}`"));
        }
        self.settings.insert(key, value);
        self
    }

    /// A ceiling of its own, in place of the host's: it may be higher.
    #[must_use]
    pub fn ceiling(mut self, ceiling: LimitRequest) -> Self {
        if self.ceiling != LimitRequest::default() && self.ceiling != ceiling {
            self.grants.conflict.get_or_insert_with(|| "`ceiling`".to_owned());
        }
        self.ceiling = ceiling;
        self
    }

    /// Keeps what its host calls were given and answered with its runs, or does not.
    #[must_use]
    pub fn record_host_calls(mut self, record: bool) -> Self {
        self.record_host_calls = Some(record);
        self
    }

    /// Returns the limits of its cells on a host with these limits, before its manifest requests less.
    #[must_use]
    pub fn limits_within(&self, host: &LimitRequest) -> LimitRequest {
        self.limits.within(&self.ceiling.or(host))
    }
}
