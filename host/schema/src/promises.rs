//! The promises of the weights, held against the validator's work: for generated schemas and values, the schemas that
//! are really applied, the memory that is really taken.

use crate::{Schema, measure};
use jsonschema::{Keyword, ValidationError, paths::Location};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::{
    LazyLock, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// A keyword that every generated schema has: it counts how often it is looked at.
pub(crate) const STEP: &str = "x-step";

static STEPS: AtomicU64 = AtomicU64::new(0);

/// The validator has compiled a schema.
static READY: LazyLock<()> = LazyLock::new(|| drop(Schema::compile(&json!({"type": "object"}))));

/// One test at a time counts.
static ALONE: Mutex<()> = Mutex::new(());

/// A schema of this many others, with what is written inside of it, takes less than this when it is compiled.
const COMPILED_BYTES: u64 = 16 << 10;

struct Counted;

impl<'i> Keyword<'i> for Counted {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.is_valid(value);
        Ok(())
    }

    fn is_valid(&self, _value: &'i Value) -> bool {
        STEPS.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the signature that the validator asks for")]
pub(crate) fn counted<'a>(
    _parent: &'a Map<String, Value>,
    _value: &'a Value,
    _place: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Counted))
}

const DEFINITIONS: usize = 6;

/// A schema that may refer to the definitions, and the definitions to one another.
fn schemas() -> impl Strategy<Value = Value> {
    let reference = (0..DEFINITIONS).prop_map(|at| json!({"$ref": format!("#/$defs/d{at}"), STEP: true}));
    let leaf = prop_oneof![
        Just(json!({STEP: true})),
        Just(json!({"type": ["integer", "array", "object"], STEP: true})),
        Just(json!({"multipleOf": 0.5, STEP: true})),
        Just(json!({"uniqueItems": true, STEP: true})),
        Just(json!({"pattern": "^[a-z]{1,9}$", STEP: true})),
        Just(json!({"dependentRequired": {"a": ["b"], "b": ["c"], "c": []}, STEP: true})),
        Just(json!({"enum": [1, [1], {"a": 1}, "x"], STEP: true})),
    ];
    let one = prop_oneof![2 => leaf, 3 => reference].prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let keyword = prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list.prop_map(Value::from))
                .prop_map(|(keyword, list)| (keyword.to_owned(), list)),
            (
                prop::sample::select(vec![
                    "not",
                    "if",
                    "then",
                    "else",
                    "items",
                    "contains",
                    "additionalProperties",
                    "propertyNames",
                    "unevaluatedProperties",
                    "unevaluatedItems"
                ]),
                inner.clone()
            )
                .prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
            (prop::sample::select(vec!["properties", "dependentSchemas"]), inner.clone(), inner)
                .prop_map(|(keyword, a, b)| (keyword.to_owned(), json!({"a": a, "b": b}))),
        ];
        prop::collection::vec(keyword, 1..4).prop_map(|keywords| {
            let mut schema: Map<String, Value> = keywords.into_iter().collect();
            schema.insert(STEP.to_owned(), Value::Bool(true));
            Value::Object(schema)
        })
    });
    prop::collection::vec(one, DEFINITIONS + 1).prop_map(|mut all| {
        let mut root = all.pop().unwrap_or_default();
        for (at, definition) in all.iter_mut().enumerate() {
            refer_onwards(definition, at + 1);
        }
        let definitions: Map<String, Value> =
            all.into_iter().enumerate().map(|(at, schema)| (format!("d{at}"), schema)).collect();
        root["$defs"] = Value::Object(definitions);
        root["$defs"]["none"] = json!({"minimum": 5, STEP: true});
        root
    })
}

/// Most references lead to a definition from `first` on, so that few schemas are refused because they refer to
/// themselves.
fn refer_onwards(schema: &mut Value, first: usize) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                let target: usize = reference.trim_start_matches("#/$defs/d").parse().unwrap_or(0);
                if target != DEFINITIONS - 1 {
                    *reference = match first < DEFINITIONS {
                        true => format!("#/$defs/d{}", first + target % (DEFINITIONS - first)),
                        false => "#/$defs/none".to_owned(),
                    };
                }
            }
            map.values_mut().for_each(|inner| refer_onwards(inner, first));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| refer_onwards(inner, first)),
        _ => {}
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!(0.3)),
        Just(json!("x")),
        Just(json!("longer than a part is")),
        Just(json!(null))
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_check_takes_more_steps_or_memory_than_its_schema_promises(schema in schemas(), value in values()) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // What the validator makes once for a process is no schema's, and which test meets it first is chance.
        LazyLock::force(&READY);
        let mut compiled = None;
        let built = allocation_counter::measure(|| compiled = Schema::compile(&schema).ok());
        let Some(compiled) = compiled else { return Ok(()) };
        let promised = (compiled.cost.compiled + 20) * COMPILED_BYTES + compiled.states * 2_000;
        prop_assert!(built.bytes_max <= promised, "{built:?} > {promised}: {schema}");

        let (parts, depth) = measure(&value, 0);
        let promised = compiled.steps(parts, depth);
        STEPS.store(0, Ordering::Relaxed);
        let _fits = compiled.validator.is_valid(&value);
        let steps = STEPS.load(Ordering::Relaxed);
        prop_assert!(steps <= promised, "{steps} steps, {promised} promised: {schema} of {value}");

        let used = allocation_counter::measure(|| drop(compiled.check(&value)));
        let most = promised * 1_000 + (1 << 20);
        prop_assert!(used.bytes_max <= most, "{used:?} > {most}: {schema} of {value}");
    }
}

#[test]
fn the_most_that_a_schema_may_become_is_affordable() {
    opcell_workers::install();
    // As many branches as are let through, below one `unevaluatedProperties`.
    let mut defs = Map::new();
    for level in 0..6 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(format!("d{level}"), json!({"allOf": [next, next]}));
    }
    defs.insert("d6".to_owned(), json!({"properties": {"a": true}}));
    let schema = json!({"unevaluatedProperties": false, "$ref": "#/$defs/d0", "$defs": defs});
    let mut compiled = None;
    let built = allocation_counter::measure(|| compiled = Some(Schema::compile(&schema)));
    assert!(compiled.unwrap().is_ok());
    assert!(built.bytes_max < 4 << 20, "{built:?}");
}
