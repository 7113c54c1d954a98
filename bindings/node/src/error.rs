//! Errors for JavaScript: `lib/errors.js` makes them of data.

use crate::value::Json;
use opcell::Value;
use opcell_bindings::error::Raised;

/// An error as data: `kind` and `fields`.
pub(crate) fn data(raised: Raised) -> Json {
    Json(Value::object([("kind", Value::from(raised.kind)), ("fields", raised.fields)]))
}

/// An error of a setting, which is a `TypeError` of JavaScript's.
pub(crate) fn setting(problem: &str) -> Raised {
    Raised::new("setting", "wrong-setting", problem)
}
