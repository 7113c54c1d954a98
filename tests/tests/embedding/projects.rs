//! Projects of one process, each with a host of its own over pools that all share.

use super::{builder, component, shop, tool};
use opcell::{CompileMode, Duplicate, LoadError, Metering, SharedPools, prelude::*};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Semaphore;

fn pools(cells: u32) -> SharedPools {
    SharedPools::builder().cells(cells).compile(CompileMode::TrustedInProcess).build()
}

fn asked() -> Value {
    opcell::json!({"article": 7})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_has_nothing_of_another_over_the_same_pools() {
    let pools = pools(4);
    let priced = |price: i64| tool(move |_, _| async move { Ok(price) });
    let acme = Host::builder().shared_pools(&pools).plugin(shop()).tool(priced(1)).build().await.unwrap();
    let denied = PluginConfig::from_bytes("shop", component());
    let zeta = Host::builder().shared_pools(&pools).plugin(denied).tool(priced(2)).build().await.unwrap();
    let none = Host::builder().shared_pools(&pools).build().await.unwrap();

    // Each has its own tools and grants for the same bytes.
    assert_eq!(acme.invoke("test/run", asked()).await.unwrap().data, Value::from(1));
    let error = zeta.invoke("test/run", asked()).await.unwrap_err();
    let Some(opcell::TypedReceipt::Cell(receipt)) = error.typed_receipt() else { panic!("{error:?}") };
    assert_eq!(receipt.denials.len(), 1);
    // The third one has no plugins, whatever is loaded beside it.
    assert_eq!(none.invoke("test/run", asked()).await.unwrap_err().kind(), FailureKind::Unknown);
    assert!(none.catalog().entries().is_empty() && none.pools().is_empty());
    // A host that closes ends nothing of the others.
    acme.close(std::time::Duration::ZERO).await;
    assert_eq!(acme.invoke("test/run", asked()).await.unwrap_err().kind(), FailureKind::Closing);
    let later = Host::builder().shared_pools(&pools).plugin(shop()).tool(priced(3)).build().await.unwrap();
    assert_eq!(later.invoke("test/run", asked()).await.unwrap().data, Value::from(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn code_that_is_loaded_is_not_trusted_for_another_projects_pins() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("opcell.lock");
    let pools = pools(4);
    let price = || tool(async |_, _| Ok(1));
    let of = |bytes: Vec<u8>| PluginConfig::from_bytes("shop", bytes).grant(Grant::tool("shop.price"));
    let first = Host::builder().shared_pools(&pools).lock(&lock).plugin(of(component())).tool(price());
    first.build().await.unwrap();
    // Another project has loaded other bytes of the same name; this one's lock does not know them.
    let mut other = component();
    other.extend([0, 2, 1, b'x']);
    let host = Host::builder().shared_pools(&pools).plugin(of(other.clone())).tool(price()).build().await.unwrap();
    assert!(host.invoke("test/run", asked()).await.is_ok());
    let pinned = Host::builder().shared_pools(&pools).lock(&lock).plugin(of(other)).tool(price());
    let error = pinned.build().await.unwrap_err();
    let HostError::Plugin(error) = error else { panic!("{error}") };
    assert!(matches!(error.error, LoadError::Changed { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_takes_its_cells_and_leaves_the_rest() {
    let (pools, open, running) = (pools(6), Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gate, counted) = (open.clone(), running.clone());
    let waits = tool(move |_, _| {
        let (gate, counted) = (gate.clone(), counted.clone());
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            Ok(1)
        }
    });
    let greedy = Host::builder().shared_pools(&pools).cells(4).plugin(shop()).tool(waits).build().await.unwrap();
    let modest = builder_over(&pools).plugin(shop()).tool(tool(async |_, _| Ok(2))).build().await.unwrap();
    let calls: Vec<_> = (0..12).map(|_| tokio::spawn(greedy.invoke("test/run", asked()).into_future())).collect();
    while running.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(modest.invoke("test/run", asked()).await.unwrap().data, Value::from(2));
    }
    assert_eq!(running.load(Ordering::SeqCst), 4, "the others wait, although cells are free");
    let (own, all) = (greedy.pools(), pools.in_use());
    assert_eq!((own[0].pool, own[0].cells, own[0].busy), ("shared", 4, 4));
    assert_eq!(all.iter().map(|pool| pool.busy).sum::<u32>(), 4, "{all:?}");
    assert_eq!(modest.pools()[0].busy, 0);
    open.add_permits(calls.len());
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

fn builder_over(pools: &SharedPools) -> opcell::HostBuilder {
    Host::builder().shared_pools(pools)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_sets_nothing_that_its_shared_pools_decide() {
    let pools = pools(2);
    for (twice, named) in [
        (builder().shared_pools(&pools), "compile"),
        (builder_over(&pools).metering(Metering::Deterministic), "metering"),
        (builder_over(&pools).pool(opcell::Allocation::OnDemand), "pool"),
        (builder_over(&pools).keep_resident(1), "keep_resident"),
        (builder_over(&pools).compile_limits(opcell::CompileLimits::default()), "compile_limits"),
        (builder_over(&pools).cache("elsewhere"), "cache"),
        (builder_over(&pools).shared_pools(&pools), "shared_pools"),
    ] {
        let error = twice.build().await.unwrap_err();
        let is_meant = matches!(&error, HostError::Duplicate(Duplicate::Setting { setting, .. }) if *setting == named);
        assert!(is_meant, "{named}: {error}");
    }
    assert!(builder_over(&pools).cells(1).build().await.is_ok());
    assert!(pools.in_use().is_empty(), "no host has a plugin");
}
