//! Packs as a whole: prompts, workflows, tools, compositions.

use super::*;

fn composed(step: Json) -> Vec<String> {
    let mut pack = pack(json!({"version": 2, "entry": "a", "states":
            {"a": {"orchestration": "composition", "composition": "work", "terminal": true}}}));
    pack["compositions"] = json!({"work": {"version": 1, "steps": [step]}});
    compile(&pack).diagnostics.into_iter().map(|found| found.message).collect()
}

#[test]
fn a_composition_step_is_told_what_its_own_kind_lacks() {
    let at = "compositions.work.steps.0";
    for (step, expected) in [
        (json!({"id": "a", "kind": "agent", "prompt_task": "p"}), format!("{at}: termination is required")),
        (
            json!({"id": "a", "kind": "agent", "prompt_task": "p", "termination": {}}),
            format!("{at}.termination: one of max_steps, tool_called is required"),
        ),
        (json!({"id": "a", "kind": "tool"}), format!("{at}: tool is required")),
        (json!({"id": "a", "kind": "prompt"}), format!("{at}: prompt_task is required")),
        (
            json!({"id": "a", "kind": "branch", "predicate": {"path": "${input.x}", "exists": true}}),
            format!("{at}: then is required"),
        ),
        (
            json!({"id": "a", "kind": "prompt", "prompt_task": "p", "input": 7}),
            format!("{at}.input: Invalid type. Expected: string/object, given: integer"),
        ),
        (
            json!({"id": "a", "kind": "promt", "prompt_task": "p"}),
            format!(
                "{at}.kind: must be one of the following: \"prompt\", \"agent\", \"tool\", \"branch\", \"parallel\""
            ),
        ),
    ] {
        assert_eq!(composed(step.clone()), [expected], "{step}");
    }
}

#[test]
fn of_alternatives_the_one_of_the_right_type_is_told() {
    let mut pack = pack(json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
    pack["requires"] = json!({"providers": [{"key": "main"}]});
    let found: Vec<String> = compile(&pack).diagnostics.into_iter().map(|found| found.message).collect();
    assert_eq!(found, ["requires.providers.0: role is required"]);
}

#[test]
fn a_misspelt_key_or_name_is_reported_at_its_place_with_the_one_that_was_meant() {
    let whole = serde_json::to_string_pretty(&pack(json!({
        "version": 2, "entry": "first",
        "states": {"first": {"prompt_task": "p", "on_event": {"Done": "last"}},
            "last": {"prompt_task": "p", "terminal": true}},
    })));
    let whole = whole.unwrap();
    for (from, to, message, meant) in [
        ("\"prompts\"", "\"promts\"", "unknown key `promts`", "prompts"),
        ("\"system_template\"", "\"sytem_template\"", "prompts.p: unknown key `sytem_template`", "system_template"),
        ("\"terminal\"", "\"termnal\"", "workflow.states.last: unknown key `termnal`", "terminal"),
        ("\"entry\": \"first\"", "\"entry\": \"fist\"", "workflow.entry \"fist\" does not reference", "first"),
        ("\"Done\": \"last\"", "\"Done\": \"lst\"", "target \"lst\" does not exist in states", "last"),
    ] {
        let text = whole.replace(from, to);
        let source = SourceFile::new("a.pack.json", text.clone());
        let found = promptpack::compile(&source).diagnostics;
        let errors: Vec<_> = found.iter().filter(|found| found.severity == Severity::Error).collect();
        let [error] = errors.as_slice() else { panic!("{to}: {errors:?}") };
        assert!(error.message.contains(message), "{}", error.message);
        assert_eq!(error.help.as_deref(), Some(format!("did you mean `{meant}`?").as_str()), "{to}");
        let line = text[..text.find(to).unwrap()].matches('\n').count() + 1;
        assert_eq!(source.position(error.span.unwrap().start).line, line, "{to}");
    }
    let mut wrong = pack(json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
    wrong["prompts"]["p"]["tool_policy"] = json!({"tool_choice": "atuo"});
    let found = compile(&wrong).diagnostics;
    assert_eq!(
        found[0].message,
        "prompts.p.tool_policy.tool_choice: \"atuo\" is not one of `auto`, `required`, `none`"
    );
    assert_eq!(found[0].help.as_deref(), Some("did you mean `auto`?"));
}

#[test]
fn a_required_provider_that_no_prompt_names_is_told() {
    let listed = |providers: Json, own: Option<&str>| {
        let mut pack =
            pack(json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
        pack["requires"] = json!({"providers": providers});
        if let Some(own) = own {
            pack["prompts"]["p"]["provider"] = json!(own);
        }
        let found = compile(&pack).diagnostics.into_iter();
        found.map(|found| (found.code, found.path.unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(listed(json!(["main"]), None), [("unasked-provider", "/requires/providers/0".to_owned())]);
    assert_eq!(listed(json!(["main"]), Some("main")), []);
}

#[test]
fn states_become_steps_with_their_events_limits_and_artifacts() {
    let compiled = compile(&pack(json!({
        "version": 2, "entry": "work", "engine": {"budget": {"max_total_visits": 9}},
        "states": {
            "work": {"prompt_task": "p", "on_event": {"Done": "end", "More": "work"}, "max_visits": 3,
                "on_max_visits": "end", "orchestration": "hybrid", "control": "agent",
                "artifacts": {"log": {"type": "text/plain", "mode": "append"}}},
            "end": {"prompt_task": "p", "terminal": true},
        },
    })));
    let ir = compiled.ir.unwrap();
    assert_eq!(ir.entry.as_deref(), Some("work"));
    assert_eq!(ir.limits.total_visits, Some(9));
    assert_eq!(ir.artifacts["log"].mode, ArtifactMode::Append);
    let work = ir.step("work").unwrap();
    assert_eq!(work.judge, Some(Judge::Event { orchestration: Orchestration::Hybrid, control: Control::Agent }));
    assert_eq!((work.max_visits, work.on_max_visits.as_deref()), (Some(3), Some("end")));
    assert_eq!(work.on[0].goto, Goto::Step("end".into()));
    assert!(ir.step("end").unwrap().terminal);
}

#[test]
fn fragments_are_the_authors_text_and_their_tokens_count() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
    pack["fragments"] = json!({"tone": "Be {{mood}}."});
    pack["prompts"]["p"]["system_template"] = json!("{{tone}} Help {{company}}.");
    pack["prompts"]["p"]["variables"] = json!([
        {"name": "mood", "type": "string", "required": false, "default": "kind"},
        {"name": "company", "type": "string", "required": true},
    ]);
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
    assert_eq!(session.system_prompt.as_deref(), Some("Be {{mood}}. Help {{company}}."));
    assert_eq!(ir.inputs["mood"].default, Some(Value::from("kind")));
    assert_eq!(ir.inputs["company"].default, None);
}

#[test]
fn a_fragment_that_contains_itself_is_an_error() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
    pack["fragments"] = json!({"loop": "{{loop}}"});
    pack["prompts"]["p"]["system_template"] = json!("{{loop}}");
    assert_eq!(codes(&pack, Severity::Error), ["fragments"]);
}

#[test]
fn tools_are_what_the_prompt_lists_without_what_its_policy_blocks() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
    pack["tools"] =
        json!({"look": {"name": "look", "description": "Looks."}, "wipe": {"name": "wipe", "description": "Wipes."}});
    pack["prompts"]["p"]["tools"] = json!(["look", "wipe"]);
    pack["prompts"]["p"]["tool_policy"] = json!({"blocklist": ["wipe"], "max_rounds": 4});
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
    assert_eq!(session.tools.as_deref(), Some(["look".to_owned()].as_slice()));
    assert_eq!(session.max_rounds, Some(4));
}

#[test]
fn tool_shapes_and_generation_parameters_reach_the_session() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
    let parameters = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    pack["tools"] = json!({"find": {"name": "find_order", "description": "Finds.", "parameters": parameters}});
    pack["prompts"]["p"]["tools"] = json!(["find"]);
    pack["prompts"]["p"]["tool_policy"] = json!({"tool_choice": "required", "max_tool_calls_per_turn": 3});
    pack["prompts"]["p"]["parameters"] = json!({
        "temperature": 0.5, "max_tokens": 99, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.5, "presence_penalty": -0.5,
    });
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
    assert_eq!(session.tools.as_deref(), Some(["find_order".to_owned()].as_slice()), "called by its name, not its key");
    assert_eq!(session.tool_shapes["find_order"].description, "Finds.");
    assert_eq!(session.max_tool_calls, Some(3));
    let generation = session.generation;
    assert_eq!((session.temperature, generation.max_tokens, generation.top_k), (Some(0.5), Some(99), Some(40)));
    assert_eq!((generation.top_p, generation.tool_required), (Some(0.9), true));
    assert_eq!((generation.frequency_penalty, generation.presence_penalty), (Some(0.5), Some(-0.5)));
}

#[test]
fn a_composition_is_a_workflow_that_the_pack_brings_along() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {
        "a": {"orchestration": "composition", "composition": "sorting", "terminal": true},
    }}));
    pack["compositions"] = json!({"sorting": {"version": 1, "output": "one", "steps": [
        {"id": "one", "kind": "prompt", "prompt_task": "p", "input": "${input.text}", "modifiers": {"retry": {"max_attempts": 3}}},
        {"id": "two", "kind": "prompt", "prompt_task": "p"},
    ]}});
    let ir = compile(&pack).ir.unwrap();
    assert!(matches!(&ir.steps[0].form, Form::Delegate { .. }));
    let work = &ir.workflows[0];
    assert_eq!((work.name.as_ref(), work.result.as_deref()), ("a-pack/sorting", Some("one")));
    assert_eq!(work.step("one").unwrap().retry.unwrap().max, 2, "attempts in all, the first one included");
    let again: opcell_ir::WorkflowIr = serde_json::from_str(&serde_json::to_string(&*ir).unwrap()).unwrap();
    assert_eq!(again, *ir, "the execution model survives JSON");
}

/// Files beside a pack, by path; whatever else is asked for lies outside.
struct Files(&'static [(&'static str, &'static str)]);

impl Companions for Files {
    fn text(&self, path: &str) -> Option<Result<String, String>> {
        if path.starts_with('/') || path.contains("..") {
            return Some(Err("it is outside the workflow's folder".to_owned()));
        }
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| Ok((*text).to_owned()))
    }
}

/// A pack with a composition that names these schemas: of its input, its output, and a step within its parallel
/// step.
fn with_schemas(input: &str, output: &str, answer: &str) -> Json {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {
        "a": {"orchestration": "composition", "composition": "sorting", "terminal": true},
    }}));
    pack["compositions"] = json!({"sorting": {"version": 1, "input_schema": input, "output_schema": output, "steps": [
        {"id": "both", "kind": "parallel", "reduce": {"strategy": "barrier", "into": "x"}, "branches": [
            {"id": "one", "kind": "prompt", "prompt_task": "p", "output_schema": answer},
            {"id": "two", "kind": "prompt", "prompt_task": "p"},
        ]},
    ]}});
    pack
}

fn compile_beside(pack: &Json, files: &'static [(&'static str, &'static str)]) -> opcell_ir::Compiled {
    promptpack::compile_with(&SourceFile::new("a.pack.json", pack.to_string()), &Files(files))
}

#[test]
fn schemas_of_compositions_are_files_beside_the_pack_or_parts_of_it() {
    let pack = with_schemas("schemas/letter.json", "schemas/all.json#/$defs/topic", "#/metadata/answer");
    let mut pack = pack;
    pack["metadata"] = json!({"answer": {"type": "string"}});
    let ir = compile_beside(
        &pack,
        &[
            ("schemas/letter.json", r#"{"type": "object"}"#),
            ("schemas/all.json", r##"{"$defs": {"topic": {"$ref": "#/$defs/word"}, "word": {"type": "string"}}}"##),
        ],
    )
    .ir
    .unwrap();
    let work = &ir.workflows[0];
    assert_eq!(work.input_schema, Some(Value::from(json!({"type": "object"}))));
    let topic = work.output_schema.as_ref().unwrap();
    assert!(topic.get("$defs").unwrap().get("word").is_some(), "a part has what is defined beside it: {topic:?}");
    let one = work.step("one").unwrap().outputs["output"].structured.as_ref().unwrap();
    assert_eq!(one.json_schema, Some(Value::from(json!({"type": "string"}))));
    assert!(work.step("two").unwrap().outputs["output"].structured.is_none());
    let again: opcell_ir::WorkflowIr = serde_json::from_str(&serde_json::to_string(&*ir).unwrap()).unwrap();
    assert_eq!(again, *ir, "the execution model survives JSON");
}

#[test]
fn a_schema_that_cannot_be_used_is_an_error_where_it_is_named() {
    let many = || {
        let patterns: Vec<_> = (0..2_000).map(|at| json!({"pattern": format!("[0-9a-f]{{30}}x{at}")})).collect();
        let text = json!({"anyOf": patterns}).to_string();
        let files: &'static [(&str, &str)] = Box::leak(Box::new([("s.json", &*text.leak())]));
        files
    };
    for (files, problem) in [
        (&[][..], "there is no file `s.json` in the pack's folder"),
        (&[("s.json", "{")], "`s.json` is not JSON"),
        (&[("s.json", r#"{"$ref": "other.json"}"#)], "points outside the schema"),
        (many(), "of its patterns cannot be matched here"),
    ] {
        for (schemas, pointer) in [
            (with_schemas("s.json", "", ""), "/compositions/sorting/input_schema"),
            (with_schemas("", "s.json", ""), "/compositions/sorting/output_schema"),
            (with_schemas("", "", "s.json"), "/compositions/sorting/steps/0/branches/0/output_schema"),
        ] {
            let compiled = compile_beside(&schemas, files);
            let errors: Vec<_> =
                compiled.diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
            let [error] = errors.as_slice() else { panic!("{problem}: {errors:?}") };
            assert_eq!((error.code, error.path.as_deref()), ("composition-schema", Some(pointer)));
            assert!(error.message.contains(problem) && error.span.is_some(), "{}", error.message);
        }
    }
    // The reference runtime checks as well, so a keyword that cannot be checked here is a warning.
    for schema in [r#"{"type": 5}"#, r#"{"pattern": "(a)\\1"}"#] {
        let compiled = compile_beside(&with_schemas("s.json", "", ""), Box::leak(Box::new([("s.json", schema)])));
        let [warning] = compiled.diagnostics.as_slice() else { panic!("{schema}: {:?}", compiled.diagnostics) };
        assert_eq!((warning.severity, warning.code), (Severity::Warning, "composition-schema"));
        assert!(warning.message.contains("not checked here") && warning.span.is_some(), "{}", warning.message);
    }
    for reference in ["../s.json", "/etc/s.json", "#/tools/none", "s.json#x"] {
        let pack = with_schemas(reference, "", "");
        assert!(compile_beside(&pack, &[("s.json", "{}")]).ir.is_none(), "{reference}");
    }
}

#[test]
fn skills_of_the_pack_are_in_its_states_unless_a_state_filters_them() {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {
        "a": {"prompt_task": "p", "on_event": {"Go": "b"}}, "b": {"prompt_task": "p", "skills": "none"},
    }}));
    pack["skills"] = json!([{"name": "greet", "description": "Greets.", "instructions": "Say {{hello}}."}]);
    let ir = compile(&pack).ir.unwrap();
    let own = |step: &str| match &ir.step(step).unwrap().form {
        Form::Session { session } => (session.own_skills.len(), session.skills.clone()),
        _ => panic!("a state is a session"),
    };
    assert_eq!(own("a"), (1, None));
    assert_eq!(own("b"), (0, Some(Vec::new())));
}

#[test]
fn content_that_the_reference_drops_stays() {
    let workflow = json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p", "control": "agent"}}});
    let spec = spec(workflow);
    assert_eq!(serde_json::to_value(&spec).unwrap()["states"]["a"]["control"], "agent");
    assert_eq!(serde_json::to_value(spec.reference_form()).unwrap()["states"]["a"].get("control"), None);
}

#[test]
fn a_finding_points_at_its_place() {
    let text = serde_json::to_string_pretty(&pack(json!({
        "version": 1, "entry": "a", "states": {"a": {"prompt_task": "nope"}},
    })))
    .unwrap();
    let compiled = promptpack::compile(&SourceFile::new("a.pack.json", text.clone()));
    let found = &compiled.diagnostics[0];
    assert_eq!(found.message, r#"workflow.states["a"].prompt_task "nope" does not reference a valid prompt"#);
    let span = found.span.unwrap();
    assert_eq!(&text[span.start..span.end], "\"nope\"");
}
