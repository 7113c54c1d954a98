//! Cases that run a composition: on the real engine, with scripted models and tools.

use super::{broken, compare};
use crate::conformance::Failure;
use async_trait::async_trait;
use opcell_engine::conversation::Message;
use opcell_engine::event::Event;
use opcell_engine::ports::{
    Call, Effects, Failure as PortFailure, ModelReply, ModelRound, OpenSession, OpenedSession, Operations, Reply,
    Sessions, Success, TextSink, ToolCall,
};
use opcell_engine::{Engine, Program, RunOptions, Status};
use opcell_ir::ir::Form;
use opcell_ir::print::go;
use opcell_types::Value as Data;
use opcell_workflow::promptpack::composition::Composition;
use opcell_workflow::promptpack::{Contracts, Pack, compile_composition};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers for steps: what the case says, else an echo; some fail a number of times first. Keeps what each step was
/// asked.
struct Script {
    kinds: BTreeMap<String, String>,
    outputs: Json,
    failures: Json,
    steps: Mutex<Map<String, Json>>,
}

impl Script {
    fn answer(&self, step: &str, input: Json) -> Result<Json, PortFailure> {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = steps.get(step).and_then(|seen| seen["attempt"].as_u64()).unwrap_or(0) + 1;
        let mut seen = json!({"attempt": attempt, "kind": self.kinds.get(step), "input": input});
        let result = if attempt <= self.failures[step].as_u64().unwrap_or(0) {
            seen["error"] = json!(format!("boom {step}"));
            Err(PortFailure::host("scripted", format!("boom {step}")).retriable())
        } else {
            let output = self.outputs.get(step).cloned().unwrap_or(input);
            seen["output"] = output.clone();
            Ok(output)
        };
        steps.insert(step.to_owned(), seen);
        result
    }
}

#[async_trait]
impl Operations for Script {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let answer = self.answer(&call.context.step, Json::from(&call.arguments));
        let result = answer.map(|data| Success { data: data.into(), summary: None, details: None });
        Reply { result, receipt: None }
    }
}

#[async_trait]
impl Sessions for Script {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, PortFailure> {
        Ok(OpenedSession {
            system: request.session.system_prompt.clone().unwrap_or_default(),
            sections: Data::Null,
            models: vec!["scripted".to_owned()],
            tools: request.engine_tools,
            settings: request.session,
            parallel_tools: Vec::new(),
            narrowing: None,
            approvals: Vec::new(),
            code: None,
            augmenters: Vec::new(),
            windows: Vec::new(),
            result_limit: None,
        })
    }

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, PortFailure> {
        let asked = round.messages.last().map_or("", |message| message.content.as_str());
        // A text crosses a conversation as it is, any other value as JSON; nothing at all is null.
        let input = match asked {
            "" => Json::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        };
        let answer = self.answer(&round.context.step, input)?;
        let message = Message::assistant(answer.to_string());
        Ok(ModelReply { message, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Pure
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Data> {
        Reply { result: Ok(call.of.request.arguments), receipt: None }
    }
}

/// Runs one case.
pub(super) fn run(case: &Json) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let observed = runtime.block_on(observe(case))?;
    compare("expected", &case["expected"], &observed)
}

async fn observe(case: &Json) -> Result<Json, Failure> {
    let composition = Composition::from_value(&Data::from(case["spec"].clone())).map_err(broken)?;
    let kinds = composition.all_steps().iter().map(|step| (step.id.clone(), step.kind.clone())).collect();
    let ir = Arc::new(compile_composition("c", &composition, &Pack::default(), &Contracts::default()));
    let script = Arc::new(Script {
        kinds,
        outputs: case["step_outputs"].clone(),
        failures: case["step_failures"].clone(),
        steps: Mutex::default(),
    });
    let engine = Engine::builder().operations(script.clone()).sessions(script.clone()).build();
    let program = Program::new(ir).map_err(broken)?;
    let input = Data::from(case["input"].clone());
    let handle = engine.start(program.clone(), input, RunOptions::default()).await.map_err(broken)?;
    let outcome = handle.finished().await.map_err(broken)?;
    let history = engine.history(handle.run()).await.map_err(broken)?;
    let events: Vec<&Event> = history.iter().map(|recorded| &recorded.event).collect();
    let steps = script.steps.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let trace = json!({
        "steps_run": steps,
        "branch_taken": branches_taken(&program, &events),
        "parallel": parallels(&program, &events),
    });
    if outcome.status == Status::Completed {
        return Ok(json!({"output": Json::from(&outcome.result), "trace": trace}));
    }
    let message = outcome.message.unwrap_or_default();
    let error = match &outcome.step {
        // A step that fails says so under its own name; an output that is missing is no one's failure.
        Some(step) if outcome.reason.as_deref() != Some("no-output") => format!("step {}: {message}", go::quote(step)),
        _ => message,
    };
    Ok(json!({"error": error, "trace": trace}))
}

/// The names of the steps that frames belong to.
fn entered<'e>(events: &[&'e Event]) -> BTreeMap<u64, &'e str> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::StepEntered { frame, name, .. } | Event::StepCalled { frame, name, .. } => {
                Some((frame.0, name.as_ref()))
            }
            _ => None,
        })
        .collect()
}

fn branches_taken(program: &Program, events: &[&Event]) -> Json {
    let names = entered(events);
    let mut taken = Map::new();
    for event in events {
        let Event::Chosen { frame, group } = event else { continue };
        let Some(step) = names.get(&frame.0).and_then(|name| program.ir().step(name)) else { continue };
        let Form::Branch { branch } = &step.form else { continue };
        let target = if *group == 0 { branch.then.first() } else { branch.otherwise.first() };
        taken.insert(step.name.to_string(), json!(target.map_or("", |name| name.as_ref())));
    }
    Json::Object(taken)
}

fn parallels(program: &Program, events: &[&Event]) -> Json {
    let names = entered(events);
    let mut done = Map::new();
    for event in events {
        let Event::StepFinished { frame, result } = event else { continue };
        let Some(step) = names.get(&frame.0).and_then(|name| program.ir().step(name)) else { continue };
        if let (Form::Parallel { parallel }, None) = (&step.form, &result.failure) {
            let branches: Vec<&str> = parallel.branches.iter().flatten().map(AsRef::as_ref).collect();
            done.insert(step.name.to_string(), json!(branches));
        }
    }
    Json::Object(done)
}
