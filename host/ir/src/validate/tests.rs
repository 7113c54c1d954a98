use super::validate;
use crate::ir::WorkflowIr;

/// The findings about a workflow of the given steps, as JSON.
fn found(steps: &str) -> Vec<(&'static str, String)> {
    let text = format!(r#"{{"version":"workflow-ir/v1","name":"w","steps":[{steps}]}}"#);
    let ir: WorkflowIr = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    validate(&ir).into_iter().map(|found| (found.code, found.message)).collect()
}

fn invoke(name: &str, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"x/y"}},"outputs":{{"data":{{"source":"invoke/data"}}}},
            "yields":{{"type":"data","data":"data"}}{more}}}"#
    )
}

fn session(name: &str, session: &str, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"session","session":{{{session}}},"outputs":{{"final-llm-reply":{{"source":"session/final-llm-reply"}}}},
            "yields":{{"type":"text","text":"final-llm-reply"}}{more}}}"#
    )
}

/// A session step that asks what a reference gives.
fn asking(name: &str, reference: &str) -> String {
    session(name, &format!(r#""contributions":[{{"type":"source","from":{reference}}}]"#), "")
}

const QUEUE: &str = r#""prompts":[{"name":"one","contributions":[]},{"name":"two","contributions":[]}]"#;
const TEXT: &str = r#""contributions":[{"type":"template","text":"t"}]"#;

fn one(steps: &[String]) -> (&'static str, String) {
    let found = found(&steps.join(","));
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn judges_and_routes_come_together() {
    let judge = r#","judge":{"type":"invoke","invoke":{"operation":"j/j"}}"#;
    let on = r#","on":[{"outcome":{"text":"X"},"goto":"done"}]"#;
    assert_eq!(found(&invoke("a", &format!("{judge}{on}"))), []);
    assert_eq!(
        one(&[invoke("a", on)]),
        ("routing-without-judge", "Step 'a': routing table (:on) requires a judge".into())
    );
    assert_eq!(
        one(&[invoke("a", judge)]),
        ("judge-without-routing", "Step 'a': judge requires a non-empty routing table (:on)".into())
    );
}

#[test]
fn yields_name_declared_outputs() {
    let step = invoke("a", "").replace(r#""data":"data""#, r#""data":"dat""#);
    assert_eq!(
        one(&[step]),
        (
            "missing-local-yield-output-key",
            "Step 'a': yield references output key :dat which is not declared in :outputs (available: [:data])".into()
        )
    );
    let bare = r#"{"name":"a","type":"invoke","invoke":{"operation":"x/y"}}"#;
    assert_eq!(one(&[bare.into()]), ("missing-yields", "Step 'a': missing :yields".into()));
}

#[test]
fn references_go_to_declared_values_of_prior_steps() {
    let a = invoke("a", "");
    assert_eq!(found(&[a.clone(), asking("b", r#"{"step":"a","yield":"data"}"#)].join(",")), []);
    for (reference, code, message) in [
        (r#"{"step":"c","output":"data"}"#, "missing-step-ref", "Step 'b': references unknown step 'c'"),
        (
            r#"{"step":"b","output":"final-llm-reply"}"#,
            "non-prior-step-ref",
            "Step 'b': references step 'b' which is not prior (forward/self references are not allowed)",
        ),
        (
            r#"{"step":"a","output":"text"}"#,
            "missing-output-key",
            "Step 'b': references output key :text of step 'a' but that key is not declared (available: [:data])",
        ),
        (
            r#"{"step":"a","yield":"text"}"#,
            "missing-yield-field",
            "Step 'b': references yield field :text of step 'a' but that field is not available (available: [:data])",
        ),
    ] {
        assert_eq!(one(&[a.clone(), asking("b", reference)]), (code, message.into()));
    }
}

#[test]
fn forward_references_are_found_in_targets_and_fields() {
    let delegate = |target: &str, prompt: &str| {
        format!(
            r#"{{"name":"a","type":"delegate","delegate":{{"target":{target},"prompt-string":{prompt}}},"yields":{{"type":"delegated"}}}}"#
        )
    };
    let forward = r#"{"from":{"step":"b","output":"data"}}"#;
    for step in [delegate(forward, "\"p\""), delegate("\"t\"", &format!(r#"{{"fields":{{"x":{forward}}}}}"#))] {
        assert_eq!(one(&[step, invoke("b", "")]).0, "non-prior-step-ref");
    }
}

#[test]
fn a_steps_own_invoke_judge_sees_its_declared_outputs_only() {
    let judged = |reference: &str| {
        invoke(
            "a",
            &format!(
                r#","judge":{{"type":"invoke","invoke":{{"operation":"j/j","args":{{"x":{{"from":{reference}}}}}}}}},
                "on":[{{"outcome":{{"text":"X"}},"goto":{{"step":"a"}}}}]"#
            ),
        )
    };
    assert_eq!(found(&judged(r#"{"step":"a","output":"data"}"#)), []);
    assert_eq!(one(&[judged(r#"{"step":"a","yield":"data"}"#)]).0, "non-prior-step-ref");
    assert_eq!(one(&[judged(r#"{"step":"a","output":"other"}"#)]).0, "non-prior-step-ref");
    let llm = session(
        "s",
        TEXT,
        r#","judge":{"type":"llm","session":{"contributions":[{"type":"source","from":{"step":"s","output":"final-llm-reply"}}]}},
        "on":[{"outcome":{"text":"X"},"goto":"done"}]"#,
    );
    assert_eq!(one(&[llm]).0, "non-prior-step-ref");
}

#[test]
fn prompt_references_go_to_groups_of_prior_sessions() {
    let queue = session("q", QUEUE, "");
    let single = session("s", TEXT, "");
    let prompt = |step: &str, group: &str, output: &str| {
        format!(r#"{{"step":"{step}","prompt":"{group}","output":"{output}"}}"#)
    };
    let check =
        |reference: String| found(&[invoke("i", ""), single.clone(), queue.clone(), asking("b", &reference)].join(","));
    assert_eq!(check(prompt("q", "two", "transcript")), []);
    for (reference, code, message) in [
        (
            prompt("i", "x", "data"),
            "prompt-ref-non-session-step",
            "Step 'b': :prompt ref targets step 'i' which is not a :session step",
        ),
        (
            prompt("s", "x", "final-llm-reply"),
            "prompt-ref-single-prompt-step",
            "Step 'b': :prompt ref targets single-prompt step 's' which has no named prompt groups",
        ),
        (
            prompt("q", "three", "final-llm-reply"),
            "prompt-ref-unknown-group",
            "Step 'b': :prompt ref names group \"three\" which is not a declared group of step 'q' (available: [\"one\" \"two\"])",
        ),
        (
            prompt("q", "one", "result"),
            "prompt-ref-non-text-surface",
            "Step 'b': :prompt ref output key :result is not a per-prompt text surface (available: [:final-llm-reply :transcript])",
        ),
    ] {
        assert_eq!(check(reference), [(code, message.to_owned())]);
    }
}

#[test]
fn sibling_groups_are_visible_to_the_judge_only() {
    let own = r#"{"step":"q","prompt":"one","output":"final-llm-reply"}"#;
    let sibling = format!(
        r#""prompts":[{{"name":"one","contributions":[]}},{{"name":"two","contributions":[{{"type":"source","from":{own}}}]}}]"#
    );
    assert_eq!(one(&[session("q", &sibling, "")]).0, "prompt-ref-same-step");
    let judge = format!(
        r#","judge":{{"type":"llm","session":{{"contributions":[{{"type":"source","from":{own}}}]}}}},"on":[{{"outcome":{{"text":"X"}},"goto":"done"}}]"#
    );
    assert_eq!(found(&session("q", QUEUE, &judge)), []);
}

#[test]
fn a_session_has_one_source_of_prompts_with_distinct_names() {
    assert_eq!(one(&[session("s", &format!("{TEXT},{QUEUE}"), "")]).0, "session-contributions-and-prompts");
    assert_eq!(one(&[session("s", "", "")]).0, "session-without-prompt-source");
    assert_eq!(found(&session("s", r#""system-prompt":"Do it.""#, "")), []);
    let unnamed = r#""prompts":[{"name":"","contributions":[]}]"#;
    assert_eq!(one(&[session("s", unnamed, "")]).0, "unnamed-prompt-group");
    let twice = r#""prompts":[{"name":"one","contributions":[]},{"name":"one","contributions":[]}]"#;
    assert_eq!(
        one(&[session("s", twice, "")]).1,
        "Step 's': :prompts declares duplicate prompt-group name(s) [\"one\"]; prompt-group names must be unique within a step"
    );
}

#[test]
fn skills_need_the_read_tool() {
    let message = "Step 's': skills require the 'read' tool to be present in :tools";
    let found = one(&[session("s", &format!(r#""tools":["bash"],"skills":["k"],{TEXT}"#), "")]);
    assert_eq!(found, ("skills-without-read-tool", message.into()));
    // Without :tools the session has the host's, `read` among them.
    assert_eq!(self::found(&session("s", &format!(r#""skills":["k"],{TEXT}"#), "")), []);
    assert_eq!(self::found(&session("s", &format!(r#""tools":["read"],"skills":["k"],{TEXT}"#), "")), []);
}

#[test]
fn a_step_has_one_structured_output() {
    let more = r#","outputs":{"final-llm-reply":{"source":"session/text"},"a":{"source":"session/structured-output","structured":{}},"b":{"source":"session/structured-output","structured":{}}}"#;
    let step =
        session("s", TEXT, "").replace(r#""outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"#, "");
    let step = format!("{}{more}}}", step.strip_suffix('}').unwrap());
    assert_eq!(
        one(&[step]).1,
        "Step 's': step declares multiple structured outputs [:a :b]; declare one structured output and group fields in its schema"
    );
}

#[test]
fn a_schema_of_one_name_and_version_has_one_content() {
    let counts = |step: &str, version: u64, kind: &str| {
        let outputs = format!(
            r#""outputs":{{"final-llm-reply":{{"source":"session/text"}},"n":{{"source":"session/structured-output","structured":{{
                "schema-id":"count","schema-version":{version},"json-schema":{{"type":"{kind}"}}}}}}}},"#
        );
        session(step, TEXT, "")
            .replace(r#""outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"#, &outputs)
    };
    assert_eq!(found(&[counts("a", 1, "integer"), counts("b", 1, "integer")].join(",")), []);
    assert_eq!(found(&[counts("a", 1, "integer"), counts("b", 2, "number")].join(",")), []);
    assert_eq!(
        one(&[counts("a", 1, "integer"), counts("b", 1, "number")]),
        (
            "reusable-structured-output-schema-mismatch",
            "Step 'b': structured output :n uses schema :count version 1 with another content than step 'a'".to_owned()
        )
    );
}

#[test]
fn shape_comes_before_meaning() {
    assert_eq!(found(""), [("structural-error", "Structural error at [:steps]: invalid value".to_owned())]);
    for (step, place) in [
        (session("s", &format!(r#""temperature":2.5,{TEXT}"#), ""), ":steps 0 :session :temperature"),
        (session("s", &format!(r#""top-logprobs":0,{TEXT}"#), ""), ":steps 0 :session :top-logprobs"),
        (session("s", &format!(r#""session-profile":"clear",{TEXT}"#), ""), ":steps 0 :session :session-profile"),
        (invoke("a", r#","max-iterations":0"#), ":steps 0 :max-iterations"),
        (invoke("a", r#","on":[{"outcome":{"text":"X"},"goto":"done","on-max-iterations":"done"}]"#), ":steps 0 :on 0 :on-max-iterations"),
        (
            r#"{"name":"a","type":"delegate","delegate":{"target":"t","prompt-string":"p","session":{"final-tool":"x"}},"yields":{"type":"delegated"}}"#.into(),
            ":steps 0 :delegate :session",
        ),
        (asking("a", r#""workflow-input","path":["x"],"projection":{"type":"full"}"#), ":steps 0 :session :contributions 0"),
    ] {
        assert_eq!(one(&[step]).1, format!("Structural error at [{place}]: invalid value"));
    }
}
