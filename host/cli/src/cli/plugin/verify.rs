//! `opcell plugin verify`, `fetch` and `vendor`: plugins against everything that was pinned.

use super::{
    Component, Exit, Failure, Global, Terminal, named,
    registry::{self, Expected},
};
use clap::Args;
use opcell::{
    config::{
        Config, PluginConfig,
        lock::Locked,
        origin::{self, Origin},
    },
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_registry::store::{Store, VENDOR_FOLDER};
use opcell_types::Digest;
use serde_json::json;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The plugin's name in the project; without it, every plugin.
    plugin: Option<String>,
}

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// The plugin's name in the project; without it, every plugin of a registry.
    plugin: Option<String>,
}

fn chosen<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<&'a PluginConfig>, Failure> {
    match name {
        Some(name) => Ok(vec![named(config, name)?]),
        None => Ok(config.plugins.values().collect()),
    }
}

fn locked<'a>(config: &'a Config, plugin: &PluginConfig) -> Option<&'a Locked> {
    config.lock.as_ref()?.plugin(&plugin.name)
}

/// Checks one plugin: what is fine about it, in a few words.
fn check(config: &Config, plugin: &PluginConfig) -> Result<String, Rejected> {
    let held = locked(config, plugin);
    if plugin.origin.is_some() {
        origin::verified(plugin, held, &config.store).map_err(|found| origin::rejected(config, plugin, *found))?;
        let publisher = held.and_then(|held| held.publisher.as_deref());
        return Ok(publisher.map_or("unsigned".to_owned(), |key| format!("signed by {key}")));
    }
    let component = Component::of(plugin)?;
    if plugin.dev {
        return Ok("not held by the lock, because of `dev = true`".to_owned());
    }
    let digest = Digest::of_hash(blake3::hash(&component.bytes));
    let name = &plugin.name;
    let (code, message) = match held.and_then(|held| held.digest.as_ref()) {
        Some(pinned) if *pinned == digest => return Ok("as it was accepted".to_owned()),
        Some(_) => ("plugin-changed", format!("plugin `{name}`: its bytes have changed since it was accepted")),
        None => ("plugin-not-locked", format!("plugin `{name}` is not in opcell.lock")),
    };
    let help = format!("look at it with `opcell plugin diff {name}`, accept it with `opcell plugin update {name}`");
    Err(Rejected::plain(Diagnostic::error(code, message).help(help)))
}

pub fn verify(global: &Global, args: &VerifyArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let (mut entries, mut broken) = (Vec::new(), false);
    for plugin in chosen(&config, args.plugin.as_deref())? {
        let checked = check(&config, plugin);
        broken |= checked.is_err();
        let digest = locked(&config, plugin).and_then(|held| held.digest.clone());
        if terminal.json {
            entries.push(match &checked {
                Ok(about) => json!({"plugin": plugin.name, "ok": true, "digest": digest, "about": about}),
                Err(rejected) => json!({"plugin": plugin.name, "ok": false, "diagnostics": rejected.to_json()}),
            });
            continue;
        }
        match checked {
            Ok(about) => {
                let digest = digest.map(|digest| format!("  {}…", digest.short()));
                terminal.line(&format!("{}  ok{}  {about}", plugin.name, digest.unwrap_or_default()))?;
            }
            Err(rejected) => {
                terminal.line(&format!("{}  broken", plugin.name))?;
                terminal.rejected(&rejected);
            }
        }
    }
    if terminal.json {
        terminal.json(&json!(entries))?;
    }
    Ok(if broken { Exit::InputWrong } else { Exit::Done })
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
