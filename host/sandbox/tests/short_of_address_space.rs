//! Alone in its process, because it limits that process.

#![allow(clippy::unwrap_used, reason = "a failed test")]

mod common;

use common::{Guest, config, request};
use opcell_sandbox::{CellRequest, CompileLimits, Sandbox, SandboxConfig};
use rustix::process::{Resource, Rlimit, setrlimit};

#[tokio::test]
async fn where_the_pools_do_not_fit_cells_are_allocated_on_demand_and_a_warning_says_so() {
    let limit = Some(24 << 30);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    // The compiling child asks for more than it can have, and makes do with what this process has.
    let compile_limits = CompileLimits { address_space: u64::MAX, ..CompileLimits::default() };
    let sandbox = Sandbox::new(SandboxConfig { cells: 64, compile_limits, ..config() }).unwrap();
    assert!(sandbox.warning().unwrap().contains("not enough address space"), "{:?}", sandbox.warning());
    let plugin = sandbox.load(request(&Guest::default())).await.unwrap();
    assert_eq!(plugin.pool(), "on-demand");
    assert!(plugin.invoke(CellRequest::new("test/run", "1")).await.result.is_ok());
}
