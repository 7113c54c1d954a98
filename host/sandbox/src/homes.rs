//! One plugin on several engines.
//!
//! A cell counts up and down what it shares with the other cells of its engine: the engine itself, its pool, the code of
//! the plugin. Two processors that do so for the same engine spend more time on handing those counters to each other
//! than on the cells. A plugin that is called by several threads is therefore linked once more for each of them, with
//! an engine that no other thread uses. It is the same code with the same grants, limits and queue; where it runs says
//! nothing about what it may do.

use crate::{ahead::Ahead, describe::OperationSchemas, plugin::Linked, sandbox::Pool, slots};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// So often must a thread have called after another one before it gets an engine of its own.
const TAKES_TURNS: u32 = 64;

/// What a cell needs of its plugin, shared with the cells of one engine only.
pub(crate) struct Home {
    pub(crate) linked: Arc<Linked>,
    /// The plugin's operations, in its order.
    pub(crate) operations: Vec<Arc<Operation>>,
    /// Its instances that are made ahead, if they may be.
    pub(crate) ahead: Option<Arc<Ahead>>,
}

/// What a call of one operation needs.
pub(crate) struct Operation {
    pub(crate) id: Arc<str>,
    pub(crate) schemas: OperationSchemas,
}

/// A home for the calls of each thread.
pub(crate) struct Homes {
    first: Home,
    others: Box<[Other]>,
    /// Whose calls came last, of those that share the first.
    last: AtomicUsize,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Other {
    home: OnceLock<Home>,
    /// How often its calls came after those of another.
    turns: AtomicU32,
}

impl Home {
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
        Self { ahead: Ahead::of(&linked), linked, operations: operations.map(own).collect() }
    }
}

impl Homes {
    pub(crate) fn new(first: Home, pool: Arc<Pool>) -> Arc<Self> {
        let others = if first.linked.typed.is_some() { 0 } else { pool.engine.twins().saturating_sub(1) };
        let others = (0..others).map(|_| Other::default()).collect();
        Arc::new(Self { first, others, last: AtomicUsize::new(0), pool })
    }

    /// The home that is always there.
    pub(crate) fn first(&self) -> &Home {
        &self.first
    }

    /// The home of this thread's calls.
    pub(crate) fn here(self: &Arc<Self>) -> &Home {
        if self.others.is_empty() {
            return &self.first;
        }
        let at = slots::home(self.others.len() + 1);
        let other = at.checked_sub(1).and_then(|at| self.others.get(at));
        if let Some(home) = other.and_then(|other| other.home.get()) {
            return home;
        }
        if self.last.load(Relaxed) != at {
            self.last.store(at, Relaxed);
            if other.is_some_and(|other| other.turns.fetch_add(1, Relaxed) + 1 == TAKES_TURNS) {
                self.furnish(at);
            }
        }
        &self.first
    }

    /// Makes a home, apart from the calls; until then, and where it cannot be made, they share the first.
    fn furnish(self: &Arc<Self>, at: usize) {
        let homes = Arc::downgrade(self);
        let make = move || {
            let Some(homes) = homes.upgrade() else { return };
            let first = &homes.first;
            let twin = homes.pool.twin(at).and_then(|pool| first.linked.on(&pool));
            let Some(linked) = twin else {
                tracing::debug!(plugin = &*first.linked.name, "no engine of its own for one more thread");
                return;
            };
            let operations = first.operations.iter().map(|operation| (&*operation.id, &operation.schemas));
            if let Some(other) = at.checked_sub(1).and_then(|at| homes.others.get(at)) {
                let _ = other.home.set(Home::new(Arc::new(linked), operations));
            }
        };
        let named = thread::Builder::new().name("opcell-homes".to_owned()).spawn(make);
        if let Err(error) = named {
            tracing::debug!(%error, "no thread to link a plugin once more");
        }
    }

    /// How many calls have found an instance that was made ahead.
    pub(crate) fn taken(&self) -> u64 {
        let others = self.others.iter().filter_map(|other| other.home.get());
        others.chain([&self.first]).filter_map(|home| home.ahead.as_ref()).map(|ahead| ahead.taken()).sum()
    }

    /// How many homes there are by now.
    pub(crate) fn furnished(&self) -> usize {
        1 + self.others.iter().filter(|other| other.home.get().is_some()).count()
    }
}
