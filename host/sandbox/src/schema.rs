//! What comes from a plugin, checked against the schemas that it brings.

pub(crate) use opcell_schema::Schema;
use opcell_schema::{MAX_STEPS, Weight};
use serde_json::Value;
use std::sync::Arc;

/// Parses a text and checks that the value fits; the message names the first violation with its place.
pub(crate) async fn parse(schema: &Arc<Schema>, text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if schema.is_quick(text, Weight::of(text)) {
        schema.check(&value)?;
        return Ok(value);
    }
    let schema = Arc::clone(schema);
    let checked = tokio::task::spawn_blocking(move || {
        schema.check_cost(&value, MAX_STEPS)?;
        schema.check(&value).map(|()| value)
    });
    checked.await.map_err(|_| "the schema cannot be checked".to_owned())?
}
