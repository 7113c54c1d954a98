//! Running case files of other runtimes, each format through its own adapter.
//!
//! A format is recognised by what a file holds. To add one, write a module with an [`Adapter`] and name it in
//! [`ADAPTERS`].

mod encoding;
mod promptpack;
mod workflowskill_expressions;
mod workflowskill_runs;
mod workflowskill_validation;

use opcell_types::Value;
use std::path::Path;

/// A runner of one format of case files.
pub struct Adapter {
    /// The name of the format.
    pub name: &'static str,
    /// Returns `true` if a file is of this format.
    pub recognizes: fn(&Value) -> bool,
    /// Runs every case of a file, in order.
    pub run: fn(&Value) -> Result<Vec<Outcome>, String>,
}

/// Every format there is.
pub const ADAPTERS: &[Adapter] = &[
    workflowskill_expressions::EXPRESSIONS,
    workflowskill_expressions::OPERATOR_MATRIX,
    workflowskill_expressions::FUZZ,
    workflowskill_validation::VALIDATION,
    workflowskill_runs::RUNS,
    promptpack::CASES,
    promptpack::SCENARIOS,
];

/// The outcome of one case.
#[derive(Debug)]
pub struct Outcome {
    /// The case's name, unique within its file.
    pub id: String,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
}

/// The expected and the observed result of a failing case, for people.
#[derive(Debug)]
pub struct Failure {
    /// The reference's result.
    pub expected: String,
    /// Opcell's result.
    pub got: String,
}

impl Outcome {
    fn new(id: impl Into<String>, result: Result<(), Failure>) -> Self {
        Self { id: id.into(), failure: result.err() }
    }
}

/// Compares, and shows both sides where they differ.
fn check(same: bool, expected: impl Into<String>, got: impl Into<String>) -> Result<(), Failure> {
    if same { Ok(()) } else { Err(Failure { expected: expected.into(), got: got.into() }) }
}

/// Runs every case of a file.
///
/// # Errors
/// When the file cannot be read, is not JSON, or is of a format that has no adapter.
pub fn run_file(path: &Path) -> Result<Vec<Outcome>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    run_text(&text)
}

/// Runs every case of a file's text.
///
/// # Errors
/// As [`run_file`].
pub fn run_text(text: &str) -> Result<Vec<Outcome>, String> {
    let document = Value::from_json(text).map_err(|error| format!("not JSON: {error}"))?;
    match ADAPTERS.iter().find(|adapter| (adapter.recognizes)(&document)) {
        Some(adapter) => (adapter.run)(&document),
        None => {
            let known: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name).collect();
            Err(format!("no adapter for this format; there are: {}", known.join(", ")))
        }
    }
}

/// A field that every case of a format has.
fn field<'a>(value: &'a Value, key: &str) -> Result<&'a Value, String> {
    value.get(key).ok_or_else(|| format!("a case has no `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    field(value, key)?.as_str().ok_or_else(|| format!("`{key}` of a case is not a text"))
}

fn cases(document: &Value) -> Result<&[Value], String> {
    document.get("cases").and_then(Value::as_array).ok_or_else(|| "the file has no `cases`".to_owned())
}

fn first_case(document: &Value) -> Option<&Value> {
    document.get("cases")?.as_array()?.first()
}
