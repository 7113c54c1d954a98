//! A server with more and more waiting questions, and with more and more tenants.

use super::{Curve, Setting};
use crate::{
    client::Connection,
    served::{Project, Served},
};
use anyhow::{Result, bail, ensure};
use opcell_bench::Guest;
use serde_json::json;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// A run that asks a person.
const ASKS: &str = r#"{:name "asks" :description "Asks" :steps [{:name "ask" :type :wait :signal "send" :approval true :question "Send?"}]}"#;

/// Answers that are timed, of which half are faster than the figure.
const ANSWERS: u64 = 9;

/// The time in which a server has nothing to do.
const IDLE: Duration = Duration::from_secs(5);

fn echo(folder: &tempfile::TempDir) -> Result<PathBuf> {
    let echo = folder.path().join("echo.wasm");
    std::fs::write(&echo, Guest::built_in()?.component)?;
    Ok(echo)
}

/// Memory of a server while more and more runs ask, and the time from an answer to the end of its run.
///
/// # Errors
/// When the server does not do its work.
pub async fn questions(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "waiting questions";
    let mut memory = Curve::new(WORK, "resident memory of the server", "MB");
    let mut answer = Curve::new(WORK, "from an answer to the end of its run", "ms");
    let folder = setting.folder()?;
    let project = Project::new(&setting.opcell, &echo(&folder)?, folder.path(), &[])?;
    project.add("asks.edn", ASKS)?;
    let server = project.serve()?;
    let mut connection = Connection::open(&server.address).await?;
    let mut there = 0;
    for size in setting.sizes(10, 10_000) {
        for number in there..size {
            let body = json!({"workflow": "asks", "run": format!("asks-{number}")}).to_string();
            let (status, said) = connection.json("POST", "/v1/default/runs", &body).await?;
            ensure!(status == 201, "run {number} was not started: {said}");
        }
        there = size;
        server.wait(&format!("asks-{}", size - 1), "suspended").await?;
        // Memory that was needed to get there is given back.
        tokio::time::sleep(Duration::from_secs(2)).await;
        memory.add(size, server.memory("VmRSS")? as f64 / 1e6);
        let mut took = Vec::new();
        for number in 0..ANSWERS {
            // Runs of their own, so that the others continue to wait.
            let run = format!("answered-{size}-{number}");
            let body = json!({"workflow": "asks", "run": run}).to_string();
            let (status, said) = connection.json("POST", "/v1/default/runs", &body).await?;
            ensure!(status == 201, "{run} was not started: {said}");
            server.wait(&run, "suspended").await?;
            took.push(answered(&server, &run).await?.as_secs_f64() * 1e3);
        }
        took.sort_by(f64::total_cmp);
        answer.add(size, took.get(took.len() / 2).copied().unwrap_or_default());
    }
    Ok(vec![memory, answer])
}

/// From an answer to the end of its run, as a reader of its events sees it.
async fn answered(server: &Served, run: &str) -> Result<Duration> {
    let path = format!("/v1/default/runs/{run}");
    let mut reader = Connection::open(&server.address).await?;
    reader.send("GET", &format!("{path}/events"), "Accept: text/event-stream\r\n", "").await?;
    ensure!(reader.head().await?.0 == 200, "no events");
    let mut connection = Connection::open(&server.address).await?;
    let began = Instant::now();
    let (status, said) = connection.json("POST", &format!("{path}/approve"), "{}").await?;
    ensure!(status < 300, "the answer was not accepted: {said}");
    loop {
        match reader.line().await? {
            Some("event: run-finished") => return Ok(began.elapsed()),
            Some(_) => ensure!(began.elapsed() < Duration::from_secs(60), "the run does not continue"),
            None => bail!("the events end before the run"),
        }
    }
}

/// A server of more and more tenants: the time until it listens, its memory, and its work while it has nothing to do.
///
/// # Errors
/// When the server does not do its work.
pub async fn tenants(setting: &Setting) -> Result<Vec<Curve>> {
    const WORK: &str = "tenants of a server";
    let mut start = Curve::new(WORK, "from its start until it listens", "ms");
    let mut memory = Curve::new(WORK, "resident memory", "MB");
    let mut idle = Curve::new(WORK, "processor time for each second without work", "ms");
    for size in setting.sizes(1, 1_000) {
        let folder = setting.folder()?;
        let names: Vec<String> = (0..size).map(|number| format!("t{number}")).collect();
        let tenants: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let project = Project::new(&setting.opcell, &echo(&folder)?, folder.path(), &tenants)?;
        // The first one compiles.
        drop(project.serve()?);
        let began = Instant::now();
        let server = project.serve()?;
        start.add(size, began.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_secs(3)).await;
        memory.add(size, server.memory("VmRSS")? as f64 / 1e6);
        let before = server.processor_time()?;
        tokio::time::sleep(IDLE).await;
        let used = server.processor_time()?.saturating_sub(before);
        idle.add(size, used.as_secs_f64() * 1e3 / IDLE.as_secs_f64());
    }
    Ok(vec![start, memory, idle])
}
