//! The programs that runtimes keep: the same text finds one, and nothing else does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::{Guest, LOG, config, request};
use opcell_sandbox::{
    CallContext, CellRequest, ContextRequest, LoadRequest, Metering, Plugin, PluginContext, Sandbox, SandboxConfig,
    Tape,
};
use opcell_types::Value;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const WORLD: &str = r#"
package test:programs;

world with-wasi {
  include opcell:plugin/operation-plugin@0.1.0;
  import opcell:plugin/log@0.1.0;
  import opcell:programs/kept@0.1.0;
}

package opcell:programs@0.1.0 {
  interface kept {
    find: func() -> option<list<u8>>;
    keep: func(bytes: list<u8>);
  }
}
"#;

const IMPORTS: &str = r#"
    (import "opcell:programs/kept@0.1.0" "find" (func $find (param i32)))
    (import "opcell:programs/kept@0.1.0" "keep" (func $keep (param i32 i32)))
    (data (i32.const 1100) "\"none\"") (data (i32.const 1110) "\"kept\"") (data (i32.const 1120) "\"other\"")"#;

/// A runtime that keeps its arguments where nothing is kept, between what comes `before` and `after`, and else gives what
/// is kept.
fn runtime(before: &str, after: &str) -> Guest {
    let body = format!(
        "(call $find (i32.const 512))
         (if (result i32) (i32.eqz (i32.load8_u (i32.const 512)))
           (then (call $ok (i32.const 1100) (i32.const 6)))
           (else (if (result i32) (i32.eqz (i32.load (i32.const 520)))
             (then {before} (call $keep (local.get $args) (local.get $args_len)) {after}
               (call $ok (i32.const 1110) (i32.const 6)))
             (else (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520)))))))"
    );
    Guest { wasi: Some(WORLD), pages: 8, ..Guest::invoke(&body).with(LOG).with(IMPORTS) }
}

fn honest() -> Guest {
    runtime("", "")
}

async fn loaded(sandbox: &Sandbox, guest: &Guest) -> Arc<Plugin> {
    sandbox.load(LoadRequest { keeps_programs: true, ..request(guest) }).await.unwrap()
}

/// Runs a program: `nth` tells calls with the same text apart.
async fn run(plugin: &Plugin, text: &str, nth: u32, change: impl FnOnce(&mut CellRequest<'_>)) -> Json {
    let arguments = Value::from(json!({"source": text, "nth": nth}));
    let json = arguments.to_json();
    let mut request = CellRequest { value: Some(&arguments), ..CellRequest::new("test/run", &json) };
    change(&mut request);
    plugin.invoke(request).await.result.unwrap().data.into()
}

fn same(_: &mut CellRequest<'_>) {}

fn called(text: &str, nth: u32) -> Json {
    json!({"source": text, "nth": nth})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_cell_with_the_same_text_finds_what_the_first_one_left() {
    let sandbox = Sandbox::new(config()).unwrap();
    let plugin = loaded(&sandbox, &honest()).await;
    assert_eq!(run(&plugin, "a", 1, same).await, json!("kept"));
    assert_eq!(run(&plugin, "a", 2, same).await, called("a", 1));
    assert_eq!(run(&plugin, "b", 3, same).await, json!("kept"));
    assert_eq!(run(&plugin, "a", 4, same).await, called("a", 1));
}

/// Whatever decides on whose behalf a program runs decides which cells may have made its code.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_users_contexts_and_plugins_share_nothing() {
    let sandbox = Sandbox::new(config()).unwrap();
    let plugin = loaded(&sandbox, &honest()).await;
    let context = || -> Arc<PluginContext> { Arc::new(sandbox.context(&plugin, ContextRequest::default()).unwrap()) };
    let contexts = [context(), context()];
    let tenant = |name: &str| CallContext { tenant: Some(name.into()), ..CallContext::default() };
    let user = |name: &str| CallContext { user: Some(name.into()), ..CallContext::default() };
    type Change<'a> = Box<dyn Fn(&mut CellRequest<'_>) + 'a>;
    let others: [Change<'_>; 7] = [
        Box::new(|_| {}),
        Box::new(|request| request.context = tenant("ab")),
        Box::new(|request| request.context = tenant("a")),
        Box::new(|request| request.context = user("ab")),
        Box::new(|request| request.context = CallContext { user: Some("b".into()), ..tenant("a") }),
        Box::new(|request| request.within = Some(contexts[0].clone())),
        Box::new(|request| request.within = Some(contexts[1].clone())),
    ];
    for (nth, other) in (0..).zip(&others) {
        assert_eq!(run(&plugin, "text", nth, other).await, json!("kept"), "{nth}");
    }
    for (nth, other) in (0..).zip(&others) {
        assert_eq!(run(&plugin, "text", 100, other).await, called("text", nth), "{nth}");
    }
    let again = loaded(&sandbox, &honest()).await;
    assert_eq!(run(&again, "text", 1, same).await, json!("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_or_recorded_or_no_runtime_keeps_nothing() {
    let sandbox = Sandbox::new(config()).unwrap();
    let plugin = loaded(&sandbox, &honest()).await;
    assert_eq!(run(&plugin, "text", 1, same).await, json!("kept"));
    let recorded = run(&plugin, "text", 2, |request| request.tape = Tape::Record).await;
    assert_eq!(recorded, json!("none"), "a replay compiles as the call did that it repeats");
    let long = "x".repeat(65 << 10);
    assert_eq!(run(&plugin, &long, 3, same).await, json!("none"));

    let other = sandbox.load(request(&honest())).await.unwrap();
    for nth in 1..3 {
        assert_eq!(run(&other, "text", nth, same).await, json!("none"), "to any other plugin it would be a store");
    }
    let counting = Sandbox::new(SandboxConfig { metering: Metering::Deterministic, ..config() }).unwrap();
    let plugin = loaded(&counting, &honest()).await;
    for nth in 1..3 {
        assert_eq!(run(&plugin, "text", nth, same).await, json!("none"), "fuel is the same each time");
    }
}

/// A program that has taken over its cell has run by then: it has called something of the host, or the runtime has left
/// the code before it ran it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_leaves_code_once_and_before_anything_of_the_program_runs() {
    let sandbox = Sandbox::new(config()).unwrap();
    let log = "(call $log (i32.const 2) (i32.const 1100) (i32.const 4))";
    let late = loaded(&sandbox, &runtime(log, "")).await;
    for nth in 1..3 {
        assert_eq!(run(&late, "text", nth, same).await, json!("kept"), "{nth}: it has called the host");
    }
    let twice = loaded(&sandbox, &runtime("", "(call $keep (i32.const 1120) (i32.const 7))")).await;
    assert_eq!(run(&twice, "text", 1, same).await, json!("kept"));
    assert_eq!(run(&twice, "text", 2, same).await, called("text", 1));

    // Without having asked, or with nothing, or with too much.
    let body = "(call $keep (i32.const 1120) (i32.const 7)) (call $find (i32.const 512))
        (if (result i32) (i32.load (i32.const 520))
          (then (call $ok (i32.load (i32.const 516)) (i32.load (i32.const 520))))
          (else (call $keep (i32.const 0) (i32.const SIZE)) (call $ok (i32.const 1110) (i32.const 6))))";
    for size in ["0", "262145"] {
        let guest = Guest::invoke(&body.replace("SIZE", size)).with(LOG).with(IMPORTS);
        let plugin = loaded(&sandbox, &Guest { wasi: Some(WORLD), pages: 8, ..guest }).await;
        for nth in 1..3 {
            assert_eq!(run(&plugin, "text", nth, same).await, json!("kept"), "{size}");
        }
    }
}
