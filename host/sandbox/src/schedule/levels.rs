//! Permits for cells by their nesting: a cell that waits for a call of its own keeps its permits, so that call takes
//! them from another level, and no two cells can wait for one another.
//!
//! Cells of the deepest level make no calls that need a cell. They end, whatever others do, and so does, level by level,
//! every cell that waits for one.

use super::slots::{Slot, Slots};

/// The most cells that a call may be inside of.
pub const MAX_NESTING: u8 = 3;

/// The permits of each level.
pub(crate) struct Levels(Vec<Slots>);

impl Levels {
    /// `cells` permits for calls of steps and models, and `nested` at each level below.
    pub(crate) fn new(cells: usize, nested: usize) -> Self {
        let below = (0..MAX_NESTING).map(|_| Slots::new(nested));
        Self(std::iter::once(Slots::new(cells)).chain(below).collect())
    }

    /// Takes a permit that is free now.
    pub(crate) fn try_acquire(&self, nesting: u8) -> Option<Slot<'_>> {
        self.0.get(usize::from(nesting))?.try_acquire()
    }

    /// Waits for a permit, first come first served. `None` where the call is nested too deeply.
    pub(crate) async fn acquire(&self, nesting: u8) -> Option<Slot<'_>> {
        self.0.get(usize::from(nesting))?.acquire().await
    }

    /// Returns `true` if a permit is taken.
    pub(crate) fn in_use(&self) -> bool {
        self.0.iter().any(Slots::in_use)
    }

    /// The number of permits that are taken, approximately.
    pub(crate) fn taken_now(&self) -> usize {
        self.0.iter().map(Slots::taken_now).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_permits_of_its_own() {
        let levels = Levels::new(1, 1);
        let taken: Vec<_> = (0..=MAX_NESTING).map(|nesting| levels.try_acquire(nesting)).collect();
        assert!(taken.iter().all(Option::is_some));
        assert_eq!(levels.taken_now(), usize::from(MAX_NESTING) + 1);
        assert!((0..=MAX_NESTING).all(|nesting| levels.try_acquire(nesting).is_none()));
        drop(taken);
        assert!(!levels.in_use());
    }

    #[tokio::test]
    async fn no_level_is_below_the_deepest() {
        assert!(Levels::new(1, 1).acquire(MAX_NESTING + 1).await.is_none());
    }
}
