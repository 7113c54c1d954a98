//! `opcell plugin list`: the plugins of the project, without running them.

use super::{Component, Exit, Failure, Terminal, is_changed};
use crate::cli::{
    missing::NO_PROJECT,
    units::{self, Align},
};
use opcell::config::Config;
use opcell_sandbox::grants::Policy;
use opcell_types::Capability as Kind;
use serde_json::json;

pub fn list(config: &Config, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut entries = Vec::new();
    let mut broken = false;
    let components: Vec<_> = config.plugins.values().map(|plugin| (plugin, Component::of(plugin))).collect();
    let rows: Vec<Vec<String>> = components
        .iter()
        .map(|(plugin, component)| {
            let (version, size) = match component {
                Ok(component) => {
                    let version = component.surface.manifest.version.as_deref().unwrap_or("no version");
                    (version.to_owned(), units::bytes(component.bytes.len() as u64))
                }
                Err(_) => ("broken".to_owned(), String::new()),
            };
            vec![plugin.name.clone(), version, size, plugin.path.display().to_string()]
        })
        .collect();
    let lines = units::columns(&rows, &[Align::Left, Align::Left, Align::Right, Align::Left]);
    for ((plugin, component), line) in components.into_iter().zip(lines) {
        broken |= component.is_err();
        if terminal.json {
            entries.push(match &component {
                Ok(component) => json!({
                    "name": plugin.name, "path": plugin.path, "bytes": component.bytes.len(),
                    "version": component.surface.manifest.version, "ungranted": ungranted(plugin, component),
                }),
                Err(rejected) => json!({"name": plugin.name, "path": plugin.path, "diagnostics": rejected.to_json()}),
            });
            continue;
        }
        match &component {
            Ok(component) => {
                terminal.line(&line)?;
                if plugin.dev {
                    terminal.line("  in development: any new build is accepted (`dev = true`)")?;
                }
                if is_changed(config, plugin, component) {
                    terminal.line(&format!(
                        "  not loaded: it is not what opcell.lock holds; `opcell plugin diff {}` shows the difference",
                        plugin.name
                    ))?;
                }
                for grant in ungranted(plugin, component) {
                    terminal.line(&format!("  requests {grant}, which is not granted"))?;
                }
            }
            Err(rejected) => {
                terminal.line(&line)?;
                terminal.rejected(rejected);
            }
        }
    }
    if terminal.json {
        terminal.json(&json!(entries))?;
    } else if config.plugins.is_empty() {
        terminal.note(match config.file {
            Some(_) => "the project has no plugins; `opcell plugin add FILE` adds one, `opcell plugin new NAME --lang LANG` makes one",
            None => NO_PROJECT,
        });
    }
    Ok(if broken { Exit::InputWrong } else { Exit::Done })
}

/// Requests that are not granted, as arguments of `opcell plugin grant`.
fn ungranted(plugin: &opcell::config::PluginConfig, component: &Component) -> Vec<String> {
    let requests = component.surface.manifest.requests();
    let policy = Policy::new(plugin.name.as_str().into(), requests, plugin.grants.capabilities.clone());
    policy.ungranted().into_iter().map(|(kind, name)| request(kind, name)).collect()
}

fn request(kind: Kind, name: &str) -> String {
    format!("{} {name}", kind.word())
}
