//! One workflow with every kind of effect, and the world that it acts on: crash tests kill its runs, the simulator lets
//! a fleet drive them.
//!
//! Whatever a run does to the world, a [`Witness`] sees. The world answers by what it is asked alone, so that it does
//! not matter who asks again.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use opcell_engine::{
    Program,
    approval::ToolApproval,
    conversation::{Message, ToolCallRequest, Usage},
    ports::{
        Call, Effects, Failure, Judges, ModelReply, ModelRound, OpenSession, OpenedSession, Operations, Reply,
        Sessions, Success, TextSink, ToolCall, Verdict, Workflows,
    },
};
use opcell_ir::{
    WorkflowIr,
    ir::{ApprovalRule, Ask},
    names::Outcome,
};
use opcell_types::{CallContext, ToolDescription, Value};
use std::sync::Arc;

/// The operation that a cell performs where there are cells; elsewhere it returns its arguments.
pub const CELL: &str = "test/run";

/// The workflow.
///
/// # Errors
/// When `workflow.json` is not a workflow.
pub fn program() -> Result<Arc<Program>> {
    let ir = serde_json::from_str(include_str!("journey/workflow.json")).context("workflow.json")?;
    Ok(Program::new(Arc::new(ir))?)
}

/// Returns the input of a run of the workflow.
///
/// # Errors
/// When it is not JSON.
pub fn input() -> Result<Value> {
    Value::from_json(r#"{"xs": [1, 2, 3]}"#).context("the input")
}

/// Returns the effect of repeating an operation.
#[must_use]
pub fn effects(operation: &str) -> Effects {
    match operation {
        "work/publish" => Effects::Once,
        "work/item" => Effects::Pure,
        _ => Effects::Idempotent,
    }
}

/// Sees what runs do to the world.
#[async_trait]
pub trait Witness: Send + Sync {
    /// An operation, a tool or `model` is asked to do something with arguments, which are JSON.
    async fn sees(&self, context: &CallContext, what: &str, with: String);
}

/// Operations, judges, models and workflows.
pub struct World<W> {
    /// The witness of everything that happens.
    pub witness: W,
    cells: Option<Arc<dyn Operations>>,
    inner: Arc<WorkflowIr>,
    /// `true` if a person is asked about each call of a model, which then must not be repeated.
    asks: bool,
}

impl<W> World<W> {
    /// A world in which `cells` perform [`CELL`].
    ///
    /// # Errors
    /// When `inner.json` is not a workflow.
    pub fn new(witness: W, cells: Option<Arc<dyn Operations>>) -> Result<Self> {
        let inner = serde_json::from_str(include_str!("journey/inner.json")).context("inner.json")?;
        Ok(Self { witness, cells, inner: Arc::new(inner), asks: false })
    }

    /// The same world, in which a person is asked about each call of a model.
    #[must_use]
    pub fn asking(self) -> Self {
        Self { asks: true, ..self }
    }

    /// The same world, seen by someone else.
    pub fn seen_by(&self, witness: W) -> Self {
        Self { witness, cells: self.cells.clone(), inner: self.inner.clone(), asks: self.asks }
    }
}

#[async_trait]
impl<W: Witness> Operations for World<W> {
    fn effects(&self, operation: &str) -> Option<Effects> {
        Some(effects(operation))
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.witness.sees(&call.context, &call.id, call.arguments.to_json()).await;
        let data = match (call.id.as_ref(), &self.cells) {
            (CELL, Some(cells)) => return cells.invoke(call).await,
            // The first attempt fails, so that a retry with a delay is part of the journey.
            ("work/draft", _) if call.context.visit == 1 && call.context.attempt == 1 => {
                return Err(Failure::host("not-yet", "not-yet").retriable()).into();
            }
            ("work/review", _) => Value::from(if call.context.visit == 1 { "AGAIN" } else { "GO" }),
            ("work/publish", _) => Value::Null,
            _ => call.of.arguments,
        };
        Ok(Success { data, summary: None, details: None }).into()
    }
}

#[async_trait]
impl<W: Witness> Judges for World<W> {
    fn knows(&self, _judge: &str) -> bool {
        false
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        Ok(Verdict { outcome: Outcome::Text(call.id.clone()), rationale: None }).into()
    }
}

#[async_trait]
impl<W: Witness> Sessions for World<W> {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let asked = request.session.tools.iter().flatten().filter(|_| self.asks);
        let approvals = asked.map(|tool| ToolApproval {
            tool: tool.clone(),
            effects: Effects::Once,
            identity: "the tool of the journey".into(),
            rules: vec![ApprovalRule::of(Ask::Always)].into(),
            approved: Vec::new(),
        });
        let approvals = approvals.collect();
        let tool = |name: String| ToolDescription::new(name, "", Value::object::<&str>([]));
        Ok(OpenedSession {
            system: "You are a test.".to_owned(),
            sections: Value::Null,
            models: vec!["model".to_owned()],
            tools: request.session.tools.clone().unwrap_or_default().into_iter().map(tool).collect(),
            settings: request.session,
            parallel_tools: Vec::new(),
            narrowing: None,
            approvals,
            code: None,
            augmenters: Vec::new(),
            windows: Vec::new(),
            result_limit: None,
        })
    }

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let last = round.messages.last().map(|last| last.content.clone()).unwrap_or_default();
        self.witness.sees(&round.context, "model", last.clone()).await;
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
        let usage = Usage { input_tokens: 10, output_tokens: 5, cost: Some(0.25), ..Usage::default() };
        Ok(ModelReply { message, usage, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        if self.asks { Effects::Once } else { Effects::Idempotent }
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        self.witness.sees(&call.context, &call.request.name, call.request.arguments.to_json()).await;
        // Of a call that is skipped after a crash, the result is null as well.
        Ok(if self.asks { Value::Null } else { Value::from("text") }).into()
    }
}

impl<W: Witness> Workflows for World<W> {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        (name == "inner").then(|| self.inner.clone())
    }

    fn names(&self) -> Vec<String> {
        vec!["inner".to_owned()]
    }
}
