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
    use crate::spans::{ANY_MODEL, Span, SpanKind};

    pub const OPERATION: &str = "gen_ai.operation.name";
    pub const PROVIDER: &str = "gen_ai.provider.name";
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
    pub const WORKFLOW: &str = "gen_ai.workflow.name";
    pub const AGENT: &str = "gen_ai.agent.name";
    pub const CONVERSATION: &str = "gen_ai.conversation.id";
    pub const TOOL: &str = "gen_ai.tool.name";
    pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
    pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
    pub const ERROR: &str = "error.type";

    /// An operation of the conventions: its name, what it is done to, and the attributes that say so.
    pub struct Operation<'a> {
        pub name: &'static str,
        pub object: Option<&'a str>,
        pub attributes: Vec<(&'static str, &'a str)>,
    }

    /// Returns the operation that a span is, if the conventions have one for it.
    pub fn operation(span: &Span) -> Option<Operation<'_>> {
        let name = span.name.as_str();
        let (operation, attributes) = match span.kind {
            SpanKind::Run | SpanKind::Workflow => ("invoke_workflow", vec![(WORKFLOW, name)]),
            SpanKind::Tool => ("execute_tool", vec![(TOOL, name)]),
            // A round that was not answered names no model.
            SpanKind::Round if name == ANY_MODEL => {
                return Some(Operation { name: "chat", object: None, attributes: Vec::new() });
            }
            SpanKind::Round => {
                let (provider, model) = name.split_once('/').map_or((None, name), |(own, id)| (Some(own), id));
                let mut attributes = vec![(REQUEST_MODEL, model), (RESPONSE_MODEL, model)];
                attributes.extend(provider.map(|own| (PROVIDER, provider_name(own))));
                return Some(Operation { name: "chat", object: Some(model), attributes });
            }
            // A step that opened a session is an agent, and names itself as one.
            SpanKind::Step | SpanKind::Part if span.facts.iter().any(|(key, _)| *key == AGENT) => {
                ("invoke_agent", Vec::new())
            }
            SpanKind::Step | SpanKind::Part | SpanKind::Cell | SpanKind::Wait => return None,
        };
        Some(Operation { name: operation, object: Some(name), attributes })
    }

    /// The name of a provider in the conventions; the operator's own for all that they do not list.
    fn provider_name(own: &str) -> &str {
        match own {
            "gemini" => "gcp.gemini",
            own => own,
        }
    }
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
    let operation = genai::operation(span);
    if let Some(operation) = &operation {
        attributes.push(text(genai::OPERATION, operation.name));
        attributes.extend(operation.attributes.iter().map(|(key, value)| text(key, value)));
    }
    attributes.extend(span.failure.as_ref().map(|reason| text(genai::ERROR, reason)));
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
    let name = match operation.map(|operation| (operation.name, operation.object)) {
        Some((operation, Some(object))) => format!("{operation} {object}"),
        Some((operation, None)) => operation.to_owned(),
        None => format!("{} {}", span.kind.as_str(), span.name),
    };
    let mut shown = json!({
        "traceId": trace, "spanId": id, "name": name,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "an absent member of a `serde_json::Value` reads as null")]

    use super::*;

    fn shown(kind: SpanKind, name: &str, failure: Option<&str>) -> Json {
        let span = Span { failure: failure.map(str::to_owned), ..Span::named(kind, name) };
        one(&span, "t", "s", None, Timestamp(0))
    }

    fn attributes(span: &Json) -> Vec<String> {
        let all = span["attributes"].as_array().into_iter().flatten();
        let all = all.map(|own| format!("{}={}", own["key"].as_str().unwrap_or(""), own["value"]["stringValue"]));
        all.filter(|own| own.starts_with("gen_ai.") || own.starts_with("error.")).collect()
    }

    #[test]
    #[allow(deprecated, reason = "the conventions moved to a repository of their own, which publishes no package")]
    fn attributes_are_those_of_the_conventions() {
        use opentelemetry_semantic_conventions::attribute;
        let ours = [
            genai::OPERATION,
            genai::PROVIDER,
            genai::REQUEST_MODEL,
            genai::RESPONSE_MODEL,
            genai::WORKFLOW,
            genai::AGENT,
            genai::CONVERSATION,
            genai::TOOL,
            genai::INPUT_TOKENS,
            genai::OUTPUT_TOKENS,
            genai::CACHE_READ_TOKENS,
            genai::CACHE_WRITE_TOKENS,
            genai::ERROR,
        ];
        let theirs = [
            attribute::GEN_AI_OPERATION_NAME,
            attribute::GEN_AI_PROVIDER_NAME,
            attribute::GEN_AI_REQUEST_MODEL,
            attribute::GEN_AI_RESPONSE_MODEL,
            attribute::GEN_AI_WORKFLOW_NAME,
            attribute::GEN_AI_AGENT_NAME,
            attribute::GEN_AI_CONVERSATION_ID,
            attribute::GEN_AI_TOOL_NAME,
            attribute::GEN_AI_USAGE_INPUT_TOKENS,
            attribute::GEN_AI_USAGE_OUTPUT_TOKENS,
            attribute::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
            attribute::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
            attribute::ERROR_TYPE,
        ];
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_step_that_opened_a_session_is_an_agent() {
        let mut span = Span::named(SpanKind::Step, "review");
        span.facts = vec![(genai::AGENT, "review".into()), (genai::CONVERSATION, "r/3".into())];
        let span = one(&span, "t", "s", None, Timestamp(0));
        assert_eq!(span["name"], "invoke_agent review");
        let expected = [
            "gen_ai.operation.name=\"invoke_agent\"",
            "gen_ai.agent.name=\"review\"",
            "gen_ai.conversation.id=\"r/3\"",
        ];
        assert_eq!(attributes(&span), expected);
    }

    #[test]
    fn spans_have_the_names_and_attributes_of_the_conventions_for_generative_ai() {
        let span = shown(SpanKind::Round, "gemini/gemini-2.5-flash", None);
        assert_eq!((&span["name"], &span["kind"]), (&json!("chat gemini-2.5-flash"), &json!(3)));
        let expected = [
            "gen_ai.operation.name=\"chat\"",
            "gen_ai.request.model=\"gemini-2.5-flash\"",
            "gen_ai.response.model=\"gemini-2.5-flash\"",
            "gen_ai.provider.name=\"gcp.gemini\"",
        ];
        assert_eq!(attributes(&span), expected);
        let span = shown(SpanKind::Tool, "disk/read", None);
        assert_eq!(span["name"], "execute_tool disk/read");
        assert_eq!(attributes(&span), ["gen_ai.operation.name=\"execute_tool\"", "gen_ai.tool.name=\"disk/read\""]);
        for kind in [SpanKind::Run, SpanKind::Workflow] {
            let span = shown(kind, "ship", None);
            assert_eq!(span["name"], "invoke_workflow ship");
            let expected = ["gen_ai.operation.name=\"invoke_workflow\"", "gen_ai.workflow.name=\"ship\""];
            assert_eq!(attributes(&span), expected);
        }
        let span = shown(SpanKind::Step, "build", None);
        assert_eq!((&span["name"], attributes(&span)), (&json!("step build"), Vec::new()));
    }

    #[test]
    fn a_round_without_an_answer_names_no_model_and_says_why_it_failed() {
        let span = shown(SpanKind::Round, spans::ANY_MODEL, Some("timeout"));
        assert_eq!(span["name"], "chat");
        assert_eq!(attributes(&span), ["gen_ai.operation.name=\"chat\"", "error.type=\"timeout\""]);
    }
}
