//! JavaScript functions as models.

use crate::{
    connection::{Connection, Subject, make},
    tool::{Answer, Waiting, failed},
    value::{Given, Json},
};
use napi_derive::napi;
use opcell::{
    Failure, Message, Model, ModelReply, ModelRound, TextSink, ToolCallRequest, Usage, Value, async_trait,
    layers::types::value::Number,
};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces of text that wait for the host; further pieces are part of the answer alone.
const MAX_PIECES: usize = 1_024;

/// A model that a JavaScript function performs.
pub(crate) struct JsModel {
    pub(crate) connection: Arc<Connection>,
    /// The host's number, under which rounds are reported.
    pub(crate) host: f64,
    /// The provider's name; `None` of the model that answers whatever a session names.
    pub(crate) provider: Option<String>,
}

/// One round of a model, for the function that performs it.
#[napi]
pub struct NativeRound {
    number: f64,
    provider: Option<String>,
    model: String,
    request: Value,
    pieces: mpsc::Sender<String>,
    answer: Answer<ModelReply>,
}

/// The parts of a round that a model needs.
fn request(round: &ModelRound) -> Value {
    let of = |value| Value::of(&value).unwrap_or_default();
    let messages = round.messages.iter().map(of);
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

/// Reads an answer: `content`, `toolCalls`, `usage` and `model`.
fn reply(model: &str, answer: &Value) -> Result<ModelReply, String> {
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
    Ok(ModelReply { message, usage, model, logprobs: None, compacted: None })
}

#[napi]
impl NativeRound {
    /// The number under which it is reported that no one waits any more.
    #[napi(getter)]
    pub fn number(&self) -> f64 {
        self.number
    }

    /// The provider's name.
    #[napi(getter)]
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// The round as data.
    #[napi]
    pub fn request(&self) -> Json {
        Json(self.request.clone())
    }

    /// Shows a piece of the text before the answer is complete.
    #[napi]
    pub fn text(&self, piece: String) {
        let _ = self.pieces.try_send(piece);
    }

    /// Answers.
    #[napi]
    pub fn succeed(&self, answer: Given) {
        let read = answer.read().and_then(|answer| reply(&self.model, &answer));
        self.answer.give(read.map_err(|problem| {
            let message = format!("the answer of the model `{}` cannot be read: {problem}", self.model);
            Failure::host("malformed-result", message)
        }));
    }

    /// Answers with a failure.
    #[napi]
    pub fn fail(&self, reason: String, message: String, retriable: bool) {
        self.answer.give(Err(failed(&reason, &message, retriable)));
    }
}

#[async_trait]
impl Model for JsModel {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let (answer, answered) = Answer::new();
        let (pieces, mut shown) = mpsc::channel(MAX_PIECES);
        let waiting = Waiting::new(&self.connection);
        let (number, model, request) = (waiting.number, round.model.clone(), request(round));
        let native = NativeRound { number, provider: self.provider.clone(), model, request, pieces, answer };
        self.connection.report(Subject::Round, self.host, make(native));
        let answered = waiting.answer(&round.model, answered);
        tokio::pin!(answered);
        loop {
            tokio::select! {
                biased;
                Some(piece) = shown.recv() => if let Some(sink) = sink { sink.text(&piece) },
                answer = &mut answered => return answer,
            }
        }
    }
}
