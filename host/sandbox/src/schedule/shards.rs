//! One plugin on several engines, one for each thread that calls it.
//!
//! A cell takes references to what it shares with the other cells of its engine: the engine itself, its pool, the code
//! of the plugin. Two processors that do so for the same engine spend more time on exchanging the cache lines of these
//! reference counts than on the cells. A plugin that several threads call is therefore linked again for each of them,
//! with an engine that no other thread uses. The code, grants, limits and queue are the same; the shard that a cell
//! runs on changes nothing about its permissions.

use super::slots;
use crate::{describe::OperationSchemas, plugin::Linked, pools::Pool};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// Alternating calls before a thread gets an engine of its own.
const ALTERNATIONS_BEFORE_SHARD: u32 = 64;

/// The most native code that is loaded once more for each thread, in bytes: that of an interpreter for JavaScript has 5 MB,
/// and that of Python 80. A cell of the larger one takes so long that what threads share is no matter.
const MAX_REPLICATED_CODE: usize = 16 << 20;

/// The parts of a plugin that its cells share, for one engine.
pub(crate) struct EngineShard {
    pub(crate) linked: Arc<Linked>,
    /// The plugin's operations, in its order.
    pub(crate) operations: Vec<Arc<Operation>>,
}

/// The parts of an operation that its calls need.
pub(crate) struct Operation {
    pub(crate) id: Arc<str>,
    pub(crate) schemas: OperationSchemas,
}

/// The shards of one plugin.
pub(crate) struct EngineShards {
    first: EngineShard,
    replicas: Box<[Replica]>,
    /// The thread that called last, among those that share the first shard.
    last_caller: AtomicUsize,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Replica {
    shard: OnceLock<EngineShard>,
    /// Calls of its thread that followed a call of another thread.
    alternations: AtomicU32,
}

impl EngineShard {
    pub(crate) fn new<'a>(
        linked: Arc<Linked>,
        operations: impl Iterator<Item = (&'a str, &'a OperationSchemas)>,
    ) -> Self {
        let own = |(id, schemas): (&str, &OperationSchemas)| {
            Arc::new(Operation {
                id: id.into(),
                schemas: OperationSchemas {
                    arguments: Arc::clone(&schemas.arguments),
                    data: Arc::clone(&schemas.data),
                },
            })
        };
        Self { linked, operations: operations.map(own).collect() }
    }
}

impl EngineShards {
    pub(crate) fn new(first: EngineShard, pool: Arc<Pool>) -> Arc<Self> {
        let code = first.linked.code.component.image_range();
        let code_bytes = code.end.addr().saturating_sub(code.start.addr());
        let replicas = match first.linked.typed.is_some() || code_bytes > MAX_REPLICATED_CODE {
            true => 0,
            false => pool.engine.max_shards().saturating_sub(1),
        };
        let replicas = (0..replicas).map(|_| Replica::default()).collect();
        Arc::new(Self { first, replicas, last_caller: AtomicUsize::new(0), pool })
    }

    /// The shard that every plugin has.
    pub(crate) fn first(&self) -> &EngineShard {
        &self.first
    }

    /// The shard for calls from this thread.
    pub(crate) fn current(self: &Arc<Self>) -> &EngineShard {
        if self.replicas.is_empty() {
            return &self.first;
        }
        let at = slots::own_shard(self.replicas.len() + 1);
        let replica = at.checked_sub(1).and_then(|at| self.replicas.get(at));
        if let Some(shard) = replica.and_then(|replica| replica.shard.get()) {
            return shard;
        }
        if self.last_caller.load(Relaxed) != at {
            self.last_caller.store(at, Relaxed);
            let alternated = |replica: &Replica| replica.alternations.fetch_add(1, Relaxed) + 1;
            if replica.is_some_and(|replica| alternated(replica) == ALTERNATIONS_BEFORE_SHARD) {
                self.spawn_shard(at);
            }
        }
        &self.first
    }

    /// Makes a shard on a thread of its own. Until it is ready, and where it cannot be made, calls share the first.
    fn spawn_shard(self: &Arc<Self>, at: usize) {
        let shards = Arc::downgrade(self);
        let make = move || {
            let Some(shards) = shards.upgrade() else { return };
            let first = &shards.first;
            let Some(linked) = shards.pool.replica(at).and_then(|pool| first.linked.on(&pool)) else {
                tracing::debug!(plugin = &*first.linked.name, "no room for an engine of this thread");
                return;
            };
            let operations = first.operations.iter().map(|operation| (&*operation.id, &operation.schemas));
            if let Some(replica) = at.checked_sub(1).and_then(|at| shards.replicas.get(at)) {
                let _ = replica.shard.set(EngineShard::new(Arc::new(linked), operations));
            }
        };
        let named = thread::Builder::new().name("opcell-shard".to_owned()).spawn(make);
        if let Err(error) = named {
            tracing::debug!(%error, "no thread to link a plugin for this thread");
        }
    }

    /// The number of shards that exist.
    pub(crate) fn count(&self) -> usize {
        1 + self.replicas.iter().filter(|replica| replica.shard.get().is_some()).count()
    }
}
