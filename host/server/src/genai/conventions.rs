//! The conventions' own definitions, as far as Opcell has a part in them.
//!
//! The names are compared with the crate `opentelemetry-semantic-conventions`, the last version that has them. Since
//! then the conventions are a repository without a package, `open-telemetry/semantic-conventions-genai`; the levels of
//! requirement below are those of its `model/gen-ai/spans.yaml` (002c8a6) and `model/gen-ai/metrics.yaml` (004902b).

use super::*;

/// The level at which an attribute is required. `Allowed` stands for all levels below `Required`, content aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Required,
    Allowed,
    /// Only where an operator asks for content.
    OptIn,
}

use Level::{Allowed, OptIn, Required};

const USAGE: [(&str, Level); 4] =
    [(INPUT_TOKENS, Allowed), (OUTPUT_TOKENS, Allowed), (CACHE_READ_TOKENS, Allowed), (CACHE_WRITE_TOKENS, Allowed)];

const REQUEST: [(&str, Level); 4] =
    [(REQUEST_MODEL, Allowed), (REQUEST_MAX_TOKENS, Allowed), (REQUEST_TEMPERATURE, Allowed), (REQUEST_TOP_P, Allowed)];

/// The attributes of a span by its operation: `gen_ai.inference.client`, `gen_ai.invoke_agent.internal`,
/// `gen_ai.execute_tool.internal`, `gen_ai.invoke_workflow.internal`.
pub(crate) fn of_span(operation: &str) -> Vec<(&'static str, Level)> {
    let mut known = vec![(OPERATION, Required), (ERROR, Allowed)];
    match operation {
        "chat" | "invoke_agent" => {
            known.push((PROVIDER, Required));
            known.push((CONVERSATION, Allowed));
            known.extend(USAGE);
            known.extend(REQUEST);
            known.extend([(SYSTEM_INSTRUCTIONS, OptIn), (INPUT_MESSAGES, OptIn), (OUTPUT_MESSAGES, OptIn)]);
            known.push(if operation == "chat" { (RESPONSE_MODEL, Allowed) } else { (AGENT, Allowed) });
        }
        "execute_tool" => {
            known.extend([(TOOL, Required), (TOOL_CALL, Allowed), (TOOL_TYPE, Allowed)]);
            known.extend([(TOOL_ARGUMENTS, OptIn), (TOOL_RESULT, OptIn)]);
        }
        "invoke_workflow" => {
            known.extend([(WORKFLOW, Allowed), (INPUT_MESSAGES, OptIn), (OUTPUT_MESSAGES, OptIn)]);
        }
        other => panic!("`{other}` is not an operation of the conventions that Opcell has"),
    }
    known
}

/// The attributes of a metric.
pub(crate) fn of_metric(name: &str) -> Vec<(&'static str, Level)> {
    match name {
        "gen_ai.client.token.usage" => vec![
            (OPERATION, Required),
            (PROVIDER, Required),
            (TOKEN_TYPE, Required),
            (REQUEST_MODEL, Allowed),
            (RESPONSE_MODEL, Allowed),
        ],
        "gen_ai.client.operation.duration" => vec![
            (OPERATION, Required),
            (PROVIDER, Required),
            (REQUEST_MODEL, Allowed),
            (RESPONSE_MODEL, Allowed),
            (ERROR, Allowed),
        ],
        "gen_ai.execute_tool.duration" => vec![(OPERATION, Required), (TOOL, Required), (ERROR, Allowed)],
        "gen_ai.workflow.duration" => vec![(WORKFLOW, Allowed), (ERROR, Allowed)],
        other => panic!("`{other}` is not a metric of the conventions that Opcell has"),
    }
}

/// Checks the attributes that a span or a metric has against those of the conventions.
pub(crate) fn check(of: &str, known: &[(&str, Level)], has: &[&str], with_content: bool) {
    for (name, level) in known {
        assert!(*level != Required || has.contains(name), "{of} lacks {name}: {has:?}");
    }
    for name in has.iter().filter(|name| name.starts_with("gen_ai.") || name.starts_with("error.")) {
        let level = known.iter().find(|(known, _)| known == name).map(|(_, level)| *level);
        let level = level.unwrap_or_else(|| panic!("{name} is not an attribute of {of} in the conventions"));
        assert!(level != OptIn || with_content, "{of} has content that no one asked for: {name}");
    }
}

#[test]
#[allow(deprecated, reason = "the conventions moved to a repository of their own, which publishes no package")]
fn names_are_those_of_the_conventions() {
    use opentelemetry_semantic_conventions::{attribute, metric};
    let ours_and_theirs = [
        (OPERATION, attribute::GEN_AI_OPERATION_NAME),
        (PROVIDER, attribute::GEN_AI_PROVIDER_NAME),
        (REQUEST_MODEL, attribute::GEN_AI_REQUEST_MODEL),
        (REQUEST_MAX_TOKENS, attribute::GEN_AI_REQUEST_MAX_TOKENS),
        (REQUEST_TEMPERATURE, attribute::GEN_AI_REQUEST_TEMPERATURE),
        (REQUEST_TOP_P, attribute::GEN_AI_REQUEST_TOP_P),
        (RESPONSE_MODEL, attribute::GEN_AI_RESPONSE_MODEL),
        (WORKFLOW, attribute::GEN_AI_WORKFLOW_NAME),
        (AGENT, attribute::GEN_AI_AGENT_NAME),
        (CONVERSATION, attribute::GEN_AI_CONVERSATION_ID),
        (TOOL, attribute::GEN_AI_TOOL_NAME),
        (TOOL_CALL, attribute::GEN_AI_TOOL_CALL_ID),
        (TOOL_TYPE, attribute::GEN_AI_TOOL_TYPE),
        (INPUT_TOKENS, attribute::GEN_AI_USAGE_INPUT_TOKENS),
        (OUTPUT_TOKENS, attribute::GEN_AI_USAGE_OUTPUT_TOKENS),
        (CACHE_READ_TOKENS, attribute::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS),
        (CACHE_WRITE_TOKENS, attribute::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS),
        (TOKEN_TYPE, attribute::GEN_AI_TOKEN_TYPE),
        (ERROR, attribute::ERROR_TYPE),
        (SYSTEM_INSTRUCTIONS, attribute::GEN_AI_SYSTEM_INSTRUCTIONS),
        (INPUT_MESSAGES, attribute::GEN_AI_INPUT_MESSAGES),
        (OUTPUT_MESSAGES, attribute::GEN_AI_OUTPUT_MESSAGES),
        (TOOL_ARGUMENTS, attribute::GEN_AI_TOOL_CALL_ARGUMENTS),
        (TOOL_RESULT, attribute::GEN_AI_TOOL_CALL_RESULT),
        (TOKEN_USAGE.name, metric::GEN_AI_CLIENT_TOKEN_USAGE),
        (OPERATION_DURATION.name, metric::GEN_AI_CLIENT_OPERATION_DURATION),
    ];
    for (ours, theirs) in ours_and_theirs {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn providers_have_the_names_of_the_conventions() {
    for (name, expected) in [
        ("gemini/gemini-2.5-flash", ("gcp.gemini", "gemini-2.5-flash")),
        ("openai/gpt-5", ("openai", "gpt-5")),
        ("mistral/large", ("mistral_ai", "large")),
        ("own/a/b", ("own", "a/b")),
        ("scripted", ("opcell", "scripted")),
    ] {
        assert_eq!(provider_and_model(name), expected);
    }
}

#[test]
fn metrics_are_named_for_prometheus_as_opentelemetry_translates_them() {
    assert_eq!(TOKEN_USAGE.prometheus(), "gen_ai_client_token_usage");
    assert_eq!(OPERATION_DURATION.prometheus(), "gen_ai_client_operation_duration_seconds");
}
