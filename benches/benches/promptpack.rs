//! PromptPack's state machine, its runs in the engine, and its templates: what an event costs, and what is kept in
//! memory, after 100 to 100,000 transitions; what rendering a prompt costs when an artifact is hostile.
//!
//! `cargo bench -p opcell-benches --no-default-features --bench promptpack` prints three tables.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, missing_docs, reason = "a benchmark")]

use async_trait::async_trait;
use opcell_allocator::Allocator;
use opcell_engine::conversation::{Message, ToolCallRequest};
use opcell_engine::ports::{
    Effects, Failure, ModelReply, ModelRound, OpenSession, OpenedSession, Reply, Sessions, TextSink, ToolCall,
};
use opcell_engine::{Engine, Program, RunOptions, Status};
use opcell_ir::SourceFile;
use opcell_promptpack_reference::StateMachine;
use opcell_types::Value;
use opcell_workflow::promptpack::template::{Variables, render};
use opcell_workflow::promptpack::{self, Spec};
use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Counts the bytes that are allocated now.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator that hands everything on")]
// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise is that allocator's.
        unsafe { Allocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is that allocator's.
        unsafe { Allocator.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Events that are timed after a run has come so far.
const TIMED: u32 = 1_000;

fn machine() -> StateMachine {
    let workflow = r#"{"version": 2, "entry": "research", "states": {
        "research": {"prompt_task": "p", "on_event": {"More": "review"},
                     "artifacts": {"notes": {"type": "text/plain", "mode": "append"}, "sha": {"type": "text/plain"}}},
        "review": {"prompt_task": "p", "on_event": {"Again": "research", "Done": "end"}},
        "end": {"prompt_task": "p", "terminal": true}}}"#;
    let spec = Spec::from_config(&Value::from_json(workflow).unwrap()).unwrap().unwrap();
    StateMachine::new(spec, "2026-01-01T00:00:00Z".parse().unwrap())
}

/// One transition; every second one sets an artifact first, so that snapshots differ.
fn step(machine: &mut StateMachine, now: jiff::Timestamp) {
    let event = if machine.current_state() == "research" { "More" } else { "Again" };
    if event == "More" {
        machine.set_artifact("sha", "4f2a91c0");
    }
    black_box(machine.process_event(event, now).unwrap());
}

fn transitions() {
    println!("transitions   ns/event   events/s   bytes kept   snapshots kept");
    let now = "2026-01-01T00:00:01Z".parse().unwrap();
    for before in [100, 1_000, 10_000, 100_000_u32] {
        let empty = LIVE.load(Relaxed);
        let mut machine = machine();
        for _ in 0..before {
            step(&mut machine, now);
        }
        let kept = LIVE.load(Relaxed) - empty;
        let begun = Instant::now();
        for _ in 0..TIMED {
            step(&mut machine, now);
        }
        let each = begun.elapsed() / TIMED;
        let rate = 1_000_000_000 / each.as_nanos().max(1);
        let snapshots = machine.context().artifact_history.len();
        println!("{before:>11} {:>10} {rate:>10} {kept:>12} {snapshots:>16}", each.as_nanos());
    }
}

/// A model that says a few words and raises the next event, for as many rounds as are wanted.
struct Restless {
    rounds: usize,
    asked: Mutex<Vec<(Instant, usize)>>,
}

#[async_trait]
impl Sessions for Restless {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        Ok(OpenedSession {
            system: request.session.system_prompt.clone().unwrap_or_default(),
            sections: Value::Null,
            models: vec!["restless".to_owned()],
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

    async fn complete(&self, round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((Instant::now(), LIVE.load(Relaxed)));
        let mut message = Message::assistant("I looked at it once more.");
        let event = if asked.len() > self.rounds { "Done" } else { "Next" };
        if !round.session.tools.is_empty() {
            message.tool_calls.push(ToolCallRequest {
                id: format!("c{}", asked.len()),
                name: "workflow__transition".to_owned(),
                arguments: Value::object([("event", Value::from(event)), ("context", Value::from("as before"))]),
            });
        }
        Ok(ModelReply { message, ..ModelReply::text(round.of.model, "") })
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Pure
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        let message = format!("there is no tool {}", call.request.name);
        let failure = Failure::host("no-such-tool", message);
        Reply { result: Err(failure), receipt: None }
    }
}

/// Two states whose agents hand over to each other.
fn restless() -> Arc<Program> {
    let pack = r#"{"id": "restless", "name": "Restless", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Write. {{workflow_context}}"}},
        "workflow": {"version": 2, "entry": "draft", "engine": {"budget": {"max_total_visits": 1000000}}, "states": {
            "draft": {"prompt_task": "p", "on_event": {"Next": "review", "Done": "end"}, "control": "agent"},
            "review": {"prompt_task": "p", "on_event": {"Next": "draft", "Done": "end"}, "control": "agent"},
            "end": {"prompt_task": "p", "terminal": true}}}}"#;
    Program::new(promptpack::compile(&SourceFile::new("restless.pack.json", pack)).ir.unwrap()).unwrap()
}

/// The cost of a transition of a run, from one model round to the next, while the conversation continues.
fn runs() {
    println!("\ntransitions   µs/transition   bytes kept by the run and its journal");
    let empty = LIVE.load(Relaxed);
    let most = std::env::var("TRANSITIONS").ok().and_then(|most| most.parse().ok()).unwrap_or(100_000_usize);
    let model = Arc::new(Restless { rounds: most, asked: Mutex::new(Vec::with_capacity(most + 2)) });
    let engine = Engine::builder().sessions(model.clone()).build();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let started = engine.start(restless(), Value::from("begin"), RunOptions::default()).await;
        started.unwrap().finished().await.unwrap()
    });
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.message);
    let asked = model.asked.lock().unwrap();
    for after in [100, 1_000, 10_000, 100_000].into_iter().filter(|after| *after <= most) {
        let window = (after / 2).min(1_000);
        let (begun, ended) = (&asked[after - window], &asked[after]);
        let each = (ended.0 - begun.0).as_secs_f64() * 1e6 / f64::from(u32::try_from(window).unwrap());
        println!("{after:>11} {each:>15.1} {:>14}", ended.1 - empty);
    }
}

fn templates() {
    println!("\nhostile bytes   µs/render   ns/byte");
    let template = "Notes: {{artifacts.n}}\nSummary: {{workflow_context}}\n";
    for size in [1_000, 10_000, 100_000, 1_000_000_usize] {
        // Refers to itself and to others, as in the reference's blow-up; here it is text.
        let hostile = "{{artifacts.n}}{{secret}}".repeat(size / 25);
        let bytes = hostile.len();
        let values: Variables = [("artifacts.n", hostile.as_str()), ("secret", "x"), ("workflow_context", "w")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let times = u32::try_from(20_000_000 / size).unwrap_or(1).clamp(20, 10_000);
        let begun = Instant::now();
        for _ in 0..times {
            black_box(render(black_box(template), &values).unwrap());
        }
        let each = begun.elapsed() / times;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let per_byte = each.as_nanos() as f64 / bytes as f64;
        println!("{bytes:>13} {:>11.2} {per_byte:>9.3}", each.as_secs_f64() * 1e6);
    }
}

fn main() {
    // `cargo test` runs benchmarks too, and wants to see them start only.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    transitions();
    runs();
    templates();
}
