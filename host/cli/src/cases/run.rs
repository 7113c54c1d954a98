//! Runs a case in a real cell, under the real limits, and compares.

use super::{case::Case, doubles::Doubles};
use opcell_sandbox::{
    CellRequest, LoadRequest, PluginSource, Sandbox,
    grants::{FilesGrant, Grants},
    manifest::Manifest,
    receipt::Receipt,
};
use opcell_types::CallContext;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How a case came out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What differs, a sentence each; empty when the case passed.
    pub differences: Vec<String>,
    /// What the cell used, if one ran.
    pub receipt: Option<Receipt>,
}

/// Runs cases of one component.
pub struct Runner {
    sandbox: Sandbox,
    component: Arc<[u8]>,
    name: String,
}

impl Runner {
    /// Runs cases of this component.
    #[must_use]
    pub fn new(sandbox: Sandbox, component: Arc<[u8]>, name: &str) -> Self {
        Self { sandbox, component, name: name.to_owned() }
    }

    /// Runs one case. It gets what it has doubles for, and the plugin must have asked for it, as in a project.
    ///
    /// # Errors
    /// When the case cannot be set up: a file that cannot be made, a plugin that does not load.
    pub async fn run(&self, case: &Case, manifest: &Manifest) -> anyhow::Result<Outcome> {
        let scratch = tempfile::tempdir()?;
        let doubles = Arc::new(Doubles::of(case).map_err(anyhow::Error::msg)?);
        let mut grants = Grants::default();
        grants.tools.extend(case.tools.iter().filter(|double| !double.denied).map(|double| double.name.clone()));
        grants.skills.extend(case.skills.keys().cloned());
        for (root, tree) in &case.files {
            let folder = scratch.path().join(format!("root-{}", grants.files.len()));
            fs::create_dir(&folder)?;
            for (path, text) in &tree.tree {
                let path = inside(&folder, path)?;
                fs::create_dir_all(path.parent().unwrap_or(&folder))?;
                fs::write(path, text)?;
            }
            let grant = if tree.writable { FilesGrant::read_write(&folder) } else { FilesGrant::read(&folder) };
            grants.files.insert(root.clone(), grant);
        }
        let folders: Vec<(String, PathBuf)> =
            grants.files.iter().map(|(root, grant)| (root.clone(), grant.path.clone())).collect();
        let mut differences = unasked(case, manifest);
        let mut load = LoadRequest::new(&self.name, PluginSource::Bytes(self.component.clone()));
        load.grants = grants;
        let plugin = self.sandbox.load(load).await?;
        let arguments = Value::Object(case.arguments.clone()).to_string();
        let id = case.operation.as_ref().or(case.judge.as_ref()).map_or("", String::as_str);
        let request = CellRequest { context: context(case), host: doubles.clone(), ..CellRequest::new(id, &arguments) };
        let (result, receipt) = if case.operation.is_some() {
            let done = plugin.invoke(request).await;
            let result = done.result.map(|success| json!({"data": success.data, "summary": success.summary}));
            (result, done.receipt)
        } else {
            let done = plugin.judge(request).await;
            let outcome = |verdict: opcell_types::Verdict| {
                let outcome = serde_json::to_value(&verdict.outcome).unwrap_or_default();
                let text = outcome.get("text").and_then(Value::as_str).map(str::to_owned);
                let keyword = outcome.get("keyword").and_then(Value::as_str).map(|name| format!(":{name}"));
                json!({"outcome": text.or(keyword)})
            };
            (done.result.map(outcome), done.receipt)
        };
        match (&result, &case.expect.failure) {
            (Ok(given), None) => compare_result(case, given, &mut differences),
            (Ok(given), Some(expected)) => {
                differences.push(format!("expected the failure `{}`, got {given}", expected.reason));
            }
            (Err(error), None) => differences.push(format!("it failed: {}: {error}", error.kind())),
            (Err(error), Some(expected)) => {
                let reason = match error {
                    opcell_sandbox::error::CellError::PluginFailure(failure) => failure.reason.to_string(),
                    other => other.kind().to_owned(),
                };
                if reason != expected.reason {
                    differences.push(format!("expected the failure `{}`, got `{reason}`: {error}", expected.reason));
                }
                if let Some(part) = expected.message.as_ref().filter(|part| !error.to_string().contains(part.as_str())) {
                    differences.push(format!("expected a failure whose message contains {part:?}, got: {error}"));
                }
            }
        }
        compare_receipt(case, &receipt, &mut differences);
        compare_files(case, &folders, &mut differences)?;
        for double in doubles.unanswered() {
            differences.push(format!("no double answers a call of the plugin; add for example:\n{double}"));
        }
        Ok(Outcome { differences, receipt: Some(receipt) })
    }
}

/// A path of a case, which must not lead out of its root.
fn inside(folder: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let plain = !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| !["", ".", ".."].contains(&part));
    anyhow::ensure!(plain, "`{path}` is not a relative path without `.` and `..`");
    Ok(folder.join(path))
}

/// Doubles of what the plugin does not ask for would never be reached.
fn unasked(case: &Case, manifest: &Manifest) -> Vec<String> {
    let asks = |list: &[opcell_sandbox::manifest::Request], name: &str| list.iter().any(|request| request.name == name);
    let tools = case.tools.iter().filter(|double| !asks(&manifest.tools, &double.name));
    let mut differences: Vec<String> = tools.map(|double| not_asked("tool", "tools", &double.name)).collect();
    let skills = case.skills.keys().filter(|name| !asks(&manifest.skills, name));
    differences.extend(skills.map(|name| not_asked("skill", "skills", name)));
    let roots = case.files.keys().filter(|name| !asks(&manifest.files, name));
    differences.extend(roots.map(|name| not_asked("file root", "files", name)));
    differences
}

fn not_asked(what: &str, key: &str, name: &str) -> String {
    format!("the case has the {what} `{name}`, and plugin.toml does not ask for it: add [[capabilities.{key}]]")
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

fn compare_result(case: &Case, given: &Value, differences: &mut Vec<String>) {
    let expect = &case.expect;
    let mut compare = |what: &str, expected: Option<Value>| {
        if let Some(expected) = expected
            && given[what] != expected
        {
            differences.push(format!("{what}: expected {expected}, got {}", given[what]));
        }
    };
    compare("data", expect.data.clone());
    compare("summary", expect.summary.clone().map(Value::from));
    compare("outcome", expect.outcome.clone().map(Value::from));
}

fn compare_receipt(case: &Case, receipt: &Receipt, differences: &mut Vec<String>) {
    let expect = &case.expect;
    let denied: Vec<String> = receipt.denials.iter().map(|denial| denial.capability.to_string()).collect();
    if let Some(expected) = &expect.denials
        && *expected != denied
    {
        differences.push(format!("denials: expected {expected:?}, got {denied:?}"));
    }
    if let Some(expected) = &expect.log {
        let mut lines = receipt.log.lines.iter();
        for part in expected {
            if !lines.any(|line| line.message.contains(part.as_str())) {
                differences.push(format!("log: no line after the ones before contains {part:?}"));
            }
        }
    }
    let calls = serde_json::to_value(receipt.host_calls).ok();
    let calls = calls.as_ref().and_then(Value::as_object);
    let calls: u64 = calls.into_iter().flat_map(|kinds| kinds.values()).filter_map(Value::as_u64).sum();
    let bounds = [
        ("memory", "bytes", expect.at_most.memory, receipt.peak_memory),
        ("host-calls", "calls", expect.at_most.host_calls, calls),
        ("ticks", "ticks", expect.at_most.ticks, receipt.ticks),
    ];
    for (name, unit, bound, used) in bounds {
        if let Some(bound) = bound.filter(|bound| used > *bound) {
            differences.push(format!("at-most.{name}: {used} {unit} were used, more than {bound}"));
        }
    }
}

fn compare_files(case: &Case, folders: &[(String, PathBuf)], differences: &mut Vec<String>) -> anyhow::Result<()> {
    for (root, folder) in folders {
        let Some(tree) = case.files.get(root) else { continue };
        for (path, expected) in &tree.after {
            let found = fs::read(inside(folder, path)?).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            if found != *expected {
                let shown = |text: &Option<String>| text.as_ref().map_or("nothing".to_owned(), |text| format!("{text:?}"));
                differences.push(format!("{root}/{path}: expected {}, got {}", shown(expected), shown(&found)));
            }
        }
    }
    Ok(())
}
