//! Durability before anything depends on it, although pure calls do not wait for the journal.

use crate::support::{json, routed};
use async_trait::async_trait;
use opcell_engine::{
    Engine, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_journal::{Journal, RunId, SqliteJournal};
use opcell_types::Value;
use std::sync::Arc;

const ELEMENTS: usize = 3_000;

/// `echo` is pure; `count` is not, and says how many replies the journal has.
struct Counting {
    journal: Arc<dyn Journal>,
    run: RunId,
}

#[async_trait]
impl Operations for Counting {
    fn effects(&self, operation: &str) -> Option<Effects> {
        Some(if operation == "echo" { Effects::Pure } else { Effects::Once })
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let data = match call.id.as_ref() {
            "echo" => call.of.arguments,
            _ => {
                let records = self.journal.read(&self.run, 0, 100_000).await.unwrap();
                Value::from(
                    records.iter().filter(|record| matches!(&*record.kind, "replied" | "element-called")).count()
                        as i64,
                )
            }
        };
        Reply { result: Ok(Success { data, summary: None, details: None }), receipt: None }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_happen_twice_begins_when_everything_before_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let journal: Arc<dyn Journal> = Arc::new(SqliteJournal::open(folder.path().join("runs.db")).unwrap());
    let run: RunId = "counted".into();
    let counting = Counting { journal: journal.clone(), run: run.clone() };
    let engine = Engine::builder().operations(Arc::new(counting)).journal(journal).build();
    let step = |name: &str, operation: &str, rest: &str| {
        format!(
            r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"{operation}"}},"yields":{{"type":"data","data":"data"}}{rest}}}"#
        )
    };
    let all = step("all", "echo", r#","each":{"over":"$inputs.xs","concurrency":16}"#);
    let program = routed(&[all, step("count", "count", "")].join(","));
    let xs = Value::object([("xs", Value::array((0..ELEMENTS).map(|at| Value::from(at as i64))))]);
    let options = RunOptions { run: Some(run.parse().unwrap()), ..RunOptions::default() };
    let outcome = engine.start(program, xs, options).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, json(&ELEMENTS.to_string()), "replies that were durable when the last call began");
}
