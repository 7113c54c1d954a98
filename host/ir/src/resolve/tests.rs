use super::*;
use crate::ir::PromptGroup;

fn json(text: &str) -> Value {
    Value::from_json(text).unwrap()
}

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

/// A run whose steps `discover` and `plan` have results.
struct Run {
    input: Value,
    original: Value,
}

impl Default for Run {
    fn default() -> Self {
        Self { input: json(r#"{"repo":"org/repo","input":"ship it"}"#), original: json(r#"{"ticket":123}"#) }
    }
}

impl Scope for Run {
    fn input(&self) -> &Value {
        &self.input
    }
    fn original(&self) -> &Value {
        &self.original
    }
    fn output(&self, step: &str, prompt: Option<&str>, key: &str) -> Option<Value> {
        Some(match (step, prompt, key) {
            ("discover", None, "data") => json(r#"{"issues":["i-1","i-2"],"flag":false}"#),
            ("discover", None, "summary") => json("\"2 issues found\""),
            ("discover", None, "nothing") => Value::Null,
            ("plan", Some("second"), "final-llm-reply") => json("\"second reply\""),
            ("plan", None, "transcript") => {
                json(r#"[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]"#)
            }
            ("plan", None, "verdict") => json(r#"{"decision":"GO"}"#),
            ("call", None, "handoff") => json(r#"{"issue_number":"42"}"#),
            ("pick", None, "data") => json(r#"{"type":"workflow-ref","name":"builder"}"#),
            _ => return None,
        })
    }
    fn yielded(&self, step: &str, field: &str) -> Option<Value> {
        (step == "plan" && field == "text").then(|| json("\"plan text\""))
    }
    fn artifact(&self, name: &str) -> Option<Value> {
        (name == "notes").then(|| json("\"n\""))
    }
    fn is_structured(&self, step: &str, key: &str) -> bool {
        (step, key) == ("plan", "verdict")
    }
}

fn resolved(text: &str) -> Result<Value, ResolveError> {
    source(&spec(text), &Run::default())
}

#[test]
fn arguments_mix_sources_and_literals() {
    let specs =
        spec(r#"{"repo":{"from":"workflow-input","path":["repo"]},"state":{"value":"open"},"none":{"value":null}}"#);
    let args = args(&specs, &Run::default()).unwrap();
    assert_eq!(Value::from(args), json(r#"{"repo":"org/repo","state":"open","none":null}"#));
}

#[test]
fn a_template_prints_its_values_as_edn() {
    let template = spec(
        r#"{"text":"Review {{issues}} / {{summary}}","vars":{
            "issues":{"from":{"step":"discover","output":"data"},"path":["issues"]},
            "summary":{"from":{"step":"discover","output":"summary"}}}}"#,
    );
    assert_eq!(render(&template, &Run::default()).unwrap(), r#"Review ["i-1" "i-2"] / 2 issues found"#);
}

#[test]
fn false_prints_and_null_does_not() {
    let template = spec(
        r#"{"text":"[{{f}}|{{n}}]","vars":{
            "f":{"from":{"step":"discover","output":"data"},"path":["flag"]},
            "n":{"from":{"step":"never","output":"data"}}}}"#,
    );
    assert_eq!(render(&template, &Run::default()).unwrap(), "[false|]");
}

#[test]
fn values_are_never_expanded_again_and_unbound_tokens_are_errors() {
    let run = Run { input: json(r#"{"input":"{{secret}} {{b}}"}"#), ..Run::default() };
    let template = spec(
        r#"{"text":"{{a}}/{{b}}","vars":{
            "a":{"from":"workflow-input","path":["input"]},
            "b":{"from":{"step":"plan","yield":"text"}}}}"#,
    );
    assert_eq!(render(&template, &run).unwrap(), "{{secret}} {{b}}/plan text");
    let template = spec(r#"{"text":"{{gone}}"}"#);
    let error = render(&template, &run).unwrap_err();
    assert_eq!(error.to_string(), "Template token {{gone}} is not bound in :vars");
    assert_eq!(error.reason(), "unbound-token");
}

#[test]
fn delegation_gives_context_as_the_original_and_prompt_as_the_input() {
    let contributions: Vec<Contribution> = spec(
        r#"[{"type":"source","from":"workflow-original"},
            {"type":"source","from":{"step":"discover","output":"data"},"path":["issues"]},
            {"type":"source","from":{"step":"never","yield":"text"}}]"#,
    );
    assert_eq!(context(&contributions, &Run::default()).unwrap(), json(r#"[{"ticket":123},["i-1","i-2"],null]"#));
    let fields = spec(
        r#"{"fields":{
            "issue_number":{"from":{"step":"discover","output":"data"},"path":["issues",0]},
            "summary":{"from":{"step":"discover","output":"summary"}},
            "fixed":{"value":"x"}}}"#,
    );
    assert_eq!(
        prompt_string(&fields, &Run::default()).unwrap(),
        json(r#"{"issue_number":"i-1","summary":"2 issues found","fixed":"x"}"#)
    );
    assert_eq!(prompt_string(&spec("\"as it is {{x}}\""), &Run::default()).unwrap(), json("\"as it is {{x}}\""));
}

#[test]
fn input_and_original_are_themselves_when_they_are_not_objects() {
    let run = Run { input: json("\"do it\""), original: json(r#"["a","b"]"#) };
    let at = |text: &str| source(&spec(text), &run).unwrap();
    assert_eq!(at(r#"{"from":"workflow-input","path":["input"]}"#), json("\"do it\""));
    assert_eq!(at(r#"{"from":"workflow-input","path":["other"]}"#), Value::Null);
    assert_eq!(at(r#"{"from":"workflow-original","path":["original"]}"#), json(r#"["a","b"]"#));
    assert_eq!(resolved(r#"{"from":"workflow-input","path":["input"]}"#).unwrap(), json("\"ship it\""));
}

#[test]
fn paths_walk_objects_and_arrays_and_miss_as_null() {
    for (text, expected) in [
        (r#"{"from":{"step":"discover","output":"data"},"path":["issues",1]}"#, "\"i-2\""),
        (r#"{"from":{"step":"discover","output":"data"},"path":["issues",9]}"#, "null"),
        (r#"{"from":{"step":"discover","output":"data"},"path":[]}"#, r#"{"issues":["i-1","i-2"],"flag":false}"#),
        (r#"{"from":{"step":"discover","output":"nothing"},"path":["x"]}"#, "null"),
        (r#"{"from":{"step":"plan","yield":"text"},"path":["x"]}"#, "null"),
        (r#"{"from":{"step":"call","output":"handoff"},"path":["issue_number"]}"#, "\"42\""),
        (r#"{"from":{"step":"plan","prompt":"second","output":"final-llm-reply"}}"#, "\"second reply\""),
        (r#"{"from":{"artifact":"notes"}}"#, "\"n\""),
        (r#"{"from":{"artifact":"unset"}}"#, "null"),
    ] {
        assert_eq!(resolved(text).unwrap(), json(expected), "{text}");
    }
}

#[test]
fn a_path_into_a_scalar_output_or_a_missing_structured_path_is_an_error() {
    let error = resolved(r#"{"from":{"step":"discover","output":"summary"},"path":["x"]}"#).unwrap_err();
    assert!(error.to_string().starts_with("Workflow source output is not structured"), "{error}");
    let error = resolved(r#"{"from":{"step":"plan","output":"verdict"},"path":["reason",0]}"#).unwrap_err();
    assert!(error.to_string().starts_with("Workflow structured output path is missing: [:reason 0]"), "{error}");
}

#[test]
fn a_dynamic_target_must_be_a_workflow_reference() {
    let run = Run::default();
    assert_eq!(target(&spec(r#""static""#), &run).unwrap().as_ref(), "static");
    let dynamic = spec(r#"{"from":{"step":"pick","output":"data"}}"#);
    assert_eq!(target(&dynamic, &run).unwrap().as_ref(), "builder");
    let text = spec(r#"{"from":{"step":"plan","yield":"text"}}"#);
    let error = target(&text, &run).unwrap_err();
    assert!(error.to_string().starts_with("Dynamic delegate target must resolve to a workflow reference"), "{error}");
}

#[test]
fn a_conversation_is_its_contributions_in_order_and_ends_in_the_prompt() {
    let contributions: Vec<Contribution> = spec(
        r#"[{"type":"source","from":"workflow-original"},
            {"type":"source","from":{"step":"never","yield":"text"}},
            {"type":"source","from":{"step":"plan","yield":"text"}},
            {"type":"template","text":"Review {{reply}}","vars":{"reply":{"from":{"step":"plan","yield":"text"}}}}]"#,
    );
    let parts = conversation(&contributions, &Run::default()).unwrap();
    let (preloaded, prompt) = split(parts);
    assert_eq!(preloaded, [ConversationPart::user("{:ticket 123}"), ConversationPart::user("plan text")]);
    assert_eq!(prompt, "Review plan text");
}

#[test]
fn messages_are_spliced_and_a_conversation_that_ends_with_the_model_has_no_prompt() {
    let contributions: Vec<Contribution> = spec(r#"[{"type":"source","from":{"step":"plan","output":"transcript"}}]"#);
    let (preloaded, prompt) = split(conversation(&contributions, &Run::default()).unwrap());
    let roles: Vec<&str> = preloaded.iter().map(|part| part.role.as_ref()).collect();
    assert_eq!((roles, prompt.as_str()), (vec!["user", "assistant"], ""));
    assert_eq!(split(Vec::new()), (Vec::new(), String::new()));
}

#[test]
fn a_user_message_of_text_blocks_is_a_prompt() {
    let run = Run {
        input: json(r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#),
        ..Run::default()
    };
    let group: PromptGroup = spec(r#"{"name":"g","contributions":[{"type":"source","from":"workflow-input"}]}"#);
    assert_eq!(split(conversation(&group.contributions, &run).unwrap()), (Vec::new(), "a\nb".to_owned()));
}

mod projections {
    use super::*;

    fn transcript() -> Value {
        json(
            r#"[{"role":"user","content":"1"},{"role":"assistant","content":"one"},
                {"role":"user","content":"2"},
                {"role":"assistant","content":"","tool-calls":[{"id":"c","name":"read","arguments":{}}]},
                {"role":"tool","content":"file","tool-call-id":"c"},
                {"role":"assistant","content":"two"},
                {"role":"user","content":"3"},{"role":"assistant","content":"three"}]"#,
        )
    }

    fn said(transcript: &Value, projection: &str) -> Vec<String> {
        let projected = project(transcript, &spec(projection)).unwrap();
        projected.as_array().unwrap().iter().map(|m| m.get("content").unwrap().to_json()).collect()
    }

    #[test]
    fn none_is_empty_and_full_is_everything() {
        assert_eq!(said(&transcript(), r#"{"type":"none"}"#).len(), 0);
        assert_eq!(said(&transcript(), r#"{"type":"full"}"#).len(), 8);
    }

    #[test]
    fn a_tail_counts_turns_from_the_end_with_their_tool_messages() {
        assert_eq!(said(&transcript(), r#"{"type":"tail","turns":1}"#), ["\"3\"", "\"three\""]);
        assert_eq!(said(&transcript(), r#"{"type":"tail","turns":2}"#).len(), 6);
        assert_eq!(said(&transcript(), r#"{"type":"tail","turns":10}"#).len(), 8);
        assert_eq!(said(&Value::array([]), r#"{"type":"tail","turns":3}"#).len(), 0);
        assert_eq!(said(&Value::Null, r#"{"type":"tail","turns":3}"#).len(), 0);
    }

    #[test]
    fn without_tool_output_only_what_was_said_stays() {
        assert_eq!(
            said(&transcript(), r#"{"type":"tail","turns":2,"tool-output":false}"#),
            ["\"2\"", "\"two\"", "\"3\"", "\"three\""]
        );
        let blocks = json(
            r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"t"}]},
                {"role":"user-tool","content":[{"type":"tool_result","content":"r"}]},
                {"role":"assistant","content":[{"type":"thinking","text":"h"},{"type":"text","text":"a"}]}]"#,
        );
        let kept = said(&blocks, r#"{"type":"tail","turns":1,"tool-output":false}"#);
        assert_eq!(kept, ["\"q\"", r#"[{"type":"text","text":"a"}]"#]);
    }

    #[test]
    fn a_text_is_no_transcript() {
        let error = project(&json("\"text\""), &spec(r#"{"type":"tail","turns":1}"#)).unwrap_err();
        assert_eq!(error.to_string(), "A projection needs a transcript; got a string");
    }
}
