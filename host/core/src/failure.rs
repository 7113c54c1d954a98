//! Why an effect did not succeed, and what repeating one would do.

pub use opcell_types::{Effects, Failure, FailureKind, Fault, Source};
