//! `opcell plugin bench`: what a call of the author's own operation costs, and what it touches.

use super::{Component, build, sandbox};
use crate::{
    bench::{Bench, Guest, Options},
    cases,
    cli::{
        Exit, Failure, Global, Terminal,
        bench::grants,
        units::{self, Align, bytes, columns},
    },
};
use clap::Args;
use opcell_author::Profile;
use opcell_ir::Diagnostic;
use opcell_sandbox::{CellRequest, CompileMode, Grants};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Bytes of a page of WebAssembly.
const PAGE: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The plugin's folder, or a component; this folder if omitted.
    path: Option<PathBuf>,
    /// The operation; that of the first case of an operation if omitted.
    #[arg(long, value_name = "OPERATION", requires = "args")]
    op: Option<String>,
    /// Its arguments: a JSON object, `@FILE`, or `key=value` (repeatable).
    #[arg(long, value_name = "ARGS")]
    args: Vec<String>,
    /// Grant the plugin a directory: `files:NAME=PATH` to read, `files-write:NAME=PATH` to read and write (repeatable).
    #[arg(long, value_name = "GRANT", value_parser = grants::parse)]
    grant: Vec<grants::Granted>,
    /// Time for all measurements together, in seconds. Compiling the plugin and a first call of everything that is
    /// measured come before.
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
    let component = Component::read_any(&file)?;
    let mut grants = Grants::default();
    for granted in &args.grant {
        granted.check(&component.surface.manifest)?;
        grants.files.insert(granted.name.clone(), granted.files.clone());
    }
    let plugin = component.load(&sandbox()?, grants.clone()).await?;
    let once = plugin.invoke(CellRequest::new(&operation, &arguments)).await;
    if let Err(error) = once.result {
        let help = "no tool, skill or store is served while a plugin is measured; grant folders with `--grant`, or choose another operation with `--op` and `--args`";
        let message = format!("`{operation}` fails: {error}");
        return Err(Diagnostic::error("bench-operation", message).help(help.to_owned()).into());
    }
    let guest = Guest {
        grants,
        name: build::shown(&file),
        component: component.bytes.as_slice().into(),
        operation: operation.clone(),
        arguments,
        echo: false,
        exports: component.exports.clone(),
    };
    if cfg!(debug_assertions) {
        terminal.note("bench: this build of opcell is not optimised; its figures say little");
    }
    let compile = CompileMode::find().map_err(anyhow::Error::from)?;
    let options = Options::new(args.seconds, compile);
    let progress = |text: &str| terminal.note(&format!("bench: {text}"));
    let rows = Bench::new(guest, &options).await?.rows(&progress).await?;
    let receipt = once.receipt;
    if terminal.json {
        terminal.json(&json!({"ok": true, "operation": operation, "rows": rows, "receipt": receipt}))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = rows
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

/// The folder of the cases of a plugin's folder or of a component: beside it, or beside the `dist` that it is in.
pub(super) fn cases_beside(path: &Path) -> PathBuf {
    if !path.is_file() {
        return path.join("cases");
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = folder.join("cases");
    match folder.file_name() {
        Some(name) if name == "dist" && !beside.is_dir() => folder.with_file_name("cases"),
        _ => beside,
    }
}

/// The call of the first case of an operation that is expected to succeed.
fn first_case(path: &Path) -> Result<(String, String), Failure> {
    let place = cases_beside(path);
    let cases = cases::read(&place).map_err(|error| Diagnostic::error("case", error.to_string()))?;
    let call = cases.into_iter().find_map(|file| {
        let plain = file.case.expect.failure.is_none() && file.case.tools.is_empty() && file.case.files.is_empty();
        file.case.operation.filter(|_| plain).map(|id| (id, Value::Object(file.case.arguments).to_string()))
    });
    call.ok_or_else(|| {
        let message = format!("{} has no case of an operation that needs nothing", place.display());
        let help = "say what to call: --op NAMESPACE/NAME --args JSON";
        Diagnostic::error("bench-operation", message).help(help.to_owned()).into()
    })
}
