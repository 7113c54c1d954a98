use crate::Schema;
use serde_json::{Map, Value, json};

fn strict(schema: &Value) -> Schema {
    Schema::compile(schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

fn lenient(schema: &Value) -> Schema {
    Schema::compile_leniently(schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

/// Values that fit, and values that do not.
fn decides(schema: &Schema, fit: &[Value], unfit: &[Value]) {
    for value in fit {
        assert_eq!(schema.check(value), Ok(()), "{value}");
    }
    for value in unfit {
        assert!(schema.check(value).is_err(), "{value}");
    }
}

#[test]
fn the_form_of_a_keyword_or_the_schema_says_which_draft_it_is() {
    let tuple = json!({"items": [{"type": "number"}, {"type": "string"}], "additionalItems": false});
    let mut draft_7 = tuple.clone();
    draft_7["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    for schema in [tuple, draft_7] {
        decides(&strict(&schema), &[json!([1, "a"]), json!([1])], &[json!(["a"]), json!([1, "a", 2])]);
    }
    let above = json!({"minimum": 0, "exclusiveMinimum": true});
    decides(&strict(&above), &[json!(0.1)], &[json!(0)]);
    let nullable = json!({"properties": {"a": {"type": "string", "nullable": true}}});
    decides(&strict(&nullable), &[json!({"a": null}), json!({"a": "x"})], &[json!({"a": 1})]);
    // 2020-12 knows no such keyword.
    let declared =
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string", "nullable": true});
    decides(&strict(&declared), &[json!("x")], &[json!(null)]);
    // Draft 7 looks at nothing beside a `$ref`, and 2019-09 does.
    let beside = json!({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}});
    let of = |draft: &str| {
        let mut schema = beside.clone();
        schema["$schema"] = json!(draft);
        strict(&schema)
    };
    decides(&of("http://json-schema.org/draft-07/schema"), &[json!("long")], &[json!(1)]);
    decides(&of("https://json-schema.org/draft/2019-09/schema"), &[json!("x")], &[json!("long")]);
    let unknown = json!({"$schema": "https://example.com/mine", "type": "string"});
    assert!(Schema::compile(&unknown).unwrap_err().contains("is not known here"));
    assert!(lenient(&unknown).warnings()[0].contains("read as 2020-12"));
}

#[test]
fn references_are_followed_by_every_address_within_the_document() {
    let encoded =
        json!({"$ref": "#/$defs/Map%3CString,Object%3E", "$defs": {"Map<String,Object>": {"type": "object"}}});
    decides(&strict(&encoded), &[json!({})], &[json!(1)]);
    let tree = json!({"properties": {"t": {"$id": "T0", "type": "object", "properties": {"kids": {"items": {"$ref": "T0"}}}}}});
    decides(&strict(&tree), &[json!({"t": {"kids": [{"kids": []}]}})], &[json!({"t": {"kids": [{"kids": [1]}]}})]);
    let anchor = json!({"items": {"$ref": "#point"}, "definitions": {"p": {"$anchor": "point", "type": "number"}}});
    decides(
        &strict(&json!({"$defs": {"x": {"$ref": "#p"}, "p": {"$anchor": "p"}}, "$ref": "#/$defs/x"})),
        &[json!(1)],
        &[],
    );
    // `definitions` holds schemas in all drafts.
    decides(&strict(&anchor), &[json!([1])], &[json!(["a"])]);
    let into_tuple = json!({"items": [{"type": "number"}, {"$ref": "#/items/0"}]});
    decides(&strict(&into_tuple), &[json!([1, 2])], &[json!([1, "a"])]);
    let meta = json!({"$ref": "http://json-schema.org/draft-07/schema#"});
    decides(&strict(&meta), &[json!({"type": "string"})], &[json!({"type": 5})]);
    for schema in [
        json!({"$ref": "https://example.com/s"}),
        json!({"$ref": "other.json"}),
        json!({"$id": "https://example.com/a", "$ref": "b"}),
    ] {
        let error = Schema::compile_leniently(&schema).unwrap_err();
        assert!(error.contains("points outside the schema") && error.contains("#/$defs/"), "{error}");
    }
    let within = json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}, "required": ["a"]});
    assert!(Schema::compile(&within).unwrap_err().contains("points outside the schema"));
    let within = Schema::compile_leniently(&within).unwrap();
    assert!(within.warnings().iter().any(|warning| warning.contains("points outside the schema")));
    decides(&within, &[json!({"a": 1})], &[json!({})]);
    let twice = json!({"$defs": {"a": {"$id": "x", "type": "string"}, "b": {"$id": "x", "type": "number"}}});
    assert!(Schema::compile(&twice).unwrap_err().contains("two different schemas have the address"));
}

#[test]
fn dynamic_references_lead_where_the_way_to_them_says_and_are_bounded() {
    let schema = json!({
        "$id": "https://example.com/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false,
        "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {
            "data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}}},
    });
    let fits = json!({"children": [{"data": 1}]});
    match Schema::compile(&schema) {
        Ok(schema) => decides(&schema, &[fits], &[json!({"children": [{"daat": 1}]})]),
        // The validator would copy one schema into itself again and again.
        Err(error) => assert!(error.contains("without end"), "{error}"),
    }
    let scopes = 8;
    let mut defs = Map::new();
    for at in 0..scopes {
        let all: Vec<Value> =
            (0..scopes).map(|to| json!({"properties": {format!("p{to}"): {"$ref": format!("r{to}")}}})).collect();
        let own = json!({"$dynamicAnchor": format!("n{at}"), "type": "object"});
        defs.insert(
            format!("r{at}"),
            json!({"$id": format!("r{at}"), "allOf": all, "$defs": {"own": own},
            "properties": {"x": {"$dynamicRef": format!("#n{at}")}}}),
        );
    }
    let many = json!({"$ref": "r0", "$defs": defs});
    let error = Schema::compile(&many).unwrap_err();
    assert!(error.contains("sets of targets"), "{error}");
}

#[test]
fn what_cannot_be_checked_is_left_to_the_owner_and_refuses_nothing_elsewhere() {
    let ahead = "^(?!x)[a-z]+$";
    let plain = json!({"properties": {"a": {"type": "string", "pattern": ahead}}});
    let refused = Schema::compile(&plain).unwrap_err();
    assert!(refused.contains("without lookaround"), "{refused}");
    let schema = lenient(&plain);
    assert!(schema.warnings()[0].contains(ahead), "{:?}", schema.warnings());
    decides(&schema, &[json!({"a": "xyz"}), json!({"a": "abc"})], &[json!({"a": 1})]);
    // What the owner accepts passes, also where the pattern is below something that turns it round.
    for (schema, accepted) in [
        (json!({"not": {"pattern": ahead}}), json!("xyz")),
        (json!({"oneOf": [{"pattern": ahead}, {"type": "string", "minLength": 1}]}), json!("xyz")),
        (json!({"if": {"pattern": ahead}, "then": {"maxLength": 1}}), json!("xyz")),
        (json!({"contains": {"pattern": ahead}, "maxContains": 1}), json!(["abc", "xyz"])),
        (json!({"patternProperties": {ahead: {"type": "number"}}, "additionalProperties": false}), json!({"abc": 1})),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"items": {"pattern": ahead}}}}),
            json!(["xyz"]),
        ),
        (
            json!({"anyOf": [{"properties": {"a": {"pattern": ahead}}}, true], "unevaluatedProperties": false}),
            json!({"a": "abc"}),
        ),
    ] {
        decides(&lenient(&schema), &[accepted], &[]);
    }
    // And what is beside it is still checked.
    decides(
        &lenient(&json!({"type": "string", "not": {"pattern": ahead}, "minLength": 2})),
        &[json!("xyz")],
        &[json!("x")],
    );
}

#[test]
fn odd_keywords_of_peers_are_named_and_left_out() {
    let schema = lenient(&json!({"type": "object", "properties": {
        "a": {"type": "string", "required": true}, "b": {"type": "any"}, "c": {"$ref": "#/$defs/none"}, "d": {"enum": null},
    }, "required": ["a", "a"]}));
    let warnings = schema.warnings().join("\n");
    for part in ["`required` is not checked here: it is true", "\"any\"", "`#/$defs/none` does not resolve", "`enum`"] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    decides(&schema, &[json!({"a": "x", "b": 1, "c": [], "d": 2})], &[json!({}), json!({"a": 1})]);
    let patterns: Vec<Value> = (0..100).map(|at| json!({"pattern": format!("(?!{at})x")})).collect();
    assert!(Schema::compile_leniently(&json!({"anyOf": patterns})).unwrap_err().contains("more than 64"));
}
