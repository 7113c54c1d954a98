//! Waiting for a cell: how many calls of one plugin run, how many more may wait, and how long one has waited.

use crate::{
    engine::CellEngine,
    error::CellError,
    limits::Limits,
    slots::{Slot, Slots},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The calls of one plugin.
pub(crate) struct Queue {
    cells: Slots,
    waiting: AtomicU64,
    most: u64,
}

/// The right to run a cell; given back when it is dropped.
pub(crate) type Turn<'a> = (Option<Slot<'a>>, Option<Slot<'a>>);

/// How long one call has waited. A call that finds a free cell never looks at the clock.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    since: Option<Instant>,
    took: Duration,
}

impl Wait {
    /// Whether the call has not begun yet.
    pub(crate) fn goes_on(&self) -> bool {
        self.since.is_some()
    }

    /// So far, or in the end.
    pub(crate) fn length(&self) -> Duration {
        self.since.map_or(self.took, |since| since.elapsed())
    }

    fn end(&mut self) {
        self.took = self.length();
        self.since = None;
    }
}

/// One more call that waits, until this is dropped.
struct Place<'a>(&'a AtomicU64);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            cells: Slots::new(usize::try_from(limits.concurrent_cells).unwrap_or(usize::MAX)),
            waiting: AtomicU64::new(0),
            most: limits.waiting_cells,
        }
    }

    /// Waits for a cell of the plugin, and for a slot of the engine.
    ///
    /// # Errors
    /// [`CellError::Busy`] when as many calls wait as may.
    pub(crate) async fn enter<'a>(&'a self, engine: &'a CellEngine, wait: &mut Wait) -> Result<Turn<'a>, CellError> {
        if let Some(cell) = self.cells.free()
            && let Some(slot) = engine.free_slot()
        {
            return Ok((Some(cell), Some(slot)));
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _place = Place(&self.waiting);
        if before >= self.most {
            let message = format!("{} calls wait already (limit `waiting-cells`)", self.most);
            return Err(CellError::Busy { message });
        }
        wait.since = Some(Instant::now());
        let turn = (self.cells.wait().await, engine.slot().await);
        wait.end();
        Ok(turn)
    }
}
