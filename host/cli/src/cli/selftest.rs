//! `opcell selftest`: hostile guests against this very build.

use super::{Exit, Failure, Terminal};
use crate::selftest::{self, Case, Report};
use clap::Args;
use opcell_sandbox::{CompileMode, Sandbox, SandboxConfig};
use serde_json::json;

#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Run only the cases whose name contains this.
    filter: Option<String>,
}

pub async fn selftest(args: &SelftestArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut cases = Case::all()?;
    cases.retain(|case| args.filter.as_ref().is_none_or(|filter| case.name.contains(filter)));
    if cases.is_empty() {
        return Err(Failure::Other(anyhow::anyhow!(
            "no case has a name that contains this; `opcell selftest` runs all cases"
        )));
    }
    let compile = CompileMode::find().map_err(anyhow::Error::from)?;
    let sandbox = Sandbox::new(SandboxConfig::new(compile)).map_err(anyhow::Error::from)?;
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut reports = Vec::with_capacity(cases.len());
    for (done, case) in cases.iter().enumerate() {
        terminal.note(&format!("{:>3}/{} {}: {}", done + 1, cases.len(), case.name, case.title));
        let report = selftest::run(&sandbox, case).await;
        if !terminal.json {
            terminal.line(&row(&report, width))?;
        }
        reports.push(report);
    }
    let escaped = reports.iter().filter(|report| !report.contained).count();
    if terminal.json {
        terminal.json(&json!({"ok": escaped == 0, "cases": reports}))?;
    } else {
        terminal.line(&format!("{} contained, {escaped} got through", reports.len() - escaped))?;
    }
    Ok(if escaped == 0 { Exit::Done } else { Exit::RunFailed })
}

fn row(report: &Report, width: usize) -> String {
    let verdict = if report.contained { "contained" } else { "GOT THROUGH" };
    let problem = report.problem.as_ref().map(|problem| format!("  {problem}")).unwrap_or_default();
    format!(
        "{:width$}  {verdict:11}  by {:18} {:>9.1} ms {:>+8} KiB{problem}",
        report.name, report.by, report.ms, report.rss_growth_kib
    )
}
