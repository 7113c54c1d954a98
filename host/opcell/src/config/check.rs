//! From what the project file says to what it means; everything that it names must exist.

mod grants;
mod journal;
mod limits;
mod plugins;
pub(crate) mod skills;
mod tenants;
mod triggers;

use super::{
    Config, PluginConfig, SessionSettings,
    text::{
        AccessText, BashText, ContributionText, CredentialText, HttpText, ProjectText, ServerText, SessionsText,
        ToolText,
    },
};
use crate::{
    governance::PackPolicy,
    http::{Credential, HttpRule, OriginPattern, SecretSource},
    report::Rejected,
    similar::similar_path,
};
use indexmap::IndexMap;
use opcell_ir::{Diagnostic, SourceFile, Span, ir::Session};
use opcell_registry::store::Store;
use opcell_sandbox::limits::Unit;
use opcell_session::{
    models::ModelsConfig,
    tools::{FileRoot, Shell},
};
use opcell_tools::http::{HeaderName, Method};
use opcell_types::{Access, files::read_text_bounded};
use serde_spanned::Spanned;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Tools that the host itself offers.
pub const HOST_TOOLS: [&str; 1] = ["http.fetch"];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Checks a whole file.
///
/// # Errors
/// Every finding. Nothing is granted when there is one.
pub fn check(mut text: ProjectText, source: &Arc<SourceFile>, root: &Path) -> Result<Config, Rejected> {
    let tool_names = text.tools.keys().map(|name| name.get_ref().clone()).collect();
    let mut checker = Checker { root, tool_names, findings: Vec::new() };
    let folder_plugins = checker.folder_plugins(&text.plugin_folders);
    let mut plugins: IndexMap<String, PluginConfig> = IndexMap::new();
    let values = checker.values(&mut text.limits);
    let limit_spans = limits::limit_spans(&text.limits);
    let limits = checker.limits(text.limits);
    let names: Vec<String> = folder_plugins.keys().cloned().collect();
    let plugin_approvals = checker.plugin_approvals(&text.plugins);
    for (name, plugin) in text.plugins {
        if let Some(plugin) = checker.plugin(&name, plugin, &limits, (&folder_plugins, &names)) {
            plugins.insert(plugin.name.clone(), plugin);
        }
    }
    for (name, path) in folder_plugins {
        plugins.entry(name.clone()).or_insert_with(|| PluginConfig::new(name, path));
    }
    let skills = checker.directories(&text.skill_folders, "skill folder");
    for script in checker.skill_scripts(text.skills, &skills, &limits) {
        if let Some(other) = plugins.insert(script.name.clone(), script) {
            let message = format!("the script of a skill has the name of the plugin `{}`", other.name);
            let span = other.span.unwrap_or(Span::new(0, 0));
            checker.error("duplicate-plugin", span, message, Some("give the plugin another name".to_owned()));
        }
    }
    if let Some(cache) = text.cache {
        let message = "a project does not say where compiled plugins are kept: what lies there runs as native code";
        let help = "remove `cache`; they are kept in the user's cache directory, or where OPCELL_CACHE says";
        checker.error("cache-in-project", span_of(&cache), message.to_owned(), Some(help.to_owned()));
    }
    let config = Config {
        file: None,
        source: source.clone(),
        root: root.to_owned(),
        workflows: checker.directories(&text.workflows, "workflow folder"),
        default_workflows: Vec::new(),
        plugins,
        plugin_folders: text.plugin_folders.iter().map(|folder| root.join(folder.get_ref())).collect(),
        values,
        keep_resident: checker.keep_resident(text.keep_resident.as_ref()),
        limits,
        limit_spans,
        skills,
        // Before what they are of is taken.
        sessions: SessionSettings {
            plugin_approvals,
            ..checker.sessions(text.models, text.sessions, &text.tools, &text.mcp)
        },
        authorizer: text.packs.authorizer,
        pack_policy: PackPolicy { environment: text.packs.environment, accepted: text.packs.accept_governance },
        tools: checker.tools(text.tools, &text.mcp),
        servers: checker.servers(text.mcp),
        record_host_calls: text.journal.as_ref().is_some_and(|journal| journal.get_ref().records_host_calls()),
        journal: text.journal.map(|journal| checker.journal(journal)),
        triggers: checker.triggers(text.triggers),
        tenants: checker.tenants(text.tenants),
        lock: None,
        locked: false,
        in_force: Vec::new(),
        store: Store::default(),
        covers: Arc::default(),
    };
    if checker.findings.is_empty() { Ok(config) } else { Err(Rejected::in_source(source.clone(), checker.findings)) }
}

pub(super) struct Checker<'a> {
    pub(super) root: &'a Path,
    /// The names of `[tools]`.
    tool_names: Vec<String>,
    findings: Vec<Diagnostic>,
}

pub(super) fn span_of<T>(spanned: &Spanned<T>) -> Span {
    Span::new(spanned.span().start, spanned.span().end)
}

/// Returns `true` if plugins may have this name: a letter or digit, then up to 63 letters, digits, `.`, `_` and `-`.
pub(crate) fn is_plugin_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain)
}

impl Checker<'_> {
    pub(super) fn error(&mut self, code: &'static str, span: Span, message: String, help: Option<String>) {
        let mut diagnostic = Diagnostic::error(code, message).at(span);
        diagnostic.help = help;
        self.findings.push(diagnostic);
    }

    fn directories(&mut self, paths: &[Spanned<String>], what: &str) -> Vec<PathBuf> {
        paths.iter().filter_map(|path| self.directory(path, what)).collect()
    }

    /// The path that was probably meant by one that leads nowhere, or the place where relative ones start.
    fn path_help(&self, path: &Path) -> String {
        match similar_path(path) {
            Some(meant) => {
                let meant = meant.strip_prefix(self.root).map(Path::to_owned).unwrap_or(meant);
                format!("did you mean `{}`? Relative paths start at {}", meant.display(), self.root.display())
            }
            None => format!("relative paths start at {}", self.root.display()),
        }
    }

    pub(super) fn directory(&mut self, path: &Spanned<String>, what: &str) -> Option<PathBuf> {
        let full = self.root.join(path.get_ref());
        if full.is_dir() {
            return Some(full);
        }
        let problem = if full.exists() { "is not a directory" } else { "does not exist" };
        let help = self.path_help(&full);
        self.error("path-not-found", span_of(path), format!("the {what} `{}` {problem}", path.get_ref()), Some(help));
        None
    }

    fn sessions(
        &mut self,
        models: ModelsConfig,
        text: SessionsText,
        tools: &IndexMap<Spanned<String>, Spanned<ToolText>>,
        servers: &IndexMap<Spanned<String>, ServerText>,
    ) -> SessionSettings {
        let mut files = Vec::new();
        for (name, root) in text.files {
            let path = self.directory(&root.path, "session's directory");
            let quota = self.quantity(root.quota.as_ref(), Unit::Bytes, "quota", FileRoot::DEFAULT_WRITE_QUOTA);
            if let (Some(path), Some(write_quota)) = (path, quota) {
                files.push(FileRoot {
                    writable: access(root.access) == Access::ReadWrite,
                    control_files: root.control_files,
                    write_quota,
                    ..FileRoot::read(name.into_inner(), path)
                });
            }
        }
        let script = text.script.map(|script| {
            let path = self.root.join(script.get_ref());
            if !path.is_file() {
                self.error(
                    "path-not-found",
                    span_of(&script),
                    format!("the script `{}` does not exist", script.get_ref()),
                    None,
                );
            }
            path
        });
        let contribution_files = text.contributions.iter().filter_map(|(name, text)| {
            let file = text.get_ref().file.as_ref()?;
            Some((name.get_ref().clone(), self.root.join(file.get_ref())))
        });
        let contribution_files = contribution_files.collect();
        let contributions = text
            .contributions
            .into_iter()
            .filter_map(|(name, text)| self.contribution(name.into_inner(), text))
            .collect();
        SessionSettings {
            model: None,
            models,
            rounds_at_a_time: None,
            contributions,
            contribution_files,
            unnarrowed_workflows: text.unnarrowed_workflows,
            script,
            record: text.record.map(|record| self.root.join(record.into_inner())),
            files,
            defaults: self.session(text.defaults, "[sessions.defaults]"),
            profiles: text
                .profiles
                .into_iter()
                .map(|(name, profile)| {
                    let profile = self.session(profile, &format!("[sessions.profiles.{name}]"));
                    (name, profile)
                })
                .collect(),
            augmenters: text.augmenters,
            missing_tools: text.missing_tools,
            context_files: text.context_files,
            http: text.http.into_iter().filter_map(|rule| self.http(rule.into_inner())).collect(),
            bash: text.bash.and_then(|bash| self.bash(bash)),
            approve: self.approval(text.approve.as_ref(), "[sessions]"),
            tool_approvals: self.tool_approvals(tools),
            in_programs: self.in_programs(tools),
            server_approvals: self.server_approvals(servers),
            plugin_approvals: IndexMap::new(),
            approved: text.approved,
        }
    }

    /// Settings of sessions whose rules for calls say where they are written.
    fn session(&mut self, settings: Session, place: &str) -> Session {
        if let Some(problem) = super::tools::problem_of(&settings.approve) {
            let message = format!("the rules `approve` of {place} cannot be used: {problem}");
            self.error("invalid-approval", Span::new(0, 0), message, None);
        }
        Session { approve: settings.approve.written_in(place), ..settings }
    }

    fn contribution(&mut self, name: String, text: Spanned<ContributionText>) -> Option<(String, (i32, String))> {
        let span = span_of(&text);
        let ContributionText { text, file, priority } = text.into_inner();
        let said = match (text, file) {
            (Some(text), None) => text,
            (None, Some(file)) => match read_text_bounded(&self.root.join(file.get_ref()), MAX_CONTRIBUTION as u64) {
                Ok(text) => text,
                Err(error) => {
                    let message = format!("the prompt contribution `{}` cannot be read: {error}", file.get_ref());
                    self.error("path-not-found", span_of(&file), message, None);
                    return None;
                }
            },
            _ => {
                let message = format!("the prompt contribution `{name}` needs `text` or `file`, and not both");
                self.error("project-file-invalid", span, message, None);
                return None;
            }
        };
        if said.len() > MAX_CONTRIBUTION {
            let message =
                format!("the prompt contribution `{name}` has {} bytes, more than {MAX_CONTRIBUTION}", said.len());
            self.error("project-file-invalid", span, message, Some("models read it in every session".to_owned()));
            return None;
        }
        Some((name, (priority.unwrap_or(DEFAULT_PRIORITY), said)))
    }

    fn bash(&mut self, text: Spanned<BashText>) -> Option<Shell> {
        let span = span_of(&text);
        let text = text.into_inner();
        if !text.dangerous {
            let message = "`bash` runs commands outside any sandbox, with the rights of whoever runs opcell; it needs \
                           `dangerous = true`";
            self.error("dangerous-bash", span, message.to_owned(), None);
        }
        let folder = match &text.path {
            Some(path) => self.directory(path, "working directory of `bash`")?,
            None => self.root.to_owned(),
        };
        let mut shell = Shell { environment: text.environment, ..Shell::new(folder) };
        if let Some(timeout) = &text.timeout {
            match limits::quantity(timeout.get_ref(), Unit::Milliseconds, "timeout") {
                Ok(ms) => {
                    shell.timeout = Duration::from_millis(ms);
                    shell.max_timeout = shell.max_timeout.max(shell.timeout);
                }
                Err(error) => self.error("invalid-limit", span_of(timeout), error.to_string(), None),
            }
        }
        text.dangerous.then_some(shell)
    }

    pub(super) fn http(&mut self, text: HttpText) -> Option<HttpRule> {
        let mut origins = Vec::new();
        for host in text.hosts {
            match host.get_ref().parse::<OriginPattern>() {
                Ok(origin) => origins.push(origin),
                Err(error) => self.error("invalid-host", span_of(&host), error.to_string(), None),
            }
        }
        let mut methods = vec![Method::GET, Method::HEAD];
        if let Some(listed) = text.methods {
            methods.clear();
            for method in listed {
                match METHODS.contains(&method.get_ref().as_str()).then(|| method.get_ref().parse()) {
                    Some(Ok(parsed)) => methods.push(parsed),
                    _ => {
                        let help = format!("methods are: {}", METHODS.join(", "));
                        self.error(
                            "invalid-method",
                            span_of(&method),
                            format!("`{}` is not a method", method.get_ref()),
                            Some(help),
                        );
                    }
                }
            }
        }
        let credential = match text.credential {
            Some(credential) => Some(self.credential(credential)?),
            None => None,
        };
        Some(HttpRule { origins, methods, private: text.private, credential })
    }

    fn credential(&mut self, credential: Spanned<CredentialText>) -> Option<Credential> {
        let span = span_of(&credential);
        let text = credential.into_inner();
        let source = match (text.env, text.file) {
            (Some(name), None) => SecretSource::Env(name),
            (None, Some(file)) => SecretSource::File(self.root.join(file.into_inner())),
            _ => {
                self.error(
                    "invalid-credential",
                    span,
                    "a credential needs exactly one of `env` and `file`".to_owned(),
                    None,
                );
                return None;
            }
        };
        let header =
            text.header.map_or_else(|| "authorization".to_owned(), |header| header.into_inner().to_ascii_lowercase());
        if header.parse::<HeaderName>().is_err() {
            self.error("invalid-credential", span, format!("`{header}` is not a header name"), None);
            return None;
        }
        let bearer = if header == "authorization" { "Bearer " } else { "" };
        Some(Credential { prefix: text.prefix.unwrap_or_else(|| bearer.to_owned()), header, source })
    }
}

/// `30 days`, `12 h`; a day has 24 hours.
fn duration(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let signed = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(signed).ok().filter(|length| !length.is_zero())
}

fn access(text: AccessText) -> Access {
    match text {
        AccessText::Read => Access::Read,
        AccessText::ReadWrite => Access::ReadWrite,
    }
}
/// The most bytes of one prompt contribution.
const MAX_CONTRIBUTION: usize = 64 << 10;

/// The priority of a contribution that has none (psi's default).
const DEFAULT_PRIORITY: i32 = 1000;
