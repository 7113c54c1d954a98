//! Rounds of models that functions of the program perform, as data, and their answers.

use opcell::{Message, ModelReply, ModelRound, ToolCallRequest, Usage, Value, layers::types::value::Number};

/// Pieces of text that wait for the host; further pieces are part of the answer alone.
pub const MAX_PIECES: usize = 1_024;

/// Returns the parts of a round that a model needs: `model`, `system`, `messages`, `tools`, `schema`, `settings` and
/// `run`.
#[must_use]
pub fn request(round: &ModelRound) -> Value {
    let messages = round.messages.iter().map(|message| Value::of(&message).unwrap_or_default());
    let tools = round.session.tools.iter().map(|tool| Value::of(tool).unwrap_or_default());
    let schema = round
        .schema
        .as_ref()
        .map(|(name, schema)| Value::object([("name", Value::from(name.as_str())), ("schema", schema.clone())]));
    Value::object([
        ("model", Value::from(round.model.as_str())),
        ("system", Value::from(round.session.system.as_str())),
        ("messages", Value::from(messages.collect::<Vec<_>>())),
        ("tools", Value::from(tools.collect::<Vec<_>>())),
        ("schema", Value::from(schema)),
        ("settings", Value::of(&round.session.settings).unwrap_or_default()),
        ("run", Value::from(&*round.context.run)),
    ])
}

/// Reads an answer: `content`, `toolCalls`, `usage` and `model`, which is the model that was asked by default.
///
/// # Errors
/// With the key that has another type, or that a call of a tool lacks.
pub fn reply(model: &str, answer: &Value) -> Result<ModelReply, String> {
    let text = |value: &Value, key: &str| match value.get(key) {
        None | Some(Value::Null | Value::Undefined) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str().to_owned())),
        Some(_) => Err(format!("`{key}` is not a string")),
    };
    let number = |key: &str| match answer.get("usage").and_then(|usage| usage.get(key)) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let count = |key: &str| number(key).and_then(Number::as_u64).unwrap_or_default();
    let mut message = Message::assistant(text(answer, "content")?.unwrap_or_default());
    let calls = answer.get("toolCalls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let required = |key: &str| text(call, key)?.ok_or_else(|| format!("a call of a tool has no `{key}`"));
        let arguments = call.get("arguments").cloned().unwrap_or_else(|| Value::object::<&str>([]));
        message.tool_calls.push(ToolCallRequest { id: required("id")?, name: required("name")?, arguments });
    }
    let usage = Usage {
        input_tokens: count("inputTokens"),
        output_tokens: count("outputTokens"),
        cost: number("cost").map(Number::as_f64),
        ..Usage::default()
    };
    let model = text(answer, "model")?.unwrap_or_else(|| model.to_owned());
    Ok(ModelReply { message, usage, ..ModelReply::text(model, "") })
}
