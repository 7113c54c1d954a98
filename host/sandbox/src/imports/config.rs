//! `wasi:config/store`: what the operator set for this plugin, and nothing of any other.

use super::View;
use crate::{budget::Interface, recording::taped, state::CellState};
use serde_json::json;
use wasmtime::component::Linker;

mod bindings {
    #![allow(missing_docs, reason = "generated from wit-config/")]

    wasmtime::component::bindgen!({
        path: "wit-config",
        world: "wasi:config/settings",
        imports: { default: trappable },
        require_store_data_send: true,
        additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    });
}

use bindings::wasi::config::store as wit;

/// The only version that is out.
pub(crate) const SERVED: &str = "wasi:config/store@0.2.0-rc.1";

/// Links the interface; once per engine.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    wit::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))
}

impl wit::Host for View<'_> {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, wit::Error>> {
        taped!(self, Wasi, "config.get", json!([key]), self.setting(&key))
    }

    fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, wit::Error>> {
        taped!(self, Wasi, "config.get-all", json!([]), self.settings())
    }
}

impl View<'_> {
    fn setting(&mut self, key: &str) -> wasmtime::Result<Result<Option<String>, wit::Error>> {
        self.0.budget.charge(Interface::Wasi, key.len())?;
        let value = self.0.linked.settings.get(key).cloned();
        self.0.budget.give(value.as_ref().map_or(0, String::len))?;
        Ok(Ok(value))
    }

    fn settings(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, wit::Error>> {
        self.0.budget.charge(Interface::Wasi, 0)?;
        self.0.budget.give(self.0.linked.settings.iter().map(|(key, value)| key.len() + value.len()).sum())?;
        Ok(Ok(self.0.linked.settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect()))
    }
}
