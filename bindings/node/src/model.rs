//! JavaScript functions as models.

use crate::{
    connection::{Connection, Subject, make},
    tool::{Answer, Waiting, failed},
    value::{Given, Json},
};
use napi_derive::napi;
use opcell::{Failure, Model, ModelReply, ModelRound, TextSink, Value, async_trait};
use opcell_bindings::model::{MAX_PIECES, reply, request};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A model that a JavaScript function performs.
pub(crate) struct JsModel {
    pub(crate) connection: Arc<Connection>,
    /// The host's number, under which rounds are reported.
    pub(crate) host: f64,
    /// The key of the function: the provider's name, or that of a tenant's model; `None` of the model that answers
    /// whatever a session names.
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
