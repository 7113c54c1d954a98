//! `opcell selftest`: hostile guests against this very build.

use super::{Exit, Failure, Terminal, passing::Passing};
use crate::bench::WASMTIME;
use crate::selftest::{self, CaseFolder, Machine, Report, against, project};
use clap::Args;
use opcell_sandbox::{CompileMode, Sandbox, SandboxConfig, limits::TABLE};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Run only the cases whose name contains this.
    filter: Option<String>,
    /// Run the cases in this folder instead of those that are built in; each is a folder with a `case.toml` and a
    /// guest.
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Run the commands of the cases in this folder: hostile projects, each a folder with a `case.toml` and what the
    /// commands find.
    #[arg(long, value_name = "DIR", conflicts_with = "cases")]
    project: Option<PathBuf>,
    /// Run neutral twins of the attacks through another host instead: a command that runs one module, such as those in
    /// `benches/adapters`.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["cases", "project"])]
    against: Option<String>,
}

pub async fn selftest(args: &SelftestArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(command) = &args.against {
        return against(command.clone(), args.filter.clone(), terminal).await;
    }
    if let Some(folder) = &args.project {
        return projects(folder, args.filter.as_deref(), terminal).await;
    }
    let mut cases = CaseFolder::all(args.cases.as_deref())?;
    cases.retain(|case| args.filter.as_ref().is_none_or(|filter| case.name.contains(filter)));
    if cases.is_empty() {
        let all = match &args.cases {
            Some(folder) => format!("`{}` holds no case with such a name, or none at all", folder.display()),
            None if args.filter.as_ref().is_some_and(|filter| Path::new(filter).exists()) => {
                "this is the name of a case, and not a path; `--cases DIR` runs the cases in a folder, each a folder with a \
                 `case.toml` and a guest"
                    .to_owned()
            }
            None => "no case has a name that contains this; `opcell selftest` runs all cases".to_owned(),
        };
        return Err(Failure::Other(anyhow::anyhow!(all)));
    }
    let compile = CompileMode::find().map_err(anyhow::Error::from)?;
    let sandbox = Sandbox::new(SandboxConfig::new(compile)).map_err(anyhow::Error::from)?;
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut reports = Vec::with_capacity(cases.len());
    if let Some(warning) = sandbox.warning() {
        terminal.note(warning);
    }
    let passing = Passing::new(terminal);
    for (done, case) in cases.iter().enumerate() {
        passing.say(&format!("{:>3}/{} {}", done + 1, cases.len(), case.name));
        let report = selftest::run_folder(&sandbox, case).await;
        if !terminal.json {
            passing.aside(|| terminal.line(&row(&report, width)))?;
        }
        reports.push(report);
    }
    drop(passing);
    summed_up(&reports, terminal)
}

fn summed_up(reports: &[Report], terminal: &Terminal) -> Result<Exit, Failure> {
    let escaped = reports.iter().filter(|report| !report.contained).count();
    if terminal.json {
        let origin = json!({
            "opcell": env!("CARGO_PKG_VERSION"), "commit": option_env!("OPCELL_COMMIT"),
            "wasmtime": WASMTIME, "date": jiff::Timestamp::now().strftime("%F").to_string(),
            "machine": Machine::this(),
            "limits": TABLE.iter().map(|limit| (limit.key, limit.default)).collect::<BTreeMap<_, _>>(),
        });
        terminal.json(&json!({"ok": escaped == 0, "origin": origin, "cases": reports}))?;
    } else {
        terminal.line(&format!("{} contained, {escaped} got through", reports.len() - escaped))?;
    }
    Ok(if escaped == 0 { Exit::Done } else { Exit::RunFailed })
}

async fn projects(folder: &Path, filter: Option<&str>, terminal: &Terminal) -> Result<Exit, Failure> {
    let name = |case: &PathBuf| case.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut cases = project::all(folder)?;
    cases.retain(|case| filter.is_none_or(|filter| name(case).contains(filter)));
    if cases.is_empty() {
        let message = format!("`{}` holds no case with such a name, or none at all", folder.display());
        return Err(Failure::Other(anyhow::anyhow!(message)));
    }
    let width = cases.iter().map(|case| name(case).len()).max().unwrap_or(0);
    let (mut reports, count) = (Vec::with_capacity(cases.len()), cases.len());
    let passing = Passing::new(terminal);
    for (done, case) in cases.into_iter().enumerate() {
        passing.say(&format!("{:>3}/{count} {}", done + 1, name(&case)));
        let report = tokio::task::spawn_blocking(move || project::run(&case)).await.map_err(anyhow::Error::from)?;
        if !terminal.json {
            passing.aside(|| terminal.line(&row(&report, width)))?;
        }
        reports.push(report);
    }
    drop(passing);
    summed_up(&reports, terminal)
}

async fn against(command: String, filter: Option<String>, terminal: &Terminal) -> Result<Exit, Failure> {
    let (notes, mut noted) = tokio::sync::mpsc::unbounded_channel::<String>();
    // An adapter runs for seconds, and is waited for on a thread of its own.
    let compared = tokio::task::spawn_blocking(move || {
        against::compare(&command, filter.as_deref(), &|name| {
            // No one listens any more only when the command ends.
            let _ = notes.send(name.to_owned());
        })
    });
    let passing = Passing::new(terminal);
    while let Some(name) = noted.recv().await {
        passing.say(&name);
    }
    drop(passing);
    let compared = compared.await.map_err(anyhow::Error::from)??;
    let escaped = compared.cases.iter().filter(|case| !case.contained).count();
    if terminal.json {
        terminal.json(&json!({"ok": escaped == 0, "against": compared.command, "idle_bytes": compared.idle_bytes, "cases": compared.cases}))?;
    } else {
        let width = compared.cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
        for case in &compared.cases {
            let verdict = if case.contained { "contained" } else { "GOT THROUGH" };
            let (name, by, peak) = (&case.name, &case.by, case.peak_bytes >> 20);
            terminal.line(&format!("{name:width$}  {verdict:11}  {:>6} ms {peak:>6} MiB  {by}", case.elapsed_ms))?;
        }
        terminal.line(&format!("{} contained, {escaped} got through", compared.cases.len() - escaped))?;
    }
    Ok(if escaped == 0 { Exit::Done } else { Exit::RunFailed })
}

fn row(report: &Report, width: usize) -> String {
    let verdict = if report.contained { "contained" } else { "GOT THROUGH" };
    // A call that may return is contained as well: what it tried was refused, and the receipt says so.
    let by = match report.by.as_str() {
        "ok" => "call returned".to_owned(),
        "nothing" => String::new(),
        kind => format!("by {kind}"),
    };
    let problem = report.problem.as_ref().map(|problem| format!("  {problem}")).unwrap_or_default();
    let peak = report.rss_peak_kib.map(|peak| format!("{peak:>8} KiB")).unwrap_or_default();
    format!("{:width$}  {verdict:11}  {by:21} {:>9.1} ms {peak}{problem}", report.name, report.ms)
}
