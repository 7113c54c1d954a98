//! The result of every compiler of a document.

use crate::{diagnostic::Diagnostic, ir::WorkflowIr, source::SourceMap};
use std::sync::Arc;

/// A compiled document.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The workflow; none where a diagnostic is an error.
    pub ir: Option<Arc<WorkflowIr>>,
    /// The places of its parts in the document.
    pub spans: SourceMap,
    /// The findings, in the document's order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Compiled {
    /// Returns `true` if the document runs.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ir.is_some()
    }

    /// Returns `true` if the document runs when its warnings count as errors.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_ok() && self.diagnostics.is_empty()
    }
}
