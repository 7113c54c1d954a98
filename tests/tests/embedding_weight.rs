//! The weight of hosts and tenants. Alone in its process: other tests reserve address space of their own.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use opcell::{CompileMode, Tenant, prelude::*};
use opcell_cli::selftest::component_from_wat;
use std::time::{Duration, Instant};

fn component() -> Vec<u8> {
    let manifest = r#"{"schema":1,"name":"shop","version":"1.0.0","capabilities":{"tools":[{"name":"shop.price","reason":"to say what a thing costs"}]}}"#;
    component_from_wat(include_str!("embedding/plugin.wat"), None, "operation-plugin", Some(manifest)).unwrap()
}

async fn host(cells: u32) -> Host {
    let price = opcell::tool_fn_with_schema(
        "shop.price",
        "Returns a price.",
        opcell::json!({"type": "object"}),
        async |_: Value, input: ToolInput| Ok(input.context.tenant.map_or(0, |name| name.len())),
    );
    let builder = Host::builder().compile(CompileMode::TrustedInProcess).cells(cells).tool(price);
    builder.plugin(PluginConfig::from_bytes("shop", component())).build().await.unwrap()
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
