//! Ten thousand runs that each ask a person about a call of their model.

use super::{Figure, Options, looked};
use anyhow::{Context as _, Result, bail, ensure};
use opcell_benches::{
    client::Connection,
    served::{Project, Served},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const RUNS: u64 = 10_000;

/// Runs before the first measurement: what is set up once counts for nothing.
const WARM: u64 = 200;

/// Connections that start runs.
const STARTERS: u64 = 8;

/// Answers that are timed.
const ANSWERS: usize = 50;

/// The longest wait until all runs ask.
const PATIENCE: Duration = Duration::from_secs(1_800);

const ASKS: &str = r#"{:name "asks" :description "A model that calls the echo, after a person said yes"
 :steps [{:name "talk" :type :session :tools ["echo/echo"] :approve "always"
          :contributions [{:type :template :text "Go." :vars {}}]}]}"#;

const SCRIPT: &str = "version: 1\norder: any\nturns:\n  - when: { round: 0 }\n    repeat: true\n    text: I call it.\n    tool-calls:\n      - { name: echo/echo, arguments: { n: 1 } }\n  - when: { round: 1 }\n    repeat: true\n    text: Done.\n";

/// The memory of questions that wait, the time to show them, and the time from an answer to the next steps of its run.
pub async fn questions(options: &Options) -> Result<Vec<Figure>> {
    let project = options.project(&[])?;
    project.add("asks.edn", ASKS)?;
    project.add("script.yaml", SCRIPT)?;
    project.add("opcell.toml", "\n[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n")?;
    let server = project.serve()?;
    ask(&server, 0, WARM).await?;
    let before = server.memory("VmRSS")?;
    ask(&server, WARM, RUNS).await?;
    let grown = server.memory("VmRSS")?.saturating_sub(before);
    let most = server.memory("VmHWM")? as f64 / 1e6;
    let mut figures = vec![Figure::at_most(
        "memory of a question that waits, of 10,000",
        grown as f64 / RUNS as f64 / 1024.0,
        "KiB",
        3.0,
        format!("resident {most:.0} MB at the most"),
    )];
    figures.push(answers(&server).await?);
    drop(server);
    figures.extend(pages(&project).await?);
    Ok(figures)
}

/// Starts runs, and waits until all ask.
async fn ask(server: &Served, first: u64, count: u64) -> Result<()> {
    let starters: Vec<_> = (0..STARTERS)
        .map(|starter| {
            tokio::spawn(start(server.address.clone(), (first + starter..first + count).step_by(STARTERS as usize)))
        })
        .collect();
    for starter in starters {
        starter.await??;
    }
    let began = Instant::now();
    while server.count("suspended").await? < first + count {
        ensure!(began.elapsed() < PATIENCE, "only {} runs ask", server.count("suspended").await?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // What was needed to get there is given back.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

async fn start(address: String, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let mut connection = Connection::open(&address).await?;
    for number in numbers {
        let body = json!({"workflow": "asks", "run": name(number)}).to_string();
        let (status, answer) = connection.json("POST", "/v1/default/runs", &body).await?;
        ensure!(status == 201, "run {number} was not started: {answer}");
    }
    Ok(())
}

fn name(number: u64) -> String {
    format!("asks-{number}")
}

/// From an answer to the end of its run, as a reader of its events sees it.
async fn answers(server: &Served) -> Result<Figure> {
    let mut took = Vec::new();
    for number in 0..ANSWERS as u64 {
        let run = format!("/v1/default/runs/{}", name(number * (RUNS / ANSWERS as u64)));
        let mut connection = Connection::open(&server.address).await?;
        let (_, shown) = connection.json("GET", &run, "").await?;
        let question = shown.pointer("/questions/0/call/id").and_then(Value::as_str);
        let question = question.with_context(|| format!("the run asks nothing: {shown}"))?.to_owned();
        let mut reader = Connection::open(&server.address).await?;
        reader.send("GET", &format!("{run}/events"), "Accept: text/event-stream\r\n", "").await?;
        ensure!(reader.head().await?.0 == 200, "no events");
        let began = Instant::now();
        let body = json!({"question": question}).to_string();
        let (status, answer) = connection.json("POST", &format!("{run}/approve"), &body).await?;
        ensure!(status == 200, "the answer was not taken: {answer}");
        loop {
            match reader.line().await? {
                Some("event: run-finished") => break,
                Some(_) => ensure!(began.elapsed() < Duration::from_secs(60), "the run does not continue"),
                None => bail!("the events end before the run"),
            }
        }
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    let at = |share: usize| took.get((took.len() * share / 100).min(took.len() - 1)).copied().unwrap_or_default();
    let note =
        format!("{ANSWERS} answers, to the end of the run; half within {:.1} ms, all within {:.1}", at(50), at(100));
    Ok(Figure::at_most("90th percentile from an answer to its run's next steps", at(90), "ms", 50.0, note))
}

/// The list and the page of a run with a question, of a server that has seen neither.
async fn pages(project: &Project) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let last = format!("/t/default/runs/{}", name(RUNS));
    for (figure, path) in [("list with 10,000 questions", "/t/default"), ("page of a run with a question", &last)] {
        let fresh = project.serve()?;
        let first = looked(&fresh, path).await?;
        let mut again = Vec::new();
        for _ in 0..9 {
            again.push(looked(&fresh, path).await?);
        }
        again.sort_by(f64::total_cmp);
        let median = again.get(again.len() / 2).copied().unwrap_or_default();
        let resident = fresh.memory("VmHWM")? as f64 / 1e6;
        let note = format!("the first time {first:.0} ms, then {median:.0}; resident {resident:.0} MB at the most");
        figures.push(Figure::at_most(figure, first.max(median), "ms", 100.0, note));
    }
    Ok(figures)
}
