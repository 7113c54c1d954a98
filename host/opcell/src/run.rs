//! Workflows that are ready to run, and runs that are under way.

use crate::{
    document::{self, Document},
    report::Rejected,
};
use opcell_engine::{
    program::{Program, ProgramError},
    receipt::{CallReceipt, Receipt, is_of_call},
};
use opcell_ir::{Diagnostic, WorkflowIr};
use opcell_sandbox::Receipt as CellReceipt;
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

pub use opcell_types::run_id::{InvalidRunId, NEWEST, NewRunId};

/// A compiled workflow.
#[derive(Debug, Clone)]
pub struct Workflow {
    ir: Arc<WorkflowIr>,
    document: Option<Arc<Document>>,
    /// Made by the first start and shared by all later ones.
    program: Arc<OnceLock<Result<Arc<Program>, ProgramError>>>,
}

impl Workflow {
    /// A workflow that the same document brings along.
    pub(crate) fn with_ir(&self, ir: Arc<WorkflowIr>) -> Self {
        Self { ir, document: self.document.clone(), program: Arc::default() }
    }

    /// Reads and compiles a document; the file name extension selects the language.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let workflow = Workflow::load("workflows/greet.edn")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Every error of the document, with its place. Warnings are in [`Workflow::warnings`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Rejected> {
        Self::of(document::read(path.as_ref())?)
    }

    /// Compiles a text; `name` decides the language as a file's name would, and is what findings call it.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = r#"{:name "w" :description "d" :steps [{:name "e" :type :exit :status :success :output 1}]}"#;
    /// let workflow = Workflow::compile("w.edn", text)?;
    /// assert_eq!(workflow.step_names().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Workflow::load`].
    pub fn compile(name: &str, text: impl Into<String>) -> Result<Self, Rejected> {
        Self::of(document::compile(Path::new(name), text.into()))
    }

    /// A document that was read and compiled already.
    ///
    /// # Errors
    /// As [`Workflow::load`].
    pub fn of(document: Document) -> Result<Self, Rejected> {
        match (document.rejection(false), &document.ir) {
            (None, Some(ir)) => {
                Ok(Self { ir: ir.clone(), document: Some(Arc::new(document)), program: Arc::default() })
            }
            _ => Err(Rejected::in_source(document.source, document.diagnostics)),
        }
    }

    /// A workflow that is already in the execution model.
    #[must_use]
    pub fn from_ir(ir: Arc<WorkflowIr>) -> Self {
        Self { ir, document: None, program: Arc::default() }
    }

    /// The execution model.
    #[must_use]
    pub fn ir(&self) -> &Arc<WorkflowIr> {
        &self.ir
    }

    /// The program that runs execute.
    ///
    /// # Errors
    /// See [`Program::new`].
    pub(crate) fn program(&self) -> Result<Arc<Program>, ProgramError> {
        self.program.get_or_init(|| Program::new(self.ir.clone())).clone()
    }

    /// The document that it was compiled from, if any.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.document.as_deref()
    }

    /// Points a finding about the execution model into the document.
    #[must_use]
    pub fn locate(&self, finding: Diagnostic) -> Diagnostic {
        match &self.document {
            Some(document) => document.spans.locate(finding),
            None => finding,
        }
    }

    pub(crate) fn reject(&self, diagnostics: Vec<Diagnostic>) -> Rejected {
        Rejected { source: self.document.as_ref().map(|document| document.source.clone()), diagnostics }
    }

    /// The same workflow, entered at another step; `None` when it has no such step.
    #[must_use]
    pub fn entered_at(&self, step: &str) -> Option<Self> {
        self.ir.step(step)?;
        let ir = WorkflowIr { entry: Some(step.into()), ..self.ir.as_ref().clone() };
        Some(Self { ir: Arc::new(ir), document: self.document.clone(), program: Arc::default() })
    }

    /// One prompt of the PromptPack that this workflow was compiled from, asked by itself, whatever else the pack has.
    ///
    /// # Errors
    /// When the workflow is of another language, or the pack has no such prompt.
    pub fn prompt(&self, key: &str) -> Result<Self, Rejected> {
        match &self.document {
            Some(document) => Self::of(document::compile_prompt(document, key)),
            None => {
                let message = format!("`{}` has no document with prompts to choose from", self.ir.name);
                Err(self.reject(vec![Diagnostic::error("not-a-pack", message)]))
            }
        }
    }

    /// One prompt of the PromptPack in a file, asked by itself. Other prompts of the pack may be refused.
    ///
    /// # Errors
    /// As [`Workflow::load`]; when the document is of another language, or the pack has no such prompt.
    pub fn load_prompt(path: impl AsRef<Path>, key: &str) -> Result<Self, Rejected> {
        Self::of(document::compile_prompt(&document::read(path.as_ref())?, key))
    }

    /// The names of its steps, in authored order.
    #[must_use]
    pub fn step_names(&self) -> Vec<Arc<str>> {
        self.ir.steps.iter().map(|step| step.name.clone()).collect()
    }

    /// Returns the warnings about the document.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        self.document.as_ref().map_or(&[], |document| &document.diagnostics)
    }
}

mod handle;

pub use handle::{NotEnded, Outcome, ResumedRun, Run, RunRef};

/// A receipt with its fields as types.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TypedReceipt {
    /// The receipt of a cell.
    Cell(Box<CellReceipt>),
    /// The receipt of a tool of the host, of an MCP server or of a call that was stopped; a cell that performed the tool has its
    /// own in [`CallReceipt::receipt`].
    Call(Box<CallReceipt>),
}

impl TypedReceipt {
    /// Reads a receipt with its fields as types.
    ///
    /// ```
    /// # use opcell::{TypedReceipt, prelude::*};
    /// # fn example(recorded: &Recorded) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(receipt) = recorded.event.receipt()
    ///     && let TypedReceipt::Cell(cell) = TypedReceipt::of(receipt)?
    /// {
    ///     println!("{} ticks, {} bytes", cell.ticks, cell.peak_memory);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a host of another version wrote it, whose receipts had other fields.
    pub fn of(receipt: &Receipt) -> Result<Self, serde_json::Error> {
        Ok(match is_of_call(receipt) {
            true => Self::Call(Box::new(receipt.to()?)),
            false => Self::Cell(Box::new(receipt.to()?)),
        })
    }
}

/// Returns the reason why a workflow does not take an input, if it has an input schema that says so. A run that is
/// started with it fails before its first step.
#[must_use]
pub fn refusal(workflow: &Workflow, input: &opcell_types::Value) -> Option<String> {
    workflow.program().ok()?.refuses(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_engine::receipt::{CallStatus, Provider};
    use opcell_types::Value;
    use std::time::Duration;

    #[test]
    fn the_receipt_of_a_call_is_read_with_its_types() {
        let arguments = Value::object([("url", Value::from("https://example.org"))]);
        let call = CallReceipt::of_tool("fetch", Some(Provider::Mcp("web".into())), &arguments);
        let written = call.ended(Duration::from_millis(3), Ok(7), None).to_receipt().unwrap();
        let TypedReceipt::Call(read) = TypedReceipt::of(&written).unwrap() else { panic!("{written:?}") };
        assert_eq!((read.status, read.bytes_out, read.duration_us), (CallStatus::Completed, 7, 3_000));
        assert_eq!(read.provider, Some(Provider::Mcp("web".into())));
        assert_eq!(read.to_receipt(), Some(written));
    }

    #[test]
    fn a_receipt_of_another_version_is_an_error() {
        let unknown = Receipt::from(Value::object([("plugin", Value::from("p"))]));
        assert!(TypedReceipt::of(&unknown).is_err());
    }
}
