//! `opcell plugin fetch`: the versions that `opcell.lock` holds.

use super::{
    Exit, Failure, Global, Terminal,
    registry::{self, Expected},
    verify::{chosen, locked},
};
use clap::Args;
use opcell::config::{
    Config, PluginConfig,
    lock::Locked,
    origin::{self, Origin},
};
use opcell_ir::Diagnostic;
use serde_json::json;

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// The plugin's name in the project; without it, every plugin of a registry.
    plugin: Option<String>,
}

pub async fn fetch(global: &Global, args: &FetchArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.trusted()?;
    let mut fetched = Vec::new();
    for plugin in chosen(&config, args.plugin.as_deref())? {
        let Some(origin) = &plugin.origin else { continue };
        let held = locked(&config, plugin);
        if origin::verified(plugin, held, &config.store).is_ok() {
            continue;
        }
        again(&config, plugin, origin, held).await?;
        fetched.push(plugin.name.as_str());
    }
    if terminal.json {
        terminal.json(&json!({"fetched": fetched}))?;
    } else if fetched.is_empty() {
        terminal.line("every plugin of a registry is on this machine")?;
    } else {
        terminal.line(&format!("fetched {}", fetched.join(", ")))?;
    }
    Ok(Exit::Done)
}

/// Fetches exactly the version of the lock.
async fn again(config: &Config, plugin: &PluginConfig, origin: &Origin, held: Option<&Locked>) -> Result<(), Failure> {
    let name = &plugin.name;
    let pinned = held.and_then(|held| Some((held, held.digest.as_ref()?, held.manifest.as_deref()?)));
    let Some((held, digest, manifest)) =
        pinned.filter(|(_, _, manifest)| opcell_registry::reference::is_digest(manifest))
    else {
        let message = format!("plugin `{name}`: opcell.lock holds no version of {}", origin.reference);
        let help = format!("fetch and accept one with `opcell plugin update {name}`");
        return Err(Diagnostic::error("plugin-not-fetched", message).help(help).into());
    };
    let publisher = held.publisher.as_deref();
    let expected =
        Expected { name, pinned: publisher, accepted: None, unsigned: origin.unsigned, exports: &plugin.exports };
    let found = registry::fetch(&origin.reference.at(manifest), &expected).await?;
    if found.pulled.digests.blake3 != *digest {
        let message =
            format!("plugin `{name}`: what {} has at {manifest} is not what opcell.lock holds", origin.reference);
        let help = "restore opcell.lock from version control".to_owned();
        return Err(Diagnostic::error("plugin-changed", message).help(help).into());
    }
    let kept = config.store.keep(&found.pulled.stored);
    kept.map_err(|error| Diagnostic::error("store-not-written", error.to_string()))?;
    origin::verified(plugin, Some(held), &config.store).map_err(|found| origin::rejected(config, plugin, *found))?;
    Ok(())
}
