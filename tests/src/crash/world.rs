//! The world that the workflow acts on. Everything that it does to the world is sent to the recorder.

use super::recorder::{Deed, Recorder};
use anyhow::{Context as _, Result};
use async_trait::async_trait;
use opcell::{Host, config::PluginConfig, places::Places};
use opcell_engine::{
    conversation::{Message, ToolCallRequest, Usage},
    ports::{
        Call, EffectContext, Effects, Failure, Judges, ModelReply, ModelRound, OpenSession, OpenedSession, Operations,
        Reply, Sessions, Success, TextSink, ToolCall, Verdict, Workflows,
    },
};
use opcell_sandbox::CompileMode;
use opcell_types::{ToolDescription, Value};
use opcell_workflow::{WorkflowIr, names::Outcome};
use std::{path::Path, sync::Arc};

/// Operations, judges, models and workflows. One operation is a cell.
pub struct World {
    recorder: Arc<Recorder>,
    host: Host,
    inner: Arc<WorkflowIr>,
}

impl World {
    /// Opens the world of a directory; the component's compiled code is kept in `cache`.
    pub async fn open(directory: &Path, cache: &Path, recorder: Arc<Recorder>) -> Result<Self> {
        let config = opcell::Config::empty(directory.to_owned());
        let mut places = Places::default();
        places.cache = Some(cache.join("components"));
        places.state = Some(cache.join("state"));
        let plugin = PluginConfig::new("test", cache.join("test.wasm"));
        let host = Host::builder()
            .config(config)
            .places(places)
            .plugin(plugin)
            .compile(CompileMode::TrustedInProcess)
            .build()
            .await?;
        let inner = serde_json::from_str(include_str!("inner.json")).context("inner.json")?;
        Ok(Self { recorder, host, inner: Arc::new(inner) })
    }

    fn do_it(&self, context: &EffectContext, what: &str, with: String) {
        self.recorder.deed(Deed {
            key: context.idempotency_key.as_ref().to_owned(),
            step: context.step.as_ref().to_owned(),
            visit: context.visit,
            attempt: context.attempt,
            what: what.to_owned(),
            with,
        });
    }
}

fn failed(reason: &str) -> Failure {
    Failure::host(reason, reason).retriable()
}

/// What repeating an operation does.
pub fn effects(operation: &str) -> Effects {
    match operation {
        "work/publish" => Effects::Once,
        "work/item" => Effects::Pure,
        _ => Effects::Idempotent,
    }
}

#[async_trait]
impl Operations for World {
    fn effects(&self, operation: &str) -> Option<Effects> {
        Some(effects(operation))
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.do_it(&call.context, &call.id, call.arguments.to_json());
        let data = match call.id.as_ref() {
            "test/run" => return self.host.catalog().invoke(call).await,
            // The first attempt fails, so that a retry with a delay is part of the journey.
            "work/draft" if call.context.visit == 1 && call.context.attempt == 1 => {
                return Reply { result: Err(failed("not-yet")), receipt: None };
            }
            "work/review" => Value::from(if call.context.visit == 1 { "AGAIN" } else { "GO" }),
            "work/publish" => Value::Null,
            _ => call.of.arguments,
        };
        Reply { result: Ok(Success { data, summary: None, details: None }), receipt: None }
    }
}

#[async_trait]
impl Judges for World {
    fn knows(&self, _judge: &str) -> bool {
        false
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        let verdict = Verdict { outcome: Outcome::Text(call.id.clone()), rationale: None };
        Reply { result: Ok(verdict), receipt: None }
    }
}

#[async_trait]
impl Sessions for World {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let tool = |name: String| ToolDescription::new(name, "", Value::object::<&str>([]));
        Ok(OpenedSession {
            system: "You are a test.".to_owned(),
            sections: Value::Null,
            models: vec!["model".to_owned()],
            tools: request.session.tools.clone().unwrap_or_default().into_iter().map(tool).collect(),
            settings: request.session,
            parallel_tools: Vec::new(),
            narrowing: None,
        })
    }

    /// Answers by what it is asked alone, so that it does not matter who asks again.
    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let last = round.messages.last().map(|last| last.content.clone()).unwrap_or_default();
        self.do_it(&round.context, "model", last.clone());
        let call = |id: &str| ToolCallRequest {
            id: id.to_owned(),
            name: "read".to_owned(),
            arguments: Value::object([("file", Value::from(id))]),
        };
        let message = match last.as_str() {
            "work" => Message { tool_calls: vec![call("a"), call("b")], ..Message::assistant("") },
            "good?" => Message::assistant(":ok"),
            _ => Message::assistant("done"),
        };
        let usage = Usage { input_tokens: 10, output_tokens: 5, cost: Some(0.25) };
        Ok(ModelReply { message, usage, model: round.of.model, logprobs: None })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Idempotent
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        self.do_it(&call.context, &call.request.name, call.request.arguments.to_json());
        Reply { result: Ok(Value::from("text")), receipt: None }
    }
}

impl Workflows for World {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        (name == "inner").then(|| self.inner.clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["inner".to_owned()]
    }
}
