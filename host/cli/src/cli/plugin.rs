//! `opcell plugin`: what plugins are, what they may reach, and changes of that.

mod add;
mod bench;
pub(super) mod build;
mod change;
mod check;
mod diff;
mod explain;
mod grant;
pub use grant::grant_always;
#[cfg(feature = "server")]
pub use grant::grant_always_unseen;
mod inspect;
mod new;
#[cfg(feature = "registry")]
mod push;
mod registry;
mod remove;
#[cfg(feature = "registry")]
mod search;
mod test;
mod update;
mod verify;
pub(super) mod watch;

use super::{Exit, Failure, Global, Terminal};
use clap::{Args, Subcommand};
use opcell::{
    config::Config,
    config::{PluginConfig, lock::Locked},
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

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Create a plugin that builds, passes its tests and runs, in a new folder.
    New(new::NewArgs),
    /// Build the plugin of a folder with its language's tools: a component with its manifest. The tools run with your
    /// rights, and what the folder gives them to run as well, such as build scripts of cargo.
    Build(build::BuildArgs),
    /// Run a plugin's cases in real cells, with doubles for what it reaches. Builds it first, as `build` does.
    Test(test::TestArgs),
    /// Watch a plugin's source and cases: build, as `build` does, and test again on every change.
    Dev(test::DevArgs),
    /// Check a component as a host would, before its operator does.
    Check(check::CheckArgs),
    /// Measure a plugin's operation in a cell and in the bare engine, and what a call touches.
    Bench(bench::BenchArgs),
    /// List the project's plugins without running them.
    List,
    /// Show the manifest and interface of a component without running it.
    Inspect(Target),
    /// Show what a plugin may reach and use, and which setting decides.
    Explain(explain::ExplainArgs),
    /// Grant a capability to a plugin: edits `opcell.toml` and keeps its comments.
    Grant(grant::GrantArgs),
    /// Show what another version of a plugin requests in addition.
    Diff(diff::DiffArgs),
    /// Revoke a grant of a plugin: edits `opcell.toml` and keeps its comments.
    Revoke(remove::RevokeArgs),
    /// Add a plugin of a registry, or a file, to the project.
    Add(add::AddArgs),
    /// Accept plugins as they are now: write their digests and requests into `opcell.lock`. Plugins of registries are
    /// fetched.
    Update(update::UpdateArgs),
    /// Remove a plugin and its grants from the project.
    Remove(remove::RemoveArgs),
    /// Fetch the versions that `opcell.lock` holds, where they are not on this machine. Changes no version.
    Fetch(verify::FetchArgs),
    /// Check digests and signatures of the project's plugins, without a network.
    Verify(verify::VerifyArgs),
    /// Copy the plugins of registries into the project, for hosts without a network.
    Vendor,
    /// Push a plugin to a registry: component, bill of materials, signature.
    #[cfg(feature = "registry")]
    Push(push::PushArgs),
    /// Search a static index of plugins.
    #[cfg(feature = "registry")]
    Search(search::SearchArgs),
}

#[derive(Debug, Args)]
pub struct Target {
    /// Name of a plugin of the project, or a `.wasm`, `.js` or `.py` file.
    #[arg(value_name = "PLUGIN")]
    target: String,
}

pub async fn plugin(global: &Global, command: &PluginCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        PluginCommand::List => inspect::list(&global.proposed()?, terminal),
        PluginCommand::New(args) => new::new(args, terminal),
        PluginCommand::Build(args) => build::build(global, args, terminal).await,
        PluginCommand::Test(args) => test::test(global, args, terminal).await,
        PluginCommand::Dev(args) => test::dev(global, args, terminal).await,
        PluginCommand::Check(args) => check::check(global, args, terminal).await,
        PluginCommand::Bench(args) => bench::bench(global, args, terminal).await,
        PluginCommand::Inspect(target) => inspect::inspect(global, &target.target, terminal),
        PluginCommand::Explain(args) => explain::explain(global, args, terminal).await,
        PluginCommand::Grant(args) => grant::grant(global, args, terminal),
        PluginCommand::Revoke(args) => remove::revoke(global, args, terminal),
        PluginCommand::Add(args) => add::add(global, args, terminal).await,
        PluginCommand::Update(args) => update::update(global, args, terminal).await,
        PluginCommand::Remove(args) => remove::remove(global, args, terminal),
        PluginCommand::Fetch(args) => verify::fetch(global, args, terminal).await,
        PluginCommand::Verify(args) => verify::verify(global, args, terminal),
        PluginCommand::Vendor => verify::vendor(global, terminal),
        #[cfg(feature = "registry")]
        PluginCommand::Push(args) => push::push(global, args, terminal).await,
        #[cfg(feature = "registry")]
        PluginCommand::Search(args) => search::search(args, terminal).await,
        PluginCommand::Diff(args) => diff::diff(global, args, terminal).await,
    }
}

/// As much of a component is read; what the compiler takes.
pub(super) const MAX_COMPONENT: u64 = opcell_registry::MAX_COMPONENT;

/// The folder of the project that the command runs in.
pub(super) fn project_here() -> Option<PathBuf> {
    Config::find(&std::env::current_dir().ok()?)?.parent().map(Path::to_owned)
}

/// A component's bytes and what they say.
struct Component {
    path: PathBuf,
    bytes: Vec<u8>,
    surface: Surface,
    exports: Exports,
    /// Its name in the project, if it is part of one.
    named: Option<String>,
}

impl Component {
    fn read(path: &Path) -> Result<Self, Rejected> {
        Self::read_as(path, &Exports::Contract)
    }

    /// As [`Self::read`], also of a component that was not written for Opcell.
    fn read_any(path: &Path) -> Result<Self, Rejected> {
        let bytes = Self::bytes_of(path)?;
        let exports = opcell_sandbox::inspect::exports_of(&bytes);
        Self::from_bytes(path, bytes, &exports)
    }

    /// The component of a plugin of the project.
    fn of(plugin: &PluginConfig) -> Result<Self, Rejected> {
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
    fn with_name(self, name: &str) -> Self {
        Self { named: Some(name.to_owned()), ..self }
    }

    fn read_as(path: &Path, exports: &Exports) -> Result<Self, Rejected> {
        Self::from_bytes(path, Self::bytes_of(path)?, exports)
    }

    fn bytes_of(path: &Path) -> Result<Vec<u8>, Rejected> {
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
    fn from_bytes(path: &Path, bytes: Vec<u8>, exports: &Exports) -> Result<Self, Rejected> {
        let surface = match exports {
            Exports::Contract => opcell_sandbox::inspect::inspect(&bytes),
            _ => opcell_sandbox::inspect::inspect_typed(&bytes),
        };
        let surface = surface.map_err(|error| Rejected::plain(unloadable(&error, path)))?;
        Ok(Self { path: path.to_owned(), bytes, surface, exports: exports.clone(), named: None })
    }

    /// The component as a plugin that is granted what `load` says, compiled into the user's cache.
    async fn load(&self, sandbox: &Sandbox, grants: Grants) -> Result<Arc<Plugin>, Failure> {
        let mut request = LoadRequest::new(self.name(), PluginSource::Bytes(self.bytes.as_slice().into()));
        request.grants = grants;
        request.exports = self.exports.clone();
        let loaded = sandbox.load(request).await;
        loaded.map_err(|error| unloadable(&error, &self.path).into())
    }

    /// Returns `true` if each of its exported functions is an operation.
    fn is_typed(&self) -> bool {
        self.exports != Exports::Contract
    }

    /// The name in the project, else that in its manifest, else that of its file.
    fn name(&self) -> String {
        let stem = || Some(name_of_file(&self.path)).filter(|stem| !stem.is_empty());
        self.named
            .clone()
            .or_else(|| self.surface.manifest.name.clone())
            .or_else(stem)
            .unwrap_or_else(|| "plugin".to_owned())
    }

    /// As the lock holds it.
    fn locked(&self, plugin: &PluginConfig) -> Locked {
        let is_pinned = !plugin.dev && plugin.builtin_component().is_none();
        let digest = is_pinned.then(|| Digest::of_hash(blake3::hash(&self.bytes)));
        let bytes = is_pinned.then_some(self.bytes.len() as u64);
        let version = self.surface.manifest.version.clone().filter(|_| is_pinned);
        Locked::new(digest, bytes, self.surface.manifest.requests()).with_version(version)
    }

    /// A `.wasm`, `.js` or `.py` file by its path, else a plugin of the project by its name, else any file.
    fn find(global: &Global, target: &str) -> Result<Self, Failure> {
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
pub fn unloadable(error: &LoadError, path: &Path) -> Diagnostic {
    let finding = Diagnostic::error(error.kind(), format!("{}: {error}", path.display()));
    match remedy::of_load_error(error, path) {
        Some(help) => finding.help(help),
        None => finding,
    }
}

/// Cells with the host's own limits, for plugins in development.
fn sandbox() -> anyhow::Result<Sandbox> {
    let mut config = SandboxConfig::new(CompileMode::find()?);
    config.cache = Places::of_user().compiled();
    Ok(Sandbox::new(config)?)
}

/// The name of a component by its file: `geo` of `geo.wasm`, and of `geo.component.wasm`, which is built of a core module.
fn name_of_file(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_suffix(".component").unwrap_or(&stem).to_owned()
}

fn named<'a>(config: &'a Config, name: &str) -> Result<&'a PluginConfig, Rejected> {
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
fn is_changed(config: &Config, plugin: &PluginConfig, component: &Component) -> bool {
    let locked =
        config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name)).and_then(|locked| locked.digest.as_ref());
    !plugin.dev && locked.is_some_and(|digest| *digest != Digest::of_hash(blake3::hash(&component.bytes)))
}

/// Returns the policy of this version of a plugin: its requests, and the project's grants.
fn policy(plugin: &PluginConfig, component: &Component) -> Policy {
    let requests = component.surface.manifest.requests();
    Policy::new(plugin.name.as_str().into(), requests, plugin.grants.capabilities.clone())
}
