//! psi's authored workflows: EDN with several steps, Markdown with one.
//!
//! Owns: the psi grammar, its checks in the order in which psi makes them (load, compile, structure, meaning) with its
//! messages, and the defaults that make every output and yielded value explicit. The way through: [`markdown`] turns
//! front matter and body into the same EDN nodes that the reader gives, [`load`] checks the root and brings in prompt
//! workflows, [`step`] and the modules beside it compile nodes to IR, and [`opcell_ir::validate`] checks what they mean
//! together.
//!
//! Must not know: files. Texts that a workflow names (`:prompt-workflow`) come through [`Companions`].
//!
//! Where psi loses what the author wrote, this does better: unknown keys are warnings, front matter scalars have their
//! types, tokens without a binding are errors, and step settings that psi drops at run time are compiled.

mod control;
mod fields;
mod load;
mod markdown;
mod own;
mod report;
mod session;
mod source_spec;
mod step;
mod value;

use crate::companions::Companions;
use opcell_ir::{compiled::Compiled, diagnostic::Severity, ir::WorkflowIr, source::SourceFile, validate};
use report::Report;
use std::sync::Arc;

pub use load::contained_markdown_path;

/// Compiles a workflow of several steps, written in EDN.
#[must_use]
pub fn compile_edn(source: &SourceFile, companions: &dyn Companions) -> Compiled {
    let mut report = Report::default();
    let ir = load::edn(source.text(), companions, &mut report).and_then(|root| step::workflow(&root, &mut report));
    finish(ir, report)
}

/// Compiles a workflow of one step, written in Markdown with front matter.
#[must_use]
pub fn compile_markdown(source: &SourceFile) -> Compiled {
    let mut report = Report::default();
    let ir = markdown::workflow(source.text(), &mut report).and_then(|root| step::workflow(&root, &mut report));
    finish(ir, report)
}

/// Checks what a compiled workflow means, unless its form is already wrong: psi does not either.
fn finish(ir: Option<WorkflowIr>, report: Report) -> Compiled {
    let (mut diagnostics, spans) = report.into_parts();
    let has_errors = |found: &[opcell_ir::Diagnostic]| found.iter().any(|found| found.severity == Severity::Error);
    let ir = ir.filter(|_| !has_errors(&diagnostics));
    if let Some(ir) = &ir {
        let found = validate::validate(ir).into_iter().map(|diagnostic| spans.locate(diagnostic));
        // What the compiler said of a place, with better help, is not said again.
        let reported: Vec<_> = diagnostics
            .iter()
            .map(|reported| (reported.code, reported.path.clone(), reported.message.clone()))
            .collect();
        let is_new = |found: &opcell_ir::Diagnostic| {
            !reported
                .iter()
                .any(|(code, path, message)| (*code, path, message) == (found.code, &found.path, &found.message))
        };
        diagnostics.extend(found.filter(is_new));
    }
    let ir = ir.filter(|_| !has_errors(&diagnostics)).map(Arc::new);
    Compiled { ir, spans, diagnostics }
}

#[cfg(test)]
mod tests;
