//! Conversations: a user's turns and a model's scripted rounds, driven through the real engine's states that speak.
//!
//! The reference lets a destination speak at once, which RFC 0014 calls `control: agent`; the cases are run that way. A
//! run is over when a terminal state has spoken. The reference continues chatting in that state, so further turns are
//! given to a run that starts there.

use super::{broken, compare, read_spec};
use crate::conformance::Failure;
use async_trait::async_trait;
use opcell_engine::MESSAGE_SIGNAL;
use opcell_engine::conversation::{Message, ToolCallRequest};
use opcell_engine::event::{Destination, EffectReply, Event};
use opcell_engine::ports::{
    Effects, Failure as PortFailure, ModelReply, ModelRound, OpenSession, OpenedSession, Reply, Sessions, TextSink,
    ToolCall,
};
use opcell_engine::{Engine, Message as Signalled, Program, ResumeOptions, RunOptions, Status};
use opcell_ir::SourceFile;
use opcell_ir::ir::{Control, Judge, WorkflowIr};
use opcell_types::{ToolDescription, Value as Data};
use opcell_workflow::promptpack::{Spec, compile};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The model's rounds, one after the other, and who spoke them.
struct Script {
    rounds: Mutex<VecDeque<Json>>,
    spoken: Mutex<Vec<Json>>,
    tools: Vec<ToolDescription>,
}

#[async_trait]
impl Sessions for Script {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, PortFailure> {
        Ok(OpenedSession {
            system: request.session.system_prompt.clone().unwrap_or_default(),
            sections: Data::Null,
            models: vec!["scripted".to_owned()],
            tools: request.engine_tools.into_iter().chain(self.tools.clone()).collect(),
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
        let next = self.rounds.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(next) = next else {
            return Err(PortFailure::host("script-over", "the script has no further round"));
        };
        let calls = next["tool_calls"].as_array().cloned().unwrap_or_default();
        let text = next["text"].as_str().unwrap_or_default();
        let spoken = json!({"state": round.context.step, "text": text, "tool_calls": calls.len()});
        let mut all = self.spoken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = Message::assistant(text);
        message.tool_calls = calls
            .iter()
            .enumerate()
            .map(|(index, call)| ToolCallRequest {
                id: format!("{}-{index}", all.len()),
                name: call["name"].as_str().unwrap_or_default().to_owned(),
                arguments: call["arguments"].clone().into(),
            })
            .collect();
        all.push(spoken);
        Ok(ModelReply { message, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Pure
    }

    async fn call_tool(&self, _call: ToolCall) -> Reply<Data> {
        Reply { result: Ok(Data::from("ok")), receipt: None }
    }
}

/// The observations of the runs of one case.
#[derive(Default)]
struct Seen {
    events: Vec<Json>,
    history: Vec<String>,
    visits: BTreeMap<String, u64>,
    snapshots: Vec<Json>,
    artifacts: serde_json::Map<String, Json>,
    tool_calls: u64,
    is_complete: bool,
}

/// Runs one case.
pub(super) fn run(case: &Json) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let observed = runtime.block_on(observe(case))?;
    let expected = &case["observed"];
    compare("turns", &json!({"turns": expected["turns"]}), &observed)?;
    compare("events", &json!({"events": expected["events"], "responses_used": expected["responses_used"]}), &observed)?;
    compare("final", &expected["final"], &observed["final"])
}

/// A pack with this workflow and a prompt for each of its states.
fn pack(spec: &Spec, workflow: &Json) -> Json {
    let prompts: BTreeSet<&str> = spec.states.values().map(|state| state.prompt_task.as_str()).collect();
    let prompt = |name: &str| json!({"id": "p", "name": name, "version": "1.0.0", "system_template": "Speak."});
    json!({
        "id": "scenario", "name": "Scenario", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": prompts.into_iter().map(|name| (name.to_owned(), prompt(name))).collect::<serde_json::Map<_, _>>(),
        "workflow": workflow,
    })
}

/// The workflow, every state of which speaks as soon as it is entered.
fn program(spec: &Spec, case: &Json, entry: &str) -> Result<Arc<Program>, Failure> {
    let source = SourceFile::new("scenario.pack.json", pack(spec, &case["spec"]).to_string());
    let compiled = compile(&source);
    let ir = compiled.ir.ok_or_else(|| broken(format!("{:?}", compiled.diagnostics)))?;
    let mut ir: WorkflowIr = ir.as_ref().clone();
    ir.entry = Some(entry.into());
    for step in &mut ir.steps {
        if let Some(Judge::Event { control, .. }) = &mut step.judge {
            *control = Control::Agent;
        }
    }
    Program::new(Arc::new(ir)).map_err(broken)
}

/// Every tool that the script calls, the workflow's own aside.
fn tools(case: &Json) -> Vec<ToolDescription> {
    let rounds = case["model_script"].as_array().into_iter().flatten();
    let calls = rounds.flat_map(|round| round["tool_calls"].as_array().cloned().unwrap_or_default());
    let names: BTreeSet<String> = calls.filter_map(|call| call["name"].as_str().map(str::to_owned)).collect();
    names
        .into_iter()
        .filter(|name| !name.starts_with("workflow__"))
        .map(|name| ToolDescription::new(name, "", Data::Null))
        .collect()
}

async fn observe(case: &Json) -> Result<Json, Failure> {
    let spec = read_spec(case)?;
    let script = Arc::new(Script {
        rounds: Mutex::new(case["model_script"].as_array().cloned().unwrap_or_default().into()),
        spoken: Mutex::default(),
        tools: tools(case),
    });
    let engine = Engine::builder().sessions(script.clone()).build();
    let start = case["start_state"].as_str().filter(|state| !state.is_empty()).unwrap_or(&spec.entry).to_owned();
    let mut seen = Seen::default();
    seen.visits.insert(start.clone(), 1);
    let (mut state, mut turns, mut run) = (start, Vec::new(), None);
    for user in super::strings(&case["user_turns"]) {
        let before = script.spoken.lock().unwrap_or_else(PoisonError::into_inner).len();
        let options = || RunOptions { detach: true, ..RunOptions::default() };
        let handle = match run.take() {
            None => engine.start(program(&spec, case, &state)?, Data::from(user.as_str()), options()).await,
            Some((id, _)) => {
                let said = Signalled::Signal {
                    name: MESSAGE_SIGNAL.into(),
                    data: Data::from(user.as_str()),
                    by: None,
                    key: None,
                    question: None,
                    may_approve: true,
                };
                engine.send(&id, &said).await.map_err(broken)?;
                engine.resume(&id, ResumeOptions { detach: true, ..ResumeOptions::default() }).await
            }
        }
        .map_err(broken)?;
        let outcome = handle.finished().await.map_err(broken)?;
        let history = engine.history(handle.run()).await.map_err(broken)?;
        let from = run_position(&turns);
        state =
            seen.take(&spec, &state, &history.iter().skip(from).map(|event| event.event.clone()).collect::<Vec<_>>());
        let messages = script
            .spoken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .skip(before)
            .cloned()
            .collect::<Vec<_>>();
        turns.push(json!({"user": user, "state_after_turn": state, "messages": messages, "position": history.len()}));
        match outcome.status {
            Status::Suspended => run = Some((handle.run().clone(), history.len())),
            Status::Completed => {
                if !seen.is_complete {
                    let count = seen.history.len();
                    let done = json!({"type": "workflow.completed", "final_state": state, "transition_count": count});
                    seen.events.push(done);
                }
                seen.is_complete = true;
                turns.iter_mut().for_each(|turn| turn["position"] = json!(0));
            }
            _ => return Err(broken(outcome.message.unwrap_or_default())),
        }
    }
    for turn in &mut turns {
        if let Some(turn) = turn.as_object_mut() {
            turn.shift_remove("position");
        }
    }
    let used = script.spoken.lock().unwrap_or_else(PoisonError::into_inner).len();
    Ok(json!({"turns": turns, "events": seen.events, "responses_used": used, "final": seen.end(&spec, &state)}))
}

/// Returns the number of events of the current run that earlier turns have seen.
fn run_position(turns: &[Json]) -> usize {
    turns.last().and_then(|turn| turn["position"].as_u64()).and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
}

impl Seen {
    /// Adds what a turn did; gives the state that it ended in.
    fn take(&mut self, spec: &Spec, state: &str, events: &[Event]) -> String {
        let mut state = state.to_owned();
        let mut raised = String::new();
        for event in events {
            match event {
                Event::EventRaised { event, .. } => raised = event.to_string(),
                Event::ArtifactSet { name, value, .. } => {
                    self.artifacts.insert(name.to_string(), Json::from(value));
                }
                Event::Interjected { message, .. } if message.tool_call_id.is_some() => self.tool_calls += 1,
                Event::Replied { reply, .. } if matches!(**reply, EffectReply::Tool(_)) => self.tool_calls += 1,
                Event::Routed { to: Destination::Step(index), redirected, .. } => {
                    let index = usize::try_from(*index).unwrap_or(usize::MAX);
                    let to = spec.states.keys().nth(index).cloned().unwrap_or_default();
                    self.moved(spec, &state, &to, &raised, redirected.is_some());
                    state = to;
                }
                _ => {}
            }
        }
        state
    }

    fn moved(&mut self, spec: &Spec, from: &str, to: &str, event: &str, redirected: bool) {
        if redirected {
            self.events.push(json!({
                "type": "workflow.max_visits_exceeded",
                "from_state": from,
                "original_target": spec.states.get(from).and_then(|state| state.on_event.get(event)),
                "redirected_to": to,
                "terminated": false,
            }));
        }
        self.events.push(json!({"type": "workflow.transitioned", "from_state": from, "to_state": to, "event": event}));
        // The cases' clock stands still.
        self.history.push(format!("{from} -{event}-> {to} @2026-02-17T12:00:00Z"));
        *self.visits.entry(to.to_owned()).or_default() += 1;
        if !self.artifacts.is_empty() {
            let snapshot = json!({"event": event, "from_state": from, "to_state": to, "values": self.artifacts});
            self.snapshots.push(snapshot);
        }
    }

    fn end(&self, spec: &Spec, state: &str) -> Json {
        let definition = spec.states.get(state);
        let events: Vec<&String> = definition.map(|state| state.on_event.keys().collect()).unwrap_or_default();
        let or_null = |empty: bool, value: Json| if empty { Json::Null } else { value };
        json!({
            "current_state": state,
            "prompt_task": definition.map(|state| &state.prompt_task),
            "is_terminal": definition.is_none_or(opcell_workflow::promptpack::State::is_terminal),
            "available_events": or_null(events.is_empty(), json!(events)),
            "history": self.history,
            "transition_count": self.history.len(),
            "visit_counts": self.visits,
            "total_visits": self.visits.values().sum::<u64>(),
            "total_tool_calls": self.tool_calls,
            "artifacts": or_null(self.artifacts.is_empty(), json!(self.artifacts)),
            "artifact_history": self.snapshots,
            "artifact_history_len": self.snapshots.len(),
            "started_at": "2026-02-17T12:00:00Z",
            "updated_at": "2026-02-17T12:00:00Z",
        })
    }
}
