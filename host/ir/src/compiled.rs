//! What every compiler of a document returns.

use crate::{diagnostic::Diagnostic, ir::WorkflowIr, source::SourceMap};
use std::sync::Arc;

/// A compiled document.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The workflow; none where a diagnostic is an error.
    pub ir: Option<Arc<WorkflowIr>>,
    /// Where its parts stand in the document.
    pub spans: SourceMap,
    /// What was found, in the document's order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Compiled {
    /// Whether the document runs.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ir.is_some()
    }

    /// Whether the document runs when its warnings count as errors.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_ok() && self.diagnostics.is_empty()
    }
}
