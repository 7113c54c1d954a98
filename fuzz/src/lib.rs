//! What must be true of every document, whatever its text.

use opcell_ir::{Compiled, SourceFile, WorkflowIr};
use opcell_workflow::{document, companions::NoCompanions};

/// Compiles `text` as the document `name`: it must not panic, every finding must point into the text, a document
/// without an error must have an execution model, and that model must be the same after it was written and read.
///
/// # Panics
/// When one of them is not true.
pub fn document(name: &str, text: &str) {
    let source = SourceFile::new(name, text);
    let Compiled { ir, diagnostics, .. } = document::compile(&source, &NoCompanions);
    for finding in &diagnostics {
        let places = finding.span.iter().chain(finding.related.iter().map(|(span, _)| span));
        for span in places {
            assert!(text.get(span.start..span.end).is_some(), "{span:?} is not in the text: {finding:?}");
        }
    }
    let Some(ir) = ir else {
        assert!(!diagnostics.is_empty(), "refused without a reason");
        return;
    };
    let written = serde_json::to_string(&*ir).expect("an execution model can be written");
    let read: WorkflowIr = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(read, *ir, "changed by writing and reading");
}
