//! Runs a case in a real cell, under the real limits, and compares.

#![expect(clippy::disallowed_methods, reason = "all of it is in a temporary folder that this process has made")]

use super::{
    case::{Case, Tree},
    doubles::Doubles,
    places,
};
use opcell_sandbox::{
    CellError, CellRequest, Exports, LoadRequest, Plugin, PluginSource, Sandbox,
    grants::{FilesGrant, Grants, StoreGrant},
    host::HostServices,
    limits::LimitRequest,
    manifest::{Manifest, Request},
    receipt::Receipt,
    store::{StoreAnswer, StoreRequest},
};
use opcell_types::{CallContext, suggest::did_you_mean};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Files of a root that are compared after a case; more are not looked at.
const MAX_FILES: usize = 10_000;

/// The outcome of a case.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The differences, a sentence each; empty when the case passed.
    pub differences: Vec<String>,
    /// The receipt of the cell, if one ran.
    pub receipt: Option<Receipt>,
    /// The result of the call.
    pub got: Got,
}

/// The result of a call, with the keys of `expect` and `files`.
#[derive(Debug, Default, Clone)]
#[non_exhaustive]
pub struct Got {
    /// `data`, `summary`, `details`, `outcome`, `rationale`; only what there is.
    pub result: serde_json::Map<String, Value>,
    /// Reason and message.
    pub failure: Option<(String, String)>,
    /// Capabilities that were denied.
    pub denials: Vec<String>,
    /// Messages of the log.
    pub log: Vec<String>,
    /// The changes in each root: path to text, nothing where a file is gone.
    pub after: BTreeMap<String, BTreeMap<String, Option<String>>>,
}

/// Runs cases of one component.
pub struct Runner {
    sandbox: Sandbox,
    /// The operator's ceiling, where there is one.
    ceiling: LimitRequest,
    component: Arc<[u8]>,
    exports: Exports,
    name: String,
}

impl Runner {
    /// Runs cases of this component.
    #[must_use]
    pub fn new(sandbox: Sandbox, component: Arc<[u8]>, name: &str) -> Self {
        Self { sandbox, ceiling: LimitRequest::default(), component, exports: Exports::Contract, name: name.to_owned() }
    }

    /// The same of a component whose exports become operations by this rule.
    #[must_use]
    pub fn with_exports(self, exports: Exports) -> Self {
        Self { exports, ..self }
    }

    /// The same under the ceiling of a project; a case may set its own.
    #[must_use]
    pub fn with_ceiling(self, ceiling: LimitRequest) -> Self {
        Self { ceiling, ..self }
    }

    /// Runs one case. It gets what it has doubles for, and the plugin must have asked for it, as in a project.
    ///
    /// # Errors
    /// When the case cannot be set up: a file that cannot be made, a plugin that does not load.
    pub async fn run(&self, case: &Case, manifest: &Manifest) -> anyhow::Result<Outcome> {
        let scratch = tempfile::tempdir()?;
        let doubles = Arc::new(Doubles::of(case).map_err(anyhow::Error::msg)?);
        let mut load = LoadRequest::new(&self.name, PluginSource::Bytes(self.component.clone()));
        load.grants = grants(case, manifest, scratch.path())?;
        load.settings.clone_from(&case.config);
        load.limits = case.limits.or(&self.ceiling);
        load.exports.clone_from(&self.exports);
        let folders: Vec<(String, PathBuf)> =
            load.grants.files.iter().map(|(root, grant)| (root.clone(), grant.path.clone())).collect();
        let plugin = self.sandbox.load(load).await?;
        let seeded = context(case);
        for (store, double) in &case.stores {
            for (key, text) in &double.entries {
                let request = StoreRequest::Set { key: key.clone(), value: text.clone().into_bytes() };
                let set = doubles.stores_of(&seeded).ask(store, &StoreGrant::default(), request).await;
                set.map_err(|error| anyhow::anyhow!("the store `{store}` cannot be made: {error}"))?;
            }
        }
        let mut differences = unasked(case, manifest);
        for (at, earlier) in case.before.iter().enumerate() {
            let arguments = Value::Object(earlier.arguments.clone()).to_string();
            let context = CallContext { idempotency_key: format!("before-{at}").into(), ..context(case) };
            let host: Arc<dyn HostServices> = doubles.clone();
            let request = CellRequest { context, host, ..CellRequest::new(&earlier.operation, &arguments) };
            if let Err(error) = plugin.invoke(request).await.result {
                let place = place_of(case, &error, &["before", &at.to_string()], "operation");
                differences.push(format!("{place}before: `{}` failed: {}: {error}", earlier.operation, reason(&error)));
            }
        }
        let (result, receipt) = call(&plugin, case, doubles.clone()).await;
        let mut got = Got {
            denials: receipt.denials.iter().map(|denial| denial.capability.clone()).collect(),
            log: receipt.log.lines.iter().map(|line| line.message.clone()).collect(),
            ..Got::default()
        };
        let mut place = String::new();
        match result {
            Ok(given) => got.result = given,
            Err(error) => {
                let called = if case.judge.is_some() { "judge" } else { "operation" };
                place = place_of(case, &error, &[], called);
                got.failure = Some((reason(&error), error.to_string()));
            }
        }
        for (root, folder) in &folders {
            let Some(tree) = case.files.get(root) else { continue };
            got.after.insert(root.clone(), changed(tree, folder)?);
        }
        compare_result(case, &got, &place, &mut differences);
        compare_receipt(case, &receipt, &got, &mut differences);
        for (root, after) in &got.after {
            compare_files(root, case.files.get(root), after, &mut differences);
        }
        for (store, double) in &case.stores {
            for (key, expected) in &double.after {
                let request = StoreRequest::Get { key: key.clone() };
                let answer = doubles.stores_of(&seeded).ask(store, &StoreGrant::default(), request).await;
                let found = match answer {
                    Ok((StoreAnswer::Entry(entry), _)) => {
                        entry.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
                    }
                    _ => None,
                };
                if found != *expected {
                    let shown =
                        |text: &Option<String>| text.as_ref().map_or("nothing".to_owned(), |text| format!("{text:?}"));
                    differences.push(format!(
                        "store {store}/{key}: expected {}, got {}",
                        shown(expected),
                        shown(&found)
                    ));
                }
            }
        }
        for double in doubles.unanswered().into_iter().chain(missing_roots(case, &got)) {
            differences.push(format!("no double answers a call of the plugin; add for example:\n{double}"));
        }
        Ok(Outcome { differences, receipt: Some(receipt), got })
    }
}

/// Grants what the plugin requests, so that a call without a double is seen; what the case denies is not granted.
fn grants(case: &Case, manifest: &Manifest, scratch: &Path) -> anyhow::Result<Grants> {
    let mut grants = Grants::default();
    let denied_tool = |name: &str| case.tools.iter().any(|double| double.denied && double.name == name);
    let denied_skill = |name: &str| case.skills.get(name).is_some_and(|skill| skill.denied);
    let names = |list: &[Request]| list.iter().map(|request| request.name.clone()).collect::<Vec<_>>();
    grants.tools.extend(names(&manifest.tools).into_iter().filter(|name| !denied_tool(name)));
    grants.skills.extend(names(&manifest.skills).into_iter().filter(|name| !denied_skill(name)));
    // Stores need no double: a case begins with empty ones.
    grants.stores.extend(names(&manifest.stores).into_iter().map(|name| (name, StoreGrant::default())));
    for (root, tree) in &case.files {
        let folder = scratch.join(format!("root-{}", grants.files.len()));
        fs::create_dir(&folder)?;
        for (path, text) in &tree.tree {
            let path = inside(&folder, path)?;
            fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs::write(path, text)?;
        }
        let grant = if tree.writable { FilesGrant::read_write(&folder) } else { FilesGrant::read(&folder) };
        grants.files.insert(root.clone(), grant);
    }
    Ok(grants)
}

type Called = (Result<serde_json::Map<String, Value>, CellError>, Receipt);

async fn call(plugin: &Plugin, case: &Case, doubles: Arc<Doubles>) -> Called {
    let arguments = Value::Object(case.arguments.clone()).to_string();
    let id = case.operation.as_ref().or(case.judge.as_ref()).map_or("", String::as_str);
    let request = CellRequest { context: context(case), host: doubles, ..CellRequest::new(id, &arguments) };
    let present = |members: [(&str, Option<Value>); 3]| {
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    };
    if case.operation.is_some() {
        let done = plugin.invoke(request).await;
        let members = |success: opcell_sandbox::OperationSuccess| {
            let summary = success.summary.map(Value::from);
            let details = success.details.as_ref().map(Value::from);
            present([("data", Some(Value::from(&success.data))), ("summary", summary), ("details", details)])
        };
        return (done.result.map(members), done.receipt);
    }
    let done = plugin.judge(request).await;
    let members = |verdict: opcell_types::Verdict| {
        let outcome = match verdict.outcome {
            opcell_types::Outcome::Text(text) => text.to_string(),
            opcell_types::Outcome::Keyword(name) => format!(":{name}"),
        };
        present([("outcome", Some(json!(outcome))), ("rationale", verdict.rationale.map(Value::from)), ("", None)])
    };
    (done.result.map(members), done.receipt)
}

/// Returns the reason that a plugin gives, or the name of what the cell ran into.
fn reason(error: &CellError) -> String {
    match error {
        CellError::PluginFailure(failure) => failure.reason.to_string(),
        other => other.kind().to_owned(),
    }
}

/// A path of a case, which must not lead out of its root.
fn inside(folder: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let plain =
        !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part));
    anyhow::ensure!(plain, "`{path}` is not a relative path without `.` and `..`");
    Ok(folder.join(path))
}

/// Doubles of what the plugin does not ask for would never be reached.
fn unasked(case: &Case, manifest: &Manifest) -> Vec<String> {
    let asks = |list: &[Request], name: &str| list.iter().any(|request| request.name == name);
    let tools = case.tools.iter().enumerate();
    let tools = tools.filter(|(_, double)| !double.denied && !asks(&manifest.tools, &double.name));
    let mut differences: Vec<String> = tools
        .map(|(at, double)| {
            let place = case.places.at(&["tools", &at.to_string(), "name"]);
            place + &not_asked("tool", "tools", &double.name, &manifest.tools)
        })
        .collect();
    let mut report = |what: &str, key: &str, names: Vec<&String>, requests: &[Request]| {
        let names = names.into_iter().filter(|name| !asks(requests, name));
        differences
            .extend(names.map(|name| case.places.at(&[key, name.as_str()]) + &not_asked(what, key, name, requests)));
    };
    let skills = case.skills.iter().filter(|(_, skill)| !skill.denied).map(|(name, _)| name);
    report("skill", "skills", skills.collect(), &manifest.skills);
    report("file root", "files", case.files.keys().collect(), &manifest.files);
    report("store", "stores", case.stores.keys().collect(), &manifest.stores);
    differences
}

fn not_asked(what: &str, key: &str, name: &str, requests: &[Request]) -> String {
    let remedy = match did_you_mean(name, requests.iter().map(|request| request.name.as_str())) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => format!(": add [[capabilities.{key}]]"),
    };
    format!("the case has the {what} `{name}`, and plugin.toml does not ask for it{remedy}")
}

/// The place of a case that a failure is about: the name of the operation or its arguments. Empty for other failures.
fn place_of(case: &Case, error: &CellError, below: &[&str], called: &str) -> String {
    let message = error.to_string();
    let arguments;
    let path: Vec<&str> = match error.kind() {
        "unknown-operation" | "unknown-judge" => vec![called],
        "invalid-arguments" => {
            arguments = places::of_arguments(&message);
            arguments.iter().map(String::as_str).collect()
        }
        _ => return String::new(),
    };
    case.places.at(&[below, path.as_slice()].concat())
}

fn context(case: &Case) -> CallContext {
    let mut context = CallContext::default();
    context.run = case.context.run.as_str().into();
    context.step = case.context.step.as_str().into();
    context.idempotency_key = case.context.idempotency_key.as_str().into();
    context.visit = case.context.visit.unwrap_or(1);
    context.attempt = case.context.attempt.unwrap_or(1);
    context
}

fn compare_result(case: &Case, got: &Got, place: &str, differences: &mut Vec<String>) {
    let expect = &case.expect;
    match (&got.failure, &expect.failure) {
        (Some((reason, message)), None) => differences.push(format!("{place}it failed: {reason}: {message}")),
        (None, Some(expected)) => {
            let got = Value::Object(got.result.clone());
            let expected = expected.reason.as_ref().or(expected.message.as_ref());
            differences.push(format!("expected the failure `{}`, got {got}", expected.map_or("", String::as_str)));
        }
        (Some((reason, message)), Some(expected)) => {
            if let Some(expected) = expected.reason.as_ref().filter(|expected| *expected != reason) {
                differences.push(format!("expected the failure `{expected}`, got `{reason}`: {message}"));
            }
            if let Some(part) = expected.message.as_ref().filter(|part| !message.contains(part.as_str())) {
                differences.push(format!("expected a failure whose message contains {part:?}, got: {message}"));
            }
        }
        (None, None) => {
            for (what, expected) in expected_result(case) {
                let given = got.result.get(what).unwrap_or(&Value::Null);
                if !same(given, &expected) {
                    differences.push(difference(what, &expected, given));
                }
            }
        }
    }
}

/// Returns `true` if two values are the same to JSON Schema: 4 and 4.0 are one number.
fn same(one: &Value, other: &Value) -> bool {
    let mut pending = vec![(one, other)];
    while let Some((one, other)) = pending.pop() {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                // Integers beyond those that a float has are compared as they are.
                if one != other && (one.as_f64() != other.as_f64() || !(one.is_f64() || other.is_f64())) {
                    return false;
                }
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                pending.extend(one.iter().zip(other))
            }
            (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
                for (name, part) in one {
                    let Some(found) = other.get(name) else { return false };
                    pending.push((part, found));
                }
            }
            (one, other) if one == other => {}
            _ => return false,
        }
    }
    true
}

/// The members of a result that the case names.
fn expected_result(case: &Case) -> Vec<(&'static str, Value)> {
    let expect = &case.expect;
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let members = [
        ("data", expect.data.clone()),
        ("summary", text(&expect.summary)),
        ("details", expect.details.clone()),
        ("outcome", text(&expect.outcome)),
        ("rationale", text(&expect.rationale)),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Both values where they are short, else the lines that differ.
fn difference(what: &str, expected: &Value, got: &Value) -> String {
    const SHORT: usize = 100;
    let (one, other) = (expected.to_string(), got.to_string());
    if one.len() + other.len() <= SHORT {
        return format!("{what}: expected {one}, got {other}");
    }
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    lines(what, &pretty(expected), &pretty(got))
}

/// The lines that differ, with a few around them.
fn lines(what: &str, expected: &str, got: &str) -> String {
    let diff = similar::TextDiff::from_lines(expected, got);
    let mut shown = format!("{what}: expected (-) and got (+) differ");
    for line in diff.unified_diff().context_radius(2).to_string().lines().take(200) {
        shown.push_str("\n  ");
        shown.push_str(line);
    }
    shown
}

fn compare_receipt(case: &Case, receipt: &Receipt, got: &Got, differences: &mut Vec<String>) {
    let expect = &case.expect;
    if let Some(expected) = &expect.denials
        && *expected != got.denials
    {
        differences.push(format!("denials: expected {expected:?}, got {:?}", got.denials));
    }
    if let Some(expected) = &expect.log {
        let mut lines = got.log.iter();
        for part in expected {
            if !lines.any(|line| line.contains(part.as_str())) {
                let log = if got.log.is_empty() { "nothing".to_owned() } else { format!("{:?}", got.log) };
                differences.push(format!("log: expected a line with {part:?} after the ones before, got {log}"));
                break;
            }
        }
    }
    let bounds = [
        ("memory", "bytes", expect.at_most.memory, receipt.peak_memory),
        // Those of the plugin: an interpreter asks WASI for the time and random numbers on its own.
        ("host-calls", "host calls", expect.at_most.host_calls, receipt.host_calls.total() - receipt.host_calls.wasi),
        ("ticks", "ticks", expect.at_most.ticks, receipt.ticks),
    ];
    for (name, unit, bound, used) in bounds {
        if let Some(bound) = bound.filter(|bound| used > *bound) {
            differences.push(format!("at-most.{name}: the cell used {used} {unit}, more than {bound}"));
        }
    }
}

/// Returns the changes in a root: its files compared with those that the case made.
fn changed(tree: &Tree, folder: &Path) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            anyhow::ensure!(found.len() < MAX_FILES, "the plugin left more than {MAX_FILES} files");
            let about = path.symlink_metadata()?;
            if about.is_dir() {
                pending.push(path);
            } else if about.is_file() {
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                found.insert(path.strip_prefix(folder)?.to_string_lossy().into_owned(), Some(text));
            }
        }
    }
    let gone = tree.tree.keys().filter(|path| !found.contains_key(*path)).map(|path| (path.clone(), None));
    let gone: Vec<_> = gone.collect();
    found.retain(|path, text| tree.tree.get(path) != text.as_ref());
    found.extend(gone);
    Ok(found)
}

fn compare_files(
    root: &str,
    tree: Option<&Tree>,
    got: &BTreeMap<String, Option<String>>,
    differences: &mut Vec<String>,
) {
    let Some(tree) = tree else { return };
    let shown = |text: &Option<String>| text.as_ref().map_or("nothing".to_owned(), |text| format!("{text:?}"));
    for (path, expected) in &tree.after {
        // A file that did not change is as the case made it.
        let found = got.get(path).cloned().unwrap_or_else(|| tree.tree.get(path).cloned());
        match (expected, &found) {
            (expected, found) if expected == found => {}
            (Some(expected), Some(found)) if expected.contains('\n') => {
                differences.push(lines(&format!("{root}/{path}"), expected, found));
            }
            (expected, found) => {
                differences.push(format!("{root}/{path}: expected {}, got {}", shown(expected), shown(found)));
            }
        }
    }
    for (path, found) in got.iter().filter(|(path, _)| !tree.after.contains_key(*path)) {
        let text = serde_json::to_string(found).unwrap_or_default();
        differences.push(format!(
            "{root}/{path} is not as it was; if that is right, add:\nfiles:\n  {root}:\n    after:\n      {path}: {text}"
        ));
    }
}

/// Roots that the plugin was denied because the case has none, unless the case expects the denials.
fn missing_roots(case: &Case, got: &Got) -> Vec<String> {
    if case.expect.denials.is_some() {
        return Vec::new();
    }
    let roots = got.denials.iter().filter_map(|denial| denial.strip_prefix("files "));
    let mut roots: Vec<&str> = roots.filter(|root| !case.files.contains_key(*root)).collect();
    roots.dedup();
    roots.into_iter().map(|root| format!("files:\n  {root}:\n    tree: {{}}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_is_four_however_it_is_written_and_five_is_not() {
        assert!(same(&json!({"a": [4, {"b": 1.0}]}), &json!({"a": [4.0, {"b": 1}]})));
        assert!(
            !same(&json!([4]), &json!([5])) && !same(&json!([4]), &json!(["4"])) && !same(&json!({}), &json!({"a": 1}))
        );
        // As floats they would be the same.
        assert!(!same(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)));
    }
}
