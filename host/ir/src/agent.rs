//! Agents: workflows that a session's model calls as tools, each with one text and one answer.

use opcell_types::Value;

/// The key of a run's input under which the user's message stands; a run whose input is a text is given that text.
pub const MESSAGE: &str = "input";

/// The key under which the caller says what it wants, as in the reference.
pub const QUERY: &str = "query";

/// The key of the agent's answer, as in the reference.
pub const RESPONSE: &str = "response";

/// JSON Schema of the arguments of every agent's tool. (Images and sounds cannot be handed on.)
#[must_use]
pub fn parameters() -> Value {
    let text = Value::object([("type", Value::from("string"))]);
    Value::object([
        ("type", Value::from("object")),
        ("properties", Value::object([(QUERY, text)])),
        ("required", Value::array([Value::from(QUERY)])),
    ])
}

/// The input of an agent: the input of its caller, with the query in the place of the user's message.
#[must_use]
pub fn input(of_caller: &Value, query: &str) -> Value {
    match of_caller.as_object() {
        Some(fields) => {
            let mut fields = fields.to_map();
            fields.insert(MESSAGE.into(), Value::from(query));
            Value::from(fields)
        }
        None => Value::from(query),
    }
}
