//! Pools, compiler and cache: what sandboxes have in common, and nothing that one of them decides.
//!
//! A sandbox that is alone has pools of its own. Where a process serves several projects, their sandboxes share pools
//! ([`Sandbox::over`](crate::Sandbox::over)): address space, engines, the clock and native code are there once. Grants,
//! limits and control files stay with each sandbox; so does a maximum of cells and a turn at the slots that are free.

use crate::{
    bare::Bare,
    cache::{Cache, CachePlace, Found, Key},
    compile::{CompileError, CompileLimits, CompileMode, Compiler},
    descriptors,
    engine::{self, Allocation, CellEngine, Engines, Metering, PoolUse, Residency, Room},
    error::{LoadError, SandboxError},
    imports,
    inspect::{self, Surface},
    limits::Limits,
    sandbox::PluginSource,
    state::CellState,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};
use tokio::io::AsyncReadExt;
use wasmtime::{
    Engine,
    component::{Component, Linker},
};

/// The most cells at once in one process.
pub(crate) const MAX_CELLS: u32 = 4_096;

/// The configuration of pools.
#[derive(Debug, Clone)]
pub struct PoolsConfig {
    /// The place in which components are compiled. There is no default: an embedder decides whom it trusts.
    pub compile: CompileMode,
    /// The resources that one compilation may use.
    pub compile_limits: CompileLimits,
    /// The directory of compiled components; `None` compiles again in every process. No grant may reach this place.
    pub cache: Option<CachePlace>,
    /// Cells at once, all plugins of all sandboxes together; also the size of the small pool. Default 64.
    pub cells: u32,
    /// Bytes of memory that a cell is expected to need at most. It decides the number of cells at once where there is
    /// too little address space for pools. Default: the default of the limit `memory`.
    pub memory: u64,
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

impl PoolsConfig {
    /// The defaults, with this compile mode.
    #[must_use]
    pub fn new(compile: CompileMode) -> Self {
        Self {
            compile,
            compile_limits: CompileLimits::default(),
            cache: None,
            cells: 64,
            memory: Limits::default().memory,
            keep_resident: 128 << 10,
            interpreter_resident: engine::INTERPRETER_RESIDENT,
            allocation: Allocation::default(),
            metering: Metering::default(),
        }
    }
}

/// Engines with their pools, the compiler, the cache of compiled components, and the components that are loaded.
pub struct Pools {
    pools: Vec<Arc<Pool>>,
    compiler: Compiler,
    cache: Option<Cache>,
    cache_place: Option<CachePlace>,
    metering: Metering,
    cells: u32,
    kept: Residency,
    room: Room,
    /// Refuses components that are too large for every pool, where there are none.
    shapes: Option<Engine>,
    warning: Option<String>,
}

impl std::fmt::Debug for Pools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pools").field("cells", &self.cells).field("metering", &self.metering).finish_non_exhaustive()
    }
}

impl Pools {
    /// Builds the engines, starts their clock, opens the cache.
    ///
    /// # Errors
    /// [`SandboxError`] when an engine cannot be built or the cache directory is not safe.
    pub fn new(config: PoolsConfig) -> Result<Self, SandboxError> {
        opcell_workers::install();
        descriptors::make_room();
        let cells = config.cells.clamp(1, MAX_CELLS);
        let kept = Residency { resident: config.keep_resident, interpreter: config.interpreter_resident };
        let engines = Engines::new(config.metering, config.allocation, cells, config.memory, kept)?;
        let mut pools = Vec::new();
        for engine in engines.smallest_first() {
            let pool = Pool::new(engine.clone()).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
            pools.push(Arc::new(pool));
        }
        Ok(Self {
            pools,
            compiler: Compiler::new(config.compile, config.compile_limits, config.metering, engines.room)?,
            cache: config.cache.as_ref().map(Cache::open).transpose()?,
            cache_place: config.cache,
            metering: config.metering,
            cells,
            kept,
            room: engines.room,
            shapes: engines.shapes,
            warning: engines.warning,
        })
    }

    /// The reason why cells are slower than they could be, if they are.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the use of each pool at this moment, by all sandboxes together.
    #[must_use]
    pub fn in_use(&self) -> Vec<PoolUse> {
        self.pools.iter().map(|pool| pool.engine.in_use()).collect()
    }

    /// The maximum number of cells at once.
    #[must_use]
    pub fn cells(&self) -> u32 {
        self.cells
    }

    pub(crate) fn metering(&self) -> Metering {
        self.metering
    }

    pub(crate) fn cache_place(&self) -> Option<&CachePlace> {
        self.cache_place.as_ref()
    }

    pub(crate) fn count(&self) -> usize {
        self.pools.len()
    }

    /// The component of these bytes in the smallest pool that has room for it; in the last pool if it is an interpreter.
    /// Sandboxes that load the same bytes have the same component: native code of a digest is what this process's
    /// compiler made of it, or what its key vouches for, whoever has loaded it first.
    pub(crate) async fn component(
        &self,
        bytes: &Arc<[u8]>,
        hash: &blake3::Hash,
        surface: &Surface,
    ) -> Result<(&Arc<Pool>, Arc<Code>), LoadError> {
        let first = if surface.is_interpreter() { self.pools.len().saturating_sub(1) } else { 0 };
        let loaded = self.pools.iter().skip(first).find_map(|pool| Some((pool, pool.loaded(hash)?)));
        if let Some(loaded) = loaded {
            return Ok(loaded);
        }
        let compiled = self.compiled(bytes, hash).await?;
        let (pool, component) = self.place(&compiled, first)?;
        Ok((pool, pool.keep(*hash, component)))
    }

    /// The same component with nothing but the engine around it: for measuring what a cell costs, never for running
    /// plugins.
    pub(crate) async fn bare(&self, source: PluginSource) -> Result<Bare, LoadError> {
        let bytes = self.read(source).await?;
        let surface = inspect::inspect(&bytes)?;
        let compiled = self.compiled(&bytes, &blake3::hash(&bytes)).await?;
        let bare = |is_script| {
            let engine = engine::like(is_script, self.metering, self.room, self.cells, self.kept)
                .map_err(|error| LoadError::Shape { message: error.to_string() })?;
            Bare::new(&engine, &compiled)
        };
        // As a plugin: the small pool, unless it is an interpreter, or there is no room for a component of this shape.
        if surface.is_interpreter() {
            return bare(true);
        }
        bare(false).or_else(|error| if matches!(error, LoadError::Shape { .. }) { bare(true) } else { Err(error) })
    }

    /// Reads a component, as far as the compiler would take it.
    pub(crate) async fn read(&self, source: PluginSource) -> Result<Arc<[u8]>, LoadError> {
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

    /// The smallest pool that has room for the component, of those from `first` on.
    fn place(&self, compiled: &[u8], first: usize) -> Result<(&Arc<Pool>, Component), LoadError> {
        let mut message = String::new();
        if let Some(shapes) = &self.shapes {
            // SAFETY: as below; nothing of it is run.
            unsafe { Component::deserialize(shapes, compiled) }.map_err(|error| LoadError::Shape {
                message: opcell_types::text::printable(&format!("{error:#}"), 1_000),
            })?;
        }
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

/// An engine with everything that is linked once for all plugins of it.
pub(crate) struct Pool {
    pub(crate) engine: CellEngine,
    linker: Linker<CellState>,
    linker_with_wasi: Linker<CellState>,
    /// For components that were not written for the contract and make requests as WASI does.
    linker_with_http: Linker<CellState>,
    /// The same on further engines, made when they are needed.
    replicas: Box<[OnceLock<Option<Arc<Pool>>>]>,
    /// The components that plugins use now, by the digests of their bytes.
    loaded: Mutex<HashMap<blake3::Hash, Weak<Code>>>,
}

/// A component as an engine has loaded it. Plugins of the same bytes share it, whichever sandbox they belong to.
pub(crate) struct Code {
    pub(crate) component: Component,
    /// Of the component's bytes.
    hash: blake3::Hash,
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
        Ok(Self { engine, linker, linker_with_wasi, linker_with_http, replicas, loaded: Mutex::default() })
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

    /// The code of these bytes, if a plugin uses it.
    fn loaded(&self, hash: &blake3::Hash) -> Option<Arc<Code>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(hash).and_then(Weak::upgrade)
    }

    /// Keeps code for as long as a plugin uses it. Of two that were made at the same time, the first one stays.
    fn keep(&self, hash: blake3::Hash, component: Component) -> Arc<Code> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = loaded.get(&hash).and_then(Weak::upgrade) {
            return code;
        }
        let code = Arc::new(Code { component, hash });
        loaded.retain(|_, other| other.strong_count() > 0);
        loaded.insert(hash, Arc::downgrade(&code));
        code
    }

    /// Code of another engine, on this one.
    pub(crate) fn same(&self, code: &Code) -> Option<Arc<Code>> {
        if let Some(loaded) = self.loaded(&code.hash) {
            return Some(loaded);
        }
        let compiled = code.component.serialize().ok()?;
        // SAFETY: the engine wrote it just now, from a component that it had loaded.
        let component = unsafe { Component::deserialize(self.engine.wasmtime(), compiled) }.ok()?;
        Some(self.keep(code.hash, component))
    }
}
