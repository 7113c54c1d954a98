//! The engine's cost per step: sequential and routed chains of no-op operations, and one `each` over many elements,
//! journal in memory. `cargo run --release -p opcell-engine --example step_overhead`.

use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_ir::WorkflowIr;
use opcell_types::Value;
use std::{sync::Arc, time::Instant};

struct NoOp;

#[async_trait]
impl Operations for NoOp {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, _call: Call) -> Reply<Success> {
        Reply { result: Ok(Success { data: Value::Null, summary: None, details: None }), receipt: None }
    }
}

fn chain(lifecycle: &str, steps: usize) -> Result<Arc<Program>, Box<dyn std::error::Error>> {
    let steps: Vec<String> =
        (0..steps).map(|i| format!(r#"{{"name":"s{i}","type":"invoke","invoke":{{"operation":"no/op"}}}}"#)).collect();
    let text = format!(
        r#"{{"version":"workflow-ir/v1","name":"chain","dialect":{{"lifecycle":"{lifecycle}"}},"steps":[{}]}}"#,
        steps.join(",")
    );
    Ok(Program::new(Arc::new(serde_json::from_str::<WorkflowIr>(&text)?))?)
}

fn each() -> Result<Arc<Program>, Box<dyn std::error::Error>> {
    let text = r#"{"version":"workflow-ir/v1","name":"each","dialect":{"lifecycle":"sequential"},
        "steps":[{"name":"e","type":"invoke","invoke":{"operation":"no/op","args":{"v":{"expression":"$item"}}},"each":{"over":"$inputs.xs"}}]}"#;
    Ok(Program::new(Arc::new(serde_json::from_str::<WorkflowIr>(text)?))?)
}

async fn measure(
    what: &str,
    units: usize,
    program: Arc<Program>,
    input: Value,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    for _ in 0..9 {
        let engine = Engine::builder().operations(Arc::new(NoOp)).build();
        let start = Instant::now();
        let handle = engine.start(program.clone(), input.clone(), RunOptions::default()).await?;
        let outcome = handle.finished().await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if outcome.status != Status::Completed {
            return Err(format!("{what}: {outcome:?}").into());
        }
    }
    times.sort_by(f64::total_cmp);
    let (best, median) = (times.first().copied().unwrap_or_default(), times.get(4).copied().unwrap_or_default());
    let per = |total: f64| total / units as f64;
    println!(
        "{what:<12} {units:>7}: median {:>8.2} us each, best {:>8.2} us each, total {:>9.2} ms",
        per(median),
        per(best),
        median / 1000.0
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for lifecycle in ["sequential", "routed"] {
        for steps in [1, 10, 100, 1_000, 10_000] {
            measure(lifecycle, steps, chain(lifecycle, steps)?, Value::object::<&str>([])).await?;
        }
    }
    for elements in [1_000_i64, 10_000, 100_000] {
        let input = Value::object([("xs", Value::array((0..elements).map(Value::from)))]);
        measure("each", usize::try_from(elements)?, each()?, input).await?;
    }
    Ok(())
}
