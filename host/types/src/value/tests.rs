use super::*;
use proptest::prelude::*;

fn json(text: &str) -> Value {
    Value::from_json(text).unwrap()
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(
        Value::Null,
        |value, level| {
            if level % 2 == 0 { Value::array([value]) } else { Value::object([("k", value)]) }
        },
    )
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(|n| Value::from(Number::from(n))),
        any::<f64>().prop_filter("JSON has no infinity", |n| n.is_finite()).prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[\u{0}-\u{7f}]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::array),
            prop::collection::vec(("[a-d\"\n]{0,2}", inner), 0..12).prop_map(Value::object),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_is_written_as_serde_json_writes_it_and_read_back_as_it_was(value in any_value()) {
        let text = value.to_json();
        prop_assert_eq!(&text, &serde_json::to_string(&value).unwrap());
        prop_assert_eq!(Value::from_json(&text).unwrap(), value);
    }

    #[test]
    fn the_measure_is_the_length_of_the_text(value in any_value()) {
        prop_assert_eq!(value.measure().bytes(), value.to_json().len() as u64);
    }

    #[test]
    fn a_tree_of_serde_json_becomes_the_same_value_and_comes_back(value in any_value()) {
        let tree = serde_json::Value::from(&value);
        prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&value.to_json()).unwrap(), &tree);
        prop_assert_eq!(Value::from(tree), value);
    }
}

#[test]
fn order_stays_and_the_last_of_two_values_with_one_key_counts() {
    assert_eq!(json(r#"{"b":1,"a":2,"b":3}"#).to_json(), r#"{"b":3,"a":2}"#);
    let many: String = (0..20).map(|n| format!("\"k{n}\":{n},")).collect();
    let text = format!("{{{many}\"k3\":true}}");
    assert_eq!(json(&text).get("k3"), Some(&Value::from(true)));
    assert_eq!(json(&text).as_object().unwrap().len(), 20);
    let known = json(r#"[{"a":1,"b":2},{"a":1,"a":2},{"a":3,"b":4}]"#);
    assert_eq!(known.to_json(), r#"[{"a":1,"b":2},{"a":2},{"a":3,"b":4}]"#);
}

#[test]
fn rows_share_their_keys() {
    let rows = json(r#"[{"a":1,"b":{"c":2}},{"a":3,"b":{"c":4}}]"#);
    let shapes: Vec<&Shape> = rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().shape()).collect();
    assert!(shapes[0].is_same(shapes[1]));
}

#[test]
fn a_text_with_millions_of_different_keys_remembers_a_bounded_number_of_them() {
    let text: Vec<String> = (0..50_000).map(|n| format!("{{\"k{n}\":{n},\"x\":1}}")).collect();
    let rows = json(&format!("[{}]", text.join(",")));
    assert_eq!(rows.as_array().unwrap()[49_999].get("k49999"), Some(&Value::from(49_999_i64)));
    let keys: Vec<String> = (0..50_000).map(|n| format!("\"k{n}\":{n}")).collect();
    assert_eq!(json(&format!("{{{}}}", keys.join(","))).get("k777"), Some(&Value::from(777_i64)));
}

#[test]
fn equal_aggregates_are_not_the_same_and_clones_are() {
    for text in ["[]", "{}", "[1]", r#"{"a":1}"#] {
        let (a, b) = (json(text), json(text));
        assert_eq!(a, b);
        assert!(!a.is_same(&b));
        assert!(a.is_same(&a.clone()));
    }
    assert_eq!(json(r#"{"a":1,"b":2}"#), json(r#"{"b":2,"a":1}"#));
    assert_ne!(json(r#"{"a":1}"#), json(r#"{"a":1,"b":2}"#));
    assert_ne!(Value::Undefined, Value::Null);
}

#[test]
fn undefined_is_left_out_of_objects_and_null_in_arrays() {
    let object = Value::object([("a", Value::Undefined), ("b", Value::Undefined), ("c", Value::Null)]);
    assert_eq!(object.to_json(), r#"{"c":null}"#);
    assert_eq!(object.measure().bytes(), 10);
    assert_eq!(Value::array([Value::Undefined]).to_json(), "[null]");
}

#[test]
fn text_nests_as_deep_as_values_may_and_no_deeper() {
    let text = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert_eq!(json(&text(100)).measure().depth(), MAX_DEPTH);
    let problem = Value::from_json(&text(101)).unwrap_err().to_string();
    assert!(problem.starts_with("values nest at most 100 levels deep"), "{problem}");
    assert!(Value::from_json(&text(1_000_000)).is_err());
}

#[test]
fn a_value_of_a_million_levels_is_dropped_compared_and_printed_without_a_stack() {
    let levels = 1_000_000;
    let (a, b) = (nested(levels), nested(levels));
    assert_eq!(a, b);
    assert!(a.to_json().len() > levels);
    assert!(serde_json::to_string(&a).is_err());
    assert_eq!(a.measure().depth(), u32::from(u16::MAX));
    let shared = a.clone();
    drop(a);
    drop(b);
    assert!(shared.as_array().is_some() || shared.as_object().is_some());
}

#[test]
fn sharing_is_measured_as_it_would_be_written() {
    let doubled = (0..60).fold(Value::from("text"), |value, _| Value::object([("l", value.clone()), ("r", value)]));
    assert_eq!(doubled.measure().depth(), 60);
    assert!(doubled.measure().bytes() > 1 << 47);
    assert_eq!(doubled, doubled.clone());
}

#[test]
fn an_entry_is_replaced_in_place_and_the_measure_follows() {
    let shape = Shape::new(["a", "b", "c"]);
    let mut object = Object::of_shape(shape, Vec::new());
    assert_eq!(object.measure().bytes(), 2);
    for (key, value) in [("b", json("[1,2]")), ("a", json("null")), ("b", json(r#""x""#)), ("d", json("true"))] {
        object.insert(key, value);
        assert_eq!(object.measure().bytes(), Value::Object(object.clone()).to_json().len() as u64);
    }
    let before = object.clone();
    object.insert("a", Value::from(7_i64));
    assert_eq!(before.get("a"), Some(&Value::Null));
    assert_eq!(Value::Object(object.clone()).to_json(), r#"{"a":7,"b":"x","d":true}"#);
    assert_eq!(object.remove("b"), Some(Value::from("x")));
    assert_eq!(Value::Object(object).to_json(), r#"{"a":7,"d":true}"#);
}

#[test]
fn text_is_written_in_pieces_too() {
    let rows =
        Value::array((0..20_000_i64).map(|n| Value::object([("n", Value::from(n)), ("t", "a \"text\"".into())])));
    let mut written = Vec::new();
    rows.write_json(&mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), rows.to_json());
}
