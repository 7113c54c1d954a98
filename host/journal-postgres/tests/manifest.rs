//! The question that the manifest for Kubernetes asks the journal, to know how many workers to run.

#![allow(clippy::unwrap_used, reason = "tests")]

use opcell_journal::{Journal as _, NewRun, RunState};
use opcell_journal_postgres::{PostgresJournal, scratch::Server};

#[tokio::test]
async fn the_scaler_of_the_manifest_counts_the_runs_that_are_due() {
    let manifest = include_str!("../../../docs/kubernetes/worker.yaml");
    let (_, after) = manifest.split_once("query: >-\n").unwrap();
    let query = after.lines().next().unwrap().trim();
    let Some(server) = Server::start().unwrap() else { return };
    let journal = PostgresJournal::open(server.url().parse().unwrap()).await.unwrap();
    let later = journal.now().unwrap() + 3_600_000_000;
    let runs = [("now", false, Some(0)), ("later", false, Some(later)), ("waits", false, None), ("over", true, None)];
    for (run, ended, due) in runs {
        let state = RunState { status: "running".into(), ended, due };
        journal.create(NewRun { state, ..NewRun::empty(&run.into(), "w", 0) }).await.unwrap();
    }
    let asked = server.command("psql").args(["-At", "-c", query]).arg(server.url()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout).trim(), "1", "{}", String::from_utf8_lossy(&asked.stderr));
}
