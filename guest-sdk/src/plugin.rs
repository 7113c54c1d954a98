//! The expansion of the macros: the tables of a plugin's operations and judges, and the exports over them.

use crate::bindings::imports::opcell::plugin0_1_0::types;
use crate::bindings::judges::exports::opcell::plugin0_1_0::judges;
use crate::bindings::operations::exports::opcell::plugin0_1_0::operations;
use crate::{Context, Effects, Failure, IntoReply, Outcome, Verdict, log};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use judges::{JudgeDescription, Verdict as RawVerdict};
pub use operations::{OperationDescription, Success as Reply};
pub use types::Failure as RawFailure;

/// A function made an operation by `#[operation]`; the type has the function's name.
pub trait Operation {
    /// `namespace/name`.
    const ID: &'static str;
    /// One sentence.
    const SUMMARY: &'static str;
    /// The effect of making the same call twice.
    const EFFECTS: Effects;

    /// JSON Schema of the arguments.
    fn arguments_schema() -> Value;

    /// JSON Schema of the data.
    fn data_schema() -> Value;

    /// Runs it over JSON text.
    fn invoke(arguments: &str, context: &Context) -> Result<Reply, Failure>;
}

/// A function made a judge by `#[judge]`; the type has the function's name.
pub trait Judge {
    /// `namespace/name`.
    const ID: &'static str;
    /// One sentence.
    const SUMMARY: &'static str;

    /// JSON Schema of the arguments.
    fn arguments_schema() -> Value;

    /// Every outcome that it can produce; empty when they cannot be listed.
    fn outcomes() -> Vec<Outcome>;

    /// Decides over JSON text.
    fn judge(arguments: &str, context: &Context) -> Result<Verdict, Failure>;
}

/// An operation in a plugin's table.
pub struct OperationEntry {
    id: &'static str,
    describe: fn() -> OperationDescription,
    invoke: fn(&str, &Context) -> Result<Reply, Failure>,
}

impl OperationEntry {
    /// The entry of an operation.
    #[must_use]
    pub const fn of<O: Operation>() -> Self {
        Self { id: O::ID, describe: describe_operation::<O>, invoke: O::invoke }
    }
}

/// A judge in a plugin's table.
pub struct JudgeEntry {
    id: &'static str,
    describe: fn() -> JudgeDescription,
    judge: fn(&str, &Context) -> Result<Verdict, Failure>,
}

impl JudgeEntry {
    /// The entry of a judge.
    #[must_use]
    pub const fn of<J: Judge>() -> Self {
        Self { id: J::ID, describe: describe_judge::<J>, judge: checked_judge::<J> }
    }
}

fn describe_operation<O: Operation>() -> OperationDescription {
    OperationDescription {
        id: O::ID.to_owned(),
        summary: O::SUMMARY.to_owned(),
        arguments_schema: O::arguments_schema().to_string(),
        data_schema: O::data_schema().to_string(),
        effects: O::EFFECTS,
    }
}

fn describe_judge<J: Judge>() -> JudgeDescription {
    JudgeDescription {
        id: J::ID.to_owned(),
        summary: J::SUMMARY.to_owned(),
        arguments_schema: J::arguments_schema().to_string(),
        outcomes: J::outcomes(),
    }
}

/// A verdict outside the declared outcomes is a mistake in the judge, and a judge fails closed.
fn checked_judge<J: Judge>(arguments: &str, context: &Context) -> Result<Verdict, Failure> {
    let verdict = J::judge(arguments, context)?;
    let declared = J::outcomes();
    if declared.is_empty() || declared.contains(&verdict.outcome) {
        return Ok(verdict);
    }
    Err(Failure::new("undeclared-outcome", format!("{} decided {}, which it does not declare", J::ID, verdict.outcome)))
}

/// The export `operations.describe`.
#[must_use]
pub fn describe_operations(table: &[OperationEntry]) -> Vec<OperationDescription> {
    log::report_panics();
    table.iter().map(|entry| (entry.describe)()).collect()
}

/// The export `operations.invoke`.
pub fn invoke(table: &[OperationEntry], id: &str, arguments: &str, context: &Context) -> Result<Reply, RawFailure> {
    log::report_panics();
    match table.iter().find(|entry| entry.id == id) {
        Some(entry) => (entry.invoke)(arguments, context).map_err(RawFailure::from),
        None => Err(unknown("operation", id, table.iter().map(|entry| entry.id)).into()),
    }
}

/// The export `judges.describe`.
#[must_use]
pub fn describe_judges(table: &[JudgeEntry]) -> Vec<JudgeDescription> {
    log::report_panics();
    table.iter().map(|entry| (entry.describe)()).collect()
}

/// The export `judges.judge`.
pub fn judge(
    table: &[JudgeEntry],
    id: &str,
    arguments: &str,
    context: &Context,
) -> Result<judges::Verdict, RawFailure> {
    log::report_panics();
    match table.iter().find(|entry| entry.id == id) {
        Some(entry) => (entry.judge)(arguments, context).map(judges::Verdict::from).map_err(RawFailure::from),
        None => Err(unknown("judge", id, table.iter().map(|entry| entry.id)).into()),
    }
}

fn unknown(what: &str, id: &str, known: impl Iterator<Item = &'static str>) -> Failure {
    let known: Vec<_> = known.collect();
    Failure::new(format!("unknown-{what}"), format!("no {what} {id}; this plugin has {}", known.join(", ")))
}

/// Reads arguments; what the host's schema check lets through may still not be what the function takes.
pub fn read_arguments<A: DeserializeOwned>(arguments: &str) -> Result<A, Failure> {
    serde_json::from_str(arguments).map_err(|error| Failure::new("invalid-arguments", error.to_string()))
}

/// The schema that the host checks before a call. Arguments are always an object.
#[must_use]
pub fn arguments_schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    if schema.get("type").is_none() {
        schema.insert("type".to_owned(), "object".into());
    }
    let mut schema = schema.to_value();
    bound_integers(&mut schema);
    schema
}

/// Adds the range of each integer type, which `schemars` names as a format only: the host refuses what the function
/// could not read, and says so to the caller.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(bound_integers),
        Value::Object(map) => {
            map.values_mut().for_each(bound_integers);
            let is_integer = match map.get("type") {
                Some(Value::String(name)) => name == "integer",
                Some(Value::Array(names)) => names.iter().any(|name| name == "integer"),
                _ => false,
            };
            let range: Option<(Value, Value)> = match map.get("format").and_then(Value::as_str) {
                Some("int8") => Some((i8::MIN.into(), i8::MAX.into())),
                Some("int16") => Some((i16::MIN.into(), i16::MAX.into())),
                Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
                Some("int64") => Some((i64::MIN.into(), i64::MAX.into())),
                Some("int") => Some((isize::MIN.into(), isize::MAX.into())),
                Some("uint8") => Some((0.into(), u8::MAX.into())),
                Some("uint16") => Some((0.into(), u16::MAX.into())),
                Some("uint32") => Some((0.into(), u32::MAX.into())),
                Some("uint64") => Some((0.into(), u64::MAX.into())),
                Some("uint") => Some((0.into(), usize::MAX.into())),
                _ => None,
            };
            if let Some((least, most)) = range.filter(|_| is_integer) {
                map.entry("minimum").or_insert(least);
                map.entry("maximum").or_insert(most);
            }
        }
        _ => {}
    }
}

/// The schema that the host checks after a call.
#[must_use]
pub fn data_schema<R: IntoReply>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<R::Data>().to_value()
}

/// Returns `true` if no id is in a table twice; checked while compiling.
#[must_use]
pub const fn unique(mut ids: &[&str]) -> bool {
    while let [first, rest @ ..] = ids {
        if contains(rest, first) {
            return false;
        }
        ids = rest;
    }
    true
}

const fn contains(mut ids: &[&str], id: &str) -> bool {
    while let [first, rest @ ..] = ids {
        if same(first.as_bytes(), id.as_bytes()) {
            return true;
        }
        ids = rest;
    }
    false
}

const fn same(mut left: &[u8], mut right: &[u8]) -> bool {
    loop {
        match (left, right) {
            ([], []) => return true,
            ([one, left_rest @ ..], [other, right_rest @ ..]) if *one == *other => {
                (left, right) = (left_rest, right_rest)
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unique;

    #[test]
    fn an_id_that_stands_twice_is_noticed() {
        assert!(unique(&[]) && unique(&["a/b", "a/bc", "b/a"]));
        assert!(!unique(&["a/b", "b/a", "a/b"]));
    }
}
