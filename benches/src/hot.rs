//! What runs for every document, step and prompt: the paths that the criterion suite times and that `hot_paths` counts
//! instructions of.

use crate::work::{self, Nothing};
use anyhow::{Result, ensure};
use opcell_engine::Engine;
use opcell_journal::SqliteJournal;
use opcell_session::prompt::{self, Entry, PromptParts};
use opcell_types::Value;
use opcell_workflow::{
    SourceFile,
    companions::NoCompanions,
    document,
    expr::{Context, Expression},
};
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

/// All of them, each checked once: a path that fails is not fast.
///
/// # Errors
/// When one does not do its work.
pub fn all() -> Result<Vec<HotPath>> {
    let mut paths = vec![
        compile("compile/psi/100-steps", "w.edn", work::psi(100))?,
        compile("compile/workflowskill/100-steps", "w.yaml", work::skill(100))?,
        compile("compile/promptpack/100-states", "w.json", work::pack(100))?,
        expression()?,
        prompt_of_40_parts(),
        workflow("workflow/100-steps", work::chain(100, "no/cell"), None)?,
        workflow("workflow/each-1000", work::each("no/cell"), None)?,
    ];
    let folder = tempfile::tempdir()?;
    let journal = SqliteJournal::open(folder.path().join("runs.db"))?;
    let mut on_disk = workflow("journal/100-steps-on-disk", work::chain(100, "no/cell"), Some(journal))?;
    paths.push(HotPath {
        name: on_disk.name,
        run: Box::new(move || {
            // Kept as long as the journal writes into it.
            let _ = &folder;
            (on_disk.run)();
        }),
    });
    Ok(paths)
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

fn expression() -> Result<HotPath> {
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
    Ok(HotPath { name: "expression/1000-comparisons", run: Box::new(run) })
}

fn prompt_of_40_parts() -> HotPath {
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
    let run = move || {
        black_box(prompt::assemble(black_box(&parts)).text());
    };
    HotPath { name: "prompt/40-parts", run: Box::new(run) }
}

fn workflow(name: &'static str, ir: String, journal: Option<SqliteJournal>) -> Result<HotPath> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let builder = Engine::builder().operations(Arc::new(Nothing));
    let builder = match journal {
        Some(journal) => builder.journal(Arc::new(journal)),
        None => builder,
    };
    let engine = {
        let _inside = runtime.enter();
        builder.build()
    };
    let program = work::program(&ir)?;
    let xs: Vec<i64> = (0..1_000).collect();
    let input = Value::object([("xs", Value::from(serde_json::json!(xs)))]);
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
