//! JSON of a provider, within a bound for the values that it unpacks to.

use opcell_schema::json::{MAX_VALUES, values_in};
use opcell_types::value::with_exact_integers;
use serde_json::Value as Json;

/// Bytes that are not a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum NotJson {
    /// They end within the document.
    Cut,
    /// They are something else.
    Broken(String),
}

/// Reads one document. An integer that would be rounded is a text of its digits, which a tool's schema may refuse and
/// the model is told of.
pub(in super::super) fn parse(bytes: &[u8]) -> Result<Json, NotJson> {
    check(bytes)?;
    serde_json::from_slice(&with_exact_integers(bytes)).map_err(|error| not_json(&error))
}

/// Reads documents that follow each other, as lines of JSON do.
pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<Json>, NotJson> {
    check(bytes)?;
    let exact = with_exact_integers(bytes);
    serde_json::Deserializer::from_slice(&exact).into_iter().collect::<Result<_, _>>().map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> NotJson {
    if error.is_eof() { NotJson::Cut } else { NotJson::Broken(error.to_string()) }
}

fn check(bytes: &[u8]) -> Result<(), NotJson> {
    match values_in(bytes) > MAX_VALUES {
        true => Err(NotJson::Broken(format!("it has more than {MAX_VALUES} values"))),
        false => Ok(()),
    }
}
