//! The forms that keywords of draft 2020-12 must have, for schemas whose odd keywords are left to their owners.

use serde_json::Value;

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// The form that a keyword must have, where its value has another.
pub(super) fn expected(keyword: &str, value: &Value) -> Option<&'static str> {
    let (right, form) = match keyword {
        "type" => {
            let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
            let list = value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_type));
            (is_type(value) || list, "a type of JSON or a list of them")
        }
        "required" => (is_texts(value), "a list of names"),
        "dependentRequired" => {
            (value.as_object().is_some_and(|map| map.values().all(is_texts)), "an object of lists of names")
        }
        "enum" => (value.is_array(), "a list"),
        "pattern" => (value.is_string(), "a string"),
        "uniqueItems" => (value.is_boolean(), "true or false"),
        "multipleOf" => (value.as_f64().is_some_and(|number| number > 0.0), "a number above 0"),
        "maximum" | "minimum" => (value.is_number(), "a number"),
        "exclusiveMaximum" | "exclusiveMinimum" => (value.is_number() || value.is_boolean(), "a number"),
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxProperties" | "minProperties" | "minContains"
        | "maxContains" => (value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0), "a count"),
        "not"
        | "if"
        | "then"
        | "else"
        | "additionalItems"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties" => (is_schema(value), "a schema"),
        "items" => {
            let list = value.as_array().is_some_and(|list| list.iter().all(is_schema));
            (is_schema(value) || list, "a schema or a list of schemas")
        }
        "allOf" | "prefixItems" => {
            (value.as_array().is_some_and(|list| list.iter().all(is_schema)), "a list of schemas")
        }
        "anyOf" | "oneOf" => {
            let list = value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(is_schema));
            (list, "a list of schemas")
        }
        "properties" | "patternProperties" | "dependentSchemas" => {
            (value.as_object().is_some_and(|map| map.values().all(is_schema)), "an object of schemas")
        }
        "dependencies" => {
            let right = |value: &Value| is_schema(value) || is_texts(value);
            (value.as_object().is_some_and(|map| map.values().all(right)), "an object of schemas or lists of names")
        }
        "$ref" | "$dynamicRef" | "$recursiveRef" => (value.is_string(), "a string"),
        _ => (true, ""),
    };
    (!right).then_some(form)
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}
