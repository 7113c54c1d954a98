//! Workers that run jobs in parallel, for crates that start no thread themselves: the shell lends it to them.
//!
//! Without it, jobs run one after the other, and work that needs a deep stack is refused.

use std::sync::OnceLock;

/// A way to run jobs at the same time, and work on a deep stack.
pub trait Workers: Sync {
    /// The number of jobs that can run at a time.
    fn parallelism(&self) -> usize;

    /// Runs every job once, and returns when all of them have ended.
    fn run(&self, jobs: &[&(dyn Fn() + Sync)]);

    /// Runs work on a stack of this many bytes.
    ///
    /// # Errors
    /// When there is no such stack, or the work panics.
    fn with_stack(&self, bytes: usize, work: &mut (dyn FnMut() + Send)) -> Result<(), String>;
}

static LENT: OnceLock<&'static dyn Workers> = OnceLock::new();

/// Lends workers to the whole process; the first ones stay.
pub fn lend(workers: &'static dyn Workers) {
    let _ = LENT.set(workers);
}

/// The workers that were lent, if any.
#[must_use]
pub fn lent() -> Option<&'static dyn Workers> {
    LENT.get().copied()
}
