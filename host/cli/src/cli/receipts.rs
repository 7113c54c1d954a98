//! The usage and the refusals of calls, as a person reads them: a line per call, or per operation when there were many.

use super::units::{Align, bytes, columns, counted, duration};
use opcell::{Remedy, remedy, report::printable};
use opcell_engine::receipt::{Receipt, cell_of, is_of_call};
use opcell_types::{Value, text::one_line, touched::Touched};
use std::collections::BTreeMap;

/// Calls up to this number are shown one by one.
const SINGLY: usize = 20;

/// Files, requests and keys that one call is shown to have touched, unless all are wanted.
const TOUCHED: usize = 10;

/// Bytes of the arguments, and of the result, of a program's call that are shown, unless all are wanted.
const SHOWN: usize = 120;

const ALIGNS: [Align; 6] = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];

/// The cells and the calls of tools of a run, then what was denied.
pub fn summary(receipts: &[Receipt], singly: bool) -> Vec<String> {
    let cells: Vec<&Value> = receipts.iter().filter_map(|receipt| cell_of(receipt)).collect();
    let calls: Vec<&Value> = receipts.iter().filter(|receipt| is_of_call(receipt)).map(|receipt| &**receipt).collect();
    let mut lines = Vec::new();
    for (title, receipts, row) in [("cells", &cells, cell_row as fn(&Value) -> _), ("tools", &calls, call_row)] {
        if receipts.is_empty() {
            continue;
        }
        lines.push(String::new());
        let rows: Vec<Vec<String>> = if singly || receipts.len() <= SINGLY {
            lines.push(format!("{title}:"));
            receipts.iter().map(|receipt| row(receipt)).collect()
        } else {
            lines.push(format!("{title}, by operation:"));
            grouped(receipts)
        };
        lines.extend(columns(&rows, &ALIGNS).into_iter().map(|line| format!("  {line}")));
    }
    lines.extend(denials(receipts));
    lines.iter().map(|line| printable(line).into_owned()).collect()
}

/// One line of a cell's receipt, what it touched, and its denials; `all`: whatever the number.
pub fn cell_lines(receipt: &Value, all: bool) -> Vec<String> {
    single(cell_row(receipt), receipt, all, remedy::render)
}

/// As [`cell_lines`], for a command with remedies of its own.
pub fn cell_lines_with(receipt: &Value, all: bool, remedy: impl Fn(&Remedy) -> Option<String>) -> Vec<String> {
    single(cell_row(receipt), receipt, all, remedy)
}

/// One line of the receipt of a call outside of any cell, what it touched, and its denials.
pub fn call_lines(receipt: &Value, all: bool) -> Vec<String> {
    single(call_row(receipt), receipt, all, remedy::render)
}

fn single(row: Vec<String>, receipt: &Value, all: bool, remedy: impl Fn(&Remedy) -> Option<String>) -> Vec<String> {
    let mut lines = columns(&[row], &ALIGNS);
    lines.extend(touched(receipt, if all { usize::MAX } else { TOUCHED }));
    lines.extend(denial_lines([receipt].into_iter(), remedy));
    lines.iter().map(|line| printable(line).into_owned()).collect()
}

/// Returns the columns of a cell: operation, duration, peak memory, host calls, and what went wrong.
fn cell_row(receipt: &Value) -> Vec<String> {
    let mut files = Vec::new();
    if let Some(moved) = receipt.get("file-bytes") {
        for (what, n) in [("read", count(moved.get("read"))), ("written", count(moved.get("written")))] {
            if n > 0 {
                files.push(format!("{} {what}", bytes(n)));
            }
        }
    }
    vec![
        text(receipt, "operation").to_owned(),
        duration(took(receipt)),
        bytes(count(receipt.get("peak-memory"))),
        counted(host_calls(receipt), "host call"),
        files.join(", "),
        text(receipt, "error").to_owned(),
    ]
}

/// Returns the columns of a call: tool, duration, sizes of arguments and result, provider, and status.
fn call_row(receipt: &Value) -> Vec<String> {
    let size = |key: &str| bytes(count(receipt.get(key)));
    let (status, error) = (text(receipt, "status"), text(receipt, "error"));
    let truncated = if receipt.get("truncated") == Some(&Value::Bool(true)) { "truncated" } else { "" };
    // `denied` once is enough.
    let error = if error == status { "" } else { error };
    let end: Vec<&str> = [status, error, truncated].into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        called(receipt).to_owned(),
        duration(took(receipt)),
        format!("{} in", size("bytes-in")),
        format!("{} out", size("bytes-out")),
        text(receipt, "provider").to_owned(),
        end.join("  "),
    ]
}

/// Warnings, calls, requests, files and keys, a line each; then how many more there are.
fn touched(receipt: &Value, most: usize) -> Vec<String> {
    let Some(of) = receipt.get("touched").and_then(|of| of.to::<Touched>().ok()) else {
        return Vec::new();
    };
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

#[derive(Default)]
struct Group {
    times: Vec<u64>,
    memory: u64,
    host_calls: u64,
}

/// A row per operation and end: calls, median, maximum, peak memory or host calls, end.
fn grouped(receipts: &[&Value]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
    for receipt in receipts {
        let end = [text(receipt, "error"), text(receipt, "status")].into_iter().find(|end| !end.is_empty());
        let group = groups.entry((called(receipt), end.unwrap_or_default())).or_default();
        group.times.push(took(receipt));
        group.memory = group.memory.max(count(receipt.get("peak-memory")));
        group.host_calls += host_calls(receipt);
    }
    let row = |((name, end), mut group): ((&str, &str), Group)| {
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
                end.to_owned()
            },
        ]
    };
    groups.into_iter().map(row).collect()
}

/// Each denial once, however often it happened, its remedy on a line of its own so that it can be copied.
pub fn denials(receipts: &[Receipt]) -> Vec<String> {
    denial_lines(receipts.iter().map(|receipt| &**receipt), remedy::render)
}

fn denial_lines<'a>(
    receipts: impl Iterator<Item = &'a Value>,
    remedy: impl Fn(&Remedy) -> Option<String>,
) -> Vec<String> {
    let mut found: Vec<(Vec<String>, usize)> = Vec::new();
    for denial in receipts.flat_map(remedy::of_receipt) {
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

fn called(receipt: &Value) -> &str {
    let tool = text(receipt, "tool");
    if tool.is_empty() { text(receipt, "operation") } else { tool }
}

/// In microseconds.
fn took(receipt: &Value) -> u64 {
    count(receipt.get("duration-us"))
}

fn host_calls(receipt: &Value) -> u64 {
    let calls = receipt.get("host-calls").and_then(Value::as_object);
    calls.map_or(0, |calls| calls.values().map(|value| count(Some(value))).sum())
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A number of a receipt; 0 where it has none.
pub fn count(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Number(number)) => number.as_u64().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(operation: &str, us: u64, more: &str) -> Receipt {
        let json = format!(r#"{{"operation":"{operation}","duration-us":{us},"peak-memory":65536{more}}}"#);
        Receipt::from(Value::from_json(&json).unwrap())
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
        let receipts: Vec<Receipt> = (1..=1_000).map(|us| cell("a/b", us, r#","host-calls":{"log":2}"#)).collect();
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
        let shown = |all| cell_lines(&cell, all).into_iter().skip(1).collect::<Vec<_>>();
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
    fn a_denial_is_shown_once_with_its_remedy_on_a_line_of_its_own() {
        let remedy = r#"{"kind":"grant","plugin":"p","capability":"tool","name":"x"}"#;
        let denials = format!(r#","denials":[{{"capability":"tool x","rule":"it is not granted","remedy":{remedy}}}]"#);
        let receipts: Vec<Receipt> = (0..3).map(|_| cell("a/b", 1, &denials)).collect();
        let lines = summary(&receipts, false);
        assert_eq!(
            lines[lines.len() - 3..],
            ["denied: tool x: it is not granted (3 times)", "  to allow it:", "    opcell plugin grant p tool x"]
        );
    }
}
