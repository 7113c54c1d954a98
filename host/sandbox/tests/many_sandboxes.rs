//! Alone in its process, because it takes most of its address space.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a failed test")]

mod common;

use common::config;
use opcell_sandbox::{Sandbox, SandboxConfig};
use std::fs;

/// The address space of a process on x86-64 Linux, in KiB.
const ADDRESS_SPACE_KIB: u64 = 128 << 30;

#[test]
fn pools_leave_room_for_sandboxes_without_pools() {
    let used = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap()
    };
    let mut sandboxes = Vec::new();
    // 64 cells reserve 1.1 TiB: some hundred such sandboxes fit.
    let crowded = loop {
        let sandbox = Sandbox::new(SandboxConfig { cells: 64, ..config() }).unwrap();
        if sandbox.warning().is_some() {
            break sandbox;
        }
        sandboxes.push(sandbox);
        assert!(sandboxes.len() < 200, "the pools of {} sandboxes need no address space", sandboxes.len());
    };
    assert!(sandboxes.len() > 80, "only {} sandboxes have pools", sandboxes.len());
    assert!(crowded.warning().unwrap().contains("other hosts in this process"), "{:?}", crowded.warning());
    let left = ADDRESS_SPACE_KIB - used();
    assert!(left > 12 << 30, "only {left} KiB of address space are left for others");
}
