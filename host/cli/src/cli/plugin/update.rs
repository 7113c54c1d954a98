//! `opcell plugin update`, and what it would accept: plugins against the lock.

use super::{
    Component, Exit, Failure, Global, Terminal,
    change::{Change, Doubt},
    named, registry,
};
use crate::cli::missing::lock;
use clap::Args;
use opcell::{
    config::{PluginConfig, lock::Lock},
    differences::is_older,
    places::Places,
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_types::text::printable;
use serde_json::json;

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The plugin's name in the project; without it, every plugin that changed.
    plugin: Option<String>,
    /// Accept that another key signed a plugin of a registry: `ed25519:…`.
    #[arg(long, value_name = "KEY", requires = "plugin")]
    publisher: Option<String>,
}

/// `opcell plugin diff NAME`.
pub async fn diff_with_lock(global: &Global, name: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut config = global.proposed()?;
    if named(&config, name)?.origin.is_some() {
        // It is fetched to be looked at.
        config = global.trusted()?;
    }
    let change = Change::find(lock(&config)?, named(&config, name)?, None).await?;
    show(change.as_slice(), true, "the plugin is as the lock holds it", terminal)
}

/// Returns `true` if this is a plugin of the project, and the file at its path is not the one in the lock.
pub fn differs_from_lock(global: &Global, name: &str) -> Result<bool, Failure> {
    let config = global.proposed()?;
    let (Some(plugin), Some(lock)) = (config.plugins.get(name), &config.lock) else { return Ok(false) };
    let Some(locked) = lock.plugin(name).filter(|locked| locked.digest.is_some()) else { return Ok(false) };
    Ok(plugin.origin.is_none() && Component::of(plugin).map_or(true, |found| !locked.accepts(&found.locked(plugin))))
}

/// `opcell plugin diff NAME NEW`, where the file of the version in use is gone.
pub async fn diff_new_with_lock(
    global: &Global,
    name: &str,
    new: Component,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let change = Change::to(lock(&config)?, named(&config, name)?, new).await?;
    show(change.as_slice(), true, "it is what the lock holds", terminal)
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
    let mut refused = Vec::new();
    if args.plugin.is_none() {
        changes.retain(|change: &Change| {
            let doubt = change.doubt();
            refused.extend(doubt.as_ref().map(|doubt| left_as_it_is(&change.name, doubt)));
            doubt.is_none()
        });
    }
    let places = Places::of_user();
    for change in &changes {
        // Read again each time: an entry that was written a moment ago must stay.
        let written = Lock::beside(config.file.as_deref().unwrap_or("opcell.toml".as_ref()), &config.plugins)?;
        if let Some(pulled) = &change.pulled {
            let kept = config.store.keep(&pulled.stored);
            kept.map_err(|error| Diagnostic::error("store-not-written", error.to_string()))?;
        }
        written.accept(&change.name, change.now.clone(), &places)?;
        // The lock has accepted it by now: a failure stops nothing.
        if let Err(error) = written.keep(&change.name, &change.now, &change.component.bytes, &places) {
            terminal.failed(&could_not_keep(&change.name, &error));
        }
    }
    let nothing =
        if refused.is_empty() { "nothing changed since the lock was written" } else { "nothing was accepted" };
    show(&changes, false, nothing, terminal)?;
    let exit = if refused.is_empty() { Exit::Done } else { Exit::InputWrong };
    for finding in refused {
        terminal.rejected(&Rejected::plain(finding));
    }
    Ok(exit)
}

/// The finding about a change that only a command which names the plugin accepts.
fn left_as_it_is(plugin: &str, doubt: &Doubt) -> Diagnostic {
    let name = |text: &Option<String>| text.as_deref().map_or_else(|| "none".to_owned(), |text| printable(text, 80));
    let finding = match doubt {
        Doubt::More(more) => {
            let more = more.join(", ");
            let message = format!("plugin `{plugin}`: the new version asks for more than opcell.lock holds: {more}");
            Diagnostic::error("new-permissions", message)
        }
        Doubt::NotNewer(before, Some(now)) if is_older(now, before) => {
            let message = format!("plugin `{plugin}`: the new version is older than the one in opcell.lock");
            Diagnostic::error("plugin-downgrade", message)
        }
        Doubt::NotNewer(before, now) => {
            let (before, now) = (printable(before, 80), name(now));
            let message = format!(
                "plugin `{plugin}`: it has changed, and its version is not newer than the one in opcell.lock: {now}, \
                 after {before}"
            );
            Diagnostic::error("plugin-downgrade", message)
        }
        Doubt::Unsigned(publisher) => {
            let publisher = printable(publisher, 80);
            let message = format!(
                "plugin `{plugin}`: the new version has no signature; the one in opcell.lock was signed by {publisher}"
            );
            Diagnostic::error("plugin-unsigned", message)
        }
        Doubt::OtherName(before, now) => {
            let (before, now) = (name(before), name(now));
            let message =
                format!("plugin `{plugin}`: the new version is another plugin by its manifest: {now}, not {before}");
            Diagnostic::error("plugin-changed", message)
        }
    };
    finding
        .help(format!("look at it with `opcell plugin diff {plugin}`, accept it with `opcell plugin update {plugin}`"))
}

/// Says that a version could not be kept.
pub fn could_not_keep(plugin: &str, error: &std::io::Error) -> String {
    format!("plugin `{plugin}`: this version could not be kept for runs that wait during the next upgrade: {error}")
}

fn show(changes: &[Change], details: bool, nothing: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&json!(changes.iter().map(Change::to_json).collect::<Vec<_>>()))?;
        return Ok(Exit::Done);
    }
    for line in changes.iter().flat_map(|change| change.lines(details)) {
        terminal.line(&opcell::report::printable(&line))?;
    }
    if changes.is_empty() {
        terminal.line(nothing)?;
    }
    Ok(Exit::Done)
}
