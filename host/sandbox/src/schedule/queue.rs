//! Admission of calls: how many of one plugin run, how many more may wait, and how long each has waited.

use crate::{
    engine::CellEngine,
    error::CellError,
    limits::Limits,
    schedule::{
        allotment::Allotment,
        levels::{Levels, MAX_NESTING},
        slots::Slot,
    },
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The calls of one plugin.
pub(crate) struct Queue {
    cells: Levels,
    waiting: AtomicU64,
    most: u64,
}

/// The permits of one cell: of its plugin, of its sandbox where that shares an engine, and of the engine. Returned when
/// they are dropped.
#[derive(Default)]
pub(crate) struct CellPermits<'a> {
    _plugin: Option<Slot<'a>>,
    _sandbox: Option<Slot<'a>>,
    _engine: Option<Slot<'a>>,
}

/// The waiting time of one call. A call that finds a free cell never reads the clock.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    since: Option<Instant>,
    took: Duration,
}

impl Wait {
    /// Returns `true` if the call is still waiting.
    pub(crate) fn is_waiting(&self) -> bool {
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

/// A registered waiting call; dropping it ends the registration.
struct Waiter<'a>(&'a AtomicU64);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Queue {
    pub(crate) fn new(limits: &Limits) -> Self {
        let cells = usize::try_from(limits.concurrent_cells).unwrap_or(usize::MAX);
        Self { cells: Levels::new(cells, cells), waiting: AtomicU64::new(0), most: limits.waiting_cells }
    }

    /// Waits for a cell of the plugin, for one of its sandbox's `allotment`, and for a slot of the engine. All calls take
    /// them in this order, so that no two wait for one another.
    ///
    /// # Errors
    /// [`CellError::Busy`] when the queue is full, [`CellError::HostError`] when the call is nested too deeply.
    pub(crate) async fn enter<'a>(
        &'a self,
        allotment: Option<&'a Allotment>,
        engine: &'a CellEngine,
        nesting: u8,
        wait: &mut Wait,
    ) -> Result<CellPermits<'a>, CellError> {
        if nesting > MAX_NESTING {
            let message = format!("the call is inside of {nesting} cells, more than {MAX_NESTING}");
            return Err(CellError::HostError { message });
        }
        let free = || match allotment {
            Some(allotment) => allotment.try_acquire(engine, nesting),
            None => Some((None, engine.free_slot(nesting)?)),
        };
        if let Some(plugin) = self.cells.try_acquire(nesting)
            && let Some((sandbox, engine)) = free()
        {
            return Ok(CellPermits { _plugin: Some(plugin), _sandbox: sandbox, _engine: Some(engine) });
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        if before >= self.most {
            let message = format!("{} calls wait already (limit `waiting-cells`)", self.most);
            return Err(CellError::Busy { message });
        }
        wait.since = Some(Instant::now());
        let plugin = self.cells.acquire(nesting).await;
        let (sandbox, engine) = match allotment {
            Some(allotment) => allotment.acquire(engine, nesting).await,
            None => (None, engine.slot(nesting).await),
        };
        wait.end();
        Ok(CellPermits { _plugin: plugin, _sandbox: sandbox, _engine: engine })
    }
}
