//! The fixtures of several modules' tests.

use opcell_engine::call;
use opcell_engine::conversation::Message;
use opcell_engine::ports::{ModelRound, OpenedSession, TextSink};
use opcell_ir::ir;
use opcell_types::{CallContext, Value};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub(crate) fn context(step: &str) -> CallContext {
    CallContext {
        run: "run-1".into(),
        step: step.into(),
        visit: 1,
        attempt: 1,
        idempotency_key: "key".into(),
        ..CallContext::default()
    }
}

pub(crate) fn session(system: &str) -> OpenedSession {
    OpenedSession {
        system: system.to_owned(),
        sections: Value::Null,
        models: vec!["test/model".to_owned()],
        tools: Vec::new(),
        settings: ir::Session::default(),
        parallel_tools: Vec::new(),
        narrowing: None,
        approvals: Vec::new(),
        code: None,
        augmenters: Vec::new(),
        windows: Vec::new(),
        result_limit: None,
    }
}

pub(crate) fn round(step: &str, messages: Vec<Message>) -> ModelRound {
    let round = call::ModelRound {
        context: context(step),
        session: Arc::new(session("You are tested.")),
        model: "test/model".to_owned(),
        messages: messages.into(),
        schema: None,
        window: None,
        summaries: call::Summaries::default(),
    };
    ModelRound::new(round, CancellationToken::new())
}

/// Collects what a model says while it says it.
#[derive(Default)]
pub(crate) struct Pieces(pub(crate) Mutex<Vec<String>>);

impl TextSink for Pieces {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push(piece.to_owned());
    }
}
