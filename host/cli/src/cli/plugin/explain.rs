//! `opcell plugin explain`: what a plugin may reach and use, and which setting decides.

use super::{Component, Exit, Failure, Global, Terminal, is_changed, named, policy};
use clap::Args;
use opcell::{
    config::{Config, PluginConfig},
    consent,
    http::{HttpRule, SecretSource},
    reach::reach,
    remedy,
};
use opcell_engine::ValueLimits;
use opcell_sandbox::limits::{EffectiveLimits, Source, Unit};
use opcell_types::Denial;
use serde_json::json;
use std::{fmt::Write as _, os::unix::fs::MetadataExt as _};

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Name of the plugin in the project.
    plugin: String,
    /// Show this operation or judge as well.
    #[arg(long, value_name = "OPERATION")]
    call: Option<String>,
}

pub async fn explain(global: &Global, args: &ExplainArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let plugin = named(&config, &args.plugin)?;
    let component = Component::of(plugin)?;
    let capabilities = reach(&component.surface.manifest, &policy(plugin, &component));
    let excess = excess_requests(&config, plugin, &component);
    let limits =
        EffectiveLimits::resolve(&plugin.limits_within(&config.limits), &component.surface.manifest.limits).explain();
    let operation = match &args.call {
        None => None,
        Some(id) => {
            let host = global.looking(terminal).await?;
            let entry = host.catalog().find(id)?.clone();
            if *entry.plugin != *plugin.name {
                let message = format!("`{id}` belongs to plugin `{}`, not to `{}`", entry.plugin, plugin.name);
                return Err(opcell_ir::Diagnostic::error("unknown-operation", message).into());
            }
            Some(entry)
        }
    };
    let http: Vec<String> = plugin.grants.http.iter().map(http_line).collect();
    let approvals = config.sessions.plugin_approvals.get(&plugin.name);
    if terminal.json {
        terminal.json(&json!({
            "approve": approvals, "plugin": plugin.name, "path": plugin.path, "call": operation, "capabilities": capabilities, "excess_requests": excess, "http": http, "limits": limits,
            "values": {"value-bytes": config.values.bytes, "run-value-bytes": config.values.run_bytes},
        }))?;
        return Ok(Exit::Done);
    }

    let mut text = format!("plugin {} ({})\n", plugin.name, plugin.path.display());
    if let Some(entry) = operation {
        let _ = writeln!(
            text,
            "\n{} {}: {}\n  arguments {}",
            entry.kind(),
            entry.id,
            entry.summary,
            entry.arguments_schema
        );
    }
    text.push_str("\nMay reach:\n");
    if capabilities.is_empty() {
        text.push_str("  nothing: it requests nothing and is granted nothing\n");
    }
    for capability in &capabilities {
        let _ = writeln!(text, "  {} {}", if capability.allowed { "yes" } else { "no " }, capability.capability);
        for (label, what) in
            [("asked for", &capability.reason), ("granted", &capability.granted), ("denied", &capability.denied)]
        {
            if let Some(what) = what {
                let _ = writeln!(text, "      {label}: {what}");
            }
        }
        if let Some(remedy) = &capability.remedy {
            // On a line of its own: a narrow terminal breaks a longer one inside the command.
            let _ = writeln!(text, "      to grant it:\n        {remedy}");
        }
    }
    for rule in approvals.iter().flat_map(|rules| rules.rules()) {
        let _ = writeln!(text, "  its calls of tools ask a person: {}", rule.describe());
    }
    for line in &http {
        let _ = writeln!(text, "  http.fetch: {line}");
    }
    if is_changed(&config, plugin, &component) {
        let _ = write!(
            text,
            "\nNot loaded: it is not what opcell.lock holds. Look at the difference, then accept it:\n  opcell plugin diff \
             {0}\n  opcell plugin update {0}\n",
            plugin.name
        );
    }
    if !excess.is_empty() {
        text.push_str("\nNot loaded: this version requests more than was agreed to. Grant it first:\n");
        for denial in &excess {
            let _ = writeln!(text, "  {}", remedy::render(&denial.remedy).unwrap_or_default());
        }
    }
    text.push_str("\nMay use, per cell:\n");
    for limit in limits {
        let who = who(limit.source, limit.key, plugin, &config);
        let _ = writeln!(text, "  {:18} {:>14}  {who}", limit.key, limit.shown);
    }
    text.push_str("\nA run's values may take, as JSON:\n");
    for (key, most, default) in value_limits(&config) {
        let who = if most == default { "default".to_owned() } else { format!("{}, [limits]", config.source.name()) };
        let _ = writeln!(text, "  {key:18} {:>14}  {who}", Unit::Bytes.show(most));
    }
    terminal.line(&opcell::report::printable(&text))?;
    Ok(Exit::Done)
}

/// The limits of a run's values by key, with their defaults.
fn value_limits(config: &Config) -> [(&'static str, u64, u64); 2] {
    let (set, default) = (config.values, ValueLimits::default());
    [("value-bytes", set.bytes, default.bytes), ("run-value-bytes", set.run_bytes, default.run_bytes)]
}

/// Excess requests of this version that are not granted.
fn excess_requests(config: &Config, plugin: &PluginConfig, component: &Component) -> Vec<Denial> {
    let Some(agreed) = config.lock.as_ref().and_then(|lock| lock.agreed(&plugin.name)) else { return Vec::new() };
    policy(plugin, component).excess_requests(agreed)
}

fn who(source: Source, key: &str, plugin: &PluginConfig, config: &Config) -> String {
    let file = config.source.name();
    match source {
        Source::Default => "default".to_owned(),
        Source::Operator if plugin.limits.get(key).is_some() => format!("{file}, [plugins.{}.limits]", plugin.name),
        Source::Operator if plugin.ceiling.get(key).is_some() => format!("{file}, [plugins.{}.ceiling]", plugin.name),
        Source::Operator => format!("{file}, [limits]"),
        Source::Plugin => "the plugin requests less".to_owned(),
        Source::Step => "the step".to_owned(),
    }
}

/// Returns the source of a secret, and what would keep it from coming or from staying one. It is not read.
fn source(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) if std::env::var_os(name).is_none() => format!("${name}, which is not set here"),
        SecretSource::Env(name) => format!("${name}"),
        SecretSource::File(path) => {
            let remark = match path.metadata() {
                Err(error) => format!(", which cannot be read: {error}"),
                Ok(status) if status.mode() & 0o077 != 0 => {
                    format!(", which others may read; `chmod 600 {}`", consent::shell(path))
                }
                Ok(_) => String::new(),
            };
            format!("{}{remark}", path.display())
        }
    }
}

fn http_line(rule: &HttpRule) -> String {
    let methods: Vec<&str> = rule.methods.iter().map(opcell::http::Method::as_str).collect();
    let origins: Vec<String> = rule.origins.iter().map(ToString::to_string).collect();
    let private = if rule.private { ", private addresses allowed" } else { "" };
    let credential = rule
        .credential
        .as_ref()
        .map(|credential| format!(", the host adds `{}` from {}", credential.header, source(&credential.source)))
        .unwrap_or_default();
    format!("{} {}{private}{credential}", methods.join("/"), origins.join(" "))
}
