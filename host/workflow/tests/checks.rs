//! The static checks, of documents as their authors write them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_ir::{
    SourceFile, WorkflowIr,
    checks::{Catalog, flow, names},
    ir::Invoke,
    names::Outcome,
};
use opcell_workflow::psi;
use std::{collections::HashMap, sync::Arc};

/// The IR of psi steps.
fn workflow(steps: &str) -> std::sync::Arc<WorkflowIr> {
    let text = format!("{{:name \"w\" :description \"d\" :steps [{steps}]}}");
    let compiled = psi::compile_edn(&SourceFile::new("w.edn", text), &opcell_workflow::companions::NoCompanions);
    compiled.ir.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
}

fn step(name: &str, on: &str) -> String {
    let judge =
        if on.is_empty() { String::new() } else { format!(":judge {{:type :invoke :operation \"j/j\"}} :on {{{on}}}") };
    format!("{{:name \"{name}\" :type :invoke :operation \"x/y\" {judge}}}")
}

fn reader(name: &str, of: &str) -> String {
    format!(
        "{{:name \"{name}\" :type :invoke :operation \"x/y\" :args {{:v {{:from {{:step \"{of}\" :yield :data}}}}}}}}"
    )
}

fn found(steps: &[String]) -> Vec<(&'static str, String)> {
    flow(&workflow(&steps.join(" "))).into_iter().map(|d| (d.code, d.path.unwrap())).collect()
}

#[test]
fn a_straight_workflow_has_nothing_remarkable() {
    assert_eq!(found(&[step("a", ""), reader("b", "a"), step("c", "\"X\" {:goto :done}")]), []);
}

#[test]
fn duplicate_names_and_unknown_targets_are_told() {
    let steps = [step("a", ""), step("a", "\"X\" {:goto \"revew\"}"), step("review", "")];
    let reported = flow(&workflow(&steps.join(" ")));
    let codes: Vec<_> = reported.iter().map(|d| (d.code, d.path.as_deref().unwrap())).collect();
    assert_eq!(
        codes,
        [
            ("duplicate-step-name", "steps[1].name"),
            ("unknown-step", "steps[1].on[0].goto"),
            ("unreachable-step", "steps[2]")
        ]
    );
    assert_eq!(reported[1].help.as_deref(), Some("did you mean 'review'?"));
}

#[test]
fn steps_behind_a_jump_are_unreachable() {
    assert_eq!(
        found(&[step("a", "\"X\" {:goto \"c\"}"), step("b", ""), step("c", "")]),
        [("unreachable-step", "steps[1]".to_owned())]
    );
}

#[test]
fn a_reference_to_a_step_that_some_path_skips_is_told() {
    let steps = [step("a", "\"X\" {:goto \"c\"} \"Y\" {:goto :next}"), step("b", ""), reader("c", "b")];
    assert_eq!(found(&steps), [("possibly-unset-ref", "steps[2].invoke.args.v.from".to_owned())]);
    let joined = [step("a", "\"X\" {:goto \"c\"} \"Y\" {:goto :next}"), step("b", ""), reader("c", "a")];
    assert_eq!(found(&joined), []);
}

#[test]
fn loops_need_a_bound() {
    let looping =
        |bound: &str| [step("a", ""), step("b", &format!("\"AGAIN\" {{:goto \"a\" {bound}}} \"OK\" {{:goto :done}}"))];
    assert_eq!(found(&looping("")), [("unbounded-loop", "steps[0]".to_owned())]);
    assert_eq!(found(&looping(":max-iterations 3")), []);
    assert_eq!(
        found(&looping(":max-iterations 3 :on-max-iterations \"a\"")),
        [("unbounded-loop", "steps[0]".to_owned())]
    );
    let itself = [step("a", "\"AGAIN\" {:goto \"a\"}")];
    assert_eq!(found(&itself), [("unbounded-loop", "steps[0]".to_owned())]);
    let bounded_step = [
        "{:name \"a\" :type :invoke :operation \"x/y\" :max-iterations 4}".to_owned(),
        step("b", "\"AGAIN\" {:goto \"a\"}"),
    ];
    assert_eq!(found(&bounded_step), []);
}

#[test]
fn groups_are_reached_through_the_step_that_runs_them() {
    let both = [
        "{:name \"pick\" :type :branch :condition \"$inputs.x\" :then [\"t\"] :else [\"e\"]}".to_owned(),
        reader("t", "pick").replace(":yield :data", ":output :none"),
    ];
    // `pick` shows no outputs, so reading one is an error of meaning, not of flow.
    assert!(
        psi::compile_edn(
            &SourceFile::new("w.edn", format!("{{:name \"w\" :description \"d\" :steps [{}]}}", both.join(" "))),
            &opcell_workflow::companions::NoCompanions
        )
        .ir
        .is_none()
    );
    let steps = [
        "{:name \"pick\" :type :branch :condition \"$inputs.x\" :then [\"t\"] :else [\"e\"]}".to_owned(),
        step("t", ""),
        step("e", ""),
        reader("after", "t"),
    ];
    assert_eq!(found(&steps), [("possibly-unset-ref", "steps[3].invoke.args.v.from".to_owned())]);
    let steps = [
        "{:name \"all\" :type :parallel :branches [[\"t\"] [\"e\"]] :reduce :append :into :both}".to_owned(),
        step("t", ""),
        step("e", ""),
        reader("after", "t"),
    ];
    assert_eq!(found(&steps), []);
}

#[test]
fn ten_thousand_steps_take_no_time() {
    let mut steps = vec![step("s0", "")];
    steps.extend((1..10_000).map(|i| reader(&format!("s{i}"), &format!("s{}", i - 1))));
    let ir = workflow(&steps.join("\n"));
    let start = std::time::Instant::now();
    assert_eq!(flow(&ir), []);
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

struct Host;

impl Catalog for Host {
    fn arguments(&self, id: &str) -> Option<serde_json::Value> {
        let properties = serde_json::json!({"path": {"type": "string"}, "limit": {"type": "integer"}});
        let open = serde_json::json!({"type": "object", "properties": properties, "required": ["path"]});
        let mut closed = open.clone();
        closed["additionalProperties"] = serde_json::json!(false);
        match id {
            "typed/open" => Some(open),
            "typed/closed" => Some(closed),
            _ => None,
        }
    }

    fn operations(&self) -> Option<Vec<String>> {
        Some(vec!["x/y".into(), "j/j".into()])
    }
    fn tools(&self) -> Option<Vec<String>> {
        Some(vec!["read".into()])
    }
    fn outcomes(&self, call: &Invoke) -> Option<Vec<Outcome>> {
        (call.operation.as_ref() == "j/j").then(|| vec![Outcome::Text("DONE".into()), Outcome::Text("AGAIN".into())])
    }
}

#[test]
fn names_are_checked_against_what_the_host_has() {
    let ir = workflow(
        "{:name \"a\" :type :invoke :operation \"x/z\"}
         {:name \"b\" :type :session :tools [\"read\" \"bash\"] :skills [\"s\"] :contributions [{:type :template :text \"t\"}]}
         {:name \"c\" :type :delegate :target \"nobody-knows\" :prompt-string \"p\"}",
    );
    let reported: Vec<_> = names(&ir, &Host).into_iter().map(|d| (d.code, d.path.unwrap())).collect();
    assert_eq!(
        reported,
        [
            ("unknown-operation", "steps[0].invoke.operation".to_owned()),
            ("unknown-tool", "steps[1].session.tools[1]".to_owned())
        ]
    );
}

#[test]
fn outcomes_that_cannot_come_and_outcomes_without_a_route_are_told() {
    let ir = workflow(&step("a", "\"DONE\" {:goto :done} :AGAIN {:goto :done}"));
    let reported: Vec<_> = names(&ir, &Host).into_iter().map(|d| (d.code, d.message)).collect();
    assert_eq!(
        reported,
        [
            ("impossible-outcome", "Step 'a': the judge never returns :AGAIN".to_owned()),
            (
                "unrouted-outcome",
                "Step 'a': the judge may return \"AGAIN\", which :on does not route; the run fails then".to_owned()
            )
        ]
    );
}

#[test]
fn a_contract_for_a_text_that_never_comes_is_told() {
    let found = |step: &str| -> Vec<&'static str> {
        let contract = ":terminal-contract {:handoff {:type :markdown-handoff-data}}";
        let text = format!("{{:name \"w\" :description \"d\" {contract} :steps [{step}]}}");
        let ir =
            psi::compile_edn(&SourceFile::new("w.edn", text), &opcell_workflow::companions::NoCompanions).ir.unwrap();
        names(&ir, &Unnamed).into_iter().map(|found| found.code).collect()
    };
    assert_eq!(found(&step("a", "")), ["contract-without-text"]);
    assert!(found("{:name \"a\" :type :session :contributions [{:type :template :text \"hi\"}]}").is_empty());
}

/// A host that names nothing.
struct Unnamed;

impl Catalog for Unnamed {}

/// A host with these workflows.
struct Callees(HashMap<&'static str, Arc<WorkflowIr>>);

impl Catalog for Callees {
    fn workflow(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.0.get(name).cloned()
    }
}

fn document(more: &str, steps: &str) -> Arc<WorkflowIr> {
    let text = format!("{{:name \"w\" :description \"d\" {more} :steps [{steps}]}}");
    let compiled = psi::compile_edn(&SourceFile::new("w.edn", text), &opcell_workflow::companions::NoCompanions);
    compiled.ir.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
}

fn callees() -> Callees {
    let talk = "{:name \"s\" :type :session :contributions [{:type :template :text \"hi\"}]}";
    let bound = ":terminal-contract {:handoff {:type :markdown-handoff-data}}";
    Callees(HashMap::from([
        ("data", document("", &step("a", ""))),
        ("text", document("", talk)),
        ("hand", document(bound, talk)),
    ]))
}

fn delegating(target: &str, more: &str) -> String {
    format!("{{:name \"d\" :type :delegate :target \"{target}\" :prompt-string \"p\" {more}}}")
}

#[test]
fn a_handoff_of_a_callee_without_a_contract_is_told() {
    let found = |target: &str| -> Vec<(&'static str, String)> {
        let reader = "{:name \"e\" :type :invoke :operation \"x/y\" :args {:h {:from {:step \"d\" :output :handoff}}}}";
        let ir = workflow(&format!("{} {reader}", delegating(target, "")));
        names(&ir, &callees()).into_iter().map(|found| (found.code, found.path.unwrap())).collect()
    };
    for target in ["text", "data"] {
        assert_eq!(found(target), [("handoff-without-contract", "steps[1].invoke.args.h.from".to_owned())]);
    }
    assert_eq!(found("hand"), []);
    assert_eq!(found("unknown"), []);
}

#[test]
fn an_output_that_a_callee_never_yields_is_an_error() {
    let found = |target: &str| -> Vec<(&'static str, String)> {
        let outputs =
            ":outputs {:t {:source :delegate/text} :d {:source :delegate/data}} :yields {:type :data :data :d}";
        let ir = workflow(&delegating(target, outputs));
        names(&ir, &callees()).into_iter().map(|found| (found.code, found.path.unwrap())).collect()
    };
    assert_eq!(found("data"), [("missing-yield-field", "steps[0].outputs.t.source".to_owned())]);
    assert_eq!(found("text"), []);
    assert_eq!(found("unknown"), []);
}

#[test]
fn arguments_that_an_operation_does_not_take_or_lacks_are_told() {
    let call = |operation: &str, args: &str| {
        let ir = workflow(&format!("{{:name \"a\" :type :invoke :operation \"{operation}\" :args {args}}}"));
        let found = names(&ir, &Host).into_iter().filter(|found| found.code.ends_with("-argument"));
        found.map(|d| (d.code, d.path.unwrap(), d.help.unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(call("typed/open", "{:path \"x\" :limit 3}"), []);
    assert_eq!(
        call("typed/open", "{:pth \"x\"}"),
        [
            ("unknown-argument", "steps[0].invoke.args.pth".to_owned(), "did you mean `path`?".to_owned()),
            ("missing-argument", "steps[0].invoke".to_owned(), String::new()),
        ]
    );
    assert_eq!(call("typed/open", "{:path \"x\" :zebra 1}"), [], "an open schema takes what it does not name");
    assert_eq!(
        call("typed/closed", "{:path \"x\" :zebra 1}"),
        [("unknown-argument", "steps[0].invoke.args.zebra".to_owned(), "it takes: path, limit".to_owned())]
    );
    assert_eq!(call("x/y", "{:anything 1}"), [], "an operation that the host does not have is told elsewhere");
}

#[test]
fn a_path_into_an_input_that_is_not_declared_is_told() {
    let text = |key: &str| {
        format!(
            "{{:name \"w\" :description \"d\" :inputs {{:file {{:type \"string\"}}}} :steps [{{:name \"a\" :type :invoke \
             :operation \"x/y\" :args {{:v {{:from :workflow-input :path [{key}]}}}}}}]}}"
        )
    };
    let found = |key: &str| {
        let source = SourceFile::new("w.edn", text(key));
        let compiled = psi::compile_edn(&source, &opcell_workflow::companions::NoCompanions);
        let ir = compiled.ir.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics));
        flow(&ir).into_iter().map(|d| (d.code, d.help.unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(found(":file"), []);
    assert_eq!(found(":input"), []);
    assert_eq!(found(":fiel"), [("unknown-input", "did you mean `file`?".to_owned())]);
}
