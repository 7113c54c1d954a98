//! Runs as traces, in the JSON form of OTLP (`ExportTraceServiceRequest`): what `opcell runs export --otlp` prints, and
//! what any OpenTelemetry collector takes at `/v1/traces`.
//!
//! IDs follow from the run's ID, its calls and the numbers of its events, so that exporting a run twice gives one
//! trace. Content (inputs, prompts, results) is never among the attributes.

use crate::spans::{self, Span, SpanKind};
use opcell::{
    remedy,
    trace::{TraceContext, span_id, trace_id},
};
use opcell_engine::event::{Event, Recorded, Timestamp};
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// Names of the semantic conventions for generative AI; they still change, so they are here alone.
pub(crate) mod genai {
    pub const OPERATION: &str = "gen_ai.operation.name";
    pub const MODEL: &str = "gen_ai.response.model";
    pub const TOOL: &str = "gen_ai.tool.name";
    pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
    pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
}

/// The trace of a run; `traceparent` is the W3C trace context to make it a part of, in place of that of whoever started
/// the run.
#[must_use]
pub fn trace(history: &[Recorded], traceparent: Option<&str>) -> Json {
    let own = history.first().and_then(|first| match &first.event {
        Event::RunStarted(started) => started.traceparent.clone(),
        _ => None,
    });
    let run = spans::run_of(history).unwrap_or_default();
    let now = history.last().map_or(Timestamp(0), |last| last.at);
    let all = spans::of(history);
    let trace = Trace::new(&run, traceparent.or(own.as_deref()), now);
    let shown: Vec<Json> = all.iter().map(|span| trace.span(span, &all)).collect();
    json!({"resourceSpans": [{"resource": resource(), "scopeSpans": [{"scope": scope(), "spans": shown}]}]})
}

/// Returns the resource that exports the spans.
pub(crate) fn resource() -> Json {
    json!({"attributes": [text("service.name", "opcell"), text("service.version", env!("CARGO_PKG_VERSION"))]})
}

/// Returns the scope that made them.
pub(crate) fn scope() -> Json {
    json!({"name": "opcell", "version": env!("CARGO_PKG_VERSION")})
}

/// The names of a run's spans in its trace.
pub(crate) struct Trace {
    run: String,
    trace: String,
    parent: Option<String>,
    now: Timestamp,
}

impl Trace {
    /// The trace of a run whose last event was `now`, perhaps a part of someone's.
    pub(crate) fn new(run: &str, traceparent: Option<&str>, now: Timestamp) -> Self {
        let context = traceparent.and_then(TraceContext::parse);
        let (trace, parent) = match context {
            Some(context) => (context.trace, Some(context.parent)),
            None => (trace_id(run), None),
        };
        Self { run: run.to_owned(), trace, parent, now }
    }

    fn id(&self, span: &Span) -> String {
        match &span.call {
            // What others record below the requests of a call has it as its parent.
            Some(call) => span_id(&call.name(&self.run)),
            None => span_id(&format!("{} {}", self.run, span.seq)),
        }
    }

    /// One of the run's spans.
    pub(crate) fn span(&self, span: &Span, all: &[Span]) -> Json {
        let parent = match span.parent.and_then(|parent| all.get(parent)) {
            Some(parent) => Some(self.id(parent)),
            None => self.parent.clone(),
        };
        one(span, &self.trace, &self.id(span), parent, self.now)
    }
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
