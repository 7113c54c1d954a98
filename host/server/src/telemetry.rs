//! Runs as traces, in the JSON form of OTLP (`ExportTraceServiceRequest`): what `opcell runs export --otlp` prints, and
//! what any OpenTelemetry collector takes at `/v1/traces`.
//!
//! IDs follow from the run's ID, its calls and the numbers of its events, so that exporting a run twice gives one
//! trace. Content (prompts, messages, arguments and results of tools) is among the attributes only where an operator
//! asks for it.

use crate::{
    genai,
    spans::{self, Span, SpanKind},
};
use opcell::{
    remedy,
    trace::{TraceContext, span_id, trace_id},
};
use opcell_engine::event::{Event, Recorded, Timestamp};
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// The trace of a run; `traceparent` is the W3C trace context to make it a part of, in place of that of whoever started
/// the run.
#[must_use]
pub fn trace(history: &[Recorded], traceparent: Option<&str>) -> Json {
    document(history, spans::of(history), traceparent)
}

/// The same, with the content of its conversations, within bounds.
#[must_use]
pub fn trace_with_content(history: &[Recorded], traceparent: Option<&str>) -> Json {
    document(history, spans::with_content(history), traceparent)
}

fn document(history: &[Recorded], all: Vec<Span>, traceparent: Option<&str>) -> Json {
    let own = history.first().and_then(|first| match &first.event {
        Event::RunStarted(started) => started.traceparent.clone(),
        _ => None,
    });
    let run = spans::run_of(history).unwrap_or_default();
    let now = history.last().map_or(Timestamp(0), |last| last.at);
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
    let is_named = |key: &str| span.facts.iter().any(|(own, _)| *own == key);
    let asked =
        span.request.iter().flat_map(|facts| facts.iter()).filter(|(key, _)| operation.is_some() && !is_named(key));
    attributes.extend(asked.filter_map(|(key, value)| attribute(key, value)));
    attributes.extend(span.content.iter().map(|(key, content)| text(key, content)));
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
    // Numbers with a fraction in the conventions, also where this one has none.
    let is_double = matches!(key, genai::REQUEST_TEMPERATURE | genai::REQUEST_TOP_P);
    Some(match value {
        Value::Number(number) if is_double => json!({"key": key, "value": {"doubleValue": number.as_f64()}}),
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
    use crate::genai::conventions;

    fn shown(kind: SpanKind, name: &str, failure: Option<&str>) -> Json {
        let span = Span { failure: failure.map(str::to_owned), ..Span::named(kind, name) };
        one(&span, "t", "s", None, Timestamp(0))
    }

    fn attributes(span: &Json) -> Vec<String> {
        let all = span["attributes"].as_array().into_iter().flatten();
        let all = all.map(|own| format!("{}={}", own["key"].as_str().unwrap_or(""), own["value"]["stringValue"]));
        all.filter(|own| own.starts_with("gen_ai.") || own.starts_with("error.")).collect()
    }

    /// The attributes of a span of a conversation, against what the conventions say of its operation.
    fn keeps_to_the_conventions(span: &Json, with_content: bool) {
        let names: Vec<&str> =
            span["attributes"].as_array().into_iter().flatten().filter_map(|own| own["key"].as_str()).collect();
        let operation = span["name"].as_str().unwrap().split(' ').next().unwrap();
        conventions::check(operation, &conventions::of_span(operation), &names, with_content);
    }

    fn requesting(kind: SpanKind, name: &str, asked: &str, failure: Option<&str>) -> Json {
        let (provider, model) = genai::provider_and_model(asked);
        let request = [(genai::PROVIDER, provider.into()), (genai::REQUEST_MODEL, model.into())];
        let span =
            Span { request: Some(request.into()), failure: failure.map(str::to_owned), ..Span::named(kind, name) };
        one(&span, "t", "s", None, Timestamp(0))
    }

    #[test]
    fn a_step_that_opened_a_session_is_an_agent() {
        let mut span = Span::named(SpanKind::Step, "review");
        span.facts = vec![(genai::AGENT, "review".into()), (genai::CONVERSATION, "r/3".into())];
        span.request = Some([(genai::PROVIDER, "openai".into()), (genai::CONVERSATION, "r/3".into())].into());
        let shown = one(&span, "t", "s", None, Timestamp(0));
        assert_eq!(shown["name"], "invoke_agent review");
        let expected = [
            "gen_ai.operation.name=\"invoke_agent\"",
            "gen_ai.provider.name=\"openai\"",
            "gen_ai.agent.name=\"review\"",
            "gen_ai.conversation.id=\"r/3\"",
        ];
        assert_eq!(attributes(&shown), expected);
        keeps_to_the_conventions(&shown, false);
        // Its session did not open.
        span.request = None;
        keeps_to_the_conventions(&one(&span, "t", "s", None, Timestamp(0)), false);
    }

    #[test]
    fn spans_have_the_names_and_attributes_of_the_conventions_for_generative_ai() {
        let span = requesting(SpanKind::Round, "gemini/gemini-2.5-flash", "gemini/gemini-2.5-flash", None);
        assert_eq!((&span["name"], &span["kind"]), (&json!("chat gemini-2.5-flash"), &json!(3)));
        let expected = [
            "gen_ai.operation.name=\"chat\"",
            "gen_ai.response.model=\"gemini-2.5-flash\"",
            "gen_ai.provider.name=\"gcp.gemini\"",
            "gen_ai.request.model=\"gemini-2.5-flash\"",
        ];
        assert_eq!(attributes(&span), expected);
        keeps_to_the_conventions(&span, false);
        // Another one of its provider answered than was asked: a name that stands for the newest.
        let span = requesting(SpanKind::Round, "openai/gpt-5-0807", "openai/gpt-5", None);
        assert_eq!(span["name"], "chat gpt-5");
        assert!(attributes(&span).contains(&"gen_ai.response.model=\"gpt-5-0807\"".to_owned()));
        let span = shown(SpanKind::Tool, "disk/read", None);
        assert_eq!(span["name"], "execute_tool disk/read");
        let expected = [
            "gen_ai.operation.name=\"execute_tool\"",
            "gen_ai.tool.name=\"disk/read\"",
            "gen_ai.tool.type=\"function\"",
        ];
        assert_eq!(attributes(&span), expected);
        keeps_to_the_conventions(&span, false);
        for kind in [SpanKind::Run, SpanKind::Workflow] {
            let span = shown(kind, "ship", None);
            assert_eq!(span["name"], "invoke_workflow ship");
            let expected = ["gen_ai.operation.name=\"invoke_workflow\"", "gen_ai.workflow.name=\"ship\""];
            assert_eq!(attributes(&span), expected);
            keeps_to_the_conventions(&span, false);
        }
        let span = shown(SpanKind::Step, "build", None);
        assert_eq!((&span["name"], attributes(&span)), (&json!("step build"), Vec::new()));
    }

    #[test]
    fn a_round_without_an_answer_names_the_model_that_was_asked_and_says_why_it_failed() {
        let span = requesting(SpanKind::Round, spans::ANY_MODEL, "openai/gpt-5", Some("timeout"));
        assert_eq!(span["name"], "chat gpt-5");
        let expected = [
            "gen_ai.operation.name=\"chat\"",
            "error.type=\"timeout\"",
            "gen_ai.provider.name=\"openai\"",
            "gen_ai.request.model=\"gpt-5\"",
        ];
        assert_eq!(attributes(&span), expected);
        keeps_to_the_conventions(&span, false);
        let span = shown(SpanKind::Round, spans::ANY_MODEL, Some("timeout"));
        assert_eq!(span["name"], "chat");
        keeps_to_the_conventions(&span, false);
    }

    #[test]
    fn a_run_with_a_conversation_has_content_only_where_it_is_asked_for() {
        let history = history();
        let spans =
            |document: &Json| document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        let without = trace(&history, None);
        for said in ["Be brief.", "What is in a.txt?", "a.txt says hello", "\"path\"", "It says hello."] {
            assert!(!without.to_string().contains(said), "{said}");
        }
        let with = trace_with_content(&history, None);
        let named = |name: &str| {
            let all = spans(&with);
            all.into_iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {with:#}"))
        };
        let content = |span: &Json, key: &str| -> String {
            let attributes = span["attributes"].as_array().unwrap();
            let found = attributes.iter().find(|own| own["key"] == key).unwrap_or_else(|| panic!("{key}: {span:#}"));
            found["value"]["stringValue"].as_str().unwrap().to_owned()
        };
        let call = named("execute_tool read");
        assert_eq!(content(&call, genai::TOOL_ARGUMENTS), r#"{"path":"a.txt"}"#);
        assert_eq!(content(&call, genai::TOOL_RESULT), "a.txt says hello");
        assert_eq!(content(&call, genai::TOOL_CALL), "call-1");
        let temperature = spans(&without).iter().find_map(|span| {
            let attributes = span["attributes"].as_array()?;
            Some(attributes.iter().find(|own| own["key"] == genai::REQUEST_TEMPERATURE)?["value"].clone())
        });
        assert_eq!(temperature, Some(json!({"doubleValue": 0.0})));
        let last = spans(&with).into_iter().rev().find(|span| span["name"] == "chat m").unwrap();
        let said: Json = serde_json::from_str(&content(&last, genai::INPUT_MESSAGES)).unwrap();
        let expected = json!([
            {"role": "user", "parts": [{"type": "text", "content": "What is in a.txt?"}]},
            {"role": "assistant", "parts": [
                {"type": "tool_call", "id": "call-1", "name": "read", "arguments": {"path": "a.txt"}}]},
            {"role": "tool", "parts": [
                {"type": "tool_call_response", "id": "call-1", "response": "a.txt says hello"}]}
        ]);
        assert_eq!(said, expected);
        let answer: Json = serde_json::from_str(&content(&last, genai::OUTPUT_MESSAGES)).unwrap();
        assert_eq!(answer, json!([{"role": "assistant", "parts": [{"type": "text", "content": "It says hello."}]}]));
        assert!(content(&last, genai::SYSTEM_INSTRUCTIONS).contains("Be brief."));
        for span in spans(&without) {
            if genai_span(&span) {
                keeps_to_the_conventions(&span, false);
            }
        }
        spans(&with).iter().filter(|span| genai_span(span)).for_each(|span| keeps_to_the_conventions(span, true));
    }

    fn genai_span(span: &Json) -> bool {
        attributes(span).iter().any(|own| own.starts_with(genai::OPERATION))
    }

    /// A run with one session: a question, a call of a tool, an answer.
    fn history() -> Vec<Recorded> {
        let lines = include_str!("telemetry/conversation.jsonl");
        let recorded = |line: &str| {
            let line: Json = serde_json::from_str(line).unwrap();
            let seq = line["seq"].as_u64().unwrap();
            Recorded::new(
                seq,
                Timestamp(1_000 * i64::try_from(seq).unwrap()),
                serde_json::from_value(line["event"].clone()).unwrap(),
            )
        };
        lines.lines().map(recorded).collect()
    }
}
