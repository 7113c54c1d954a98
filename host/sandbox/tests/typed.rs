//! Components that were not written for `opcell:plugin`: their functions are operations by their types.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a guest that cannot be built is a failed test")]

mod common;

use common::{config, limits};
use opcell_sandbox::{
    CellError, CellRequest, CellResult, Effects, Exports, LoadError, LoadRequest, OperationSuccess, Plugin,
    PluginSource, Sandbox,
};
use serde_json::{Value, json};
use std::sync::Arc;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WIT: &str = "
    package acme:kit@1.0.0;
    interface math {
        add: func(a: u64, b: u64) -> u64;
        divide: func(a: u32, b: u32) -> result<u32, string>;
        many: func(n: u32) -> list<list<u8>>;
        spin: func();
    }
    interface things {
        resource thing { constructor(); }
        make: func() -> thing;
    }
    world kit { export math; export things; export ping: func() -> bool; }
    world only-things { export things; }
";

const WAT: &str = r#"(module
    (memory (export "memory") 140)
    (data (i32.const 16) "divided by zero")
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536))
    (func (export "acme:kit/math@1.0.0#add") (param i64 i64) (result i64) (i64.add (local.get 0) (local.get 1)))
    (func (export "acme:kit/math@1.0.0#divide") (param i32 i32) (result i32)
        (if (result i32) (i32.eqz (local.get 1))
            (then (i32.store8 (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 16))
                  (i32.store (i32.const 72) (i32.const 15)) (i32.const 64))
            (else (i32.store8 (i32.const 64) (i32.const 0))
                  (i32.store (i32.const 68) (i32.div_u (local.get 0) (local.get 1))) (i32.const 64))))
    (func (export "acme:kit/math@1.0.0#many") (param i32) (result i32)
        (i32.store (i32.const 96) (i32.const 65536)) (i32.store (i32.const 100) (local.get 0)) (i32.const 96))
    (func (export "acme:kit/math@1.0.0#spin") (loop $l (br $l)))
    (func (export "acme:kit/things@1.0.0#[constructor]thing") (result i32) (i32.const 0))
    (func (export "acme:kit/things@1.0.0#make") (result i32) (i32.const 0))
    (func (export "ping") (result i32) (i32.const 1)))"#;

fn component(world: &str) -> Arc<[u8]> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("kit.wit", WIT).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(WAT).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap().into()
}

async fn load(world: &str, effects: &[(&str, Effects)], limit: &str) -> Result<Arc<Plugin>, LoadError> {
    let mut request = LoadRequest::new("kit", PluginSource::Bytes(component(world)));
    request.exports = Exports::Typed(effects.iter().map(|(id, effects)| ((*id).to_owned(), *effects)).collect());
    request.limits = limits(limit);
    Sandbox::new(config()).unwrap().load(request).await
}

async fn call(plugin: &Plugin, id: &str, arguments: Value) -> CellResult<OperationSuccess> {
    plugin.invoke(CellRequest::new(id, &arguments.to_string())).await
}

#[tokio::test]
async fn every_function_of_plain_values_is_an_operation_with_the_effects_that_the_operator_names() {
    let plugin = load("kit", &[("math/add", Effects::Pure)], "{}").await.unwrap();
    let ids: Vec<&str> = plugin.operations().iter().map(|operation| &*operation.id).collect();
    // What takes or returns a resource is not among them.
    assert_eq!(ids, ["kit/ping", "math/add", "math/divide", "math/many", "math/spin"]);
    assert_eq!(plugin.effects("math/add"), Some(Effects::Pure));
    assert_eq!(plugin.effects("math/divide"), Some(Effects::Once));
    let add = &plugin.operations()[1];
    assert_eq!(add.arguments_schema["required"], json!(["a", "b"]));
    assert_eq!(add.arguments_schema["properties"]["a"]["type"], json!(["integer", "string"]));
}

#[tokio::test]
async fn a_call_gives_data_or_the_failure_that_the_function_returned() {
    let plugin = load("kit", &[], "{}").await.unwrap();
    let done = call(&plugin, "math/divide", json!({"a": 12, "b": 4})).await;
    assert_eq!(done.result.unwrap().data, json!(3));
    assert_eq!(call(&plugin, "kit/ping", json!({})).await.result.unwrap().data, json!(true));
    let failed = call(&plugin, "math/divide", json!({"a": 12, "b": 0})).await;
    let Err(CellError::PluginFailure(failure)) = failed.result else { panic!("{:?}", failed.result) };
    assert_eq!((failure.reason.as_ref(), failure.message.as_ref()), ("failed", "divided by zero"));
    assert!(failed.receipt.peak_memory > 0, "a receipt as of every cell");
}

#[tokio::test]
async fn integers_of_64_bits_lose_nothing_on_the_way() {
    let plugin = load("kit", &[], "{}").await.unwrap();
    let sum = async |a: Value, b: Value| call(&plugin, "math/add", json!({"a": a, "b": b})).await.result.unwrap().data;
    assert_eq!(sum(json!(1), json!(2)).await, json!(3));
    // Beyond 2^53 - 1 a reader of JSON may round, so it is text.
    assert_eq!(sum(json!("9007199254740992"), json!(1)).await, json!("9007199254740993"));
    assert_eq!(sum(json!(u64::MAX - 1), json!(1)).await, json!("18446744073709551615"));
    for wrong in [json!("18446744073709551616"), json!("-1"), json!("one"), json!(1.5)] {
        let error = call(&plugin, "math/add", json!({"a": wrong, "b": 0})).await.result.unwrap_err();
        let text = error.to_string();
        assert!(error.kind() == "invalid-arguments" || text.contains("expected a u64"), "{wrong}: {error}");
    }
}

#[tokio::test]
async fn limits_hold_as_for_every_plugin() {
    let plugin = load("kit", &[], r#"{"ticks": 5}"#).await.unwrap();
    let error = call(&plugin, "math/spin", json!({})).await.result.unwrap_err();
    assert_eq!(error.kind(), "interrupted", "{error}");
}

#[tokio::test]
async fn a_million_lists_end_in_a_typed_error() {
    let plugin = load("kit", &[], "{}").await.unwrap();
    let few = call(&plugin, "math/many", json!({"n": 3})).await.result.unwrap();
    assert_eq!(few.data, json!([[], [], []]));
    let error = call(&plugin, "math/many", json!({"n": 1_000_000})).await.result.unwrap_err();
    assert_eq!(error.kind(), "transfer-limit", "{error}");
}

#[tokio::test]
async fn resources_are_refused_by_name() {
    let error = load("only-things", &[], "{}").await.unwrap_err();
    assert_eq!(error.kind(), "wrong-world");
    let text = error.to_string();
    assert!(text.contains("`acme:kit/things@1.0.0/make`: it takes or returns a resource"), "{text}");
}

#[tokio::test]
async fn effects_of_an_operation_that_there_is_not_are_an_error() {
    let error = load("kit", &[("math/subtract", Effects::Pure)], "{}").await.unwrap_err().to_string();
    assert!(error.contains("`effects` names `math/subtract`; its operations are: kit/ping, math/add"), "{error}");
}

/// A component that exports these instances, each with functions of these names that return `true`.
fn of_instances(instances: &[&str], functions: &[String]) -> Arc<[u8]> {
    let members: String = functions.iter().map(|name| format!(r#" (export "{name}" (func $f))"#)).collect();
    let exports: String = instances.iter().map(|name| format!(r#" (export "{name}" (instance $a))"#)).collect();
    let wat = format!(
        r#"(component
            (core module $m (func (export "f") (result i32) (i32.const 1)))
            (core instance $i (instantiate $m))
            (func $f (result bool) (canon lift (core func $i "f")))
            (instance $a{members}){exports})"#
    );
    wat::parse_str(wat).unwrap().into()
}

async fn load_bytes(bytes: Arc<[u8]>) -> Result<Arc<Plugin>, LoadError> {
    let mut request = LoadRequest::new("kit", PluginSource::Bytes(bytes));
    request.exports = Exports::Typed(std::collections::BTreeMap::new());
    Sandbox::new(config()).unwrap().load(request).await
}

#[tokio::test]
async fn interfaces_of_one_name_and_versions_of_one_interface_are_told_apart() {
    let names = ["ping".to_owned()];
    let ids = async |instances: &[&str]| {
        let plugin = load_bytes(of_instances(instances, &names)).await.unwrap();
        let mut ids: Vec<String> = plugin.operations().iter().map(|operation| operation.id.to_string()).collect();
        ids.sort();
        for id in &ids {
            assert_eq!(call(&plugin, id, json!({})).await.result.unwrap().data, json!(true), "{id}");
        }
        ids
    };
    assert_eq!(ids(&["acme:kit/math@1.0.0"]).await, ["math/ping"]);
    assert_eq!(ids(&["acme:kit/math@1.0.0", "acme:kit/math@2.0.0"]).await, ["math-1-0-0/ping", "math-2-0-0/ping"]);
    assert_eq!(ids(&["acme:kit/math@1.0.0", "other:kit/math"]).await, ["acme-kit-math/ping", "other-kit-math/ping"]);
    let both = ["acme:kit/math@1.0.0", "acme:kit/math@2.0.0", "other:kit/math"];
    assert_eq!(ids(&both).await, ["acme-kit-math-1-0-0/ping", "acme-kit-math-2-0-0/ping", "other-kit-math/ping"]);
}

#[tokio::test]
async fn more_functions_than_people_describe_are_offered_and_too_many_are_refused() {
    let functions = |count: usize| -> Vec<String> { (0..count).map(|at| format!("f{at}")).collect() };
    let plugin = load_bytes(of_instances(&["acme:kit/math@1.0.0"], &functions(1_000))).await.unwrap();
    assert_eq!(plugin.operations().len(), 1_000);
    assert_eq!(call(&plugin, "math/f999", json!({})).await.result.unwrap().data, json!(true));
    let error = load_bytes(of_instances(&["acme:kit/math@1.0.0"], &functions(20_000))).await.unwrap_err().to_string();
    assert!(error.contains("more than 1024 functions"), "{error}");
}

#[tokio::test]
async fn arguments_that_no_value_can_be_made_of_are_the_fault_of_the_caller() {
    let plugin = load("kit", &[], "{}").await.unwrap();
    let sum = call(&plugin, "math/divide", json!({"a": 10.0, "b": 5e0})).await.result.unwrap();
    assert_eq!(sum.data, json!(2));
    for arguments in [json!({"a": "five", "b": 1}), json!({"a": 1e30, "b": 1})] {
        let error = call(&plugin, "math/add", arguments).await.result.unwrap_err();
        assert!(matches!(error, CellError::InvalidArguments { .. }), "{error}");
    }
}
