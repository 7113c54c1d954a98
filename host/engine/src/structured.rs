//! Structured answers: JSON in a model's words, checked against the schema that was asked for.

use opcell_workflow::{Value, ir::StructuredOutput};

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
        return Err(Invalid::Schema("A structured output needs a :json-schema to check answers against".to_owned()));
    };
    let json: serde_json::Value = serde_json::from_str(unfenced(answer))
        .map_err(|error| Invalid::Answer(format!("The answer is not JSON: {error}")))?;
    let schema = serde_json::Value::from(schema);
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| Invalid::Schema(format!("The :json-schema is not a schema: {error}")))?;
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .take(5)
        .map(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{error} (at {path})"),
        })
        .collect();
    if problems.is_empty() { Ok(Value::from(json)) } else { Err(Invalid::Answer(problems.join("; "))) }
}

fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inside.split_once('\n').map_or(inside, |(_, body)| body).trim()
}

/// What a model is told about an answer that does not pass.
pub(crate) fn feedback(problem: &str) -> String {
    format!(
        "Your response is not the JSON that was asked for. {problem}. Respond with one JSON value that passes the schema, nothing else."
    )
}
