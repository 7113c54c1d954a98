//! The work that the benchmarks share. They measure; no test asserts on what they print.

pub mod data;
pub mod hot;
pub mod session;
pub mod targets;
pub mod work;
