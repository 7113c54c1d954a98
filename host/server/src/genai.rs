//! Names of OpenTelemetry's semantic conventions for generative AI: attributes of spans, metrics, and the operations
//! that spans are. The conventions still change, so these are here alone.

use crate::spans::{ANY_MODEL, Span, SpanKind};

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(crate) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
pub(crate) const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const WORKFLOW: &str = "gen_ai.workflow.name";
pub(crate) const AGENT: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(crate) const TOOL: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const ERROR: &str = "error.type";

/// Attributes with content, which spans have only where an operator asks for it.
pub(crate) const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// A metric: its name, its unit, and its meaning.
pub(crate) struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
}

pub(crate) const TOKEN_USAGE: Metric =
    Metric { name: "gen_ai.client.token.usage", unit: "{token}", about: "Tokens of the rounds of models, in and out." };
pub(crate) const OPERATION_DURATION: Metric = Metric {
    name: "gen_ai.client.operation.duration",
    unit: "s",
    about: "Time of the rounds of models, repeated requests included.",
};
pub(crate) const TOOL_DURATION: Metric =
    Metric { name: "gen_ai.execute_tool.duration", unit: "s", about: "Time of the calls of tools by models." };
pub(crate) const WORKFLOW_DURATION: Metric = Metric {
    name: "gen_ai.workflow.duration",
    unit: "s",
    about: "Time from the start of runs that ended here to their end.",
};

impl Metric {
    /// Its name in the text format of Prometheus, as OpenTelemetry's rules for that format translate it.
    pub(crate) fn prometheus(&self) -> String {
        // A unit in braces is an annotation, and no part of the name.
        let suffix = if self.unit == "s" { "_seconds" } else { "" };
        label(self.name) + suffix
    }
}

/// The name of an attribute as a label of Prometheus.
pub(crate) fn label(attribute: &str) -> String {
    attribute.replace('.', "_")
}

/// The operation of a round.
pub(crate) const CHAT: &str = "chat";

/// The operation of a tool call.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// The value for what a program or a script answers itself, without a provider.
const NO_PROVIDER: &str = "opcell";

/// The provider in the conventions, and the model, of a name such as `gemini/gemini-2.5-flash`.
pub(crate) fn provider_and_model(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some((own, model)) => (provider_name(own), model),
        None => (NO_PROVIDER, name),
    }
}

/// The name of a provider in the conventions; the operator's own for all that they do not list.
fn provider_name(own: &str) -> &str {
    match own {
        "gemini" => "gcp.gemini",
        "vertex" | "vertexai" => "gcp.vertex_ai",
        "azure" | "azure-openai" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "watsonx" => "ibm.watsonx.ai",
        "xai" => "x_ai",
        own => own,
    }
}

/// An operation of the conventions: its name, what it is done to, and the attributes that say so.
pub(crate) struct Operation<'a> {
    pub name: &'static str,
    pub object: Option<&'a str>,
    pub attributes: Vec<(&'static str, &'a str)>,
}

/// Returns the operation that a span is, if the conventions have one for it.
pub(crate) fn operation(span: &Span) -> Option<Operation<'_>> {
    let name = span.name.as_str();
    let fact = |key: &str| {
        let facts = span.facts.iter().chain(span.request.iter().flat_map(|facts| facts.iter()));
        facts.into_iter().find(|(own, _)| *own == key).and_then(|(_, value)| value.as_str())
    };
    let (operation, attributes) = match span.kind {
        SpanKind::Run | SpanKind::Workflow => ("invoke_workflow", vec![(WORKFLOW, name)]),
        SpanKind::Tool => (EXECUTE_TOOL, vec![(TOOL, name), (TOOL_TYPE, "function")]),
        SpanKind::Round => {
            // A round that was not answered names no model of its own.
            let answered = Some(name).filter(|name| *name != ANY_MODEL).map(provider_and_model);
            let asked = fact(REQUEST_MODEL);
            let mut attributes = Vec::new();
            if let Some((provider, model)) = answered {
                attributes.push((RESPONSE_MODEL, model));
                if asked.is_none() {
                    attributes.extend([(REQUEST_MODEL, model), (PROVIDER, provider)]);
                }
            }
            if answered.is_none() && asked.is_none() {
                attributes.push((PROVIDER, NO_PROVIDER));
            }
            let object = asked.or(answered.map(|(_, model)| model));
            return Some(Operation { name: CHAT, object, attributes });
        }
        // A step that opened a session is an agent, and names itself as one.
        SpanKind::Step | SpanKind::Part if fact(AGENT).is_some() => {
            // One whose session did not open has asked no provider.
            let provider = Some((PROVIDER, NO_PROVIDER)).filter(|_| fact(PROVIDER).is_none());
            ("invoke_agent", provider.into_iter().collect())
        }
        SpanKind::Step | SpanKind::Part | SpanKind::Cell | SpanKind::Wait => return None,
    };
    Some(Operation { name: operation, object: Some(name), attributes })
}

#[cfg(test)]
pub(crate) mod conventions;
