//! The receipt of a call, for people; all of it as data below.

use crate::page::{duration, value};
use maud::{Markup, html};
use opcell::TypedReceipt;
use opcell_engine::receipt::{CallReceipt, Receipt};
use opcell_sandbox::Receipt as CellReceipt;
use opcell_types::{ByteSize, Touched};

/// A receipt. One of a host of another version is shown as data alone.
pub(super) fn shown(receipt: &Receipt) -> Markup {
    html! {
        @match TypedReceipt::of(receipt) {
            Ok(TypedReceipt::Cell(cell)) => { (of_cell(&cell, &cell.touched)) }
            Ok(TypedReceipt::Call(call)) => { (of_call(&call)) }
            Ok(_) | Err(_) => {}
        }
        details { summary { "Receipt as data" } (value(receipt)) }
    }
}

/// The receipt of a call of a tool: that of the cell that it ran, if it ran one.
fn of_call(call: &CallReceipt) -> Markup {
    if let Some(Ok(TypedReceipt::Cell(cell))) = call.receipt.as_ref().map(TypedReceipt::of) {
        return of_cell(&cell, if cell.touched.is_empty() { &call.touched } else { &cell.touched });
    }
    html! {
        (facts([
            ("Time", Some(time(call.duration_us))),
            ("In", Some(ByteSize(call.bytes_in).to_string())),
            ("Out", Some(ByteSize(call.bytes_out).to_string())),
            ("Failed", call.error.as_deref().map(str::to_owned)),
        ]))
        (touches(&call.touched))
    }
}

fn of_cell(cell: &CellReceipt, touched: &Touched) -> Markup {
    let of = cell.host_calls;
    let calls = [
        ("tools", of.tools),
        ("skills", of.skills),
        ("files", of.files),
        ("store", of.store),
        ("log", of.log),
        ("wasi", of.wasi),
    ];
    let calls = calls.into_iter().filter(|(_, count)| *count > 0);
    let calls: Vec<String> = calls.map(|(interface, count)| format!("{interface} {count}")).collect();
    html! {
        (facts([
            ("Plugin", Some(cell.plugin.to_string())),
            ("Time", Some(time(cell.duration_us))),
            ("Waited", (cell.queued_us > 0).then(|| time(cell.queued_us))),
            ("Memory", Some(ByteSize(cell.peak_memory).to_string())),
            ("Host calls", Some(calls.join(", ")).filter(|calls| !calls.is_empty())),
            ("In", Some(ByteSize(cell.bytes_in).to_string())),
            ("Out", Some(ByteSize(cell.bytes_out).to_string())),
            ("Failed", cell.error.clone()),
        ]))
        (touches(touched))
        @if !cell.log.lines.is_empty() {
            h3 { "Log" }
            pre tabindex="0" { @for line in &cell.log.lines { (word(&line.level)) " " (line.message) "\n" } }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn time(us: u64) -> String {
    duration(us as f64 / 1000.0)
}

fn facts<const N: usize>(rows: [(&str, Option<String>); N]) -> Markup {
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
    actions.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// As JSON spells it.
fn word(of: &impl serde::Serialize) -> String {
    serde_json::to_value(of).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
