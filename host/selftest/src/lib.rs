//! Hostile guests against the user's own build: each must be contained, and by what.
//!
//! The cases are folders of `tests/hostile`; their `README.md` says what a folder holds. They are part of the program,
//! so that a command tests the very build that it is.
//!
//! **Must not** know terminals or options: `opcell selftest` renders the [`Report`]s.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod against;
mod case;
mod guest;
mod machine;
pub mod project;
mod workspace;

pub use guest::component_from_wat;
pub use machine::{Machine, load_average, resident_kib};

pub use case::{Case, CaseFolder, Stage};

use async_trait::async_trait;
use opcell::stores::PluginStores;
use opcell_sandbox::{
    CellError, CellRequest, CellResult, FilesGrant, Grants, HostServices, LoadError, LoadRequest, Plugin, PluginSource,
    Receipt, Sandbox, StoreGrant, receipt::LogLine, store::Stores,
};
use opcell_types::{CallContext, Failure, ToolDescription, TouchLog, Value};
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinSet};
use workspace::Workspace;

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The case's folder.
    pub name: String,
    /// The attempt of the guest.
    pub title: String,
    /// `true` if everything that the case demands holds.
    pub contained: bool,
    /// The kind of error that stopped it, or `ok`.
    pub by: String,
    /// The message of the host about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// From loading to the end, in milliseconds.
    pub ms: f64,
    /// Host memory that the case left behind, in KiB.
    pub rss_growth_kib: i64,
    /// Host memory that the case took at its peak, in KiB; none where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_peak_kib: Option<i64>,
    /// The demand that does not hold, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The longest that reading a case may take.
const READING: Duration = Duration::from_secs(20);

/// Reads one case and runs it. A case that cannot be read, or not soon, is reported as one that does not hold.
pub async fn run_folder(sandbox: &Sandbox, folder: &CaseFolder) -> Report {
    let started = Instant::now();
    let (done, read) = oneshot::channel();
    let reader = folder.clone();
    // Not a thread that the end of this process waits for: parsing may take forever.
    let thread = std::thread::Builder::new().spawn(move || {
        let _ = done.send(reader.read());
    });
    let problem = match (thread, tokio::time::timeout(READING, read).await) {
        (Ok(_), Ok(Ok(Ok(case)))) => return run(sandbox, &case).await,
        (Ok(_), Ok(Ok(Err(error)))) => format!("not a case: {error:#}"),
        (Ok(_), Ok(Err(_))) => "reading the case failed".to_owned(),
        (Ok(_), Err(_)) => format!("reading the case takes more than {} s", READING.as_secs()),
        (Err(error), _) => format!("no thread to read the case: {error}"),
    };
    Report {
        name: folder.name.clone(),
        title: String::new(),
        contained: false,
        by: "nothing".to_owned(),
        message: String::new(),
        ms: millis(started.elapsed()),
        rss_growth_kib: 0,
        rss_peak_kib: None,
        problem: Some(problem),
    }
}

/// Runs one case.
pub async fn run(sandbox: &Sandbox, case: &Case) -> Report {
    forget_peak();
    let before = resident_kib().cast_signed();
    let started = Instant::now();
    let outcome = match Workspace::new(case.race) {
        // A cell that outlives this bound was not contained, whatever it says later.
        Ok(workspace) => match tokio::time::timeout(case.within, attack(sandbox, case, &workspace)).await {
            Ok(outcome) => outcome.map(|stopped| (stopped, workspace.problem(case))),
            Err(_) => Err(format!("still running after {} ms", case.within.as_millis())),
        },
        Err(error) => Err(format!("cannot create the folder of the case: {error}")),
    };
    let (Stopped { by, message }, problem) = match outcome {
        Ok((stopped, problem)) => (stopped, problem),
        Err(problem) => (Stopped { by: "nothing", message: String::new() }, Some(problem)),
    };
    let peak = peak_kib().map(|peak| (peak - before).max(0));
    let too_much = peak.filter(|peak| u64::try_from(*peak).is_ok_and(|peak| peak > case.rss_at_most >> 10));
    let problem = problem.or_else(|| {
        too_much.map(|peak| format!("it took {peak} KiB of host memory, more than {} KiB", case.rss_at_most >> 10))
    });
    let problem = problem.or_else(|| (!case.expects(by)).then(|| format!("expected {}", case.expect.join(" or "))));
    Report {
        name: case.name.clone(),
        title: case.title.clone(),
        contained: problem.is_none(),
        by: by.to_owned(),
        message,
        ms: millis(started.elapsed()),
        // The system may have taken back what others left.
        rss_growth_kib: (resident_kib().cast_signed() - before).max(0),
        rss_peak_kib: peak,
        problem,
    }
}

/// The stop of an attack.
struct Stopped {
    by: &'static str,
    message: String,
}

impl Stopped {
    fn not_at_all() -> Self {
        Self { by: "ok", message: String::new() }
    }
}

/// Loads and calls the guest; returns what stopped it.
async fn attack(sandbox: &Sandbox, case: &Case, workspace: &Workspace) -> Result<Stopped, String> {
    let mut grants = Grants { tools: case.grant_tools.iter().cloned().collect(), ..Grants::default() };
    if let Some(access) = case.grant_files {
        let grant = FilesGrant { access, write_quota: case.files_quota, ..FilesGrant::read(&workspace.root) };
        grants.files.insert("workspace".to_owned(), grant);
    }
    let store = |name: &String| (name.clone(), StoreGrant { quota: STORE_QUOTA, ..StoreGrant::default() });
    grants.stores.extend(case.grant_store.iter().map(store));
    let request = LoadRequest {
        grants,
        limits: case.limits.clone(),
        ..LoadRequest::new("hostile", PluginSource::Bytes(case.component.clone().into()))
    };
    let plugin = match sandbox.load(request).await {
        Ok(plugin) => plugin,
        Err(error) if case.at == Stage::Load => {
            let message = error.to_string();
            check_message(case, &message)?;
            return Ok(Stopped { by: load_error_kind(&error), message });
        }
        Err(error) => return Err(format!("it does not load: {error}")),
    };
    if case.at == Stage::Load {
        return Ok(Stopped::not_at_all());
    }
    let mut stopped = Stopped::not_at_all();
    for _ in 0..case.calls {
        let mut cells: JoinSet<_> = (0..case.concurrency).map(|_| call(Arc::clone(&plugin), case.judge)).collect();
        while let Some(cell) = cells.join_next().await {
            stopped = verdict(case, cell.map_err(|error| format!("the host itself failed: {error}"))?)?;
            if !case.expects(stopped.by) {
                return Ok(stopped);
            }
        }
    }
    Ok(stopped)
}

/// Runs one cell; what it returned does not matter, only whether it did.
async fn call(plugin: Arc<Plugin>, judge: bool) -> CellResult<()> {
    let request = CellRequest {
        host: Arc::new(Temptations { stores: PluginStores::in_memory() }),
        ..CellRequest::new("hostile/run", "{}")
    };
    if judge {
        let CellResult { result, receipt } = plugin.judge(request).await;
        CellResult { result: result.map(drop), receipt }
    } else {
        let CellResult { result, receipt } = plugin.invoke(request).await;
        CellResult { result: result.map(drop), receipt }
    }
}

/// Returns what stopped a call, once its receipt is as the case demands.
fn verdict(case: &Case, cell: CellResult<()>) -> Result<Stopped, String> {
    let CellResult { result, receipt } = cell;
    let message = result.as_ref().err().map(CellError::to_string).unwrap_or_default();
    check_receipt(case, &receipt)?;
    check_message(case, &message)?;
    Ok(result.err().map_or_else(Stopped::not_at_all, |error| Stopped { by: error.kind(), message }))
}

fn check_message(case: &Case, message: &str) -> Result<(), String> {
    if let Some(limit) = case.message_at_most
        && message.len() > limit
    {
        return Err(format!("the message has {} bytes", message.len()));
    }
    // Lists have line breaks.
    if case.message_without_control && message.chars().any(|c| c.is_control() && c != '\n') {
        return Err("the message contains control characters".to_owned());
    }
    Ok(())
}

fn check_receipt(case: &Case, receipt: &Receipt) -> Result<(), String> {
    let denials = receipt.denials.len();
    if denials < case.denials_at_least {
        return Err(format!("the receipt shows {denials} denials, expected {}", case.denials_at_least));
    }
    let is_control = |line: &LogLine| line.message.chars().any(|c| c.is_control() && c != '\n');
    if case.log_without_control && (receipt.log.lines.is_empty() || receipt.log.lines.iter().any(is_control)) {
        return Err("the receipt's log is empty or contains control characters".to_owned());
    }
    let log: usize = receipt.log.lines.iter().map(|line| line.message.len()).sum();
    match case.log_at_most {
        Some(limit) if log > limit => Err(format!("the receipt keeps {log} bytes of log")),
        _ => Ok(()),
    }
}

fn load_error_kind(error: &LoadError) -> &'static str {
    match error {
        LoadError::DescribeFailed { error, .. } => error.kind(),
        other => other.kind(),
    }
}

/// Thousandths of milliseconds in a second: reports have three digits after the point.
const MILLIS: f64 = 1e6;

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * MILLIS).round() / 1e3
}

/// Begins to measure the peak of resident memory anew, where the system lets it.
#[expect(clippy::disallowed_methods, reason = "a switch of the kernel, and no file")]
fn forget_peak() {
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak of resident memory since then.
fn peak_kib() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Bytes of the store that a case is granted.
const STORE_QUOTA: u64 = 64 << 10;

/// A host with a tool that never returns, one that no case is granted, and stores.
struct Temptations {
    stores: PluginStores,
}

#[async_trait]
impl HostServices for Temptations {
    fn stores(&self, context: &CallContext) -> Option<Box<dyn Stores>> {
        Some(self.stores.of("hostile", context))
    }

    fn tools(&self) -> Vec<ToolDescription> {
        ["selftest.sleep", "selftest.secret"]
            .map(|name| ToolDescription::new(name, "A temptation", Value::object::<&str>([])))
            .into()
    }

    async fn call_tool(
        &self,
        name: &str,
        _arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        if name == "selftest.sleep" {
            std::future::pending::<()>().await;
        }
        Ok("\"the secret\"".to_owned())
    }
}
