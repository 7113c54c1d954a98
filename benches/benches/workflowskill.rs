//! WorkflowSkill without cells: reading and validating documents, expressions, transforms over 100,000 rows.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use opcell_workflow::{
    Value,
    expr::{Context, Expression},
    ir::TransformOperation,
    transform,
    workflowskill::{parse_workflow_yaml, validate_workflow_skill},
};
use std::{fmt::Write as _, hint::black_box};

/// A chain of tool steps, each of which reads the one before, as one authored by hand would look.
fn chain(steps: usize) -> String {
    let mut text = "inputs:\n  topic:\n    type: string\n    default: bees\nsteps:\n".to_owned();
    for i in 0..steps {
        let source = if i == 0 { "$inputs.topic".to_owned() } else { format!("$steps.step_{}.output.value", i - 1) };
        let _ = write!(
            text,
            "  - id: step_{i}\n    type: tool\n    tool: echo\n    description: Passes on what it gets\n    inputs:\n      value:\n        type: string\n        value: {source}\n    outputs:\n      value:\n        type: string\n"
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
        let text = chain(steps);
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

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = documents, expressions, transforms
}
criterion_main!(benches);
