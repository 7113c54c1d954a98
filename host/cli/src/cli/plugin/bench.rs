//! `opcell plugin bench`: what a call of the author's own operation costs, and what it touches.

use super::{Component, build, sandbox};
use crate::{
    bench::{Bench, Guest, Options},
    cases,
    cli::{
        Exit, Failure, Global, Terminal,
        units::{self, Align, bytes, columns},
    },
};
use clap::Args;
use opcell_author::Profile;
use opcell_ir::Diagnostic;
use opcell_sandbox::{CellRequest, CompileMode, Grants};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Bytes of a page of WebAssembly.
const PAGE: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The plugin's folder, or a component; this folder if omitted.
    path: Option<PathBuf>,
    /// The operation; that of the first case of an operation if omitted.
    #[arg(long, value_name = "ID", requires = "args")]
    op: Option<String>,
    /// Its arguments: a JSON object, `@FILE`, or `key=value` (repeatable).
    #[arg(long, value_name = "ARGS")]
    args: Vec<String>,
    /// Time for all measurements together, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = units::seconds)]
    seconds: Duration,
}

pub(super) async fn bench(global: &Global, args: &BenchArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let path = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let file = match path.is_file() {
        true => path.clone(),
        false => build::noted(global, &path, Profile::Release, terminal).await?.1.path,
    };
    let (operation, arguments) = match &args.op {
        Some(operation) => {
            let arguments = crate::cli::input::arguments(&args.args, &serde_json::Value::Null)?;
            (operation.clone(), serde_json::to_string(&arguments).map_err(anyhow::Error::from)?)
        }
        None => first_case(&path)?,
    };
    let component = Component::read(&file)?;
    let plugin = component.load(&sandbox()?, Grants::default()).await?;
    let once = plugin.invoke(CellRequest::new(&operation, &arguments)).await;
    if let Err(error) = once.result {
        let help = "a plugin under measurement is granted nothing; choose an operation that needs nothing with --op and --args";
        let message = format!("`{operation}` fails: {error}");
        return Err(Diagnostic::error("bench-operation", message).help(help.to_owned()).into());
    }
    let guest = Guest {
        grants: Grants::default(),
        name: build::shown(&file),
        component: component.bytes.as_slice().into(),
        operation: operation.clone(),
        arguments,
        echo: false,
    };
    if cfg!(debug_assertions) {
        terminal.note("bench: this build of opcell is not optimised; its figures say little");
    }
    let compile = CompileMode::find().map_err(anyhow::Error::from)?;
    let options = Options::new(args.seconds, compile);
    let progress = |text: &str| terminal.note(&format!("bench: {text}"));
    let report = Bench::new(guest, &options).await?.run(&progress).await?;
    let receipt = once.receipt;
    if terminal.json {
        terminal.json(&json!({"ok": true, "operation": operation, "rows": report.rows, "receipt": receipt}))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            vec![
                row.name.clone(),
                format!("{:.1} µs", row.median_us),
                format!("{:.1} µs", row.p99_us),
                row.about.clone(),
            ]
        })
        .collect();
    terminal.line(&format!("{operation}: median and 99th percentile"))?;
    for line in columns(&rows, &[Align::Left, Align::Right, Align::Right, Align::Left]) {
        terminal.line(&format!("  {line}"))?;
    }
    terminal.line(&format!(
        "one call touches {} pages of memory ({}), makes {} host calls, moves {} in and {} out",
        receipt.peak_memory.div_ceil(PAGE),
        bytes(receipt.peak_memory),
        receipt.host_calls.total(),
        bytes(receipt.bytes_in),
        bytes(receipt.bytes_out),
    ))?;
    Ok(Exit::Done)
}

/// The call of the first case of an operation that is expected to succeed.
fn first_case(path: &std::path::Path) -> Result<(String, String), Failure> {
    let cases = cases::read(&path.join("cases")).map_err(|error| Diagnostic::error("case", error.to_string()))?;
    let call = cases.into_iter().find_map(|file| {
        let plain = file.case.expect.failure.is_none() && file.case.tools.is_empty() && file.case.files.is_empty();
        file.case.operation.filter(|_| plain).map(|id| (id, Value::Object(file.case.arguments).to_string()))
    });
    call.ok_or_else(|| {
        let message = format!("{} has no case of an operation that needs nothing", path.join("cases").display());
        let help = "say what to call: --op NAMESPACE/NAME --args JSON";
        Diagnostic::error("bench-operation", message).help(help.to_owned()).into()
    })
}
