//! Packs as they are published: fragments by their full name, several prompts, rules of variables.

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
    assert_eq!((sales.name.as_ref(), sales.entry.as_deref(), sales.steps.len()), ("p/prompts/sales", Some("sales"), 1));
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
    let look = variable(json!({"name": "v", "type": "string", "required": true, "validation": {"pattern": "(?<=a)b"}}));
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
