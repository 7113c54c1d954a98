//! Engines. [`config`] is the only place where a wasmtime configuration is made: the compiler's process and every pool
//! use it, so that what one compiles the others can load.
//!
//! Everything that plugins do not need is off: threads, GC, exceptions, memory64, concurrency. Each pool has an engine
//! of its own, and a [`CellEngine`] never lends its objects to another.

use crate::{
    error::SandboxError,
    schedule::{
        levels::{Levels, MAX_NESTING},
        slots::{self, Slot},
        ticker::Clock,
    },
};
use std::{num::NonZeroUsize, sync::Arc};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, RegallocAlgorithm,
    Strategy, WasmFeatures,
};

/// The largest linear memory that a pool can hold; the `memory` limit may not exceed it.
pub(crate) const MAX_MEMORY: usize = 1 << 30;

/// Address space that every memory reserves where there is little, and the largest that one may begin with there. A
/// memory that grows beyond it is moved.
const SCARCE_MEMORY: usize = 64 << 20;

/// Address space that a memory has to grow into before it is moved, where there is little.
const GROWTH: u64 = 4 << 20;

/// Address space for what is not a cell's memory, where there is little: the program, its threads, files that are
/// mapped.
const HOST_SPACE: u64 = 2 << 30;

/// Address space of one cell beside its memory: its stack, and code.
const CELL_SPACE: u64 = 16 << 20;

/// The most address space that a process may use after it has reserved pools, of the 128 TiB of a process on x86-64
/// Linux. Without the rest, a process with very many hosts could not even allocate cells on demand: one that has no
/// pools still reserves some gigabytes.
const MOST_WITH_POOLS: u64 = 112 << 40;

/// From this many slots on, the engine splits what it keeps of a pool by threads, which then do not wait for one
/// another. There are more slots then than cells may run: a slot that is never used costs address space only.
const SPLIT: u32 = 128;

/// The most engines of the small pool.
const MAX_SHARDS: usize = 8;

/// The most slots that each engine of the small pool but the first keeps warm.
const MAX_REPLICA_WARM_SLOTS: u32 = 16;

/// The allocation of memory to cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Allocation {
    /// Pools where the address space allows, and on demand with a warning where it does not.
    #[default]
    Auto,
    /// On demand: slower, and a freed slot is never another cell's.
    OnDemand,
}

/// The metering of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Metering {
    /// Ticks of a clock: some 10 % of the guest's speed, not reproducible.
    #[default]
    Ticks,
    /// Fuel as well: about two to three times the price, reproducible to the instruction; NaNs are canonical.
    Deterministic,
}

/// The amount of address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough to reserve four gigabytes for every memory, so that most of its bounds need no check.
    Plenty,
    /// So little that memories reserve what most cells use, and native code checks every bound.
    Scarce,
}

/// The shape of a pool: how many cells at once, and how much of everything in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    cells: u32,
    core_instances: u32,
    memories: u32,
    tables: u32,
    keep_resident: usize,
    /// Slots that keep their memory when no cell runs in them.
    warm: u32,
}

/// The cells of a pool that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolUse {
    /// Its name: `small`, `script`, `on-demand` where there is no pool, or `shared` for the part of one host in pools that
    /// several share.
    pub pool: &'static str,
    /// Cells that it has.
    pub cells: u32,
    /// Cells of these that run now.
    pub busy: u32,
}

/// One engine and the pool that belongs to it. Components, linkers and stores of one engine are never used with
/// another.
#[derive(Clone)]
pub(crate) struct CellEngine {
    engine: Engine,
    name: &'static str,
    /// Its place among the pools, smallest first.
    at: usize,
    /// Cells at once, all plugins together.
    slots: Arc<Levels>,
    cells: u32,
    clock: Arc<Clock>,
    /// The configuration of further engines of the same pool; `None` where there may be no more.
    template: Option<(Metering, Shape)>,
}

impl CellEngine {
    /// Waits for a slot; the clock ticks while one is held. A pool has at least as many as there are permits, so that
    /// waiting happens here, where it is counted.
    pub(crate) async fn slot(&self, nesting: u8) -> Option<Slot<'_>> {
        let slot = self.slots.acquire(nesting).await;
        self.clock.wake();
        slot
    }

    /// A slot that is free now; the clock ticks while it is held.
    pub(crate) fn free_slot(&self, nesting: u8) -> Option<Slot<'_>> {
        let slot = self.slots.try_acquire(nesting)?;
        self.clock.wake();
        Some(slot)
    }

    /// The number of engines that the pool may have: one per thread that runs cells, so that threads share no reference
    /// counts.
    pub(crate) fn max_shards(&self) -> usize {
        self.template.map_or(1, |_| slots::shard_count().min(MAX_SHARDS))
    }

    /// Makes another engine of the same pool, whose cells count towards the same limit. `None` where there is no room
    /// for it.
    pub(crate) fn replicate(&self) -> Option<Self> {
        let (metering, shape) = self.template?;
        let shape = Shape { warm: shape.warm.min(MAX_REPLICA_WARM_SLOTS), ..shape };
        let engine = build(&config(metering, Room::Plenty, Some(pool_config(shape)))).ok()?;
        leaves_room().then_some(())?;
        self.clock.also(engine.weak());
        Some(Self { engine, template: None, ..self.clone() })
    }

    pub(crate) fn wasmtime(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its place among the pools, smallest first.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the number of its cells, and of those that are in use.
    pub(crate) fn in_use(&self) -> PoolUse {
        let busy = u32::try_from(self.slots.taken_now()).unwrap_or(u32::MAX);
        PoolUse { pool: self.name, cells: self.cells, busy: busy.min(self.cells) }
    }
}

/// The configuration of every engine; `pool` says how instances are allocated and changes nothing about compiled code.
fn config(metering: Metering, room: Room, pool: Option<PoolingAllocationConfig>) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .cranelift_regalloc_algorithm(RegallocAlgorithm::Backtracking)
        .wasm_component_model(true)
        .gc_support(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        // What copies between the components that one component is made of has both of their memories.
        .wasm_multi_memory(true)
        // Said once more where the engine is built without them: another crate's features must not bring them
        // back.
        .concurrency_support(false)
        .wasm_features(
            WasmFeatures::FUNCTION_REFERENCES
                .union(WasmFeatures::GC)
                .union(WasmFeatures::EXCEPTIONS)
                .union(WasmFeatures::THREADS),
            false,
        )
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .shared_memory(false)
        .epoch_interruption(true)
        // The rest of the fiber's stack is the host functions'; overflowing that part aborts, so it is most of it.
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .memory_init_cow(true)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // Unwind tables would be registered for every plugin; they serve native profilers only.
        .native_unwind_info(false);
    if metering == Metering::Deterministic {
        config.consume_fuel(true).cranelift_nan_canonicalization(true);
    }
    if room == Room::Scarce {
        config
            .memory_reservation(SCARCE_MEMORY as u64)
            .memory_reservation_for_growth(GROWTH)
            .memory_guard_size(64 << 10);
    }
    if let Some(pool) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    config
}

/// The cells of a pool at each level of nested calls, beside those of steps and models.
fn nested(cells: u32) -> u32 {
    (cells / 16).max(1)
}

fn pool_config(shape: Shape) -> PoolingAllocationConfig {
    let Shape { cells, core_instances, memories, tables, keep_resident, warm } = shape;
    let least = if cells >= SPLIT / 2 { SPLIT } else { 1 };
    let cells = cells + nested(cells) * u32::from(MAX_NESTING);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(cells)
        .total_core_instances(cells * core_instances)
        .total_memories((cells * memories).max(least))
        .total_tables((cells * tables).max(least))
        .total_stacks(cells.max(least))
        .max_core_instances_per_component(core_instances)
        .max_memories_per_component(memories)
        .max_tables_per_component(tables)
        .max_memories_per_module(memories)
        .max_tables_per_module(tables)
        .max_memory_size(MAX_MEMORY)
        .table_elements(20_000)
        // A memset of at most this much when a cell is dropped, instead of page faults in the next: more is not better.
        .linear_memory_keep_resident(keep_resident)
        .table_keep_resident(keep_resident)
        .async_stack_keep_resident(16 << 10)
        .max_unused_warm_slots(warm)
        // At once: a batch would keep the memory of the last bombs resident until enough small cells have followed.
        .decommit_batch_size(1)
        // Takes swapped pages for clean on this engine's version.
        .pagemap_scan(Enabled::No);
    pool
}

/// An engine that runs nothing and refuses what no pool would have room for: without pools, the same shapes hold.
fn shapes(metering: Metering, room: Room, shape: Shape) -> Result<Engine, SandboxError> {
    let mut pool = pool_config(Shape { cells: 1, ..shape });
    if room == Room::Scarce {
        pool.max_memory_size(SCARCE_MEMORY);
    }
    build(&config(metering, room, Some(pool)))
}

/// The engine that compiles and runs nothing: same code as the others, no pool, so that it fits under an address-space
/// limit.
pub(crate) fn compiler(metering: Metering, room: Room) -> Result<Engine, SandboxError> {
    build(&config(metering, room, None))
}

fn build(config: &Config) -> Result<Engine, SandboxError> {
    Engine::new(config).map_err(|error| SandboxError::Engine(format!("{error:#}")))
}

/// An engine for measuring: what the small pool of [`Engines::new`] is, or the script one, and nothing else shares it.
pub(crate) fn like(
    is_script: bool,
    metering: Metering,
    room: Room,
    cells: u32,
    kept: Residency,
) -> Result<Engine, SandboxError> {
    let shape = if is_script { script(cells, kept) } else { small(cells, kept) };
    let pool = (room == Room::Plenty).then(|| pool_config(shape));
    build(&config(metering, room, pool))
}

fn small(cells: u32, kept: Residency) -> Shape {
    Shape { cells, core_instances: 8, memories: 1, tables: 4, keep_resident: kept.resident, warm: cells }
}

/// The bytes of each memory that the pools keep when a cell ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Residency {
    /// Of the small pool.
    pub(crate) resident: usize,
    /// Of the pool of interpreters, if it is more.
    pub(crate) interpreter: usize,
}

/// The most that the pool of interpreters keeps of each memory by default, in bytes: what the largest of them begins
/// with. Copying it back costs a small part of the page faults that it saves. A slot keeps what its cells have used, and
/// there are a quarter as many as in the small pool.
pub(crate) const INTERPRETER_RESIDENT: usize = 16 << 20;

/// For guests that bring an interpreter: dozens of core instances and tables, megabytes of initialised memory.
fn script(cells: u32, kept: Residency) -> Shape {
    Shape {
        cells: (cells / 4).max(1),
        core_instances: 200,
        memories: 8,
        tables: 64,
        keep_resident: kept.resident.max(kept.interpreter),
        warm: (cells / 4).max(1),
    }
}

/// Returns the number of `cells` cells with this much memory each for which there is address space, beside the host
/// itself.
fn admitted(cells: u32, memory: u64) -> u32 {
    let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::As).current else { return cells };
    // A memory that moves to grow is there twice meanwhile.
    let each = 2 * memory + GROWTH + CELL_SPACE;
    let free = limit.saturating_sub(HOST_SPACE.max(limit / 4));
    u32::try_from(free / each).unwrap_or(u32::MAX).clamp(1, cells)
}

/// Returns `true` if this process has address space left for further hosts. A system that does not say how much is used
/// counts as one that has.
fn leaves_room() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    line.and_then(|kib| kib.trim().parse::<u64>().ok()).is_none_or(|kib| kib.saturating_mul(1024) <= MOST_WITH_POOLS)
}

/// All engines of one sandbox, smallest pool first, ticking.
pub(crate) struct Engines {
    pools: Vec<CellEngine>,
    /// Refuses components that no pool would have room for, where there are no pools.
    pub(crate) shapes: Option<Engine>,
    pub(crate) room: Room,
    /// Why there are no pools although they were wanted.
    pub(crate) warning: Option<String>,
}

impl Engines {
    /// Builds the pools for `cells` cells at once in the small one and a quarter of it in the script one. Where these
    /// do not fit, cells with `memory` bytes each are allocated on demand, as many at once as there is address space
    /// for.
    pub(crate) fn new(
        metering: Metering,
        allocation: Allocation,
        cells: u32,
        memory: u64,
        kept: Residency,
    ) -> Result<Self, SandboxError> {
        let (small, script) = (small(cells, kept), script(cells, kept));
        let pool = |shape| build(&config(metering, Room::Plenty, Some(pool_config(shape))));
        let (mut warning, mut room, mut shapes) = (None, Room::Plenty, None);
        let pools = match allocation {
            Allocation::OnDemand => None,
            Allocation::Auto => match (pool(small), pool(script)) {
                (Ok(small_engine), Ok(script_engine)) if leaves_room() => Some(vec![
                    (small_engine, "small", small.cells, Some(small)),
                    (script_engine, "script", script.cells, Some(script)),
                ]),
                (small_engine, script_engine) => {
                    room = Room::Scarce;
                    let error = small_engine.err().or_else(|| script_engine.err()).map_or_else(
                        || "the pools of other hosts in this process use nearly all of it".to_owned(),
                        |error| error.to_string(),
                    );
                    let text = format!(
                        "not enough address space for pools (`ulimit -v`); {} of {cells} cells run at a time, each on demand, which is slower: {error}",
                        admitted(cells, memory)
                    );
                    tracing::warn!("{text}");
                    warning = Some(text);
                    None
                }
            },
        };
        let pools = match pools {
            Some(pools) => pools,
            None => {
                shapes = Some(self::shapes(metering, room, script)?);
                vec![(build(&config(metering, room, None))?, "on-demand", admitted(cells, memory), None)]
            }
        };
        let slots: Vec<_> = pools
            .iter()
            .map(|(_, _, cells, _)| Arc::new(Levels::new(*cells as usize, nested(*cells) as usize)))
            .collect();
        let counted = slots.clone();
        let busy = move || counted.iter().any(|slots| slots.in_use());
        let clock = Clock::start(pools.iter().map(|(engine, ..)| engine.weak()).collect(), busy);
        let clock = Arc::new(clock.map_err(SandboxError::Ticker)?);
        let pools = pools.into_iter().zip(slots).enumerate();
        let pools = pools
            .map(|(at, ((engine, name, cells, shape), slots))| CellEngine {
                engine,
                name,
                at,
                slots,
                cells,
                clock: Arc::clone(&clock),
                template: shape.map(|shape| (metering, shape)),
            })
            .collect();
        Ok(Self { pools, shapes, room, warning })
    }

    /// Smallest first.
    pub(crate) fn smallest_first(&self) -> &[CellEngine] {
        &self.pools
    }
}

/// Returns a text for the engine that a compiled component was compiled for: equal texts are compatible.
pub(crate) fn compatibility(engine: &Engine) -> String {
    struct Hash(blake3::Hasher);
    impl std::hash::Hasher for Hash {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Hash(blake3::Hasher::new());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
    hasher.0.update(env!("CARGO_PKG_VERSION").as_bytes());
    hasher.0.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::component::Component;

    #[test]
    fn what_the_compiler_makes_every_pool_can_load() {
        let compiler = compiler(Metering::Ticks, Room::Plenty).unwrap();
        let compiled = compiler
            .precompile_component(b"(component)")
            .or_else(|_| compiler.precompile_component(&wat::parse_str("(component (core module))").unwrap()));
        let compiled = compiled.unwrap();
        let engines = Engines::new(
            Metering::Ticks,
            Allocation::Auto,
            2,
            64 << 20,
            Residency { resident: 64 << 10, interpreter: INTERPRETER_RESIDENT },
        )
        .unwrap();
        assert_eq!(engines.smallest_first().len(), 2, "{:?}", engines.warning);
        for pool in engines.smallest_first() {
            assert_eq!(compatibility(&compiler), compatibility(pool.wasmtime()));
            // SAFETY: the compiled component was made two lines above by this very version of the engine.
            unsafe { Component::deserialize(pool.wasmtime(), &compiled) }.unwrap();
        }
    }

    #[test]
    fn fuel_makes_another_engine() {
        let ticks = compatibility(&compiler(Metering::Ticks, Room::Plenty).unwrap());
        assert_ne!(ticks, compatibility(&compiler(Metering::Deterministic, Room::Plenty).unwrap()));
    }
}
