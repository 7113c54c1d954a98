//! Tenants over the plugins of one host, and plugins that come and go.

use super::{builder, component, shop, tool};
use opcell::{LiveHost, Tenant, prelude::*};

fn asked() -> Value {
    opcell::json!({"article": 7})
}

/// One host, whose tool says on whose behalf it is called. The plugin itself is granted nothing.
async fn host() -> Host {
    let price = tool(async |_, input: ToolInput| Ok(input.context.tenant.map_or(0, |name| name.len() as i64)));
    builder().plugin(PluginConfig::from_bytes("shop", component())).tool(price).cells(4).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_plugin_has_other_grants_for_each_tenant_and_none_for_a_tenant_that_is_not_known() {
    let host = host().await;
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();
    host.set_tenant(Tenant::new("other")).await.unwrap();

    let acme = host.invoke("test/run", asked()).tenant("acme").await.unwrap();
    assert_eq!(acme.data, Value::from(4));
    for denied in [host.invoke("test/run", asked()).tenant("other"), host.invoke("test/run", asked())] {
        let error = denied.await.unwrap_err();
        assert!(error.failure.reason.starts_with("tool shop.price"), "{error:?}");
        let Some(opcell::TypedReceipt::Cell(receipt)) = error.typed_receipt() else { panic!("{error:?}") };
        assert_eq!(receipt.denials.len(), 1);
    }
    let unknown = host.invoke("test/run", asked()).tenant("unknown").await.unwrap_err();
    assert_eq!(unknown.kind(), FailureKind::Host("unknown-tenant"));

    // A run on behalf of a tenant has what the tenant is granted.
    let text =
        r#"{:name "w" :description "d" :steps [{:name "s" :type :invoke :operation "test/run" :args {:article 7}}]}"#;
    let workflow = Workflow::compile("w.edn", text).unwrap();
    for (tenant, status) in [("acme", Status::Completed), ("other", Status::Failed), ("unknown", Status::Failed)] {
        let options = RunOptions { tenant: Some(tenant.into()), ..RunOptions::default() };
        let run = host.start_with(&workflow, Value::Null, options).await.unwrap();
        assert_eq!(run.outcome().await.unwrap().ended().unwrap().status, status, "{tenant}");
    }

    // New grants count from the next call on; a tenant that is removed has none.
    host.set_tenant(Tenant::new("acme")).await.unwrap();
    assert!(host.invoke("test/run", asked()).tenant("acme").await.is_err());
    assert!(host.remove_tenant("acme") && !host.remove_tenant("acme"));
    let gone = host.invoke("test/run", asked()).tenant("acme").await.unwrap_err();
    assert_eq!(gone.kind(), FailureKind::Host("unknown-tenant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_cannot_be_served_is_refused_and_the_one_before_stays() {
    let host = host().await;
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price"))).await.unwrap();
    for (refused, why) in [
        (Tenant::new("a/b"), "is not a name of a tenant"),
        (Tenant::new("acme").grant("shopp", Grant::tool("shop.price")), "no plugin `shopp`"),
        (Tenant::new("acme").grant("shop", Grant::read("repo", "/does/not/exist")), "/does/not/exist"),
    ] {
        let error = host.set_tenant(refused).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(host.invoke("test/run", asked()).tenant("acme").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_a_tenant_are_within_the_plugins() {
    let host = host().await;
    let slow =
        LimitRequest { wall_time: Some(u64::from(u32::MAX)), argument_bytes: Some(3), ..LimitRequest::default() };
    host.set_tenant(Tenant::new("acme").grant("shop", Grant::tool("shop.price")).limits(slow)).await.unwrap();
    let error = host.invoke("test/run", asked()).tenant("acme").await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Limit("transfer-limit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_come_and_go_in_a_living_host() {
    let live = LiveHost::new(builder().tool(tool(async |_, _| Ok(1))).build().await.unwrap());
    assert!(live.now().invoke("test/run", asked()).await.is_err());

    live.add(shop()).await.unwrap();
    let before = live.now();
    assert!(before.invoke("test/run", asked()).await.is_ok());
    let twice = live.add(shop()).await.unwrap_err();
    assert!(matches!(twice, HostError::Duplicate(_)), "{twice}");

    live.remove("shop").await.unwrap();
    let gone = live.now().invoke("test/run", asked()).await.unwrap_err();
    assert_eq!(gone.kind(), FailureKind::Unknown);
    assert!(live.remove("shop").await.is_err());
    // What began before has what it had.
    assert!(before.invoke("test/run", asked()).await.is_ok());

    live.close(std::time::Duration::ZERO).await;
    assert_eq!(before.invoke("test/run", asked()).await.unwrap_err().kind(), FailureKind::Closing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_a_plugin_may_write_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("late.wasm"), component()).unwrap();
    let writes = shop().grant(Grant::read_write("work", folder.path()));
    let host = builder().plugin(writes).tool(tool(async |_, _| Ok(1))).build().await.unwrap();
    let late = PluginConfig::new("late", folder.path().join("late.wasm"));
    let error = host.with_plugin(late).await.unwrap_err().to_string();
    assert!(error.contains("the plugin `shop` may write"), "{error}");
}
