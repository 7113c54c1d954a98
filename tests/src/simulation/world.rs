//! The world on which the simulated runs act; it remembers what was done under which key.

use super::store::Process;
use async_trait::async_trait;
use opcell_engine::{
    conversation::{Message, ToolCallRequest, Usage},
    effect::Task,
    ports::{
        Call, EffectContext, Effects, Failure, Judges, ModelReply, ModelRound, OpenSession, OpenedSession, Operations,
        Reply, Sessions, Success, TextSink, ToolCall, Verdict, Workflows,
    },
};
use opcell_types::{ToolDescription, Value};
use opcell_workflow::{WorkflowIr, names::Outcome};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// By run, operation and key: how often.
type Deeds = BTreeMap<(Arc<str>, String, Arc<str>), usize>;

/// Operations, judges, models and workflows, as one process reaches them.
#[derive(Default)]
pub struct World {
    deeds: Arc<Mutex<Deeds>>,
    process: Option<Process>,
}

impl World {
    /// The same world, reached by a process that may stop on the way.
    pub fn seen_by(&self, process: &Process) -> Self {
        Self { deeds: self.deeds.clone(), process: Some(process.clone()) }
    }

    async fn act(&self, context: &EffectContext, what: &str) {
        if let Some(process) = &self.process {
            process.gate().await;
        }
        let deed = (context.run.clone(), what.to_owned(), context.idempotency_key.clone());
        *self.deeds.lock().unwrap_or_else(PoisonError::into_inner).entry(deed).or_default() += 1;
        if let Some(process) = &self.process {
            process.gate().await;
        }
    }

    pub fn has_done(&self, key: &str) -> bool {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner).keys().any(|(.., done)| **done == *key)
    }

    /// How many keys each operation that is not pure was given in a run.
    pub fn keys(&self, run: &str) -> Vec<(String, usize)> {
        let mut keys: BTreeMap<String, usize> = BTreeMap::new();
        for (of, what, _) in self.deeds.lock().unwrap_or_else(PoisonError::into_inner).keys() {
            if **of == *run && effects(what) != Effects::Pure {
                *keys.entry(what.clone()).or_default() += 1;
            }
        }
        keys.into_iter().collect()
    }

    /// What happened more often than it may.
    pub fn repeated(&self, run: &str) -> Vec<String> {
        let deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
        let twice =
            deeds.iter().filter(|((of, what, _), times)| **of == *run && effects(what) == Effects::Once && **times > 1);
        twice.map(|((_, what, key), times)| format!("{what} happened {times} times under {key}")).collect()
    }
}

/// The idempotency key of what an effect calls.
pub fn key(task: &Task) -> Option<Arc<str>> {
    match task {
        Task::Invoke(call) | Task::Judge(call) => Some(call.context.idempotency_key.clone()),
        Task::Tool(call) => Some(call.context.idempotency_key.clone()),
        _ => None,
    }
}

fn effects(operation: &str) -> Effects {
    match operation {
        "work/publish" => Effects::Once,
        "work/item" | "test/run" => Effects::Pure,
        _ => Effects::Idempotent,
    }
}

#[async_trait]
impl Operations for World {
    fn effects(&self, operation: &str) -> Option<Effects> {
        Some(effects(operation))
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.act(&call.context, &call.id).await;
        let data = match call.id.as_ref() {
            "work/draft" if call.context.visit == 1 && call.context.attempt == 1 => {
                return Reply { result: Err(Failure::host("not-yet", "not-yet").retriable()), receipt: None };
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
        self.act(&round.context, "model").await;
        let last = round.messages.last().map(|last| last.content.clone()).unwrap_or_default();
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
        Ok(ModelReply { message, usage: Usage::default(), model: round.of.model, logprobs: None })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Idempotent
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        self.act(&call.context, &call.request.name).await;
        Reply { result: Ok(Value::from("text")), receipt: None }
    }
}

impl Workflows for World {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        let inner = serde_json::from_str(include_str!("../crash/inner.json")).ok()?;
        (name == "inner").then(|| Arc::new(inner))
    }

    fn names(&self) -> Vec<String> {
        vec!["inner".to_owned()]
    }
}
