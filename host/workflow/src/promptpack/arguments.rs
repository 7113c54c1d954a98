//! Arguments of tool calls, made to fit the tool's schema and checked, in the reference's words.

use super::schema::{self, SchemaError};
use opcell_ir::arguments::fit;
use serde_json::Value as Json;

/// Fits arguments to a schema's properties, and gives what is wrong with them all the same.
///
/// # Errors
/// Every problem in the order in which the schema states its rules, or that the schema itself is none.
pub fn admit(schema: &Json, arguments: &Json) -> Result<Json, Vec<String>> {
    let arguments = fit(schema, arguments);
    let problems = schema::check_arguments(schema, &arguments)
        .map_or_else(|error| vec![error], |found| found.iter().map(SchemaError::to_string).collect());
    if problems.is_empty() { Ok(arguments) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::admit;
    use serde_json::json;

    #[test]
    fn a_required_value_that_stands_for_none_is_wrong() {
        let properties = json!({"a": {"type": "integer"}});
        let wrong = admit(&json!({"properties": properties, "required": ["a"]}), &json!({"a": null})).unwrap_err();
        assert_eq!(wrong, ["a: Invalid type. Expected: integer, given: null"]);
    }
}
