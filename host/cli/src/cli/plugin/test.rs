//! `opcell plugin test`: the cases of a plugin, each in a cell of its own.

use super::{Component, build};
use crate::{
    cases::{self, Runner},
    cli::{Exit, Failure, Terminal},
};
use clap::Args;
use opcell_author::Profile;
use opcell_sandbox::{CompileMode, Sandbox, SandboxConfig};
use opcell_workflow::Diagnostic;
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The plugin's folder; this one if omitted.
    path: Option<PathBuf>,
    /// Test the component in `dist/` as it is, without building it first.
    #[arg(long)]
    no_build: bool,
    /// Also write the results as JUnit XML, for continuous integration.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// A case that ran.
struct Done {
    name: String,
    seconds: f64,
    differences: Vec<String>,
    receipt: serde_json::Value,
}

pub(super) async fn test(args: &TestArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let cases = cases::read(&folder.join("cases")).map_err(|error| Diagnostic::error("case", error.to_string()))?;
    if cases.is_empty() {
        let message = format!("{} has no cases", folder.join("cases").display());
        let help = "write one: `operation: NAME/OPERATION`, `arguments: {}`, `expect: {}` in cases/first.yaml".to_owned();
        return Err(Diagnostic::error("no-cases", message).help(help).into());
    }
    let path = if args.no_build {
        let project = opcell_author::Project::read(&folder).map_err(|error| build::wrong(&error))?;
        folder.join("dist").join(format!("{}.wasm", project.name))
    } else {
        terminal.note(&format!("building {}", folder.display()));
        build::built(&folder, Profile::Release).await?.1.path
    };
    let component = Component::read(&path)?;
    let name = component.surface.manifest.name.clone().unwrap_or_else(|| "plugin".to_owned());
    let runner = Runner::new(sandbox()?, component.bytes.as_slice().into(), &name);
    let mut done = Vec::with_capacity(cases.len());
    for (name, case) in cases {
        let started = Instant::now();
        let outcome = runner.run(&case, &component.surface.manifest).await;
        let seconds = started.elapsed().as_secs_f64();
        let (differences, receipt) = match outcome {
            Ok(outcome) => (outcome.differences, json!(outcome.receipt)),
            Err(error) => (vec![format!("the case could not run: {error:#}")], serde_json::Value::Null),
        };
        if !terminal.json {
            show(terminal, &name, &differences)?;
        }
        done.push(Done { name, seconds, differences, receipt });
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, junit(&name, &done)).map_err(|error| unwritable(path, &error))?;
    }
    let failed = done.iter().filter(|case| !case.differences.is_empty()).count();
    if terminal.json {
        let cases: Vec<_> = done
            .iter()
            .map(|case| {
                json!({"name": case.name, "passed": case.differences.is_empty(), "differences": case.differences, "receipt": case.receipt})
            })
            .collect();
        terminal.json(&json!({"ok": failed == 0, "cases": cases}))?;
    } else {
        terminal.line(&format!("{} passed, {failed} failed", done.len() - failed))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::RunFailed })
}

fn sandbox() -> anyhow::Result<Sandbox> {
    Ok(Sandbox::new(SandboxConfig::new(CompileMode::find()?))?)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Diagnostic::error("unwritable", format!("{}: {error}", path.display())).into()
}

fn show(terminal: &Terminal, name: &str, differences: &[String]) -> std::io::Result<()> {
    terminal.line(&format!("{}  {name}", if differences.is_empty() { "ok    " } else { "FAILED" }))?;
    for difference in differences {
        for line in difference.lines() {
            terminal.line(&format!("        {}", opcell::report::printable(line)))?;
        }
    }
    Ok(())
}

fn junit(suite: &str, done: &[Done]) -> String {
    let escape = |text: &str| {
        let printable = opcell::report::printable(text).into_owned();
        printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let failures = done.iter().filter(|case| !case.differences.is_empty()).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\">\n",
        escape(suite),
        done.len()
    );
    for case in done {
        let _ = write!(xml, "  <testcase name=\"{}\" time=\"{:.3}\"", escape(&case.name), case.seconds);
        if case.differences.is_empty() {
            xml.push_str("/>\n");
        } else {
            let text = case.differences.join("\n");
            let _ = write!(xml, ">\n    <failure message=\"{}\"/>\n  </testcase>\n", escape(&text));
        }
    }
    xml.push_str("</testsuite>\n");
    xml
}
