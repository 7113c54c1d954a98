//! Echo as a plugin of Extism: parses its arguments and writes them out again, as `example-operations/echo` does.

use extism_pdk::{FnResult, Json, plugin_fn};
use serde_json::{Map, Value};

/// Returns its arguments as they are.
#[plugin_fn]
pub fn echo(Json(arguments): Json<Map<String, Value>>) -> FnResult<Json<Map<String, Value>>> {
    Ok(Json(arguments))
}
