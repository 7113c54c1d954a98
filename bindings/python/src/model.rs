//! Python functions as models.

use crate::{
    runtime,
    tool::failed,
    value::{from_python, to_python},
};
use opcell::{Failure, Model, ModelReply, ModelRound, TextSink, Value, async_trait};
use opcell_bindings::model::{MAX_PIECES, reply, request};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A model that a Python function performs.
pub(crate) struct PythonModel {
    /// Takes a [`Round`], has it performed on a thread of Python's, and returns at once.
    submit: Arc<Py<PyAny>>,
}

impl PythonModel {
    pub(crate) fn new(submit: Py<PyAny>) -> Self {
        Self { submit: Arc::new(submit) }
    }
}

type Answer = Result<ModelReply, Failure>;

/// One round of a model, for the thread that performs it.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct Round {
    model: String,
    request: Value,
    /// Cancelled when the session no longer waits.
    abandoned: CancellationToken,
    pieces: mpsc::Sender<String>,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl Round {
    fn answer(&self, answer: Answer) {
        if let Some(waiting) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = waiting.send(answer);
        }
    }
}

#[pymethods]
impl Round {
    /// The round as data.
    fn request<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.request)
    }

    /// Returns `True` if the session no longer waits.
    fn is_cancelled(&self) -> bool {
        self.abandoned.is_cancelled()
    }

    /// Shows a piece of the text before the answer is complete.
    fn text(&self, piece: String) {
        let _ = self.pieces.try_send(piece);
    }

    /// Answers.
    fn succeed(&self, answer: &Bound<'_, PyAny>) {
        let read = from_python(answer).and_then(|answer| reply(&self.model, &answer));
        self.answer(read.map_err(|problem| {
            let message = format!("the answer of the model `{}` cannot be read: {problem}", self.model);
            Failure::host("malformed-result", message)
        }));
    }

    /// Answers with a failure.
    fn fail(&self, reason: &str, message: &str, retriable: bool) {
        self.answer(Err(failed(reason, message, retriable)));
    }
}

#[async_trait]
impl Model for PythonModel {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let (pieces, mut shown) = mpsc::channel(MAX_PIECES);
        let abandoned = CancellationToken::new();
        let _no_longer_waits = abandoned.clone().drop_guard();
        let (model, request, answer) = (round.model.clone(), request(round), Mutex::new(Some(answer)));
        let native = Round { model, request, abandoned, pieces, answer };
        let submit = self.submit.clone();
        runtime::report(Box::new(move |py| {
            // An error drops the round, and with it the sender of its answer.
            if let Err(error) = submit.call1(py, (native,)) {
                error.write_unraisable(py, None);
            }
        }));
        tokio::pin!(answered);
        loop {
            tokio::select! {
                // The pieces that came before the answer are shown before it.
                biased;
                Some(piece) = shown.recv() => if let Some(sink) = sink { sink.text(&piece) },
                answer = &mut answered => return answer.unwrap_or_else(|_| {
                    let message = format!("the model `{}` of this program ended without an answer", round.model);
                    Err(Failure::host(Failure::PANICKED, message))
                }),
            }
        }
    }
}
