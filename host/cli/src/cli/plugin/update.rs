//! `opcell plugin update`, and what it would accept: plugins against the lock.

use super::{
    Component, Exit, Failure, Global, Terminal, diff, named,
    registry::{self, Expected, Fetched},
};
use crate::cli::missing::lock;
use clap::Args;
use opcell::{
    config::{
        PluginConfig,
        lock::{Lock, Locked},
    },
    places::Places,
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_registry::signature::PublicKey;
use opcell_sandbox::grants::{Policy, Requests};
use serde_json::json;

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The plugin's name in the project; without it, every plugin that changed.
    plugin: Option<String>,
    /// Accept that another key signed a plugin of a registry: `ed25519:…`.
    #[arg(long, value_name = "KEY", requires = "plugin")]
    publisher: Option<String>,
}

/// A plugin that is not as the lock holds it.
struct Change {
    name: String,
    before: Option<Locked>,
    now: Locked,
    /// The fetched version, for a plugin of a registry.
    fetched: Option<Box<Fetched>>,
}

impl Change {
    async fn find(lock: &Lock, plugin: &PluginConfig, accepted: Option<&PublicKey>) -> Result<Option<Self>, Failure> {
        let before = lock.plugin(&plugin.name).cloned();
        let fetched = match &plugin.origin {
            None => None,
            Some(origin) => {
                let pinned = before.as_ref().and_then(|before| before.publisher.as_deref());
                let expected = Expected {
                    name: &plugin.name,
                    pinned,
                    accepted,
                    unsigned: origin.unsigned,
                    exports: &plugin.exports,
                };
                Some(Box::new(registry::fetch(&origin.reference, &expected).await?))
            }
        };
        let now = match &fetched {
            Some(fetched) => fetched.locked.clone(),
            None => Component::of(plugin)?.locked(plugin),
        };
        Ok((before.as_ref() != Some(&now)).then(|| Self { name: plugin.name.clone(), before, now, fetched }))
    }

    /// A known plugin of a registry that asks for more than before: only who names it accepts that.
    fn needs_a_look(&self) -> bool {
        self.fetched.is_some() && self.before.is_some() && !self.newly_requested().is_empty()
    }

    /// Returns its requests beyond the lock, as `kind name`.
    fn newly_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, self.now.requests(), &known)
    }

    fn no_longer_requested(&self) -> Vec<String> {
        let known = self.before.as_ref().map(Locked::requests).unwrap_or_default();
        excess_requests(&self.name, known, &self.now.requests())
    }

    fn lines(&self) -> Vec<String> {
        let show = |locked: Option<&Locked>| match locked.map(|locked| (locked.digest.as_ref(), locked.bytes)) {
            None => "not in the lock".to_owned(),
            Some((None, _)) => "no digest".to_owned(),
            Some((Some(digest), bytes)) => {
                let bytes = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
                format!("{}…{bytes}", digest.short())
            }
        };
        let mut lines = vec![format!("{}: {} -> {}", self.name, show(self.before.as_ref()), show(Some(&self.now)))];
        let publisher = |locked: Option<&Locked>| locked.and_then(|locked| locked.publisher.clone());
        let (old, new) = (publisher(self.before.as_ref()), publisher(Some(&self.now)));
        if old != new {
            let shown = |key: Option<String>| key.unwrap_or_else(|| "unsigned".to_owned());
            lines.push(format!("  signed by {} -> {}", shown(old), shown(new)));
        }
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

/// `opcell plugin diff NAME`.
pub async fn diff_with_lock(global: &Global, name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut config = global.proposed()?;
    if named(&config, name)?.origin.is_some() {
        // It is fetched to be looked at.
        config = global.trusted()?;
    }
    let plugin = named(&config, name)?;
    let mut change = Change::find(lock(&config)?, plugin, None).await?;
    let surfaces = change.as_mut().and_then(|change| {
        let new = change.fetched.take()?;
        let old = Component::of(plugin).ok()?;
        Some(diff::of_surfaces(&old.surface, &new.component.surface))
    });
    show(change.as_slice(), "the plugin is as the lock holds it", terminal)?;
    if !terminal.json {
        for line in surfaces.into_iter().flatten() {
            terminal.line(&opcell::report::printable(&line))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns `true` if this is a plugin of the project, and the file at its path is not the one in the lock.
pub fn differs_from_lock(global: &Global, name: &str) -> Result<bool, Failure> {
    let config = global.proposed()?;
    let (Some(plugin), Some(lock)) = (config.plugins.get(name), &config.lock) else { return Ok(false) };
    let Some(locked) = lock.plugin(name).filter(|locked| locked.digest.is_some()) else { return Ok(false) };
    Ok(plugin.origin.is_none() && Component::of(plugin).map_or(true, |found| found.locked(plugin) != *locked))
}

/// `opcell plugin diff NAME NEW`, where the file of the version in use is gone.
pub fn diff_new_with_lock(global: &Global, name: &str, new: &Component, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let plugin = named(&config, name)?;
    let before = lock(&config)?.plugin(name).cloned();
    let now = new.locked(plugin);
    let change = (before.as_ref() != Some(&now)).then(|| Change { name: name.to_owned(), before, now, fetched: None });
    show(change.as_slice(), "it is what the lock holds", terminal)?;
    Ok(Exit::Done)
}

pub async fn update(global: &Global, args: &UpdateArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if global.locked {
        return Err(Diagnostic::error("lock-frozen", "`--locked` leaves opcell.lock as it is").into());
    }
    let accepted = registry::key(args.publisher.as_deref())?;
    let mut config = global.proposed()?;
    let concerned = |plugin: &&PluginConfig| args.plugin.as_ref().is_none_or(|name| *name == plugin.name);
    if config.plugins.values().filter(concerned).any(|plugin| plugin.origin.is_some()) {
        config = global.trusted()?;
    }
    let plugins: Vec<&PluginConfig> = match &args.plugin {
        Some(name) => vec![named(&config, name)?],
        None => config.plugins.values().collect(),
    };
    let mut changes = Vec::new();
    for plugin in plugins {
        changes.extend(Change::find(lock(&config)?, plugin, accepted.as_ref()).await?);
    }
    let (refused, changes): (Vec<Change>, Vec<Change>) =
        changes.into_iter().partition(|change| args.plugin.is_none() && change.needs_a_look());
    let places = Places::of_user();
    for change in &changes {
        // Read again each time: an entry that was written a moment ago must stay.
        let written = Lock::beside(config.file.as_deref().unwrap_or("opcell.toml".as_ref()), &config.plugins)?;
        if let Some(fetched) = &change.fetched {
            let kept = config.store.keep(&fetched.pulled.stored);
            kept.map_err(|error| Diagnostic::error("store-not-written", error.to_string()))?;
        }
        written.accept(&change.name, change.now.clone(), &places)?;
        if let Some(plugin) = config.plugins.get(&change.name) {
            keep(&written, plugin, change, &places, terminal);
        }
    }
    let nothing =
        if refused.is_empty() { "nothing changed since the lock was written" } else { "nothing was accepted" };
    show(&changes, nothing, terminal)?;
    for change in &refused {
        let (name, more) = (&change.name, change.newly_requested().join(", "));
        let message = format!("plugin `{name}`: the new version asks for more than opcell.lock holds: {more}");
        let help = format!("look at it with `opcell plugin diff {name}`, accept it with `opcell plugin update {name}`");
        terminal.rejected(&Rejected::plain(Diagnostic::error("new-permissions", message).help(help)));
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::InputWrong })
}

/// Keeps the version for runs that wait while the plugin is upgraded again. The lock has accepted it by now: a failure
/// stops nothing.
fn keep(lock: &Lock, plugin: &PluginConfig, change: &Change, places: &Places, terminal: &Terminal) {
    let kept = match &change.fetched {
        Some(fetched) => lock.keep(&change.name, &change.now, &fetched.pulled.stored.component, places),
        None => Component::of(plugin)
            .map_err(std::io::Error::other)
            .and_then(|found| lock.keep(&change.name, &change.now, &found.bytes, places)),
    };
    if let Err(error) = kept {
        terminal.failed(&could_not_keep(&change.name, &error));
    }
}

/// Says that a version could not be kept.
pub fn could_not_keep(plugin: &str, error: &std::io::Error) -> String {
    format!("plugin `{plugin}`: this version could not be kept for runs that wait during the next upgrade: {error}")
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
