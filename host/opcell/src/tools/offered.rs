//! Resources and prompts of MCP servers, as tools that a project grants by patterns.
//!
//! Other resources and prompts are neither listed nor read. The description of such a tool is the host's: a server's own words
//! reach a model only as a result.

use async_trait::async_trait;
use opcell_engine::{
    ports::{Effects, Failure},
    receipt::Provider,
    tool::{Tool, ToolInput},
};
use opcell_tools::mcp::{Binary, ListedPrompt, ListedResource, Server};
use opcell_types::{Source, ToolDescription, Value, text::one_line};
use std::sync::Arc;

/// Bytes of a URI.
const URI_BYTES: usize = 2 << 10;

/// Bytes of a text that a sentence repeats.
const QUOTED_BYTES: usize = 200;

/// The part of a server's offers that a tool reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Resources,
    Prompts,
}

/// A tool that reads what a server offers beside tools.
pub(crate) struct Offered {
    server: Arc<Server>,
    part: Part,
    /// The URIs or names that may be read.
    patterns: Vec<String>,
    description: ToolDescription,
}

/// Returns `true` if a name matches a pattern, in which `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(between) = last.replace(part) {
            let Some(at) = rest.find(between) else { return false };
            rest = rest.get(at + between.len()..).unwrap_or_default();
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

impl Offered {
    /// The tool that documents call `name`, which reads what matches one of these patterns.
    pub(crate) fn new(server: Arc<Server>, part: Part, patterns: Vec<String>, name: &str) -> Self {
        let granted: Vec<String> = patterns.iter().map(|pattern| format!("`{pattern}`")).collect();
        let (granted, of) = (granted.join(", "), server.name());
        let text = |about: &str| Value::object([("type", Value::from("string")), ("description", about.into())]);
        let (about, properties) = match part {
            Part::Resources => (
                format!(
                    "Reads a resource of MCP server `{of}` by its URI; without one, lists its resources and templates of URIs. Only URIs like {granted} can be read."
                ),
                Value::object([("uri", text("The URI of the resource."))]),
            ),
            Part::Prompts => (
                format!(
                    "Gets a prompt of MCP server `{of}` by its name; without one, lists its prompts with their arguments. Only prompts like {granted} can be got."
                ),
                Value::object([
                    ("name", text("The name of the prompt.")),
                    (
                        "arguments",
                        Value::object([
                            ("type", Value::from("object")),
                            ("additionalProperties", Value::object([("type", Value::from("string"))])),
                        ]),
                    ),
                ]),
            ),
        };
        let parameters = Value::object([
            ("type", Value::from("object")),
            ("properties", properties),
            ("additionalProperties", Value::from(false)),
        ]);
        Self { description: ToolDescription::new(name, about, parameters), server, part, patterns }
    }

    fn grants(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// Checks that a name may be read.
    fn check(&self, name: &str) -> Result<(), Failure> {
        let what = match self.part {
            Part::Resources => "resource",
            Part::Prompts => "prompt",
        };
        let shown = one_line(name, QUOTED_BYTES);
        let refused = |why: String| Failure::new(Source::Tool, "mcp-not-granted", why);
        if name.len() > URI_BYTES || one_line(name, URI_BYTES) != name {
            return Err(refused(format!("the name `{shown}` of a {what} is too long or cannot be printed")));
        }
        // The server would resolve them after the patterns were asked.
        if self.part == Part::Resources && has_dot_segment(name) {
            return Err(refused(format!("the URI `{shown}` has a segment `..` or `.`; write it without")));
        }
        if !self.grants(name) {
            let (server, granted) = (self.server.name(), self.patterns.join("`, `"));
            let why = format!(
                "{what} `{shown}` of MCP server `{server}` is not granted to `{}`, which reads `{granted}`",
                self.description.name
            );
            return Err(refused(why));
        }
        Ok(())
    }

    async fn listed(&self) -> Result<Value, Failure> {
        let offers = self.server.offers().await?;
        let mut entries = match self.part {
            Part::Resources => {
                let of = |all: &[ListedResource], key: &'static str| -> Value {
                    let granted = all.iter().filter(|entry| self.grants(&entry.uri));
                    granted.map(|entry| resource(entry, key)).collect::<Vec<Value>>().into()
                };
                vec![("resources", of(&offers.resources, "uri")), ("templates", of(&offers.templates, "uri-template"))]
            }
            Part::Prompts => {
                let granted = offers.prompts.iter().filter(|entry| self.grants(&entry.name));
                vec![("prompts", granted.map(prompt).collect::<Vec<Value>>().into())]
            }
        };
        if offers.truncated {
            entries.push(("truncated", Value::from(true)));
        }
        Ok(Value::object(entries))
    }

    async fn read(&self, input: &ToolInput) -> Result<Value, Failure> {
        let for_model = input.model().is_some();
        let key = match self.part {
            Part::Resources => "uri",
            Part::Prompts => "name",
        };
        let Some(name) = input.arguments.get(key).and_then(Value::as_str) else { return self.listed().await };
        self.check(name)?;
        match self.part {
            Part::Resources => {
                self.server.read_resource(name, if for_model { Binary::Attachments } else { Binary::Keep }).await
            }
            Part::Prompts => {
                let nothing = Value::object::<&str>([]);
                let arguments = input.arguments.get("arguments").unwrap_or(&nothing);
                // The pictures of its messages are no parts of a result.
                let binary = if for_model { Binary::Omit } else { Binary::Keep };
                self.server.prompt(name, arguments, binary).await
            }
        }
    }
}

/// Returns `true` if a path of a URI leads upwards, however that is written.
fn has_dot_segment(uri: &str) -> bool {
    let decoded = uri.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    decoded.split(['/', '\\', '?', '#']).any(|segment| matches!(segment, "." | ".."))
}

fn resource(entry: &ListedResource, key: &'static str) -> Value {
    let texts = [
        (key, Some(entry.uri.as_str())),
        ("name", Some(entry.name.as_str())),
        ("description", Some(entry.description.as_str())),
        ("mime-type", entry.mime_type.as_deref()),
    ];
    let said =
        texts.into_iter().filter_map(|(key, text)| Some((key, Value::from(text.filter(|text| !text.is_empty())?))));
    Value::object(said)
}

fn prompt(entry: &ListedPrompt) -> Value {
    let argument = |(name, required): &(String, bool)| {
        Value::object([("name", Value::from(name.as_str())), ("required", Value::from(*required))])
    };
    Value::object([
        ("name", Value::from(entry.name.as_str())),
        ("description", Value::from(entry.description.as_str())),
        ("arguments", entry.arguments.iter().map(argument).collect::<Vec<Value>>().into()),
    ])
}

#[async_trait]
impl Tool for Offered {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    /// Reading changes nothing that anyone asked for.
    fn effects(&self) -> Effects {
        Effects::Idempotent
    }

    fn provider(&self) -> Provider {
        Provider::Mcp(self.server.name().into())
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        self.read(input).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_a_whole() {
        for (pattern, name, expected) in [
            ("notes/*", "notes/add", true),
            ("notes/*", "notes2/add", false),
            ("*", "anything", true),
            ("notes/add", "notes/add", true),
            ("notes/add", "notes/added", false),
            ("*/read_*", "files/read_text", true),
            ("*/read_*", "files/write", false),
            ("*", "a/b", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_uri_that_leads_out_of_what_is_granted_is_found_however_it_is_written() {
        for uri in [
            "f:///a/../b",
            "f:///a/%2e%2E/b",
            "f:///a/.%2e/b",
            "f:///a\\..\\b",
            "f:///a%2f..%2Fb",
            "f:///a/..?x",
            "f://.",
        ] {
            assert!(has_dot_segment(uri), "{uri}");
        }
        for uri in ["f:///a/b.txt", "f:///a/..b", "f:///a/b..", "notes://7", "f:///a/.config"] {
            assert!(!has_dot_segment(uri), "{uri}");
        }
    }
}
