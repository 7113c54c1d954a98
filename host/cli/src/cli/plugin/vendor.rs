//! `opcell plugin vendor`.

use super::{Exit, Failure, Global, Terminal, verify::locked};
use opcell::config::origin;
use opcell_ir::Diagnostic;
use opcell_registry::store::{Store, VENDOR_FOLDER};
use serde_json::json;

pub fn vendor(global: &Global, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.trusted()?;
    let folder = config.root.join(VENDOR_FOLDER);
    let store = Store::new(vec![folder.clone()]);
    let mut vendored = Vec::new();
    for plugin in config.plugins.values().filter(|plugin| plugin.origin.is_some()) {
        let stored = origin::verified(plugin, locked(&config, plugin), &config.store)
            .map_err(|found| origin::rejected(&config, plugin, *found))?;
        store.keep(&stored).map_err(|error| Diagnostic::error("store-not-written", error.to_string()))?;
        vendored.push(plugin.name.as_str());
    }
    if terminal.json {
        terminal.json(&json!({"folder": folder, "vendored": vendored}))?;
    } else if vendored.is_empty() {
        terminal.line("nothing to vendor: no plugin of the project comes from a registry")?;
    } else {
        terminal.line(&format!("copied {} to {}", vendored.join(", "), folder.display()))?;
        terminal.note("keep it under version control, or copy it with the project");
    }
    Ok(Exit::Done)
}
