//! PromptPack's state machine and templates: what an event costs, and what a run keeps in memory, after 100 to 100,000 transitions;
//! what rendering a prompt costs when an artifact is hostile.
//!
//! `cargo bench -p opcell-benches --no-default-features --bench promptpack` prints two tables.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark")]

use opcell_workflow::Value;
use opcell_workflow::promptpack::template::{Variables, render};
use opcell_workflow::promptpack::{Spec, StateMachine};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Counts the bytes that are allocated now.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code, reason = "an allocator that hands everything on")]
// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.dealloc(memory, layout) }
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
    templates();
}
