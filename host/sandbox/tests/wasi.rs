//! Components of ordinary toolchains import WASI 0.2: they get a closed one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::{Guest, config, load, request};
use opcell_sandbox::{
    Access, CellRequest, DangerousPreopen, Grants, LoadRequest, Metering, Plugin, Sandbox, SandboxConfig, Tape,
    receipt::Stream,
};
use opcell_types::{ClockReadings, Timeline};
use serde_json::Value;

/// The part of WASI that the guests below use.
const WASI: &str = r#"
package test:wasi;

world with-wasi {
  include opcell:plugin/operation-plugin@0.1.0;
  import wasi:random/random@0.2.0;
  import wasi:cli/stdout@0.2.0;
  import wasi:cli/exit@0.2.0;
  import wasi:cli/environment@0.2.0;
  import wasi:filesystem/preopens@0.2.0;
}

package wasi:random@0.2.0 {
  interface random { get-random-u64: func() -> u64; get-random-bytes: func(len: u64) -> list<u8>; }
}

package wasi:io@0.2.0 {
  interface error { resource error { } }
  interface streams {
    use error.{error};
    variant stream-error { last-operation-failed(error), closed }
    resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
  }
}

package wasi:cli@0.2.0 {
  interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
  interface exit { exit: func(status: result); }
  interface environment { get-environment: func() -> list<tuple<string, string>>; get-arguments: func() -> list<string>; }
}

package wasi:filesystem@0.2.0 {
  interface types { resource descriptor { } }
  interface preopens { use types.{descriptor}; get-directories: func() -> list<tuple<descriptor, string>>; }
}
"#;

const IMPORTS: &str = r#"
    (import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
    (import "wasi:random/random@0.2.0" "get-random-bytes" (func $random_bytes (param i64 i32)))
    (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
    (import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
    (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
    (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
    (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $preopens (param i32)))
    (data (i32.const 1100) "first\nsecond\n")
    (func $digit (param i32) (result i32)
      (i32.store8 (i32.const 8) (i32.add (local.get 0) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1)))"#;

fn guest(body: &str) -> Guest {
    Guest { wasi: Some(WASI), ..Guest::invoke(body).with(IMPORTS) }
}

async fn data(plugin: &Plugin) -> Value {
    (&plugin.invoke(CellRequest::new("test/run", "{}")).await.result.unwrap().data).into()
}

#[tokio::test]
async fn environment_arguments_and_directories_are_empty() {
    let count = "(call $environment (i32.const 512)) (call $arguments (i32.const 520)) (call $preopens (i32.const 528))
        (call $digit (i32.add (i32.load (i32.const 516)) (i32.add (i32.load (i32.const 524)) (i32.load (i32.const 532)))))";
    let plugin = load(&guest(count)).await.unwrap();
    assert_eq!(data(&plugin).await, 0);
}

#[tokio::test]
async fn a_preopen_is_there_only_when_the_operator_grants_it_explicitly() {
    let count = guest("(call $preopens (i32.const 528)) (call $digit (i32.load (i32.const 532)))");
    assert_eq!(data(&load(&count).await.unwrap()).await, 0);
    let preopen = |host: &str| DangerousPreopen {
        host: host.into(),
        guest: "/work".to_owned(),
        access: Access::Read,
        control_files: false,
    };
    let granting = |host| {
        let grants = Grants { dangerous_preopens: vec![preopen(host)], ..Grants::default() };
        LoadRequest { grants, ..request(&count) }
    };
    assert_eq!(data(&common::sandbox().load(granting("/tmp")).await.unwrap()).await, 1);
    assert_eq!(common::sandbox().load(granting("/does/not/exist")).await.unwrap_err().kind(), "invalid-grant");
}

#[tokio::test]
async fn output_becomes_log_lines() {
    let print =
        "(call $write (call $stdout) (i32.const 1100) (i32.const 13) (i32.const 512)) (call $digit (i32.const 1))";
    let done = load(&guest(print)).await.unwrap().invoke(CellRequest::new("test/run", "{}")).await;
    assert!(done.result.is_ok());
    let lines: Vec<_> = done.receipt.log.lines.iter().map(|line| (line.stream, line.message.as_str())).collect();
    assert_eq!(lines, [(Stream::Stdout, "first"), (Stream::Stdout, "second")]);
    assert!(done.receipt.host_calls.wasi >= 2, "{:?}", done.receipt.host_calls);
}

#[tokio::test]
async fn a_flood_of_wasi_calls_ends_at_the_host_call_limit() {
    let flood = guest("(loop (drop (call $random)) (br 0)) (unreachable)");
    let done = common::run(&flood, r#"{"host-calls":100}"#).await;
    assert_eq!(done.result.unwrap_err().kind(), "host-call-limit");
    let flood = guest(
        "(loop (call $write (call $stdout) (i32.const 1100) (i32.const 13) (i32.const 512)) (br 0)) (unreachable)",
    );
    let done = common::run(&flood, r#"{"host-calls":100}"#).await;
    assert_eq!(done.result.unwrap_err().kind(), "host-call-limit");
    let kept: usize = done.receipt.log.lines.iter().map(|line| line.message.len()).sum();
    assert!(kept <= 64 << 10);
}

#[tokio::test]
async fn too_many_random_bytes_at_once_are_refused() {
    let greedy = guest("(call $random_bytes (i64.const 1000000000) (i32.const 512)) (unreachable)");
    assert!(common::run(&greedy, "{}").await.result.is_err());
}

#[tokio::test]
async fn an_exit_is_a_trap_that_names_the_status() {
    let error = common::run(&guest("(call $exit (i32.const 1)) (unreachable)"), "{}").await.result.unwrap_err();
    assert_eq!(error.to_string(), "the plugin trapped: the plugin exited with status 1");
}

#[tokio::test]
async fn random_numbers_repeat_only_in_a_replay_and_when_the_engine_is_deterministic() {
    let digits = guest(
        "(i64.store (i32.const 8) (i64.or (i64.and (call $random) (i64.const 0x0707070707070707)) (i64.const 0x3030303030303030)))
         (i32.store8 (i32.const 8) (i32.const 49)) (call $ok (i32.const 8) (i32.const 8))",
    );
    let plugin = load(&digits).await.unwrap();
    let mut random = Vec::new();
    for _ in 0..4 {
        random.push(data(&plugin).await);
    }
    random.dedup();
    assert!(random.len() > 1, "{random:?}");
    let taped = async |tape| plugin.invoke(CellRequest { tape, ..CellRequest::new("test/run", "{}") }).await;
    let (one, other) = (taped(Tape::Record).await, taped(Tape::Record).await);
    let recording = one.receipt.recording.unwrap();
    assert!(recording.random_seed != other.receipt.recording.unwrap().random_seed);
    assert_eq!(taped(Tape::Replay((*recording).into())).await.result, one.result);
    let sandbox = Sandbox::new(SandboxConfig { metering: Metering::Deterministic, ..config() }).unwrap();
    let plugin = sandbox.load(request(&digits)).await.unwrap();
    assert_eq!(data(&plugin).await, data(&plugin).await);
}

#[tokio::test]
async fn a_cell_that_is_run_again_has_its_random_numbers() {
    let digits = guest(
        "(i64.store (i32.const 8) (i64.or (i64.and (call $random) (i64.const 0x0707070707070707)) (i64.const 0x3030303030303030)))
         (i32.store8 (i32.const 8) (i32.const 49)) (call $ok (i32.const 8) (i32.const 8))",
    );
    let plugin = load(&digits).await.unwrap();
    let with = async |seed: [u8; 32]| {
        let timeline = Some(Timeline::new(seed, ClockReadings::default()));
        plugin.invoke(CellRequest { timeline, ..CellRequest::new("test/run", "{}") }).await.result.unwrap().data
    };
    assert_eq!(with([1; 32]).await, with([1; 32]).await);
    assert_ne!(with([1; 32]).await, with([2; 32]).await);
}
