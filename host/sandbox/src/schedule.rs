//! Scheduling of calls: which thread a cell runs on, when it runs, and what interrupts it.
//!
//! A call passes through here in this order. [`shards`] picks the engine: one per calling thread, so that threads share
//! no reference counts. [`fair`] decides where the cell begins: on the caller's thread, or among the workers if its
//! plugin has recently used more than its part and [`contention`] has seen something wait. [`queue`] admits it: at most
//! this many cells of the plugin at once, and of the engine, each a permit of [`slots`], at the [level](levels) of the
//! call; more calls wait, up to a limit, and the rest fail with `busy`. Of sandboxes that share an engine, [`allotment`]
//! bounds the cells of each and lets them wait one after another. While it runs, [`ticker`] interrupts it once per
//! slice; a cell that outlives its first slice continues among the workers, one slice at a time, the plugin that has
//! used least first.

pub(crate) mod allotment;
mod contention;
pub(crate) mod fair;
pub(crate) mod levels;
pub(crate) mod queue;
pub(crate) mod shards;
pub(crate) mod slots;
pub(crate) mod ticker;
