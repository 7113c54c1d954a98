//! One call of the echo plugin: the bare engine, a cell, both in a fresh store and instance; bytes over the boundary;
//! calls of the host.
//!
//! `cargo bench --package opcell-benches --bench cell`; the component is `example-operations/dist/echo.wasm`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failed test")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use opcell_bench::Guest;
use opcell_sandbox::{CellRequest, CompileMode, Exports, LoadRequest, PluginSource, Sandbox, SandboxConfig};
use std::{collections::BTreeMap, path::Path};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

const ECHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../example-operations/dist/echo.wasm");
const SMALL: &str = r#"{"text":"hello world","numbers":[1,2,3],"flag":true}"#;

fn cells(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bytes = std::fs::read(Path::new(ECHO)).unwrap();
    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
    let source = PluginSource::Bytes(bytes.into());
    let bare = runtime.block_on(sandbox.bare(source.clone())).unwrap();
    let plugin = runtime.block_on(sandbox.load(LoadRequest::new("echo", source))).unwrap();

    let mut group = c.benchmark_group("echo");
    group.bench_function("bare-wasmtime", |b| {
        b.to_async(&runtime).iter(async || bare.call("echo/echo", SMALL).await.unwrap());
    });
    group.bench_function("cell", |b| {
        b.to_async(&runtime).iter(async || plugin.invoke(CellRequest::new("echo/echo", SMALL)).await.result.unwrap());
    });
    group.finish();

    let mut group = c.benchmark_group("boundary");
    for kib in [1_usize, 16, 256, 4_000] {
        let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(kib << 10));
        group.throughput(Throughput::Bytes(arguments.len() as u64));
        group.bench_with_input(BenchmarkId::new("cell", format!("{kib} KiB")), &arguments, |b, arguments| {
            b.to_async(&runtime)
                .iter(async || plugin.invoke(CellRequest::new("echo/echo", arguments)).await.result.unwrap());
        });
    }
    group.finish();
}

/// The same operation over the contract, where both ways are JSON text, and as a function of a component's own types,
/// whose values are made of JSON and made JSON again.
fn typed(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
    let typed = Exports::Typed(BTreeMap::default());
    let mut group = c.benchmark_group("typed");
    for (name, guest, exports) in
        [("contract", Guest::built_in(), Exports::Contract), ("by-its-types", Guest::typed(), typed)]
    {
        let guest = guest.unwrap();
        let mut request = LoadRequest::new("echo", PluginSource::Bytes(guest.component));
        request.exports = exports;
        let plugin = runtime.block_on(sandbox.load(request)).unwrap();
        group.bench_function(name, |b| {
            b.to_async(&runtime)
                .iter(async || plugin.invoke(CellRequest::new("echo/echo", &guest.arguments)).await.result.unwrap());
        });
    }
    group.finish();
}

/// A cell that calls its host a hundred times, and the same one when it does not.
fn host_calls(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
    let source = PluginSource::Bytes(Guest::built_in().unwrap().component);
    let plugin = runtime.block_on(sandbox.load(LoadRequest::new("host-calls", source))).unwrap();
    let mut group = c.benchmark_group("host-calls");
    for (calls, id) in [(0, "echo/echo"), (100, "echo/log")] {
        group.bench_function(BenchmarkId::new("cell", calls), |b| {
            b.to_async(&runtime).iter(async || plugin.invoke(CellRequest::new(id, "{}")).await.result.unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, cells, typed, host_calls);
criterion_main!(benches);
