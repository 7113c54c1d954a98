//! The server over HTTP, with the client on the same machine: `cargo xtask bench --server`.
//!
//! Starts `opcell serve` in new folders of DIRECTORY, which should be on the disk that is meant, and prints each figure
//! beside its target, or with `--json` as an array of them. Ends with 1 when one is missed.

mod questions;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use opcell_benches::{
    client::{Connection, Latencies, Load},
    served::{Project, Served},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{ExitCode, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const USAGE: &str =
    "usage: server ECHO.wasm [--opcell PROGRAM] [--directory DIRECTORY] [--seconds N] [--only NAME,…] [--json]
names: starts, invoke, idle, readers, page, questions, mcp, kill, tenants";

/// Connections of a load.
const CONNECTIONS: usize = 64;

/// A figure and its target.
#[derive(Serialize)]
struct Figure {
    figure: &'static str,
    value: f64,
    unit: &'static str,
    target: f64,
    /// `true` if the target is the least, and not the most.
    at_least: bool,
    met: bool,
    /// Other observations.
    note: String,
}

impl Figure {
    fn at_least(figure: &'static str, value: f64, unit: &'static str, target: f64, note: String) -> Self {
        Self { figure, value, unit, target, at_least: true, met: value >= target, note }
    }

    fn at_most(figure: &'static str, value: f64, unit: &'static str, target: f64, note: String) -> Self {
        Self { figure, value, unit, target, at_least: false, met: value <= target, note }
    }
}

struct Options {
    opcell: PathBuf,
    echo: PathBuf,
    directory: PathBuf,
    time: Duration,
    only: Option<BTreeSet<String>>,
    json: bool,
}

impl Options {
    fn read() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let own = std::env::current_exe()?;
        let mut options = Self {
            opcell: own.with_file_name("opcell"),
            echo: PathBuf::new(),
            directory: PathBuf::from("."),
            time: Duration::from_secs(8),
            only: None,
            json: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` needs a value\n{USAGE}"));
            match word.as_str() {
                "--opcell" => options.opcell = value()?.into(),
                "--directory" => options.directory = value()?.into(),
                "--seconds" => options.time = Duration::from_secs_f64(value()?.parse()?),
                "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--json" => options.json = true,
                word if word.starts_with('-') => bail!("unknown option `{word}`\n{USAGE}"),
                word => options.echo = word.into(),
            }
        }
        ensure!(!options.echo.as_os_str().is_empty(), "which echo component?\n{USAGE}");
        options.echo = options.echo.canonicalize().with_context(|| options.echo.display().to_string())?;
        Ok(options)
    }

    fn project(&self, tenants: &[(&str, &str)]) -> Result<Project> {
        Project::new(&self.opcell, &self.echo, &self.directory, tenants)
    }
}

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<ExitCode> {
    let options = Options::read()?;
    let mut figures = Vec::new();
    let wanted = |name: &str| {
        let wanted = options.only.as_ref().is_none_or(|only| only.contains(name));
        if wanted {
            eprintln!("server: {name}");
        }
        wanted
    };
    if wanted("starts") {
        figures.extend(starts(&options).await?);
    }
    if wanted("invoke") {
        figures.push(invoke(&options).await?);
    }
    if wanted("idle") {
        figures.push(idle(&options).await?);
    }
    if wanted("readers") {
        figures.extend(readers(&options).await?);
    }
    if wanted("page") {
        figures.extend(page(&options).await?);
    }
    if wanted("questions") {
        figures.extend(questions::questions(&options).await?);
    }
    if wanted("mcp") {
        figures.push(mcp(&options)?);
    }
    if wanted("kill") {
        figures.push(kill(&options).await?);
    }
    if wanted("tenants") {
        figures.push(tenants(&options).await?);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        for Figure { figure, value, unit, target, at_least, met, note } in &figures {
            let (than, met) = (if *at_least { "≥" } else { "≤" }, if *met { "met" } else { "NOT MET" });
            println!("{figure:<58} {value:>10.1} {unit:<8} {than} {target:<8} {met:<8} {note}");
        }
    }
    Ok(ExitCode::from(u8::from(figures.iter().any(|figure| !figure.met))))
}

fn described(all: &mut Latencies) -> String {
    let (half, most, worst) = (all.percentile(50.0), all.percentile(99.9), all.percentile(100.0));
    let failed = match (&all.failed, &all.example) {
        (0, _) => String::new(),
        (failed, example) => format!("; {failed} FAILED, such as {}", example.as_deref().unwrap_or_default()),
    };
    format!(
        "{} requests; half within {half:.1} ms, 99.9 % within {most:.1}, all within {worst:.1}{failed}",
        all.took.len()
    )
}

/// Durable runs of one step.
async fn starts(options: &Options) -> Result<[Figure; 3]> {
    let project = options.project(&[])?;
    let server = project.serve()?;
    let load = Load::new(&server.address, "/v1/default/runs", r#"{"workflow":"one"}"#);
    load.run(CONNECTIONS, Duration::from_secs(1)).await?;
    let before = server.count("completed").await?;
    let began = Instant::now();
    let mut all = load.run(CONNECTIONS, options.time).await?;
    let loaded = began.elapsed().as_secs_f64();
    // All that were started have to end, and what was started before has, too.
    while server.count("running").await? + server.count("pending").await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ended = server.count("completed").await? - before;
    let took = began.elapsed().as_secs_f64();
    let memory = server.memory("VmHWM")? as f64 / 1e6;
    let p99 = all.percentile(99.0);
    let note = described(&mut all);
    Ok([
        Figure::at_least("durable starts, 64 connections", all.took.len() as f64 / loaded, "/s", 5000.0, note),
        Figure::at_least(
            "durable runs of one step, started and finished",
            ended as f64 / took,
            "/s",
            5000.0,
            format!("resident {memory:.0} MB at the most"),
        ),
        Figure::at_most("99th percentile of a start", p99, "ms", 50.0, String::new()),
    ])
}

/// Calls of an operation outside of runs.
async fn invoke(options: &Options) -> Result<Figure> {
    let project = options.project(&[])?;
    let server = project.serve()?;
    let load = Load::new(&server.address, "/v1/default/operations/echo/echo", r#"{"arguments":{"n":1}}"#);
    load.run(CONNECTIONS, Duration::from_secs(1)).await?;
    let began = Instant::now();
    let mut all = load.run(CONNECTIONS, options.time).await?;
    let rate = all.took.len() as f64 / began.elapsed().as_secs_f64();
    let p99 = all.percentile(99.0);
    Ok(Figure::at_least(
        "calls of an operation, 64 connections",
        rate,
        "/s",
        15_000.0,
        format!("99 % within {p99:.1} ms; {}", described(&mut all)),
    ))
}

/// Connections that have asked something once, and wait.
async fn idle(options: &Options) -> Result<Figure> {
    const MANY: usize = 1_000;
    let project = options.project(&[])?;
    let server = project.serve()?;
    let ask = async || -> Result<Connection> {
        let mut connection = Connection::open(&server.address).await?;
        let (status, _) = connection.ask("GET", "/health", "", "").await?;
        ensure!(status == 200, "the server is not well: {status}");
        Ok(connection)
    };
    drop(ask().await?);
    let before = server.memory("VmRSS")?;
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(ask().await?);
    }
    let taken = server.memory("VmRSS")?.saturating_sub(before) as f64 / 1e6;
    drop(open);
    Ok(Figure::at_most("memory of 1,000 idle connections", taken, "MB", 24.0, String::new()))
}

/// Readers of runs that are busy.
async fn readers(options: &Options) -> Result<[Figure; 2]> {
    const RUNS: usize = 10;
    const READERS: usize = 1_000;
    let project = options.project(&[])?;
    let server = project.serve()?;
    for run in 0..RUNS {
        server.start("busy", &format!("busy-{run}"), 300).await?;
        server.wait(&format!("busy-{run}"), "suspended").await?;
    }
    let before = server.memory("VmRSS")?;
    let tasks: Vec<_> = (0..READERS)
        .map(|reader| tokio::spawn(read(server.address.clone(), format!("busy-{}", reader % RUNS))))
        .collect();
    // All of them listen before anything happens.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let began = Instant::now();
    let mut connection = Connection::open(&server.address).await?;
    for run in 0..RUNS {
        let (status, sent) =
            connection.json("POST", &format!("/v1/default/runs/busy-{run}/signal"), r#"{"name":"go"}"#).await?;
        ensure!(status == 200, "the signal was not sent: {sent}");
    }
    let mut complete: BTreeMap<u64, usize> = BTreeMap::new();
    let mut lost = 0;
    for task in tasks {
        match task.await? {
            Ok(events) => *complete.entry(events).or_default() += 1,
            Err(error) => {
                eprintln!("server: a reader: {error:#}");
                lost += 1;
            }
        }
    }
    let took = began.elapsed().as_secs_f64();
    let (most, grown) =
        (server.memory("VmHWM")? as f64 / 1e6, server.memory("VmHWM")?.saturating_sub(before) as f64 / 1e6);
    let note = format!("10 runs; events and how many readers had all of them: {complete:?}; {took:.1} s");
    Ok([
        Figure::at_most("readers of 1,000 that lost or repeated an event", f64::from(lost), "readers", 0.0, note),
        Figure::at_most(
            "resident memory with 1,000 readers",
            most,
            "MB",
            400.0,
            format!("{grown:.0} MB more than before"),
        ),
    ])
}

/// Reads the events of a run to its end; how many there were.
async fn read(address: String, run: String) -> Result<u64> {
    let mut connection = Connection::open(&address).await?;
    connection.send("GET", &format!("/v1/default/runs/{run}/events"), "Accept: text/event-stream\r\n", "").await?;
    let (status, _) = connection.head().await?;
    ensure!(status == 200, "status {status}");
    let (mut last, mut ended) = (0, false);
    while let Some(line) = connection.line().await? {
        if let Some(id) = line.strip_prefix("id: ") {
            let id: u64 = id.parse()?;
            ensure!(id == last + 1, "event {id} after event {last}");
            last = id;
        }
        ended |= line == "event: run-finished";
        if ended && line.is_empty() {
            return Ok(last);
        }
    }
    bail!("the stream ended after event {last}")
}

/// The page of long runs: when it is looked at first, and again.
async fn page(options: &Options) -> Result<Vec<Figure>> {
    let project = options.project(&[])?;
    let server = project.serve()?;
    let mut figures = Vec::new();
    for (elements, name) in [(10_000, "page of a run of 10,000 events"), (100_000, "page of a run of 100,000 elements")]
    {
        let run = format!("each-{elements}");
        server.start("each", &run, elements).await?;
        let events = server.wait(&run, "completed").await?;
        // A server that has not seen the run yet.
        let fresh = project.serve()?;
        let path = format!("/t/default/runs/{run}");
        let first = looked(&fresh, &path).await?;
        let mut again = Vec::new();
        for at in 0..9 {
            again.push(looked(&fresh, &format!("{path}?from={}", at * 200)).await?);
        }
        again.sort_by(f64::total_cmp);
        let median = again.get(again.len() / 2).copied().unwrap_or_default();
        let most = fresh.memory("VmHWM")? as f64 / 1e6;
        let note = format!("{events} events; the first time {first:.0} ms; resident {most:.0} MB at the most");
        figures.push(Figure::at_most(name, first.max(median), "ms", 100.0, note));
    }
    Ok(figures)
}

async fn looked(server: &Served, path: &str) -> Result<f64> {
    let mut connection = Connection::open(&server.address).await?;
    let began = Instant::now();
    let (status, page) = connection.ask("GET", path, "", "").await?;
    ensure!(status == 200 && page.len() > 5_000, "{path}: {status}, {} bytes", page.len());
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// From the start of `opcell mcp` to its answer to `tools/list`.
fn mcp(options: &Options) -> Result<Figure> {
    let project = options.project(&[])?;
    let mut took = Vec::new();
    for _ in 0..9 {
        let began = Instant::now();
        let mut child = project.command().arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().context("no input")?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut ask = |request: Value| -> Result<()> { Ok(writeln!(input, "{request}")?) };
        ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}))?;
        ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))?;
        loop {
            let mut line = String::new();
            ensure!(output.read_line(&mut line)? > 0, "the server ended");
            let answer: Value = serde_json::from_str(&line)?;
            if answer.get("id") == Some(&json!(1)) {
                let tools = answer.pointer("/result/tools").and_then(Value::as_array).map_or(0, Vec::len);
                ensure!(tools == 1, "{answer}");
                break;
            }
        }
        took.push(began.elapsed().as_secs_f64() * 1e3);
        drop(input);
        child.wait()?;
    }
    // The first one compiles the plugin.
    let first = took.remove(0);
    took.sort_by(f64::total_cmp);
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    let note = format!("median of 8 with one plugin; the first time, when it is compiled, {first:.0} ms");
    Ok(Figure::at_most("`tools/list` after the start of `opcell mcp`", median, "ms", 50.0, note))
}

/// A server that is killed under load: what it had said was started is there, once.
async fn kill(options: &Options) -> Result<Figure> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let project = options.project(&[])?;
    let server = project.serve()?;
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|connection| tokio::spawn(acknowledged(server.address.clone(), connection, &STOP)))
        .collect();
    tokio::time::sleep(options.time.min(Duration::from_secs(3))).await;
    server.kill()?;
    STOP.store(true, Ordering::Relaxed);
    let mut started: BTreeMap<String, String> = BTreeMap::new();
    for task in tasks {
        started.extend(task.await?);
    }
    ensure!(!started.is_empty(), "no start was acknowledged before the kill");
    let began = Instant::now();
    let server = project.serve()?;
    let mut connection = Connection::open(&server.address).await?;
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    let mut before = String::new();
    loop {
        let (_, page) = connection.json("GET", &format!("/v1/default/runs?limit=500{before}"), "").await?;
        for run in page.get("runs").and_then(Value::as_array).into_iter().flatten() {
            let run = run.get("run").and_then(Value::as_str).unwrap_or_default();
            *there.entry(run.to_owned()).or_default() += 1;
        }
        match page.get("next").and_then(Value::as_str) {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    let listed = began.elapsed().as_secs_f64() * 1e3;
    let wrong = started.values().filter(|run| there.get(*run) != Some(&1)).count();
    // The same request again is the same run, and none is started anew.
    let mut again = 0;
    for (key, run) in started.iter().rev().take(500) {
        let header = format!("Idempotency-Key: {key}\r\n");
        let (status, body) = connection.ask("POST", "/v1/default/runs", &header, r#"{"workflow":"one"}"#).await?;
        let body: Value = serde_json::from_slice(body)?;
        again += usize::from(status != 200 || body.get("run").and_then(Value::as_str) != Some(run));
    }
    let note = format!(
        "{} acknowledged, {} in the journal, listed {listed:.0} ms after the restart; {again} of 500 keys started another run",
        started.len(),
        there.len()
    );
    let wrong = (wrong + again) as f64;
    Ok(Figure::at_most("acknowledged starts that a kill -9 lost or doubled", wrong, "runs", 0.0, note))
}

/// Starts runs with keys until the server is gone; those that it said it had started.
async fn acknowledged(address: String, of: usize, stop: &AtomicBool) -> BTreeMap<String, String> {
    let mut started = BTreeMap::new();
    let Ok(mut connection) = Connection::open(&address).await else { return started };
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let key = format!("{of}-{number}");
        let header = format!("Idempotency-Key: {key}\r\n");
        let Ok((status, body)) = connection.ask("POST", "/v1/default/runs", &header, r#"{"workflow":"one"}"#).await
        else {
            break;
        };
        let run = serde_json::from_slice::<Value>(body).ok();
        let run = run.and_then(|body| body.get("run").and_then(Value::as_str).map(str::to_owned));
        if let Some(run) = run.filter(|_| status == 201) {
            started.insert(key, run);
        }
    }
    started
}

/// Two tenants: what one waits for while the other sends as much as it can.
async fn tenants(options: &Options) -> Result<Figure> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let project = options.project(&[("quiet", ""), ("busy", "")])?;
    let server = project.serve()?;
    let mut quiet = Load::new(&server.address, "/v1/quiet/runs", r#"{"workflow":"one"}"#);
    quiet.every = Some(Duration::from_millis(20));
    let mut alone = {
        quiet.run(4, Duration::from_secs(1)).await?;
        quiet.run(4, options.time).await?
    };
    let flood = Load::new(&server.address, "/v1/busy/runs", r#"{"workflow":"one"}"#);
    let until = Instant::now() + options.time + Duration::from_secs(60);
    // By a thread of its own: what is measured is what the other tenant waits for at the server, and not in this
    // client.
    let flooding = thread::spawn(move || -> Result<Latencies> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..CONNECTIONS).map(|_| tokio::spawn(flood.clone().repeat(until, Some(&STOP)))).collect();
            let mut flooded = Latencies::default();
            for task in tasks {
                flooded.add(task.await??);
            }
            Ok(flooded)
        })
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    let mut beside = quiet.run(4, options.time).await?;
    let took = began.elapsed().as_secs_f64() + 1.0;
    STOP.store(true, Ordering::Relaxed);
    let flooded = flooding.join().map_err(|_| anyhow!("the flood ended with a panic"))??;
    let (before, after) = (alone.percentile(99.0), beside.percentile(99.0));
    let note = format!(
        "alone 99 % within {before:.1} ms, half within {:.1}; beside {:.0} starts a second of the other (and {} refused) 99 % within \
         {after:.1}, half within {:.1}; {} failed",
        alone.percentile(50.0),
        flooded.took.len() as f64 / took,
        flooded.failed,
        beside.percentile(50.0),
        beside.failed
    );
    Ok(Figure::at_most(
        "99th percentile beside a tenant that floods / alone",
        after / before.max(0.001),
        "times",
        2.0,
        note,
    ))
}
