//! From what the project file says to what it means; everything that it names must exist.

mod grants;
pub(crate) mod skills;
mod tenants;
mod triggers;

use super::{
    Config, JournalPlace, JournalServer, JournalSettings, LimitSpans, PluginConfig, SessionSettings,
    origin::Origin,
    text::{
        AccessText, BashText, ContributionText, CredentialText, ExportsText, HttpText, JournalText, PasswordText,
        PluginText, ProjectText, Quantity, ServerText, SessionsText, SettingText, ToolText,
    },
};
use crate::{
    builtin,
    http::{Credential, HttpRule, OriginPattern, SecretSource},
    places::real,
    report::Rejected,
};
use indexmap::IndexMap;
use opcell_engine::ValueLimits;
use opcell_ir::{Diagnostic, SourceFile, Span, diagnostic::did_you_mean, ir::Session};
use opcell_registry::store::Store;
use opcell_sandbox::{
    Exports, Settings,
    grants::FilesGrant,
    limits::{LimitError, LimitRequest, TABLE, Unit},
};
use opcell_session::{
    models::ModelsConfig,
    tools::{FileRoot, Shell},
};
use opcell_tools::http::{HeaderName, Method};
use opcell_types::{Access, Effects, files::read_text_bounded, value};
use serde_spanned::Spanned;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Tools that the host itself offers.
pub const HOST_TOOLS: [&str; 1] = ["http.fetch"];

/// Bytes of a plugin's settings, keys and values together.
const MAX_SETTINGS: u64 = 256 << 10;

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
    let limit_spans = limit_spans(&text.limits);
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
        limits,
        limit_spans,
        skills,
        // Before what they are of is taken.
        sessions: SessionSettings {
            plugin_approvals,
            ..checker.sessions(text.models, text.sessions, &text.tools, &text.mcp)
        },
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

    pub(super) fn directory(&mut self, path: &Spanned<String>, what: &str) -> Option<PathBuf> {
        let full = self.root.join(path.get_ref());
        if full.is_dir() {
            return Some(full);
        }
        let problem = if full.exists() { "is not a directory" } else { "does not exist" };
        let help = format!("relative paths start at {}", self.root.display());
        self.error("path-not-found", span_of(path), format!("the {what} `{}` {problem}", path.get_ref()), Some(help));
        None
    }

    /// Every `.wasm` file of the folders by its name without the extension; the last folder wins.
    /// A plugin's name is in commands that people copy, in receipts and on terminals.
    fn plugin_name(&mut self, name: &str, span: Span) -> bool {
        if is_plugin_name(name) {
            return true;
        }
        let message = format!("`{}` is not a name of a plugin", crate::report::printable(name));
        let help =
            "a name begins with a letter or digit, and has up to 64 letters, digits, `.`, `_` and `-`; rename the file";
        self.error("invalid-plugin-name", span, message, Some(help.to_owned()));
        false
    }

    fn folder_plugins(&mut self, folders: &[Spanned<String>]) -> BTreeMap<String, PathBuf> {
        let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
        for folder in folders {
            let Some(path) = self.directory(folder, "plugin folder") else { continue };
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    let files = entries.flatten().map(|entry| entry.path());
                    let mut named: Vec<(String, PathBuf)> = files
                        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
                        .filter_map(|path| Some((path.file_stem()?.to_string_lossy().into_owned(), path)))
                        .collect();
                    named.sort();
                    named.retain(|(name, _)| self.plugin_name(name, span_of(folder)));
                    for (name, path) in named {
                        match found.get(&name) {
                            Some(other) if real(other) != real(&path) => {
                                let message = format!("two plugin folders have a plugin `{name}`");
                                let help = format!("rename or remove {} or {}", other.display(), path.display());
                                self.error("duplicate-plugin", span_of(folder), message, Some(help));
                            }
                            Some(_) => {}
                            None => drop(found.insert(name, path)),
                        }
                    }
                }
                Err(error) => {
                    let message = format!("cannot read the plugin folder `{}`: {error}", folder.get_ref());
                    self.error("path-not-found", span_of(folder), message, None);
                }
            }
        }
        found
    }

    fn plugin(
        &mut self,
        name: &Spanned<String>,
        text: PluginText,
        project: &LimitRequest,
        (folder_plugins, names): (&BTreeMap<String, PathBuf>, &[String]),
    ) -> Option<PluginConfig> {
        self.plugin_name(name.get_ref(), span_of(name));
        let grants = self.grants(name.get_ref(), text.grants);
        let ceiling = self.limits(text.ceiling);
        self.check_ceiling(name.get_ref(), &text.limits, &ceiling.or(project));
        let limit_spans = limit_spans(&text.limits);
        let limits = self.limits(text.limits);
        let exports = self.exports(text.exports, text.effects);
        let settings = self.settings(text.config);
        if let Some(source) = &text.source {
            let span = span_of(source);
            let others = [("path", text.path.is_some()), ("dev", text.dev)];
            if let Some(builtin) = source.get_ref().strip_prefix(builtin::SCHEME) {
                return Some(PluginConfig {
                    span: Some(span),
                    grants,
                    limits,
                    ceiling,
                    limit_spans,
                    settings,
                    exports,
                    record_host_calls: text.record_host_calls,
                    on_denied: text.on_denied,
                    ..self.builtin(name.get_ref(), builtin, span, others, text.unsigned)?
                });
            }
            let origin = self.origin(name.get_ref(), source, others, text.unsigned)?;
            let path = PathBuf::from(source.get_ref());
            let name = name.get_ref().clone();
            return Some(PluginConfig {
                name,
                path,
                span: Some(span),
                grants,
                limits,
                ceiling,
                limit_spans,
                settings,
                dev: false,
                exports,
                record_host_calls: text.record_host_calls,
                on_denied: text.on_denied,
                component: None,
                script: None,
                origin: Some(origin),
            });
        }
        if text.unsigned {
            let help = "remove it, or give the plugin a `source`".to_owned();
            let message = "`unsigned` is about plugins of a registry, and this one lies at a path".to_owned();
            self.error("invalid-source", span_of(name), message, Some(help));
        }
        let (path, span) = match (&text.path, folder_plugins.get(name.get_ref())) {
            (Some(path), _) => (self.root.join(path.get_ref()), span_of(path)),
            (None, Some(path)) => (path.clone(), span_of(name)),
            (None, None) => {
                let meant = did_you_mean(name.get_ref(), names.iter().map(String::as_str));
                let help = meant.map_or_else(
                    || "give it a `path`, or put its .wasm file into a plugin folder".to_owned(),
                    |meant| format!("did you mean `{meant}`?"),
                );
                let message = format!(
                    "there is no plugin `{}`: it has no `path`, and no plugin folder has `{0}.wasm`",
                    name.get_ref()
                );
                self.error("unknown-plugin", span_of(name), message, Some(help));
                return None;
            }
        };
        Some(PluginConfig {
            name: name.get_ref().clone(),
            path,
            span: Some(span),
            grants,
            limits,
            ceiling,
            limit_spans,
            settings,
            dev: text.dev,
            exports,
            record_host_calls: text.record_host_calls,
            on_denied: text.on_denied,
            component: None,
            script: None,
            origin: None,
        })
    }

    fn settings(&mut self, config: IndexMap<Spanned<String>, Spanned<SettingText>>) -> Settings {
        let mut settings = Settings::new();
        let mut bytes = 0_u64;
        for (key, value) in config {
            let span = span_of(&value);
            let SettingText::Text(text) = value.into_inner() else {
                let help = Some("write it in quotes".to_owned());
                self.error("project-file-invalid", span, format!("setting `{}` must be a text", key.get_ref()), help);
                continue;
            };
            bytes += (key.get_ref().len() + text.len()) as u64;
            if bytes > MAX_SETTINGS {
                let message = format!("the settings of a plugin have at most {}", Unit::Bytes.show(MAX_SETTINGS));
                self.error(
                    "settings-too-large",
                    span,
                    message,
                    Some("put what is large into a file and grant it".to_owned()),
                );
                break;
            }
            settings.insert(key.into_inner(), text);
        }
        settings
    }

    fn exports(&mut self, exports: ExportsText, effects: IndexMap<Spanned<String>, Effects>) -> Exports {
        match (exports, effects.keys().next()) {
            (ExportsText::Contract, None) => Exports::Contract,
            (ExportsText::Contract, Some(id)) => {
                let message = "a plugin says itself what repeating its operations does".to_owned();
                let help = "`effects` is for `exports = \"typed\"`; remove it".to_owned();
                self.error("effects-of-contract", span_of(id), message, Some(help));
                Exports::Contract
            }
            (ExportsText::Typed, _) => {
                Exports::Typed(effects.into_iter().map(|(id, effects)| (id.into_inner(), effects)).collect())
            }
        }
    }

    /// A plugin that is part of the library.
    fn builtin(
        &mut self,
        plugin: &str,
        builtin: &str,
        span: Span,
        others: [(&str, bool); 2],
        unsigned: bool,
    ) -> Option<PluginConfig> {
        if let Some((key, _)) = others.into_iter().chain([("unsigned", unsigned)]).find(|(_, there)| *there) {
            let message = format!("plugin `{plugin}` is part of Opcell, and `{key}` is about plugins that are not");
            self.error("invalid-source", span, message, Some(format!("remove `{key}`")));
            return None;
        }
        let Some(found) = PluginConfig::builtin(builtin) else {
            let known = builtin::names().map(|name| format!("`builtin:{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!("no plugin `{builtin}` is part of Opcell");
            self.error("invalid-source", span, message, Some(format!("expected {known}")));
            return None;
        };
        Some(PluginConfig { name: plugin.to_owned(), ..found })
    }

    fn origin(
        &mut self,
        plugin: &str,
        source: &Spanned<String>,
        others: [(&str, bool); 2],
        unsigned: bool,
    ) -> Option<Origin> {
        let span = span_of(source);
        if let Some((key, _)) = others.into_iter().find(|(_, there)| *there) {
            let message = format!("plugin `{plugin}` has both `source` and `{key}`");
            let help = "a plugin comes from a registry (`source`) or lies at a `path`".to_owned();
            self.error("invalid-source", span, message, Some(help));
            return None;
        }
        match source.get_ref().parse() {
            Ok(reference) => Some(Origin::new(reference, unsigned)),
            Err(error) => {
                let error: opcell_registry::reference::ReferenceError = error;
                let help = (!opcell_registry::Reference::is_meant_by(source.get_ref()))
                    .then(|| "a file is named with `path`".to_owned());
                self.error("invalid-source", span, error.to_string(), help);
                None
            }
        }
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
            missing_tools: text.missing_tools,
            context_files: text.context_files,
            http: text.http.into_iter().filter_map(|rule| self.http(rule.into_inner())).collect(),
            bash: text.bash.and_then(|bash| self.bash(bash)),
            approve: self.approval(text.approve.as_ref(), "[sessions]"),
            tool_approvals: self.tool_approvals(tools),
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
            match quantity(timeout.get_ref(), Unit::Milliseconds, "timeout") {
                Ok(ms) => {
                    shell.timeout = Duration::from_millis(ms);
                    shell.max_timeout = shell.max_timeout.max(shell.timeout);
                }
                Err(error) => self.error("invalid-limit", span_of(timeout), error.to_string(), None),
            }
        }
        text.dangerous.then_some(shell)
    }

    fn journal(&mut self, text: Spanned<JournalText>) -> JournalSettings {
        let span = span_of(&text);
        let text = match text.into_inner() {
            JournalText::Place(place) => {
                let project = Some(self.root.to_owned());
                return JournalSettings { project, ..JournalSettings::at(self.journal_place(&place, span)) };
            }
            JournalText::Table(table) => table,
        };
        let place = match (&text.path, &text.url) {
            (Some(path), None) => JournalPlace::File(self.root.join(path.get_ref())),
            (None, Some(url)) => match self.journal_place(url.get_ref(), span_of(url)) {
                JournalPlace::Server(server) => {
                    JournalPlace::Server(self.with_password(server, text.password.as_ref()))
                }
                place => {
                    let message = "`url` is not a URL; expected postgres://USER@HOST:PORT/DATABASE".to_owned();
                    self.error("invalid-journal", span_of(url), message, Some("`path` names a file".to_owned()));
                    place
                }
            },
            (None, None) => JournalPlace::File(self.root.join(JournalSettings::DEFAULT_PATH)),
            (Some(path), Some(url)) => {
                let help = Some("remove `path` or `url`".to_owned());
                self.error("invalid-journal", span_of(url), "a journal is a file or on a server".to_owned(), help);
                JournalPlace::File(self.root.join(path.get_ref()))
            }
        };
        if let (Some(password), JournalPlace::File(_)) = (&text.password, &place) {
            let message = "a file has no password".to_owned();
            let help = Some("`password` belongs to a server that `url` names".to_owned());
            self.error("invalid-journal", span_of(password), message, help);
        }
        let max_age = text.max_age.and_then(|age| {
            let parsed = duration(age.get_ref());
            if parsed.is_none() {
                let message = format!("`{}` is not a duration", age.get_ref());
                self.error("invalid-duration", span_of(&age), message, Some("write `30 days` or `12 h`".to_owned()));
            }
            parsed
        });
        JournalSettings { place, keep: text.keep, max_age, project: Some(self.root.to_owned()) }
    }

    fn journal_place(&mut self, written: &str, span: Span) -> JournalPlace {
        let place = match written.parse() {
            Ok(JournalPlace::File(path)) => JournalPlace::File(self.root.join(path)),
            Ok(place) => place,
            Err(message) => {
                self.error("invalid-journal", span, message, None);
                JournalPlace::File(self.root.join(JournalSettings::DEFAULT_PATH))
            }
        };
        if let JournalPlace::Server(server) = &place
            && server.holds_password()
        {
            let message = "the URL holds a password, and a project file is not the place for secrets".to_owned();
            let help = "name its source: `[journal]`, `url = \"postgres://USER@HOST/DATABASE\"`, `password = { env = \"NAME\" }`";
            // Without its place: that would print the line with the password.
            self.findings.push(Diagnostic::error("invalid-journal", message).help(help.to_owned()));
        }
        place
    }

    fn with_password(&mut self, mut server: JournalServer, text: Option<&Spanned<PasswordText>>) -> JournalServer {
        server.password = text.and_then(|text| match (&text.get_ref().env, &text.get_ref().file) {
            (Some(name), None) => Some(SecretSource::Env(name.clone())),
            (None, Some(file)) => Some(SecretSource::File(self.root.join(file))),
            _ => {
                let message = "a password needs exactly one of `env` and `file`".to_owned();
                self.error("invalid-journal", span_of(text), message, None);
                None
            }
        });
        server
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

    /// The limits of a run's values, which are the host's and no plugin's.
    fn values(&mut self, limits: &mut IndexMap<Spanned<String>, Spanned<Quantity>>) -> ValueLimits {
        let mut values = ValueLimits::default();
        for (key, slot) in [("value-bytes", &mut values.bytes), ("run-value-bytes", &mut values.run_bytes)] {
            let at = limits.keys().position(|written| written.get_ref() == key);
            let written = at.and_then(|at| limits.shift_remove_index(at)).map(|(_, written)| written);
            let Some(most) = self.quantity(written.as_ref(), Unit::Bytes, key, *slot) else { continue };
            match written {
                Some(written) if most == 0 || (key == "value-bytes" && most > value::MAX_BYTES) => {
                    let most = if key == "value-bytes" {
                        format!(" and at most {}", Unit::Bytes.show(value::MAX_BYTES))
                    } else {
                        String::new()
                    };
                    let message = format!("`{key}` must be at least 1 byte{most}");
                    self.error("invalid-limit", span_of(&written), message, None);
                }
                _ => *slot = most,
            }
        }
        values
    }

    /// A plugin's own limits lower what the project allows. Raising it takes a key of its own, so
    /// that no one does it by accident.
    fn check_ceiling(
        &mut self,
        plugin: &str,
        limits: &IndexMap<Spanned<String>, Spanned<Quantity>>,
        ceiling: &LimitRequest,
    ) {
        for (key, value) in limits {
            let Some(spec) = TABLE.iter().find(|spec| spec.key == key.get_ref()) else { continue };
            let Ok(asked) = quantity(value.get_ref(), spec.unit, spec.key) else { continue };
            let most = ceiling.get(spec.key).unwrap_or(spec.default);
            if asked > most && asked <= spec.maximum {
                let message = format!("`{}` is above its ceiling of {}", spec.key, spec.unit.show(most));
                let help = format!(
                    "raise `{0}` in [limits] for all plugins, or for this one in [plugins.{plugin}.ceiling]",
                    spec.key
                );
                self.error("limit-above-ceiling", span_of(value), message, Some(help));
            }
        }
    }

    fn limits(&mut self, limits: IndexMap<Spanned<String>, Spanned<Quantity>>) -> LimitRequest {
        let mut request = LimitRequest::default();
        for (key, value) in limits {
            let set = match value.get_ref() {
                Quantity::Number(value) => request.set(key.get_ref(), *value),
                Quantity::Text(text) => request.set_text(key.get_ref(), text),
                Quantity::Other(_) => request.set_text(key.get_ref(), ""),
            };
            match set {
                Ok(()) => {}
                Err(error @ LimitError::Unknown { .. }) => {
                    self.error("unknown-key", span_of(&key), error.to_string(), None)
                }
                Err(error) => self.error("invalid-limit", span_of(&value), error.to_string(), None),
            }
        }
        request
    }

    /// Bytes that may be written; the default where nothing is said.
    fn quota(&mut self, quota: Option<&Spanned<Quantity>>) -> Option<u64> {
        self.quantity(quota, Unit::Bytes, "quota", FilesGrant::DEFAULT_WRITE_QUOTA)
    }

    /// A quantity under `key`; the default where nothing is said.
    pub(super) fn quantity(
        &mut self,
        written: Option<&Spanned<Quantity>>,
        unit: Unit,
        key: &'static str,
        default: u64,
    ) -> Option<u64> {
        let Some(written) = written else { return Some(default) };
        let read = quantity(written.get_ref(), unit, key);
        read.map_err(|error| self.error("invalid-limit", span_of(written), error.to_string(), None)).ok()
    }
}

fn limit_spans(limits: &IndexMap<Spanned<String>, Spanned<Quantity>>) -> LimitSpans {
    let known = |key: &str| TABLE.iter().find(|spec| spec.key == key).map(|spec| spec.key);
    limits.iter().filter_map(|(key, value)| Some((known(key.get_ref())?, span_of(value)))).collect()
}

fn quantity(written: &Quantity, unit: Unit, key: &'static str) -> Result<u64, LimitError> {
    match written {
        Quantity::Number(number) => Ok(*number),
        Quantity::Text(text) => unit.parse(key, text),
        Quantity::Other(_) => unit.parse(key, ""),
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
