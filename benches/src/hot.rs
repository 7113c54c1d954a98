//! The work of every document, step and prompt: the paths that the criterion suite times and that `hot_paths` counts
//! instructions of.

use crate::{
    session::{self, CallingModel},
    work::{self, Nothing},
};
use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use opcell_engine::{
    Engine, EngineBuilder, Program,
    event::Timestamp,
    ports::{SystemTimer, Timer},
};
use opcell_ir::{
    SourceFile,
    expr::{Context, Expression},
};
use opcell_journal::SqliteJournal;
use opcell_session::prompt::{self, Entry, PromptParts};
use opcell_types::Value;
use opcell_workflow::{companions::NoCompanions, document};
use std::{hint::black_box, sync::Arc};

/// One path, to be run as often as someone likes.
pub struct HotPath {
    /// Subject and size.
    pub name: &'static str,
    /// Runs it once.
    pub run: Box<dyn FnMut()>,
}

impl std::fmt::Debug for HotPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HotPath").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All of them, by name.
pub const NAMES: [&str; 10] = [
    "compile/psi/100-steps",
    "compile/workflowskill/100-steps",
    "compile/promptpack/100-states",
    "expression/1000-comparisons",
    "prompt/100-of-40-parts",
    "workflow/100-steps",
    "workflow/each-1000",
    "journal/100-steps-on-disk",
    "session/1000-calls",
    "session/1000-calls-unless-pure",
];

/// The path of a name, checked once: a path that fails is not fast. Nothing is set up that it does not need: two
/// processes would differ by it.
///
/// # Errors
/// When there is none of that name, or it does not do its work.
pub fn path(name: &str) -> Result<HotPath> {
    with_clock(name, Arc::new(SystemTimer))
}

/// The same on a clock that stands still: what an instruction takes decides nothing. Under valgrind every call is slow,
/// and slow elements of an `each` are called in another way than quick ones.
///
/// # Errors
/// As [`path`].
pub fn without_time(name: &str) -> Result<HotPath> {
    with_clock(name, Arc::new(Stopped))
}

fn with_clock(name: &str, clock: Arc<dyn Timer>) -> Result<HotPath> {
    let Some(&name) = NAMES.iter().find(|known| **known == name) else {
        bail!("no path `{name}`; there are {}", NAMES.join(", "));
    };
    match name {
        "compile/psi/100-steps" => compile(name, "w.edn", work::psi(100)),
        "compile/workflowskill/100-steps" => compile(name, "w.yaml", work::skill(100)),
        "compile/promptpack/100-states" => compile(name, "w.json", work::pack(100)),
        "expression/1000-comparisons" => expression(name),
        "prompt/100-of-40-parts" => Ok(prompts_of_40_parts(name)),
        "workflow/100-steps" => workflow(name, work::chain(100, "no/cell"), None, clock),
        "workflow/each-1000" => workflow(name, work::each("no/cell"), None, clock),
        "session/1000-calls" => session(name, CallingModel { asks: false }, clock),
        "session/1000-calls-unless-pure" => session(name, CallingModel { asks: true }, clock),
        _ => on_disk(name, clock),
    }
}

/// All of them.
///
/// # Errors
/// When one does not do its work.
pub fn all() -> Result<Vec<HotPath>> {
    NAMES.iter().map(|name| path(name)).collect()
}

fn on_disk(name: &'static str, clock: Arc<dyn Timer>) -> Result<HotPath> {
    let folder = tempfile::tempdir()?;
    let journal = SqliteJournal::open(folder.path().join("runs.db"))?;
    let mut path = workflow(name, work::chain(100, "no/cell"), Some(journal), clock)?;
    let run = move || {
        // Kept as long as the journal writes into it.
        let _ = &folder;
        (path.run)();
    };
    Ok(HotPath { name, run: Box::new(run) })
}

fn compile(name: &'static str, file: &'static str, text: String) -> Result<HotPath> {
    let source = Arc::new(SourceFile::new(file, text));
    let compiled = document::compile(&source, &NoCompanions);
    ensure!(compiled.ir.is_some(), "{file} does not compile: {:?}", compiled.diagnostics);
    let run = move || {
        black_box(document::compile(black_box(&source), &NoCompanions));
    };
    Ok(HotPath { name, run: Box::new(run) })
}

fn expression(name: &'static str) -> Result<HotPath> {
    let inputs = Value::object([("min", Value::from(50))]);
    let steps = Value::object([("rank", Value::object([("output", Value::object([("score", Value::from(70))]))]))]);
    let expression = Expression::new("$steps.rank.output.score >= $inputs.min && $inputs.min != 3");
    let value = expression.evaluate_cow(&Context::new(&inputs, &steps))?;
    ensure!(matches!(*value, Value::Bool(true)), "the expression is {value:?}");
    // One alone is less than what two processes differ by.
    let run = move || {
        for _ in 0..1_000 {
            let _ = black_box(expression.evaluate_cow(&Context::new(&inputs, &steps)));
        }
    };
    Ok(HotPath { name, run: Box::new(run) })
}

fn prompts_of_40_parts(name: &'static str) -> HotPath {
    let entries = |kind: &str| -> Vec<Entry> {
        (0..10).map(|at| Entry::new(format!("{kind}-{at}"), "Does one thing, and says in a sentence which.")).collect()
    };
    let parts = PromptParts {
        tools: entries("tool"),
        skills: entries("skill"),
        extensions: entries("extension"),
        workflows: entries("workflow"),
        instructions: vec!["Be brief.".to_owned()],
        ..PromptParts::default()
    };
    // One alone is less than what two processes differ by.
    let run = move || {
        for _ in 0..100 {
            black_box(prompt::assemble(black_box(&parts)).text());
        }
    };
    HotPath { name, run: Box::new(run) }
}

/// A clock that stands still.
struct Stopped;

#[async_trait]
impl Timer for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    async fn sleep(&self, _ms: f64) {}

    async fn deadline(&self, _ms: f64) {
        std::future::pending().await
    }
}

fn workflow(name: &'static str, ir: String, journal: Option<SqliteJournal>, clock: Arc<dyn Timer>) -> Result<HotPath> {
    let builder = Engine::builder().operations(Arc::new(Nothing)).timer(clock);
    let builder = match journal {
        Some(journal) => builder.journal(Arc::new(journal)),
        None => builder,
    };
    let xs: Vec<i64> = (0..1_000).collect();
    runs(name, builder, work::program(&ir)?, Value::object([("xs", Value::from(serde_json::json!(xs)))]))
}

fn session(name: &'static str, model: CallingModel, clock: Arc<dyn Timer>) -> Result<HotPath> {
    let builder = Engine::builder().sessions(Arc::new(model)).timer(clock);
    runs(name, builder, session::program()?, Value::Null)
}

fn runs(name: &'static str, engine: EngineBuilder, program: Arc<Program>, input: Value) -> Result<HotPath> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let engine = {
        let _inside = runtime.enter();
        engine.build()
    };
    runtime.block_on(work::run(&engine, &program, input.clone()))?;
    let run = move || {
        let done = runtime.block_on(work::run(&engine, &program, input.clone()));
        debug_assert!(done.is_ok(), "{done:?}");
    };
    Ok(HotPath { name, run: Box::new(run) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_path_does_its_work() {
        for mut path in super::all().unwrap() {
            (path.run)();
        }
    }
}
