//! The engine alone: what a cell is measured against, and what it cannot be faster than.
//!
//! A measuring instrument; nothing of the sandbox runs through it. It is the same component, compiled to the same
//! native code, in an engine of the same configuration with a pool of the same shape, called asynchronously in a fresh
//! store, and it has none of what makes a cell: no limits, no budget, no grants, no deadline of its own, no receipt, no
//! JSON. Every import traps. Ten seconds of running end it, so that a plugin which never returns does not keep a
//! measurement.

use crate::{
    bindings::exports::opcell::plugin0_1_0::operations::{Context, Failure, Success},
    error::{LoadError, SandboxError},
    inspect::EXPORTS,
    schedule::ticker::Clock,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use wasmtime::{
    Engine, Store,
    component::{Component, ComponentExportIndex, Instance, InstancePre, Linker, TypedFunc},
};

/// Slices of the clock after which a call is interrupted: ten seconds.
const DEADLINE: u64 = 10_000;

type Answer = (Result<Success, Failure>,);
type Invoke = TypedFunc<(&'static str, &'static str, Context), Answer>;

/// A component of which only the engine knows.
pub struct Bare {
    pre: InstancePre<()>,
    invoke: ComponentExportIndex,
    clock: Arc<Clock>,
}

/// The time of one call, by phase.
#[derive(Debug, Clone, Copy)]
pub struct Phases {
    /// Making the store and the instance.
    pub instantiate: Duration,
    /// Calling `invoke`, arguments and result copied.
    pub call: Duration,
    /// Dropping the store: the pool cleans what the guest touched.
    pub drop: Duration,
}

/// One instance that serves call after call: what a host does that does not isolate calls from each other.
pub struct Reused {
    store: Store<()>,
    invoke: Invoke,
    _clock: Arc<Clock>,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Reused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reused").finish_non_exhaustive()
    }
}

impl Bare {
    /// Loads native code that the sandbox's own compiler made.
    pub(crate) fn new(engine: &Engine, compiled: &[u8]) -> Result<Self, LoadError> {
        let link = |message: String| LoadError::Link { message: opcell_types::text::printable(&message, 2_000) };
        let failed = |error: wasmtime::Error| link(format!("{error:#}"));
        // It never sleeps: waking it is not what is measured.
        let clock = Clock::start(vec![engine.weak()], || true)
            .map_err(|error| link(SandboxError::Ticker(error).to_string()))?;
        // SAFETY: the compiled component was made by our own compiler, or its MAC proves that it was when it was
        // cached.
        let component = unsafe { Component::deserialize(engine, compiled) }.map_err(|error| LoadError::Shape {
            message: opcell_types::text::printable(&format!("{error:#}"), 1_000),
        })?;
        let mut linker = Linker::new(engine);
        linker.define_unknown_imports_as_traps(&component).map_err(failed)?;
        let pre = linker.instantiate_pre(&component).map_err(failed)?;
        let interface = component.get_export_index(None, format!("opcell:plugin/operations@{EXPORTS}"));
        let invoke = component
            .get_export_index(interface.as_ref(), "invoke")
            .ok_or_else(|| link("the component exports no operations".to_owned()))?;
        Ok(Self { pre, invoke, clock: Arc::new(clock) })
    }

    async fn instantiate(&self) -> wasmtime::Result<(Store<()>, Instance)> {
        let mut store = Store::new(self.pre.engine(), ());
        store.set_epoch_deadline(DEADLINE);
        let instance = self.pre.instantiate_async(&mut store).await?;
        Ok((store, instance))
    }

    fn function(&self, store: &mut Store<()>, instance: &Instance) -> wasmtime::Result<Invoke> {
        instance.get_typed_func(store, self.invoke)
    }

    /// One call in a fresh store; the bytes of the answer.
    ///
    /// # Errors
    /// The engine's words when the guest traps, which it does when it calls its host.
    pub async fn call(&self, id: &str, arguments: &str) -> Result<usize, String> {
        let work = async {
            let (mut store, instance) = self.instantiate().await?;
            let invoke = self.function(&mut store, &instance)?;
            answer(&mut store, invoke, id, arguments).await
        };
        work.await.map_err(words)
    }

    /// One call in a fresh store, phase by phase. The clock costs some ten nanoseconds per phase.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn phases(&self, id: &str, arguments: &str) -> Result<Phases, String> {
        let work = async {
            let started = Instant::now();
            let (mut store, instance) = self.instantiate().await?;
            let instantiated = Instant::now();
            let invoke = self.function(&mut store, &instance)?;
            answer(&mut store, invoke, id, arguments).await?;
            let called = Instant::now();
            drop(store);
            Ok(Phases { instantiate: instantiated - started, call: called - instantiated, drop: called.elapsed() })
        };
        work.await.map_err(words)
    }

    /// An instance to be called more than once.
    ///
    /// # Errors
    /// The engine's words when it cannot be instantiated.
    pub async fn reused(&self) -> Result<Reused, String> {
        let work = async {
            let (mut store, instance) = self.instantiate().await?;
            let invoke = self.function(&mut store, &instance)?;
            Ok(Reused { store, invoke, _clock: Arc::clone(&self.clock) })
        };
        work.await.map_err(words)
    }
}

impl Reused {
    /// One more call in the same instance; the bytes of the answer.
    ///
    /// # Errors
    /// As [`Bare::call`].
    pub async fn call(&mut self, id: &str, arguments: &str) -> Result<usize, String> {
        self.store.set_epoch_deadline(DEADLINE);
        answer(&mut self.store, self.invoke, id, arguments).await.map_err(words)
    }
}

async fn answer(store: &mut Store<()>, invoke: Invoke, id: &str, arguments: &str) -> wasmtime::Result<usize> {
    let context =
        Context { run: String::new(), step: String::new(), visit: 1, attempt: 1, idempotency_key: String::new() };
    let invoke: TypedFunc<(&str, &str, Context), Answer> = invoke;
    let (answer,) = invoke.call_async(store, (id, arguments, context)).await?;
    let length = |text: Option<String>| text.map_or(0, |text| text.len());
    Ok(match answer {
        Ok(success) => success.data.len() + length(success.summary) + length(success.details),
        Err(failure) => failure.reason.len() + failure.message.len() + length(failure.details),
    })
}

fn words(error: wasmtime::Error) -> String {
    opcell_types::text::printable(&format!("{error:#}"), 1_000)
}
