//! The engine alone: wasmtime with nothing around it, in its best configuration.
//!
//! No limits, no budget, no grants, no receipt, no JSON: what a cell cannot be faster than.

use anyhow::{Context as _, Result};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, ComponentExportIndex, ComponentType, InstancePre, Lift, Linker, Lower},
};

#[derive(Clone, ComponentType, Lower)]
#[component(record)]
struct Context {
    run: String,
    step: String,
    visit: u32,
    attempt: u32,
    #[component(name = "idempotency-key")]
    idempotency_key: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Success {
    data: String,
    summary: Option<String>,
    details: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Failure {
    reason: String,
    message: String,
    details: Option<String>,
}

/// A component in an engine of its own.
pub struct Bare {
    pre: InstancePre<()>,
    invoke: ComponentExportIndex,
}

impl Bare {
    /// Compiles `component` in this process.
    ///
    /// # Errors
    /// When it is no plugin with operations.
    pub fn new(component: &[u8]) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(64)
            .total_core_instances(512)
            .total_memories(64)
            .total_tables(256)
            .total_stacks(64)
            .max_unused_warm_slots(64)
            .linear_memory_keep_resident(64 << 10)
            .table_keep_resident(64 << 10);
        let mut config = Config::new();
        config
            .gc_support(false)
            .concurrency_support(false)
            .epoch_interruption(true)
            .native_unwind_info(false)
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).map_err(anyhow::Error::msg)?;
        let component = Component::new(&engine, component).map_err(anyhow::Error::msg)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).map_err(anyhow::Error::msg)?;
        let (_, operations) = component
            .get_export(None, "opcell:plugin/operations@0.1.0")
            .context("the component exports no operations")?;
        let invoke = component.get_export_index(Some(&operations), "invoke").context("no `invoke`")?;
        let pre = linker.instantiate_pre(&component).map_err(anyhow::Error::msg)?;
        Ok(Self { pre, invoke })
    }

    /// One call in a fresh store; returns the bytes of the answer.
    ///
    /// # Errors
    /// When the guest traps.
    pub async fn call(&self, id: &str, arguments: &str) -> wasmtime::Result<usize> {
        let mut store = Store::new(self.pre.engine(), ());
        store.set_epoch_deadline(1_000_000);
        let instance = self.pre.instantiate_async(&mut store).await?;
        let invoke =
            instance.get_typed_func::<(&str, &str, Context), (Result<Success, Failure>,)>(&mut store, &self.invoke)?;
        let context =
            Context { run: String::new(), step: String::new(), visit: 1, attempt: 1, idempotency_key: String::new() };
        let (answer,) = invoke.call_async(&mut store, (id, arguments, context)).await?;
        Ok(match answer {
            Ok(success) => {
                success.data.len() + success.summary.map_or(0, |s| s.len()) + success.details.map_or(0, |s| s.len())
            }
            Err(failure) => failure.reason.len() + failure.message.len() + failure.details.map_or(0, |s| s.len()),
        })
    }
}
