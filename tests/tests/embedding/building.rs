//! The parts of a host: nothing that is said twice is resolved in silence, and nothing that is said is lost.

use super::{builder, component, shop, tool};
use opcell::{
    ComponentStore, Duplicate, MemoryJournal, StoreFailure, Timer, Timestamp,
    config::{JournalPlace, JournalSettings},
    prelude::*,
};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

fn limits(memory: u64) -> LimitRequest {
    LimitRequest { memory: Some(memory), ..LimitRequest::default() }
}

fn project() -> Config {
    let mut config = Config::empty(PathBuf::from("."));
    config.limits = limits(32 << 20);
    config
}

async fn refused(builder: opcell::HostBuilder) -> HostError {
    builder.build().await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_calls_means_nothing() {
    let before = builder().plugin(shop()).limits(limits(16 << 20)).config(project());
    let after = builder().config(project()).limits(limits(16 << 20)).plugin(shop());
    for builder in [before, after] {
        let host = builder.build().await.unwrap();
        assert!(host.catalog().find("test/run").is_ok());
        let plugin = host.catalog().plugins().next().unwrap();
        assert_eq!(plugin.limits().memory, 16 << 20);
    }
    // Of two ceilings the tighter one counts, whoever has set it.
    let loose = builder().limits(limits(48 << 20)).config(project()).plugin(shop()).build().await.unwrap();
    assert_eq!(loose.catalog().plugins().next().unwrap().limits().memory, 32 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_one_name_are_an_error() {
    let price = || tool(async |_, _| Ok(1));
    let named =
        |name: &str| opcell::tool_fn_with_schema(name, "Echoes.", opcell::json!({}), async |said: Value, _| Ok(said));
    let plugins = refused(builder().plugin(shop()).plugin(shop())).await;
    assert!(matches!(&plugins, HostError::Duplicate(Duplicate::Plugin(name)) if name == "shop"), "{plugins}");
    for (twice, name) in
        [(builder().tool(price()).tool(price()), "shop.price"), (builder().tool(named("http.fetch")), "http.fetch")]
    {
        let error = refused(twice).await;
        assert!(
            matches!(&error, HostError::Duplicate(Duplicate::Tool { name: found, .. }) if found == name),
            "{error}"
        );
    }
    for (twice, name) in [
        (builder().document_tool(price()).document_tool(price()), "shop.price"),
        (builder().document_tool(named("delegate")), "delegate"),
        (builder().document_tool(named("read")), "read"),
        (builder().plugin(shop()).document_tool(named("test/run")), "test/run"),
    ] {
        let error = refused(twice).await;
        let is_meant =
            matches!(&error, HostError::Duplicate(Duplicate::DocumentTool { name: found, .. }) if found == name);
        assert!(is_meant, "{name}: {error}");
    }
    let mut with_journal = project();
    with_journal.journal = Some(JournalSettings::at(JournalPlace::File(PathBuf::from("never-made.db"))));
    for (twice, setting) in [
        (builder().limits(limits(1 << 20)).limits(limits(2 << 20)), "limits"),
        (builder().cells(2).cells(3), "cells"),
        (builder().config(project()).config(project()), "config"),
        (builder().journal(MemoryJournal::new()).journal(MemoryJournal::new()), "journal"),
        (builder().config(with_journal).journal(MemoryJournal::new()), "journal"),
    ] {
        let error = refused(twice).await;
        let is_meant =
            matches!(&error, HostError::Duplicate(Duplicate::Setting { setting: found, .. }) if *found == setting);
        assert!(is_meant, "{setting}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_is_given_twice_is_an_error_unless_it_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let files = |plugin: PluginConfig| plugin.grant(Grant::read("work", folder.path()));
    for (twice, named) in [
        (files(shop()).grant(Grant::read_write("work", folder.path())), "the grant of files `work`"),
        (shop().setting("branch", "main").setting("branch", "next"), "the setting `branch`"),
        (shop().ceiling(limits(8 << 20)).ceiling(limits(9 << 20)), "`ceiling`"),
    ] {
        let error = refused(builder().plugin(twice)).await;
        let is_meant = matches!(&error, HostError::Duplicate(Duplicate::OfPlugin { what, .. }) if what == named);
        assert!(is_meant, "{named}: {error}");
    }
    let same = files(files(shop())).setting("branch", "main").setting("branch", "main");
    assert!(builder().plugin(same).build().await.is_ok());
    // Of two limits the tighter one counts, in any order.
    for plugin in [
        shop().limits(limits(8 << 20)).limits(limits(16 << 20)),
        shop().limits(limits(16 << 20)).limits(limits(8 << 20)),
    ] {
        let host = builder().plugin(plugin).build().await.unwrap();
        assert_eq!(host.catalog().plugins().next().unwrap().limits().memory, 8 << 20);
    }
}

/// A clock that jumps to the end of every delay.
#[derive(Default)]
pub struct Jumping(AtomicI64);

#[async_trait]
impl Timer for Jumping {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, ms: f64) {
        self.0.fetch_add((ms * 1_000.0) as i64, Ordering::SeqCst);
    }

    async fn deadline(&self, _: f64) {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_lets_days_pass_at_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let flaky = tool(move |_, _| {
        let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if is_first { Err(Failure::host("not-yet", "tomorrow").retriable()) } else { Ok(3) } }
    });
    let clock = Arc::new(Jumping::default());
    let host = builder().document_tool(flaky).timer(clock.clone()).build().await.unwrap();
    let text = r#"{:name "w" :description "d" :steps [{:name "s" :type :invoke :operation "shop.price" :args {}
        :retry {:max 2 :delay 86400000}}]}"#;
    let run = host.start(&Workflow::compile("w.edn", text).unwrap(), Value::Null).await.unwrap();
    let end = run.outcome().await.unwrap().ended().unwrap();
    assert_eq!((end.status, calls.load(Ordering::SeqCst)), (Status::Completed, 2), "{end:?}");
    assert_eq!(clock.now(), Timestamp(86_400_000_000));
    assert!(matches!(
        refused(builder().timer(Jumping::default()).timer(Jumping::default())).await,
        HostError::Duplicate(Duplicate::Setting { setting: "timer", .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_refused_with_and_without_plugins() {
    let broken = || {
        opcell::tool_fn_with_schema("broken", "Is broken.", opcell::json!({"type": 7}), async |said: Value, _| Ok(said))
    };
    let without = refused(builder().tool(broken())).await.to_string();
    let with = refused(builder().plugin(shop()).tool(broken())).await.to_string();
    assert_eq!(without, with);
    assert!(with.contains("`broken`"), "{with}");
    let named = refused(builder().plugin(PluginConfig::from_bytes("a b", component()))).await.to_string();
    assert!(named.contains("`a b` is not a name of a plugin"), "{named}");
    // As `main` prints it.
    let printed = format!("{:?}", refused(builder().plugin(shop()).plugin(shop())).await);
    assert!(printed.starts_with("there are two plugins named `shop`"), "{printed}");
    // A library is no command.
    let changed = Workflow::compile(
        "w.edn",
        r#"{:name "w" :description "d" :steps [{:name "s" :type :invoke :operation "no/such"}]}"#,
    );
    let unknown =
        builder().build().await.unwrap().start(&changed.unwrap(), Value::Null).await.err().unwrap().to_string();
    assert!(unknown.contains("no/such") && !unknown.contains("opcell op"), "{unknown}");
}

#[test]
fn a_runtime_without_timers_is_an_error() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let error = runtime.block_on(refused(builder()));
    assert!(matches!(error, HostError::NoRuntime), "{error}");
}

/// Says how often it was asked.
struct Installed(AtomicUsize);

#[async_trait]
impl ComponentStore for Installed {
    async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match plugin {
            "shop" => Ok(component()),
            other => Err(format!("{other} is not installed").into()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_comes_from_a_store_of_the_program_and_is_asked_for_again_when_it_is_reloaded() {
    let store = Arc::new(Installed(AtomicUsize::new(0)));
    let plugin = PluginConfig::stored("shop", store.clone()).grant(Grant::tool("shop.price"));
    let host = builder().plugin(plugin.clone()).tool(tool(async |_, _| Ok(3))).build().await.unwrap();
    assert_eq!(host.invoke("test/run", opcell::json!({"article": 1})).await.unwrap().data, Value::from(3));

    let again = host.reload(plugin).await.unwrap();

    assert_eq!(again.invoke("test/run", opcell::json!({"article": 1})).await.unwrap().data, Value::from(3));
    assert_eq!(store.0.load(Ordering::SeqCst), 2);
    let missing = refused(builder().plugin(PluginConfig::stored("other", store))).await.to_string();
    assert!(missing.contains("plugin `other`") && missing.contains("other is not installed"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_stored_in_a_file_or_in_a_journal_that_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let text = r#"{:name "w" :description "d" :steps [{:name "e" :type :exit :status :success :output 1}]}"#;
    let workflow = Workflow::compile("w.edn", text).unwrap();
    let shared: Arc<dyn opcell::Journal> = Arc::new(MemoryJournal::new());
    for make in
        [&(|| builder().sqlite(&file)) as &dyn Fn() -> opcell::HostBuilder, &|| builder().journal(shared.clone())]
    {
        let host = make().build().await.unwrap();
        let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
        host.start_with(&workflow, Value::Null, options).await.unwrap().outcome().await.unwrap().ended().unwrap();
        host.close(std::time::Duration::ZERO).await;
        // Another host on the same journal knows the run.
        let later = make().build().await.unwrap();
        assert_eq!(later.run("r").state().await.unwrap().result, Value::from(1));
    }
}
