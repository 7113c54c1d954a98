//! The requests of a project that reach outside of its folder.

use super::Cover;
use crate::{
    config::{
        Config, JournalPlace, JournalSettings, OnDenied,
        tools::{McpServer, ToolTarget},
    },
    http::{HttpRule, SecretSource},
    places::real,
    report::{Rejected, printable},
    triggers::{TriggerAction, TriggerSource},
};
use opcell_ir::Diagnostic;
use opcell_sandbox::Access;
use opcell_session::models::{self, ProviderConfig};
use opcell_types::{
    Digest,
    control::{ControlFiles, Touch},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The kind of access that a request asks for, as a policy's `forbid` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reach {
    /// Ordinary processes, outside of every cell.
    Programs,
    /// Commands that models write.
    Shell,
    /// Variables of the user's environment.
    Environment,
    /// Files that hold a key.
    KeyFiles,
    /// Other machines, and services on this one.
    Hosts,
    /// Folders and files outside of the project.
    FilesOutside,
    /// Folders that are handed to a plugin without quota or receipt.
    Preopens,
    /// Files that decide what runs, or hold secrets.
    ControlFiles,
    /// A file that is replaced with what models say.
    Record,
    /// A journal that is not in the project.
    JournalOutside,
    /// Scripts of skills that models may call.
    SkillScripts,
}

impl Reach {
    /// The word in a policy.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Shell => "shell",
            Self::Environment => "environment",
            Self::KeyFiles => "key-files",
            Self::Hosts => "hosts",
            Self::FilesOutside => "files-outside",
            Self::Preopens => "preopens",
            Self::ControlFiles => "control-files",
            Self::Record => "record",
            Self::JournalOutside => "journal-outside",
            Self::SkillScripts => "skill-scripts",
        }
    }
}

/// One thing that a project asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Request {
    /// The kind of its reach.
    pub reach: Reach,
    /// The request, in a line for people.
    pub what: String,
    /// The parts that the line leaves out and consent covers: digests of programs that lie in the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<String>,
}

impl Request {
    /// Returns the digest of the line and of what it leaves out, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 request of a project");
        for part in [self.reach.word(), &self.what].into_iter().chain(self.covers.iter().map(String::as_str)) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Everything that a project asks for, sorted, with the digest that consent is given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    list: Vec<Request>,
    digest: Digest,
}

impl Requests {
    /// Reads what a checked project file asks for. Starts nothing, and reads no variable and no key; programs that lie
    /// in the project are read for their digest.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut collector = Collector { root: real(&config.root), list: Vec::new() };
        collector.programs(config);
        collector.models(config);
        collector.plugins(config);
        collector.tools(config);
        collector.files(config);
        collector.triggers(config);
        Self::listed(collector.list)
    }

    /// The requests of building a plugin whose folder brings along the programs that build it: one consent is for all.
    #[must_use]
    pub fn of_tools(folder: &Path, programs: &[PathBuf]) -> Self {
        let mut collector = Collector { root: real(folder), list: Vec::new() };
        for program in programs {
            let cover = Cover::of_program(program, folder);
            let line = super::owner::shell(program.strip_prefix(folder).unwrap_or(program));
            let covered = cover.line(|path| collector.shown(path));
            let digest = cover.digest().map(str::to_owned);
            let what = format!("starts `{line}` of this folder to build the plugin ({covered})");
            collector.cover(Reach::Programs, what, digest.into_iter().collect());
        }
        Self::listed(collector.list)
    }

    fn listed(mut list: Vec<Request>) -> Self {
        list.sort();
        list.dedup();
        let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 requests of a project");
        for request in &list {
            for part in
                [request.reach.word(), &request.what].into_iter().chain(request.covers.iter().map(String::as_str))
            {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
            hasher.update(b"\n");
        }
        Self { list, digest: Digest::of_hash(hasher.finalize()) }
    }

    /// Returns `true` if the project requests nothing that reaches outside, and so needs no consent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The requests.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.list.iter()
    }

    /// Returns the digest of the whole list.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// As much of the digest as a person has to copy.
    #[must_use]
    pub fn short_digest(&self) -> &str {
        self.digest.short()
    }

    /// Refuses a request that no one would read to its end.
    ///
    /// # Errors
    /// With the beginning of every such request.
    pub fn check_lengths(&self) -> Result<(), Rejected> {
        let long = self.list.iter().filter(|request| request.what.len() > MAX_LINE);
        let found: Vec<Diagnostic> = long
            .map(|request| {
                let beginning = opcell_types::text::one_line(&request.what, 120);
                let message = format!(
                    "a request of the project has {} bytes, and a person reads at most {MAX_LINE}: {beginning}",
                    request.what.len()
                );
                Diagnostic::error("request-too-long", message).help("put the command into a script, and start that")
            })
            .collect();
        if found.is_empty() { Ok(()) } else { Err(Rejected { source: None, diagnostics: found }) }
    }

    /// Returns `true` if each request of this list is in another, or is one that `also` accepts. Requests are compared
    /// with what their lines leave out.
    #[must_use]
    pub fn is_within(&self, other: &Self, also: impl Fn(&Request) -> bool) -> bool {
        self.list.iter().all(|request| other.list.contains(request) || also(request))
    }

    /// Returns `true` if a person means this list: its digest, or at least sixteen digits from its beginning.
    #[must_use]
    pub fn is_named_by(&self, digest: &str) -> bool {
        digest.len() >= 16 && self.digest.starts_with(&digest.to_ascii_lowercase())
    }
}

/// Returns `true` if a file of a project holds secrets, as far as its name says.
pub(crate) fn is_secret(file: &Path, root: &Path) -> bool {
    let control = ControlFiles::below(root);
    [file, &*real(file)].iter().any(|file| control.refuses(Touch::Read, file).is_some())
}

/// Bytes of one request. What is consented to is shown whole, and no one reads more.
const MAX_LINE: usize = 4 << 10;

/// An address as it is resolved: a host in letters of several scripts may look like another, and its ASCII form does
/// not.
fn shown_url(url: &str) -> String {
    match url::Url::parse(url) {
        // Also where it is spelled with percent signs.
        Ok(parsed) if parsed.host_str().is_some_and(|host| !url.contains(host)) => parsed.to_string(),
        _ => url.to_owned(),
    }
}

struct Collector {
    root: PathBuf,
    list: Vec<Request>,
}

impl Collector {
    fn add(&mut self, reach: Reach, what: impl AsRef<str>) {
        self.cover(reach, what, Vec::new());
    }

    fn cover(&mut self, reach: Reach, what: impl AsRef<str>, mut covers: Vec<String>) {
        let raw = what.as_ref();
        let what = opcell_types::text::one_line(&printable(raw), usize::MAX);
        // What is shown cleaned is consented to as it is.
        if what != raw {
            covers.push(raw.to_owned());
        }
        self.list.push(Request { reach, what, covers });
    }

    fn is_outside(&self, path: &Path) -> bool {
        !real(path).starts_with(&self.root)
    }

    /// A path as consent names it: from the project's folder where it lies in there, so that consent to a project does
    /// not depend on where it is checked out.
    fn shown(&self, path: &Path) -> String {
        let real = real(path);
        match real.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => "the project's folder".to_owned(),
            Ok(below) => below.display().to_string(),
            Err(_) => real.display().to_string(),
        }
    }

    fn outside(&mut self, who: &str, does: &str, path: &Path) {
        if self.is_outside(path) {
            self.add(Reach::FilesOutside, format!("{who} {does} {}", real(path).display()));
        }
    }

    fn programs(&mut self, config: &Config) {
        for (name, server) in &config.servers {
            if let Some(remote) = &server.remote {
                self.rules(&format!("MCP server {name}"), std::slice::from_ref(&remote.rule));
                continue;
            }
            let words = std::iter::once(&server.program).chain(&server.arguments);
            let line = words.map(|word| super::owner::shell(Path::new(word))).collect::<Vec<_>>().join(" ");
            let confined = if server.confine { format!(", {}", self.confined(server)) } else { String::new() };
            let cover = config.covers().get(name).cloned().unwrap_or_else(|| Cover::of(server, &config.root));
            let (folder, covered) = (self.shown(&server.directory), cover.line(|path| self.shown(path)));
            self.cover(
                Reach::Programs,
                format!("starts `{line}` in {folder} (MCP server {name}{confined}; {covered})"),
                cover.digest().map(str::to_owned).into_iter().collect(),
            );
            for variable in &server.env {
                self.add(Reach::Environment, format!("gives ${variable} to the MCP server {name}"));
            }
        }
        if let Some(shell) = &config.sessions.bash {
            self.add(
                Reach::Shell,
                format!("lets models run commands with your rights in {}", self.shown(&shell.folder)),
            );
            for variable in &shell.environment {
                self.add(Reach::Environment, format!("gives ${variable} to commands of models"));
            }
        }
    }

    /// Returns the reach of a confined program.
    fn confined(&self, server: &McpServer) -> String {
        let list = |paths: &[PathBuf]| paths.iter().map(|path| self.shown(path)).collect::<Vec<_>>().join(", ");
        let mut words = vec!["confined".to_owned()];
        if !server.read.is_empty() {
            words.push(format!("reads {}", list(&server.read)));
        }
        if !server.write.is_empty() {
            words.push(format!("writes {}", list(&server.write)));
        }
        if server.network {
            words.push("reaches the network".to_owned());
        }
        words.join(", ")
    }

    fn models(&mut self, config: &Config) {
        let known = ProviderConfig::known();
        for (name, provider) in &config.sessions.models.providers {
            let is_usual = known.get(name).is_some_and(|usual| {
                provider.api == usual.api && provider.base_url.is_none() && provider.secrets().eq(usual.secrets())
            });
            if is_usual {
                continue;
            }
            let url = shown_url(provider.base_url.as_deref().unwrap_or(provider.api.default_base_url()));
            self.add(Reach::Hosts, format!("sends prompts to {url} (model provider {name})"));
            for secret in provider.secrets() {
                match secret {
                    models::SecretSource::Environment(variable) => {
                        self.add(Reach::Environment, format!("sends ${variable} to {url} (model provider {name})"));
                    }
                    models::SecretSource::File(file) => {
                        let file = self.shown(&config.root.join(file));
                        self.add(Reach::KeyFiles, format!("sends {file} to {url} (model provider {name})"));
                    }
                }
            }
        }
    }

    fn plugins(&mut self, config: &Config) {
        for plugin in config.plugins.values() {
            let who = format!("plugin {}", plugin.name);
            for (name, grant) in &plugin.grants.capabilities.files {
                self.outside(&who, if grant.access == Access::ReadWrite { "writes" } else { "reads" }, &grant.path);
                if grant.control_files {
                    let path = self.shown(&grant.path);
                    self.add(Reach::ControlFiles, format!("{who} uses control files below {path} (files {name})"));
                }
            }
            for preopen in &plugin.grants.capabilities.dangerous_preopens {
                let does = if preopen.access == Access::ReadWrite { "writes" } else { "reads" };
                let path = self.shown(&preopen.host);
                self.add(Reach::Preopens, format!("{who} {does} {path} without quota or receipt"));
                if preopen.control_files {
                    self.add(Reach::ControlFiles, format!("{who} uses control files below {path}"));
                }
            }
            self.rules(&who, &plugin.grants.http);
            // A journal may come with the checkout, and hold answers that its user never gave.
            if plugin.on_denied == OnDenied::Ask {
                self.add(
                    Reach::Hosts,
                    format!("grants {who} what answers in the journal say: any public host, tools, stores"),
                );
            }
            if let Some(origin) = &plugin.origin {
                let (host, repository) = (origin.reference.host(), origin.reference.repository());
                self.add(Reach::Hosts, format!("fetches {who} from {host}/{repository}, when asked to"));
            }
        }
    }

    fn tools(&mut self, config: &Config) {
        for (name, target) in &config.tools {
            self.rules(&format!("tool {name}"), ToolTarget::rules(target));
        }
        self.rules("the models' http.fetch", &config.sessions.http);
    }

    fn triggers(&mut self, config: &Config) {
        for tenant in &config.tenants {
            self.outside(&format!("tenant {}", tenant.name), "serves the project", &tenant.project);
        }
        for trigger in &config.triggers {
            let TriggerSource::Webhook(webhook) = &trigger.source else { continue };
            let does = match &trigger.action {
                TriggerAction::Start { workflow } => format!("starts {workflow}"),
                TriggerAction::Signal { signal, .. } => format!("sends the signal {signal}"),
            };
            for secret in &webhook.secrets {
                let (reach, secret) = match secret {
                    SecretSource::Env(variable) => (Reach::Environment, format!("${variable}")),
                    SecretSource::File(file) => (Reach::KeyFiles, self.shown(file)),
                };
                self.add(reach, format!("{does} for requests that {secret} signs (trigger {})", trigger.name));
            }
        }
    }

    fn rules(&mut self, who: &str, rules: &[HttpRule]) {
        for rule in rules {
            let origins = rule.origins.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let methods = rule.methods.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let private = if rule.private { ", private networks too" } else { "" };
            self.add(Reach::Hosts, format!("{who} requests {origins} ({methods}{private})"));
            let Some(credential) = &rule.credential else { continue };
            match &credential.source {
                SecretSource::Env(variable) => {
                    let line = format!("{who} sends ${variable} to {origins} (header {})", credential.header);
                    self.add(Reach::Environment, line);
                }
                SecretSource::File(file) => {
                    let file = self.shown(file);
                    let line = format!("{who} sends {file} to {origins} (header {})", credential.header);
                    self.add(Reach::KeyFiles, line);
                }
            }
        }
    }

    fn files(&mut self, config: &Config) {
        for folder in &config.workflows {
            self.outside("the project", "reads workflows from", folder);
        }
        for folder in &config.skills {
            self.outside("the project", "reads skills from", folder);
        }
        for (plugin, script) in config.plugins.values().filter_map(|plugin| Some((plugin, plugin.script.as_ref()?))) {
            let file = self.shown(&plugin.path);
            self.add(Reach::SkillScripts, format!("models call {} ({file}), in a cell", script.tool()));
        }
        for folder in &config.plugin_folders {
            self.outside("the project", "loads plugins from", folder);
        }
        for root in &config.sessions.files {
            self.outside("models", if root.writable { "write" } else { "read" }, &root.path);
            if root.control_files {
                let line = format!("models use control files below {} (files {})", self.shown(&root.path), root.name);
                self.add(Reach::ControlFiles, line);
            }
        }
        if let Some(script) = &config.sessions.script {
            self.outside("the project", "reads answers of models from", script);
        }
        for (name, file) in &config.sessions.contribution_files {
            let who = format!("the prompt contribution {name}");
            self.outside(&who, "shows models", file);
            if is_secret(file, &self.root) {
                self.add(Reach::KeyFiles, format!("{who} shows models {}", self.shown(file)));
            }
        }
        if let Some(record) = &config.sessions.record {
            self.add(Reach::Record, format!("replaces {} with what models say", self.shown(record)));
        }
        if let Some(journal) = &config.journal {
            self.journal(journal);
        }
    }

    /// A journal on a server reaches outside even when the server is on this machine.
    fn journal(&mut self, journal: &JournalSettings) {
        let place = match &journal.place {
            JournalPlace::File(path) if !self.is_outside(path) => return,
            JournalPlace::File(path) => real(path).display().to_string(),
            JournalPlace::Server(server) => {
                let place = shown_url(&server.to_string());
                match &server.password {
                    Some(SecretSource::Env(variable)) => {
                        let line = format!("the journal sends ${variable} to {place} (password)");
                        self.add(Reach::Environment, line);
                    }
                    Some(SecretSource::File(file)) => {
                        let line = format!("the journal sends {} to {place} (password)", self.shown(file));
                        self.add(Reach::KeyFiles, line);
                    }
                    None => {}
                }
                place
            }
        };
        let kept = match (journal.keep, journal.max_age) {
            (None, None) => "keeping every run".to_owned(),
            (Some(keep), None) => format!("deleting all but {keep} ended runs"),
            (None, Some(age)) => format!("deleting runs that ended {} s ago", age.as_secs()),
            (Some(keep), Some(age)) => {
                format!("deleting all but {keep} ended runs, and runs that ended {} s ago", age.as_secs())
            }
        };
        let line = format!("keeps runs in {place}, {kept}");
        self.add(Reach::JournalOutside, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str, root: &Path) -> Vec<(Reach, String)> {
        let config = Config::parse("opcell.toml", text.to_owned(), root).unwrap();
        Requests::of(&config).iter().map(|request| (request.reach, request.what.clone())).collect()
    }

    fn reaches(text: &str, root: &Path) -> Vec<Reach> {
        let mut reaches: Vec<Reach> = requests(text, root).into_iter().map(|(reach, _)| reach).collect();
        reaches.dedup();
        reaches
    }

    #[test]
    fn what_stays_in_the_folder_needs_no_consent() {
        let folder = tempfile::tempdir().unwrap();
        let text = "workflows = [\".\"]\n[journal]\nkeep = 3\n[sessions]\nscript = \"s.yaml\"\n\
                    [sessions.files.here]\npath = \".\"\naccess = \"read-write\"\n[models]\ndefault = \"anthropic/x\"";
        std::fs::write(folder.path().join("s.yaml"), "").unwrap();
        assert_eq!(requests(text, folder.path()), []);
    }

    #[test]
    fn everything_that_reaches_outside_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join(".env"), "KEY=1").unwrap();
        for (text, expected) in [
            ("[mcp.m]\ncommand = [\"sh\"]\nenv = [\"TOKEN\"]", vec![Reach::Programs, Reach::Environment]),
            ("[sessions.bash]\ndangerous = true", vec![Reach::Shell]),
            ("[sessions]\nrecord = \"in/here.yaml\"", vec![Reach::Record]),
            ("[journal]\npath = \"../runs.db\"", vec![Reach::JournalOutside]),
            ("[sessions.contributions.x]\nfile = \"/etc/hostname\"", vec![Reach::FilesOutside]),
            ("[sessions.files.x]\npath = \"..\"", vec![Reach::FilesOutside]),
            ("[sessions.files.x]\npath = \".\"\ncontrol-files = true", vec![Reach::ControlFiles]),
            (
                "[[sessions.http]]\nhosts = [\"evil.test\"]\ncredential = { env = \"KEY\" }",
                vec![Reach::Environment, Reach::Hosts],
            ),
            ("skill-folders = [\"/\"]", vec![Reach::FilesOutside]),
            ("[sessions.contributions.x]\nfile = \".env\"", vec![Reach::KeyFiles]),
            (
                "[models.providers.openai]\napi = \"openai-completions\"\nbase-url = \"https://evil.test/\"\napi-key = \"env:OPENAI_API_KEY\"",
                vec![Reach::Environment, Reach::Hosts],
            ),
            (
                "[models.providers.x]\napi = \"gemini\"\napi-key = \"file:/etc/passwd\"",
                vec![Reach::KeyFiles, Reach::Hosts],
            ),
        ] {
            assert_eq!(reaches(text, root), expected, "{text}");
        }
    }

    #[test]
    fn a_link_out_of_the_folder_is_outside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(folder.path(), root.join("link")).unwrap();
        assert_eq!(reaches("[sessions.files.x]\npath = \"link\"", &root), [Reach::FilesOutside]);
        assert_eq!(reaches("[journal]\npath = \"link/runs.db\"", &root), [Reach::JournalOutside]);
    }

    #[test]
    fn the_digest_follows_requests_and_programs_but_not_comments() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |text: &str| {
            let config = Config::parse("opcell.toml", text.to_owned(), folder.path()).unwrap();
            Requests::of(&config).digest().to_owned()
        };
        std::fs::write(folder.path().join("server.sh"), "one").unwrap();
        let server = "[mcp.m]\ncommand = [\"sh\", \"server.sh\"]";
        let first = digest(server);
        assert_eq!(digest(&format!("# a comment\n{server}\ncall-time = \"1 s\"")), first);
        assert_ne!(digest(&format!("{server}\nenv = [\"X\"]")), first);
        std::fs::write(folder.path().join("server.sh"), "two").unwrap();
        assert_ne!(digest(server), first);
    }

    #[test]
    fn a_host_that_looks_like_another_is_shown_as_it_is_resolved() {
        let folder = tempfile::tempdir().unwrap();
        for host in ["api.\u{430}nthropic.com", "api.%D0%B0nthropic.com"] {
            let text = format!(
                "[models.providers.x]\napi = \"openai-completions\"\nbase-url = \"https://{host}/v1\"\napi-key = \"env:K\""
            );
            for (_, line) in requests(&text, folder.path()) {
                assert!(line.contains("https://api.xn--nthropic-06g.com/v1"), "{line}");
            }
        }
        let text = "[[sessions.http]]\nhosts = [\"api.\u{430}nthropic.com\"]";
        assert!(requests(text, folder.path())[0].1.contains("xn--"));
    }

    #[test]
    fn a_line_is_shown_to_its_end_and_refused_where_no_one_reads_that_far() {
        let folder = tempfile::tempdir().unwrap();
        let of = |length: usize| {
            let text = format!("[mcp.m]\ncommand = [\"sh\", \"-c\", \"{}; touch PWNED\"]", "x".repeat(length));
            Requests::of(&Config::parse("opcell.toml", text, folder.path()).unwrap())
        };
        let shown: Vec<String> = of(3_000).iter().map(|request| request.what.to_string()).collect();
        assert!(shown.iter().all(|line| line.contains("; touch PWNED'")), "{shown:?}");
        assert!(of(3_000).check_lengths().is_ok());
        assert_eq!(of(5_000).check_lengths().unwrap_err().diagnostics[0].code, "request-too-long");
    }

    #[test]
    fn only_what_there_was_consent_to_and_what_a_command_added_is_within() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| Requests::of(&Config::parse("opcell.toml", text.to_owned(), folder.path()).unwrap());
        std::fs::write(folder.path().join("server.sh"), "one").unwrap();
        let server = "[mcp.m]\ncommand = [\"sh\", \"server.sh\"]";
        let before = of(server);
        let more = format!("{server}\n[sessions]\nrecord = \"r.yaml\"");
        assert!(of(server).is_within(&before, |_| false));
        assert!(!of(&more).is_within(&before, |_| false));
        assert!(of(&more).is_within(&before, |request| request.reach == Reach::Record));
        std::fs::write(folder.path().join("server.sh"), "two").unwrap();
        assert!(!of(server).is_within(&before, |_| false), "the program has changed meanwhile");
    }
}
