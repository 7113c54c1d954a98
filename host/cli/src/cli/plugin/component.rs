//! A plugin as its component: its bytes, its name in the project, and the cells that look at it.

use crate::cli::{args::Global, failure::Failure};
use opcell::{
    config::{Config, PluginConfig, lock::Locked},
    places::Places,
    remedy,
    report::Rejected,
    source,
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_sandbox::{
    CompileMode, Exports, Grants, LoadError, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig, grants::Policy,
    inspect::Surface,
};
use opcell_types::Digest;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// As much of a component is read; what the compiler takes.
pub(in crate::cli) const MAX_COMPONENT: u64 = opcell_registry::MAX_COMPONENT;

/// The folder of the project that the command runs in.
pub(in crate::cli) fn project_here() -> Option<PathBuf> {
    Config::find(&std::env::current_dir().ok()?)?.parent().map(Path::to_owned)
}

/// A component's bytes and what they say.
pub(super) struct Component {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) surface: Surface,
    pub(super) exports: Exports,
    /// Its name in the project, if it is part of one.
    pub(super) named: Option<String>,
}

impl Component {
    pub(super) fn read(path: &Path) -> Result<Self, Rejected> {
        Self::read_as(path, &Exports::Contract)
    }

    /// As [`Self::read`], also of a component that was not written for Opcell.
    pub(super) fn read_any(path: &Path) -> Result<Self, Rejected> {
        let bytes = Self::bytes_of(path)?;
        let exports = opcell_sandbox::inspect::exports_of(&bytes);
        Self::from_bytes(path, bytes, &exports)
    }

    /// The component of a plugin of the project.
    pub(super) fn of(plugin: &PluginConfig) -> Result<Self, Rejected> {
        let component = match plugin.builtin_component() {
            Some(bytes) => Self::from_bytes(&plugin.path, bytes.to_vec(), &plugin.exports),
            None if plugin.script.is_some() => {
                let made = plugin.read(MAX_COMPONENT).map_err(|message| source::rejected(&plugin.path, &message))?;
                Self::from_bytes(&plugin.path, made, &plugin.exports)
            }
            None => Self::read_as(&plugin.path, &plugin.exports),
        };
        component.map(|component| component.with_name(&plugin.name))
    }

    /// The same under its name in a project.
    pub(super) fn with_name(self, name: &str) -> Self {
        Self { named: Some(name.to_owned()), ..self }
    }

    pub(super) fn read_as(path: &Path, exports: &Exports) -> Result<Self, Rejected> {
        Self::from_bytes(path, Self::bytes_of(path)?, exports)
    }

    pub(super) fn bytes_of(path: &Path) -> Result<Vec<u8>, Rejected> {
        if opcell_registry::Reference::is_meant_by(&path.to_string_lossy()) {
            let finding = Diagnostic::error("plugin-not-fetched", format!("{} was not fetched yet", path.display()));
            return Err(Rejected::plain(finding.help("`opcell plugin update` fetches and accepts it")));
        }
        let made = source::read_component(path, project_here().as_deref(), MAX_COMPONENT);
        made.map_err(|message| match source::is_source(path) && path.is_file() {
            true => source::rejected(path, &message),
            false => Rejected::plain(Diagnostic::error("unreadable", format!("{}: {message}", path.display()))),
        })
    }

    /// Reads a component from bytes that come from `path`.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>, exports: &Exports) -> Result<Self, Rejected> {
        let surface = match exports {
            Exports::Contract => opcell_sandbox::inspect::inspect(&bytes),
            _ => opcell_sandbox::inspect::inspect_typed(&bytes),
        };
        let surface = surface.map_err(|error| Rejected::plain(unloadable(&error, path)))?;
        Ok(Self { path: path.to_owned(), bytes, surface, exports: exports.clone(), named: None })
    }

    /// The component as a plugin that is granted what `load` says, compiled into the user's cache.
    pub(super) async fn load(&self, sandbox: &Sandbox, grants: Grants) -> Result<Arc<Plugin>, Failure> {
        let mut request = LoadRequest::new(self.name(), PluginSource::Bytes(self.bytes.as_slice().into()));
        request.grants = grants;
        request.exports = self.exports.clone();
        let loaded = sandbox.load(request).await;
        loaded.map_err(|error| unloadable(&error, &self.path).into())
    }

    /// Returns `true` if each of its exported functions is an operation.
    pub(super) fn is_typed(&self) -> bool {
        self.exports != Exports::Contract
    }

    /// The name in the project, else that in its manifest, else that of its file.
    pub(super) fn name(&self) -> String {
        let stem = || Some(name_of_file(&self.path)).filter(|stem| !stem.is_empty());
        self.named
            .clone()
            .or_else(|| self.surface.manifest.name.clone())
            .or_else(stem)
            .unwrap_or_else(|| "plugin".to_owned())
    }

    /// As the lock holds it.
    pub(super) fn locked(&self, plugin: &PluginConfig) -> Locked {
        let is_pinned = !plugin.dev && plugin.builtin_component().is_none();
        let digest = is_pinned.then(|| Digest::of_hash(blake3::hash(&self.bytes)));
        let bytes = is_pinned.then_some(self.bytes.len() as u64);
        let version = self.surface.manifest.version.clone().filter(|_| is_pinned);
        Locked::new(digest, bytes, self.surface.manifest.requests()).with_version(version)
    }

    /// A `.wasm`, `.js` or `.py` file by its path, else a plugin of the project by its name, else any file.
    pub(super) fn find(global: &Global, target: &str) -> Result<Self, Failure> {
        let path = Path::new(target);
        if path.extension().is_some_and(|extension| extension == "wasm") || source::is_source(path) {
            return Ok(Self::read_any(path)?);
        }
        let config = global.proposed()?;
        if !config.plugins.contains_key(target) && path.is_file() {
            return Ok(Self::read_any(path)?);
        }
        Ok(Self::of(named(&config, target)?)?)
    }
}

/// Why no plugin can be made of a file, and what would help.
pub(in crate::cli) fn unloadable(error: &LoadError, path: &Path) -> Diagnostic {
    let finding = Diagnostic::error(error.kind(), format!("{}: {error}", path.display()));
    match remedy::of_load_error(error, path) {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// Cells with the host's own limits, for plugins in development.
pub(super) fn sandbox() -> anyhow::Result<Sandbox> {
    let mut config = SandboxConfig::new(CompileMode::find()?);
    config.cache = Places::of_user().compiled();
    Ok(Sandbox::new(config)?)
}

/// The name of a component by its file: `geo` of `geo.wasm`, and of `geo.component.wasm`, which is built of a core module.
pub(super) fn name_of_file(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_suffix(".component").unwrap_or(&stem).to_owned()
}

pub(super) fn named<'a>(config: &'a Config, name: &str) -> Result<&'a PluginConfig, Rejected> {
    config.plugins.get(name).ok_or_else(|| {
        let mut diagnostic = Diagnostic::error("unknown-plugin", format!("the project has no plugin `{name}`"));
        let known: Vec<&str> = config.plugins.keys().map(String::as_str).collect();
        diagnostic.help = match did_you_mean(name, known.iter().copied()) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if known.is_empty() => {
                Some("add the plugin to opcell.toml, or choose a project file with `--config`".to_owned())
            }
            None => Some(format!("its plugins are: {}", known.join(", "))),
        };
        Rejected::plain(diagnostic)
    })
}

/// Returns `true` if the lock holds other bytes, so that no cell runs these.
pub(super) fn is_changed(config: &Config, plugin: &PluginConfig, component: &Component) -> bool {
    let locked =
        config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name)).and_then(|locked| locked.digest.as_ref());
    !plugin.dev && locked.is_some_and(|digest| *digest != Digest::of_hash(blake3::hash(&component.bytes)))
}

/// Returns the policy of this version of a plugin: its requests, and the project's grants.
pub(super) fn policy(plugin: &PluginConfig, component: &Component) -> Policy {
    let requests = component.surface.manifest.requests();
    Policy::new(plugin.name.as_str().into(), requests, plugin.grants.capabilities.clone())
}
