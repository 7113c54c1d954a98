//! One cell: a fresh instance of a plugin for one call, with its limits, its account and its deadline, dropped
//! afterwards whatever happened.

use crate::{
    budget::Exceeded,
    engine::Metering,
    error::{CellError, Exhausted},
    grants::Narrowing,
    host::{HostServices, NoServices},
    image,
    imports::calls,
    limits::Limits,
    plugin::Linked,
    programs::CellProgram,
    receipt::{FileBytes, LogTail, Receipt},
    recording::{self, Player, Recorder, Running, Tape},
    schedule::{
        fair,
        queue::{CellPermits, Wait},
        ticker::SLICES_PER_TICK,
    },
    state::CellState,
    trap,
    typed::{LargeResult, UnfitArguments, is_too_large},
    wasi::{ClosedWasi, drain_output},
};
use opcell_types::{CallContext, Denial, Timeline, Touched};
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, component::Instance};
use wasmtime_wasi::I32Exit;

/// The amount of fuel after which a guest that counts fuel lets others run.
const FUEL_BETWEEN_YIELDS: u64 = 10_000_000;

/// One call of a plugin.
pub(crate) struct Call {
    pub(crate) operation: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) narrowing: Option<Narrowing>,
    pub(crate) context: Arc<CallContext>,
    pub(crate) cancel: Arc<CancellationToken>,
    pub(crate) host: Arc<dyn HostServices>,
    pub(crate) tape: Tape,
    /// The randomness and the clocks of a cell that may be run again.
    pub(crate) timeline: Option<Timeline>,
    /// `true` if it is about what the plugin offers, which needs nothing from the host.
    pub(crate) describes: bool,
    /// The program that it runs, where that may be kept.
    pub(crate) program: Option<CellProgram>,
}

/// An export, with its arguments.
pub(crate) trait Export: Send + 'static {
    type Output: Send + 'static;

    fn call(
        self,
        linked: &Linked,
        store: &mut Store<CellState>,
        instance: &Instance,
    ) -> impl Future<Output = wasmtime::Result<Self::Output>> + Send;
}

/// The reason for which a cell ended without a result.
enum End {
    Cancelled,
    Timeout,
    /// For a reason that is known already.
    Explained(CellError),
    Error(wasmtime::Error),
}

/// Runs `export` in a fresh cell, with what the host does before and after it with the same data: `before` checks what
/// goes in, `after` checks what came out, both within the cell's permits and its wall time. `after` is also given the
/// last refusal that the cell met. The receipt lacks only the error's kind.
pub(crate) async fn run<E, T, F>(
    linked: &Arc<Linked>,
    call: Call,
    before: impl Future<Output = Result<(), CellError>> + Send + 'static,
    export: E,
    after: impl FnOnce(E::Output, Option<Denial>) -> F + Send + 'static,
) -> (Result<T, CellError>, Receipt)
where
    E: Export,
    T: Send + 'static,
    F: Future<Output = Result<T, CellError>> + Send + 'static,
{
    let started = Instant::now();
    let operation = Arc::clone(&call.operation);
    let work: fair::Work<_> = Box::pin(live(Arc::clone(linked), call, started, before, export, after));
    let ended = fair::run(&linked.share, started, work).await;
    // After the cell and not before it: calls enter the queue in the order in which they are made.
    fair::take_turn().await;
    ended.unwrap_or_else(|| {
        let message = "the host failed inside of the cell".to_owned();
        (Err(CellError::HostError { message }), Receipt::unused(linked, operation, started.elapsed()))
    })
}

async fn live<E: Export, T, F: Future<Output = Result<T, CellError>>>(
    linked: Arc<Linked>,
    call: Call,
    started: Instant,
    before: impl Future<Output = Result<(), CellError>>,
    export: E,
    after: impl FnOnce(E::Output, Option<Denial>) -> F,
) -> (Result<T, CellError>, Receipt) {
    let linked = &linked;
    let (wall_time, fuel, nesting) = (call.limits.wall_time, call.limits.fuel, call.context.nesting);
    let cancel = Arc::clone(&call.cancel);
    let deadline = started + Duration::from_millis(wall_time);
    // Held until the store is gone, because only then has the pool its slot back, and until the result is checked.
    let (mut held, mut wait) = (CellPermits::default(), Wait::default());
    let operation = Arc::clone(&call.operation);
    let mut store = match state_of(linked, call).and_then(|state| store_of(linked, state)) {
        Ok(store) => store,
        Err(error) => {
            let message = opcell_types::text::printable(&format!("{error:#}"), 1_000);
            return (Err(CellError::HostError { message }), Receipt::unused(linked, operation, started.elapsed()));
        }
    };
    let work = async {
        held = linked
            .queue
            .enter(linked.allotment.as_deref(), &linked.engine, nesting, &mut wait)
            .await
            .map_err(End::Explained)?;
        before.await.map_err(End::Explained)?;
        let instance = match linked.pre.instantiate_async(&mut store).await {
            Err(error) if image::is_refused(&error) => {
                image::made(linked.pre.component()).await;
                linked.pre.instantiate_async(&mut store).await
            }
            made => made,
        };
        let instance = instance.map_err(End::Error)?;
        let output = export.call(linked, &mut store, &instance).await.map_err(End::Error)?;
        calls::finish(store.data_mut()).await;
        Ok(output)
    };
    let end = within(deadline, &cancel, work).await;
    let counts_fuel = linked.metering == Metering::Deterministic;
    let left = counts_fuel.then(|| store.get_fuel().ok()).flatten();
    let fuel = left.map(|left| fuel.saturating_sub(left));
    let mut state = store.into_data();
    drain_output(&mut state);
    let result = match end {
        Ok(output) => {
            let denial = state.denials.last().cloned();
            let checked = async { after(output, denial).await.map_err(End::Explained) };
            within(deadline, &cancel, checked).await
        }
        Err(end) => Err(end),
    };
    let backtrace = match &result {
        Err(End::Error(error)) => trap::backtrace(error),
        _ => Vec::new(),
    };
    let result = result.map_err(|end| match end {
        End::Timeout if wait.is_waiting() => {
            let message = format!("no cell became free within {wall_time} ms; nothing of the plugin has run");
            CellError::Busy { message }
        }
        end => explain(end, &state),
    });
    let queued_us = micros(wait.length());
    drop(held);
    (result, Receipt { queued_us, backtrace, ..Receipt::of(state, started.elapsed(), fuel) })
}

/// Work, unless it is cancelled or its time is up first. Work that never waits needs neither a timer nor an ear for the
/// cancellation: both are made when it first does.
async fn within<T>(
    deadline: Instant,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, End>>,
) -> Result<T, End> {
    let mut work = pin!(work);
    let mut ends = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        let ends = ends.get_or_insert_with(|| {
            Box::pin(async {
                tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(deadline.into()) => End::Timeout,
                    () = cancel.cancelled() => End::Cancelled,
                }
            })
        });
        ends.as_mut().poll(context).map(Err)
    })
    .await
}

fn state_of(linked: &Arc<Linked>, call: Call) -> wasmtime::Result<CellState> {
    let Call { operation, limits, narrowing, context, host, describes, tape, timeline, program, .. } = call;
    let random = |error: getrandom::Error| wasmtime::Error::msg(format!("no random numbers: {error}"));
    let taped = match (&tape, timeline) {
        (Tape::Replay(recording), _) => Some(recording::Wasi::replayed(recording)),
        (Tape::Off | Tape::Record, Some(timeline)) => Some(recording::Wasi::resumable(timeline)),
        (Tape::Off, None) => None,
        (Tape::Record, None) => Some(recording::Wasi::recorded().map_err(random)?),
    };
    let taped = taped.filter(|_| linked.wasi);
    let wasi = if linked.wasi {
        let seed = (linked.metering == Metering::Deterministic).then_some(&*context.idempotency_key);
        let preopens = match describes {
            true => &[][..],
            false => &linked.policy.grants().dangerous_preopens,
        };
        Some(Box::new(ClosedWasi::new(seed, limits.log_bytes, preopens, taped.as_ref())?))
    } else {
        None
    };
    let tape = match tape {
        Tape::Off => None,
        Tape::Record => {
            let preopens = linked.wasi && !linked.policy.grants().dangerous_preopens.is_empty();
            Some(Running::Recorder(Recorder::new(taped.map(|taped| taped.clocks()), preopens)))
        }
        Tape::Replay(recording) => Some(Running::Player(Player::new(recording))),
    };
    // What is not in the recording is nowhere.
    let host = if matches!(tape, Some(Running::Player(_))) { Arc::new(NoServices) } else { host };
    let state = CellState::new(Arc::clone(linked), limits, operation, context, host);
    Ok(CellState { narrowing, tape, wasi, program, ..state })
}

/// A store in which every limit holds from now on.
pub(crate) fn store_of(linked: &Linked, state: CellState) -> wasmtime::Result<Store<CellState>> {
    let limits = Arc::clone(&state.limits);
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
        // Lets others run, and the cell's deadline be seen, although the guest never waits.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(fair::yield_slice())))
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
    if let (Some(missing), End::Error(_) | End::Timeout) = (state.not_recorded(), &end) {
        return CellError::NotRecorded(missing.clone());
    }
    let error = match end {
        End::Cancelled => return CellError::Cancelled,
        End::Timeout => return CellError::Timeout { limit_ms: limits.wall_time },
        End::Explained(error) => return error,
        End::Error(error) => error,
    };
    if let Some(exceeded) = state.budget.exceeded {
        return match exceeded {
            Exceeded::HostCalls(limit) => CellError::HostCallLimit { limit },
            Exceeded::BoundaryBytes(_) | Exceeded::HeldBytes(_) => {
                CellError::TransferLimit { message: exceeded.to_string() }
            }
        };
    }
    if let Some(exceeded) = error.downcast_ref::<Exceeded>() {
        return CellError::TransferLimit { message: exceeded.to_string() };
    }
    if let Some(unfit) = error.downcast_ref::<UnfitArguments>() {
        return CellError::InvalidArguments { id: state.operation.to_string(), message: unfit.to_string() };
    }
    if let Some(large) = error.downcast_ref::<LargeResult>() {
        return CellError::TransferLimit { message: large.to_string() };
    }
    let text = opcell_types::text::printable(&format!("{error:#}"), 1_000);
    let refused = state.memory.refused > 0 || state.memory.tables_refused > 0;
    let memory = || CellError::Memory {
        exhausted: match state.memory.refused {
            0 => Exhausted::Table { limit: limits.table_elements },
            _ => Exhausted::Memory { limit: limits.memory },
        },
        panic: state.panic.clone(),
    };
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::Interrupt => CellError::Interrupted { ticks: limits.ticks },
            Trap::OutOfFuel => CellError::OutOfFuel { fuel: limits.fuel },
            Trap::StackOverflow => CellError::StackOverflow,
            // A guest that cannot allocate gives up with `unreachable`, or falls over the null pointer it got.
            Trap::UnreachableCodeReached | Trap::MemoryOutOfBounds if refused => memory(),
            // Compilers keep a stack of their own in linear memory, below everything else.
            Trap::MemoryOutOfBounds if trap::is_stack_overflow(*trap, &error) => CellError::StackOverflow,
            Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidChar
            | Trap::CannotEnterComponent
            | Trap::CannotLeaveComponent => CellError::AbiViolation { message: trap.to_string() },
            other => CellError::Trap { code: other.to_string(), panic: state.panic.clone() },
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CellError::HostError { message: text };
    }
    if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        return CellError::Trap { code: format!("the plugin exited with status {status}"), panic: state.panic.clone() };
    }
    // The engine has no types for these; its words are checked by tests.
    if is_too_large(&error) {
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
    // What the engine says when a guest breaks the rules; it has no types for these either. Anything else is not known
    // to be the guest's doing: a system call for its memory may have failed.
    if BROKEN_RULES.iter().any(|words| text.contains(words)) {
        return CellError::AbiViolation { message: text };
    }
    CellError::HostError { message: text }
}

/// The engine's messages for broken rules of the component boundary, by the part that they have in common.
const BROKEN_RULES: &[&str] = &[
    "out of bounds",
    "not aligned",
    "beyond end of memory",
    "invalid utf-8",
    "incomplete utf-8",
    "invalid utf8",
    "invalid utf16",
    "invalid utf-16",
    "discriminant",
    "unknown handle index",
    "is not a resource",
    "is not an own resource",
    "resource type mismatch",
    "mismatched resource types",
    "wrong type",
    "while borrowed",
    "from a borrow",
    "into an `own`",
    "borrow handles still remain",
    "already consumed",
    "already de-allocated",
    "too many active lends",
    "index overflow",
    "byte length too large",
    "byte length overflow",
    "pointer size overflow",
    "size overflow copying",
    "enter component instance",
    "leave component instance",
    "resource not present",
    "resource is of another type",
    "requested len",
    "resource has children",
];

impl Receipt {
    /// Returns the receipt of a cell that was never created.
    pub(crate) fn unused(linked: &Linked, operation: Arc<str>, duration: Duration) -> Self {
        Self {
            plugin: Arc::clone(&linked.name),
            digest: linked.digest.clone(),
            operation,
            duration_us: micros(duration),
            queued_us: 0,
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
            backtrace: Vec::new(),
            limit: None,
            recording: None,
        }
    }

    fn of(state: CellState, duration: Duration, fuel: Option<u64>) -> Self {
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
            recording: state.tape.map(|tape| {
                Box::new(match tape {
                    Running::Recorder(recorder) => recorder.into_recording(),
                    Running::Player(player) => player.into_rest(),
                })
            }),
            ..Self::unused(&state.linked, state.operation, duration)
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
