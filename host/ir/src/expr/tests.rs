use super::*;

fn context_value() -> (Value, Value) {
    let inputs = Value::from_json(
        r#"{"n":7,"s":"Hello","list":[1,2,3],"empty":[],"o":{"a":{"b":2}},"o2":{"a":{"b":2}},"none":null}"#,
    );
    let steps = Value::from_json(r#"{"fetch":{"output":{"items":[{"id":1}]}},"my-id":{"output":4}}"#);
    (inputs.unwrap(), steps.unwrap())
}

fn eval(text: &str) -> Result<Value, ExprError> {
    let (inputs, steps) = context_value();
    Expression::new(text).evaluate(&Context::new(&inputs, &steps))
}

#[test]
fn reads_parts_of_inputs_and_steps() {
    assert_eq!(eval("$inputs.list[1]").unwrap(), Value::from(2));
    assert_eq!(eval("$inputs.list.length").unwrap(), Value::from(3));
    assert_eq!(eval("$steps['my-id'].output").unwrap(), Value::from(4));
    assert_eq!(eval("$inputs.list[$inputs.list[0]]").unwrap(), Value::from(2));
    assert_eq!(eval("$steps.fetch.output.items[0].id").unwrap(), Value::from(1));
}

#[test]
fn missing_is_undefined_and_never_equal_to_null() {
    assert!(matches!(eval("$inputs.nope.deeper[3]").unwrap(), Value::Undefined));
    assert_eq!(eval("$inputs.nope == null").unwrap(), Value::Bool(false));
    assert_eq!(eval("$inputs.none == null").unwrap(), Value::Bool(true));
    assert!(matches!(eval("$item").unwrap(), Value::Undefined));
}

#[test]
fn nothing_is_inherited_from_a_prototype() {
    for text in ["$inputs.o.constructor", "$inputs.list.map", "$inputs['toString']", "$inputs.s.length"] {
        assert!(matches!(eval(text).unwrap(), Value::Undefined), "{text}");
    }
}

#[test]
fn aggregates_are_equal_by_identity() {
    assert_eq!(eval("$inputs.o == $inputs.o").unwrap(), Value::Bool(true));
    assert_eq!(eval("$inputs.o == $inputs.o2").unwrap(), Value::Bool(false));
}

#[test]
fn integers_with_more_than_64_bits_are_compared_whole_as_texts_and_refused_as_numbers() {
    for (expression, expected) in [
        ("'123456789012345678902' > '123456789012345678901'", true),
        ("'123456789012345678901' >= '123456789012345678902'", false),
        ("'-123456789012345678902' < '-123456789012345678901'", true),
        ("'123456789012345678901' < 7", false),
        ("18446744073709551615 < '18446744073709551616'", true),
        ("'-123456789012345678901' < 0", true),
        ("'00123456789012345678901' <= '123456789012345678901'", true),
        ("'123456789012345678901' == '123456789012345678902'", false),
        ("'18446744073709551616' == 18446744073709551615", false),
        ("'x' < '123456789012345678901'", true),
    ] {
        assert_eq!(eval(expression).unwrap(), Value::Bool(expected), "{expression}");
    }
    let error = eval("$inputs.n == 123456789012345678901").unwrap_err();
    assert!(error.message.contains("in quotes") && error.position == Some(13), "{error:?}");
}

#[test]
fn both_sides_of_a_connective_are_evaluated() {
    assert_eq!(eval("true || $env.HOME").unwrap_err().message, "Unknown reference: $env");
    assert_eq!(eval("false && $env.HOME").unwrap_err().kind, ExprErrorKind::Eval);
}

#[test]
fn operators_bind_as_the_grammar_says() {
    assert_eq!(eval("!$inputs.empty && 1 < 2 || false").unwrap(), Value::Bool(true));
    assert_eq!(eval("true || true && false").unwrap(), Value::Bool(true));
    assert_eq!(eval("(true || true) && false").unwrap(), Value::Bool(false));
    assert_eq!(eval("!1 == false").unwrap(), Value::Bool(true));
    let error = eval("1 < 2 < 3").unwrap_err();
    assert_eq!((error.message.as_str(), error.position), ("Unexpected token after expression: LT (\"<\")", Some(6)));
}

#[test]
fn positions_count_utf16_code_units() {
    assert_eq!(eval("'😀' 'b'").unwrap_err().position, Some(5));
}

#[test]
fn depth_costs_no_stack() {
    let chain = format!("$inputs{}", ".a".repeat(10_000));
    assert!(matches!(eval(&chain).unwrap(), Value::Undefined));
    let parens = format!("{}7{}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(eval(&parens).unwrap(), Value::from(7));
    let brackets = format!("{}0{}", "$inputs.list[".repeat(50_000), "]".repeat(50_000));
    assert!(eval(&brackets).is_ok());
    assert_eq!(eval(&format!("{}7", "!".repeat(100_001))).unwrap(), Value::Bool(false));
}

#[test]
fn references_name_constant_paths() {
    let expression = Expression::new("$steps.fetch.output[$index].id == $inputs['a b'].c && !$foo");
    let references: Vec<String> = expression
        .references()
        .into_iter()
        .map(|r| std::iter::once(&r.root).chain(&r.path).map(AsRef::as_ref).collect::<Vec<&str>>().join("/"))
        .collect();
    assert_eq!(references, ["steps/fetch/output", "index", "inputs/a b/c", "foo"]);
}

proptest::proptest! {
    #[test]
    fn any_text_compiles_or_fails_cleanly(text in "\\PC{0,60}") {
        let _ = eval(&text);
    }

    #[test]
    fn any_sequence_of_tokens_compiles_or_fails_cleanly(
        tokens in proptest::collection::vec(proptest::sample::select(vec![
            "$inputs", ".list", ".", "[", "]", "(", ")", "!", "==", "<=", "&&", "||", "contains", "1", "'s'", "null", "$x",
        ]), 0..24)
    ) {
        let expression = Expression::new(tokens.join(" "));
        let _ = expression.references();
        let _ = eval(&tokens.join(" "));
    }
}
