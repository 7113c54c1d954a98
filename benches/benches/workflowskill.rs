//! WorkflowSkill: reading and validating documents, expressions, transforms over 100,000 rows, runs through the engine,
//! the same run with every tool in a cell, and a process from start to end.
//!
//! Chains are measured per step and `each` per element: criterion's `thrpt` line. With `--no-default-features` nothing
//! needs a WebAssembly engine; with it, `example-operations/dist/echo.wasm` must be there, and `opcell` is the release
//! build.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failed test")]

use async_trait::async_trait;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opcell_engine::{
    Engine, Program, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_ir::{
    expr::{Context, Expression},
    ir::TransformOperation,
    transform,
};
use opcell_types::Value;
use opcell_workflow::workflowskill::{parse_workflow_yaml, validate_workflow_skill};
use std::{fmt::Write as _, hint::black_box, sync::Arc};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

/// A chain of tool steps, each of which reads the one before, as one authored by hand would look.
fn chain(steps: usize, tool: &str) -> String {
    let mut text = "inputs:\n  topic:\n    type: string\n    default: bees\nsteps:\n".to_owned();
    for i in 0..steps {
        let source = if i == 0 { "$inputs.topic".to_owned() } else { format!("$steps.step_{}.output.value", i - 1) };
        let _ = write!(
            text,
            "  - id: step_{i}\n    type: tool\n    tool: {tool}\n    description: Passes on what it gets\n    inputs:\n      value:\n        type: string\n        value: {source}\n    outputs:\n      value:\n        type: string\n"
        );
    }
    text
}

fn rows(count: usize) -> Vec<Value> {
    let row = |i: usize| {
        Value::object([
            ("id", Value::from(i as i64)),
            ("score", Value::from(((i * 7919) % 100) as i64)),
            (
                "title",
                Value::from(format!("Row {i} about {}", if i.is_multiple_of(3) { "urgent" } else { "ordinary" })),
            ),
            ("nested", Value::object([("rank", Value::from(((i * 104_729) % 1000) as i64))])),
        ])
    };
    (0..count).map(row).collect()
}

fn documents(c: &mut Criterion) {
    for steps in [12, 100, 1000] {
        let text = chain(steps, "echo");
        c.bench_function(&format!("workflowskill/parse-and-validate/{steps}-steps"), |b| {
            b.iter(|| parse_workflow_yaml(black_box(&text)).map(|skill| skill.validate(Some(&|_| true)).len()));
        });
        let markdown = format!("---\nname: chain\ndescription: A chain.\n---\n```workflow\n{text}```\n");
        c.bench_function(&format!("workflowskill/skill-verdict/{steps}-steps"), |b| {
            b.iter(|| validate_workflow_skill(black_box(&markdown), Some(&|_| true)).valid);
        });
    }
}

fn expressions(c: &mut Criterion) {
    let expression = Expression::new("$item.score >= $inputs.min");
    let (inputs, steps) = (Value::object([("min", Value::from(50))]), Value::object::<&str>([]));
    let items = rows(100_000);
    c.bench_function("workflowskill/evaluate/100000-comparisons", |b| {
        let context = Context::new(&inputs, &steps);
        b.iter(|| {
            items
                .iter()
                .enumerate()
                .filter(|(index, item)| {
                    expression
                        .evaluate_cow(&context.with_item(item, *index))
                        .is_ok_and(|value| matches!(*value, Value::Bool(true)))
                })
                .count()
        });
    });
}

fn transforms(c: &mut Criterion) {
    let (inputs, steps) = (Value::object([("min", Value::from(50))]), Value::object::<&str>([]));
    let items = rows(100_000);
    for (name, operation) in [
        ("filter", r#"{"operation":"filter","where":"$item.score >= $inputs.min"}"#),
        (
            "filter-3-clauses",
            r#"{"operation":"filter","where":"$item.score >= $inputs.min && $item.title contains 'URGENT' && $index > 10"}"#,
        ),
        (
            "map-4-fields",
            r#"{"operation":"map","expression":{"a":"$item.id","b":"$item.title","c":"$index","d":"$item.nested.rank"}}"#,
        ),
        ("sort-number", r#"{"operation":"sort","field":"score"}"#),
        ("sort-text-descending", r#"{"operation":"sort","field":"title","descending":true}"#),
        ("sort-nested", r#"{"operation":"sort","field":"nested.rank"}"#),
    ] {
        let operation: TransformOperation = serde_json::from_str(operation).unwrap();
        c.bench_function(&format!("workflowskill/{name}/100000-rows"), |b| {
            b.iter(|| transform::apply(&operation, &items, &Context::new(&inputs, &steps)).map(|out| out.len()));
        });
    }
}

/// A tool that costs nothing: its result is what it was given.
struct NoOp;

#[async_trait]
impl Operations for NoOp {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        Reply { result: Ok(Success { data: call.of.arguments, summary: None, details: None }), receipt: None }
    }
}

fn program(yaml: &str) -> Arc<Program> {
    Program::new(Arc::new(parse_workflow_yaml(yaml).unwrap().compile("bench"))).unwrap()
}

/// One run, with a journal of its own, so that no run pays for those before it.
async fn run(program: &Arc<Program>, input: &Value) {
    let engine = Engine::builder().operations(Arc::new(NoOp)).build();
    let handle = engine.start(program.clone(), input.clone(), RunOptions::default()).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Completed);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn chains(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("workflowskill/chain-of-no-ops");
    for steps in [10_usize, 100, 1000] {
        let program = program(&chain(steps, "echo"));
        let input = Value::object::<&str>([]);
        group.throughput(Throughput::Elements(steps as u64));
        group.bench_function(BenchmarkId::from_parameter(steps), |b| {
            b.to_async(&runtime).iter(async || run(&program, &input).await);
        });
    }
    group.finish();
}

fn each(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("workflowskill/each-of-no-ops");
    let plain = "steps:\n  - id: all\n    type: tool\n    tool: echo\n    each: $inputs.items\n    inputs:\n      value:\n        type: int\n        value: $item.id\n";
    let mapped = format!(
        "{plain}      text:\n        type: string\n        value: \"row ${{item.id}}\"\n    outputs:\n      value:\n        type: int\n        value: $result.value\n      text:\n        type: string\n        value: $result.text\n"
    );
    for (name, yaml) in [("one-input", plain), ("template-and-two-outputs", mapped.as_str())] {
        let program = program(yaml);
        for count in [10_000_usize, 100_000] {
            let input = Value::object([("items", Value::array(rows(count)))]);
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.to_async(&runtime).iter(async || run(&program, &input).await);
            });
        }
    }
    group.finish();
}

/// The chain of [`chains`] where every tool is a cell: what isolation costs per step.
#[cfg(feature = "cells")]
fn chain_of_cells(c: &mut Criterion) {
    use opcell::{Config, Host, Workflow};
    use opcell_sandbox::CompileMode;

    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-operations/dist/echo.wasm");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let project = format!("[plugins.echo]\npath = \"{dist}\"\n");
    let config = Config::parse("opcell.toml", project, std::path::Path::new(".")).unwrap();
    let host = runtime
        .block_on(async { Host::builder().config(config).compile(CompileMode::TrustedInProcess).build().await })
        .unwrap();
    let workflow = Workflow::compile("chain.yaml", chain(100, "echo/echo")).unwrap();
    let mut group = c.benchmark_group("workflowskill/chain-of-cells");
    group.throughput(Throughput::Elements(100));
    group.bench_function("100", |b| {
        b.to_async(&runtime).iter(async || {
            let run = host.start(&workflow, Value::object::<&str>([])).await.unwrap();
            assert_eq!(run.finished().await.unwrap().status, Status::Completed);
        });
    });
    group.finish();
}

/// `opcell run` of a document of one step, from nothing to the result on standard output.
fn process(c: &mut Criterion) {
    let opcell = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("../release/opcell");
    if !opcell.is_file() {
        eprintln!("no start-to-end figure: build `{}` first", opcell.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let document = "inputs:\n  message:\n    type: string\n    default: hello\noutputs:\n  result:\n    type: array\n    value: $steps.echo.output.items\nsteps:\n  - id: echo\n    type: transform\n    operation: map\n    inputs:\n      items:\n        type: array\n        value: [1]\n    expression:\n      value: $inputs.message\n    outputs:\n      items:\n        type: array\n";
    std::fs::write(folder.path().join("echo.yaml"), document).unwrap();
    c.bench_function("workflowskill/process-start-to-end", |b| {
        b.iter(|| {
            let run = std::process::Command::new(&opcell)
                .args(["run", "echo.yaml", "--quiet"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(run.status.success());
            run.stdout.len()
        });
    });
}

#[cfg(not(feature = "cells"))]
fn chain_of_cells(_: &mut Criterion) {}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = documents, expressions, transforms, chains, each, chain_of_cells, process
}
criterion_main!(benches);
