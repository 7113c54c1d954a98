//! `opcell plugin check`: what a host will say to a component, before an operator meets it.

use super::{Component, sandbox};
use crate::cli::{
    Exit, Failure, Global, Terminal,
    units::{bytes, duration},
};
use clap::Args;
use opcell_sandbox::{Grants, Plugin, inspect::SERVED_VERSIONS, limits::TABLE};
use opcell_types::suggest::did_you_mean;
use serde::Serialize;
use serde_json::{Value, json};

/// A component that is larger than interpreters need takes long to load everywhere.
const LARGE: u64 = 32 << 20;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The component's file, or the name of a plugin of the project; the one in `dist/` of the plugin in this folder if
    /// omitted.
    #[arg(value_name = "PLUGIN")]
    file: Option<String>,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

/// A finding that an operator or a workflow's author will stumble over.
#[derive(Debug, PartialEq, Serialize)]
struct Finding {
    severity: &'static str,
    code: &'static str,
    message: String,
}

fn warning(code: &'static str, message: impl Into<String>) -> Finding {
    Finding { severity: "warning", code, message: message.into() }
}

pub(super) async fn check(global: &Global, args: &CheckArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let component = match &args.file {
        Some(target) => Component::find(global, target)?,
        None => {
            let project = opcell_author::Project::read(std::path::Path::new("."));
            let project = project.map_err(|error| super::build::wrong(&error))?;
            Component::read(&project.folder.join("dist").join(format!("{}.wasm", project.name)))?
        }
    };
    // Compiles it, links it, and checks what it describes: world, version, imports, ids, cost of schemas.
    let plugin = component.load(&sandbox()?, Grants::default()).await?;
    let mut findings = of_manifest(&component);
    findings.extend(of_interface(&plugin, component.surface.manifest.name.as_deref()));
    findings
        .extend(plugin.left_out().iter().map(|function| warning("left-out", format!("not an operation: {function}"))));
    let failed = args.strict && !findings.is_empty();
    let receipt = plugin.describe_receipt();
    if terminal.json {
        terminal.json(&json!({
            "ok": !failed, "path": component.path, "contract": component.surface.contract(), "served": SERVED_VERSIONS, "bytes": component.bytes.len(), "findings": findings,
            "operations": plugin.operations(), "judges": plugin.judges(), "empty-call": receipt,
        }))?;
    } else {
        for finding in &findings {
            let Finding { severity, code, message } = finding;
            terminal.line(&opcell::report::printable(&format!("{severity}  {code}: {message}")))?;
        }
        if component.is_typed() {
            let how = if component.named.is_some() { "" } else { "; add it with `--typed`" };
            terminal.line(&format!("not written for Opcell: each exported function is an operation{how}"))?;
            for operation in plugin.operations() {
                let line = format!("operation  {}  {}", operation.id, operation.summary);
                terminal.line(&opcell::report::printable(&line))?;
            }
        }
        let offers = plugin.operations().len() + plugin.judges().len();
        let used = receipt.map(|receipt| {
            format!(", an empty call takes {} and {}", bytes(receipt.peak_memory), duration(receipt.duration_us))
        });
        let warnings = match findings.len() {
            0 => "no warnings".to_owned(),
            1 => "1 warning".to_owned(),
            more => format!("{more} warnings"),
        };
        let size = bytes(component.bytes.len() as u64);
        if let Some(contract) = component.surface.contract() {
            let [older @ .., newest] = &SERVED_VERSIONS;
            let served = format!("{} and {newest}", older.join(", "));
            terminal.line(&format!("contract: opcell:plugin@{contract}; this host serves {served}"))?;
        }
        terminal
            .line(&format!("loads: {size}, {offers} operations and judges{}; {warnings}", used.unwrap_or_default()))?;
    }
    Ok(if failed { Exit::InputWrong } else { Exit::Done })
}

fn of_manifest(component: &Component) -> Vec<Finding> {
    let manifest = &component.surface.manifest;
    let mut findings = Vec::new();
    if component.bytes.len() as u64 > LARGE {
        findings.push(warning("large", format!("it has {}", bytes(component.bytes.len() as u64))));
    }
    if manifest.name.is_none() && component.is_typed() {
        return findings;
    }
    if manifest.name.is_none() {
        findings.push(warning("no-manifest", "it has no manifest: it can be granted nothing, and has no version"));
        return findings;
    }
    if manifest.description.is_none() {
        findings.push(warning("no-description", "its manifest has no `description`"));
    }
    if manifest.license.is_none() {
        findings.push(warning("no-license", "its manifest has no `license`"));
    }
    for spec in TABLE {
        if let Some(wanted) = manifest.limits.get(spec.key).filter(|wanted| *wanted > spec.default) {
            let (wanted, given) = (spec.unit.show(wanted), spec.unit.show(spec.default));
            let message =
                format!("it asks for {wanted} of `{}`; without a setting of the operator it gets {given}", spec.key);
            findings.push(warning("limit-above-default", message));
        }
    }
    let imports = |name: &str| component.surface.imports.iter().any(|import| import.starts_with(name));
    for (interface, requests, kind) in [
        ("opcell:plugin/tools", &manifest.tools, "tools"),
        ("opcell:plugin/skills", &manifest.skills, "skills"),
        ("opcell:plugin/files", &manifest.files, "files"),
        ("opcell:plugin/store", &manifest.stores, "stores"),
    ] {
        if !requests.is_empty() && !imports(interface) {
            findings.push(warning("unused-request", format!("it asks for {kind} and never calls `{interface}`")));
        }
    }
    findings
}

fn of_interface(plugin: &Plugin, name: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let operations = plugin.operations().iter().map(|one| (&*one.id, one.summary.as_str(), &one.arguments_schema));
    let judges = plugin.judges().iter().map(|one| (&*one.id, one.summary.as_str(), &one.arguments_schema));
    let all: Vec<(&str, &str, &Value)> = operations.chain(judges).collect();
    for (at, (id, summary, schema)) in all.iter().enumerate() {
        if summary.trim().is_empty() {
            findings.push(warning("no-summary", format!("`{id}` has no summary: models and people choose by it")));
        }
        if **schema == Value::Bool(true) || schema.as_object().is_some_and(serde_json::Map::is_empty) {
            findings.push(warning("open-arguments", format!("`{id}` accepts any arguments: give it a schema")));
        }
        if let (Some(name), Some((namespace, _))) = (name, id.split_once('/'))
            && namespace != name
            && did_you_mean(namespace, [name]).is_some()
        {
            findings
                .push(warning("namespace", format!("the namespace of `{id}` is almost the plugin's name `{name}`")));
        }
        if let Some((other, ..)) = all.iter().skip(at + 1).find(|(other, ..)| look(other) == look(id)) {
            findings.push(warning("confusable", format!("`{id}` and `{other}` look alike")));
        }
    }
    for judge in plugin.judges().iter().filter(|judge| judge.outcomes.is_empty()) {
        let message = format!("`{}` lists no outcomes: workflows that route by it cannot be checked", judge.id);
        findings.push(warning("open-outcomes", message));
    }
    findings
}

/// An id as a hasty reader sees it.
fn look(id: &str) -> String {
    let seen = |letter: char| match letter {
        '0' => Some('o'),
        '1' | 'i' => Some('l'),
        '5' => Some('s'),
        '-' => None,
        letter => Some(letter),
    };
    id.chars().filter_map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_toml_knows_the_limits_of_the_sandbox() {
        let keys: Vec<&str> = TABLE.iter().map(|spec| spec.key).collect();
        assert_eq!(opcell_author::project::LIMITS.to_vec(), keys);
    }

    #[test]
    fn ids_that_differ_in_what_is_easily_overlooked_look_alike() {
        assert_eq!(look("a/fill-in"), look("a/fil1in"));
        assert_ne!(look("a/read"), look("a/write"));
    }
}
