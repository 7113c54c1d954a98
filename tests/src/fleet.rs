//! Many workers on one journal, and everything that can happen to them.
//!
//! A campaign starts a PostgreSQL server on a scratch folder and three processes of the real `opcell worker`, and gives
//! them runs of all three languages, whose steps have effects of every kind: real cells that report to a recorder
//! outside. In each round one thing goes wrong: a worker is killed, or stopped for longer than its lease; its
//! connections are cut, or hang; its network loses everything, or what goes in one direction; the server restarts in
//! order or as after a power failure; a worker's clock jumps.
//! Afterwards every run must have ended as an undisturbed one does, each `once` effect must have happened at most once,
//! each `idempotent` one under one key, and what the journal once showed must still be there.
//!
//! With `--restate`, a Restate server gives the workers their turns, and is killed as well.
//!
//! In: how many rounds. Out: every difference, in words.

mod balancer;
pub mod campaign;
mod checks;
mod clock;
pub mod network;
mod proxy;
mod recorder;
mod workers;
mod world;
