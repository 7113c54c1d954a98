//! The smallest plugin: one operation that returns its arguments.

use opcell_sdk::serde_json::{Map, Value};
use opcell_sdk::{operation, plugin};

/// Returns its arguments as they are.
#[operation("echo/echo", effects = pure)]
fn echo(arguments: Map<String, Value>) -> Map<String, Value> {
    arguments
}

plugin! { operations: [echo] }

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::serde_json::json;
    use opcell_sdk::testing::invoke;

    #[test]
    fn what_goes_in_comes_out() {
        let arguments = json!({ "text": "hello", "nested": [1, null, { "deep": true }] });

        assert_eq!(invoke::<echo>(&arguments).unwrap().data, arguments);
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(invoke::<echo>(&json!("text")).unwrap_err().reason, "invalid-arguments");
    }
}
