//! The receipt of a call, for people; all of it as data below.

use crate::page::{duration, value};
use maud::{Markup, html};
use opcell_types::{ByteSize, Touched, Value};
use serde_json::Value as Json;

/// A receipt.
pub(super) fn shown(receipt: &Value) -> Markup {
    // A tool's receipt holds that of the cell that it ran.
    let cell = receipt.get("receipt").filter(|cell| cell.as_object().is_some()).unwrap_or(receipt);
    let touched: Touched = cell
        .get("touched")
        .or_else(|| receipt.get("touched"))
        .and_then(|touched| touched.to().ok())
        .unwrap_or_default();
    html! {
        (facts(cell))
        (touches(&touched))
        @if let Some(lines) = cell.get("log").and_then(|log| log.get("lines")).and_then(Value::as_array) {
            h3 { "Log" }
            pre tabindex="0" { @for line in lines {
                (line.get("level").and_then(Value::as_str).unwrap_or_default()) " "
                (line.get("message").and_then(Value::as_str).unwrap_or_default()) "\n"
            } }
        }
        details { summary { "Receipt as data" } (value(receipt)) }
    }
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn facts(cell: &Value) -> Markup {
    let number = |key: &str| match cell.get(key) {
        Some(Value::Number(number)) => number.as_u64(),
        _ => None,
    };
    let time = |us: u64| duration(us as f64 / 1000.0);
    let calls = match cell.get("host-calls") {
        Some(Value::Number(all)) => all.as_u64().map(|all| all.to_string()),
        Some(by) => by.as_object().filter(|by| !by.is_empty()).map(|by| {
            by.iter()
                .map(|(interface, count)| format!("{interface} {}", count.to_json()))
                .collect::<Vec<_>>()
                .join(", ")
        }),
        None => None,
    };
    let rows = [
        ("Plugin", cell.get("plugin").and_then(Value::as_str).map(str::to_owned)),
        ("Time", number("duration-us").map(time)),
        ("Waited", number("queued-us").filter(|us| *us > 0).map(time)),
        ("Memory", number("peak-memory").map(|bytes| ByteSize(bytes).to_string())),
        ("Host calls", calls),
        ("In", number("bytes-in").map(|bytes| ByteSize(bytes).to_string())),
        ("Out", number("bytes-out").map(|bytes| ByteSize(bytes).to_string())),
        ("Failed", cell.get("error").and_then(Value::as_str).map(str::to_owned)),
    ];
    html! { ul.facts { @for (name, fact) in rows { @if let Some(fact) = fact { li { b { (name) " " } (fact) } } } } }
}

fn touches(touched: &Touched) -> Markup {
    let bytes = |count: u64| ByteSize(count).to_string();
    html! { @if !touched.is_empty() { div.scroll tabindex="0" { table.touched { tbody {
        @for warning in &touched.warnings { tr { td { "warning" } td { (warning) } td {} td {} } }
        @for call in &touched.calls { tr { td { "call" } td { code { (call.tool) }
                @if let Some(arguments) = &call.arguments { " " code { (arguments) } }
                @if let Some(result) = &call.result { " → " code { (result) } } }
            td { @match (&call.failed, call.duration_us) {
                (Some(reason), _) => (reason),
                (None, Some(us)) => { (us) " µs" },
                (None, None) => "no answer",
            } }
            td.number { (bytes(call.sent)) " out, " (bytes(call.received)) " in" } } }
        @for request in &touched.http { tr { td { (request.method) } td { code { (request.origin) (request.path) } }
            td { @match request.status { Some(status) => (status), None => "no answer" } }
            td.number { (bytes(request.sent)) " out, " (bytes(request.received)) " in" } } }
        @for file in &touched.files { tr { td { "file" } td { code { (file.path) } }
            td { (words(&file.actions)) } td.number { (bytes(file.read)) " read, " (bytes(file.written)) " written" } } }
        @for entry in &touched.stores { tr { td { "store" } td { code { (entry.key) } }
            td { (words(&entry.actions)) } td.number { @if let Some(version) = entry.version { "version " (version) } } } }
        @let more = touched.more_http + touched.more_files + touched.more_stores + touched.more_calls;
        @if more > 0 { tr { td {} td { (more) " more" } td {} td {} } }
    } } } } }
}

fn words(actions: &[impl serde::Serialize]) -> String {
    let word = |action| serde_json::to_value(action).ok().and_then(|word: Json| word.as_str().map(str::to_owned));
    actions.iter().filter_map(word).collect::<Vec<_>>().join(", ")
}
