//! The inventory of a project's tools: their origins, and whether they are there.

use super::Tools;
use futures_util::future::join_all;
use opcell_tools::mcp::{ListedPrompt, ListedResource, Server, confinement};
use opcell_types::Digest;
use serde::Serialize;
use std::sync::Arc;

/// One name that documents may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ToolEntry {
    /// The name that documents use.
    pub name: String,
    /// Its implementation: `operation repo/find-markers`, `host http.fetch`, `mcp notes/add`.
    pub target: String,
    /// One sentence, if someone says what it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Why it cannot be called; nothing where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One MCP server of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ServerEntry {
    /// Its name in the project.
    pub name: String,
    /// The program with its arguments.
    pub command: Vec<String>,
    /// Why it does not start, or does not list its tools; nothing where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its tools, with their descriptions.
    pub tools: Vec<ServerTool>,
    /// Bytes that a model reads if it is shown all usable tools: names, descriptions and schemas.
    pub description_bytes: u64,
    /// An estimate of the tokens that these are.
    pub description_tokens: u64,
    /// Tools that differ from those in the lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangedTool>,
    /// `true` if it took the handshake; it may still not list its tools.
    #[serde(skip)]
    pub has_started: bool,
    /// `true` if it lists more tools than are used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Its resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ServerOffer>,
    /// Its templates of resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<ServerOffer>,
    /// Its prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<ServerOffer>,
    /// Reasons why resources, templates or prompts of it are not used, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_offers: Vec<String>,
    /// The bounds that the kernel keeps it in, and those that it cannot; nothing for a server that is not confined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
}

/// A tool of an MCP server that is not as it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ChangedTool {
    /// The server's own name of it.
    pub tool: String,
    /// `changed`, `new` or `gone`.
    pub change: &'static str,
}

/// One tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ServerTool {
    /// The server's own name of it.
    pub name: String,
    /// As the server says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Why it cannot be used; nothing where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Oddities of a tool that can be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Digest of name, description and schema; nothing for one that cannot be used.
    #[serde(skip)]
    pub digest: Option<Digest>,
    /// JSON Schema of the arguments, as text.
    #[serde(skip)]
    pub parameters: String,
}

/// A resource, a template of resources or a prompt of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ServerOffer {
    /// The URI, the template of URIs, or the name of the prompt.
    pub name: String,
    /// As the server says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Names of a prompt's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl ServerOffer {
    fn of_resource(listed: &ListedResource) -> Self {
        let about = if listed.description.is_empty() { &listed.name } else { &listed.description };
        Self { name: listed.uri.clone(), description: about.clone(), arguments: Vec::new() }
    }

    fn of_prompt(listed: &ListedPrompt) -> Self {
        Self {
            name: listed.name.clone(),
            description: listed.description.clone(),
            arguments: listed.arguments.iter().map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// Starts every server, all at once, and asks it for its tools, resources and prompts.
pub(crate) async fn servers(tools: &Tools) -> Vec<ServerEntry> {
    join_all(tools.servers.values().map(ask)).await
}

async fn ask(server: &Arc<Server>) -> ServerEntry {
    let config = server.config();
    let command = match &config.remote {
        Some(remote) => vec![remote.url.to_string()],
        None => std::iter::once(&config.program).chain(&config.arguments).cloned().collect(),
    };
    let mut entry = ServerEntry {
        name: server.name().to_owned(),
        command,
        problem: None,
        description_bytes: 0,
        description_tokens: 0,
        changes: Vec::new(),
        has_started: true,
        tools: Vec::new(),
        truncated: false,
        resources: Vec::new(),
        resource_templates: Vec::new(),
        prompts: Vec::new(),
        refused_offers: Vec::new(),
        confined: config.confine.then(confined),
    };
    match server.tools().await {
        Err(failure) => {
            entry.has_started = matches!(failure.reason.as_ref(), "timeout" | "mcp-error" | "malformed-result");
            entry.problem = Some(failure.message);
        }
        Ok(listing) => {
            entry.truncated = listing.truncated;
            (entry.description_bytes, entry.description_tokens) = listing.description_size();
            let changes = server.standing().changes.into_iter();
            entry.changes =
                changes.map(|change| ChangedTool { tool: change.tool, change: change.kind.name() }).collect();
            let usable = listing.tools.values().map(|tool| ServerTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                problem: None,
                warnings: tool.warnings.clone(),
                digest: Some(tool.digest.clone()),
                parameters: tool.parameters.to_json(),
            });
            let refused = listing.refused.iter().map(|(name, why)| ServerTool {
                name: name.clone(),
                description: String::new(),
                problem: Some(why.clone()),
                warnings: Vec::new(),
                digest: None,
                parameters: String::new(),
            });
            entry.tools = usable.chain(refused).collect();
        }
    }
    if entry.has_started {
        match server.offers().await {
            Ok(offers) => {
                entry.resources = offers.resources.iter().map(ServerOffer::of_resource).collect();
                entry.resource_templates = offers.templates.iter().map(ServerOffer::of_resource).collect();
                entry.prompts = offers.prompts.iter().map(ServerOffer::of_prompt).collect();
                entry.refused_offers = offers.refused;
                if offers.truncated {
                    entry.refused_offers.push("it lists more resources or prompts, which are not used".to_owned());
                }
            }
            Err(failure) => entry.refused_offers.push(failure.message),
        }
    }
    entry
}

/// The bounds of a confined server, as a sentence.
fn confined() -> String {
    match confinement() {
        Ok(held) => {
            let gaps = held.gaps().map(|gaps| format!("; {gaps}")).unwrap_or_default();
            format!("kept from {}{gaps}", held.holds.join(", "))
        }
        Err(why) => format!("it cannot be: {why}"),
    }
}

/// Every name that documents may call beside the plugins' own operations.
pub(crate) async fn tools(tools: &Tools, describe: impl Fn(&str) -> Option<String>) -> Vec<ToolEntry> {
    let operations = tools.operations.iter().map(|(name, operation)| {
        let description = describe(operation);
        let problem = description.is_none().then(|| format!("no plugin of the project offers `{operation}`"));
        ToolEntry {
            name: name.clone(),
            target: format!("operation {operation}"),
            description: description.unwrap_or_default(),
            problem,
        }
    });
    let operations: Vec<ToolEntry> = operations.collect();
    let of_documents = join_all(tools.of_documents.iter().map(|(name, known)| async move {
        let (description, problem) = match known.remote() {
            None => (known.tool.description().description.clone(), None),
            Some((server, remote)) => match server.tool(remote).await {
                Ok(listed) => (listed.description, None),
                Err(failure) => (String::new(), Some(super::with_remedy(server.name(), failure).message)),
            },
        };
        ToolEntry { name: name.clone(), target: known.target(), description, problem }
    }));
    operations.into_iter().chain(of_documents.await).collect()
}
