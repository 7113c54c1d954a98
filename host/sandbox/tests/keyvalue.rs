//! `wasi:keyvalue` through the eyes of a component that was not written for Opcell.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use async_trait::async_trait;
use common::{config, limits};
use opcell_sandbox::{
    CallContext, CellError, CellRequest, CellResult, Exports, Grants, HostServices, LoadRequest, OperationSuccess,
    Plugin, PluginSource, Sandbox, StoreGrant, Tape,
    store::{StoreAnswer, StoreEntry, StoreError, StoreRequest, Stores},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WIT: &str = "
    package acme:notes@1.0.0;
    world notes {
        import wasi:keyvalue/store@0.2.0-draft2;
        import wasi:keyvalue/atomics@0.2.0-draft2;
        export count: func(key: string) -> result<s64, string>;
        export read: func(key: string) -> result<string, string>;
        export race: func(key: string) -> bool;
        export keys: func() -> u32;
    }
";

/// `count` adds one, `read` gives the bytes, `race` writes between a handle and its swap and then swaps with the new
/// handle, `keys` counts the first page.
const WAT: &str = r#"(module
    (import "wasi:keyvalue/store@0.2.0-draft2" "open" (func $open (param i32 i32 i32)))
    (import "wasi:keyvalue/store@0.2.0-draft2" "[method]bucket.get" (func $get (param i32 i32 i32 i32)))
    (import "wasi:keyvalue/store@0.2.0-draft2" "[method]bucket.set" (func $set (param i32 i32 i32 i32 i32 i32)))
    (import "wasi:keyvalue/store@0.2.0-draft2" "[method]bucket.list-keys" (func $list (param i32 i32 i32 i32 i32)))
    (import "wasi:keyvalue/atomics@0.2.0-draft2" "increment" (func $increment (param i32 i32 i32 i64 i32)))
    (import "wasi:keyvalue/atomics@0.2.0-draft2" "[static]cas.new" (func $cas (param i32 i32 i32 i32)))
    (import "wasi:keyvalue/atomics@0.2.0-draft2" "swap" (func $swap (param i32 i32 i32 i32)))
    (memory (export "memory") 2)
    (global $heap (mut i32) (i32.const 4096))
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
        (local.set $at (global.get $heap))
        (global.set $heap (i32.and (i32.add (i32.add (local.get $at) (local.get 3)) (i32.const 7)) (i32.const -8)))
        (local.get $at))
    (data (i32.const 16) "kept")
    (data (i32.const 32) "denied")
    (data (i32.const 48) "xy")
    (func $bucket (result i32)
        (call $open (i32.const 16) (i32.const 4) (i32.const 512))
        (if (result i32) (i32.load8_u (i32.const 512)) (then (i32.const -1)) (else (i32.load (i32.const 516)))))
    (func (export "count") (param i32 i32) (result i32) (local $b i32)
        (local.set $b (call $bucket))
        (i32.store8 (i32.const 768) (i32.const 1))
        (if (i32.eq (local.get $b) (i32.const -1)) (then
            (i32.store (i32.const 776) (i32.const 32)) (i32.store (i32.const 780) (i32.const 6))
            (return (i32.const 768))))
        (call $increment (local.get $b) (local.get 0) (local.get 1) (i64.const 1) (i32.const 640))
        (if (i32.load8_u (i32.const 640)) (then
            (i32.store (i32.const 776) (i32.load (i32.const 652))) (i32.store (i32.const 780) (i32.load (i32.const 656)))
            (return (i32.const 768))))
        (i32.store8 (i32.const 768) (i32.const 0))
        (i64.store (i32.const 776) (i64.load (i32.const 648)))
        (i32.const 768))
    (func (export "read") (param i32 i32) (result i32)
        (call $get (call $bucket) (local.get 0) (local.get 1) (i32.const 640))
        (i32.store8 (i32.const 768) (i32.or (i32.load8_u (i32.const 640)) (i32.eqz (i32.load8_u (i32.const 644)))))
        (i32.store (i32.const 772) (i32.load (i32.const 648)))
        (i32.store (i32.const 776) (i32.load (i32.const 652)))
        (i32.const 768))
    (func (export "race") (param i32 i32) (result i32) (local $b i32)
        (local.set $b (call $bucket))
        (call $cas (local.get $b) (local.get 0) (local.get 1) (i32.const 640))
        (call $set (local.get $b) (local.get 0) (local.get 1) (i32.const 48) (i32.const 1) (i32.const 704))
        (call $swap (i32.load (i32.const 644)) (i32.const 49) (i32.const 1) (i32.const 720))
        (call $swap (i32.load (i32.const 728)) (i32.const 49) (i32.const 1) (i32.const 744))
        (i32.and (i32.and (i32.load8_u (i32.const 720)) (i32.load8_u (i32.const 724)))
            (i32.eqz (i32.load8_u (i32.const 744)))))
    (func (export "keys") (result i32)
        (call $list (call $bucket) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 640))
        (i32.load (i32.const 648))))"#;

fn component() -> Arc<[u8]> {
    let mut resolve = Resolve::default();
    resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/wit-keyvalue")).unwrap();
    let package = resolve.push_str("notes.wit", WIT).unwrap();
    let world = resolve.select_world(&[package], Some("notes")).unwrap();
    let mut module = wat::parse_str(WAT).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap().into()
}

/// A store in memory.
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
        _grant: &StoreGrant,
        request: StoreRequest,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        assert_eq!(store, "kept");
        let mut entries = self.0.lock().unwrap();
        let next = entries.values().map(|entry| entry.version).max().unwrap_or(0) + 1;
        let found = |entries: &BTreeMap<String, StoreEntry>, key: &str| entries.get(key).cloned();
        let answer = match request {
            StoreRequest::Get { key } => StoreAnswer::Entry(found(&entries, &key)),
            StoreRequest::Set { key, value } => {
                entries.insert(key, StoreEntry { value, version: next });
                StoreAnswer::Stored(next)
            }
            StoreRequest::CompareAndSet { key, expected, value } => {
                let entry = found(&entries, &key);
                if entry.as_ref().map(|entry| entry.version) == expected {
                    entries.insert(key, StoreEntry { value, version: next });
                    StoreAnswer::Stored(next)
                } else {
                    StoreAnswer::Conflict(entry)
                }
            }
            StoreRequest::List { .. } => StoreAnswer::Page { keys: entries.keys().cloned().collect(), more: false },
            StoreRequest::Delete { key } => StoreAnswer::Deleted(entries.remove(&key).is_some()),
        };
        Ok((answer, false))
    }
}

async fn load(granted: bool) -> Arc<Plugin> {
    let mut request = LoadRequest::new("notes", PluginSource::Bytes(component()));
    request.exports = Exports::Typed(BTreeMap::default());
    request.limits = limits("{}");
    if granted {
        request.grants = Grants { stores: [("kept".to_owned(), StoreGrant::default())].into(), ..Grants::default() };
    }
    Sandbox::new(config()).unwrap().load(request).await.unwrap()
}

async fn call(
    plugin: &Plugin,
    kept: &MemoryStores,
    id: &str,
    arguments: Value,
    tape: Tape,
) -> CellResult<OperationSuccess> {
    let arguments = arguments.to_string();
    plugin.invoke(CellRequest { host: Arc::new(kept.clone()), tape, ..CellRequest::new(id, &arguments) }).await
}

#[tokio::test]
async fn a_bucket_is_a_store_of_the_plugin() {
    let (plugin, kept) = (load(true).await, MemoryStores::default());
    let key = json!({"key": "visits"});
    for expected in [1, 2, 3] {
        let done = call(&plugin, &kept, "notes/count", key.clone(), Tape::Off).await;
        assert_eq!(done.result.unwrap().data, json!(expected));
        assert!(done.receipt.host_calls.store > 0, "charged and receipted as every store is");
    }
    assert_eq!(call(&plugin, &kept, "notes/read", key.clone(), Tape::Off).await.result.unwrap().data, json!("3"));
    assert_eq!(call(&plugin, &kept, "notes/keys", json!({}), Tape::Off).await.result.unwrap().data, json!(1));
    let raced = call(&plugin, &kept, "notes/race", json!({"key": "k"}), Tape::Off).await;
    assert_eq!(raced.result.unwrap().data, json!(true));
    assert_eq!(kept.0.lock().unwrap()["k"].value, b"y");
    kept.0.lock().unwrap().get_mut("visits").unwrap().value = b"many".to_vec();
    let failed = call(&plugin, &kept, "notes/count", key, Tape::Off).await.result.unwrap_err();
    assert!(failed.to_string().contains("not a whole number"), "{failed}");
}

#[tokio::test]
async fn without_a_grant_a_bucket_is_refused_and_the_receipt_says_what_would_grant_it() {
    let plugin = load(false).await;
    let done = call(&plugin, &MemoryStores::default(), "notes/count", json!({"key": "visits"}), Tape::Off).await;
    let Err(CellError::PluginFailure(failure)) = done.result else { panic!("{:?}", done.result) };
    assert_eq!(failure.message.as_str(), "denied");
    let denied = &done.receipt.denials[0];
    assert_eq!((denied.capability.as_str(), denied.remedy.plugin()), ("store kept", Some("notes")));
}

#[tokio::test]
async fn what_a_bucket_answered_is_replayed_without_the_host() {
    let (plugin, kept) = (load(true).await, MemoryStores::default());
    let recorded = call(&plugin, &kept, "notes/count", json!({"key": "visits"}), Tape::Record).await;
    let tape = Tape::Replay(Arc::new(*recorded.receipt.recording.unwrap()));
    let nothing = MemoryStores::default();
    // Grants are not asked: what they said is recorded.
    let replayed = call(&*load(false).await, &nothing, "notes/count", json!({"key": "visits"}), tape).await;
    assert_eq!(replayed.result.unwrap().data, json!(1));
    assert!(nothing.0.lock().unwrap().is_empty());
    assert_eq!(replayed.receipt.host_calls.total(), recorded.receipt.host_calls.total());
}
