//! Calls, their failures, tools of the program, and the end of a host.

use super::{builder, component, shop, tool};
use opcell::{CallError, Fault, Tenant, TypedReceipt, prelude::*};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_can_forge_no_word_of_the_host() {
    let host = builder().plugin(PluginConfig::from_bytes("shop", component())).build().await.unwrap();

    let error = host.invoke("test/run", opcell::json!({})).await.unwrap_err();

    assert_eq!(error.failure.reason.as_ref(), "busy");
    assert_eq!(error.kind(), FailureKind::Plugin("busy"));
    assert_eq!(error.failure.fault(), Fault::Plugin);
    // It has run, and its receipt says so.
    assert!(matches!(error.typed_receipt(), Some(TypedReceipt::Cell(_))), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_results_have_types_of_the_program() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct PriceOf {
        article: u32,
    }

    #[derive(serde::Serialize)]
    struct Ask {
        article: u32,
    }

    let price = opcell::tool_fn("shop.price", "Returns the price of an article in cents.", async |of: PriceOf, _| {
        match of.article {
            7 => Ok(1_250),
            other => Err(Failure::host("no-such-article", format!("there is no article {other}"))),
        }
    });
    let host = builder().plugin(shop()).tool(price).build().await.unwrap();

    let cents: u32 = host.call("test/run", &Ask { article: 7 }).await.unwrap();
    assert_eq!(cents, 1_250);

    // What is no `u32` is an error with the receipt, and not a panic or a default.
    let unexpected = host.call::<_, String>("test/run", &Ask { article: 7 }).await.unwrap_err();
    assert_eq!(unexpected.kind(), FailureKind::Host("unexpected-data"));
    assert!(unexpected.receipt().is_some());

    // The tool's failure, which the plugin passes on in its own name.
    let missing = host.invoke("test/run", opcell::json!({"article": 8})).await.unwrap_err();
    assert_eq!(missing.kind(), FailureKind::Plugin("no-such-article"));

    // The schema is the type's.
    let unfit = host.invoke("test/run", opcell::json!({"article": "seven"})).await.unwrap_err();
    assert_eq!(unfit.failure.reason.as_ref(), "invalid-arguments");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_tool_is_a_failure_with_a_receipt_whoever_calls_it() {
    let panics = Arc::new(tool(async |_, _| -> Result<i64, Failure> { panic!("a defect of the program") }));
    let host = builder().plugin(shop()).tool(panics.clone()).document_tool(panics).build().await.unwrap();

    let by_plugin = host.invoke("test/run", opcell::json!({"article": 7})).await.unwrap_err();
    assert_eq!(by_plugin.kind(), FailureKind::Plugin("panicked"));
    assert!(matches!(by_plugin.typed_receipt(), Some(TypedReceipt::Cell(_))), "{by_plugin:?}");

    let direct = host.invoke("shop.price", opcell::json!({})).await.unwrap_err();
    assert_eq!((direct.kind(), direct.failure.fault()), (FailureKind::Panicked, Fault::Host));
    assert!(matches!(direct.typed_receipt(), Some(TypedReceipt::Call(_))), "{direct:?}");

    // Nothing is left behind.
    assert!(host.pools().iter().all(|pool| pool.busy == 0), "{:?}", host.pools());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tool_that_blocks_does_not_hold_up_the_deadline_of_its_caller() {
    static ENDED: AtomicBool = AtomicBool::new(false);
    let blocks = tool(async |_, _| {
        std::thread::sleep(Duration::from_secs(1));
        ENDED.store(true, Ordering::SeqCst);
        Ok(1)
    });
    let host = builder().plugin(shop()).tool(blocks).build().await.unwrap();

    let call = host.invoke("test/run", opcell::json!({"article": 7})).timeout(Duration::from_millis(100));
    let error = call.await.unwrap_err();

    assert_eq!(error.kind(), FailureKind::Timeout);
    assert!(error.receipt().is_some());
    assert!(!ENDED.load(Ordering::SeqCst), "the call waited for the tool");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_blocked_its_thread_is_named_in_the_receipt() {
    let blocks = tool(async |_, _| {
        std::thread::sleep(Duration::from_millis(150));
        Ok(1)
    });
    let host = builder().document_tool(blocks).build().await.unwrap();
    let called = host.invoke("shop.price", opcell::json!({})).await.unwrap();
    let Some(TypedReceipt::Call(receipt)) = called.typed_receipt() else { panic!("{called:?}") };
    let warning = receipt.touched.warnings.concat();
    assert!(warning.contains("the tool `shop.price` blocked its thread"), "{receipt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_and_sinks_learn_the_user_and_the_tenant_and_a_panic_of_a_sink_harms_no_call() {
    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl opcell::LogSink for Seen {
        fn log(&self, _: &str, _: &CallContext, _: opcell::LogEvent<'_>) {}

        fn ended(&self, context: &CallContext, _: &opcell::CellReceipt) {
            self.0.lock().unwrap().push(format!("{:?} {:?}", context.user, context.tenant));
            panic!("a defect of the program");
        }
    }

    let seen = Arc::new(Seen::default());
    let price = tool(async |_, input: ToolInput| match input.context.user.as_deref() {
        Some("ann") => Ok(1),
        _ => Ok(2),
    });
    let host = builder().plugin(shop()).tool(price).log(seen.clone()).build().await.unwrap();
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();

    let called = host.invoke("test/run", opcell::json!({"article": 7})).user("ann").tenant("acme").await.unwrap();

    assert_eq!(called.data, Value::from(1));
    let seen = seen.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert_eq!(*seen, [r#"Some("ann") Some("acme")"#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_owned_and_can_be_spawned() {
    let host = builder().plugin(shop()).tool(tool(async |_, _| Ok(5))).build().await.unwrap();
    let call = host.invoke("test/run", opcell::json!({"article": 7}));
    drop(host);
    let called = tokio::spawn(call.into_future()).await.unwrap().unwrap();
    assert_eq!(called.read::<i64>().unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_closes_ends_its_calls_and_takes_no_more() {
    let forever = tool(async |_, _| std::future::pending::<Result<i64, Failure>>().await);
    let host = builder().plugin(shop()).tool(forever).build().await.unwrap();
    let call = tokio::spawn(host.invoke("test/run", opcell::json!({"article": 7})).into_future());
    while host.pools().iter().all(|pool| pool.busy == 0) {
        tokio::task::yield_now().await;
    }

    host.close(Duration::from_millis(20)).await;

    assert!(call.is_finished());
    let stopped = call.await.unwrap().unwrap_err();
    assert_eq!(stopped.kind(), FailureKind::Cancelled);
    assert!(stopped.receipt().is_some());
    let late = host.invoke("test/run", opcell::json!({"article": 7})).await.unwrap_err();
    assert_eq!(late.kind(), FailureKind::Closing);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_call_is_an_error_as_rust_knows_them() {
    async fn called(host: &Host) -> Result<Value, Box<dyn std::error::Error>> {
        Ok(host.invoke("no/such", opcell::json!({})).await?.data)
    }

    let host = builder().build().await.unwrap();
    let error = called(&host).await.unwrap_err();
    let error = error.downcast::<CallError>().unwrap();
    assert_eq!((error.kind(), error.failure.fault()), (FailureKind::Unknown, Fault::Caller));
}

/// The plugin of these tests, whose operation first tells its progress this often, from 1 on, out of `total`.
fn telling(times: u32, total: u32) -> PluginConfig {
    let import =
        "(import \"opcell:plugin/log@0.1.0\" \"progress\" (func $progress (param i64 i64 i32 i32)))\n  (memory";
    let tells = format!(
        "(loop $again
      (i64.store (i32.const 12288) (i64.add (i64.load (i32.const 12288)) (i64.const 1)))
      (call $progress (i64.load (i32.const 12288)) (i64.const {total}) (i32.const 160) (i32.const 10))
      (br_if $again (i64.lt_u (i64.load (i32.const 12288)) (i64.const {times}))))
    (return (call $ok (i32.const 4096) (i32.const 4)))"
    );
    let invoke = "(memory.fill (i32.const 3072) (i32.const 0) (i32.const 40))";
    let wat = include_str!("plugin.wat").replacen("(memory", import, 1).replacen(invoke, &tells, 1);
    let manifest = r#"{"schema": 1, "name": "shop", "version": "1.0.0"}"#;
    let component = opcell_cli::selftest::component_from_wat(&wat, None, "operation-plugin", Some(manifest)).unwrap();
    PluginConfig::from_bytes("shop", component)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_call_reaches_whoever_asked_and_of_a_flood_the_newest() {
    for (times, at_most) in [(3, 3), (2_000, 100)] {
        let host = builder().plugin(telling(times, 2_000)).build().await.unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let shown = told.clone();
        let call = host.invoke("test/run", opcell::json!({})).progress(move |progress| {
            shown.lock().unwrap().push(progress.to_string());
        });
        assert_eq!(call.await.unwrap().data, Value::from(true));
        let told = told.lock().unwrap().clone();
        assert!(told.len() <= at_most && told[0] == "1 of 2000: shop.price", "{times}: {told:?}");
        assert_eq!(told.last().unwrap(), &format!("{times} of 2000: shop.price"), "{told:?}");
        assert!(times > 3 || told.len() == 3, "{told:?}");
    }
}

/// Keeps the pieces of a run.
#[derive(Default)]
struct Pieces(Mutex<Vec<String>>);

impl RunText for Pieces {
    fn text(&self, _: opcell::EffectId, _: &str) {}

    fn piece(&self, effect: opcell::EffectId, piece: opcell::AnswerPiece<'_>) {
        self.0.lock().unwrap().push(piece.to_value(effect).to_json());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_runs_calls_is_told_beside_the_journal_and_never_in_it() {
    let host = builder().plugin(telling(2, 4)).build().await.unwrap();
    let text =
        r#"{:name "tell" :description "Tells" :steps [{:name "tell" :type :invoke :operation "test/run" :args {}}]}"#;
    let workflow = Workflow::compile("tell.edn", text).unwrap();
    let pieces = Arc::new(Pieces::default());
    let options = RunOptions { sink: Some(pieces.clone()), ..RunOptions::default() };
    let run = host.start_with(&workflow, Value::Null, options).await.unwrap();
    let outcome = run.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let told = pieces.0.lock().unwrap().clone();
    let of = |done: u32| format!(r#"{{"progress":{{"done":{done},"total":4,"message":"shop.price"}},"#);
    let [first, second, ended] = &told[..] else { panic!("{told:?}") };
    assert!(first.starts_with(&of(1)) && second.starts_with(&of(2)), "{told:?}");
    assert!(ended.starts_with(r#"{"ended":true,"#), "{told:?}");
    let history = host.engine().history(&outcome.run).await.unwrap();
    assert!(!format!("{history:?}").contains("shop.price"), "{history:?}");
}
