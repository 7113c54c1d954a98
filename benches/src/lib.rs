//! The work that the benchmarks share. They measure; no test asserts on what they print.

pub mod client;
pub mod data;
#[cfg(feature = "cells")]
pub mod growth;
pub mod hot;
pub mod served;
pub mod session;
pub mod targets;
pub mod work;
