//! The implementation of a tool named by a document: an operation of a plugin, a tool of the host, or a tool of an MCP
//! server.

use super::{
    check::{Checker, HOST_TOOLS, span_of},
    text::{CredentialText, HttpText, InProgramsText, PluginText, ServerText, ToolTable, ToolText},
};
use crate::http::HttpRule;
use indexmap::IndexMap;
use opcell_ir::{Span, diagnostic::did_you_mean, ir::ApprovalRules};
use opcell_sandbox::limits::Unit;
use opcell_session::tools::InPrograms;
pub use opcell_tools::mcp::{McpServer, Remote};
use serde_spanned::Spanned;
use std::time::Duration;

/// The implementation of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolTarget {
    /// A plugin's operation by its id, run in a cell.
    Operation(String),
    /// A tool of the host by its name, with the requests that it may perform.
    Host {
        /// Such as `http.fetch`.
        tool: String,
        /// For `http.fetch`; everything else is denied.
        http: Vec<HttpRule>,
    },
    /// A tool of an MCP server.
    Mcp {
        /// The server's name in the project.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
    /// Resources of an MCP server.
    McpResources {
        /// The server's name in the project.
        server: String,
        /// Patterns of the URIs that may be read.
        uris: Vec<String>,
    },
    /// Prompts of an MCP server.
    McpPrompts {
        /// The server's name in the project.
        server: String,
        /// Patterns of the names that may be got.
        names: Vec<String>,
    },
}

impl ToolTarget {
    /// The operation that implements it, if any.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::Host { .. } | Self::Mcp { .. } | Self::McpResources { .. } | Self::McpPrompts { .. } => None,
        }
    }

    /// The requests that the host performs for it.
    #[must_use]
    pub fn rules(&self) -> &[HttpRule] {
        match self {
            Self::Host { http, .. } => http,
            Self::Operation(_) | Self::Mcp { .. } | Self::McpResources { .. } | Self::McpPrompts { .. } => &[],
        }
    }

    /// The MCP server that it reaches, if any.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Mcp { server, .. } | Self::McpResources { server, .. } | Self::McpPrompts { server, .. } => {
                Some(server)
            }
            Self::Operation(_) | Self::Host { .. } => None,
        }
    }
}

/// Why rules for calls of tools cannot be used.
pub(super) fn problem_of(rules: &ApprovalRules) -> Option<String> {
    let unusable = |schema: &opcell_types::Value| {
        let problem = opcell_schema::Schema::shared(schema).err()?;
        Some(format!("the schema cannot be used: {problem}"))
    };
    rules.problem().or_else(|| rules.schemas().find_map(unusable))
}

impl Checker<'_> {
    pub(super) fn tools(
        &mut self,
        tools: IndexMap<Spanned<String>, Spanned<ToolText>>,
        servers: &IndexMap<Spanned<String>, ServerText>,
    ) -> IndexMap<String, ToolTarget> {
        let mut targets = IndexMap::new();
        for (name, text) in tools {
            let span = span_of(&text);
            let target = match text.into_inner() {
                ToolText::Operation(operation) => Some(ToolTarget::Operation(operation)),
                ToolText::Table(table) => self.tool(name.get_ref(), *table, span, servers),
            };
            if let Some(target) = target {
                targets.insert(name.into_inner(), target);
            }
        }
        targets
    }

    fn tool(
        &mut self,
        name: &str,
        table: ToolTable,
        span: Span,
        servers: &IndexMap<Spanned<String>, ServerText>,
    ) -> Option<ToolTarget> {
        let ToolTable { operation, host, http, mcp, tool, resources, prompts, approve, code } = table;
        let is_offer = resources.is_some() || prompts.is_some();
        let is_rule = approve.is_some() || code.is_some();
        if operation.is_none() && host.is_none() && mcp.is_none() && tool.is_none() && !is_offer && is_rule {
            return None;
        }
        if host.is_none() && !http.is_empty() {
            let help = "give the tool `host = \"http.fetch\"`".to_owned();
            self.error(
                "invalid-tool",
                span,
                format!("tool `{name}` has http rules but performs no requests"),
                Some(help),
            );
            return None;
        }
        if mcp.is_none() && (tool.is_some() || is_offer) {
            let help = "name its server with `mcp`".to_owned();
            self.error(
                "invalid-tool",
                span,
                format!("tool `{name}` names an MCP tool, resources or prompts but no server"),
                Some(help),
            );
            return None;
        }
        match (operation, host, mcp) {
            (Some(operation), None, None) => Some(ToolTarget::Operation(operation)),
            (None, Some(host), None) => {
                if !HOST_TOOLS.contains(&host.as_str()) {
                    let help = match did_you_mean(&host, HOST_TOOLS.iter().copied()) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("the host's tools are: {}", HOST_TOOLS.join(", ")),
                    };
                    self.error("unknown-capability", span, format!("there is no host tool `{host}`"), Some(help));
                    return None;
                }
                let http = http.into_iter().filter_map(|rule| self.http(rule.into_inner())).collect();
                Some(ToolTarget::Host { tool: host, http })
            }
            (None, None, Some(server)) => {
                if !servers.contains_key(server.get_ref().as_str()) {
                    let known = servers.keys().map(|name| name.get_ref().as_str());
                    let help = did_you_mean(server.get_ref(), known).map_or_else(
                        || format!("add `[mcp.{}]` with its `command`", server.get_ref()),
                        |meant| format!("did you mean `{meant}`?"),
                    );
                    let message = format!("the project has no MCP server `{}`", server.get_ref());
                    self.error("unknown-server", span_of(&server), message, Some(help));
                    return None;
                }
                let server = server.into_inner();
                match (tool, resources, prompts) {
                    (tool, None, None) => {
                        Some(ToolTarget::Mcp { tool: tool.unwrap_or_else(|| name.to_owned()), server })
                    }
                    (None, Some(uris), None) => {
                        Some(ToolTarget::McpResources { server, uris: self.patterns(name, "resources", uris)? })
                    }
                    (None, None, Some(names)) => {
                        Some(ToolTarget::McpPrompts { server, names: self.patterns(name, "prompts", names)? })
                    }
                    _ => {
                        let message = format!("tool `{name}` has more than one of `tool`, `resources` and `prompts`");
                        let help = Some("bind each by a name of its own".to_owned());
                        self.error("invalid-tool", span, message, help);
                        None
                    }
                }
            }
            _ => {
                let message = format!("tool `{name}` needs exactly one of `operation`, `host` and `mcp`");
                self.error("invalid-tool", span, message, None);
                None
            }
        }
    }

    /// Patterns of what may be read: nothing matches an empty list.
    fn patterns(&mut self, name: &str, key: &str, patterns: Spanned<Vec<String>>) -> Option<Vec<String>> {
        let span = span_of(&patterns);
        let patterns = patterns.into_inner();
        if patterns.is_empty() || patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            let message = format!("`{key}` of tool `{name}` has no pattern, or an empty one, and so grants nothing");
            let help = format!("such as `{key} = [\"*\"]` for all of them");
            self.error("invalid-tool", span, message, Some(help));
            return None;
        }
        Some(patterns)
    }

    /// Rules for calls of tools, checked.
    pub(super) fn approval(&mut self, rules: Option<&Spanned<ApprovalRules>>, place: &str) -> ApprovalRules {
        let Some(rules) = rules else { return ApprovalRules::default() };
        if let Some(problem) = problem_of(rules.get_ref()) {
            let message = format!("the rules `approve` of {place} cannot be used: {problem}");
            self.error("invalid-approval", span_of(rules), message, None);
        }
        rules.get_ref().written_in(place)
    }

    /// The rules of single tools.
    pub(super) fn tool_approvals(
        &mut self,
        tools: &IndexMap<Spanned<String>, Spanned<ToolText>>,
    ) -> IndexMap<String, ApprovalRules> {
        let mut approvals = IndexMap::new();
        for (name, text) in tools {
            let ToolText::Table(table) = text.get_ref() else { continue };
            let Some(approve) = &table.approve else { continue };
            let rules = self.approval(Some(approve), &format!("[tools.{}]", name.get_ref()));
            approvals.insert(name.get_ref().clone(), rules);
        }
        approvals
    }

    /// The tools that programs of models do not call, or nothing else does.
    pub(super) fn in_programs(
        &mut self,
        tools: &IndexMap<Spanned<String>, Spanned<ToolText>>,
    ) -> IndexMap<String, InPrograms> {
        let mut places = IndexMap::new();
        for (name, text) in tools {
            let ToolText::Table(table) = text.get_ref() else { continue };
            let Some(code) = &table.code else { continue };
            let place = match code.get_ref() {
                InProgramsText::Flag(false) => InPrograms::Never,
                InProgramsText::Word(word) if word == "only" => InPrograms::Only,
                InProgramsText::Flag(_) | InProgramsText::Word(_) => {
                    let message = format!("`code` of [tools.{}] is neither `false` nor \"only\"", name.get_ref());
                    let help = "leave it out for a tool that programs and models call".to_owned();
                    self.error("invalid-tool", span_of(code), message, Some(help));
                    continue;
                }
            };
            places.insert(name.get_ref().clone(), place);
        }
        places
    }

    /// The rules of MCP servers, for all of their tools.
    pub(super) fn server_approvals(
        &mut self,
        servers: &IndexMap<Spanned<String>, ServerText>,
    ) -> IndexMap<String, ApprovalRules> {
        let mut approvals = IndexMap::new();
        for (name, text) in servers {
            let rules = self.approval(text.approve.as_ref(), &format!("[mcp.{}]", name.get_ref()));
            if !rules.is_empty() {
                approvals.insert(name.get_ref().clone(), rules);
            }
        }
        approvals
    }

    /// The rules of plugins, for the tools that they call.
    pub(super) fn plugin_approvals(
        &mut self,
        plugins: &IndexMap<Spanned<String>, PluginText>,
    ) -> IndexMap<String, ApprovalRules> {
        let mut approvals = IndexMap::new();
        for (name, text) in plugins {
            let place = format!("[plugins.{}.grants]", name.get_ref());
            let rules = self.approval(text.grants.approve.as_ref(), &place);
            // The call ends with a refusal, and granting it is one answer, at any time.
            let is_more = rules.rules().iter().any(|rule| rule.people.is_some_and(|people| people > 1))
                || rules.rules().iter().any(|rule| rule.within_seconds.is_some());
            if let Some(approve) = text.grants.approve.as_ref().filter(|_| is_more) {
                let message = format!("the rules `approve` of {place} cannot have `people = 2` or `within-seconds`");
                let help = "only calls by models have them".to_owned();
                self.error("invalid-approval", span_of(approve), message, Some(help));
            }
            if !rules.is_empty() {
                approvals.insert(name.get_ref().clone(), rules);
            }
        }
        approvals
    }

    pub(super) fn servers(&mut self, servers: IndexMap<Spanned<String>, ServerText>) -> IndexMap<String, McpServer> {
        servers
            .into_iter()
            .filter_map(|(name, text)| {
                let server = self.server(name.get_ref(), span_of(&name), text)?;
                Some((name.into_inner(), server))
            })
            .collect()
    }

    /// A server over HTTP: its origin is the only one that is reached.
    fn remote(
        &mut self,
        url: &Spanned<String>,
        private: bool,
        credential: Option<Spanned<CredentialText>>,
    ) -> Option<Remote> {
        let parsed = url::Url::parse(url.get_ref()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(parsed) = parsed.filter(|url| url.username().is_empty() && url.password().is_none()) else {
            let help = "expected an address such as `https://tools.example/mcp`, without a name or password".to_owned();
            let message = format!("`{}` is not the address of a server", crate::report::printable(url.get_ref()));
            self.error("invalid-server", span_of(url), message, Some(help));
            return None;
        };
        let origin = Spanned::new(url.span(), parsed.origin().ascii_serialization());
        let methods = ["GET", "POST", "DELETE"].map(|method| Spanned::new(url.span(), method.to_owned()));
        let rule = HttpText { hosts: vec![origin], methods: Some(methods.into()), private, credential };
        Some(Remote { url: parsed, rule: self.http(rule)? })
    }

    fn server(&mut self, name: &str, name_span: Span, text: ServerText) -> Option<McpServer> {
        let directory = match &text.directory {
            Some(directory) => self.directory(directory, "server's directory"),
            None => Some(self.root.to_owned()),
        };
        let ms = u64::try_from(McpServer::DEFAULT_CALL_TIME.as_millis()).unwrap_or(u64::MAX);
        let call_time = self.quantity(text.call_time.as_ref(), Unit::Milliseconds, "call-time", ms);
        let result_bytes =
            self.quantity(text.result_bytes.as_ref(), Unit::Bytes, "result-bytes", McpServer::DEFAULT_RESULT_BYTES);
        if !text.confine && (text.network || !text.read.is_empty() || !text.write.is_empty()) {
            let help = "add `confine = true`, or remove `read`, `write` and `network`".to_owned();
            let message = format!("MCP server `{name}` is not confined: it reads, writes and reaches everything");
            self.error("invalid-server", name_span, message, Some(help));
        }
        let (command, url) = (text.command, text.url);
        let (program, arguments, remote) = match (command, url) {
            (Some(command), None) => {
                let span = span_of(&command);
                let mut words = command.into_inner().into_iter();
                let Some(program) = words.next().filter(|program| !program.is_empty()) else {
                    let help = "such as `command = [\"npx\", \"-y\", \"some-server\"]`".to_owned();
                    self.error("invalid-server", span, format!("MCP server `{name}` has no `command`"), Some(help));
                    return None;
                };
                (program, words.collect(), None)
            }
            (None, Some(url)) => (String::new(), Vec::new(), Some(self.remote(&url, text.private, text.credential)?)),
            _ => {
                let message = format!("MCP server `{name}` needs exactly one of `command` and `url`");
                self.error("invalid-server", name_span, message, None);
                return None;
            }
        };
        Some(McpServer {
            program,
            arguments,
            directory: directory?,
            env: text.env,
            call_time: Duration::from_millis(call_time?),
            result_bytes: result_bytes?,
            remote,
            confine: text.confine,
            read: text.read.iter().map(|path| self.root.join(path.get_ref())).collect(),
            write: text.write.iter().map(|path| self.root.join(path.get_ref())).collect(),
            network: text.network,
        })
    }
}
