//! `wasi:keyvalue` for components that were not written for `opcell:plugin`: each bucket is a store of the plugin,
//! under the same grant, quota and record as through `opcell:plugin/store`.

use super::View;
use crate::{
    bindings::opcell::plugin0_2_0::store::{self as own, Host as _, StoreError, Swap},
    budget::Interface,
    recording::taped,
    state::CellState,
    store::LISTED_KEYS,
};
use opcell_types::Capability;
use serde_json::json;
use wasmtime::component::{Linker, Resource};

mod bindings {
    #![allow(missing_docs, clippy::indexing_slicing, reason = "generated from wit-keyvalue/")]

    wasmtime::component::bindgen!({
        path: "wit-keyvalue",
        world: "wasi:keyvalue/keyvalue",
        imports: { default: async | trappable },
        require_store_data_send: true,
        with: {
            "wasi:keyvalue/store.bucket": super::Bucket,
            "wasi:keyvalue/atomics.cas": super::Cas,
        },
    });
}

use bindings::wasi::keyvalue::{atomics, store as wit};
use wit::Error;

/// The interfaces that are served, in the only version that more than one host has.
pub(crate) const SERVED: [&str; 2] = ["wasi:keyvalue/store@0.2.0-draft2", "wasi:keyvalue/atomics@0.2.0-draft2"];

/// The name that most components give their only bucket, and that a component without a manifest requests.
pub(crate) const DEFAULT: &str = "default";

/// The maximum number of tries of `increment` when others write the same key.
const MAX_TRIES: u32 = 64;

/// Links the interfaces; once per engine.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    wit::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))?;
    atomics::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))
}

/// A store that was opened.
pub struct Bucket(String);

/// A key at a version.
pub struct Cas {
    store: String,
    key: String,
    expected: Option<u64>,
}

type Answered<T> = wasmtime::Result<Result<T, Error>>;

fn refused(error: StoreError) -> Error {
    match error {
        StoreError::Denied(_) => Error::AccessDenied,
        StoreError::Invalid(why) | StoreError::Quota(why) | StoreError::Failed(why) => Error::Other(why),
    }
}

impl View<'_> {
    fn bucket(&self, bucket: &Resource<Bucket>) -> wasmtime::Result<String> {
        Ok(self.0.resources.get(bucket)?.0.clone())
    }

    async fn entry(&mut self, store: &str, key: &str) -> Answered<Option<own::Entry>> {
        Ok(self.get(store.to_owned(), key.to_owned()).await?.map_err(refused))
    }

    async fn handle(&mut self, store: String, key: String) -> Answered<Resource<Cas>> {
        let expected = match self.entry(&store, &key).await? {
            Ok(entry) => entry.map(|entry| entry.version),
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(self.0.resources.push(Cas { store, key, expected })?))
    }
}

impl wit::Host for View<'_> {
    async fn open(&mut self, identifier: String) -> Answered<Resource<Bucket>> {
        let granted: wasmtime::Result<bool> = taped!(self, Store, "store.is-granted", json!([identifier]), {
            self.0.budget.charge(Interface::Store, identifier.len())?;
            Ok(self.0.check(Capability::Store, &identifier).is_ok())
        });
        match granted? {
            true => Ok(Ok(self.0.resources.push(Bucket(identifier))?)),
            false => Ok(Err(Error::AccessDenied)),
        }
    }
}

impl wit::HostBucket for View<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Answered<Option<Vec<u8>>> {
        let store = self.bucket(&bucket)?;
        Ok(self.entry(&store, &key).await?.map(|entry| entry.map(|entry| entry.value)))
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Answered<()> {
        let store = self.bucket(&bucket)?;
        Ok(own::Host::set(self, store, key, value).await?.map(drop).map_err(refused))
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Answered<()> {
        let store = self.bucket(&bucket)?;
        Ok(own::Host::delete(self, store, key).await?.map(drop).map_err(refused))
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Answered<bool> {
        let store = self.bucket(&bucket)?;
        Ok(self.entry(&store, &key).await?.map(|entry| entry.is_some()))
    }

    async fn list_keys(&mut self, bucket: Resource<Bucket>, cursor: Option<String>) -> Answered<wit::KeyResponse> {
        let store = self.bucket(&bucket)?;
        let listed = own::Host::list(self, store, String::new(), cursor, LISTED_KEYS).await?;
        Ok(listed.map_err(refused).map(|page| {
            let cursor = page.keys.last().filter(|_| page.more).cloned();
            wit::KeyResponse { keys: page.keys, cursor }
        }))
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.0.resources.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for View<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: i64) -> Answered<i64> {
        let store = self.bucket(&bucket)?;
        for _ in 0..MAX_TRIES {
            let entry = match self.entry(&store, &key).await? {
                Ok(entry) => entry,
                Err(error) => return Ok(Err(error)),
            };
            let expected = entry.as_ref().map(|entry| entry.version);
            let number = match entry {
                Some(entry) => std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse::<i64>().ok()),
                None => Some(0),
            };
            let Some(sum) = number.and_then(|number| number.checked_add(delta)) else {
                let why = "the value is not a whole number in decimal digits, or the sum has more than 64 bits";
                return Ok(Err(Error::Other(why.to_owned())));
            };
            let value = sum.to_string().into_bytes();
            match self.compare_and_set(store.clone(), key.clone(), expected, value).await? {
                Ok(Swap::Stored(_)) => return Ok(Ok(sum)),
                Ok(Swap::Conflict(_)) => {}
                Err(error) => return Ok(Err(refused(error))),
            }
        }
        Ok(Err(Error::Other(format!("others wrote the key {MAX_TRIES} times in between"))))
    }

    async fn swap(&mut self, cas: Resource<Cas>, value: Vec<u8>) -> wasmtime::Result<Result<(), atomics::CasError>> {
        let Cas { store, key, expected } = self.0.resources.delete(cas)?;
        match self.compare_and_set(store.clone(), key.clone(), expected, value).await? {
            Ok(Swap::Stored(_)) => Ok(Ok(())),
            Ok(Swap::Conflict(entry)) => {
                let expected = entry.map(|entry| entry.version);
                let again = self.0.resources.push(Cas { store, key, expected })?;
                Ok(Err(atomics::CasError::CasFailed(again)))
            }
            Err(error) => Ok(Err(atomics::CasError::StoreError(refused(error)))),
        }
    }
}

impl atomics::HostCas for View<'_> {
    async fn new(&mut self, bucket: Resource<Bucket>, key: String) -> Answered<Resource<Cas>> {
        let store = self.bucket(&bucket)?;
        self.handle(store, key).await
    }

    async fn current(&mut self, cas: Resource<Cas>) -> Answered<Option<Vec<u8>>> {
        let Cas { store, key, .. } = self.0.resources.get(&cas)?;
        let (store, key) = (store.clone(), key.clone());
        Ok(match self.entry(&store, &key).await? {
            Ok(entry) => {
                // What is swapped later is what was read here.
                self.0.resources.get_mut(&cas)?.expected = entry.as_ref().map(|entry| entry.version);
                Ok(entry.map(|entry| entry.value))
            }
            Err(error) => Err(error),
        })
    }

    async fn drop(&mut self, cas: Resource<Cas>) -> wasmtime::Result<()> {
        self.0.resources.delete(cas)?;
        Ok(())
    }
}
