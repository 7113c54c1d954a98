//! The cost of many runs on PostgreSQL: `cargo run --release -p opcell-benches --bin scale [-- WHAT… [--dbos
//! PROGRAM]]`, WHAT being any of `steps`, `failover`, `idle` and `claims`, all by default. `docs/scale.md` says what
//! follows from the figures.
//!
//! Durable steps per second at 1, 10, 100 and 1,000 runs at once beside pgbench's commits of single rows on the same
//! server, and beside the same steps in DBOS where its program is given (`benches/dbos`); the time from the death of an
//! owner to its run's next event; queries per second of ten workers with 100,000 waiting runs; and what a claim takes
//! with up to 1,000,000 due runs. The server is made on a scratch folder, with the settings of its distribution.

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunError, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
    worker::{Worker, WorkerOptions},
};
use opcell_ir::WorkflowIr;
use opcell_journal::{Cut, Journal as _, NewRun, RunId};
use opcell_journal_postgres::{PostgresJournal, scratch::Server};
use opcell_types::Value;
use std::{
    fs,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

/// Runs at once, and steps of each.
const STEPS: [(usize, usize); 4] = [(1, 400), (10, 100), (100, 40), (1_000, 10)];

/// Connections to the server, ours and DBOS's.
const CONNECTIONS: &str = "8";

/// The time that pgbench measures, in seconds.
const PGBENCH: &str = "5";

const FAILOVERS: usize = 5;
const FAILOVER_LEASE: u64 = 2;

const IDLE_WORKERS: usize = 10;
const IDLE_RUNS: u64 = 100_000;
const IDLE: Duration = Duration::from_secs(15);

const CLAIMS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const CLAIMS_EACH: usize = 200;

struct NoOp;

#[async_trait]
impl Operations for NoOp {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        // What is called must be durable before it is called.
        Some(Effects::Idempotent)
    }

    async fn invoke(&self, _call: Call) -> Reply<Success> {
        Reply { result: Ok(Success { data: Value::Null, summary: None, details: None }), receipt: None }
    }
}

fn main() -> Result<()> {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let dbos = match wanted.iter().position(|word| word == "--dbos") {
        Some(at) if at + 1 < wanted.len() => wanted.drain(at..at + 2).nth(1),
        Some(_) => {
            bail!("`--dbos` needs the program: `cargo build --release` in benches/dbos makes target/release/dbos-peer")
        }
        None => None,
    };
    let is_wanted = |what: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == what);
    if let Some(unknown) = wanted.iter().find(|what| !["steps", "failover", "idle", "claims"].contains(&what.as_str()))
    {
        bail!("`{unknown}` is not measured; expected steps, failover, idle or claims");
    }
    let Some(server) = Server::start()? else { bail!("there is no PostgreSQL to measure") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if is_wanted("steps") {
        runtime.block_on(steps(&server, dbos.as_deref()))?;
    }
    if is_wanted("failover") {
        failover(&server)?;
    }
    if is_wanted("idle") {
        runtime.block_on(idle(&server))?;
    }
    if is_wanted("claims") {
        runtime.block_on(claims(&server))?;
    }
    Ok(())
}

async fn journal(server: &Server, options: &str) -> Result<PostgresJournal> {
    Ok(PostgresJournal::open(format!("{}{options}", server.url()).parse()?).await?)
}

fn engine(journal: PostgresJournal) -> Engine {
    Engine::builder().operations(Arc::new(NoOp)).journal(Arc::new(journal)).build()
}

fn chain(steps: usize) -> Result<Arc<Program>> {
    let step = |i| format!(r#"{{"name":"s{i}","type":"invoke","invoke":{{"operation":"no/op"}}}}"#);
    let steps: Vec<String> = (0..steps).map(step).collect();
    let text = format!(
        r#"{{"version":"workflow-ir/v1","name":"chain","dialect":{{"lifecycle":"sequential"}},"steps":[{}]}}"#,
        steps.join(",")
    );
    Ok(Program::new(Arc::new(serde_json::from_str::<WorkflowIr>(&text)?))?)
}

fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

async fn steps(server: &Server, dbos: Option<&str>) -> Result<()> {
    let engine = engine(journal(server, &format!("&schema=steps&connections={CONNECTIONS}")).await?);
    println!("durable steps per second (each waits until its request is durable), and pgbench's commits of one row");
    for (runs, steps) in STEPS {
        let program = chain(steps)?;
        let began = Instant::now();
        let mut ends = JoinSet::new();
        for _ in 0..runs {
            let (engine, program) = (engine.clone(), program.clone());
            ends.spawn(async move {
                let started = engine.start(program, Value::object::<&str>([]), RunOptions::default()).await?;
                started.finished().await
            });
        }
        while let Some(ended) = ends.join_next().await {
            anyhow::ensure!(ended??.status == Status::Completed, "a run failed");
        }
        let ours = per_second(runs * steps, began.elapsed());
        let commits = pgbench(server, runs.min(100))?;
        print!(
            "  {runs:>5} runs at once  {ours:>8.0} steps/s   pgbench, {:>3} clients  {commits:>8.0} commits/s   steps / commits {:.2}",
            runs.min(100),
            ours / commits
        );
        match dbos {
            Some(program) => {
                let theirs = dbos_steps(server, program, runs, steps)?;
                println!("   DBOS {theirs:>6.0} steps/s   ours / DBOS's {:.1}", ours / theirs);
            }
            None => println!(),
        }
    }
    Ok(())
}

/// The same steps in DBOS, with as many connections to the same server.
fn dbos_steps(server: &Server, program: &str, runs: usize, steps: usize) -> Result<f64> {
    let mut peer = Command::new(program);
    peer.args([&server.url(), CONNECTIONS]).args([runs, steps].map(|number| number.to_string()));
    let output = peer.output().with_context(|| format!("{program} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = || format!("{program} failed: {said}{}", String::from_utf8_lossy(&output.stderr));
    said.trim().parse().ok().filter(|_| output.status.success()).with_context(failed)
}

/// Commits per second of single rows by this many clients.
fn pgbench(server: &Server, clients: usize) -> Result<f64> {
    let script = server.folder().join("insert.sql");
    fs::write(&script, "INSERT INTO bench (payload) VALUES (repeat('x', 200));\n")?;
    let connection = ["-h", "127.0.0.1", "-U", "opcell", "-p"].map(str::to_owned);
    let port = server.port().to_string();
    let mut make = server.command("psql");
    make.args(&connection).arg(&port).args([
        "-q",
        "-c",
        "CREATE TABLE IF NOT EXISTS bench (id bigserial PRIMARY KEY, payload text)",
        "postgres",
    ]);
    anyhow::ensure!(make.output().context("psql")?.status.success(), "psql made no table");
    let mut bench = server.command("pgbench");
    bench.args(&connection).arg(&port).args(["-n", "-T", PGBENCH, "-c", &clients.to_string(), "-j", "2", "-f"]);
    let output = bench.arg(&script).arg("postgres").output().context("pgbench")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.with_context(|| format!("pgbench said: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// An owner that dies is a runtime that ends: no sign of life, no farewell.
fn failover(server: &Server) -> Result<()> {
    let survivor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = format!("&schema=failover&lease={FAILOVER_LEASE}");
    let engine = survivor.block_on(async { anyhow::Ok(engine(journal(server, &options).await?)) })?;
    let stop = CancellationToken::new();
    let worker = Worker::new(engine.clone(), WorkerOptions::default());
    let working = survivor.spawn(worker.run(stop.clone(), |_| Ok::<_, RunError>(())));
    let mut times = Vec::new();
    for number in 0..FAILOVERS {
        let run: RunId = format!("run-{number}").into();
        let owner = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        owner.block_on(async {
            let journal = journal(server, &options).await?;
            let taken = journal.create(NewRun::empty(&run, "w", 0)).await?;
            // The program is on no worker: the one that claims the run finds that out, and the claim shows it.
            let _ = taken;
            std::mem::forget(journal);
            anyhow::Ok(())
        })?;
        owner.shutdown_background();
        let died = Instant::now();
        let fence = || {
            survivor
                .block_on(async { sql(server, &format!("SELECT fence FROM failover.runs WHERE run = '{run}'")).await })
        };
        while fence()? < 2 {
            anyhow::ensure!(died.elapsed() < Duration::from_secs(60), "no worker claims the run");
            std::thread::sleep(Duration::from_millis(20));
        }
        times.push(died.elapsed());
    }
    stop.cancel();
    survivor.block_on(working)??;
    times.sort_unstable();
    let longest = times.last().copied().unwrap_or_default();
    let limit = FAILOVER_LEASE + 1;
    println!(
        "failover with a lease of {FAILOVER_LEASE} s: longest of {FAILOVERS} {:.2} s (target: at most {limit} s)",
        longest.as_secs_f64()
    );
    Ok(())
}

async fn idle(server: &Server) -> Result<()> {
    drop(journal(server, "&schema=idle").await?);
    // A tenth waits for a timer far away, the others for a signal.
    sql(server, &format!("WITH made AS (
            INSERT INTO idle.runs (run, workflow, fence, owner, status, ended, due, records, created_at, updated_at)
            SELECT 'run-' || n, 'w', 1, NULL, 'suspended', false, CASE WHEN n % 10 = 0 THEN 9000000000000000 END, 0, n, n
            FROM generate_series(1, {IDLE_RUNS}) n RETURNING 1)
        SELECT count(*) FROM made")).await?;
    let stop = CancellationToken::new();
    let mut workers = JoinSet::new();
    for _ in 0..IDLE_WORKERS {
        let engine = engine(journal(server, "&schema=idle&connections=4").await?);
        workers.spawn(Worker::new(engine, WorkerOptions::default()).run(stop.clone(), |_| Ok::<_, RunError>(())));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let queries = async || {
        sql(server, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'").await
    };
    let before = queries().await?;
    tokio::time::sleep(IDLE).await;
    let after = queries().await?;
    stop.cancel();
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    let count = usize::try_from(after - before).unwrap_or(0);
    let each = per_second(count, IDLE) / IDLE_WORKERS as f64;
    println!(
        "idle: {IDLE_WORKERS} workers, {IDLE_RUNS} waiting runs: {each:.2} queries/s of each worker (target: at most 5)"
    );
    Ok(())
}

async fn claims(server: &Server) -> Result<()> {
    let journal = journal(server, "&schema=claims").await?;
    println!(
        "a claim (list 17 due runs, take the first, give it back after its next timer is set), median of {CLAIMS_EACH}"
    );
    let mut there = 0;
    for runs in CLAIMS {
        let more = format!("WITH made AS (
                INSERT INTO claims.runs (run, workflow, fence, owner, status, ended, due, records, created_at, updated_at)
                SELECT 'run-' || n, 'w', 1, NULL, 'suspended', false, n, 0, n, n FROM generate_series({}, {runs}) n RETURNING 1)
            SELECT count(*) FROM made", there + 1);
        sql(server, &more).await?;
        there = runs;
        sql(server, "SELECT 0 FROM (SELECT pg_stat_reset()) x").await?;
        vacuum(server)?;
        let (mut lists, mut takes) = (Vec::new(), Vec::new());
        for _ in 0..CLAIMS_EACH {
            let began = Instant::now();
            let due = journal.runnable(i64::MAX / 2, 17).await?;
            lists.push(began.elapsed());
            let run = due.first().context("a due run")?;
            let began = Instant::now();
            let opened = journal.acquire(run, Cut::Tail).await?;
            takes.push(began.elapsed());
            journal.release(run, opened.fence).await?;
        }
        println!("  {runs:>8} due runs: list {:>6.0} µs, take {:>6.0} µs", micros(lists), micros(takes));
    }
    Ok(())
}

fn vacuum(server: &Server) -> Result<()> {
    let port = server.port().to_string();
    let mut vacuum = server.command("psql");
    vacuum.args(["-h", "127.0.0.1", "-U", "opcell", "-q", "-p", &port, "-c", "VACUUM ANALYZE claims.runs", "postgres"]);
    anyhow::ensure!(vacuum.output()?.status.success(), "no vacuum");
    Ok(())
}

fn micros(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// One number.
async fn sql(server: &Server, query: &str) -> Result<i64> {
    let port = server.port().to_string();
    let mut psql = server.command("psql");
    psql.args(["-h", "127.0.0.1", "-U", "opcell", "-q", "-t", "-A", "-p", &port, "-c", query, "postgres"]);
    let output = tokio::task::spawn_blocking(move || psql.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let problem = || format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), problem());
    Ok(text.parse().unwrap_or(0))
}
