//! The world of the [journey](crate::journey) with a real cell. Everything that a run does to it is sent to the
//! recorder.

use super::recorder::{Deed, Recorder};
use crate::journey::{self, Witness};
use anyhow::Result;
use async_trait::async_trait;
use opcell::{Host, config::PluginConfig, places::Places};
use opcell_engine::ports::{Call, Effects, Operations, Reply, Success};
use opcell_sandbox::CompileMode;
use opcell_types::CallContext;
use std::{path::Path, sync::Arc};

pub type World = journey::World<Arc<Recorder>>;

/// Opens the world of a directory; the component's compiled code is kept in `cache`.
pub async fn open(directory: &Path, cache: &Path, recorder: Arc<Recorder>) -> Result<World> {
    let config = opcell::Config::empty(directory.to_owned());
    let mut places = Places::default();
    places.cache = Some(cache.join("components"));
    places.state = Some(cache.join("state"));
    let plugin = PluginConfig::new("test", cache.join("test.wasm"));
    let host = Host::builder()
        .config(config)
        .places(places)
        .plugin(plugin)
        .compile(CompileMode::TrustedInProcess)
        .build()
        .await?;
    Ok(World::new(recorder, Some(Arc::new(Cells(host))))?.asking())
}

/// The host's operations.
struct Cells(Host);

#[async_trait]
impl Operations for Cells {
    fn effects(&self, operation: &str) -> Option<Effects> {
        self.0.catalog().effects(operation)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.0.catalog().invoke(call).await
    }
}

#[async_trait]
impl Witness for Arc<Recorder> {
    async fn sees(&self, context: &CallContext, what: &str, with: String) {
        self.deed(Deed {
            key: context.idempotency_key.as_ref().to_owned(),
            step: context.step.as_ref().to_owned(),
            visit: context.visit,
            attempt: context.attempt,
            what: what.to_owned(),
            with,
        });
    }
}
