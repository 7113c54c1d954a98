//! The settings of a host's sandbox.

use super::{HostBuilder, set};
use crate::{
    config::{Config, PluginConfig},
    host::{HostError, loading::Ground},
};
use opcell_sandbox::{
    Allocation, CompileLimits, CompileMode, LoadRequest, Metering, PluginSource, Sandbox, SandboxConfig,
};

/// The differences from the sandbox's defaults.
#[derive(Default)]
pub(in crate::host) struct SandboxSettings {
    compile: Option<CompileMode>,
    compile_limits: Option<CompileLimits>,
    cells: Option<u32>,
    metering: Option<Metering>,
    allocation: Option<Allocation>,
    keep_resident: Option<usize>,
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
        set(&mut self.sandbox.compile, mode, "compile", &mut self.twice);
        self
    }

    /// Sets the resources that one compilation may use.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().compile_limits(opcell::CompileLimits::default());
    /// ```
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        set(&mut self.sandbox.compile_limits, limits, "compile_limits", &mut self.twice);
        self
    }

    /// Sets the maximum number of cells that run at once, all plugins together: 1 to 4,096. Default 64.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().cells(16);
    /// ```
    pub fn cells(mut self, cells: u32) -> Self {
        set(&mut self.sandbox.cells, cells, "cells", &mut self.twice);
        self
    }

    /// Sets the metering of instructions. Default: ticks of a clock.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().metering(Metering::Deterministic);
    /// ```
    pub fn metering(mut self, metering: Metering) -> Self {
        set(&mut self.sandbox.metering, metering, "metering", &mut self.twice);
        self
    }

    /// Sets the allocation of memory to cells. Default: from pools, where the process has the address space for them.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().pool(opcell::Allocation::OnDemand);
    /// ```
    pub fn pool(mut self, allocation: Allocation) -> Self {
        set(&mut self.sandbox.allocation, allocation, "pool", &mut self.twice);
        self
    }

    /// Bytes of each memory that a pool cleans by hand when a cell ends. Default 128 KiB.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().keep_resident(64 << 10);
    /// ```
    pub fn keep_resident(mut self, bytes: usize) -> Self {
        set(&mut self.sandbox.keep_resident, bytes, "keep_resident", &mut self.twice);
        self
    }
}

impl SandboxSettings {
    pub(in crate::host) fn open(&self, config: &Config, ground: &Ground) -> Result<Sandbox, HostError> {
        let compile = self.compile.clone().map_or_else(CompileMode::find, Ok)?;
        let defaults = SandboxConfig::new(compile);
        let sandbox = Sandbox::new(SandboxConfig {
            compile_limits: self.compile_limits.clone().unwrap_or_default(),
            cache: ground.places.compiled(),
            control: ground.control.clone(),
            written: ground.written.clone(),
            limits: config.limits.clone(),
            cells: self.cells.unwrap_or(defaults.cells),
            keep_resident: self.keep_resident.unwrap_or(defaults.keep_resident),
            allocation: self.allocation.unwrap_or_default(),
            metering: self.metering.unwrap_or_default(),
            ..defaults
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
    }
}
