//! The usage and the refusals of calls, as a person reads them: a line per call, or per operation when there were many.

use super::units::{Align, bytes, columns, counted, duration};
use opcell::{CallReceipt, CellReceipt, Denial, Receipt, Remedy, TypedReceipt, remedy, report::printable};
use opcell_types::{text::one_line, touched::Touched};
use std::{borrow::Cow, collections::BTreeMap};

/// Calls up to this number are shown one by one.
const SINGLY: usize = 20;

/// Files, requests and keys that one call is shown to have touched, unless all are wanted.
const TOUCHED: usize = 10;

/// Bytes of the arguments, and of the result, of a program's call that are shown, unless all are wanted.
const SHOWN: usize = 120;

const ALIGNS: [Align; 6] = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];

/// The receipts of a call: of the call itself, if no cell answers for it, and of the cell that performed it.
#[derive(Default)]
pub struct CallReceipts {
    pub call: Option<Box<CallReceipt>>,
    pub cell: Option<Box<CellReceipt>>,
}

impl CallReceipts {
    /// Reads a receipt. A receipt of another version, whose fields differ, has neither.
    pub fn of(receipt: &Receipt) -> Self {
        match TypedReceipt::of(receipt) {
            Ok(TypedReceipt::Cell(cell)) => Self { call: None, cell: Some(cell) },
            Ok(TypedReceipt::Call(call)) => {
                let cell = call.receipt.as_ref().and_then(|cell| Self::of(cell).cell);
                Self { call: Some(call), cell }
            }
            _ => Self::default(),
        }
    }

    fn is_unread(&self) -> bool {
        self.call.is_none() && self.cell.is_none()
    }

    fn denials(&self) -> impl Iterator<Item = &Denial> {
        match (&self.call, &self.cell) {
            (Some(call), _) => call.denials.iter(),
            (None, Some(cell)) => cell.denials.iter(),
            (None, None) => [].iter(),
        }
    }
}

/// Returns `true` if a call was denied something.
pub fn have_denials(receipts: &[Receipt]) -> bool {
    receipts.iter().any(|receipt| CallReceipts::of(receipt).denials().next().is_some())
}

/// The cells and the calls of tools of a run, then what was denied.
pub fn summary(receipts: &[CallReceipts], singly: bool) -> Vec<String> {
    let cells: Vec<&CellReceipt> = receipts.iter().filter_map(|receipts| receipts.cell.as_deref()).collect();
    let calls: Vec<&CallReceipt> = receipts.iter().filter_map(|receipts| receipts.call.as_deref()).collect();
    let mut lines = table("cells", &cells, singly, cell_row, Ended::of_cell);
    lines.extend(table("tools", &calls, singly, call_row, Ended::of_call));
    let unread = receipts.iter().filter(|receipts| receipts.is_unread()).count();
    if unread > 0 {
        lines.push(format!("not shown: {}, which another version wrote", counted(unread as u64, "receipt")));
    }
    lines.extend(denial_lines(receipts.iter().flat_map(CallReceipts::denials), remedy::render));
    lines.iter().map(|line| printable(line).into_owned()).collect()
}

/// The receipts of one kind under a heading, if there are any.
fn table<'a, T>(
    title: &str,
    receipts: &[&'a T],
    singly: bool,
    row: impl Fn(&T) -> Vec<String>,
    ended: impl Fn(&'a T) -> Ended<'a>,
) -> Vec<String> {
    if receipts.is_empty() {
        return Vec::new();
    }
    let (title, rows) = match singly || receipts.len() <= SINGLY {
        true => (format!("{title}:"), receipts.iter().map(|receipt| row(receipt)).collect()),
        false => (format!("{title}, by operation:"), grouped(receipts.iter().copied().map(ended))),
    };
    let rows = columns(&rows, &ALIGNS).into_iter().map(|line| format!("  {line}"));
    [String::new(), title].into_iter().chain(rows).collect()
}

/// One line of a cell's receipt, what it touched, and its denials; `all`: whatever the number.
pub fn cell_lines(receipt: &CellReceipt, all: bool) -> Vec<String> {
    cell_lines_with(receipt, all, remedy::render)
}

/// As [`cell_lines`], for a command with remedies of its own.
pub fn cell_lines_with(receipt: &CellReceipt, all: bool, remedy: impl Fn(&Remedy) -> Option<String>) -> Vec<String> {
    single(cell_row(receipt), &receipt.touched, &receipt.denials, all, remedy)
}

/// One line of the receipt of a call outside of any cell, what it touched, and its denials.
pub fn call_lines(receipt: &CallReceipt, all: bool) -> Vec<String> {
    call_lines_with(receipt, all, remedy::render)
}

/// As [`call_lines`], for a command with remedies of its own.
pub fn call_lines_with(receipt: &CallReceipt, all: bool, remedy: impl Fn(&Remedy) -> Option<String>) -> Vec<String> {
    single(call_row(receipt), &receipt.touched, &receipt.denials, all, remedy)
}

fn single(
    row: Vec<String>,
    of: &Touched,
    denials: &[Denial],
    all: bool,
    remedy: impl Fn(&Remedy) -> Option<String>,
) -> Vec<String> {
    let mut lines = columns(&[row], &ALIGNS);
    lines.extend(touched(of, if all { usize::MAX } else { TOUCHED }));
    lines.extend(denial_lines(denials.iter(), remedy));
    lines.iter().map(|line| printable(line).into_owned()).collect()
}

/// Returns the columns of a cell: operation, duration, peak memory, host calls, and what went wrong.
fn cell_row(receipt: &CellReceipt) -> Vec<String> {
    let moved = [(receipt.file_bytes.read, "read"), (receipt.file_bytes.written, "written")];
    let moved = moved.into_iter().filter(|(n, _)| *n > 0);
    vec![
        receipt.operation.to_string(),
        duration(receipt.duration_us),
        bytes(receipt.peak_memory),
        counted(receipt.host_calls.total(), "host call"),
        moved.map(|(n, what)| format!("{} {what}", bytes(n))).collect::<Vec<_>>().join(", "),
        receipt.error.clone().unwrap_or_default(),
    ]
}

/// Returns the columns of a call: tool, duration, sizes of arguments and result, provider, and status.
fn call_row(receipt: &CallReceipt) -> Vec<String> {
    let (status, error) = (word(&receipt.status), receipt.error.as_deref().unwrap_or_default());
    let truncated = if receipt.truncated { "truncated" } else { "" };
    // `denied` once is enough.
    let error = if error == status { "" } else { error };
    let end: Vec<&str> = [&*status, error, truncated].into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        called(receipt).to_owned(),
        duration(receipt.duration_us),
        format!("{} in", bytes(receipt.bytes_in)),
        format!("{} out", bytes(receipt.bytes_out)),
        receipt.provider.as_ref().map(ToString::to_string).unwrap_or_default(),
        end.join("  "),
    ]
}

/// Warnings, calls, requests, files and keys, a line each; then how many more there are.
fn touched(of: &Touched, most: usize) -> Vec<String> {
    let moved = |parts: [(u64, &str); 2]| {
        let parts = parts.into_iter().filter(|(n, _)| *n > 0);
        parts.map(|(n, what)| format!("  {} {what}", bytes(n))).collect::<String>()
    };
    let requests = of.http.iter().map(|made| {
        let status = made.status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
        let moved = moved([(made.sent, "sent"), (made.received, "received")]);
        format!("  {} {}{}  {status}{moved}", made.method, made.origin, made.path)
    });
    let files = of.files.iter().map(|file| {
        let done: Vec<String> = file.actions.iter().map(word).collect();
        format!("  {} {}{}", done.join(", "), file.path, moved([(file.read, "read"), (file.written, "written")]))
    });
    let keys = of.stores.iter().map(|entry| {
        let done: Vec<String> = entry.actions.iter().map(word).collect();
        format!("  {} store {}", done.join(", "), entry.key)
    });
    let calls = of.calls.iter().map(|call| {
        let moved = moved([(call.sent, "sent"), (call.received, "received")]);
        let failed = call.failed.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
        let open = if call.duration_us.is_none() { "  no answer" } else { "" };
        let shown = if most == usize::MAX { usize::MAX } else { SHOWN };
        let part = |before: &str, text: Option<&String>| match text {
            Some(text) => format!("{before}{}", one_line(text, shown)),
            None => String::new(),
        };
        let (given, answer) = (part(" ", call.arguments.as_ref()), part(" → ", call.result.as_ref()));
        format!("  call {}{given}{answer}{failed}{open}{moved}", call.tool)
    });
    let warnings = of.warnings.iter().map(|warning| format!("  warning: {warning}"));
    let mut lines: Vec<String> = warnings.chain(calls).chain(requests).chain(files).chain(keys).collect();
    let hidden =
        lines.len().saturating_sub(most) as u64 + of.more_http + of.more_files + of.more_stores + of.more_calls;
    lines.truncate(most);
    if hidden > 0 {
        lines.push(format!("  and {hidden} more"));
    }
    lines
}

/// As JSON spells it.
fn word(action: &impl serde::Serialize) -> String {
    serde_json::to_value(action).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The end of a call, as calls of one operation are counted together.
struct Ended<'a> {
    called: &'a str,
    end: Cow<'a, str>,
    duration_us: u64,
    memory: u64,
    host_calls: u64,
}

impl<'a> Ended<'a> {
    fn of_cell(receipt: &'a CellReceipt) -> Self {
        Self {
            called: &receipt.operation,
            end: receipt.error.as_deref().unwrap_or_default().into(),
            duration_us: receipt.duration_us,
            memory: receipt.peak_memory,
            host_calls: receipt.host_calls.total(),
        }
    }

    fn of_call(receipt: &'a CallReceipt) -> Self {
        let end = receipt.error.as_deref().map_or_else(|| word(&receipt.status).into(), Cow::from);
        Self { called: called(receipt), end, duration_us: receipt.duration_us, memory: 0, host_calls: 0 }
    }
}

#[derive(Default)]
struct Group {
    times: Vec<u64>,
    memory: u64,
    host_calls: u64,
}

/// A row per operation and end: calls, median, maximum, peak memory or host calls, end.
fn grouped<'a>(ended: impl Iterator<Item = Ended<'a>>) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<(&str, Cow<'_, str>), Group> = BTreeMap::new();
    for call in ended {
        let group = groups.entry((call.called, call.end)).or_default();
        group.times.push(call.duration_us);
        group.memory = group.memory.max(call.memory);
        group.host_calls += call.host_calls;
    }
    let row = |((name, end), mut group): ((&str, Cow<'_, str>), Group)| {
        group.times.sort_unstable();
        let time = |at: usize| group.times.get(at).copied().unwrap_or_default();
        vec![
            name.to_owned(),
            counted(group.times.len() as u64, "call"),
            format!("{} median", duration(time(group.times.len() / 2))),
            format!("{} max", duration(time(group.times.len().saturating_sub(1)))),
            if group.memory > 0 { format!("{} peak", bytes(group.memory)) } else { String::new() },
            if group.host_calls > 0 {
                format!("{}  {end}", counted(group.host_calls, "host call"))
            } else {
                end.into_owned()
            },
        ]
    };
    groups.into_iter().map(row).collect()
}

/// Each denial once, however often it happened, its remedy on a line of its own so that it can be copied.
fn denial_lines<'a>(
    denials: impl Iterator<Item = &'a Denial>,
    remedy: impl Fn(&Remedy) -> Option<String>,
) -> Vec<String> {
    let mut found: Vec<(Vec<String>, usize)> = Vec::new();
    for denial in denials {
        let mut lines = vec![format!("denied: {}: {}", denial.capability, denial.rule)];
        if let Some(command) = remedy(&denial.remedy) {
            lines.push("  to allow it:".to_owned());
            lines.push(format!("    {command}"));
        }
        match found.iter_mut().find(|(known, _)| *known == lines) {
            Some((_, times)) => *times += 1,
            None => found.push((lines, 1)),
        }
    }
    for (lines, times) in &mut found {
        if let Some(first) = lines.first_mut().filter(|_| *times > 1) {
            first.push_str(&format!(" ({times} times)"));
        }
    }
    found.into_iter().flat_map(|(lines, _)| lines).collect()
}

fn called(receipt: &CallReceipt) -> &str {
    receipt.tool.as_deref().or(receipt.operation.as_deref()).unwrap_or_default()
}

/// A cell's receipt with these fields in JSON, and whatever else it needs.
#[cfg(test)]
pub fn cell_with(fields: &str) -> CellReceipt {
    let mut receipt = serde_json::json!({
        "plugin": "", "digest": opcell::Digest::of_hash(blake3::hash(b"")), "operation": "a/b", "duration-us": 1, "ticks": 0,
        "peak-memory": 65_536, "host-calls": {}, "bytes-in": 0, "bytes-out": 0,
    });
    let fields: serde_json::Value = serde_json::from_str(fields).unwrap_or_default();
    for (name, value) in fields.as_object().into_iter().flatten() {
        receipt[name.as_str()] = value.clone();
    }
    serde_json::from_value(receipt).unwrap_or_else(|error| panic!("{error}: {fields}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(operation: &str, us: u64, more: &str) -> CallReceipts {
        let fields = format!(r#"{{"operation":"{operation}","duration-us":{us}{more}}}"#);
        CallReceipts { call: None, cell: Some(Box::new(cell_with(&fields))) }
    }

    #[test]
    fn a_few_cells_are_shown_one_by_one() {
        let receipts = [cell("a/b", 27, ""), cell("workflow/constant-routing", 12_300, r#","error":"timeout""#)];
        assert_eq!(
            summary(&receipts, false),
            [
                "",
                "cells:",
                "  a/b                          27 µs  64 KiB  0 host calls",
                "  workflow/constant-routing  12.3 ms  64 KiB  0 host calls  timeout",
            ]
        );
    }

    #[test]
    fn many_cells_are_one_line_per_operation_unless_all_are_wanted() {
        let receipts: Vec<CallReceipts> = (1..=1_000).map(|us| cell("a/b", us, r#","host-calls":{"log":2}"#)).collect();
        let expected = "  a/b  1000 calls  501 µs median  1.0 ms max  64 KiB peak  2000 host calls";
        assert_eq!(summary(&receipts, false), ["", "cells, by operation:", expected]);
        assert_eq!(summary(&receipts, true).len(), 1_002);
    }

    #[test]
    fn what_a_call_touched_follows_it() {
        let touched = r#","touched":{"http":[{"method":"GET","origin":"https://a.example","path":"/x","status":200,"sent":0,"received":2048}],
            "files":[{"path":"repo/a.md","actions":["open","stat"],"read":5}],"more-files":2,
            "stores":[{"key":"counts/visits","actions":["get","set"]}]}"#;
        let cell = cell("a/b", 27, touched);
        let shown = |all| cell_lines(cell.cell.as_ref().unwrap(), all).into_iter().skip(1).collect::<Vec<_>>();
        let lines = [
            "  GET https://a.example/x  200  2 KiB received",
            "  open, stat repo/a.md  5 B read",
            "  get, set store counts/visits",
            "  and 2 more",
        ];
        assert_eq!(shown(false), lines);
        assert_eq!(shown(true), lines);
    }

    #[test]
    fn a_receipt_of_another_version_is_counted() {
        let unknown = Receipt::from(opcell_types::Value::object([("plugin", opcell_types::Value::from("p"))]));
        let receipts = [CallReceipts::of(&unknown), cell("a/b", 27, "")];
        let lines = summary(&receipts, false);
        assert_eq!(lines.last().unwrap(), "not shown: 1 receipt, which another version wrote");
    }

    #[test]
    fn a_call_is_shown_with_its_status_and_the_cell_that_performed_it() {
        let inner = serde_json::json!(cell_with(r#"{"operation":"geo/near"}"#));
        let call = serde_json::json!({
            "tool": "near", "provider": "plugin:geo", "status": "failed", "error": "timeout", "duration-us": 1_500,
            "bytes-in": 10, "bytes-out": 0, "receipt": inner,
        });
        let receipts = CallReceipts::of(&Receipt::from(opcell_types::Value::from(call)));
        assert_eq!(
            summary(&[receipts], false),
            [
                "",
                "cells:",
                "  geo/near  1 µs  64 KiB  0 host calls",
                "",
                "tools:",
                "  near  1.5 ms  10 B in  0 B out  plugin:geo  failed  timeout",
            ]
        );
    }

    #[test]
    fn a_denial_is_shown_once_with_its_remedy_on_a_line_of_its_own() {
        let remedy = r#"{"kind":"grant","plugin":"p","capability":"tool","name":"x"}"#;
        let denials = format!(r#","denials":[{{"capability":"tool x","rule":"it is not granted","remedy":{remedy}}}]"#);
        let receipts: Vec<CallReceipts> = (0..3).map(|_| cell("a/b", 1, &denials)).collect();
        let lines = summary(&receipts, false);
        assert_eq!(
            lines[lines.len() - 3..],
            ["denied: tool x: it is not granted (3 times)", "  to allow it:", "    opcell plugin grant p tool x"]
        );
    }
}
