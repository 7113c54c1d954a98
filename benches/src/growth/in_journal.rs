//! Commands on a journal of more and more runs.

use super::{
    Curve, Setting,
    commands::{least, opcell},
};
use crate::work::{self, Nothing};
use anyhow::{Context as _, Result, ensure};
use opcell_engine::{Engine, RunOptions};
use opcell_journal::{Journal as _, SqliteJournal};
use opcell_types::Value;
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Runs that are made at once.
const AT_ONCE: u64 = 64;

/// Runs that wait, are found and resumed.
const WAITING: usize = 5;

const WAITS: &str = r#"{:name "waits" :description "Waits" :steps [{:name "go" :type :wait :signal "go"}]}"#;

/// A workflow that needs no plugin.
const ONE: &str = r#"{:name "one" :description "One step" :steps [{:name "one" :type :transform :operation :filter :where "$item > 1" :inputs {:items {:from :workflow-input}}}]}"#;

/// A journal of more and more ended runs: listing runs, starting one, finding one that can continue, resuming it.
///
/// # Errors
/// When a command or the journal fails.
pub async fn runs(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "runs in a journal";
    let curve = |cost, unit| Curve::new(WORK, cost, unit);
    let mut list = curve("`opcell runs list --limit 20`", "ms");
    let mut memory = curve("the same, at the peak", "MB");
    let mut start = curve("`opcell run` of one step", "ms");
    let mut claim = curve("finding a run that can continue, and taking it", "ms");
    let mut resume = curve("`opcell runs resume`", "ms");
    let folder = setting.folder()?;
    // Beside the project: a journal within it that another program made is one that came with it.
    let (project, journal) = (folder.path().join("project"), folder.path().join("runs.db"));
    fs::create_dir(&project)?;
    fs::write(project.join("one.edn"), ONE)?;
    fs::write(project.join("waits.edn"), WAITS)?;
    fs::write(project.join("opcell.toml"), "workflows = [\".\"]\n")?;
    let there = format!("--journal={}", journal.display());
    let opcell = |words: &[&str]| opcell(setting, &project, &[words, &[there.as_str()]].concat());
    let mut filled = 0;
    for size in setting.sizes(1_000, 1_000_000) {
        fill(&journal, size - filled).await?;
        filled = size;
        let (ms, mb) = least(&mut opcell(&["runs", "list", "--limit", "20"]))?;
        list.add(size, ms);
        memory.add(size, mb);
        start.add(size, least(&mut opcell(&["run", "one", "--input", "[1,2]"]))?.0);
        let (mut claims, mut resumes) = (Duration::MAX, Duration::MAX);
        for number in 0..WAITING {
            let run = format!("waits-{size}-{number}");
            let command = |words: &[&str], code: i32| {
                let mut command = opcell(words);
                let began = Instant::now();
                let output = command.output()?;
                let problem = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
                ensure!(output.status.code() == Some(code), problem());
                Ok(began.elapsed())
            };
            // 3 is the exit code of a run that is suspended.
            command(&["run", "waits", "--as", &run], 3)?;
            command(&["runs", "signal", &run, "go"], 0)?;
            claims = claims.min(claimed(&journal, &run).await?);
            resumes = resumes.min(command(&["runs", "resume", &run], 0)?);
        }
        claim.add(size, claims.as_secs_f64() * 1e3);
        resume.add(size, resumes.as_secs_f64() * 1e3);
    }
    Ok(vec![list, memory, start, claim, resume])
}

/// Adds runs of one step that have ended.
async fn fill(path: &Path, count: u64) -> Result<()> {
    let journal: Arc<SqliteJournal> = Arc::new(SqliteJournal::open(path)?);
    let engine = Engine::builder().operations(Arc::new(Nothing)).journal(journal).build();
    let program = work::program(&work::chain(1, "no/op"))?;
    let mut runs = JoinSet::new();
    for number in 0..AT_ONCE {
        let share = count / AT_ONCE + u64::from(number < count % AT_ONCE);
        let (engine, program) = (engine.clone(), Arc::clone(&program));
        runs.spawn(async move {
            for _ in 0..share {
                let started = engine.start(Arc::clone(&program), Value::object::<&str>([]), RunOptions::default());
                started.await?.finished().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = runs.join_next().await {
        ended??;
    }
    Ok(())
}

/// The time in which a worker finds the run and takes it.
async fn claimed(path: &Path, run: &str) -> Result<Duration> {
    let journal = SqliteJournal::open(path)?;
    let began = Instant::now();
    let due = journal.runnable(i64::MAX / 2, 17).await?;
    let found = due.iter().find(|due| due.as_ref() == run);
    let found = found.with_context(|| format!("run {run} cannot continue; {due:?} can"))?;
    let opened = journal.acquire(found, opcell_journal::Cut::Tail).await?;
    let took = began.elapsed();
    journal.release(found, opened.fence).await?;
    Ok(took)
}
