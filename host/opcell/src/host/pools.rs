//! Pools of cells that several hosts of one process share.

use super::HostError;
use crate::places::Places;
use opcell_sandbox::{
    Allocation, CompileLimits, CompileMode, Metering, PoolUse, Pools, PoolsConfig, cache::CachePlace,
};
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// The differences from the defaults of pools.
#[derive(Default)]
pub(super) struct PoolSettings {
    pub compile: Option<CompileMode>,
    pub compile_limits: Option<CompileLimits>,
    pub cells: Option<u32>,
    pub metering: Option<Metering>,
    pub allocation: Option<Allocation>,
    pub keep_resident: Option<usize>,
}

impl PoolSettings {
    /// The settings that are made and that shared pools have for all of their hosts.
    pub fn of_pools(&self) -> Vec<&'static str> {
        let settings = [
            ("compile", self.compile.is_some()),
            ("compile_limits", self.compile_limits.is_some()),
            ("metering", self.metering.is_some()),
            ("pool", self.allocation.is_some()),
            ("keep_resident", self.keep_resident.is_some()),
        ];
        settings.into_iter().filter_map(|(name, is_made)| is_made.then_some(name)).collect()
    }

    pub fn config(&self, cache: Option<CachePlace>) -> Result<PoolsConfig, HostError> {
        let defaults = PoolsConfig::new(self.compile.clone().map_or_else(CompileMode::find, Ok)?);
        Ok(PoolsConfig {
            compile_limits: self.compile_limits.clone().unwrap_or_default(),
            cache,
            cells: self.cells.unwrap_or(defaults.cells),
            keep_resident: self.keep_resident.unwrap_or(defaults.keep_resident),
            allocation: self.allocation.unwrap_or_default(),
            metering: self.metering.unwrap_or_default(),
            ..defaults
        })
    }
}

/// Pools of cells, with their compiler and its cache, for several hosts of one process:
/// [`HostBuilder::shared_pools`](super::HostBuilder::shared_pools). Cheap to clone. They are made when the first plugin
/// of any of the hosts is loaded, and live as long as one of these does.
///
/// Each host keeps its own plugins, grants, limits, secrets, models and journal. Of the cells that run at once, each has
/// at most its [`HostBuilder::cells`](super::HostBuilder::cells); where all of the pools are in use, hosts get the ones
/// that become free one after another, whatever each has waiting. A cell is as fresh as in pools of one host. Hosts that
/// load the same bytes share their native code; what it was compiled from is compared by its digest.
#[derive(Clone)]
pub struct SharedPools(Arc<LazyPools>);

struct LazyPools {
    settings: PoolSettings,
    cache: Option<CachePlace>,
    opened: OnceLock<Arc<Pools>>,
    opening: Mutex<()>,
}

impl fmt::Debug for SharedPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPools").field("opened", &self.0.opened.get()).finish()
    }
}

impl SharedPools {
    /// Starts with the defaults: 64 cells at once, metered by ticks, from pools where address space allows.
    pub fn builder() -> SharedPoolsBuilder {
        SharedPoolsBuilder::default()
    }

    /// Returns the use of each pool at this moment, by all hosts together; none before the first plugin.
    #[must_use]
    pub fn in_use(&self) -> Vec<PoolUse> {
        self.0.opened.get().map(|pools| pools.in_use()).unwrap_or_default()
    }

    /// The reason why cells are slower than they could be, if they are.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.0.opened.get()?.warning()
    }

    pub(super) fn open(&self) -> Result<&Arc<Pools>, HostError> {
        let pools = &*self.0;
        let _one = pools.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = pools.opened.get() {
            return Ok(opened);
        }
        let made = Arc::new(Pools::new(pools.settings.config(pools.cache.clone())?)?);
        if let Some(warning) = made.warning() {
            tracing::warn!("{warning}");
        }
        Ok(pools.opened.get_or_init(|| made))
    }
}

/// Collects the settings of [`SharedPools`]. Each is the one of [`HostBuilder`](super::HostBuilder) of its name, and of
/// two calls the later one counts.
#[derive(Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct SharedPoolsBuilder {
    settings: PoolSettings,
    cache: Option<PathBuf>,
    places: Option<Places>,
}

impl fmt::Debug for SharedPoolsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPoolsBuilder").field("cells", &self.settings.cells).finish_non_exhaustive()
    }
}

impl SharedPoolsBuilder {
    /// Sets the maximum number of cells that run at once, all hosts together: 1 to 4,096. Default 64.
    pub fn cells(mut self, cells: u32) -> Self {
        self.settings.cells = Some(cells);
        self
    }

    /// Sets the place in which components are compiled: [`HostBuilder::compile`](super::HostBuilder::compile).
    pub fn compile(mut self, mode: CompileMode) -> Self {
        self.settings.compile = Some(mode);
        self
    }

    /// Sets the resources that one compilation may use.
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        self.settings.compile_limits = Some(limits);
        self
    }

    /// Sets the metering of instructions. Default: ticks of a clock.
    pub fn metering(mut self, metering: Metering) -> Self {
        self.settings.metering = Some(metering);
        self
    }

    /// Sets the allocation of memory to cells. Default: from pools, where the process has the address space for them.
    pub fn pool(mut self, allocation: Allocation) -> Self {
        self.settings.allocation = Some(allocation);
        self
    }

    /// Bytes of each memory that a pool cleans by hand when a cell ends. Default 128 KiB.
    pub fn keep_resident(mut self, bytes: usize) -> Self {
        self.settings.keep_resident = Some(bytes);
        self
    }

    /// A directory for compiled components: [`HostBuilder::cache`](super::HostBuilder::cache). No grant of any of the
    /// hosts reaches it.
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    /// Sets the places of the user's compiled code and keys, when not where the environment says.
    pub fn places(mut self, places: Places) -> Self {
        self.places = Some(places);
        self
    }

    /// The pools. Nothing is reserved yet.
    #[must_use]
    pub fn build(self) -> SharedPools {
        let mut places = self.places.unwrap_or_else(Places::of_user);
        places.cache = self.cache.or(places.cache);
        SharedPools(Arc::new(LazyPools {
            settings: self.settings,
            cache: places.compiled(),
            opened: OnceLock::new(),
            opening: Mutex::default(),
        }))
    }
}
