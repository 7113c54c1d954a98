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

/// A document of parts that are numbered.
fn of(parts: usize, head: &str, part: &str, tail: &str) -> String {
    let parts: String = (0..parts).map(|at| part.replace('#', &at.to_string())).collect();
    format!("{head}{parts}{tail}")
}

#[test]
fn documents_in_edn_are_compiled_and_checked_in_linear_work() {
    let head = r#"{:name "a" :description "d" :steps ["#;
    let one = r#"{:name "a" :description "d" :steps [{:name "s" :type :invoke :operation "a/b" "#;
    for (what, head, part, tail) in [
        ("steps", head, r#"{:name "s#" :type :invoke :operation "known/operation-#"}"#, "]}"),
        ("steps that are none", head, "{:nam# 1}", "]}"),
        ("steps of one name", head, r#"{:name "s" :type :invoke :operation "a/b"}"#, "]}"),
        (
            "routes to the next step",
            head,
            r#"{:name "s#" :type :invoke :operation "a/b" :judge {:type :invoke :operation "a/j"}
                :on {"x" {:goto :next} "y" {:goto :done}}}"#,
            "]}",
        ),
        ("keys that mean nothing", one, ":k# 1 ", "}]}"),
        (
            "references to steps that there are not",
            r#"{:name "a" :description "d" :steps [{:name "s" :type :invoke :operation "a/b" :args {"#,
            r#":k# {:from {:step "z#" :kind :accepted-result}}"#,
            "}}]}",
        ),
        (
            "routes to nowhere",
            r#"{:name "a" :description "d" :steps [{:name "s" :type :invoke :operation "a/b"
                :judge {:type :invoke :operation "a/j"} :on {"#,
            r#""o#" {:goto "n#"}"#,
            "}}]}",
        ),
        (
            "tokens",
            r#"{:name "a" :description "d" :steps [{:name "s" :type :session
                :contributions [{:type :template :text ""#,
            "{{v#}} ",
            r#"" :vars {}}]}]}"#,
        ),
        (
            "tools",
            r#"{:name "a" :description "d" :steps [{:name "s" :type :session :tools ["#,
            r#""known_tol_#" "#,
            r#"]
            :contributions [{:type :template :text "x"}]}]}"#,
        ),
    ] {
        grows_with_its_parts("w.edn", what, |parts| of(parts, head, part, tail));
    }
}

#[test]
fn documents_in_yaml_and_markdown_are_compiled_and_checked_in_linear_work() {
    let head = "inputs: {}\noutputs: {}\nsteps:\n";
    for (what, head, part) in [
        ("steps", head, "- id: s#\n  type: tool\n  tool: known_tool_#\n"),
        ("steps that are none", head, "- a\n"),
        ("steps of one name", head, "- id: s\n  type: tool\n  tool: x\n"),
        ("keys that mean nothing", "", "? [a,#]\n: 1\n"),
        (
            "references to steps that there are not",
            head,
            "- id: s#\n  type: tool\n  tool: x\n  inputs:\n    a: {type: string, value: $steps.t#.output.x}\n",
        ),
        (
            "properties that are wrong",
            "inputs:\n  a:\n    type: object\n    properties:\n",
            "      p#: {type: strin}\n",
        ),
        ("conditions", head, "- id: s#\n  type: conditional\n  condition: $inputs.a\n  then: [s0]\n  else: [t#]\n"),
        (
            "branches of one condition",
            "inputs: {}\noutputs: {}\nsteps:\n- id: c\n  type: conditional\n  condition: $inputs.a\n  then:\n",
            "  - t#\n",
        ),
    ] {
        grows_with_its_parts("w.yaml", what, |parts| of(parts, head, part, ""));
    }
    let head = "---\nname: a\ndescription: d\n";
    for (what, head, part, tail) in [
        ("keys of front matter", head, "k#: v\n", "---\nhi\n"),
        ("lists of front matter", "---\nname: a\ndescription: d\ntools:\n", "- t#\n", "---\nhi\n"),
        ("tokens", "---\nname: a\ndescription: d\n---\n", "{{v#}} ", ""),
        ("fences", "---\nname: a\ndescription: d\n---\n", "```x\n# a\n```\n", ""),
    ] {
        grows_with_its_parts("w.md", what, |parts| of(parts, head, part, tail));
    }
}

#[test]
fn documents_in_json_are_compiled_and_checked_in_linear_work() {
    let head = r#"{"version":"workflow-ir/v1","name":"a","steps":["#;
    for (what, part) in [
        ("steps that mean nothing", r##"{"name":"s#","bogus":1},"##),
        ("steps of one name", r#"{"name":"s","type":"invoke","operation":"a/b"},"#),
    ] {
        grows_with_its_parts("w.json", what, |parts| of(parts, head, part, r#"{"name":"s"}]}"#));
    }
    let head = r#"{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},"#;
    let prompt = r#""prompts":{"x":{"id":"x","name":"P","version":"1.0.0","system_template":"hi"}}"#;
    for (what, head, part, tail) in [
        ("keys that mean nothing", head.to_owned(), r#""k#":1,"#, format!("{prompt}}}")),
        (
            "variables that nothing declares",
            format!(r#"{head}"prompts":{{"x":{{"id":"x","name":"P","version":"1.0.0","system_template":""#),
            "{{v#}} ",
            r#""}}}"#.to_owned(),
        ),
        (
            "variables that nothing uses",
            format!(
                r#"{head}"prompts":{{"x":{{"id":"x","name":"P","version":"1.0.0","system_template":"hi","variables":["#
            ),
            r#"{"name":"v#","type":"string","required":true},"#,
            r#"{"name":"v","type":"string","required":true}]}}}"#.to_owned(),
        ),
        (
            "states",
            format!(r#"{head}{prompt},"workflow":{{"version":1,"entry":"s0","states":{{"#),
            r#""s#":{"prompt_task":"x","on_event":{"e":"s0","f":"t#"}},"#,
            r#""s":{"prompt_task":"x"}}}}"#.to_owned(),
        ),
        (
            "agents",
            format!(r#"{head}{prompt},"agents":{{"entry":"x","members":{{"#),
            r#""m#":{"description":"d"},"#,
            r#""x":{"description":"d"}}}}"#.to_owned(),
        ),
        (
            "fragments",
            format!(r#"{head}{prompt},"fragments":{{"#),
            r#""f#":"{{fragments.f#}}","#,
            r#""f":"x"}}"#.to_owned(),
        ),
    ] {
        grows_with_its_parts("p.pack.json", what, |parts| of(parts, &head, part, &tail));
    }
}

/// Memory that a document holds at most while it is compiled, for each of its bytes.
const BYTES_EACH: u64 = 400;

#[test]
fn what_is_below_a_long_name_does_not_repeat_it() {
    let long = "k".repeat(20_000);
    for (name, what, head, part, tail) in [
        ("w.json", "a key of an IR", format!(r#"{{"version":"workflow-ir/v1","steps":[],"{long}":["#), "0,", "0]}"),
        (
            "w.edn",
            "a key of arguments",
            format!(
                r#"{{:name "a" :description "d" :steps [{{:name "s" :type :invoke :operation "a/b" :args {{:{long} {{"#
            ),
            r#":k# {:from {:step "z#" :kind :accepted-result}}"#,
            "}}}]}",
        ),
        (
            "w.edn",
            "a step",
            format!(
                r#"{{:name "a" :description "d" :steps [{{:name "{long}" :type :invoke :operation "a/b"
                    :judge {{:type :invoke :operation "a/j"}} :on {{"#
            ),
            r#""o#" {:goto "n#"}"#,
            "}}]}",
        ),
        ("w.yaml", "an input", format!("inputs:\n  ? {long}\n  : type: string\n"), "    u#: 1\n", "steps: []\n"),
        (
            "w.yaml",
            "a step",
            format!("inputs: {{}}\noutputs: {{}}\nsteps:\n- id: {long}\n  type: tool\n  tool: x\n  inputs:\n"),
            "    a#: {type: string, value: $steps.t#.output.x}\n",
            "",
        ),
        (
            "w.edn",
            "instructions of a workflow",
            format!(r#"{{:name "a" :description "d" :system-prompt "{long}" :steps ["#),
            r#"{:name "s#" :type :session :contributions [{:type :template :text "x"}]}"#,
            "]}",
        ),
        (
            "p.pack.json",
            "a prompt",
            format!(
                r#"{{"id":"p","name":"P","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
                    "prompts":{{"x":{{"id":"x","name":"P","version":"1.0.0","system_template":"{long}"}}}},
                    "workflow":{{"version":1,"entry":"s","states":{{"#
            ),
            r#""s#":{"prompt_task":"x","on_event":{"e":"s"}},"#,
            r#""s":{"prompt_task":"x"}}}}"#,
        ),
    ] {
        let text = of(4_000, &head, part, tail);
        let source = SourceFile::new(name, text.clone());
        let used = allocation_counter::measure(|| drop(document::compile(&source, &NoCompanions)));
        let most = BYTES_EACH * text.len() as u64;
        assert!(used.bytes_max <= most, "{what}: {} bytes for a document of {}", used.bytes_max, text.len());
    }
}
