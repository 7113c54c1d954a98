//! WorkflowSkill documents through the engine: what Opcell adds to the language.

use crate::support::{Script, check_history, json, retriable};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunOptions,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_types::Value;
use opcell_workflow::workflowskill;
use opcell_workflow::workflowskill::run_log::{LogStatus, Projection, RunLog, StepRecord};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Runs a document; its log, and what its steps did.
async fn run(engine: &Engine, yaml: &str, inputs: &str) -> (RunLog, Vec<StepRecord>) {
    let skill = workflowskill::parse_workflow_yaml(yaml).unwrap();
    assert_eq!(skill.validate(None), []);
    let program = Program::new(Arc::new(skill.compile("w"))).unwrap();
    let handle = engine.start(program, json(inputs), RunOptions::default()).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    check_history(engine, &outcome).await;
    let mut projection = Projection::default();
    for recorded in engine.history(handle.run()).await.unwrap() {
        projection.apply(&recorded).unwrap();
    }
    let records = projection.records().to_vec();
    (projection.into_log().unwrap(), records)
}

/// Gives its argument `v` after this many milliseconds, and counts how many calls overlap.
#[derive(Default)]
struct Slow {
    calls: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Operations for Slow {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let data = call.arguments.get("v").cloned().unwrap_or_default();
        let ms = match &data {
            Value::Number(ms) => ms.as_u64().unwrap_or(0),
            _ => 0,
        };
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Reply { result: Ok(Success { data, summary: None, details: None }), receipt: None }
    }
}

fn each(rest: &str) -> String {
    format!(
        "inputs: {{ xs: {{ type: array }} }}\noutputs: {{ r: {{ type: array, value: $steps.e.output }} }}\nsteps:\n  - id: e\n    type: tool\n    tool: slow\n    each: $inputs.xs\n    inputs: {{ v: {{ type: int, value: $item }} }}\n{rest}"
    )
}

#[tokio::test(start_paused = true)]
async fn each_works_on_as_many_elements_at_once_as_it_says_and_keeps_their_order() {
    let inputs = r#"{"xs":[70,10,50,20,60,30,40]}"#;
    for (rest, most) in [("", 1), ("    x-opcell: { concurrency: 3 }\n", 3)] {
        let slow = Arc::new(Slow::default());
        let engine = Engine::builder().operations(slow.clone()).build();
        let (log, _) = run(&engine, &each(rest), inputs).await;
        assert_eq!(log.outputs.to_json(), r#"{"r":[70,10,50,20,60,30,40]}"#);
        assert_eq!((log.status, log.steps[0].iterations), (LogStatus::Success, Some(7)));
        assert_eq!(slow.most.load(Ordering::SeqCst), most);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_fails_one_attempt_of_one_element() {
    let slow = Arc::new(Slow::default());
    let engine = Engine::builder().operations(slow.clone()).build();
    let rest = "    on_error: ignore\n    x-opcell: { timeout: 100ms, concurrency: 2 }\n";
    let (log, _) = run(&engine, &each(rest), r#"{"xs":[10,5000,20]}"#).await;
    assert_eq!(log.outputs.to_json(), r#"{"r":[10,null,20]}"#);
    assert!(log.steps[0].error.as_deref().unwrap().contains("100 ms"), "{:?}", log.steps[0].error);

    slow.calls.store(0, Ordering::SeqCst);
    let rest = "    retry: { max: 2, delay: 1ms, backoff: 1 }\n    x-opcell: { timeout: 100ms }\n";
    let (log, _) = run(&engine, &each(rest), r#"{"xs":[5000]}"#).await;
    assert_eq!((log.status, slow.calls.load(Ordering::SeqCst)), (LogStatus::Failed, 3));
    assert_eq!(log.steps[0].retries.as_ref().unwrap().attempts, 2);
}

#[tokio::test]
async fn delays_of_each_hold_between_elements_that_run_at_once_too() {
    let script = Script::new().operation("slow", |call| Ok(call.arguments.clone()));
    let rest = "    delay: 250ms\n    x-opcell: { concurrency: 2 }\n";
    let (log, _) = run(&script.engine(), &each(rest), r#"{"xs":[1,2,3]}"#).await;
    assert_eq!(log.status, LogStatus::Success);
    assert_eq!(script.world().sleeps, [250.0, 250.0]);
}

#[tokio::test]
async fn a_run_that_is_given_up_keeps_what_its_steps_did() {
    let yaml = "steps:\n  - { id: a, type: tool, tool: t }\n  - { id: b, type: tool, tool: t, condition: $env.HOME }\n  - { id: c, type: tool, tool: t }\n";
    let script = Script::new().gives("t", [Ok(json("7"))]);
    let (log, records) = run(&script.engine(), yaml, "{}").await;
    // The reference's log has nothing but the reason.
    assert_eq!((log.steps.len(), log.error.unwrap().message), (0, "Unknown reference: $env".to_owned()));
    let reported: Vec<_> = records.iter().map(|r| (r.id.as_ref(), r.status, r.error.as_deref(), r.reason)).collect();
    assert_eq!(
        reported,
        [
            ("a", LogStatus::Success, None, None),
            ("b", LogStatus::Failed, Some("Unknown reference: $env"), None),
            ("c", LogStatus::Skipped, None, Some("Workflow halted")),
        ]
    );
    assert_eq!(records[0].output, Some(json("7")));
}

#[tokio::test]
async fn records_of_a_run_that_ends_are_those_of_its_log() {
    let yaml = "steps:\n  - { id: a, type: tool, tool: t, retry: { max: 1, delay: 1s, backoff: 2 } }\n";
    let script = Script::new().gives("t", [Err(retriable("busy", "busy")), Ok(json("1"))]);
    let (log, records) = run(&script.engine(), yaml, "{}").await;
    assert_eq!((log.steps.as_slice(), log.status), (records.as_slice(), LogStatus::Success));
}
