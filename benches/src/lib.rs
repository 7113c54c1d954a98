//! What the benchmarks share. They measure; no test asserts on what they print.
