//! The sandbox: engines, compiler and cache, shared by all plugins of a host.

use crate::{
    bare::Bare,
    cache::{Cache, CachePlace, Found, Key},
    compile::{CompileError, CompileLimits, CompileMode, Compiler},
    descriptors,
    engine::{self, Allocation, CellEngine, Engines, Metering, PoolUse, Room},
    error::{LoadError, SandboxError},
    exports::{Exported, Judges, Operations},
    grants::{Grants, Policy, Requests},
    imports::{self, files::Roots},
    inspect::{self, Surface},
    limits::{EffectiveLimits, LimitRequest},
    plugin::{Linked, Plugin},
    schedule::{fair::Share, queue::Queue},
    state::CellState,
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
    sync::{Arc, OnceLock},
};
use tokio::io::AsyncReadExt;
use wasmtime::{
    Engine,
    component::{Component, Linker},
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
        }
    }
}

/// An engine with everything that is linked once for all plugins of it.
pub(crate) struct Pool {
    pub(crate) engine: CellEngine,
    linker: Linker<CellState>,
    linker_with_wasi: Linker<CellState>,
    /// For components that were not written for the contract and make requests as WASI does.
    linker_with_http: Linker<CellState>,
    /// The same on further engines, made when they are needed.
    replicas: Box<[OnceLock<Option<Arc<Pool>>>]>,
}

/// Loads plugins. Cheap to share behind an [`Arc`].
pub struct Sandbox {
    pools: Vec<Arc<Pool>>,
    compiler: Compiler,
    cache: Option<Cache>,
    control: Arc<ControlFiles>,
    written: Arc<dyn QuotaStore>,
    limits: LimitRequest,
    metering: Metering,
    cells: u32,
    keep_resident: usize,
    room: Room,
    /// Refuses components that are too large for every pool, where there are none.
    shapes: Option<Engine>,
    warning: Option<String>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("metering", &self.metering).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Builds the engines, starts their clock, opens the cache.
    ///
    /// # Errors
    /// [`SandboxError`] when an engine cannot be built or the cache directory is not safe.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxError> {
        opcell_workers::install();
        descriptors::make_room();
        let cells = config.cells.clamp(1, 4_096);
        let memory = EffectiveLimits::resolve(&config.limits, &LimitRequest::default()).limits.memory;
        let engines = Engines::new(config.metering, config.allocation, cells, memory, config.keep_resident)?;
        let mut pools = Vec::new();
        for engine in engines.smallest_first() {
            let pool = Pool::new(engine.clone()).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
            pools.push(Arc::new(pool));
        }
        Ok(Self {
            pools,
            compiler: Compiler::new(config.compile, config.compile_limits, config.metering, engines.room)?,
            cache: config.cache.as_ref().map(Cache::open).transpose()?,
            control: beside_the_cache(&config.control, config.cache.as_ref()),
            written: Arc::clone(&config.written),
            limits: config.limits,
            metering: config.metering,
            cells,
            keep_resident: config.keep_resident,
            room: engines.room,
            shapes: engines.shapes,
            warning: engines.warning,
        })
    }

    /// Why cells are slower than they could be, if they are.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the use of each pool at this moment.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolUse> {
        self.pools.iter().map(|pool| pool.engine.in_use()).collect()
    }

    /// Turns a component into a plugin: reads its surface and manifest, checks its imports, compiles it or finds it
    /// compiled, links it, and asks it in a cell what it offers.
    ///
    /// # Errors
    /// [`LoadError`], whose texts name what is wrong and what to do.
    pub async fn load(&self, request: LoadRequest) -> Result<Arc<Plugin>, LoadError> {
        let LoadRequest { name, source, grants, limits, agreed, digest: pinned, exports, settings } = request;
        let bytes = self.read(source).await?;
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
        let compiled = self.compiled(&bytes, &hash).await?;
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
        let (pool, component) = self.place(&compiled, surface.is_interpreter())?;
        drop(compiled);
        let mut linked =
            pool.link(&component, &surface, name, digest, policy, Arc::new(roots), self.metering, &limits)?;
        linked.settings = Arc::new(settings);
        let described = match exports {
            Exports::Contract => None,
            Exports::Typed(effects) => {
                let (typed, described) =
                    Typed::find(&component, pool.engine.wasmtime(), &linked.name, &effects, &docs)?;
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
        let bytes = self.read(source).await?;
        let surface = inspect::inspect(&bytes)?;
        let compiled = self.compiled(&bytes, &blake3::hash(&bytes)).await?;
        let bare = |is_script| {
            let engine = engine::like(is_script, self.metering, self.room, self.cells, self.keep_resident)
                .map_err(|error| LoadError::Shape { message: error.to_string() })?;
            Bare::new(&engine, &compiled)
        };
        // As a plugin: the small pool, unless it is an interpreter, or there is no room for a component of this shape.
        if surface.is_interpreter() {
            return bare(true);
        }
        bare(false).or_else(|error| if matches!(error, LoadError::Shape { .. }) { bare(true) } else { Err(error) })
    }

    async fn read(&self, source: PluginSource) -> Result<Arc<[u8]>, LoadError> {
        let limit = self.compiler.component_bytes();
        let bytes: Arc<[u8]> = match source {
            PluginSource::Bytes(bytes) => bytes,
            PluginSource::File(path) => {
                let io = |source| LoadError::Read { path: path.clone(), source };
                let file = tokio::fs::File::open(&path).await.map_err(io)?;
                let status = file.metadata().await.map_err(io)?;
                if !status.is_file() {
                    return Err(io(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")));
                }
                let mut bytes = Vec::new();
                file.take(limit.saturating_add(1)).read_to_end(&mut bytes).await.map_err(io)?;
                bytes.into()
            }
        };
        if bytes.len() as u64 > limit {
            return Err(LoadError::TooLarge { size: bytes.len() as u64, limit });
        }
        Ok(bytes)
    }

    async fn compiled(&self, bytes: &Arc<[u8]>, digest: &blake3::Hash) -> Result<Vec<u8>, LoadError> {
        let key = Key { engine: self.compiler.compatibility(), component: digest };
        if let Some(cache) = &self.cache
            && let Found::Compiled(compiled) = cache.get(key)
        {
            return Ok(compiled);
        }
        let refused = format!("{} refused under {}", self.compiler.compatibility(), self.compiler.limits());
        let refused = Key { engine: &refused, component: digest };
        if let Some(what) = self.cache.as_ref().and_then(|cache| cache.refusal(refused)) {
            return Err(CompileError::Limit { what: format!("{what}, found within the last hour") }.into());
        }
        let compiled = match self.compiler.compile(bytes).await {
            Err(CompileError::Limit { what }) => {
                if let Some(cache) = &self.cache {
                    let _ = cache.put(refused, what.as_bytes());
                }
                return Err(CompileError::Limit { what }.into());
            }
            compiled => compiled?,
        };
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(key, &compiled)
        {
            tracing::warn!(%error, "the compiled component cannot be kept; it is compiled again next time");
        }
        Ok(compiled)
    }

    /// The smallest pool that has room for the component; the last one for an interpreter.
    fn place(&self, compiled: &[u8], is_interpreter: bool) -> Result<(&Arc<Pool>, Component), LoadError> {
        let mut message = String::new();
        if let Some(shapes) = &self.shapes {
            // SAFETY: as below; nothing of it is run.
            unsafe { Component::deserialize(shapes, compiled) }.map_err(|error| LoadError::Shape {
                message: opcell_types::text::printable(&format!("{error:#}"), 1_000),
            })?;
        }
        let first = if is_interpreter { self.pools.len().saturating_sub(1) } else { 0 };
        for pool in self.pools.iter().skip(first) {
            // SAFETY: the compiled component was made by our own compiler process, or its MAC proves that it was when
            // it was cached.
            match unsafe { Component::deserialize(pool.engine.wasmtime(), compiled) } {
                Ok(component) => return Ok((pool, component)),
                Err(error) => message = opcell_types::text::printable(&format!("{error:#}"), 1_000),
            }
        }
        Err(LoadError::Shape { message })
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

impl Pool {
    fn new(engine: CellEngine) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(engine.wasmtime());
        imports::link(&mut linker)?;
        let mut linker_with_wasi = Linker::new(engine.wasmtime());
        imports::link(&mut linker_with_wasi)?;
        wasmtime_wasi::p2::add_to_linker_async(&mut linker_with_wasi)?;
        let mut linker_with_http = linker_with_wasi.clone();
        imports::http::link(&mut linker_with_http)?;
        let replicas = (1..engine.max_shards()).map(|_| OnceLock::new()).collect();
        Ok(Self { engine, linker, linker_with_wasi, linker_with_http, replicas })
    }

    /// The same linkers on an engine of its own, for the threads of one shard, counted from 1. `None` where there is no
    /// room for it.
    pub(crate) fn replica(&self, at: usize) -> Option<Arc<Self>> {
        let replica = self.replicas.get(at.checked_sub(1)?)?;
        replica.get_or_init(|| Self::new(self.engine.replicate()?).ok().map(Arc::new)).clone()
    }

    /// The host's functions, for a component that imports those of WASI, or makes requests as well.
    pub(crate) fn linker(&self, wasi: bool, http: bool) -> &Linker<CellState> {
        match (wasi, http) {
            (_, true) => &self.linker_with_http,
            (true, false) => &self.linker_with_wasi,
            (false, false) => &self.linker,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the one place where a plugin's parts come together")]
    fn link(
        &self,
        component: &Component,
        surface: &Surface,
        name: Arc<str>,
        digest: Digest,
        policy: Arc<Policy>,
        roots: Arc<Roots>,
        metering: Metering,
        limits: &EffectiveLimits,
    ) -> Result<Linked, LoadError> {
        let failed = |error: wasmtime::Error| LoadError::Link {
            message: opcell_types::text::printable(&format!("{error:#}"), 2_000),
        };
        let linker = self.linker(surface.wasi, surface.http());
        let pre = linker.instantiate_pre(component).map_err(failed)?;
        Ok(Linked {
            name,
            digest,
            engine: self.engine.clone(),
            metering,
            pre,
            operations: Exported::find::<Operations>(component, surface)?,
            judges: Exported::find::<Judges>(component, surface)?,
            typed: None,
            policy,
            limits: Arc::new(limits.limits.clone()),
            roots,
            settings: Arc::default(),
            wasi: surface.wasi,
            http: surface.http(),
            share: Share::new(),
            queue: Arc::new(Queue::new(&limits.limits)),
        })
    }
}
