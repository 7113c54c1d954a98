//! Keywords of JSON Schema, and slips in them: a validator ignores what it does not know.

use crate::Schema;
use opcell_types::suggest::slip_of;
use serde_json::Value;

/// Parts of a schema that are looked at, and slips that are listed.
const MAX_PARTS: usize = 10_000;
const MAX_SLIPS: usize = 10;

/// Keywords with one schema as their value, or a list of schemas.
const ONE_OR_MANY: [&str; 17] = [
    "items",
    "additionalItems",
    "prefixItems",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "allOf",
    "anyOf",
    "oneOf",
    "extends",
    "contentSchema",
];

/// Keywords whose value has schemas by name.
const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The others, those of OpenAPI included.
const OTHERS: [&str; 38] = [
    "type",
    "enum",
    "const",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "nullable",
    "discriminator",
    "xml",
    "externalDocs",
    "id",
    "optional",
    "name",
];

/// A keyword that is probably misspelt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisspeltKeyword {
    /// JSON Pointer to it, in the schema.
    pub pointer: String,
    /// The word as it is written.
    pub keyword: String,
    /// The keyword that was probably meant.
    pub meant: &'static str,
}

impl Schema {
    /// Keywords of a schema that are one slip of a letter away from a known one; the first few.
    #[must_use]
    pub fn misspelt_keywords(schema: &Value) -> Vec<MisspeltKeyword> {
        let known = || ONE_OR_MANY.into_iter().chain(BY_NAME).chain(OTHERS);
        let mut found = Vec::new();
        let mut pending = vec![(String::new(), schema)];
        for _ in 0..MAX_PARTS {
            let Some((pointer, part)) = pending.pop() else { break };
            let below = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            let Value::Object(entries) = part else { continue };
            for (keyword, value) in entries {
                let at = below(keyword);
                match value {
                    Value::Array(schemas) if ONE_OR_MANY.contains(&&**keyword) => {
                        pending.extend(
                            schemas.iter().enumerate().map(|(place, schema)| (format!("{at}/{place}"), schema)),
                        );
                    }
                    value if ONE_OR_MANY.contains(&&**keyword) => pending.push((at, value)),
                    Value::Object(schemas) if BY_NAME.contains(&&**keyword) => {
                        pending.extend(schemas.iter().map(|(name, schema)| {
                            (format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), schema)
                        }))
                    }
                    _ if keyword.starts_with(['$', 'x']) || known().any(|known| known == keyword) => {}
                    _ => found.extend(slip_of(keyword, known()).map(|meant| MisspeltKeyword {
                        pointer: at,
                        keyword: keyword.clone(),
                        meant,
                    })),
                }
                if found.len() >= MAX_SLIPS {
                    return found;
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keywords_one_slip_away_are_named_with_their_place_and_names_of_properties_are_not() {
        let schema = json!({
            "type": "object",
            "properties": {
                "titel": {"type": "string", "patern": "^a"},
                "a/b": {"items": [{"minimun": 1}], "x-minimun": 1, "colour": "red"},
            },
            "requird": ["titel"],
            "anyOf": [{"propertes": {}}],
        });
        let mut found: Vec<_> = Schema::misspelt_keywords(&schema);
        found.sort_by(|a, b| a.pointer.cmp(&b.pointer));
        let found: Vec<_> = found.iter().map(|slip| (slip.pointer.as_str(), slip.meant)).collect();
        assert_eq!(
            found,
            [
                ("/anyOf/0/propertes", "properties"),
                ("/properties/a~1b/items/0/minimun", "minimum"),
                ("/properties/titel/patern", "pattern"),
                ("/requird", "required"),
            ]
        );
    }

    #[test]
    fn a_schema_without_end_is_looked_at_within_bounds() {
        let mut schema = json!({"typ": "string"});
        for _ in 0..100 {
            schema = json!({"not": schema});
        }
        assert_eq!(Schema::misspelt_keywords(&schema).len(), 1);
        let slips: serde_json::Map<String, Value> = (0..100).map(|n| (format!("{n}"), json!({"minimun": 1}))).collect();
        assert_eq!(Schema::misspelt_keywords(&json!({"properties": slips})).len(), MAX_SLIPS);
    }
}
