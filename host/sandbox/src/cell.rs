//! One cell: a fresh instance of a plugin for one call, with its limits, its account and its deadline, dropped afterwards whatever
//! happened.

use crate::{
    budget::{Budget, Exceeded},
    engine::Metering,
    error::CellError,
    grants::Narrowing,
    host::HostServices,
    limits::Limits,
    memory::Memory,
    plugin::Linked,
    receipt::{FileBytes, LogTail, Receipt},
    state::{CellState, Denials},
    ticker::SLICES_PER_TICK,
    wasi::{ClosedWasi, drain_output},
};
use opcell_types::{CallContext, Touched};
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use wasmtime::{
    PoolConcurrencyLimitError, Store, Trap, UpdateDeadline,
    component::{Instance, ResourceTable},
};
use wasmtime_wasi::I32Exit;

/// How often a guest that counts fuel lets others run.
const FUEL_BETWEEN_YIELDS: u64 = 10_000_000;

/// One call of a plugin.
pub(crate) struct Call<'a> {
    pub(crate) operation: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) narrowing: Option<Narrowing>,
    pub(crate) context: CallContext,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) host: Arc<dyn HostServices>,
}

/// An export, with its arguments.
pub(crate) trait Export: Send {
    type Output: Send;

    fn call(
        self,
        linked: &Linked,
        store: &mut Store<CellState>,
        instance: &Instance,
    ) -> impl Future<Output = wasmtime::Result<Self::Output>> + Send;
}

/// How a cell ended that gave no result.
enum End {
    Cancelled,
    Timeout,
    Error(wasmtime::Error),
}

/// Runs `export` in a fresh cell. The result is the export's own, unjudged; the receipt lacks only the error's kind.
pub(crate) async fn run<E: Export>(
    linked: &Linked,
    call: Call<'_>,
    export: E,
) -> (Result<E::Output, CellError>, Receipt) {
    let started = Instant::now();
    let limits = Arc::clone(&call.limits);
    let operation = Arc::clone(&call.operation);
    let cancel = call.cancel;
    let wall = Duration::from_millis(limits.wall_time);
    let mut store = match new_store(linked, call) {
        Ok(store) => store,
        Err(error) => {
            let message = opcell_types::text::printable(&format!("{error:#}"), 1_000);
            return (Err(CellError::HostError { message }), Receipt::unused(linked, operation, started.elapsed()));
        }
    };
    // Held until the store is gone: only then has the pool its slot back.
    let mut held = (None, None);
    let end = {
        let work = async {
            held.0 = linked.turns.acquire().await.ok();
            held.1 = linked.engine.slot().await;
            let instance = linked.pre.instantiate_async(&mut store).await?;
            export.call(linked, &mut store, &instance).await
        };
        tokio::select! {
            biased;
            ended = tokio::time::timeout(wall, work) => match ended {
                Ok(Ok(output)) => Ok(output),
                Ok(Err(error)) => Err(End::Error(error)),
                Err(_) => Err(End::Timeout),
            },
            () = cancel.cancelled() => Err(End::Cancelled),
        }
    };
    let counts_fuel = linked.metering == Metering::Deterministic;
    let left = counts_fuel.then(|| store.get_fuel().ok()).flatten();
    let fuel = left.map(|left| limits.fuel.saturating_sub(left));
    let mut state = store.into_data();
    drop(held);
    drain_output(&mut state);
    let result = end.map_err(|end| explain(end, &state));
    (result, Receipt::of(state, linked, operation, started.elapsed(), fuel))
}

fn new_store(linked: &Linked, call: Call<'_>) -> wasmtime::Result<Store<CellState>> {
    let Call { limits, narrowing, context, host, .. } = call;
    let wasi = if linked.wasi {
        let seed = (linked.metering == Metering::Deterministic).then_some(&*context.idempotency_key);
        Some(Box::new(ClosedWasi::new(seed, limits.log_bytes, &linked.policy.grants().dangerous_preopens)?))
    } else {
        None
    };
    let mut resources = ResourceTable::new();
    resources.set_max_capacity(usize::try_from(limits.handles).unwrap_or(usize::MAX));
    let state = CellState {
        memory: Memory::new(&limits),
        budget: Budget::new(&limits),
        slices: 0,
        log: LogTail::default(),
        log_bytes: 0,
        denials: Denials::default(),
        panic: None,
        file_bytes: FileBytes::default(),
        touched: None,
        open_files: 0,
        resources,
        policy: Arc::clone(&linked.policy),
        narrowing,
        roots: Arc::clone(&linked.roots),
        plugin: Arc::clone(&linked.name),
        context,
        host,
        wasi,
        limits: Arc::clone(&limits),
    };
    let mut store = Store::new(linked.engine.wasmtime(), state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(usize::try_from(limits.result_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(usize::try_from(limits.handles).unwrap_or(usize::MAX));
    // Armed before anything of the guest runs: instantiation may loop as well.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        let state = store.data_mut();
        state.slices += 1;
        if state.slices > state.limits.ticks.saturating_mul(SLICES_PER_TICK) || state.budget.exceeded.is_some() {
            return Ok(UpdateDeadline::Interrupt);
        }
        // Lets other cells run, and the runtime's timers see the deadline, although the guest never waits.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    if linked.metering == Metering::Deterministic {
        store.set_fuel(limits.fuel)?;
        store.fuel_async_yield_interval(Some(FUEL_BETWEEN_YIELDS))?;
    }
    Ok(store)
}

/// The error behind the way a cell ended.
fn explain(end: End, state: &CellState) -> CellError {
    let limits = &state.limits;
    let error = match end {
        End::Cancelled => return CellError::Cancelled,
        End::Timeout => return CellError::Timeout { limit_ms: limits.wall_time },
        End::Error(error) => error,
    };
    if let Some(exceeded) = state.budget.exceeded {
        return match exceeded {
            Exceeded::HostCalls(limit) => CellError::HostCallLimit { limit },
            Exceeded::BoundaryBytes(_) => CellError::TransferLimit { message: exceeded.to_string() },
        };
    }
    let text = opcell_types::text::printable(&format!("{error:#}"), 1_000);
    let refused = state.memory.refused > 0 || state.memory.tables_refused > 0;
    let memory =
        || CellError::Memory { limit: limits.memory, table_limit: limits.table_elements, panic: state.panic.clone() };
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::Interrupt => CellError::Interrupted { ticks: limits.ticks },
            Trap::OutOfFuel => CellError::OutOfFuel { fuel: limits.fuel },
            Trap::StackOverflow => CellError::StackOverflow,
            // A guest that cannot allocate gives up with `unreachable`, or falls over the null pointer it got.
            Trap::UnreachableCodeReached | Trap::MemoryOutOfBounds if refused => memory(),
            Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidChar
            | Trap::CannotEnterComponent
            | Trap::CannotLeaveComponent => CellError::AbiViolation { message: trap.to_string() },
            other => CellError::Trap { code: other.to_string(), panic: state.panic.clone() },
        };
    }
    // A system call for the guest's memory failed: that is nothing that a guest does.
    if error.is::<PoolConcurrencyLimitError>() || error.is::<std::io::Error>() {
        return CellError::HostError { message: text };
    }
    if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        return CellError::Trap { code: format!("the plugin exited with status {status}"), panic: state.panic.clone() };
    }
    // The engine has no types for these; its words are checked by tests.
    if text.contains("fuel allocated for hostcalls has been exhausted") {
        return CellError::TransferLimit {
            message: format!("more than {} bytes in one call (limit `result-bytes`)", limits.result_bytes),
        };
    }
    if text.contains("store handle limit exceeded") || text.contains("resource table has no free keys") {
        return CellError::HandleLimit { limit: limits.handles };
    }
    if refused {
        return memory();
    }
    CellError::AbiViolation { message: text }
}

impl Receipt {
    /// Of a cell that never came to be.
    pub(crate) fn unused(linked: &Linked, operation: Arc<str>, duration: Duration) -> Self {
        Self {
            plugin: Arc::clone(&linked.name),
            digest: Arc::clone(&linked.digest),
            operation,
            duration_us: micros(duration),
            ticks: 0,
            fuel: None,
            peak_memory: 0,
            refused_growths: 0,
            host_calls: Default::default(),
            bytes_in: 0,
            bytes_out: 0,
            file_bytes: FileBytes::default(),
            touched: Touched::default(),
            log: LogTail::default(),
            denials: Vec::new(),
            more_denials: 0,
            error: None,
            panic: None,
        }
    }

    fn of(state: CellState, linked: &Linked, operation: Arc<str>, duration: Duration, fuel: Option<u64>) -> Self {
        Self {
            ticks: state.slices / SLICES_PER_TICK,
            fuel,
            peak_memory: state.memory.peak as u64,
            refused_growths: state.memory.refused.saturating_add(state.memory.tables_refused),
            host_calls: state.budget.calls,
            bytes_in: state.budget.bytes_in,
            bytes_out: state.budget.bytes_out,
            file_bytes: state.file_bytes,
            touched: state.touched.map(|touched| touched.take()).unwrap_or_default(),
            log: state.log,
            denials: state.denials.listed,
            more_denials: state.denials.more,
            panic: state.panic,
            ..Self::unused(linked, operation, duration)
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
