//! Linear memory and tables of a cell: one aggregate limit each, over all memories and tables of all its core
//! instances.

use crate::limits::Limits;
use wasmtime::{Error, ResourceLimiter, Result};

/// Counts what the cell has, what it had at most, and what it was refused.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: usize,
    table_limit: usize,
    used: usize,
    table_used: usize,
    /// The growth that was allowed last, given back when it fails elsewhere.
    pending: usize,
    table_pending: usize,
    pub(crate) peak: usize,
    /// Growths that were refused; a guest may swallow the `-1` and the receipt still has it.
    pub(crate) refused: u32,
    pub(crate) tables_refused: u32,
}

impl Memory {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            limit: usize::try_from(limits.memory).unwrap_or(usize::MAX),
            table_limit: usize::try_from(limits.table_elements).unwrap_or(usize::MAX),
            used: 0,
            table_used: 0,
            pending: 0,
            table_pending: 0,
            peak: 0,
            refused: 0,
            tables_refused: 0,
        }
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let growth = desired.saturating_sub(current);
        let wanted = self.used.saturating_add(growth);
        if wanted > self.limit || maximum.is_some_and(|maximum| desired > maximum) {
            self.refused += 1;
            self.pending = 0;
            return Ok(false);
        }
        (self.used, self.pending) = (wanted, growth);
        self.peak = self.peak.max(wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.used -= self.pending;
        self.pending = 0;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let growth = desired.saturating_sub(current);
        let wanted = self.table_used.saturating_add(growth);
        if wanted > self.table_limit || maximum.is_some_and(|maximum| desired > maximum) {
            self.tables_refused += 1;
            self.table_pending = 0;
            return Ok(false);
        }
        (self.table_used, self.table_pending) = (wanted, growth);
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: Error) -> Result<()> {
        self.table_used -= self.table_pending;
        self.table_pending = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(limit: u64) -> Memory {
        Memory::new(&Limits { memory: limit, ..Limits::default() })
    }

    #[test]
    fn the_limit_is_over_all_memories_together() {
        let mut memory = memory(100);
        assert!(memory.memory_growing(0, 60, None).unwrap());
        assert!(!memory.memory_growing(0, 60, None).unwrap());
        assert!(memory.memory_growing(0, 40, None).unwrap());
        assert_eq!((memory.peak, memory.refused), (100, 1));
    }

    #[test]
    fn a_growth_that_failed_elsewhere_is_given_back() {
        let mut memory = memory(100);
        assert!(memory.memory_growing(0, 60, None).unwrap());
        memory.memory_grow_failed(Error::msg("no memory")).unwrap();
        assert!(memory.memory_growing(0, 100, None).unwrap());
    }

    #[test]
    fn a_refused_growth_gives_nothing_back_when_the_engine_reports_it_as_failed() {
        let mut memory = memory(100);
        assert!(memory.memory_growing(0, 60, None).unwrap());
        assert!(!memory.memory_growing(60, 200, None).unwrap());
        memory.memory_grow_failed(Error::msg("refused")).unwrap();
        assert!(!memory.memory_growing(60, 101, None).unwrap());
    }
}
