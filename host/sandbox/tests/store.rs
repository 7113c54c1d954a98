//! Stores through a guest's eyes: what a grant gives, what it does not, and what is too much.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use async_trait::async_trait;
use common::{Guest, limits, request, sandbox};
use opcell_sandbox::{
    CallContext, CellError, CellRequest, CellResult, Grants, HostServices, LoadRequest, Narrowing, OperationSuccess,
    Plugin, Remedy, StoreGrant, Tape,
    store::{KEY_BYTES, StoreAnswer, StoreEntry, StoreError, StoreRequest, Stores, VALUE_BYTES},
};
use opcell_types::{Capability, touched::StoreAction};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// Its argument is a JSON string such as `"ga"`: `g` gets the key, `s` sets it to `[1]`, `c` sets it to `[2]` if it has
/// no entry, `d` deletes it, `l` counts the listed keys, `f` sets it over and over; `k` and `v` set a key and a value
/// that are too long. Data is the value, a number, or the text `"E"` with the number of the case of `store-error`.
fn guest() -> Guest {
    let imports = r#"
    (import "opcell:plugin/store@0.2.0" "get" (func $get (param i32 i32 i32 i32 i32)))
    (import "opcell:plugin/store@0.2.0" "set" (func $set (param i32 i32 i32 i32 i32 i32 i32)))
    (import "opcell:plugin/store@0.2.0" "compare-and-set"
      (func $swap (param i32 i32 i32 i32 i32 i64 i32 i32 i32)))
    (import "opcell:plugin/store@0.2.0" "list" (func $list (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "opcell:plugin/store@0.2.0" "delete" (func $delete (param i32 i32 i32 i32 i32)))
    (data (i32.const 1100) "kept")
    (data (i32.const 1110) "[1][2]null")
    (data (i32.const 1130) "\"E0\"")
    (func $digit (param i32) (result i32)
      (i32.store8 (i32.const 8) (i32.add (local.get 0) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1)))
    (func $is (param $args i32) (param $letter i32) (result i32)
      (i32.eq (i32.load8_u offset=1 (local.get $args)) (local.get $letter)))"#;
    // Of the result at 512; its error stands at `$at`.
    let answer = |at: u32| {
        format!(
            "(if (i32.load8_u (i32.const 512)) (then
              (i32.store8 (i32.const 1132) (i32.add (i32.load8_u (i32.const {at})) (i32.const 48)))
              (return (call $ok (i32.const 1130) (i32.const 4)))))"
        )
    };
    let (wide, narrow) = (answer(520), answer(516));
    let key = "(i32.add (local.get $args) (i32.const 2)) (i32.sub (local.get $args_len) (i32.const 3))";
    let body = format!(
        r#"(if (call $is (local.get $args) (i32.const 103)) (then
          (call $get (i32.const 1100) (i32.const 4) {key} (i32.const 512)) {wide}
          (if (i32.load8_u (i32.const 520)) (then
            (return (call $ok (i32.load (i32.const 528)) (i32.load (i32.const 532))))))
          (return (call $ok (i32.const 1116) (i32.const 4)))))
        (if (call $is (local.get $args) (i32.const 115)) (then
          (call $set (i32.const 1100) (i32.const 4) {key} (i32.const 1110) (i32.const 3) (i32.const 512)) {wide}
          (return (call $digit (i32.wrap_i64 (i64.load (i32.const 520)))))))
        (if (call $is (local.get $args) (i32.const 99)) (then
          (call $swap (i32.const 1100) (i32.const 4) {key} (i32.const 0) (i64.const 0) (i32.const 1113) (i32.const 3)
            (i32.const 512)) {wide}
          (return (call $digit (i32.load8_u (i32.const 520))))))
        (if (call $is (local.get $args) (i32.const 100)) (then
          (call $delete (i32.const 1100) (i32.const 4) {key} (i32.const 512)) {narrow}
          (return (call $digit (i32.load8_u (i32.const 516))))))
        (if (call $is (local.get $args) (i32.const 108)) (then
          (call $list (i32.const 1100) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const -1) (i32.const 512)) {narrow}
          (return (call $digit (i32.load (i32.const 520))))))
        (if (call $is (local.get $args) (i32.const 102)) (then (loop
          (call $set (i32.const 1100) (i32.const 4) {key} (i32.const 1110) (i32.const 3) (i32.const 512)) {wide}
          (br 0))))
        (if (call $is (local.get $args) (i32.const 107)) (then
          (call $set (i32.const 1100) (i32.const 4) (i32.const 66000) (i32.const {long_key}) (i32.const 1110) (i32.const 3)
            (i32.const 512)) {wide}))
        (call $set (i32.const 1100) (i32.const 4) {key} (i32.const 66000) (i32.const {long_value}) (i32.const 512)) {wide}
        (call $digit (i32.const 9))"#,
        long_key = KEY_BYTES + 1,
        long_value = VALUE_BYTES + 1,
    );
    let manifest = r#"{"schema":1,"name":"guest","version":"1.0.0","capabilities":{"stores":[{"name":"kept","reason":"a test"}]}}"#;
    Guest { pages: 8, manifest: Some(manifest.to_owned()), ..Guest::invoke(&body).with(imports) }
}

/// Keeps entries in memory, whoever asks.
#[derive(Default, Clone)]
struct MemoryStores(Arc<Mutex<BTreeMap<String, StoreEntry>>>);

impl HostServices for MemoryStores {
    fn stores(&self, _context: &CallContext) -> Option<Box<dyn Stores>> {
        Some(Box::new(self.clone()))
    }
}

#[async_trait]
impl Stores for MemoryStores {
    async fn ask(
        &mut self,
        store: &str,
        grant: &StoreGrant,
        request: StoreRequest,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        assert_eq!(store, "kept");
        let mut entries = self.0.lock().unwrap();
        let mut write = |key: String, value: Vec<u8>| {
            if entries.len() as u64 >= grant.entries && !entries.contains_key(&key) {
                return Err(StoreError::Quota("full".to_owned()));
            }
            let version = entries.values().map(|entry| entry.version).max().unwrap_or(0) + 1;
            entries.insert(key, StoreEntry { value, version });
            Ok(StoreAnswer::Stored(version))
        };
        let answer = match request {
            StoreRequest::Get { key } => StoreAnswer::Entry(entries.get(&key).cloned()),
            StoreRequest::Set { key, value } => write(key, value)?,
            StoreRequest::CompareAndSet { key, expected: None, value } if !entries.contains_key(&key) => {
                entries.insert(key, StoreEntry { value, version: 7 });
                StoreAnswer::Stored(7)
            }
            StoreRequest::CompareAndSet { key, .. } => StoreAnswer::Conflict(entries.get(&key).cloned()),
            StoreRequest::List { limit, .. } => {
                assert_eq!(limit, 1_000, "the host bounds what a guest asks for");
                StoreAnswer::Page { keys: entries.keys().cloned().collect(), more: false }
            }
            StoreRequest::Delete { key } => StoreAnswer::Deleted(entries.remove(&key).is_some()),
        };
        Ok((answer, false))
    }
}

async fn load(grant: Option<StoreGrant>) -> Arc<Plugin> {
    let mut grants = Grants::default();
    grants.stores.extend(grant.map(|grant| ("kept".to_owned(), grant)));
    let request = LoadRequest { grants, ..request(&guest()) };
    sandbox().load(request).await.unwrap()
}

async fn call(plugin: &Plugin, host: &MemoryStores, what: &str) -> CellResult<OperationSuccess> {
    let arguments = format!("\"{what}\"");
    plugin.invoke(CellRequest { host: Arc::new(host.clone()), ..CellRequest::new("test/run", &arguments) }).await
}

async fn data(plugin: &Plugin, host: &MemoryStores, what: &str) -> Value {
    (&call(plugin, host, what).await.result.unwrap().data).into()
}

/// The cases of `store-error`.
const DENIED: &str = "E0";
const INVALID: &str = "E1";
const QUOTA: &str = "E2";
const FAILED: &str = "E3";

#[tokio::test]
async fn what_one_call_writes_another_reads_and_receipts_say_so() {
    let (plugin, host) = (load(Some(StoreGrant::default())).await, MemoryStores::default());
    assert_eq!(data(&plugin, &host, "ga").await, Value::Null);
    let written = call(&plugin, &host, "sa").await;
    assert_eq!(written.result.unwrap().data, json!(1));
    assert_eq!(written.receipt.host_calls.store, 1);
    let touched = &written.receipt.touched.stores[0];
    assert_eq!((touched.key.as_str(), touched.version), ("kept/a", Some(1)));
    assert_eq!(touched.actions, [StoreAction::Set]);
    assert_eq!(data(&plugin, &host, "ga").await, serde_json::json!([1]));
    assert_eq!(data(&plugin, &host, "ca").await, 1, "a conflict");
    assert_eq!(data(&plugin, &host, "cb").await, 0, "stored");
    assert_eq!(data(&plugin, &host, "l").await, 2);
    assert_eq!(data(&plugin, &host, "db").await, 1);
    assert_eq!(data(&plugin, &host, "db").await, 0);
}

#[tokio::test]
async fn without_a_grant_it_is_denied_and_the_receipt_says_what_would_grant_it() {
    let (plugin, host) = (load(None).await, MemoryStores::default());
    for what in ["ga", "sa", "ca", "da", "l"] {
        let done = call(&plugin, &host, what).await;
        assert_eq!(done.result.unwrap().data, json!(DENIED), "{what}");
        let denial = &done.receipt.denials[0];
        let (plugin, name) = ("guest".into(), "kept".to_owned());
        assert_eq!(denial.capability, "store kept");
        assert_eq!(denial.remedy, Remedy::Grant { plugin, capability: Capability::Store, name, access: None });
        assert!(done.receipt.touched.stores.is_empty());
    }
    assert!(host.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_step_takes_a_store_away() {
    let (plugin, host) = (load(Some(StoreGrant::default())).await, MemoryStores::default());
    let request = CellRequest {
        host: Arc::new(host),
        narrowing: Some(Narrowing::to_nothing()),
        ..CellRequest::new("test/run", "\"ga\"")
    };
    let done = plugin.invoke(request).await;
    assert_eq!(done.result.unwrap().data, json!(DENIED));
    assert!(done.receipt.denials[0].rule.contains("narrows `capabilities.stores`"));
}

#[tokio::test]
async fn keys_and_values_are_bounded_before_the_host_sees_them() {
    let (plugin, host) = (load(Some(StoreGrant::default())).await, MemoryStores::default());
    for what in ["k", "va", "g", "s"] {
        assert_eq!(data(&plugin, &host, what).await, INVALID, "{what}");
    }
    assert!(host.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_full_store_is_an_error_of_its_own() {
    let (plugin, host) =
        (load(Some(StoreGrant { entries: 1, ..StoreGrant::default() })).await, MemoryStores::default());
    assert_eq!(data(&plugin, &host, "sa").await, 1);
    assert_eq!(data(&plugin, &host, "sb").await, QUOTA);
}

#[tokio::test]
async fn a_host_without_stores_says_so() {
    let plugin = load(Some(StoreGrant::default())).await;
    let done = plugin.invoke(CellRequest::new("test/run", "\"ga\"")).await;
    assert_eq!(done.result.unwrap().data, json!(FAILED));
}

#[tokio::test]
async fn a_guest_that_floods_its_store_ends_at_its_host_calls() {
    let mut grants = Grants::default();
    grants.stores.insert("kept".to_owned(), StoreGrant::default());
    let request = LoadRequest { grants, limits: limits(r#"{"host-calls":50}"#), ..request(&guest()) };
    let (plugin, host) = (sandbox().load(request).await.unwrap(), MemoryStores::default());
    let done = call(&plugin, &host, "fa").await;
    assert_eq!(done.result.unwrap_err().kind(), "host-call-limit");
    assert_eq!(host.0.lock().unwrap().values().next().unwrap().version, 50);
}

#[tokio::test]
async fn a_replay_is_answered_as_the_store_was_and_writes_nothing() {
    let granted = load(Some(StoreGrant::default())).await;
    let host = MemoryStores::default();
    let call = |plugin: Arc<Plugin>, what: &'static str, tape: Tape| {
        let host = Arc::new(host.clone());
        let arguments = format!("\"{what}\"");
        async move { plugin.invoke(CellRequest { host, tape, ..CellRequest::new("test/run", &arguments) }).await }
    };
    let data = |done: &CellResult<OperationSuccess>| done.result.as_ref().unwrap().data.clone();
    let mut recorded = Vec::new();
    for what in ["sa", "ga", "ca", "l", "da", "ga"] {
        let done = call(granted.clone(), what, Tape::Record).await;
        let text = serde_json::to_string(done.receipt.recording.as_ref().unwrap()).unwrap();
        recorded.push((what, data(&done), Arc::new(serde_json::from_str(&text).unwrap())));
    }
    assert!(host.0.lock().unwrap().is_empty(), "the last write deleted what there was");
    let ungranted = load(None).await;
    for (what, data_then, recording) in recorded {
        let done = call(ungranted.clone(), what, Tape::Replay(recording)).await;
        assert_eq!(data(&done), data_then, "{what}");
    }
    assert!(host.0.lock().unwrap().is_empty(), "a replay writes nothing");
    let other = call(ungranted, "sb", Tape::Replay(Arc::default())).await;
    assert!(matches!(other.result, Err(CellError::NotRecorded(_))), "{other:?}");
}
