//! The part of one sandbox in pools that several share: how many of its cells run at once, and its turn at slots that
//! become free.
//!
//! The slots of an engine are given to waiters first come, first served. Sandboxes would then share them by the number
//! of calls that each makes. So of each sandbox only one call waits for a slot, and the next one of it lines up behind
//! the other sandboxes when that call has its slot: those that wait are served one after another, whatever each has
//! waiting. Each pool and each level of nested calls has a line of its own, because a call may hold its place in one
//! until a call of another ends.

use super::{
    levels::{Levels, MAX_NESTING},
    slots::Slot,
};
use crate::engine::{CellEngine, PoolUse};
use tokio::sync::Semaphore;

/// The permits of one cell: of its sandbox, and of the engine.
type Permits<'a, Engine> = (Option<Slot<'a>>, Engine);

pub(crate) struct Allotment {
    cells: Levels,
    most: u32,
    /// The place in the line of each level of each pool.
    turns: Vec<Semaphore>,
}

impl Allotment {
    /// At most `cells` at once, in all of `pools` pools together.
    pub(crate) fn new(cells: u32, pools: usize) -> Self {
        let turns = (0..pools * LEVELS).map(|_| Semaphore::new(1)).collect();
        Self { cells: Levels::new(cells as usize, cells as usize), most: cells, turns }
    }

    /// Takes permits that are free now, unless another call of the sandbox waits for one.
    pub(crate) fn try_acquire<'a>(&'a self, engine: &'a CellEngine, nesting: u8) -> Option<Permits<'a, Slot<'a>>> {
        if self.turn(engine, nesting)?.available_permits() == 0 {
            return None;
        }
        Some((Some(self.cells.try_acquire(nesting)?), engine.free_slot(nesting)?))
    }

    /// Waits for a permit of the sandbox, then for its turn, then for a slot.
    pub(crate) async fn acquire<'a>(&'a self, engine: &'a CellEngine, nesting: u8) -> Permits<'a, Option<Slot<'a>>> {
        let cell = self.cells.acquire(nesting).await;
        let _turn = match self.turn(engine, nesting) {
            Some(turn) => turn.acquire().await.ok(),
            None => None,
        };
        (cell, engine.slot(nesting).await)
    }

    fn turn(&self, engine: &CellEngine, nesting: u8) -> Option<&Semaphore> {
        self.turns.get(engine.at() * LEVELS + usize::from(nesting))
    }

    /// Returns the number of its cells, and of those that are in use.
    pub(crate) fn in_use(&self) -> PoolUse {
        let busy = u32::try_from(self.cells.taken_now()).unwrap_or(u32::MAX);
        PoolUse { pool: "shared", cells: self.most, busy: busy.min(self.most) }
    }
}

/// Levels of calls: those of steps and models, and those inside of cells.
const LEVELS: usize = MAX_NESTING as usize + 1;
