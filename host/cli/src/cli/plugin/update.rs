//! `opcell plugin update`, and what it would accept: plugins against the lock.

use super::{Component, Exit, Failure, Global, Terminal, named};
use clap::Args;
use opcell::{
    config::{
        Config, PluginConfig,
        lock::{Lock, Locked},
    },
    places::Places,
};
use opcell_sandbox::grants::{Policy, Requests};
use opcell_workflow::Diagnostic;
use serde_json::json;

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The plugin's name in the project; without it, every plugin that changed.
    plugin: Option<String>,
}

/// A plugin that is not as the lock holds it.
struct Change {
    name: String,
    before: Option<Locked>,
    now: Locked,
}

impl Change {
    fn find(lock: &Lock, plugin: &PluginConfig) -> Result<Option<Self>, Failure> {
        let now = Component::of(plugin)?.locked(plugin);
        let before = lock.plugin(&plugin.name).cloned();
        Ok((before.as_ref() != Some(&now)).then(|| Self { name: plugin.name.clone(), before, now }))
    }

    /// What it asks for beyond what the lock says, as `kind name`.
    fn newly_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, self.now.requests(), &known)
    }

    fn no_longer_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, known, &self.now.requests())
    }

    fn lines(&self) -> Vec<String> {
        let show = |locked: Option<&Locked>| match locked.map(|locked| (locked.digest.as_deref(), locked.bytes)) {
            None => "not in the lock".to_owned(),
            Some((None, _)) => "no digest".to_owned(),
            Some((Some(digest), bytes)) => {
                let bytes = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
                format!("{}…{bytes}", digest.get(..16).unwrap_or(digest))
            }
        };
        let mut lines = vec![format!("{}: {} -> {}", self.name, show(self.before.as_ref()), show(Some(&self.now)))];
        lines.extend(self.newly_requested().into_iter().map(|request| format!("  + requests {request}")));
        lines.extend(self.no_longer_requested().into_iter().map(|request| format!("  - no longer requests {request}")));
        lines
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "plugin": self.name, "before": self.before, "now": self.now, "newly_requests": self.newly_requested(),
            "no_longer_requests": self.no_longer_requested(),
        })
    }
}

fn excess_requests(plugin: &str, requests: Requests, known: &Requests) -> Vec<String> {
    let policy = Policy::new(plugin.into(), requests, opcell_sandbox::Grants::default());
    policy.excess_requests(known).into_iter().map(|denial| denial.capability).collect()
}

fn lock(config: &Config) -> Result<&Lock, Failure> {
    let missing = || Diagnostic::error("no-project", "there is no opcell.toml here or above, and so no lock");
    Ok(config.lock.as_ref().ok_or_else(missing)?)
}

/// `opcell plugin diff NAME`.
pub fn diff_with_lock(global: &Global, name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let change = Change::find(lock(&config)?, named(&config, name)?)?;
    show(change.as_slice(), "the plugin is as the lock holds it", terminal)
}

pub fn update(global: &Global, args: &UpdateArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let config = global.proposed()?;
    let plugins: Vec<&PluginConfig> = match &args.plugin {
        Some(name) => vec![named(&config, name)?],
        None => config.plugins.values().collect(),
    };
    let mut changes = Vec::new();
    for plugin in plugins {
        changes.extend(Change::find(lock(&config)?, plugin)?);
    }
    let places = Places::of_user();
    for change in &changes {
        // Read again each time: an entry that was written a moment ago must stay.
        let written = Lock::beside(config.file.as_deref().unwrap_or("opcell.toml".as_ref()), &config.plugins)?;
        written.accept(&change.name, change.now.clone(), &places)?;
    }
    show(&changes, "nothing changed since the lock was written", terminal)
}

fn show(changes: &[Change], nothing: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&json!(changes.iter().map(Change::to_json).collect::<Vec<_>>()))?;
        return Ok(Exit::Done);
    }
    for line in changes.iter().flat_map(Change::lines) {
        terminal.line(&opcell::report::printable(&line))?;
    }
    if changes.is_empty() {
        terminal.line(nothing)?;
    }
    Ok(Exit::Done)
}
