//! Values that must pass a schema: JSON in a model's words, what a workflow takes and what it returns.

use opcell_ir::ir::StructuredOutput;
use opcell_schema::Schema;
use opcell_types::Value;

/// Steps that one check may take: some hundredths of a second, in which other runs may have to wait.
const MAX_STEPS: u64 = 5_000_000;

/// Violations that are shown at once.
const VIOLATIONS: usize = 5;

/// Why an answer is not what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Invalid {
    /// There is nothing to check it against.
    Schema(String),
    /// It does not pass.
    Answer(String),
}

/// The value in an answer: the whole text, or the one fenced block in it.
pub(crate) fn parse(answer: &str, spec: &StructuredOutput) -> Result<Value, Invalid> {
    let Some(schema) = &spec.json_schema else {
        return Err(Invalid::Schema("A structured output needs a JSON Schema to check answers against".to_owned()));
    };
    let value: Value = opcell_schema::json::from_slice(unfenced(answer).as_bytes())
        .map_err(|error| Invalid::Answer(format!("The answer is not JSON: {error}")))?;
    let compiled = Schema::shared(schema)
        .map_err(|error| Invalid::Schema(format!("The schema of the answer is not a JSON Schema: {error}")))?;
    match violations(&compiled, &value) {
        None => Ok(value),
        Some(found) => Err(Invalid::Answer(format!("The answer does not match its schema: {found}"))),
    }
}

/// Checks what a workflow takes or returns; the error says what is wrong with it.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let compiled = Schema::shared(schema)?;
    violations(&compiled, value).map_or(Ok(()), Err)
}

fn violations(schema: &Schema, value: &Value) -> Option<String> {
    let found = schema.problems(value, MAX_STEPS, VIOLATIONS);
    (!found.is_empty()).then(|| found.join("; "))
}

fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inside.split_once('\n').map_or(inside, |(_, body)| body).trim()
}

/// The feedback to a model whose answer does not match.
pub(crate) fn feedback(problem: &str) -> String {
    format!(
        "Your response is not the requested JSON. {problem}. Respond with one JSON value that matches the schema and nothing else."
    )
}
