//! `store`: what the plugin keeps from one call to the next.

use super::View;
use crate::{
    bindings::opcell::plugin0_2_0::store as wit,
    budget::Interface,
    recording::{bytes_to_json, taped},
    store::{KEY_BYTES, LISTED_KEYS, StoreAnswer, StoreEntry, StoreError, StoreRequest, VALUE_BYTES},
};
use opcell_types::{Capability, touched::StoreAction};
use serde_json::json;
use std::{sync::Arc, time::Duration};

type Answered<T> = wasmtime::Result<Result<T, wit::StoreError>>;

impl wit::Host for View<'_> {
    async fn get(&mut self, store: String, key: String) -> Answered<Option<wit::Entry>> {
        taped!(self, Store, "store.get", json!([store, key]), {
            let own = |answer| match answer {
                StoreAnswer::Entry(entry) => Some(entry.map(Into::into)),
                _ => None,
            };
            self.asked(store, StoreRequest::Get { key }, own).await
        })
    }

    async fn set(&mut self, store: String, key: String, value: Vec<u8>) -> Answered<u64> {
        taped!(self, Store, "store.set", json!([store, key, bytes_to_json(&value)]), {
            let own = |answer| match answer {
                StoreAnswer::Stored(version) => Some(version),
                _ => None,
            };
            self.asked(store, StoreRequest::Set { key, value }, own).await
        })
    }

    async fn compare_and_set(
        &mut self,
        store: String,
        key: String,
        expected: Option<u64>,
        value: Vec<u8>,
    ) -> Answered<wit::Swap> {
        taped!(self, Store, "store.compare-and-set", json!([store, key, expected, bytes_to_json(&value)]), {
            let own = |answer| match answer {
                StoreAnswer::Stored(version) => Some(wit::Swap::Stored(version)),
                StoreAnswer::Conflict(entry) => Some(wit::Swap::Conflict(entry.map(Into::into))),
                _ => None,
            };
            self.asked(store, StoreRequest::CompareAndSet { key, expected, value }, own).await
        })
    }

    async fn list(&mut self, store: String, prefix: String, after: Option<String>, limit: u32) -> Answered<wit::Page> {
        taped!(self, Store, "store.list", json!([store, prefix, after, limit]), {
            let own = |answer| match answer {
                StoreAnswer::Page { keys, more } => Some(wit::Page { keys, more }),
                _ => None,
            };
            self.asked(store, StoreRequest::List { prefix, after, limit: limit.min(LISTED_KEYS) }, own).await
        })
    }

    async fn delete(&mut self, store: String, key: String) -> Answered<bool> {
        taped!(self, Store, "store.delete", json!([store, key]), {
            let own = |answer| match answer {
                StoreAnswer::Deleted(was_there) => Some(was_there),
                _ => None,
            };
            self.asked(store, StoreRequest::Delete { key }, own).await
        })
    }
}

impl View<'_> {
    /// The answer as the function's own; an embedder that answers something else has made a mistake.
    async fn asked<T>(
        &mut self,
        store: String,
        request: StoreRequest,
        own: impl FnOnce(StoreAnswer) -> Option<T>,
    ) -> Answered<T> {
        let answer = self.ask(store, request).await?;
        Ok(answer.and_then(|answer| {
            own(answer).ok_or_else(|| wit::StoreError::Failed("the host answered another question".to_owned()))
        }))
    }

    /// Books the request, checks the grant and the bounds, asks, and books the answer.
    async fn ask(&mut self, store: String, request: StoreRequest) -> Answered<StoreAnswer> {
        self.0.budget.charge(Interface::Store, store.len() + bytes_of(&request))?;
        if let Err(denial) = self.0.check(Capability::Store, &store) {
            return Ok(Err(wit::StoreError::Denied(denial.into())));
        }
        // Whoever may use a store has a grant of that name.
        let Some(grant) = self.0.linked.policy.grants().stores.get(&store).copied() else {
            return Ok(Err(wit::StoreError::Failed("the store is not there".to_owned())));
        };
        if let Err(message) = within_bounds(&request) {
            return Ok(Err(wit::StoreError::Invalid(message)));
        }
        let (key, action) = named(&request);
        let touch = self.0.touched().note(|touched| touched.store(&store, key, action));
        let opened = self.0.stores.take().or_else(|| Arc::clone(&self.0.host).stores(&self.0.context));
        let Some(mut stores) = opened else {
            return Ok(Err(wit::StoreError::Failed("this host keeps no stores".to_owned())));
        };
        let limit_ms = self.0.limits.host_call_time;
        let asked = stores.ask(&store, &grant, request);
        let answer = tokio::time::timeout(Duration::from_millis(limit_ms), asked).await;
        self.0.stores = Some(stores);
        match answer {
            Ok(Ok((answer, recorded))) => {
                self.0.touched().note(|touched| touched.version(touch, version_of(&answer), recorded));
                self.0.budget.give(size_of(&answer))?;
                Ok(Ok(answer))
            }
            Ok(Err(StoreError::Quota(message))) => Ok(Err(wit::StoreError::Quota(message))),
            Ok(Err(StoreError::Failed(message))) => Ok(Err(wit::StoreError::Failed(message))),
            Err(_) => {
                let message = format!("the store did not answer within {limit_ms} ms; a write may still happen");
                Ok(Err(wit::StoreError::Failed(message)))
            }
        }
    }
}

impl From<StoreEntry> for wit::Entry {
    fn from(entry: StoreEntry) -> Self {
        Self { value: entry.value, version: entry.version }
    }
}

fn named(request: &StoreRequest) -> (Option<&str>, StoreAction) {
    match request {
        StoreRequest::Get { key } => (Some(key), StoreAction::Get),
        StoreRequest::Set { key, .. } => (Some(key), StoreAction::Set),
        StoreRequest::CompareAndSet { key, .. } => (Some(key), StoreAction::CompareAndSet),
        StoreRequest::List { .. } => (None, StoreAction::List),
        StoreRequest::Delete { key } => (Some(key), StoreAction::Delete),
    }
}

fn bytes_of(request: &StoreRequest) -> usize {
    match request {
        StoreRequest::Get { key } | StoreRequest::Delete { key } => key.len(),
        StoreRequest::Set { key, value } | StoreRequest::CompareAndSet { key, value, .. } => key.len() + value.len(),
        StoreRequest::List { prefix, after, .. } => prefix.len() + after.as_ref().map_or(0, String::len),
    }
}

fn size_of(answer: &StoreAnswer) -> usize {
    match answer {
        StoreAnswer::Entry(entry) | StoreAnswer::Conflict(entry) => entry.as_ref().map_or(0, |entry| entry.value.len()),
        StoreAnswer::Page { keys, .. } => keys.iter().map(String::len).sum(),
        StoreAnswer::Stored(_) | StoreAnswer::Deleted(_) => 0,
    }
}

fn version_of(answer: &StoreAnswer) -> Option<u64> {
    match answer {
        StoreAnswer::Entry(entry) | StoreAnswer::Conflict(entry) => entry.as_ref().map(|entry| entry.version),
        StoreAnswer::Stored(version) => Some(*version),
        StoreAnswer::Page { .. } | StoreAnswer::Deleted(_) => None,
    }
}

fn within_bounds(request: &StoreRequest) -> Result<(), String> {
    let key_fits = |key: &str| match key.len() {
        0 => Err(format!("the key is empty, expected 1 to {KEY_BYTES} bytes")),
        bytes if bytes > KEY_BYTES => Err(format!("the key has {bytes} bytes, more than {KEY_BYTES}")),
        _ => Ok(()),
    };
    let value_fits = |value: &[u8]| match value.len() {
        bytes if bytes > VALUE_BYTES => Err(format!("the value has {bytes} bytes, more than {VALUE_BYTES}")),
        _ => Ok(()),
    };
    let part_fits = |what: &str, part: &str| match part.len() {
        bytes if bytes > KEY_BYTES => Err(format!("`{what}` has {bytes} bytes, more than {KEY_BYTES}")),
        _ => Ok(()),
    };
    match request {
        StoreRequest::Get { key } | StoreRequest::Delete { key } => key_fits(key),
        StoreRequest::Set { key, value } | StoreRequest::CompareAndSet { key, value, .. } => {
            key_fits(key).and_then(|()| value_fits(value))
        }
        StoreRequest::List { limit: 0, .. } => Err(format!("`limit` is 0, expected 1 to {LISTED_KEYS}")),
        StoreRequest::List { prefix, after, .. } => {
            part_fits("prefix", prefix).and_then(|()| part_fits("after", after.as_deref().unwrap_or_default()))
        }
    }
}
