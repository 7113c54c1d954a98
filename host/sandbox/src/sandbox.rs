//! The sandbox: what one host decides for all of its plugins, over pools of its own or over pools that it shares.

use crate::{
    bare::Bare,
    cache::CachePlace,
    compile::{CompileLimits, CompileMode},
    engine::{Allocation, INTERPRETER_RESIDENT, Metering, PoolUse},
    error::{LoadError, SandboxError},
    exports::{Exported, Judges, Operations},
    grants::{Grants, Policy, Requests},
    imports::files::Roots,
    inspect,
    limits::{EffectiveLimits, LimitRequest},
    plugin::{Linked, Plugin},
    pools::{Pools, PoolsConfig},
    schedule::{
        allotment::Allotment,
        fair::{Group, Share},
        queue::Queue,
    },
    typed::{Docs, Exports, Typed},
    wasi::check_preopens,
};
use opcell_types::{
    Digest,
    control::ControlFiles,
    quota::{QuotaStore, ThisProcess},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The configuration of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The place in which components are compiled. There is no default: an embedder decides whom it trusts.
    pub compile: CompileMode,
    /// The resources that one compilation may use.
    pub compile_limits: CompileLimits,
    /// The directory of compiled components; `None` compiles again in every process. No grant may reach this place.
    pub cache: Option<CachePlace>,
    /// The files that decide what runs and what it may reach; grants of files do not extend to them unless they say so.
    pub control: Arc<ControlFiles>,
    /// The store of the bytes that plugins have written below granted directories. Default: in this process, while it
    /// runs.
    pub written: Arc<dyn QuotaStore>,
    /// The operator's ceiling for all plugins.
    pub limits: LimitRequest,
    /// Cells at once, all plugins together; also the size of the small pool. Default 64.
    pub cells: u32,
    /// Bytes of each memory that a pool cleans by hand when a cell ends. Default 128 KiB: the 64 KiB stack
    /// and the data of an SDK-built guest; `benches/README.md` has the figures.
    pub keep_resident: usize,
    /// The same of each memory in the pool of interpreters, where it is more. Default 16 MiB: what a cell of Python begins
    /// with. A slot keeps what its cells have used.
    pub interpreter_resident: usize,
    /// The allocation of memory to cells.
    pub allocation: Allocation,
    /// The metering of instructions.
    pub metering: Metering,
}

impl SandboxConfig {
    /// The defaults, with this compile mode.
    #[must_use]
    pub fn new(compile: CompileMode) -> Self {
        Self {
            compile,
            compile_limits: CompileLimits::default(),
            cache: None,
            control: Arc::default(),
            written: Arc::new(ThisProcess),
            limits: LimitRequest::default(),
            cells: 64,
            keep_resident: 128 << 10,
            interpreter_resident: INTERPRETER_RESIDENT,
            allocation: Allocation::default(),
            metering: Metering::default(),
        }
    }
}

/// A component's bytes, or where they are.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PluginSource {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// In a file.
    File(PathBuf),
}

impl From<&Path> for PluginSource {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

/// A component to load.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The operator's name for it: what receipts and denials call it, whatever its manifest says.
    pub name: String,
    /// Its bytes.
    pub source: PluginSource,
    /// The capabilities that it is granted.
    pub grants: Grants,
    /// The operator's ceiling for this plugin; where it says nothing, the sandbox's counts.
    pub limits: LimitRequest,
    /// The requests that the operator has agreed to, granted or not; a component that requests more is not loaded.
    /// `None`: it may ask for anything, and gets what is granted.
    pub agreed: Option<Requests>,
    /// The BLAKE3 digest that the component must have; `None`: any.
    pub digest: Option<Digest>,
    /// The rule by which its exports become operations and judges.
    pub exports: Exports,
    /// The settings that it reads through `wasi:config/store`.
    pub settings: Settings,
    /// `true` for a runtime of ours, which keeps what it made of the source text of a program for later cells with the
    /// same text. To any other plugin it would be a store that no one granted.
    pub keeps_programs: bool,
}

/// The settings that an operator makes for a plugin: texts by their keys.
pub type Settings = BTreeMap<String, String>;

impl LoadRequest {
    /// Loads `source` with no grants and no limits of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, source: PluginSource) -> Self {
        Self {
            name: name.into(),
            source,
            grants: Grants::default(),
            limits: LimitRequest::default(),
            agreed: None,
            digest: None,
            exports: Exports::Contract,
            settings: Settings::new(),
            keeps_programs: false,
        }
    }
}

/// The configuration of a sandbox over shared [`Pools`].
#[derive(Debug, Clone)]
pub struct PartConfig {
    /// The files that decide what runs and what it may reach; grants of files do not extend to them unless they say so.
    pub control: Arc<ControlFiles>,
    /// The store of the bytes that plugins have written below granted directories. Default: in this process, while it
    /// runs.
    pub written: Arc<dyn QuotaStore>,
    /// The operator's ceiling for all plugins of this sandbox.
    pub limits: LimitRequest,
    /// The most cells of this sandbox at once, where that is less than what the pools have. By default, half of that: one
    /// sandbox alone never takes all.
    pub cells: Option<u32>,
}

impl Default for PartConfig {
    fn default() -> Self {
        Self { control: Arc::default(), written: Arc::new(ThisProcess), limits: LimitRequest::default(), cells: None }
    }
}

/// Loads plugins. Cheap to share behind an [`Arc`].
pub struct Sandbox {
    pools: Arc<Pools>,
    control: Arc<ControlFiles>,
    written: Arc<dyn QuotaStore>,
    limits: LimitRequest,
    /// Its part of pools that it shares.
    part: Option<Part>,
}

/// The part that one sandbox has of shared pools: a number of cells, and a share of the processors.
#[derive(Clone)]
struct Part {
    allotment: Arc<Allotment>,
    group: Arc<Group>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("pools", &self.pools)
            .field("shares_pools", &self.part.is_some())
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox with pools of its own: builds the engines, starts their clock, opens the cache.
    ///
    /// # Errors
    /// [`SandboxError`] when an engine cannot be built or the cache directory is not safe.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        let memory = EffectiveLimits::resolve(&config.limits, &LimitRequest::default()).limits.memory;
        let pools = Pools::new(PoolsConfig {
            compile: config.compile,
            compile_limits: config.compile_limits,
            cache: config.cache,
            cells: config.cells,
            memory,
            keep_resident: config.keep_resident,
            interpreter_resident: config.interpreter_resident,
            allocation: config.allocation,
            metering: config.metering,
        })?;
        let control = beside_the_cache(&config.control, pools.cache_place());
        Ok(Self { pools: Arc::new(pools), control, written: config.written, limits: config.limits, part: None })
    }

    /// A sandbox over pools that others share. It reserves nothing. At most `cells` of its cells run at once, and where
    /// every slot of a pool is taken, sandboxes get the slots that become free one after another: a call waits for at
    /// most one call of each other sandbox. Its plugins together have one share of the processors.
    #[must_use]
    pub fn over(pools: Arc<Pools>, config: PartConfig) -> Self {
        let PartConfig { control, written, limits, cells } = config;
        let cells = cells.unwrap_or_else(|| pools.cells().div_ceil(2)).clamp(1, pools.cells());
        let allotment = Arc::new(Allotment::new(cells, pools.count()));
        let control = beside_the_cache(&control, pools.cache_place());
        Self { pools, control, written, limits, part: Some(Part { allotment, group: Arc::default() }) }
    }

    /// Why cells are slower than they could be, if they are.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.pools.warning()
    }

    /// Returns the use of each pool at this moment. Of pools that are shared, the cells of this sandbox alone, as one
    /// pool `shared`: it learns nothing about the others.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolUse> {
        match &self.part {
            Some(part) => vec![part.allotment.in_use()],
            None => self.pools.in_use(),
        }
    }

    /// The share of the processors of one plugin, or of one tenant of it.
    pub(crate) fn share(&self) -> Arc<Share> {
        match &self.part {
            Some(part) => Share::within(Arc::clone(&part.group)),
            None => Share::new(),
        }
    }

    /// Turns a component into a plugin: reads its surface and manifest, checks its imports, compiles it or finds it
    /// compiled, links it, and asks it in a cell what it offers.
    ///
    /// # Errors
    /// [`LoadError`], whose texts name what is wrong and what to do.
    pub async fn load(&self, request: LoadRequest) -> Result<Arc<Plugin>, LoadError> {
        let LoadRequest { name, source, grants, limits, agreed, digest: pinned, exports, settings, keeps_programs } =
            request;
        let bytes = self.pools.read(source).await?;
        let inspected = Arc::clone(&bytes);
        let look = match exports {
            Exports::Contract => inspect::inspect,
            Exports::Typed(_) => inspect::inspect_typed,
        };
        let (surface, hash) =
            tokio::task::spawn_blocking(move || look(&inspected).map(|surface| (surface, blake3::hash(&inspected))))
                .await
                .map_err(|error| LoadError::NotAComponent { message: error.to_string() })??;
        let name: Arc<str> = name.into();
        let mut policy = Policy::new(Arc::clone(&name), surface.manifest.requests(), grants);
        if matches!(exports, Exports::Typed(_)) && surface.keyvalue() {
            policy = policy.asking_for_any_store();
        }
        let policy = Arc::new(policy);
        // Before anything of a version that no one agreed to is compiled or run.
        let excess = agreed.map(|agreed| policy.excess_requests(&agreed)).unwrap_or_default();
        let digest = Digest::of_hash(hash);
        if let Some(pinned) = pinned.filter(|pinned| *pinned != digest) {
            return Err(LoadError::Changed { pinned, found: digest, asks_for: excess });
        }
        if !excess.is_empty() {
            return Err(LoadError::AsksForMore(excess));
        }
        let limits = EffectiveLimits::resolve(&limits.or(&self.limits), &surface.manifest.limits);
        let roots = self.open_roots(&name, policy.grants())?;
        let (pool, code) = self.pools.component(&bytes, &hash, &surface).await?;
        let docs = match exports {
            Exports::Contract => Docs::default(),
            Exports::Typed(_) => Docs::of(&bytes),
        };
        drop(bytes);
        for (kind, unused) in policy.unused_grants() {
            tracing::warn!(
                plugin = &*name,
                "{} `{unused}` is granted, but the plugin does not request it",
                kind.word()
            );
        }
        let component = &code.component;
        let failed = |error: wasmtime::Error| LoadError::Link {
            message: opcell_types::text::printable(&format!("{error:#}"), 2_000),
        };
        let linker = pool.linker(surface.wasi, surface.http());
        let mut linked = Linked {
            name,
            digest,
            engine: pool.engine.clone(),
            metering: self.pools.metering(),
            pre: linker.instantiate_pre(component).map_err(failed)?,
            operations: Exported::find::<Operations>(component, &surface)?,
            judges: Exported::find::<Judges>(component, &surface)?,
            typed: None,
            policy,
            limits: Arc::new(limits.limits.clone()),
            roots: Arc::new(roots),
            settings: Arc::new(settings),
            wasi: surface.wasi,
            http: surface.http(),
            queue: Arc::new(Queue::new(&limits.limits)),
            allotment: self.part.as_ref().map(|part| Arc::clone(&part.allotment)),
            share: self.share(),
            code: Arc::clone(&code),
            programs: keeps_programs.then(Arc::default),
            scope: 0,
        };
        let described = match exports {
            Exports::Contract => None,
            Exports::Typed(effects) => {
                let (typed, described) = Typed::find(component, pool.engine.wasmtime(), &linked.name, &effects, &docs)?;
                (linked.operations, linked.judges, linked.typed) = (None, None, Some(typed));
                Some(described)
            }
        };
        Plugin::describe(linked, Arc::clone(pool), surface, limits, described).await.map(Arc::new)
    }

    /// Opens the directories that a plugin is granted.
    pub(crate) fn open_roots(&self, plugin: &str, grants: &Grants) -> Result<Roots, LoadError> {
        let roots = Roots::open(plugin, grants, &self.control, &*self.written)?;
        check_preopens(&grants.dangerous_preopens, &self.control)?;
        Ok(roots)
    }

    /// The same component with nothing but the engine around it: for measuring what a cell costs, never for running
    /// plugins.
    ///
    /// # Errors
    /// As [`Self::load`]; nothing is asked of the component, so only its operations are measured.
    pub async fn bare(&self, source: PluginSource) -> Result<Bare, LoadError> {
        self.pools.bare(source).await
    }
}

/// The control files with the cache and its key among the places that nothing reaches.
fn beside_the_cache(control: &Arc<ControlFiles>, cache: Option<&CachePlace>) -> Arc<ControlFiles> {
    let Some(cache) = cache else { return Arc::clone(control) };
    let mut control = ControlFiles::clone(control);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    control.sealed.extend([real(&cache.directory), real(&cache.keys)]);
    Arc::new(control)
}
