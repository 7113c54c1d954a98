//! Measurements in this process, without a cell.

use super::{Bound, Target};
use crate::{
    data,
    work::{self, Echo, Nothing},
};
use anyhow::{Context as _, Result};
use opcell_engine::{Engine, Program};
use opcell_ir::{expr::Context, ir::TransformOperation, transform};
use opcell_journal::SqliteJournal;
use opcell_types::Value;
use std::{sync::Arc, time::Instant};

/// The number of elements of the `each` whose memory is looked at.
const ELEMENTS: i64 = 100_000;

/// Transforms.
///
/// # Errors
/// When one fails.
pub fn transforms() -> Result<Vec<Target>> {
    let row = |at: usize| {
        let title = format!("Row {at} about {}", if at.is_multiple_of(3) { "urgent" } else { "ordinary" });
        let nested = Value::object([("rank", Value::from(((at * 104_729) % 1000) as i64))]);
        Value::object([
            ("id", Value::from(at as i64)),
            ("score", Value::from(((at * 7919) % 100) as i64)),
            ("title", Value::from(title)),
            ("nested", nested),
        ])
    };
    // Read from text, as rows come: they share their keys.
    let items = Value::from_json(&Value::array((0..data::ROWS).map(row)).to_json())?;
    let items = items.as_array().context("rows are an array")?;
    let (inputs, steps) = (Value::object([("min", Value::from(50))]), Value::object::<&str>([]));
    let mut targets = Vec::new();
    for (figure, most, operation) in [
        ("filter of 100,000 rows, ms", 16.7, r#"{"operation":"filter","where":"$item.score >= $inputs.min"}"#),
        (
            "filter by three clauses, ms",
            30.0,
            r#"{"operation":"filter","where":"$item.score >= $inputs.min && $item.title contains 'URGENT' && $index > 10"}"#,
        ),
        (
            "map of four fields, ms",
            24.0,
            r#"{"operation":"map","expression":{"a":"$item.id","b":"$item.title","c":"$index","d":"$item.nested.rank"}}"#,
        ),
        ("sort by a number, ms", 13.8, r#"{"operation":"sort","field":"score"}"#),
        ("sort by a text, ms", 9.3, r#"{"operation":"sort","field":"title","descending":true}"#),
        ("sort by a nested number, ms", 25.0, r#"{"operation":"sort","field":"nested.rank"}"#),
    ] {
        let operation: TransformOperation = serde_json::from_str(operation)?;
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let started = Instant::now();
            let out = transform::apply(&operation, items, &Context::new(&inputs, &steps))
                .map_err(|error| anyhow::anyhow!("{error:?}"))?;
            least = least.min(started.elapsed().as_secs_f64() * 1e3);
            drop(out);
        }
        targets.push(Target::new(figure, Bound::AtMost, most, Some(least), "in process, the least of 20".to_owned()));
    }
    Ok(targets)
}

/// Returns the cost of the engine itself, with operations that do nothing and a journal in memory.
///
/// # Errors
/// When a run does not complete.
pub async fn engine() -> Result<Vec<Target>> {
    const CHAIN: usize = 1_000;
    const EACH: i64 = 10_000;
    let chain = work::program(&work::chain(CHAIN, "no/cell"))?;
    let (one, mapped) = (work::skill_each(false)?, work::skill_each(true)?);
    let items = Value::array((0..EACH).map(|id| Value::object([("id", Value::from(id))])));
    let items = Value::object([("items", items)]);
    let least = async |program: &Arc<Program>, input: Value, parts: f64| -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let engine = Engine::builder().operations(Arc::new(Echo)).build();
            let started = Instant::now();
            work::run(&engine, program, input.clone()).await?;
            least = least.min(started.elapsed().as_secs_f64() * 1e6 / parts);
        }
        Ok(least)
    };
    let how = || "in process, the least of 20".to_owned();
    let step = least(&chain, Value::object::<&str>([]), CHAIN as f64).await?;
    let element = least(&one, items.clone(), EACH as f64).await?;
    let with_outputs = least(&mapped, items, EACH as f64).await?;
    Ok(vec![
        Target::new("step of a chain of 1,000, us", Bound::AtMost, 0.39, Some(step), how()),
        Target::new("element of `each` over 10,000, us", Bound::AtMost, 0.40, Some(element), how()),
        Target::new("the same with a template and two outputs, us", Bound::AtMost, 0.94, Some(with_outputs), how()),
    ])
}

/// Returns the memory that a run over many elements leaves, beside the text of its results.
///
/// # Errors
/// When the run does not complete.
pub async fn each() -> Result<Target> {
    let folder = tempfile::tempdir()?;
    let journal = SqliteJournal::open(folder.path().join("runs.db"))?;
    let engine = Engine::builder().operations(Arc::new(Nothing)).journal(Arc::new(journal)).build();
    let program = work::program(&work::each("no/cell"))?;
    let xs: Vec<i64> = (0..ELEMENTS).collect();
    let input = Value::object([("xs", Value::from(serde_json::json!(xs)))]);
    // Forgets the peak of what ran before; where the system does not let it, the figure is too high and never too low.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = data::resident_kib();
    let started = Instant::now();
    work::run(&engine, &program, input).await?;
    let took = started.elapsed().as_secs_f64();
    let peak = data::peak_of("/proc/self/status").saturating_sub(before);
    let per_element = peak as f64 * 1024.0 / ELEMENTS as f64;
    Ok(Target::new(
        "`each` over 100,000 elements, bytes of memory per element at the peak",
        Bound::AtMost,
        1024.0,
        Some(per_element),
        format!("{} MiB more at the peak, {took:.1} s, journal on disk", peak >> 10),
    ))
}
