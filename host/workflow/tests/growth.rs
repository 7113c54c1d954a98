//! Work grows with the document and not with its square: documents of n and of 2n parts are compiled and checked, and
//! the second may take little more than twice the work of the first.
//!
//! Work is counted as allocations, and as bytes that were allocated. Both are exact and the same on every machine,
//! which time is not. Names, diagnostics and the comparisons of "did you mean" allocate, so a loop over all parts
//! within a loop over all parts shows; one that only looks does not, and is found by reading.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_ir::{
    checks::{self, Catalog},
    source::SourceFile,
};
use opcell_workflow::{companions::NoCompanions, document};
use std::fmt::Write as _;

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

fn joined(parts: usize, part: impl Fn(usize) -> String) -> String {
    (0..parts).fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "{}", part(at));
        text
    })
}

fn psi(steps: &str) -> String {
    format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}")
}

#[test]
fn psi_documents_are_compiled_and_checked_in_linear_work() {
    let step = |at: usize, more: &str| {
        format!(r#"{{:name "step-{at}" :type :invoke :operation "known/operation-x{at}" {more}}}"#)
    };
    grows_with_its_parts("w.edn", "steps whose operations are misspelt", |parts| {
        psi(&joined(parts, |at| step(at, ":args {}")))
    });
    grows_with_its_parts("w.edn", "references to steps that are misspelt", |parts| {
        psi(&joined(parts, |at| step(at, &format!(r#":args {{:a {{:from {{:step "setp-{at}" :output :data}}}}}}"#))))
    });
    grows_with_its_parts("w.edn", "references to the first step", |parts| {
        psi(&joined(parts, |at| step(at, r#":args {:a {:from {:step "step-0" :output :data}}}"#)))
    });
    grows_with_its_parts("w.edn", "routes to steps that are misspelt", |parts| {
        psi(&joined(parts, |at| {
            let judge = r#":judge {:type :invoke :operation "known/operation-1" :args {}}"#;
            step(at, &format!(r#":args {{}} {judge} :on {{"A" {{:goto "setp-{at}" :max-iterations 3}}}}"#))
        }))
    });
    grows_with_its_parts("w.edn", "outputs that are misspelt", |parts| {
        let outputs = joined(parts, |at| format!(r#":output-{at} {{:source :invoke/data}}"#));
        let args = joined(parts, |at| format!(r#":a{at} {{:from {{:step "first" :output :otput-{at}}}}}"#));
        psi(&format!(
            r#"{{:name "first" :type :invoke :operation "a/b" :args {{}} :outputs {{{outputs}}}}}
               {{:name "second" :type :invoke :operation "a/b" :args {{{args}}}}}"#
        ))
    });
    grows_with_its_parts("w.edn", "keys that no step has", |parts| {
        psi(&step(0, &format!(":args {{}} {}", joined(parts, |at| format!(":operatoin-{at} 1")))))
    });
    grows_with_its_parts("w.edn", "steps of one name", |parts| psi(&joined(parts, |_| step(7, ":args {}"))));
}

#[test]
fn workflow_skills_are_compiled_and_checked_in_linear_work() {
    let skill = |inputs: &str, steps: &str| {
        format!(
            "---\nname: w\ndescription: d\n---\n\n```workflow\ninputs:\n{inputs}outputs: {{}}\nsteps:\n{steps}```\n"
        )
    };
    let step = |at: usize, value: &str| {
        format!(
            "  - id: step{at}\n    type: tool\n    tool: known_tool_x{at}\n    inputs:\n      a: {{ type: string, value: {value} }}\n    outputs:\n      a: {{ type: string }}"
        )
    };
    grows_with_its_parts("w.md", "inputs that are misspelt", |parts| {
        let inputs = joined(parts, |at| format!("  input{at}: {{ type: string }}"));
        skill(&inputs, &joined(parts, |at| step(at, &format!("$inputs.inptu{at}"))))
    });
    grows_with_its_parts("w.md", "steps that are misspelt", |parts| {
        skill("  a: { type: string }\n", &joined(parts, |at| step(at, &format!("$steps.setp{at}.output.a"))))
    });
    grows_with_its_parts("w.md", "keys that no step has", |parts| {
        let keys = joined(parts, |at| format!("    tpye{at}: 1"));
        skill("  a: { type: string }\n", &format!("{}\n{keys}", step(0, "$inputs.a")))
    });
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
