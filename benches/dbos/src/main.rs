//! Durable steps per second of DBOS's own library: `dbos-peer URL CONNECTIONS RUNS STEPS...` starts RUNS workflows at
//! once for each pair of numbers, each of STEPS steps that do nothing, and prints a line for each pair.
//!
//! DBOS writes a row when a step has ended, and none before; a workflow has a row of its own.

use anyhow::{Context as _, Result, bail, ensure};
use dbos::{Config, DBOS, Error, step};
use std::time::Instant;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, loads @ ..] = &arguments[..] else { bail!("dbos-peer URL CONNECTIONS RUNS STEPS...") };
    let config = Config {
        max_connections: connections.parse().context("CONNECTIONS")?,
        app_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Config::new("opcell-bench", url.as_str())
    };
    let dbos = DBOS::new(config);
    let chain = dbos.register_workflow("chain", |steps: u32| async move {
        for _ in 0..steps {
            step("no-op", || async { Ok::<(), Error>(()) }).await?;
        }
        Ok::<u32, Error>(steps)
    })?;
    dbos.launch().await?;
    let (loads, rest) = loads.as_chunks::<2>();
    ensure!(rest.is_empty(), "RUNS without STEPS");
    for [runs, steps] in loads {
        let (runs, steps): (u32, u32) = (runs.parse().context("RUNS")?, steps.parse().context("STEPS")?);
        let began = Instant::now();
        let started: Vec<_> = (0..runs)
            .map(|_| {
                let chain = chain.clone();
                tokio::spawn(async move { chain.run(steps).await })
            })
            .collect();
        for run in started {
            ensure!(run.await?? == steps, "a workflow left steps out");
        }
        println!("{:.1}", f64::from(runs * steps) / began.elapsed().as_secs_f64());
    }
    dbos.shutdown().await;
    Ok(())
}
