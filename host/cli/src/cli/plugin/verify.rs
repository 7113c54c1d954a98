//! `opcell plugin verify`: plugins against everything that was pinned.

use super::{Component, Exit, Failure, Global, Terminal, named};
use clap::Args;
use opcell::{
    config::{Config, PluginConfig, lock::Locked, origin},
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_types::Digest;
use serde_json::json;

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The plugin's name in the project; without it, every plugin.
    plugin: Option<String>,
}

pub(super) fn chosen<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<&'a PluginConfig>, Failure> {
    match name {
        Some(name) => Ok(vec![named(config, name)?]),
        None => Ok(config.plugins.values().collect()),
    }
}

pub(super) fn locked<'a>(config: &'a Config, plugin: &PluginConfig) -> Option<&'a Locked> {
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
