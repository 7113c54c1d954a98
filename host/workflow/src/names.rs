//! Names that documents use.

pub use opcell_types::{OperationId, Outcome, StepName, names::InvalidOperationId};
