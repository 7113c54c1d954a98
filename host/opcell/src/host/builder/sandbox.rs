//! The settings of a host's sandbox.

use super::{HostBuilder, set};
use crate::{
    config::{Config, PluginConfig},
    host::{Duplicate, HostError, SharedPools, loading::Ground, pools::PoolSettings},
};
use opcell_sandbox::{
    Allocation, CompileLimits, CompileMode, LoadRequest, Metering, PartConfig, PluginSource, Sandbox, SandboxConfig,
};

/// The differences from the sandbox's defaults.
#[derive(Default)]
pub(in crate::host) struct SandboxSettings {
    own: PoolSettings,
    shared: Option<SharedPools>,
}

impl HostBuilder {
    /// Sets the place in which components are compiled. The default is [`CompileMode::find`]: in children of this
    /// program if it has called [`prepare`](crate::prepare) first in its `main`, else in an installed `opcell-compile`;
    /// a host with plugins and neither is refused. [`CompileMode::TrustedInProcess`] has none of the compiler's limits:
    /// for plugins that you trust as your own code.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().compile(CompileMode::TrustedInProcess);
    /// ```
    pub fn compile(mut self, mode: CompileMode) -> Self {
        set(&mut self.sandbox.own.compile, mode, "compile", &mut self.twice);
        self
    }

    /// Sets the resources that one compilation may use.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().compile_limits(opcell::CompileLimits::default());
    /// ```
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        set(&mut self.sandbox.own.compile_limits, limits, "compile_limits", &mut self.twice);
        self
    }

    /// Sets the maximum number of cells that run at once, all plugins together: 1 to 4,096. Default 64. With
    /// [shared pools](HostBuilder::shared_pools), the maximum of this host's cells; by default half of the pools'.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().cells(16);
    /// ```
    pub fn cells(mut self, cells: u32) -> Self {
        set(&mut self.sandbox.own.cells, cells, "cells", &mut self.twice);
        self
    }

    /// Sets the metering of instructions. Default: ticks of a clock.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().metering(Metering::Deterministic);
    /// ```
    pub fn metering(mut self, metering: Metering) -> Self {
        set(&mut self.sandbox.own.metering, metering, "metering", &mut self.twice);
        self
    }

    /// Sets the allocation of memory to cells. Default: from pools, where the process has the address space for them.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().pool(opcell::Allocation::OnDemand);
    /// ```
    pub fn pool(mut self, allocation: Allocation) -> Self {
        set(&mut self.sandbox.own.allocation, allocation, "pool", &mut self.twice);
        self
    }

    /// Runs the cells of this host in pools that other hosts of the process share: address space, engines and compiled
    /// code are there once. Everything else stays the host's own. [`HostBuilder::cells`] is then the maximum of its own
    /// cells, within the pools', and its plugins together have one share of the processors. The settings of the
    /// compiler, its cache and the pools are those of [`SharedPools`]: made here as well, they are an error.
    ///
    /// ```
    /// use opcell::{SharedPools, prelude::*};
    ///
    /// # async fn build(projects: Vec<Config>) -> Result<(), HostError> {
    /// let pools = SharedPools::builder().cells(128).build();
    /// for project in projects {
    ///     let host = Host::builder().config(project).shared_pools(&pools).cells(16).build().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared_pools(mut self, pools: &SharedPools) -> Self {
        set(&mut self.sandbox.shared, pools.clone(), "shared_pools", &mut self.twice);
        self
    }

    /// Bytes of each memory that a pool cleans by hand when a cell ends. Default 128 KiB.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().keep_resident(64 << 10);
    /// ```
    pub fn keep_resident(mut self, bytes: usize) -> Self {
        set(&mut self.sandbox.own.keep_resident, bytes, "keep_resident", &mut self.twice);
        self
    }
}

impl SandboxSettings {
    /// Checks that nothing is set here that the shared pools decide.
    pub(in crate::host) fn check(&self, has_cache: bool) -> Result<(), HostError> {
        let own = self.own.of_pools().into_iter().chain(has_cache.then_some("cache"));
        match own.into_iter().next().filter(|_| self.shared.is_some()) {
            Some(setting) => Err(Duplicate::Setting { setting, places: "by a call and by the shared pools" }.into()),
            None => Ok(()),
        }
    }

    pub(in crate::host) fn open(&self, config: &Config, ground: &Ground) -> Result<Sandbox, HostError> {
        if let Some(shared) = &self.shared {
            let part = PartConfig {
                control: ground.control.clone(),
                written: ground.written.clone(),
                limits: config.limits.clone(),
                cells: self.own.cells,
            };
            return Ok(Sandbox::over(shared.open()?.clone(), part));
        }
        let pools = self.own.config(ground.places.compiled())?;
        let sandbox = Sandbox::new(SandboxConfig {
            compile_limits: pools.compile_limits,
            cache: pools.cache,
            control: ground.control.clone(),
            written: ground.written.clone(),
            limits: config.limits.clone(),
            cells: pools.cells,
            keep_resident: pools.keep_resident,
            interpreter_resident: config.keep_resident.unwrap_or(pools.interpreter_resident),
            allocation: pools.allocation,
            metering: pools.metering,
            ..SandboxConfig::new(pools.compile)
        })?;
        if let Some(warning) = sandbox.warning() {
            tracing::warn!("{warning}");
        }
        Ok(sandbox)
    }
}

pub(in crate::host) fn load_request(plugin: &PluginConfig, config: &Config) -> LoadRequest {
    LoadRequest {
        name: plugin.name.clone(),
        // Of a plugin that is in no file, whoever loads it asks for the bytes.
        source: PluginSource::File(plugin.path.clone()),
        grants: plugin.grants.capabilities.clone(),
        limits: plugin.limits_within(&config.limits),
        agreed: config.lock.as_ref().and_then(|lock| lock.agreed(&plugin.name)).cloned(),
        digest: match config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name)) {
            Some(locked) if !plugin.dev && plugin.builtin_component().is_none() => locked.digest.clone(),
            _ => None,
        },
        exports: plugin.exports.clone(),
        settings: plugin.settings.clone(),
        keeps_programs: plugin.builtin_component().is_some(),
    }
}
