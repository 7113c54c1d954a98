//! Plain schemas: what most operations have. They say types, members, items and ranges, and nothing that branches,
//! refers or matches.
//!
//! The validator is general, and works on another tree than the host's values. A plain schema is kept a second time, as
//! checks in a row that one walk over a [`Value`], or over its text, goes through. They only ever say that a value
//! fits: what they cannot decide for certain is left to the validator, which also explains every refusal.

mod text;

use opcell_types::{
    Value,
    value::{Number, NumberKind},
};
use serde_json::{Map, Value as Json};

/// Schemas inside one another that are kept a second time. A value nests no deeper either.
const LEVELS: u32 = 100;

/// The draft whose meaning the checks have; a schema that names another is left to the validator.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords that check nothing. Formats are annotations here, as the draft says.
const ANNOTATIONS: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "format",
    "contentEncoding",
    "contentMediaType",
];

/// The checks of one schema.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plain {
    /// The types that a value may have; `None`: any.
    types: Option<Types>,
    /// Members by name, in the order of names.
    members: Vec<(Box<str>, Plain)>,
    /// Names that must be there.
    required: Vec<Box<str>>,
    others: Others,
    items: Option<Box<Plain>>,
    /// Texts, one of which the value must be.
    texts: Option<Vec<Box<str>>>,
    minimum: Option<i64>,
    maximum: Option<i64>,
}

/// Members that the schema does not name.
#[derive(Debug, Default, PartialEq)]
enum Others {
    #[default]
    Anything,
    Refused,
    Checked(Box<Plain>),
}

/// The rule that a part of a value must fit.
#[derive(Clone, Copy)]
enum PartRule<'a> {
    Plain(&'a Plain),
    Anything,
    /// No part is right.
    Nothing,
}

/// Types, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Types(u8);

impl Types {
    const NULL: u8 = 1;
    const BOOLEAN: u8 = 1 << 1;
    const NUMBER: u8 = 1 << 2;
    const INTEGER: u8 = 1 << 3;
    const STRING: u8 = 1 << 4;
    const ARRAY: u8 = 1 << 5;
    const OBJECT: u8 = 1 << 6;

    fn of(name: &Json) -> Option<u8> {
        Some(match name.as_str()? {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "number" => Self::NUMBER | Self::INTEGER,
            "integer" => Self::INTEGER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    fn have(self, value: &Value) -> bool {
        self.has(match value {
            Value::Undefined => return false,
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => Self::of_number(*number),
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        })
    }

    /// No type where it is left to the validator.
    fn of_number(number: Number) -> u8 {
        match number.kind() {
            NumberKind::Integer(_) | NumberKind::Unsigned(_) => Self::INTEGER,
            // One without a fraction is an integer to the validator, and what is not finite is written as `null`.
            NumberKind::Float(number) if number.is_finite() => Self::NUMBER,
            NumberKind::Float(_) => 0,
        }
    }

    fn has(self, one: u8) -> bool {
        self.0 & one != 0
    }
}

impl Plain {
    /// The checks of a schema, if it is plain.
    pub(crate) fn of(schema: &Json) -> Option<Self> {
        Self::at(schema, LEVELS)
    }

    fn at(schema: &Json, levels: u32) -> Option<Self> {
        let levels = levels.checked_sub(1)?;
        let keywords = match schema {
            Json::Bool(true) => return Some(Self::default()),
            Json::Object(keywords) => keywords,
            _ => return None,
        };
        let mut plain = Self::default();
        for (keyword, says) in keywords {
            match keyword.as_str() {
                "type" => plain.types = Some(types(says)?),
                "properties" => plain.members = members(says.as_object()?, levels)?,
                "required" => plain.required = texts(says)?,
                "additionalProperties" => {
                    plain.others = match says {
                        Json::Bool(false) => Others::Refused,
                        Json::Bool(true) => Others::Anything,
                        schema => Others::Checked(Box::new(Self::at(schema, levels)?)),
                    }
                }
                "items" => plain.items = Some(Box::new(Self::at(says, levels)?)),
                "enum" if plain.texts.is_none() => plain.texts = Some(texts(says)?),
                "const" if plain.texts.is_none() => plain.texts = Some(vec![says.as_str()?.into()]),
                "minimum" => plain.minimum = Some(says.as_i64()?),
                // Numbers above what is signed are left to the validator.
                "maximum" => plain.maximum = Some(says.as_i64().or_else(|| says.as_u64().map(|_| i64::MAX))?),
                "$schema" if says == DRAFT => {}
                annotation if ANNOTATIONS.contains(&annotation) => {}
                _ => return None,
            }
        }
        Some(plain)
    }

    /// Returns `true` if a value fits for certain; `false` may mean that it cannot be told here. Ends soon: each part
    /// of the value is looked at once, and neither schemas nor values nest deeper than a hundred levels.
    pub(crate) fn fits(&self, value: &Value) -> bool {
        if self.types.is_some_and(|types| !types.have(value)) {
            return false;
        }
        if let Some(texts) = &self.texts {
            return value.as_str().is_some_and(|text| texts.iter().any(|one| **one == *text));
        }
        match value {
            Value::Number(number) => self.holds(*number),
            Value::Array(items) => match &self.items {
                Some(plain) => items.iter().all(|item| plain.fits(item)),
                None => true,
            },
            Value::Object(entries) => {
                self.required
                    .iter()
                    .all(|name| entries.get(name).is_some_and(|value| !matches!(value, Value::Undefined)))
                    && ((self.members.is_empty() && self.others == Others::Anything)
                        || entries.iter().all(|(name, value)| self.member(name, value)))
            }
            Value::Undefined => false,
            Value::Null | Value::Bool(_) | Value::String(_) => true,
        }
    }

    fn member(&self, name: &str, value: &Value) -> bool {
        // Such a member is not written.
        if matches!(value, Value::Undefined) {
            return true;
        }
        match self.of_member(name) {
            PartRule::Plain(plain) => plain.fits(value),
            PartRule::Anything => true,
            PartRule::Nothing => false,
        }
    }

    /// Returns the rule that the member of a name must fit.
    fn of_member(&self, name: &str) -> PartRule<'_> {
        let named = self.members.binary_search_by(|(known, _)| (**known).cmp(name)).ok();
        match (named.and_then(|at| self.members.get(at)), &self.others) {
            (Some((_, plain)), _) => PartRule::Plain(plain),
            (None, Others::Checked(plain)) => PartRule::Plain(plain),
            (None, Others::Anything) => PartRule::Anything,
            (None, Others::Refused) => PartRule::Nothing,
        }
    }

    fn holds(&self, number: Number) -> bool {
        if self.minimum.is_none() && self.maximum.is_none() {
            return true;
        }
        number.as_i64().is_some_and(|number| {
            self.minimum.is_none_or(|least| least <= number) && self.maximum.is_none_or(|most| number <= most)
        })
    }
}

fn types(says: &Json) -> Option<Types> {
    let bits = match says {
        Json::Array(names) => names.iter().try_fold(0, |bits, name| Some(bits | Types::of(name)?))?,
        name => Types::of(name)?,
    };
    Some(Types(bits))
}

fn texts(says: &Json) -> Option<Vec<Box<str>>> {
    says.as_array()?.iter().map(|text| text.as_str().map(Into::into)).collect()
}

fn members(says: &Map<String, Json>, levels: u32) -> Option<Vec<(Box<str>, Plain)>> {
    let mut members: Vec<(Box<str>, Plain)> = says
        .iter()
        .map(|(name, schema)| Some((name.as_str().into(), Plain::at(schema, levels)?)))
        .collect::<Option<_>>()?;
    members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Some(members)
}

#[cfg(test)]
mod tests {
    use crate::Schema;
    use opcell_types::Value;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn plain(schema: &Json) -> bool {
        Schema::compile(schema).unwrap().plain.is_some()
    }

    #[test]
    fn what_most_operations_have_is_plain() {
        let derived = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Arguments", "type": "object",
            "properties": {
                "text": {"type": "string", "description": "what"},
                "at-most": {"type": ["integer", "null"], "format": "uint", "minimum": 0},
                "kind": {"enum": ["a", "b"]},
                "rows": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}},
            },
            "required": ["text"], "additionalProperties": false,
        });
        assert!(plain(&derived) && plain(&json!(true)) && plain(&json!({})));
        let schema = Schema::compile(&derived).unwrap();
        let fits = |text: &str| {
            let fits = schema.surely_fits(&Value::from_json(text).unwrap());
            assert_eq!(schema.surely_fits_text(text), fits, "{text}");
            fits
        };
        assert!(fits(r#"{"text":"x","at-most":5,"kind":"b","rows":[{"a":1,"b":1.5}]}"#));
        assert!(fits(r#"{"text":"","at-most":null}"#));
        for text in [
            "[]",
            "{}",
            r#"{"text":1}"#,
            r#"{"text":"x","at-most":-1}"#,
            r#"{"text":"x","kind":"c"}"#,
            r#"{"text":"x","rows":[{"a":"1"}]}"#,
            r#"{"text":"x","more":1}"#,
        ] {
            assert!(!fits(text), "{text}");
        }
    }

    #[test]
    fn a_text_fits_as_far_as_it_is_one_value_that_can_be_read() {
        let schema = Schema::compile(&json!({"properties": {"a": {"type": "integer"}}, "required": ["a"]})).unwrap();
        assert!(schema.surely_fits_text(r#" {"b": [1.5, {"c": null}], "a": 1} "#));
        let deep = |levels: usize| format!(r#"{{"a":1,"b":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(schema.surely_fits_text(&deep(99)) && Value::from_json(&deep(99)).is_ok());
        for text in [
            "",
            "{",
            r#"{"a":1}}"#,
            r#"{"a":1} 2"#,
            r#"{"a":1,}"#,
            r#"{"a":1e999}"#,
            r#"{"a":"\ud800"}"#,
            // Whichever of the two the guest takes.
            r#"{"a":1,"a":"x"}"#,
            r#"{"a":"x","a":1}"#,
            &deep(100),
            &deep(100_000),
        ] {
            assert!(!schema.surely_fits_text(text), "{text:.60}");
        }
    }

    #[test]
    fn what_branches_refers_or_matches_is_left_to_the_validator() {
        for schema in [
            json!(false),
            json!({"anyOf": [true]}),
            json!({"properties": {"a": {"pattern": "x"}}}),
            json!({"$defs": {}, "items": {"$ref": "#"}}),
            json!({"prefixItems": [true], "items": {"type": "null"}}),
            json!({"patternProperties": {"x": true}, "additionalProperties": false}),
            json!({"enum": ["a", 1]}),
            json!({"const": "a", "enum": ["b"]}),
            json!({"minimum": 0.5}),
            json!({"x-own": 1}),
        ] {
            assert!(!plain(&schema), "{schema}");
        }
    }

    fn schemas() -> impl Strategy<Value = Json> {
        let kinds = ["null", "boolean", "number", "integer", "string", "array", "object"];
        let leaf = prop_oneof![
            Just(json!({})),
            Just(json!(true)),
            prop::sample::subsequence(kinds.to_vec(), 1..4).prop_map(|kinds| json!({"type": kinds})),
            (-2..3_i64, -2..3_i64).prop_map(|(least, most)| json!({"minimum": least, "maximum": most})),
            Just(json!({"enum": ["a", "b"]})),
            Just(json!({"const": "a"})),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            let members = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
            prop_oneof![
                inner.clone().prop_map(|items| json!({"items": items})),
                (members, prop::collection::vec("[abc]", 0..2), prop::option::of(inner), any::<bool>()).prop_map(
                    |(members, mut required, others, closed)| {
                        required.dedup();
                        let others = if closed { json!(false) } else { others.unwrap_or(json!(true)) };
                        json!({"properties": members, "required": required, "additionalProperties": others})
                    }
                ),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Json::from),
            (-3..4_i64).prop_map(Json::from),
            Just(json!(1.0)),
            Just(json!(0.5)),
            Just(json!(u64::MAX)),
            "[ab]".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
                prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// Values that fit are found to fit plainly; few that the validator takes are left to it.
        #[test]
        fn what_fits_plainly_fits(schema in schemas(), value in values()) {
            let compiled = Schema::compile(&schema).unwrap();
            prop_assume!(compiled.plain.is_some());
            let text = value.to_string();
            let surely = compiled.surely_fits(&Value::from_json(&text).unwrap());
            prop_assert_eq!(compiled.surely_fits_text(&text), surely, "{} {}", schema, text);
            let fits = compiled.check(&value).is_ok();
            prop_assert!(fits || !surely, "{schema} {text}");
            let undecided = text.contains('.') || text.contains(&u64::MAX.to_string());
            prop_assert!(surely || !fits || undecided, "{schema} {text} is left to the validator");
        }
    }
}
