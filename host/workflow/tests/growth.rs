//! Work grows with the document and not with its square: documents of n and of 2n parts are compiled and checked, and
//! the second may take little more than twice the work of the first.
//!
//! Work is counted as allocations, and as bytes that were allocated. Both are exact and the same on every machine, which
//! time is not. Names, diagnostics and the comparisons of "did you mean" allocate, so a loop over all parts within a
//! loop over all parts shows; one that only looks does not, and is found by reading.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_ir::{
    checks::{self, Catalog},
    source::SourceFile,
};
use opcell_workflow::{companions::NoCompanions, document};

/// Parts of the smaller document.
const PARTS: usize = 400;

/// More than twice, by what grows in steps: lists and tables double.
const MARGIN: f64 = 2.6;

/// Allocations and bytes of compiling a document, and of checking its names.
fn work(name: &str, text: String, parts: usize) -> (u64, u64, usize) {
    struct Known(usize);
    impl Catalog for Known {
        fn operations(&self) -> Option<Vec<String>> {
            Some((0..self.0).map(|at| format!("known/operation-{at}")).collect())
        }
        fn tools(&self) -> Option<Vec<String>> {
            Some((0..self.0).map(|at| format!("known_tool_{at}")).collect())
        }
    }
    let source = SourceFile::new(name, text);
    let mut found = 0;
    let used = allocation_counter::measure(|| {
        let compiled = document::compile(&source, &NoCompanions);
        found = compiled.diagnostics.len();
        if let Some(ir) = &compiled.ir {
            found += checks::names(ir, &Known(parts)).len();
        }
    });
    (used.count_total, used.bytes_total, found)
}

/// Compiles documents of n and 2n parts, each made by `make`.
fn grows_with_its_parts(name: &str, what: &str, make: impl Fn(usize) -> String) {
    let (count, bytes, found) = work(name, make(PARTS), PARTS);
    let (count_of_two, bytes_of_two, found_of_two) = work(name, make(2 * PARTS), 2 * PARTS);
    assert!(found_of_two >= found, "{what}: {found} and {found_of_two} findings");
    for (unit, one, two) in [("allocations", count, count_of_two), ("bytes", bytes, bytes_of_two)] {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = two as f64 / one as f64;
        assert!(ratio <= MARGIN, "{what}: {one} {unit} for {PARTS} parts, {two} for twice as many ({ratio:.2})");
    }
}

#[test]
fn prompt_packs_are_compiled_and_checked_in_linear_work() {
    use serde_json::json;
    let pack = |parts: usize, tool: &dyn Fn(usize) -> String, variable: &dyn Fn(usize) -> String| {
        let prompts: serde_json::Map<String, serde_json::Value> = (0..parts)
            .map(|at| {
                let prompt = json!({"id": format!("p{at}"), "name": "P", "version": "1.0.0",
                    "system_template": format!("{{{{{}}}}}", variable(at)),
                    "variables": [{"name": format!("variable{at}"), "type": "string", "required": true}],
                    "tools": [tool(at)]});
                (format!("p{at}"), prompt)
            })
            .collect();
        let tools: serde_json::Map<String, serde_json::Value> = (0..parts)
            .map(|at| {
                let parameters = json!({"type": "object", "properties": {}});
                let tool = json!({"name": format!("tool_{at}"), "description": "d", "parameters": parameters});
                (format!("tool_{at}"), tool)
            })
            .collect();
        json!({"id": "p", "name": "P", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
            "prompts": prompts, "tools": tools,
            "workflow": {"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p0"}}}})
        .to_string()
    };
    grows_with_its_parts("p.pack.json", "prompts whose tools are misspelt", |parts| {
        pack(parts, &|at| format!("tol_{at}"), &|at| format!("variable{at}"))
    });
    grows_with_its_parts("p.pack.json", "prompts whose variables are misspelt", |parts| {
        pack(parts, &|at| format!("tool_{at}"), &|at| format!("varaible{at}"))
    });
}
