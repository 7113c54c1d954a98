//! PromptPack where Opcell does better than the reference, and where its own surface must stay as it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests are tests")]

use opcell_ir::ir::{ArtifactMode, Control, Form, Goto, Judge, Orchestration};
use opcell_ir::{Severity, SourceFile};
use opcell_types::Value;
use opcell_workflow::companions::Companions;
use opcell_workflow::promptpack::template::{self, TemplateError, Variables, render, render_nested};
use opcell_workflow::promptpack::{self, Spec};
use serde_json::{Value as Json, json};

fn spec(json: Json) -> Spec {
    Spec::from_config(&Value::from(json)).unwrap().unwrap()
}

/// A pack with one prompt `p` and this workflow.
fn pack(workflow: Json) -> Json {
    json!({
        "id": "a-pack", "name": "A pack", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Be brief."}},
        "workflow": workflow,
    })
}

fn compile(pack: &Json) -> opcell_ir::Compiled {
    promptpack::compile(&SourceFile::new("a.pack.json", serde_json::to_string_pretty(pack).unwrap()))
}

/// The codes of all findings of one severity, sorted.
fn codes(pack: &Json, severity: Severity) -> Vec<&'static str> {
    let mut codes: Vec<_> =
        compile(pack).diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code).collect();
    codes.sort_unstable();
    codes
}

mod templates {
    use super::*;

    fn variables(entries: &[(&str, &str)]) -> Variables {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        let values = variables(&[("artifacts.note", "see {{secret}}"), ("secret", "hunter2")]);
        assert_eq!(render("Note: {{artifacts.note}}", &values).unwrap(), "Note: see {{secret}}");
    }

    #[test]
    fn unset_artifacts_and_an_absent_summary_are_empty() {
        assert_eq!(render("[{{artifacts.sha}}|{{workflow_context}}]", &Variables::new()).unwrap(), "[|]");
    }

    #[test]
    fn a_token_that_names_nothing_is_an_error_that_names_it() {
        let error = render("{{company}} and {{ spaced }}", &Variables::new()).unwrap_err();
        assert_eq!(error.to_string(), "unresolved template placeholders: [{{company}} {{ spaced }}]");
    }

    #[test]
    fn required_variables_must_be_there_and_not_empty() {
        let values = variables(&[("a", "x"), ("b", "")]);
        let required = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let error = template::require(&required, &values).unwrap_err();
        assert_eq!(error.to_string(), "missing required variables: [b c]");
    }

    #[test]
    fn a_value_that_refers_to_itself_cannot_blow_up_the_reference_rule() {
        let bomb = "{{n}}".repeat(5);
        assert_eq!(render_nested("{{n}}", &variables(&[("n", &bomb)])), Err(TemplateError::TooLarge));
        assert_eq!(render("{{n}}", &variables(&[("n", &bomb)])).unwrap(), bomb);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(template::shorten("naïve", 3), "na...");
        assert_eq!(template::shorten("naïve", 10), "naïve");
    }
}

mod packs {
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
        let mut pack =
            pack(json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
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
        let mut wrong =
            pack(json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
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
        pack["tools"] = json!({"look": {"name": "look", "description": "Looks."}, "wipe": {"name": "wipe", "description": "Wipes."}});
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
        assert_eq!(
            session.tools.as_deref(),
            Some(["find_order".to_owned()].as_slice()),
            "called by its name, not its key"
        );
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
    fn what_the_reference_drops_is_kept() {
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
}

mod agents {
    use super::*;
    use opcell_ir::agent::{input, parameters};

    /// `boss` calls `clerk`, who calls `boss` and `cook`; `maid` is called by no one.
    fn house() -> Json {
        let prompt = |id: &str, tools: Json| json!({"id": id, "name": id.to_uppercase(), "version": "1.0.0", "system_template": "Be brief.", "tools": tools});
        json!({
            "id": "house", "name": "House", "version": "1.0.0",
            "template_engine": {"version": "v1", "syntax": "{{variable}}"},
            "prompts": {
                "boss": prompt("boss", json!(["bell", "clerk"])),
                "clerk": prompt("clerk", json!(["boss", "cook"])),
                "cook": prompt("cook", json!([])),
                "maid": prompt("maid", json!([])),
            },
            "tools": {"bell": {"name": "bell", "description": "Rings."}},
            "agents": {"entry": "boss", "members": {
                "boss": {}, "clerk": {"description": "Keeps the books."}, "cook": {}, "maid": {},
            }},
        })
    }

    #[test]
    fn members_among_a_prompt_s_tools_are_called_and_come_along_with_the_pack() {
        let ir = compile(&house()).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
        assert_eq!(session.tools.as_deref(), Some(&["bell".to_owned()][..]), "an agent is not a tool of the host");
        let clerk = &session.agents["clerk"];
        assert_eq!((clerk.description.as_str(), clerk.workflow.as_ref()), ("Keeps the books.", "house/agents/clerk"));
        let mut along: Vec<&str> = ir.workflows.iter().map(|own| own.name.as_ref()).collect();
        along.sort_unstable();
        assert_eq!(along, ["house/agents/boss", "house/agents/clerk", "house/agents/cook"], "each once, no one else");
        let clerk = ir.workflows.iter().find(|own| own.name.ends_with("clerk")).unwrap();
        let Form::Session { session } = &clerk.steps[0].form else { panic!("a session") };
        assert_eq!(session.tools.as_deref(), Some(&[][..]), "none of its caller's");
        assert_eq!(session.agents["cook"].description, "COOK", "its name, where nothing else describes it");
        assert!(clerk.steps[0].terminal && clerk.workflows.is_empty());
        let again: opcell_ir::WorkflowIr = serde_json::from_str(&serde_json::to_string(&*ir).unwrap()).unwrap();
        assert_eq!(again, *ir, "the execution model survives JSON");
    }

    #[test]
    fn what_a_policy_blocks_is_not_called_either() {
        let mut pack = house();
        pack["prompts"]["boss"]["tool_policy"] = json!({"blocklist": ["clerk"]});
        let ir = compile(&pack).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
        assert!(session.agents.is_empty());
    }

    #[test]
    fn a_member_with_a_state_is_the_workflow_from_there_and_nobody_speaks_in_between() {
        let mut pack = house();
        pack["agents"]["members"]["clerk"] = json!({"state": "books"});
        pack["workflow"] = json!({"version": 2, "entry": "door", "engine": {"budget": {"max_total_visits": 9}}, "states": {
            "door": {"prompt_task": "boss", "on_event": {"In": "books"}},
            "books": {"prompt_task": "clerk", "on_event": {"Out": "door", "Shut": "end"}},
            "end": {"prompt_task": "cook", "terminal": true},
        }});
        let ir = compile(&pack).ir.unwrap();
        let clerk = ir.workflows.iter().find(|own| own.name.ends_with("clerk")).unwrap();
        assert_eq!((clerk.entry.as_deref(), clerk.steps.len(), clerk.limits.total_visits), (Some("books"), 3, Some(9)));
        let controls = |ir: &opcell_ir::WorkflowIr| {
            let all: Vec<_> = ir.steps.iter().map(|step| step.judge.clone()).collect();
            all.into_iter()
                .map(|judge| match judge {
                    Some(Judge::Event { control, .. }) => control,
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(controls(clerk), [Control::Agent; 3]);
        assert_eq!(controls(&ir), [Control::User; 3]);
    }

    #[test]
    fn an_agent_is_given_what_its_caller_was_given_and_the_query() {
        let given = Value::from(json!({"company": "Acme", "input": "hello"}));
        assert_eq!(input(&given, "why"), Value::from(json!({"company": "Acme", "input": "why"})));
        assert_eq!(input(&Value::from("hello"), "why"), Value::from("why"));
        assert_eq!(parameters().get("required"), Some(&Value::from(json!(["query"]))));
    }

    #[test]
    fn a_misused_agent_is_told() {
        let mut pack = house();
        pack["prompts"]["boss"]["tools"] = json!(["boss", "clerk", "cook", "guest", "bell"]);
        pack["prompts"]["guest"] = pack["prompts"]["maid"].clone();
        pack["tools"]["clerk"] = json!({"name": "clerk", "description": "Another."});
        pack["agents"]["members"]["cook"] = json!({"input_modes": ["image/*"]});
        let expected = ["agent-of-itself", "agent-or-tool", "agent-without-text", "undeclared-tool"];
        let mut reported = codes(&pack, Severity::Warning);
        reported.dedup();
        assert_eq!(reported, expected, "{:?}", compile(&pack).diagnostics);
        let ir = compile(&pack).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
        assert_eq!(session.agents.keys().collect::<Vec<_>>(), ["clerk", "cook"]);
        assert_eq!(session.tools.as_deref(), Some(&["guest".to_owned(), "bell".to_owned()][..]));
    }
}

mod checks {
    use super::*;

    fn with_states(states: Json) -> Json {
        pack(json!({"version": 1, "entry": "a", "states": states}))
    }

    #[test]
    fn states_that_nothing_leads_to_and_states_without_a_way_out_are_told() {
        let pack = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b", "End": "z"}},
            "b": {"prompt_task": "p", "on_event": {"Stay": "b"}},
            "z": {"prompt_task": "p", "terminal": true},
            "island": {"prompt_task": "p", "terminal": true},
        }));
        assert_eq!(codes(&pack, Severity::Warning), ["no-terminal-path", "pack-workflow", "unreachable-state"]);
    }

    #[test]
    fn a_fallback_to_itself_is_an_error_and_a_ring_of_fallbacks_a_warning() {
        let own = with_states(
            json!({"a": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "a"}}),
        );
        assert_eq!(codes(&own, Severity::Error), ["self-fallback"]);
        let ring = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b", "End": "z"}, "max_visits": 1, "on_max_visits": "b"},
            "b": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "a"},
            "z": {"prompt_task": "p", "terminal": true},
        }));
        let warnings = codes(&ring, Severity::Warning);
        assert_eq!(warnings.iter().filter(|code| **code == "redirect-cycle").count(), 2);
    }

    #[test]
    fn a_loop_that_only_models_walk_needs_a_bound() {
        let talk = |b: Json| {
            json!({
                "a": {"prompt_task": "p", "on_event": {"Go": "b"}, "control": "agent"},
                "b": b,
                "z": {"prompt_task": "p", "terminal": true},
            })
        };
        let reported = |pack: &Json| {
            let warnings = codes(pack, Severity::Warning);
            warnings.iter().filter(|code| **code == "unbounded-agent-loop").count()
        };
        let free =
            with_states(talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}, "control": "agent"})));
        assert_eq!(reported(&free), 1, "one loop of two states");
        let waits = with_states(talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}})));
        assert_eq!(reported(&waits), 0, "someone has to speak in `b`");
        let limited =
            talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}, "control": "agent", "max_visits": 3}));
        assert_eq!(reported(&with_states(limited)), 0);
        let mut budget = free;
        budget["workflow"]["engine"] = json!({"budget": {"max_total_visits": 9}});
        assert_eq!(reported(&budget), 0);
    }

    #[test]
    fn an_artifact_that_only_a_fragment_uses_must_be_declared_too() {
        let mut pack = with_states(json!({"a": {"prompt_task": "p", "terminal": true}}));
        pack["fragments"] = json!({"notes": "So far: {{artifacts.ghost}}"});
        pack["prompts"]["p"]["system_template"] = json!("{{notes}}");
        assert_eq!(codes(&pack, Severity::Error), ["unknown-artifact"]);
    }

    #[test]
    fn a_ghost_fallback_is_an_error() {
        let pack = with_states(
            json!({"a": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "ghost"}}),
        );
        assert_eq!(codes(&pack, Severity::Error), ["pack-workflow"]);
    }

    #[test]
    fn an_artifact_has_one_mode() {
        let pack = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b"}, "artifacts": {"x": {"type": "text/plain", "mode": "append"}}},
            "b": {"prompt_task": "p", "artifacts": {"x": {"type": "text/plain"}}},
        }));
        assert_eq!(codes(&pack, Severity::Error), ["conflicting-artifact-modes"]);
    }

    #[test]
    fn artifacts_that_no_state_declares_are_told_with_a_suggestion() {
        let mut pack =
            with_states(json!({"a": {"prompt_task": "p", "artifacts": {"commit_sha": {"type": "text/plain"}}}}));
        pack["prompts"]["p"]["system_template"] = json!("At {{artifacts.commit_sh}}");
        let compiled = compile(&pack);
        assert_eq!(compiled.diagnostics[0].code, "unknown-artifact");
        assert_eq!(compiled.diagnostics[0].help.as_deref(), Some("did you mean commit_sha?"));
    }

    #[test]
    fn malformed_budgets_negative_limits_and_null_states_are_errors() {
        let budget = |budget: Json| {
            let mut pack = with_states(json!({"a": {"prompt_task": "p"}}));
            pack["workflow"]["engine"] = json!({"budget": budget});
            codes(&pack, Severity::Error)
        };
        assert_eq!(budget(json!({"max_total_visits": "many"})), ["pack-schema"]);
        assert_eq!(budget(json!({"max_tool_calls": -1})), ["pack-schema"]);
        assert_eq!(budget(json!({"max_visits": 3})), ["pack-schema"]);
        assert_eq!(
            codes(&with_states(json!({"a": {"prompt_task": "p", "max_visits": -2}})), Severity::Error),
            ["pack-schema"]
        );
        assert_eq!(
            codes(&with_states(json!({"a": {"prompt_task": "p"}, "b": null})), Severity::Error),
            ["pack-schema"]
        );
        assert!(Spec::from_config(&Value::from(json!({"version": 1, "entry": "a", "states": {"a": null}}))).is_err());
    }

    #[test]
    fn validators_become_rules_of_the_session_and_one_that_would_guard_nothing_is_refused() {
        let mut pack = with_states(json!({"a": {"prompt_task": "p", "terminal": true}}));
        pack["prompts"]["p"]["validators"] = json!([
            {"type": "max_length", "params": {"max_characters": 9}},
            {"type": "banned_words", "fail_on_violation": false, "params": {"words": ["x"]}, "message": "No."},
            {"type": "sentiment", "enabled": false}
        ]);
        assert_eq!(codes(&pack, Severity::Warning), ["deprecated-field"]);
        let ir = compile(&pack).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!() };
        let names: Vec<&str> = session.guards.iter().map(|guard| guard.name.as_str()).collect();
        assert_eq!(names, ["max_length", "banned_words"]);
        for wrong in [
            json!({"type": "sentiment"}),
            json!({"type": "max_length"}),
            json!({"type": "max_length", "params": {"max_charaters": 9}}),
            json!({"type": "regex_match", "params": {"pattern": "("}}),
        ] {
            let mut pack = pack.clone();
            pack["prompts"]["p"]["validators"] = json!([wrong]);
            assert_eq!(codes(&pack, Severity::Error), ["unenforced-validator"], "{wrong}");
        }
        for (wrong, says) in [
            (json!({"type": "max_length", "params": {"max_charaters": 9}}), "did you mean max_characters?"),
            (
                json!({"type": "max_length", "params": {"max_length": 9}}),
                "max_length takes: max_characters, max_tokens",
            ),
            (json!({"type": "regex", "params": {"pattern": "^(?!x)"}}), "read here: look-around"),
        ] {
            let mut pack = pack.clone();
            pack["prompts"]["p"]["validators"] = json!([wrong]);
            let found = compile(&pack).diagnostics;
            let told = format!("{}; {}", found[0].message, found[0].help.as_deref().unwrap_or_default());
            assert!(told.contains(says) && !told.contains('\n'), "{told}");
        }
        let found = compile(&pack).diagnostics;
        let deprecated = found.iter().find(|found| found.code == "deprecated-field").unwrap();
        assert_eq!(deprecated.path.as_deref(), Some("/prompts/p/validators/1/fail_on_violation"));
    }

    #[test]
    fn an_event_without_a_name_is_an_error() {
        let pack = with_states(json!({"a": {"prompt_task": "p", "on_event": {"": "b"}}, "b": {"prompt_task": "p"}}));
        assert_eq!(codes(&pack, Severity::Error), ["empty-event"]);
    }

    #[test]
    fn unknown_compositions_and_agent_states_are_errors() {
        let mut pack =
            with_states(json!({"a": {"orchestration": "composition", "composition": "nope", "terminal": true}}));
        pack["agents"] = json!({"entry": "p", "members": {"p": {"state": "ghost"}}});
        assert_eq!(codes(&pack, Severity::Error), ["unknown-composition", "unknown-state"]);
    }

    #[test]
    fn many_states_are_checked_in_linear_time() {
        let states: serde_json::Map<String, Json> = (0..20_000)
            .map(|n| {
                let next = format!("s{}", n + 1);
                (
                    format!("s{n}"),
                    json!({"prompt_task": "p", "on_event": {"Go": next}, "max_visits": 1, "on_max_visits": next}),
                )
            })
            .chain([("s20000".to_owned(), json!({"prompt_task": "p", "terminal": true}))])
            .collect();
        let spec = spec(json!({"version": 1, "entry": "s0", "states": states}));
        let found = promptpack::validate(&spec, &["p".to_owned()]);
        assert!(!found.has_errors());
    }
}

/// Packs as they are published: fragments by their full name, several prompts, rules of variables.
mod published {
    use super::*;
    use opcell_ir::ir::WorkflowIr;
    use std::sync::Arc;

    fn prompts() -> Json {
        json!({
            "id": "p", "name": "P", "version": "1.0.0",
            "template_engine": {"version": "v1", "syntax": "{{variable}}"},
            "fragments": {"tone": "Be kind."},
            "prompts": {
                "support": {"id": "support", "name": "S", "version": "1.0.0", "system_template": "Help. {{fragments.tone}}"},
                "sales": {"id": "sales", "name": "S", "version": "1.0.0", "system_template": "Sell {{ what }}. {{tone}}",
                    "variables": [{"name": "what", "type": "string", "required": true}]},
            },
        })
    }

    fn template(ir: &WorkflowIr, step: &str) -> String {
        let Form::Session { session } = &ir.step(step).unwrap().form else { panic!("a prompt is a session") };
        session.system_prompt.clone().unwrap()
    }

    fn prompt(pack: &Json, key: &str) -> Result<Arc<WorkflowIr>, String> {
        let source = SourceFile::new("a.pack.json", pack.to_string());
        let compiled = promptpack::compile_prompt(&source, &opcell_workflow::companions::NoCompanions, key);
        compiled.ir.ok_or_else(|| {
            let found = &compiled.diagnostics[0];
            format!("{}: {}; {}", found.code, found.message, found.help.as_deref().unwrap_or_default())
        })
    }

    #[test]
    fn a_fragment_is_named_with_its_prefix_or_without() {
        let compiled = compile(&prompts());
        assert!(compiled.is_clean(), "{:?}", compiled.diagnostics);
        let ir = compiled.ir.unwrap();
        assert_eq!(template(&ir, "support"), "Help. Be kind.");
        assert_eq!(template(&ir, "sales"), "Sell {{ what }}. Be kind.");
    }

    #[test]
    fn a_valid_prompt_of_a_pack_with_an_invalid_one_runs_and_the_other_is_named() {
        let mut pack = prompts();
        pack["prompts"]["sales"] = json!({"id": "sales"});
        assert!(compile(&pack).ir.is_none());
        let source = SourceFile::new("a.pack.json", pack.to_string());
        let of = |key| promptpack::compile_prompt(&source, &opcell_workflow::companions::NoCompanions, key);
        let support = of("support");
        assert_eq!(template(support.ir.as_ref().unwrap(), "support"), "Help. Be kind.");
        let [left_out] = support.diagnostics.as_slice() else { panic!("{:?}", support.diagnostics) };
        assert_eq!(left_out.message, "the prompt `sales` is left out: it is not as packs are");
        assert!(of("sales").ir.is_none());
        pack["id"] = json!(7);
        let source = SourceFile::new("a.pack.json", pack.to_string());
        let compiled = promptpack::compile_prompt(&source, &opcell_workflow::companions::NoCompanions, "support");
        assert!(compiled.ir.is_none(), "the pack itself is not as packs are");
    }

    #[test]
    fn an_unknown_fragment_is_an_error_that_lists_what_there_is() {
        let mut pack = prompts();
        pack["fragments"]["style"] = json!("Plain.");
        pack["prompts"]["support"]["system_template"] = json!("Help. {{fragments.ton}} {{ fragments.zebra }}");
        let found = compile(&pack).diagnostics;
        let said: Vec<_> = found.iter().map(|found| (found.code, found.help.as_deref().unwrap_or_default())).collect();
        assert_eq!(
            said,
            [
                ("unknown-fragment", "did you mean fragments.tone? the pack has: style, tone"),
                ("unknown-fragment", "the pack's fragments are: style, tone"),
            ]
        );
        pack.as_object_mut().unwrap().remove("fragments");
        assert_eq!(codes(&pack, Severity::Error), ["unknown-fragment", "unknown-fragment"]);
    }

    #[test]
    fn what_other_template_engines_do_is_a_warning() {
        let warned = |change: &dyn Fn(&mut Json)| -> Vec<String> {
            let mut pack = prompts();
            change(&mut pack);
            let found = compile(&pack).diagnostics;
            assert!(found.iter().all(|found| found.severity == Severity::Warning), "{found:?}");
            let help = |found: &opcell_ir::Diagnostic| found.help.clone().unwrap_or_default();
            found.iter().map(|found| format!("{}; {}", found.message, help(found))).collect()
        };
        let engine = |key: &'static str, value: Json| warned(&move |pack| pack["template_engine"][key] = value.clone());
        for (key, value, says) in [
            ("version", json!("v2"), r#"template_engine.version "v2" is not known: templates are read as "v1""#),
            ("syntax", json!("${variable}"), r#"template_engine.syntax "${variable}" is not read: such tokens stay"#),
            ("syntax", json!("{variable}"), r#"template_engine.syntax "{variable}" is not read"#),
            ("features", json!(["fragments", "loops"]), r#"template_engine.features lists "loops", which are not run"#),
        ] {
            let [found] = engine(key, value).try_into().unwrap();
            assert!(found.starts_with(says), "{found}");
        }
        for (key, value) in [
            ("version", json!("1.0")),
            ("version", json!("v1.2")),
            ("syntax", json!("{{ variable }}")),
            ("syntax", json!("mustache")),
            ("features", json!(["basic_substitution", "fragments"])),
        ] {
            assert_eq!(engine(key, value.clone()), Vec::<String>::new(), "{value}");
        }
        let token = |text: &'static str| {
            let [found] =
                warned(&move |pack| pack["prompts"]["sales"]["system_template"] = json!(text)).try_into().unwrap();
            found
        };
        for text in ["{{#if what}}", "{{what | upper}}", "{{}}", "{{'x'}}", "{{> tone}}", "{{else}}", "{{a b}}"] {
            assert!(token(text).contains("which is not a variable"), "{text}: {}", token(text));
        }
        assert!(token("{{fragment.tone}}").ends_with("did you mean {{fragments.tone}}?"));
        assert!(token("{{whta}}").ends_with("did you mean {{what}}?"));
        assert!(token("{{user.name}}").ends_with("; add it to `variables`"));
    }

    #[test]
    fn several_prompts_without_a_workflow_are_checked_and_a_run_has_to_choose() {
        let ir = compile(&prompts()).ir.unwrap();
        assert_eq!(ir.entry.as_deref(), Some(""));
        assert_eq!(ir.steps.len(), 2);
        assert!(!ir.advertise, "no model can call what has to be told where it begins");
        let mut broken = prompts();
        broken["prompts"]["sales"]["validators"] = json!([{"type": "nothing_of_ours"}]);
        assert_eq!(codes(&broken, Severity::Error), ["unenforced-validator"], "every prompt is checked");
    }

    #[test]
    fn a_chosen_prompt_is_asked_by_itself_and_needs_its_own_variables_only() {
        let sales = prompt(&prompts(), "sales").unwrap();
        assert_eq!(
            (sales.name.as_ref(), sales.entry.as_deref(), sales.steps.len()),
            ("p/prompts/sales", Some("sales"), 1)
        );
        assert!(sales.inputs.contains_key("what"));
        assert!(prompt(&prompts(), "support").unwrap().inputs.is_empty());
        let unknown = prompt(&prompts(), "suport").unwrap_err();
        assert_eq!(
            unknown,
            "unknown-prompt: the pack has no prompt `suport`; did you mean `support`? the pack's prompts are: support, sales"
        );
        let workflow = json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}});
        let own = prompt(&pack(workflow), "p").unwrap();
        assert_eq!((own.steps.len(), own.entry.as_deref()), (1, Some("p")));
    }

    fn variable(variable: Json) -> Json {
        let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
        pack["prompts"]["p"]["system_template"] = json!("Say {{v}}.");
        pack["prompts"]["p"]["variables"] = json!([variable]);
        pack
    }

    #[test]
    fn the_rules_of_variables_are_part_of_what_a_run_is_given() {
        let fits = |declared: Json, given: Json| {
            let compiled = compile(&variable(declared));
            assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
            let ir = compiled.ir.unwrap();
            let Some(schema) = &ir.input_schema else { return true };
            let schema = opcell_schema::Schema::compile(&Json::from(schema)).unwrap();
            schema.check(&json!({"v": given, "text": "what else is given is free"})).is_ok()
        };
        let of = |kind: &str, rules: Json| json!({"name": "v", "type": kind, "required": true, "validation": rules});
        for (kind, rules, good, bad) in [
            ("string", json!({"pattern": "^A"}), json!("Ada"), json!("Eve")),
            ("string", json!({"min_length": 2, "max_length": 3}), json!("ab"), json!("abcd")),
            ("string", json!({"enum": ["low", 3]}), json!("3"), json!("high")),
            ("number", json!({"minimum": 1, "maximum": 5}), json!(5), json!(5.5)),
            ("number", json!({}), json!(5), json!("five")),
            ("boolean", json!({}), json!(true), json!("yes")),
            ("array", json!({}), json!([1]), json!({})),
            ("object", json!({}), json!({}), json!([])),
        ] {
            assert!(fits(of(kind, rules.clone()), good.clone()), "{kind} {rules} {good}");
            assert!(!fits(of(kind, rules.clone()), bad.clone()), "{kind} {rules} {bad}");
            assert!(fits(of(kind, rules), Json::Null), "null is not given");
        }
        for given in [json!("a"), json!(12_345_678), json!(true)] {
            assert!(fits(of("string", json!({})), given), "a text without rules may be written as a number");
        }
        assert!(fits(of("money", json!({})), json!(["anything"])), "a type of the host's own is not checked");
    }

    #[test]
    fn a_number_that_is_the_default_of_a_text_keeps_its_digits() {
        let default = |kind: &str, written: &str| {
            let pack = variable(json!({"name": "v", "type": kind, "required": false, "default": 12.5}));
            let text = format!("\u{feff}{pack}").replace("12.5", written);
            let compiled = promptpack::compile(&SourceFile::new("a.pack.json", text));
            assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
            compiled.ir.unwrap().inputs["v"].default.as_ref().map(opcell_ir::print::json)
        };
        for written in ["1.10", "5.0", "1e3", "-0", "7"] {
            assert_eq!(default("string", written).as_deref(), Some(written));
        }
        assert_eq!(default("number", "1.10").as_deref(), Some("1.1"));
    }

    #[test]
    fn a_rule_that_cannot_be_enforced_is_an_error_and_a_default_that_breaks_one_a_warning() {
        let look =
            variable(json!({"name": "v", "type": "string", "required": true, "validation": {"pattern": "(?<=a)b"}}));
        assert_eq!(codes(&look, Severity::Error), ["unenforced-validation"]);
        let default = json!({"name": "v", "type": "number", "required": false, "default": "five"});
        assert_eq!(codes(&variable(default), Severity::Warning), ["default-breaks-rules"]);
    }

    #[test]
    fn a_guard_is_never_turned_round() {
        let of = |validator: Json| {
            let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
            pack["prompts"]["p"]["validators"] = json!([validator]);
            pack
        };
        let hidden = json!({"type": "regex", "params": {"pattern": "secret", "expect_match": false, "message": "No."}});
        let ir = compile(&of(hidden)).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
        assert_eq!(session.guards[0].rewrite("the secret"), Some("No.".to_owned()));
        assert_eq!(session.guards[0].rewrite("nothing"), None);
        let long = json!({"type": "length", "params": {"max_characters": 9, "direction": "output"}});
        assert!(compile(&of(long)).is_clean());
        let input = json!({"type": "regex", "params": {"pattern": "x", "direction": "input"}});
        let found = compile(&of(input)).diagnostics;
        assert!(found[0].message.contains("only answers are guarded"), "{}", found[0].message);
        let other = json!({"type": "regex_matches", "params": {"pattern": "x", "negate": true}});
        let found = compile(&of(other)).diagnostics;
        assert!(!found[0].help.as_deref().unwrap_or_default().contains("did you mean"), "{:?}", found[0].help);
    }

    #[test]
    fn what_rfc_0009_warns_of_is_warned_of() {
        let mut pack = pack(json!({
            "version": 2, "entry": "a", "engine": {"budget": {"max_total_visits": 3}},
            "states": {
                "a": {"prompt_task": "q", "on_event": {"Go": "b"}, "max_visits": 5,
                    "artifacts": {"x": {"type": "text/plain"}}},
                "b": {"prompt_task": "p", "terminal": true},
            },
        }));
        pack["prompts"]["q"] =
            json!({"id": "q", "name": "Q", "version": "1.0.0", "system_template": "See {{artifacts.x}}."});
        pack["prompts"]["p"]["system_template"] = json!("Read {{artifacts.x}}.");
        assert_eq!(codes(&pack, Severity::Warning), ["undeclared-artifact", "unreachable-limit"]);
    }
}
