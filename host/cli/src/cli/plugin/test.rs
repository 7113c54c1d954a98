//! `opcell plugin test`: the cases of a plugin, each in a cell of its own.

use super::{Component, build, sandbox, watch::Watch};
use crate::{
    cases::{self, CaseFile, Outcome, Runner},
    cli::{
        Exit, Failure, Global, Terminal,
        args::{CallArgs, StoreArgs},
        op::replay::recorded,
        reasons,
        units::{bytes, duration},
    },
};
use clap::Args;
use opcell::{CellReceipt, config::Config};
use opcell_author::Profile;
use opcell_ir::Diagnostic;
use opcell_sandbox::limits::LimitRequest;
use opcell_types::files::{Readers, read_text_bounded, replace};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// The plugin's folder, or a component or a source plugin that is tested as it is; this folder if omitted.
    path: Option<PathBuf>,
    /// Run only the cases whose name contains this.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Folder of the case files; `cases` in the plugin's folder, or beside the component, if omitted.
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// Test the component in `dist/` as it is, without building it first.
    #[arg(long)]
    no_build: bool,
    /// Build and test again whenever the source or a case changes.
    #[arg(long, conflicts_with_all = ["no_build", "json", "junit"])]
    watch: bool,
    /// Rewrite the expectations of failing cases with what they got. Review the changes before you keep them.
    #[arg(long)]
    update: bool,
    /// Also write the results as JUnit XML, for continuous integration.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a case file of a recorded call of this run instead of running cases: run ID, unique prefix of one, or
    /// `last`.
    #[arg(long, value_name = "RUN", requires = "step", conflicts_with_all = ["no_build", "watch", "update", "junit"])]
    from_journal: Option<String>,
    /// With `--from-journal`: the step whose call becomes a case.
    #[arg(long, value_name = "NAME", requires = "from_journal")]
    step: Option<String>,
    /// With `--from-journal`: which of the step's recorded calls, from 1; the last one if omitted.
    #[arg(long, value_name = "N", requires = "from_journal")]
    call: Option<usize>,
    #[command(flatten)]
    store: StoreArgs,
}

impl TestArgs {
    /// The arguments of `opcell plugin dev`: test again on every change.
    pub(super) fn watching(path: Option<PathBuf>, case: Option<String>) -> Self {
        Self {
            path,
            case,
            cases: None,
            no_build: false,
            watch: true,
            update: false,
            junit: None,
            from_journal: None,
            step: None,
            call: None,
            store: StoreArgs::default(),
        }
    }
}

/// A case that ran.
struct Done {
    name: String,
    time: Duration,
    differences: Vec<String>,
    receipt: Option<CellReceipt>,
    updated: bool,
}

pub(super) async fn test(global: &Global, args: &TestArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let folder = opcell::source::in_folder(&folder).unwrap_or(folder);
    if let (Some(run), Some(step)) = (&args.from_journal, &args.step) {
        let which = CallArgs { step: step.clone(), call: args.call };
        return from_journal(global, args, &folder, run, &which, terminal).await;
    }
    if !args.watch {
        return once(global, args, &folder, terminal).await;
    }
    // A folder without a plugin will not become one by waiting.
    if !opcell::source::is_source(&folder) {
        opcell_author::Project::read(&folder).map_err(|error| build::wrong(&error))?;
    }
    loop {
        // Before the build: what changes while it runs must not be missed.
        let watch = match opcell::source::is_source(&folder) {
            true => Watch::of_file(&folder)?,
            false => Watch::over(&folder, args.cases.as_deref())?,
        };
        if let Err(failure) = once(global, args, &folder, terminal).await {
            match failure {
                Failure::Input(rejected) => terminal.rejected(&rejected),
                Failure::Other(error) => terminal.failure(&error),
            }
        }
        terminal.note("waiting for changes; Ctrl-C ends this");
        watch.changed().await;
    }
}

/// Writes the case file of a recorded call: `cases/STEP.yaml`, or as `--case` names it.
async fn from_journal(
    global: &Global,
    args: &TestArgs,
    folder: &Path,
    run: &str,
    which: &CallArgs,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let call = recorded(&args.store.looking(global)?, run, which, terminal).await?;
    let text = cases::case_of(&call);
    let plain = |letter: char| if letter.is_alphanumeric() || letter == '_' { letter } else { '-' };
    let name: String = args.case.as_ref().unwrap_or(&which.step).chars().take(100).map(plain).collect();
    let path = args.cases.clone().unwrap_or_else(|| folder.join("cases")).join(format!("{name}.yaml"));
    cases::write(&path, &text).map_err(|error| {
        let help = "`--case NAME` gives the case another name, `--cases DIR` another folder";
        Diagnostic::error("case-not-written", error.to_string()).help(help.to_owned())
    })?;
    if terminal.json {
        terminal.json(&json!({"ok": true, "case": path, "recorded": call.to_json()}))?;
    } else {
        terminal.line(&format!("wrote {}: look at it before you keep it", path.display()))?;
    }
    Ok(Exit::Done)
}

async fn once(global: &Global, args: &TestArgs, folder: &Path, terminal: &Terminal) -> Result<Exit, Failure> {
    // Built before anything else: whatever the cases are, the component is that of the source.
    let path = if folder.is_file() {
        folder.to_owned()
    } else if args.no_build {
        let project = opcell_author::Project::read(folder).map_err(|error| build::wrong(&error))?;
        project.folder.join("dist").join(format!("{}.wasm", project.name))
    } else {
        build::noted(global, folder, Profile::Release, terminal).await?.1.path
    };
    let place = args.cases.clone().unwrap_or_else(|| super::bench::cases_beside(folder));
    let cases = cases::read(&place).map_err(|error| Diagnostic::error("case", error.to_string()))?;
    let chosen = |case: &CaseFile| args.case.as_ref().is_none_or(|part| case.name.contains(part.as_str()));
    let cases: Vec<CaseFile> = cases.into_iter().filter(chosen).collect();
    if cases.is_empty() {
        let message = match &args.case {
            Some(part) => format!("no case in {} has {part:?} in its name", place.display()),
            None => format!("{} has no cases", place.display()),
        };
        let help =
            "write one: `operation: NAME/OPERATION`, `arguments: {}`, `expect: {}` in cases/first.yaml".to_owned();
        return Err(Diagnostic::error("no-cases", message).help(help).into());
    }
    let component = if folder.is_file() { Component::read_any(&path)? } else { Component::read(&path)? };
    let name = component.name();
    let runner = Runner::new(sandbox()?, component.bytes.as_slice().into(), &name)
        .with_exports(component.exports.clone())
        .with_ceiling(ceiling(project_of(folder), &name)?);
    let mut done = Vec::with_capacity(cases.len());
    for file in cases {
        let started = Instant::now();
        let outcome = runner.run(&file.case, &component.surface.manifest).await;
        let time = started.elapsed();
        let case = match outcome {
            Ok(outcome) => {
                let updated = args.update && !outcome.differences.is_empty();
                if updated {
                    update(&file, &outcome)?;
                }
                Done { name: file.name, time, differences: outcome.differences, receipt: outcome.receipt, updated }
            }
            Err(error) => {
                let differences = vec![format!("the case could not run: {error:#}")];
                Done { name: file.name, time, differences, receipt: None, updated: false }
            }
        };
        if !terminal.json {
            show(terminal, &case)?;
        }
        done.push(case);
    }
    if let Some(path) = &args.junit {
        let report = junit(&name, &done).to_string().map_err(anyhow::Error::from)?;
        replace(path, report.as_bytes(), Readers::of(path)).map_err(|error| unwritable(path, &error))?;
    }
    let updated = done.iter().filter(|case| case.updated).count();
    let failed = done.iter().filter(|case| !case.passed()).count();
    if terminal.json {
        let cases: Vec<_> = done
            .iter()
            .map(|case| {
                json!({
                    "name": case.name, "passed": case.passed(), "updated": case.updated,
                    "differences": case.differences, "receipt": case.receipt,
                })
            })
            .collect();
        terminal.json(&json!({"ok": failed == 0, "cases": cases}))?;
    } else {
        let updated = if updated > 0 { format!(", {updated} updated") } else { String::new() };
        terminal.line(&format!("{} passed, {failed} failed{updated}", done.len() - failed))?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::RunFailed })
}

/// The folder whose project file may set limits: the plugin's own, or that of a component.
fn project_of(path: &Path) -> &Path {
    if path.is_file() {
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    } else {
        path
    }
}

/// The limits that the project in the plugin's own folder gives it.
fn ceiling(folder: &Path, name: &str) -> Result<LimitRequest, Failure> {
    let file = folder.join("opcell.toml");
    let text = match read_text_bounded(&file, opcell::config::MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(LimitRequest::default()),
        Err(error) => return Err(error.into()),
    };
    let config = Config::parse(&file.display().to_string(), text, folder)?;
    Ok(config.plugins.get(name).map_or_else(|| config.limits.clone(), |plugin| plugin.limits_within(&config.limits)))
}

impl Done {
    fn passed(&self) -> bool {
        self.differences.is_empty() || self.updated
    }
}

fn update(file: &CaseFile, outcome: &Outcome) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&file.path).map_err(|error| unwritable(&file.path, &error))?;
    let text = cases::updated(&text, &file.case, &outcome.got);
    replace(&file.path, text.as_bytes(), Readers::of(&file.path)).map_err(|error| unwritable(&file.path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Diagnostic::error("unwritable", format!("{}: {error}", path.display())).into()
}

fn show(terminal: &Terminal, case: &Done) -> std::io::Result<()> {
    let verdict = match (case.differences.is_empty(), case.updated) {
        (true, _) => "ok     ",
        (false, true) => "updated",
        (false, false) => "FAILED ",
    };
    let used = |cell: &CellReceipt| format!("  {}, {}", duration(cell.duration_us), bytes(cell.peak_memory));
    let used = case.receipt.as_ref().map(used).unwrap_or_default();
    terminal.line(&format!("{verdict}  {}{used}", case.name))?;
    for difference in &case.differences {
        for line in difference.lines() {
            terminal.line(&format!("         {}", opcell::report::printable(line)))?;
        }
    }
    if let Some(receipt) = case.receipt.as_ref().filter(|_| terminal.verbose || !case.passed()) {
        for line in reasons::lines(receipt, &case.differences.join("\n"), terminal.verbose) {
            terminal.line(&format!("         {line}"))?;
        }
    }
    Ok(())
}

fn junit(suite: &str, done: &[Done]) -> Report {
    let mut tests = TestSuite::new(opcell::report::printable(suite).as_ref());
    for case in done {
        let status = if case.passed() {
            TestCaseStatus::success()
        } else {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(opcell::report::printable(&case.differences.join("\n")).as_ref());
            status
        };
        let mut test = TestCase::new(case.name.as_str(), status);
        test.set_classname(suite).set_time(case.time);
        tests.add_test_case(test);
    }
    let mut report = Report::new("opcell plugin test");
    report.add_test_suite(tests);
    report
}
