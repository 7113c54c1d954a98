//! What a transition and a rendering cost: `cargo run --release -p opcell-workflow --example promptpack_speed`.

use opcell_types::Value;
use opcell_workflow::promptpack::template::{Variables, render};
use opcell_workflow::promptpack::{Spec, StateMachine};
use std::time::Instant;

const WORKFLOW: &str = r#"{"version": 2, "entry": "a", "states": {
    "a": {"prompt_task": "p", "on_event": {"Go": "b"}, "artifacts": {"x": {"type": "text/plain"}}},
    "b": {"prompt_task": "p", "on_event": {"Go": "a"}}}}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = Spec::from_config(&Value::from_json(WORKFLOW)?)?.ok_or("no workflow")?;
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse()?;
    for transitions in [100_u32, 1_000, 10_000, 100_000] {
        let mut machine = StateMachine::new(spec.clone(), start);
        machine.set_artifact("x", "a value");
        let began = Instant::now();
        for _ in 0..transitions {
            machine.process_event("Go", start)?;
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(transitions);
        println!("{transitions:>7} transitions: {each:.3} µs each, {:.0}/s", 1e6 / each);
    }
    for kilobytes in [64_usize, 256, 1024, 4096] {
        let hostile = "{{artifacts.n}}".repeat(kilobytes * 1024 / 15);
        let variables = Variables::from([("artifacts.n".to_owned(), hostile)]);
        let began = Instant::now();
        let length = render("{{artifacts.n}}", &variables)?.len();
        println!(
            "{kilobytes:>5} KiB of tokens as a value: {length} bytes in {:.1} µs",
            began.elapsed().as_secs_f64() * 1e6
        );
    }
    Ok(())
}
