//! Findings about documents that compile and cannot do what their author means: one case each.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_ir::{diagnostic::Diagnostic, source::SourceFile};
use opcell_workflow::{companions::NoCompanions, document};
use serde_json::{Value, json};

fn findings(name: &str, text: &str) -> Vec<Diagnostic> {
    document::compile(&SourceFile::new(name, text), &NoCompanions).diagnostics
}

/// The one finding of a code.
fn one<'a>(found: &'a [Diagnostic], code: &str) -> &'a Diagnostic {
    let of_code: Vec<&Diagnostic> = found.iter().filter(|found| found.code == code).collect();
    let [only] = of_code.as_slice() else { panic!("{code}: {found:?}") };
    only
}

/// A pack of one composition with one step of an agent.
fn pack_with_agent(step: &Value) -> String {
    let mut agent = json!({"id": "a", "kind": "agent", "prompt_task": "p", "input": {"text": "${input.text}"}});
    agent.as_object_mut().unwrap().extend(step.as_object().unwrap().clone());
    json!({
        "id": "p", "name": "P", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Sort."}},
        "tools": {"file": {"name": "file", "description": "Files.", "parameters": {"type": "object", "properties": {}}},
                  "read": {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}},
        "compositions": {"c": {"version": 1, "steps": [agent], "output": "${a.output}"}},
        "workflow": {"version": 1, "entry": "s", "states": {"s": {"prompt_task": "p"}}}
    })
    .to_string()
}

#[test]
fn a_termination_by_a_tool_that_the_step_does_not_have_is_found_with_the_one_that_is_meant() {
    let until = |tool: &str| json!({"tools": ["read"], "termination": {"max_steps": 2, "tool_called": tool}});
    let found = findings("p.pack.json", &pack_with_agent(&until("reed")));
    let finding = one(&found, "unreachable-termination");
    assert!(finding.message.contains("\"reed\", which is not among the step's tools"), "{}", finding.message);
    assert_eq!(finding.help.as_deref(), Some("did you mean read?"));
    let found = findings("p.pack.json", &pack_with_agent(&until("read")));
    assert!(found.iter().all(|found| found.code != "unreachable-termination"), "{found:?}");
}

fn psi(steps: &str) -> String {
    format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}")
}

#[test]
fn the_step_before_the_first_one_is_found_before_a_run() {
    let step = |name: &str| {
        format!(
            "{{:name \"{name}\" :type :invoke :operation \"x/y\" :args {{}}
              :judge {{:type :invoke :operation \"x/j\" :args {{}}}}
              :on {{\"AGAIN\" {{:goto :previous :max-iterations 2}} \"OK\" {{:goto :next}}}}}}"
        )
    };
    let found = findings("w.edn", &psi(&step("a")));
    let finding = one(&found, "no-previous-step");
    assert!(finding.span.is_some() && finding.message.contains("a run that goes there fails"), "{finding:?}");
    let second = psi(&format!("{{:name \"z\" :type :invoke :operation \"x/y\" :args {{}}}} {}", step("a")));
    let found = findings("w.edn", &second);
    assert!(found.iter().all(|found| found.code != "no-previous-step"), "{found:?}");
}

#[test]
fn an_entry_of_a_delegate_s_context_is_told_the_one_type_that_it_may_have() {
    let delegate = |entry: &str| {
        psi(&format!("{{:name \"a\" :type :delegate :target \"other\" :prompt-string \"x\" :context [{entry}]}}"))
    };
    let found = findings("w.edn", &delegate("{:from :workflow-original}"));
    let shown = format!("{found:?}");
    assert!(shown.contains("expected :type :source") && !shown.contains(":type :template\""), "{shown}");
    assert!(!shown.contains("or :type :template"), "{shown}");
    let found = findings("w.edn", &delegate("{:type :template :text \"x\"}"));
    assert!(format!("{found:?}").contains("a delegate's context forwards material as it is"), "{found:?}");
    assert!(findings("w.edn", &delegate("{:type :source :from :workflow-original}")).is_empty());
}
