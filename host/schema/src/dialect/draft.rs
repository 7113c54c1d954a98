//! Drafts, and the keywords of each that hold schemas.

use serde_json::Value;

/// A dialect of JSON Schema, in the order of publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Draft4,
    /// OpenAPI 3.0's schema object: draft 4 with `nullable`.
    OpenApi3,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
    /// No draft is named: 2020-12, and forms of other drafts that can mean nothing else.
    Undeclared,
}

impl Draft {
    /// The draft that a `$schema` names.
    pub(super) fn named(uri: &str) -> Option<Self> {
        let bare = uri.trim().trim_end_matches(['#', '/']);
        let bare = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://")).unwrap_or(bare);
        Some(match bare {
            "json-schema.org/draft-04/schema" => Self::Draft4,
            "json-schema.org/draft-06/schema" => Self::Draft6,
            "json-schema.org/draft-07/schema" => Self::Draft7,
            "json-schema.org/draft/2019-09/schema" => Self::Draft2019,
            // Without a draft: the latest one.
            "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Self::Draft2020,
            _ if bare.starts_with("spec.openapis.org/oas/3.0/") => Self::OpenApi3,
            _ if bare.starts_with("spec.openapis.org/oas/3.1/") || bare.starts_with("spec.openapis.org/oas/3.2/") => {
                Self::Draft2020
            }
            _ => return None,
        })
    }

    /// Returns `true` if `$ref` is all that counts of a schema that has one.
    pub(super) fn ref_stands_alone(self) -> bool {
        self <= Self::Draft7
    }

    /// The keyword that gives a schema an address.
    pub(super) fn id(self) -> Option<&'static str> {
        match self {
            Self::Draft4 => Some("id"),
            Self::OpenApi3 => None,
            _ => Some("$id"),
        }
    }

    /// Returns `true` for a keyword of this draft. Others say nothing in it.
    pub(super) fn knows(self, keyword: &str) -> bool {
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Self::Draft6,
            "if" | "then" | "else" => self >= Self::Draft7,
            "$defs"
            | "$anchor"
            | "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "minContains"
            | "maxContains" => self >= Self::Draft2019,
            "$recursiveRef" | "$recursiveAnchor" => matches!(self, Self::Draft2019 | Self::Undeclared),
            "prefixItems" | "$dynamicRef" | "$dynamicAnchor" => self >= Self::Draft2020,
            "nullable" => matches!(self, Self::OpenApi3 | Self::Undeclared),
            _ => true,
        }
    }
}

/// The kind of schemas in a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// No schema.
    Other,
    /// A schema, or a list of them: `items` in all drafts.
    One,
    /// A list.
    List,
    /// Schemas by name.
    Map,
}

/// The kind of schemas in a keyword of a draft.
pub(super) fn holds(draft: Draft, keyword: &str) -> Holds {
    if !draft.knows(keyword) {
        return Holds::Other;
    }
    match keyword {
        "not"
        | "if"
        | "then"
        | "else"
        | "items"
        | "additionalItems"
        | "contains"
        | "additionalProperties"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Holds::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "definitions" | "$defs" => {
            Holds::Map
        }
        _ => Holds::Other,
    }
}

/// The schemas that a keyword holds.
pub(super) fn schemas_of<'a>(draft: Draft, keyword: &str, value: &'a Value) -> Vec<&'a Value> {
    let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
    match (holds(draft, keyword), value) {
        (Holds::One | Holds::List, Value::Array(list)) => list.iter().filter(is_schema).collect(),
        (Holds::One, schema) => Some(schema).filter(is_schema).into_iter().collect(),
        (Holds::Map, Value::Object(map)) => map.values().filter(is_schema).collect(),
        _ => Vec::new(),
    }
}
