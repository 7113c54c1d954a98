//! The weight of hosts and tenants. Alone in its process: other tests reserve address space of their own.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use opcell::{CompileMode, HostBuilder, SharedPools, Tenant, prelude::*};
use opcell_cli::selftest::component_from_wat;
use std::time::{Duration, Instant};

fn component() -> Vec<u8> {
    let manifest = r#"{"schema":1,"name":"shop","version":"1.0.0","capabilities":{"tools":[{"name":"shop.price","reason":"to say what a thing costs"}]}}"#;
    component_from_wat(include_str!("embedding/plugin.wat"), None, "operation-plugin", Some(manifest)).unwrap()
}

async fn host(cells: u32) -> Host {
    host_of(Host::builder().compile(CompileMode::TrustedInProcess).cells(cells)).await
}

async fn host_of(builder: HostBuilder) -> Host {
    let price = opcell::tool_fn_with_schema(
        "shop.price",
        "Returns a price.",
        opcell::json!({"type": "object"}),
        async |_: Value, input: ToolInput| Ok(input.context.tenant.map_or(0, |name| name.len())),
    );
    let shop = PluginConfig::from_bytes("shop", component()).grant(Grant::tool("shop.price"));
    builder.tool(price).plugin(shop).build().await.unwrap()
}

/// KiB of address space and of resident memory.
fn weight() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_default()
    };
    (kib("VmSize"), kib("VmRSS"))
}

/// GiB of address space that a host of this many cells reserves; none where there is no room for its pools.
async fn reserved(cells: u32) -> Option<u64> {
    let before = weight().0;
    let host = host(cells).await;
    let reserved = weight().0.saturating_sub(before) >> 20;
    host.close(Duration::ZERO).await;
    host.warning().is_none().then_some(reserved)
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_of_one_host_and_hosts_over_shared_pools_reserve_nothing() {
    ten_thousand_tenants_share_the_code_and_the_pools_of_one_host().await;
    a_thousand_hosts_share_pools_and_code().await;
}

/// As in a server: each project has a host, with plugins, grants and a journal of its own.
async fn a_thousand_hosts_share_pools_and_code() {
    const HOSTS: usize = 1_000;
    let pools = SharedPools::builder().cells(4).compile(CompileMode::TrustedInProcess).build();
    // The first one makes the pools.
    let mut hosts = vec![host_of(Host::builder().shared_pools(&pools)).await];
    let (before, begun) = (weight(), Instant::now());
    for _ in 1..HOSTS {
        hosts.push(host_of(Host::builder().shared_pools(&pools)).await);
    }
    let (made, after) = (begun.elapsed(), weight());
    let (size, resident) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    println!("{HOSTS} hosts over shared pools: {made:?}, {size} KiB of address space, {resident} KiB resident");
    assert!(size < 2 << 20, "{size} KiB of address space");
    assert!(resident < 1 << 20, "{resident} KiB of memory");
    for host in hosts.iter().step_by(HOSTS / 4) {
        host.invoke("test/run", opcell::json!({"article": 7})).await.unwrap();
        assert_eq!(host.warning(), None);
    }
}

async fn ten_thousand_tenants_share_the_code_and_the_pools_of_one_host() {
    const TENANTS: usize = 10_000;
    for cells in [4, 8, 64] {
        println!("a host of {cells} cells reserves {:?} GiB", reserved(cells).await);
    }
    let host = host(4).await;
    let (before, begun) = (weight(), Instant::now());
    for number in 0..TENANTS {
        let tenant = Tenant::new(format!("tenant-{number}")).grant("shop", Grant::tool("shop.price"));
        host.set_tenant(tenant).await.unwrap();
    }
    let (made, after) = (begun.elapsed(), weight());
    let (size, resident) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    println!("{TENANTS} tenants: {made:?}, {size} KiB of address space, {resident} KiB resident");
    // A host of its own for each would reserve gigabytes for every cell that it may run.
    assert!(size < 1 << 20, "{size} KiB of address space");
    for number in [0, TENANTS / 2, TENANTS - 1] {
        let name = format!("tenant-{number}");
        let asked = opcell::json!({"article": 7});
        let called = host.invoke("test/run", asked).tenant(name.as_str()).await.unwrap();
        assert_eq!(called.data, Value::from(name.len()));
    }
}
