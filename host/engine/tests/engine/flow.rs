//! Sequential workflows, `each`, retries, branches, parallel groups, exits (WorkflowSkill, sections 2.6 to 2.12, and
//! Opcell's own).

use crate::support::{Script, failure, json, program, retriable, routed, sequential};
use opcell_engine::{RunOptions, Status};
use opcell_types::Value;

fn echo() -> Script {
    Script::new().operation("t", |call| Ok(call.arguments.clone()))
}

fn tool(name: &str, rest: &str) -> String {
    format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t"}}{rest}}}"#)
}

fn with_arg(name: &str, expression: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t","args":{{"v":{{"expression":"{expression}"}}}}}}{rest}}}"#
    )
}

#[tokio::test]
async fn steps_run_in_order_and_outputs_are_taken_from_the_last_one_by_key() {
    let steps = [with_arg("a", "$inputs.x", ""), with_arg("b", "$steps.a.output.v", "")].join(",");
    let outcome = echo().run(&sequential(&steps, r#"{"v":{"type":"int"},"w":{"type":"int"}}"#), r#"{"x":7}"#).await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"v":7,"w":null}"#)));
}

#[tokio::test]
async fn a_false_guard_skips_the_step_and_its_output_is_null() {
    let steps = [with_arg("a", "1", r#","when":"$inputs.no""#), with_arg("b", "$steps.a.output", "")].join(",");
    let script = echo();
    script.run(&sequential(&steps, "{}"), "{}").await;
    assert_eq!(script.called(), [r#"t {"v":null}"#]);
}

#[tokio::test]
async fn an_input_without_a_value_gives_the_run_up() {
    let steps = [tool("a", ""), with_arg("b", "$bogus.x", r#","on-error":"ignore""#), tool("c", "")].join(",");
    let outcome = echo().run(&sequential(&steps, r#"{"r":{"type":"int"}}"#), "{}").await;
    assert!(outcome.aborted);
    assert_eq!(
        outcome.message.as_deref(),
        Some("Step \"b\" input \"v\": failed to resolve expression $bogus.x: Unknown reference: $bogus")
    );
    assert_eq!(outcome.result, json("{}"));
}

#[tokio::test]
async fn a_failure_halts_unless_it_is_ignored_and_outputs_are_built_all_the_same() {
    let fails = Script::new()
        .operation("t", |_| Err(failure("broken", "no")))
        .operation("u", |call| Ok(call.arguments.clone()));
    let after =
        r#"{"name":"b","type":"invoke","invoke":{"operation":"u","args":{"v":{"expression":"$steps.a.output"}}}}"#;
    let outcome = fails.run(&sequential(&[&tool("a", ""), after].join(","), r#"{"r":{"type":"int"}}"#), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("broken")));
    assert_eq!(outcome.result, json(r#"{"r":null}"#));
    let ignored = tool("a", r#","on-error":"ignore""#);
    let outcome = fails.run(&sequential(&[&ignored, after].join(","), r#"{"v":{"type":"int"}}"#), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"v":null}"#)));
}

#[tokio::test]
async fn retries_wait_longer_each_time_and_only_repeat_what_may_be_repeated() {
    let retry = r#","retry":{"max":3,"delay-ms":100.0,"backoff":0.5}"#;
    let script = Script::new()
        .gives("t", [Err(retriable("x", "1")), Err(retriable("x", "2")), Err(retriable("x", "3")), Ok(json("4"))]);
    let outcome = script.run(&sequential(&tool("a", retry), "{}"), "{}").await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.world().sleeps, [100.0, 50.0, 25.0]);
    let script = Script::new().gives("t", [Err(retriable("x", "soft")), Err(failure("y", "hard"))]);
    let outcome = script.run(&sequential(&tool("a", retry), "{}"), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("y"));
    assert_eq!(
        script.world().keys.iter().collect::<std::collections::BTreeSet<_>>().len(),
        1,
        "one piece of work, one key"
    );
}

#[tokio::test]
async fn each_goes_over_all_elements_and_keeps_what_succeeded() {
    let script = Script::new().operation("t", |call| match call.arguments.get("v") {
        Some(Value::String(text)) if text.as_ref() == "b" => Err(failure("bad", "bad b")),
        _ => Ok(call.arguments.clone()),
    });
    let steps = with_arg("e", "$item", r#","each":{"over":"$inputs.xs","delay-ms":50.0}"#);
    let outcome = script.run(&sequential(&steps, r#"{"r":{"type":"array"}}"#), r#"{"xs":["a","b","c"]}"#).await;
    assert_eq!(outcome.reason.as_deref(), Some("bad"));
    assert_eq!(outcome.result, json(r#"{"r":[{"v":"a"},null,{"v":"c"}]}"#));
    assert_eq!(script.called().len(), 3);
    assert_eq!(script.world().sleeps, [50.0, 50.0]);
}

#[tokio::test]
async fn each_over_something_else_fails_the_step() {
    let steps = tool("e", r#","each":{"over":"$inputs.xs"}"#);
    let outcome = echo().run(&sequential(&steps, "{}"), r#"{"xs":{"a":1}}"#).await;
    assert_eq!(outcome.message.as_deref(), Some("each expression must resolve to an array, got object"));
}

#[tokio::test]
async fn elements_run_at_once_up_to_the_bound_and_results_stay_in_order() {
    use std::sync::{Arc, Mutex};
    #[derive(Default)]
    struct Seen {
        now: usize,
        most: usize,
    }
    #[derive(Clone, Default)]
    struct Slow(Arc<Mutex<Seen>>);
    #[async_trait::async_trait]
    impl opcell_engine::ports::Operations for Slow {
        fn effects(&self, _: &str) -> Option<opcell_engine::ports::Effects> {
            Some(opcell_engine::ports::Effects::Pure)
        }
        async fn invoke(
            &self,
            call: opcell_engine::ports::Call,
        ) -> opcell_engine::ports::Reply<opcell_engine::ports::Success> {
            {
                let mut seen = self.0.lock().unwrap();
                seen.now += 1;
                seen.most = seen.most.max(seen.now);
            }
            let ms = match call.arguments.get("v") {
                Some(Value::Number(n)) => 20.0 - n.as_f64(),
                _ => 0.0,
            };
            tokio::time::sleep(std::time::Duration::from_millis(ms as u64)).await;
            self.0.lock().unwrap().now -= 1;
            let data = call.arguments.get("v").cloned().unwrap_or_default();
            opcell_engine::ports::Reply {
                result: Ok(opcell_engine::ports::Success { data, summary: None, details: None }),
                receipt: None,
            }
        }
    }
    let slow = Slow::default();
    let engine = opcell_engine::Engine::builder().operations(Arc::new(slow.clone())).build();
    let steps = with_arg("e", "$item", r#","each":{"over":"$inputs.xs","concurrency":3}"#);
    let program = sequential(&steps, r#"{"r":{"type":"array"}}"#);
    let handle = engine.start(program, json(r#"{"xs":[0,1,2,3,4,5,6,7]}"#), RunOptions::default()).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.result, json(r#"{"r":[0,1,2,3,4,5,6,7]}"#));
    assert_eq!(slow.0.lock().unwrap().most, 3);
    crate::support::check_history(&engine, &outcome).await;
}

#[tokio::test]
async fn outputs_are_computed_from_the_result() {
    let steps = tool(
        "a",
        r#","outputs":{"n":{"type":"int","value":{"expression":"$result.x"}},"x":{"type":"int"},"gone":{"type":"int"}}"#,
    );
    let script = Script::new().gives("t", [Ok(json(r#"{"x":1,"y":2}"#))]);
    let outcome = script
        .run(
            &sequential(&steps, r#"{"n":{"type":"int"},"x":{"type":"int"},"gone":{"type":"int"},"y":{"type":"int"}}"#),
            "{}",
        )
        .await;
    assert_eq!(outcome.result, json(r#"{"n":1,"x":1,"gone":null,"y":null}"#));
}

fn branching(condition: &str) -> String {
    [
        format!(
            r#"{{"name":"c","type":"branch","branch":{{"condition":"{condition}","then":["t1","t2"],"else":["e1"]}}}}"#
        ),
        with_arg("t1", "\\\"t1\\\"", r#","grouped":true"#),
        with_arg("t2", "\\\"t2\\\"", r#","grouped":true"#),
        with_arg("e1", "\\\"e1\\\"", r#","grouped":true"#),
        with_arg("z", "$steps.c.output.v", ""),
    ]
    .join(",")
}

#[tokio::test]
async fn a_branch_runs_one_group_and_gives_the_output_of_its_last_step() {
    for (condition, calls) in [("true", vec!["t1", "t2", "t2"]), ("false", vec!["e1", "e1"])] {
        let script = echo();
        script.run(&sequential(&branching(condition), "{}"), "{}").await;
        let expected: Vec<String> = calls.iter().map(|call| format!(r#"t {{"v":"{call}"}}"#)).collect();
        assert_eq!(script.called(), expected);
    }
}

#[tokio::test]
async fn a_failed_step_of_a_branch_halts_a_sequential_run() {
    let script = Script::new().operation("t", |_| Err(failure("bad", "bad")));
    let outcome = script.run(&sequential(&branching("true"), r#"{"r":{"type":"int"}}"#), "{}").await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Failed, Some("t1")));
    assert_eq!(script.called().len(), 1);
    assert_eq!(outcome.result, json(r#"{"r":null}"#));
}

#[tokio::test]
async fn an_input_without_a_value_inside_a_branch_fails_the_branch() {
    let steps = branching("true").replace("\\\"t2\\\"", "$bogus.x");
    let outcome = echo().run(&sequential(&steps, "{}"), "{}").await;
    assert!(!outcome.aborted);
    assert_eq!(outcome.step.as_deref(), Some("c"));
    assert_eq!(
        outcome.message.as_deref(),
        Some("Step \"t2\" input \"v\": failed to resolve expression $bogus.x: Unknown reference: $bogus")
    );
}

#[tokio::test]
async fn an_exit_ends_the_run_from_inside_a_branch_with_its_output_by_key() {
    let exit = |status: &str| {
        [
            r#"{"name":"c","type":"branch","branch":{"condition":"true","then":["x","t1"]}}"#.to_owned(),
            format!(r#"{{"name":"x","type":"exit","grouped":true,"exit":{{"status":"{status}","output":{{"value":{{"a":1}}}}}}}}"#),
            with_arg("t1", "1", r#","grouped":true"#),
            tool("z", ""),
        ]
        .join(",")
    };
    let outputs = r#"{"a":{"type":"int"},"b":{"type":"int"}}"#;
    let script = echo();
    let outcome = script.run(&sequential(&exit("success"), outputs), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"a":1,"b":null}"#)));
    assert!(script.called().is_empty());
    let outcome = echo().run(&sequential(&exit("failed"), outputs), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("exit-failed")));
}

fn parallel(reduce: &str) -> String {
    [
        format!(r#"{{"name":"p","type":"parallel","parallel":{{"branches":[["a1","a2"],["b1"]],"reduce":"{reduce}","into":"all"}},"yields":{{"type":"data","data":"data"}}}}"#),
        with_arg("a1", "1", r#","grouped":true"#),
        with_arg("a2", "2", r#","grouped":true"#),
        with_arg("b1", "3", r#","grouped":true"#),
    ]
    .join(",")
}

#[tokio::test]
async fn parallel_groups_become_one_value() {
    for (reduce, all) in [
        ("append", r#"{"all":[{"v":2},{"v":3}]}"#),
        ("replace", r#"{"all":{"v":3}}"#),
        ("barrier", r#"{"all":{"a2":{"v":2},"b1":{"v":3}}}"#),
    ] {
        assert_eq!(echo().run(&routed(&parallel(reduce)), "{}").await.result, json(all), "{reduce}");
    }
}

#[tokio::test]
async fn parallel_groups_all_run_and_all_their_failures_are_told() {
    let script = Script::new().operation("t", |call| Err(failure("bad", &format!("bad {}", call.arguments.to_json()))));
    let outcome = script.run(&routed(&parallel("append")), "{}").await;
    assert_eq!(outcome.message.as_deref(), Some("branch \"a2\": bad {\"v\":1}\nbranch \"b1\": bad {\"v\":3}"));
    assert_eq!(script.called().len(), 2);
}

#[tokio::test]
async fn predicates_choose_as_expressions_do() {
    let steps = |predicate: &str| {
        [
            format!(r#"{{"name":"c","type":"branch","branch":{{"condition":{predicate},"then":["y"],"else":["n"]}}}}"#),
            with_arg("y", "1", r#","grouped":true"#),
            with_arg("n", "0", r#","grouped":true"#),
        ]
        .join(",")
    };
    for (predicate, holds) in [
        (r#"{"path":"input.n","op":"greater_than","value":3}"#, true),
        (r#"{"path":"input.n","op":"in","value":[1,2]}"#, false),
        (r#"{"path":"input.gone","exists":true}"#, false),
        (r#"{"all_of":[{"path":"input.n","op":"equals","value":4},{"not":{"path":"input.n","exists":false}}]}"#, true),
        (
            r#"{"any_of":[{"path":"input.n","op":"equals","value":5},{"path":"input.gone","op":"equals","value":null}]}"#,
            true,
        ),
    ] {
        let outcome = echo().run(&routed(&steps(predicate)), r#"{"n":4}"#).await;
        let expected = json(if holds { r#"{"v":1}"# } else { r#"{"v":0}"# });
        assert_eq!((outcome.message, outcome.result), (None, expected), "{predicate}");
    }
    let outcome = echo().run(&routed(&steps(r#"{"path":"input.gone","op":"less_than","value":1}"#)), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("predicate-failed"));
}

#[tokio::test]
async fn a_transform_works_on_the_hosts_side() {
    let steps = r#"{"name":"f","type":"transform","outputs":{"high":{"type":"array"}},"transform":{"inputs":{"items":{"expression":"$inputs.xs"}},"operation":"filter","where":"$item > 2"}}"#;
    let outcome = Script::new().run(&sequential(steps, r#"{"high":{"type":"array"}}"#), r#"{"xs":[1,2,3,4]}"#).await;
    assert_eq!(outcome.result, json(r#"{"high":[3,4]}"#));
}

#[tokio::test]
async fn what_an_operation_did_not_return_is_undefined_in_a_resumed_run_too() {
    let steps = [tool("a", ""), with_arg("b", "$steps.a.output == null", "")].join(",");
    let script = Script::new().gives("t", [Ok(Value::Undefined), Ok(json("1"))]);
    script.run(&sequential(&steps, "{}"), "{}").await;
    assert_eq!(script.called()[1], r#"t {"v":false}"#);
}

#[tokio::test]
async fn defaults_fill_in_what_the_caller_leaves_out() {
    let program = program(
        r#"{"version":"workflow-ir/v1","name":"w","dialect":{"printing":"javascript","lifecycle":"sequential"},
        "inputs":{"x":{"type":"int","default":5},"y":{"type":"int","default":6}},
        "steps":[{"name":"a","type":"invoke","invoke":{"operation":"t","args":{"x":{"expression":"$inputs.x"},"y":{"expression":"$inputs.y"}}}}]}"#,
    );
    let script = echo();
    script.run(&program, r#"{"x":null}"#).await;
    assert_eq!(script.called(), [r#"t {"x":null,"y":6}"#]);
}
