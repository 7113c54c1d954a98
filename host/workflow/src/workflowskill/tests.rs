use super::*;

fn found(text: &str) -> Vec<(String, &'static str)> {
    let file = SourceFile::new("triage.yaml", text);
    compile(&file)
        .diagnostics
        .iter()
        .map(|d| {
            let position = file.position(d.span.unwrap().start);
            (format!("{}:{}", position.line, position.column), d.code)
        })
        .collect()
}

fn step(body: &str) -> String {
    format!(
        "inputs:\n  n: {{ type: int }}\n  list: {{ type: array }}\nsteps:\n  - id: a\n    type: tool\n    tool: t\n{body}"
    )
}

#[test]
fn bare_yaml_and_markdown_compile_to_the_same_steps() {
    let yaml = "steps:\n  - id: a\n    type: exit\n    status: success\n";
    let bare = compile(&SourceFile::new("some/hello.yaml", yaml)).ir.unwrap();
    let text = format!("---\nname: hello\ndescription: d\n---\n# Title\n\n```workflow\n{yaml}```\n");
    let markdown = compile(&SourceFile::new("other.md", text)).ir.unwrap();
    assert_eq!(bare.name.as_ref(), "hello");
    assert_eq!(markdown.name.as_ref(), "hello");
    assert_eq!(bare.steps, markdown.steps);
}

#[test]
fn undefined_steps_and_misspelt_front_matter_have_a_suggestion() {
    let text = "---\nname: x\ndescripton: d\n---\n\n```workflow\noutputs:\n  o: { type: object, value: $steps.helo.output }\nsteps:\n  - id: hello\n    type: tool\n    tool: t\n```\n";
    let file = SourceFile::new("x.md", text);
    let found: Vec<_> = compile(&file)
        .diagnostics
        .into_iter()
        .map(|found| (file.position(found.span.unwrap().start).line, found.help.unwrap_or_default()))
        .collect();
    assert_eq!(
        found,
        [
            (3, "`descripton` is not a key that is required; did you mean `description`?".to_owned()),
            (8, "did you mean `hello`?".to_owned()),
        ]
    );
}

#[test]
fn the_ir_survives_json() {
    let text = step(
        "    each: $inputs.list\n    delay: 1s\n    inputs: { x: { type: int, value: $inputs.n }, y: { type: string, value: 'a ${item}' } }\n  - id: b\n    type: transform\n    operation: map\n    expression: { v: $item }\n    inputs: { items: { type: array, value: $steps.a.output } }\n",
    );
    let ir = compile(&SourceFile::new("x.yaml", text)).ir.unwrap();
    let json = serde_json::to_string(&*ir).unwrap();
    assert_eq!(serde_json::from_str::<WorkflowIr>(&json).unwrap(), *ir);
}

#[test]
fn wrong_expressions_are_found_where_they_are_wrong() {
    assert_eq!(found(&step("    condition: $inputs.n = 1\n")), [("8:26".to_owned(), "expression-syntax")]);
    assert_eq!(
        found(&step("    inputs: { x: { type: string, value: \"a ${inputs.n +}\" } }\n")),
        [("8:55".to_owned(), "expression-syntax")]
    );
}

#[test]
fn references_that_give_nothing_are_found() {
    let text = step(
        "    inputs: { x: { type: string, value: $inputs.m } }\n  - id: b\n    type: transform\n    operation: filter\n    where: $item == $steps.c.output\n  - id: c\n    type: transform\n    operation: filter\n    where: $steps[\"nope\"].output == $env.HOME\n",
    );
    assert_eq!(
        found(&text),
        [
            ("8:41".to_owned(), "undeclared-input"),
            ("9:9".to_owned(), "transform-without-array"),
            ("12:12".to_owned(), "later-step"),
            ("13:9".to_owned(), "transform-without-array"),
            ("16:12".to_owned(), "unknown-step"),
            ("16:12".to_owned(), "unknown-reference"),
        ]
    );
}

#[test]
fn an_unquoted_bang_is_told() {
    let text = step("    condition: !$inputs.n\n");
    let compiled = compile(&SourceFile::new("x.yaml", text));
    let [finding] = compiled.diagnostics.as_slice() else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!(finding.code, "unquoted-bang");
    assert_eq!(finding.help.as_deref(), Some("put it in quotes: '!$inputs.n'"));
}

#[test]
fn what_has_no_effect_is_told() {
    let codes = |text: &str| found(text).into_iter().map(|(_, code)| code).collect::<Vec<_>>();
    assert_eq!(codes(&step("    on_eror: ignore\n")), ["unknown-key"]);
    assert_eq!(codes(&step("    retry: { max: 1, delay: soon, backoff: 2 }\n")), ["bad-duration"]);
    assert_eq!(codes(&step("    each: $inputs.list\n")), ["each-without-delay"]);
    assert_eq!(codes(&step("    inputs: { x: { type: string, value: $inputs.n } }\n")), ["type-conflict"]);
    assert_eq!(codes(&step("    inputs: { x: { type: array, value: [$inputs.n] } }\n")), ["nested-reference"]);
    assert_eq!(
        codes(&step(
            "  - id: c\n    type: conditional\n    inputs: {}\n    outputs: {}\n    condition: 'true'\n    then: [d]\n  - id: d\n    type: conditional\n    condition: 'true'\n    then: [c, d]\n"
        )),
        ["endless-branches", "endless-branches", "early-branch"]
    );
}

#[test]
fn types_that_do_not_meet_are_found() {
    let text = step(
        "    inputs: { x: { type: string, value: '${inputs.n}' }, y: { type: int, value: 'n ${inputs.n}' } }\n    outputs: { o: { type: array, value: $result.o } }\n  - id: b\n    type: transform\n    operation: sort\n    field: k\n    inputs: { items: { type: array, value: $steps.a.output.o }, one: { type: array, value: $steps.a.output } }\n  - id: c\n    type: tool\n    tool: t\n    each: $steps.b.output\n    delay: 1s\noutputs:\n  wrong: { type: array, value: $steps.b.output }\n  right: { type: object, value: $steps.b.output }\n  all: { type: array, value: $steps.c.output }\n",
    );
    assert_eq!(
        found(&text),
        ["8:41", "8:81", "14:92", "18:11", "21:32"].map(|place| (place.to_owned(), "type-conflict"))
    );
}

#[test]
fn extensions_are_read_and_checked() {
    let text = step("    each: $inputs.list\n    x-opcell: { timeout: 30s, concurrency: 4 }\n");
    let ir = compile(&SourceFile::new("x.yaml", text)).ir.unwrap();
    assert_eq!(ir.steps[0].timeout_ms, Some(30_000));
    assert_eq!(ir.steps[0].each.as_ref().unwrap().concurrency, Some(4));
    for wrong in ["{ timeout: soon }", "{ concurrency: 0 }", "{ concurency: 2 }", "7"] {
        let text = step(&format!("    x-opcell: {wrong}\n"));
        let compiled = compile(&SourceFile::new("x.yaml", text));
        assert_eq!(compiled.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["x-opcell"], "{wrong}");
        assert!(compiled.ir.is_none());
    }
}

#[test]
fn schema_errors_are_precise_beside_the_references_own() {
    let error = parse_workflow_yaml("steps:\n  - id: a\n    type: tol\n    condition: true\n").unwrap_err();
    assert_eq!(error.details, [Issue { path: "steps.0".into(), message: "Invalid input".into() }]);
    let messages: Vec<&str> = error.diagnostics.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Invalid option: expected one of \"tool\"|\"transform\"|\"conditional\"|\"exit\"; did you mean \"tool\"?",
            "expected a string, got boolean: put the value in quotes"
        ]
    );
}

#[test]
fn broken_front_matter_is_a_warning() {
    let text = "---\nname: [x\n---\n```workflow\nsteps:\n  - id: a\n    type: exit\n    status: success\n```\n";
    let compiled = compile(&SourceFile::new("x.md", text));
    assert!(compiled.is_ok() && !compiled.is_clean());
}

#[test]
fn a_long_chain_of_references_does_not_recurse() {
    let mut text = "steps:\n".to_owned();
    for i in 0..12_000 {
        text +=
            &format!("  - id: s{i}\n    type: exit\n    status: success\n    condition: $steps.s{}.output\n", i + 1);
    }
    text += "  - id: s12000\n    type: exit\n    status: success\n";
    let skill = parse_workflow_yaml(&text).unwrap();
    assert_eq!(skill.validate(None).len(), 12_000);
}

proptest::proptest! {
    #[test]
    fn any_text_compiles_or_is_refused(text in "\\PC{0,80}") {
        let _ = compile(&SourceFile::new("x.md", format!("```workflow\n{text}\n```")));
        let _ = compile(&SourceFile::new("x.yaml", format!("steps: {text}")));
    }

    #[test]
    fn any_step_compiles_or_is_refused(value in proptest::sample::select(vec!["$", "${", "!x", "[]", "{}", "''", "7", "$steps.a.output", "&a *a", "~"]), key in proptest::sample::select(vec![
        "id", "type", "condition", "each", "delay", "retry", "inputs", "outputs", "where", "then", "output", "x-opcell", "on_error",
    ])) {
        for kind in ["tool", "transform", "conditional", "exit"] {
            let text = format!("steps:\n  - id: a\n    type: {kind}\n    tool: t\n    status: success\n    {key}: {value}\n");
            let _ = compile(&SourceFile::new("x.yaml", text));
        }
    }
}

#[test]
fn a_broken_yaml_file_is_told_as_such_where_it_breaks() {
    let compiled = compile(&SourceFile::new("x.yaml", "steps:\n  - id: a\n   type: [\n"));
    let finding = &compiled.diagnostics[0];
    assert_eq!(finding.code, "yaml", "{finding:?}");
    assert!(finding.span.is_some_and(|span| span.start > 5), "{finding:?}");
    let compiled = compile(&SourceFile::new("x.yml", "name: a\n"));
    assert!(compiled.diagnostics[0].message.contains("`steps` is missing"), "{:?}", compiled.diagnostics);
}

#[test]
fn a_second_workflow_of_a_document_is_not_dropped_in_silence() {
    let fence = "```workflow\nsteps:\n  - { id: a, type: exit, status: success, inputs: {}, outputs: {} }\n```\n";
    let compiled = compile(&SourceFile::new("x.md", format!("{fence}\n{fence}")));
    let codes: Vec<_> = compiled.diagnostics.iter().map(|found| found.code).collect();
    assert_eq!(codes, ["second-workflow"]);
    assert!(compile(&SourceFile::new("x.md", fence)).diagnostics.is_empty());
}

#[test]
fn marks_point_at_the_key_that_is_meant() {
    let text = step("outputs:\n  r: { type: string }\n").replace("  - id: a", "  - id: z\n    type: exit\n    status: success\n    inputs: {}\n    outputs: {}\n    output:\n      r: x\n      zz: y\n  - id: a");
    let compiled = compile(&SourceFile::new("x.yaml", text.as_str()));
    let exit = compiled.diagnostics.iter().find(|found| found.code == "exit-output").unwrap();
    let span = exit.span.unwrap();
    assert_eq!(&text[span.start..span.end], "zz");
}

#[test]
fn a_reference_inside_of_a_value_is_marked_where_it_stands() {
    let text = step(
        "    inputs:\n      x:\n        type: object\n        value:\n          name: x\n          list:\n            - 1\n            - \"$inputs.n\"\n",
    );
    let compiled = compile(&SourceFile::new("x.yaml", text.as_str()));
    let [found] = compiled.diagnostics.as_slice() else { panic!("{:?}", compiled.diagnostics) };
    assert_eq!(found.code, "nested-reference");
    let span = found.span.unwrap();
    assert_eq!(&text[span.start..span.end], "$inputs.n");
}

#[test]
fn a_transform_of_what_is_known_to_be_no_array_is_told() {
    let messages = |items: &str| -> Vec<String> {
        let text = step(&format!(
            "    inputs: {{}}\n    outputs: {{}}\n  - id: b\n    type: transform\n    operation: filter\n    where: $item\n    outputs: {{}}\n    inputs: {{ items: {items} }}\n"
        ));
        let compiled = compile(&SourceFile::new("x.yaml", text));
        compiled.diagnostics.iter().map(|found| format!("{}: {}", found.code, found.message)).collect()
    };
    let told = |what: &str| {
        vec![format!("transform-without-array: `items` is {what}, which a transform takes as an array of one")]
    };
    assert_eq!(messages("{ type: int, value: $inputs.n }"), told("an int"));
    assert_eq!(messages("{ type: string, value: a text }"), told("a string"));
    assert_eq!(messages("{ type: string, value: 'a ${inputs.n}' }"), told("a string"));
    assert_eq!(messages("{ type: array, value: $inputs.list }"), [""; 0]);
    assert_eq!(messages("{ type: array, value: $steps.a.output }"), [""; 0]);
}

/// The documents of the conformance cases, and shapes that none of them has.
fn documents() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/workflowskill");
    let mut documents = Vec::new();
    for file in ["validation.json", "runs.json", "edges.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
        for case in cases.as_array().or_else(|| cases["cases"].as_array()).unwrap() {
            let yaml = case["yaml"].as_str().map(str::to_owned);
            let block = || {
                let content = case["content"].as_str()?;
                Some(content[extract::block(content)?].to_owned())
            };
            documents.extend(yaml.or_else(block));
        }
    }
    let step = |rest: &str| format!("steps:\n  - {{ id: a, {rest} }}\n");
    let shapes = [
        "type: tool",
        "type: tool, tool: ''",
        "type: tool, tool: t, retry: { max: 0, delay: 1s, backoff: 1 }",
        "type: tool, tool: t, retry: { max: 1.5, delay: 1s, backoff: 1 }",
        "type: tool, tool: t, retry: { max: 2, delay: 1s, backoff: 1.5 }",
        "type: tool, tool: t, inputs: { x: { type: text } }",
        "type: tool, tool: t, inputs: { x: { type: string, default: 1 } }",
        "type: tool, tool: t, inputs: { x: { type: array, items: { type: string, items: [] } } }",
        "type: tool, tool: t, inputs: { x: { type: object, properties: { y: string, z: { type: int } } } }",
        "type: tool, tool: t, inputs: { x: { type: object, properties: { y: 1 } } }",
        "type: tool, tool: t, on_error: retry",
        "type: tool, tool: t, each: 5",
        "type: transform, operation: filter",
        "type: transform, operation: filter, where: $item.x",
        "type: transform, operation: map, expression: text",
        "type: transform, operation: sort, field: x, direction: up",
        "type: transform, operation: sort, field: x, direction: desc",
        "type: conditional, condition: '', then: [b]",
        "type: conditional, condition: $inputs.x, then: []",
        "type: conditional, condition: $inputs.x, then: [b], else: [1]",
        "type: exit, status: done",
        "type: exit, status: success, output: 5",
        "type: exit, status: success, output: $steps.a, typo: 1",
        "type: loop",
    ];
    documents.extend(shapes.map(step));
    documents.extend(
        ["steps: []", "steps: {}", "[]", "inputs: []\nsteps: [{ id: a, type: tool, tool: t }]"].map(str::to_owned),
    );
    documents
}

#[test]
fn the_published_schema_takes_what_the_reader_takes_and_nothing_else() {
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for text in documents() {
        let Ok(root) = tree(&text, 0..text.len()) else { continue };
        let issues = schema::read(&root).1.issues;
        let value = serde_json::Value::from(&root.to_value());
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(issues.is_empty(), errors.is_empty(), "{text}\nthe reader: {issues:?}\nthe schema: {errors:?}");
        if issues.is_empty() { taken += 1 } else { refused += 1 }
    }
    assert!(taken > 100 && refused > 20, "{taken} documents were taken, {refused} refused");
}
