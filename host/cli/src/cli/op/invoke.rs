//! `opcell op invoke`, and the report of a call.

use crate::cli::{
    Exit, Failure, Global, Terminal, input, reasons,
    receipts::{CallReceipts, call_lines_with, cell_lines_with},
    units::continued,
};
use clap::Args;
use opcell::{CallError, CallOutput, FailureKind, Remedy, Success, remedy};
use opcell_types::Value;
use serde_json::json;

#[derive(Debug, Args)]
pub struct InvokeArgs {
    /// ID of an operation or a judge: `namespace/name`.
    #[arg(value_name = "OPERATION")]
    id: String,
    /// Arguments: a JSON object, `@FILE`, or `key=value` (repeatable); the schema says what a value is.
    #[arg(long, value_name = "ARGS")]
    args: Vec<String>,
}

pub async fn invoke(global: &Global, args: &InvokeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.host(terminal).await?;
    let entry = host.catalog().find(&args.id)?;
    let arguments = input::arguments(&args.args, &entry.arguments_schema)?;
    report(host.invoke(&args.id, arguments).await, terminal, Value::clone, remedy::render)
}

/// Prints the end of a call; of its data, what `shown` gives, and of its denials what `remedy` gives.
pub(in crate::cli) fn report(
    called: Result<CallOutput, CallError>,
    terminal: &Terminal,
    shown: impl Fn(&Value) -> Value,
    remedy: impl Fn(&Remedy) -> Option<String>,
) -> Result<Exit, Failure> {
    let receipt = called.as_ref().map_or_else(CallError::receipt, CallOutput::receipt).cloned();
    let result = match called {
        Ok(CallOutput { data, summary, details, .. }) => Ok(Success { data, summary, details }),
        Err(error) => Err(error.failure),
    };
    if let Some(receipt) = &receipt {
        let failed = result.as_ref().err().map(|failure| format!("{}: {}", failure.reason, failure.message));
        let message = failed.unwrap_or_default();
        let CallReceipts { call, cell } = CallReceipts::of(receipt);
        let of_call = call.map(|call| call_lines_with(&call, terminal.verbose, &remedy));
        let of_cell = cell.map(|cell| {
            let mut lines = cell_lines_with(&cell, terminal.verbose, &remedy);
            let reasons = reasons::of_failed(&cell, &message, terminal.verbose).into_iter();
            lines.extend(reasons.map(|line| format!("  {line}")));
            lines
        });
        of_call.into_iter().chain(of_cell).flatten().for_each(|line| terminal.note(&line));
    }
    let exit = match &result {
        Ok(_) => Exit::Done,
        Err(failure) if failure.kind() == FailureKind::InvalidArguments => Exit::InputWrong,
        Err(_) => Exit::RunFailed,
    };
    match (terminal.json, &result) {
        (true, Ok(success)) => terminal.json(&json!({"ok": true, "success": success, "receipt": receipt}))?,
        (true, Err(failure)) => terminal.json(&json!({"ok": false, "failure": failure, "receipt": receipt}))?,
        (false, Ok(success)) => terminal.json(&serde_json::Value::from(&shown(&success.data)))?,
        (false, Err(failure)) => {
            // The receipt above has the denial already, with what would allow it.
            if failure.denial.is_some() && receipt.is_some() && !terminal.quiet {
                terminal.failed(&format!("failed: {}", failure.reason));
                return Ok(exit);
            }
            terminal.failed(&format!("failed: {}: {}", failure.reason, continued(&failure.message)));
            if let Some(remedy) = failure.denial.as_ref().and_then(|denial| remedy(&denial.remedy)) {
                terminal.failed(&format!("to allow it: {remedy}"));
            }
        }
    }
    Ok(exit)
}
