//! Runs as traces, in the JSON form of OTLP (`ExportTraceServiceRequest`): what `opcell runs export --otlp` prints, and
//! what any OpenTelemetry collector takes at `/v1/traces`.
//!
//! IDs follow from the run's ID and the numbers of its events, so that exporting a run twice gives one trace. Content
//! (inputs, prompts, results) is never among the attributes.

use crate::spans::{self, Span, SpanKind};
use opcell::remedy;
use opcell_engine::event::{Recorded, Timestamp};
use opcell_types::Value;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// Names of the semantic conventions for generative AI; they still change, so they are here alone.
pub(crate) mod genai {
    pub const OPERATION: &str = "gen_ai.operation.name";
    pub const MODEL: &str = "gen_ai.response.model";
    pub const TOOL: &str = "gen_ai.tool.name";
    pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
}

/// The trace of a run; `traceparent` is the W3C trace context of whoever started it, if it had one.
#[must_use]
pub fn trace(history: &[Recorded], traceparent: Option<&str>) -> Json {
    let run = spans::run_of(history).unwrap_or_default();
    let context = traceparent.and_then(parse);
    let trace_id = context.as_ref().map_or_else(|| digest(&format!("trace {run}"), 16), |(trace, _)| trace.clone());
    let now = history.last().map_or(Timestamp(0), |last| last.at);
    let all = spans::of(history);
    let id = |seq: u64| digest(&format!("span {run} {seq}"), 8);
    let parent = |span: &Span| match span.parent.and_then(|parent| all.get(parent)) {
        Some(parent) => Some(id(parent.seq)),
        None => context.as_ref().map(|(_, parent)| parent.clone()),
    };
    let shown: Vec<Json> = all.iter().map(|span| one(span, &trace_id, &id(span.seq), parent(span), now)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "opcell"), text("service.version", env!("CARGO_PKG_VERSION"))]},
        "scopeSpans": [{"scope": {"name": "opcell", "version": env!("CARGO_PKG_VERSION")}, "spans": shown}],
    }]})
}

fn one(span: &Span, trace: &str, id: &str, parent: Option<String>, now: Timestamp) -> Json {
    let mut attributes = vec![text("opcell.kind", span.kind.as_str()), number("opcell.event", span.seq)];
    match span.kind {
        SpanKind::Round => attributes.extend([text(genai::OPERATION, "chat"), text(genai::MODEL, &span.name)]),
        SpanKind::Tool => attributes.extend([text(genai::OPERATION, "execute_tool"), text(genai::TOOL, &span.name)]),
        _ => {}
    }
    attributes.extend(span.facts.iter().filter_map(|(key, value)| attribute(key, value)));
    let mut events = Vec::new();
    if let Some(receipt) = &span.receipt {
        for key in ["duration-us", "peak-memory", "ticks", "bytes-in", "bytes-out"] {
            attributes.extend(receipt.get(key).and_then(|value| attribute(&format!("opcell.{key}"), value)));
        }
        for denial in remedy::of_receipt(receipt) {
            events.push(json!({
                "timeUnixNano": nanos(span.ended.unwrap_or(now)), "name": "denied",
                "attributes": [text("opcell.capability", &denial.capability), text("opcell.rule", &denial.rule)],
            }));
        }
    }
    let status = match &span.failure {
        Some(reason) => json!({"code": 2, "message": reason}),
        None => json!({}),
    };
    let mut shown = json!({
        "traceId": trace, "spanId": id, "name": format!("{} {}", span.kind.as_str(), span.name),
        "kind": if span.kind == SpanKind::Round { 3 } else { 1 },
        "startTimeUnixNano": nanos(span.began), "endTimeUnixNano": nanos(span.ended.unwrap_or(now)),
        "attributes": attributes, "events": events, "status": status,
    });
    if let (Some(shown), Some(parent)) = (shown.as_object_mut(), parent) {
        shown.insert("parentSpanId".to_owned(), json!(parent));
    }
    shown
}

/// The trace and the parent of a `traceparent` header, version 00.
fn parse(traceparent: &str) -> Option<(String, String)> {
    let mut parts = traceparent.split('-');
    let (version, trace, parent, _flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            && text.bytes().any(|b| b != b'0')
    };
    (version == "00" && hex(trace, 32) && hex(parent, 16)).then(|| (trace.to_owned(), parent.to_owned()))
}

fn digest(of: &str, bytes: usize) -> String {
    Sha256::digest(of.as_bytes()).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

fn nanos(at: Timestamp) -> String {
    format!("{}000", at.0.max(0))
}

fn text(key: &str, value: &str) -> Json {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Json {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn attribute(key: &str, value: &Value) -> Option<Json> {
    Some(match value {
        Value::Number(whole) => match whole.as_i64() {
            Some(whole) => json!({"key": key, "value": {"intValue": whole.to_string()}}),
            None => json!({"key": key, "value": {"doubleValue": whole.as_f64()}}),
        },
        value => text(key, value.as_str()?),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_a_sound_traceparent_counts() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(parse(good).unwrap().1, "00f067aa0ba902b7");
        for bad in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
