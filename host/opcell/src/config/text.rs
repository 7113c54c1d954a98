//! The project file as it is written: its keys, each value with its place.

use super::schema;
use crate::{
    config::OnDenied,
    governance::OutsideRule,
    report::Rejected,
    triggers::{Missed, Signature},
};
use indexmap::IndexMap;
use opcell_ir::{
    Diagnostic, SourceFile, Span,
    diagnostic::did_you_mean,
    ir::{ApprovalRules, Session},
};
use opcell_session::{models::ModelsConfig, sessions::MissingTools};
use opcell_types::{Value, suggest::in_words_of_authors, text::one_line};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_spanned::Spanned;
use std::{fmt, sync::Arc};

/// Tables that are named for a misplaced key.
const SHOWN_TABLES: usize = 3;

/// Bytes of the author's text that a help repeats.
const SHOWN_BYTES: usize = 60;

/// `opcell.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ProjectText {
    /// Folders of workflow documents.
    pub workflows: Vec<Spanned<String>>,
    /// Folders whose `.wasm` files are plugins, named by their file names.
    pub plugin_folders: Vec<Spanned<String>>,
    /// Folders of skills.
    pub skill_folders: Vec<Spanned<String>>,
    /// Skills whose scripts models may call, by name.
    pub skills: IndexMap<Spanned<String>, SkillText>,
    /// Not for a project to say: compiled components are kept among the user's own files.
    pub cache: Option<Spanned<String>>,
    /// Plugins by name.
    pub plugins: IndexMap<Spanned<String>, PluginText>,
    /// Ceilings for every plugin.
    pub limits: IndexMap<Spanned<String>, Spanned<Quantity>>,
    /// The memory of an interpreter's cell that stays in place for the next one.
    pub keep_resident: Option<Spanned<Quantity>>,
    /// Implementations of the tools that documents name.
    pub tools: IndexMap<Spanned<String>, Spanned<ToolText>>,
    /// MCP servers by name.
    pub mcp: IndexMap<Spanned<String>, ServerText>,
    /// Providers and models.
    pub models: ModelsConfig,
    /// Model conversations.
    pub sessions: SessionsText,
    /// Packs.
    pub packs: PacksText,
    /// The journal of runs.
    pub journal: Option<Spanned<JournalText>>,
    /// The triggers, which start runs without a person, by name.
    pub triggers: IndexMap<Spanned<String>, TriggerText>,
    /// Further projects that a server serves, by name.
    pub tenants: IndexMap<Spanned<String>, TenantText>,
}

/// `[tenants.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TenantText {
    /// Its project file.
    pub project: Spanned<String>,
    /// Cells at a time.
    pub cells: Option<Spanned<u32>>,
    /// Rounds of models at a time.
    pub model_rounds: Option<Spanned<u32>>,
    /// Requests a second.
    pub requests_per_second: Option<Spanned<u32>>,
    /// Runs at a time that requests started.
    pub started_runs: Option<Spanned<u32>>,
    /// Calls of operations at a time.
    pub calls: Option<Spanned<u32>>,
    /// Readers of events at a time.
    pub readers: Option<Spanned<u32>>,
}

/// `[triggers.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TriggerText {
    /// When: a cron expression; a trigger has this or `webhook`.
    pub cron: Option<Spanned<String>>,
    /// The time zone of `cron`; UTC by default.
    pub zone: Option<Spanned<String>>,
    /// The treatment of instants at which no server ran.
    pub missed: Option<Spanned<Missed>>,
    /// Signed requests.
    pub webhook: Option<WebhookText>,
    /// The workflow to start; a trigger has this or `signal`.
    pub workflow: Option<Spanned<String>>,
    /// The signal to send.
    pub signal: Option<Spanned<String>>,
    /// The run that receives it.
    pub run: Option<Spanned<String>>,
    /// The place of that run's name in a webhook's body.
    pub run_from: Option<Spanned<String>>,
    /// The input of the run, or the data of the signal.
    pub input: Option<Spanned<Value>>,
}

/// `[triggers.NAME.webhook]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct WebhookText {
    /// The way requests are signed.
    pub signature: Signature,
    /// The secrets they are signed with: any of these.
    pub secrets: Vec<Spanned<PasswordText>>,
    /// The maximum age of a request.
    pub window: Option<Spanned<String>>,
    /// The parts of the body that the input takes: JSON Pointers by its keys.
    pub body: IndexMap<Spanned<String>, Spanned<String>>,
    /// The events that count.
    pub on: Option<Vec<Spanned<String>>>,
}

/// `journal = "PATH or URL"`, or `[journal]`.
#[derive(Debug)]
pub enum JournalText {
    /// A path or a URL.
    Place(String),
    /// The table.
    Table(JournalTable),
}

impl JournalText {
    /// Returns `true` if the arguments and answers of plugins' host calls are recorded.
    pub fn records_host_calls(&self) -> bool {
        matches!(self, Self::Table(JournalTable { record_host_calls: true, .. }))
    }
}

impl<'de> Deserialize<'de> for JournalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JournalVisitor)
    }
}

struct JournalVisitor;

impl<'de> Visitor<'de> for JournalVisitor {
    type Value = JournalText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, a URL such as \"postgres://USER@HOST/DATABASE\", or a table")
    }

    fn visit_str<E>(self, place: &str) -> Result<JournalText, E> {
        Ok(JournalText::Place(place.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JournalText, A::Error> {
        JournalTable::deserialize(MapAccessDeserializer::new(map)).map(JournalText::Table)
    }
}

/// `[journal]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct JournalTable {
    /// A file; `.opcell/runs.db` by default.
    pub path: Option<Spanned<String>>,
    /// A PostgreSQL server.
    pub url: Option<Spanned<String>>,
    /// The server's password.
    pub password: Option<Spanned<PasswordText>>,
    /// The most ended runs that are kept.
    pub keep: Option<u64>,
    /// The time for which an ended run is kept.
    pub max_age: Option<Spanned<String>>,
    /// `true` if the arguments and answers of plugins' host calls are recorded with their runs.
    pub record_host_calls: bool,
}

/// `password = { env = … }` or `{ file = … }`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PasswordText {
    /// A variable of Opcell's environment.
    pub env: Option<String>,
    /// A file.
    pub file: Option<String>,
}

/// One entry of `[tools]`: an operation, or a table.
#[derive(Debug)]
pub enum ToolText {
    /// `"namespace/name"`.
    Operation(String),
    /// `{ host = … }` or `{ mcp = …, tool = … }`.
    Table(Box<ToolTable>),
}

/// The table of a tool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ToolTable {
    /// A plugin's operation.
    pub operation: Option<String>,
    /// A tool of the host.
    pub host: Option<String>,
    /// Requests that the host's `http.fetch` performs for it.
    pub http: Vec<Spanned<HttpText>>,
    /// An MCP server of the project.
    pub mcp: Option<Spanned<String>>,
    /// The server's own name of the tool, where it is another.
    pub tool: Option<String>,
    /// Patterns of URIs of the server's resources, which the tool reads.
    pub resources: Option<Spanned<Vec<String>>>,
    /// Patterns of names of the server's prompts, which the tool gets.
    pub prompts: Option<Spanned<Vec<String>>>,
    /// Rules for calls of models that wait for a person; alone, of a tool that is there already.
    pub approve: Option<Spanned<ApprovalRules>>,
    /// `false`: programs of models do not call it; `"only"`: nothing else does.
    pub code: Option<Spanned<InProgramsText>>,
}

/// `code` of a tool.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum InProgramsText {
    /// `false`.
    Flag(bool),
    /// `"only"`.
    Word(String),
}

impl<'de> Deserialize<'de> for ToolText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToolVisitor)
    }
}

struct ToolVisitor;

impl<'de> Visitor<'de> for ToolVisitor {
    type Value = ToolText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operation such as \"namespace/name\", or a table")
    }

    fn visit_str<E>(self, operation: &str) -> Result<ToolText, E> {
        Ok(ToolText::Operation(operation.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolText, A::Error> {
        ToolTable::deserialize(MapAccessDeserializer::new(map)).map(|table| ToolText::Table(Box::new(table)))
    }
}

/// `[mcp.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServerText {
    /// The program and its arguments; a server has this or `url`.
    pub command: Option<Spanned<Vec<String>>>,
    /// The URL at which it answers over HTTP.
    pub url: Option<Spanned<String>>,
    /// `true` if it may be on this machine or in a private network.
    #[serde(default)]
    pub private: bool,
    /// A header that the host adds.
    pub credential: Option<Spanned<CredentialText>>,
    /// The directory in which it runs; the project's directory by default.
    pub directory: Option<Spanned<String>>,
    /// Variables of Opcell's environment that it gets.
    #[serde(default)]
    pub env: Vec<String>,
    /// Time of one call.
    pub call_time: Option<Spanned<Quantity>>,
    /// Size of one answer.
    pub result_bytes: Option<Spanned<Quantity>>,
    /// `true` if it runs confined.
    #[serde(default)]
    pub confine: bool,
    /// The paths that it reads beside its directory, when it is confined.
    #[serde(default)]
    pub read: Vec<Spanned<String>>,
    /// The paths that it writes, when it is confined.
    #[serde(default)]
    pub write: Vec<Spanned<String>>,
    /// `true` if it reaches the network, when it is confined.
    #[serde(default)]
    pub network: bool,
    /// Rules for calls of its tools by models that wait for a person.
    pub approve: Option<Spanned<ApprovalRules>>,
}

/// `[sessions]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SessionsText {
    /// Answers instead of every model.
    pub script: Option<Spanned<String>>,
    /// Takes down every round.
    pub record: Option<Spanned<String>>,
    /// Directories for file tools, by name.
    pub files: IndexMap<Spanned<String>, RootText>,
    /// Settings where nothing else says.
    pub defaults: Session,
    /// Named sets of settings.
    pub profiles: IndexMap<String, Session>,
    /// Workflows whose sessions have what they declare, whoever calls them.
    pub unnarrowed_workflows: Vec<String>,
    /// The contributions to every prompt, by name.
    pub contributions: IndexMap<Spanned<String>, Spanned<ContributionText>>,
    /// Operations that each turn is shown to before its model is asked.
    pub augmenters: Vec<String>,
    /// `withhold` by default.
    pub missing_tools: MissingTools,
    /// Files that every prompt shows.
    pub context_files: ContextFiles,
    /// Requests that models may make with `http.fetch`.
    pub http: Vec<Spanned<HttpText>>,
    /// Commands; absent: there are none.
    pub bash: Option<Spanned<BashText>>,
    /// Rules for calls of tools that wait for a person, in every session.
    pub approve: Option<Spanned<ApprovalRules>>,
    /// Calls that a person has approved for always.
    pub approved: Vec<ApprovedCall>,
}

/// `[packs]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PacksText {
    /// The judge, or operation, that is asked before each transition.
    pub authorizer: Option<String>,
    /// The environment that packs have to be approved for.
    pub environment: Option<String>,
    /// Rules of packs to which the operator sees.
    pub accept_governance: Vec<OutsideRule>,
}

/// `[[sessions.approved]]`: one call, with these arguments and no others.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ApprovedCall {
    /// The tool.
    pub tool: String,
    /// The arguments, every one of them.
    pub arguments: Value,
}

/// `[sessions.contributions.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ContributionText {
    /// The text; empty: nothing, also where a plugin would add something under this name.
    pub text: Option<String>,
    /// A file that holds it.
    pub file: Option<Spanned<String>>,
    /// Lower comes first; 1000 by default.
    pub priority: Option<i32>,
}

/// The files that every prompt shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ContextFiles {
    /// `AGENTS.md`, or else `CLAUDE.md`, of each directory from the repository's root down to the project.
    #[default]
    Project,
    /// None.
    None,
}

/// `[sessions.bash]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BashText {
    /// The directory in which commands run; the project by default.
    pub path: Option<Spanned<String>>,
    /// The time that a command may take.
    pub timeout: Option<Spanned<Quantity>>,
    /// Variables that commands inherit beside the usual ones.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Must be `true`, as a warning to readers of the file.
    #[serde(default)]
    pub dangerous: bool,
}

/// `[sessions.files.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RootText {
    /// The directory.
    pub path: Spanned<String>,
    /// `read` by default.
    #[serde(default)]
    pub access: AccessText,
    /// Bytes that models may write there.
    pub quota: Option<Spanned<Quantity>>,
    /// `true` if the folder extends to files that decide what runs, and to secrets.
    #[serde(default)]
    pub control_files: bool,
}

/// `[plugins.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PluginText {
    /// The component; absent when a plugin folder has it.
    pub path: Option<Spanned<String>>,
    /// The source: `oci://HOST/NAME:TAG`, or `@sha256:…`; instead of `path`.
    pub source: Option<Spanned<String>>,
    /// `true` if it may come from there without a signature.
    pub unsigned: bool,
    /// `true` if it is under work: the lock does not hold its digest.
    pub dev: bool,
    /// The capabilities that it is granted.
    pub grants: GrantsText,
    /// Its own limits, within its ceiling.
    pub limits: IndexMap<Spanned<String>, Spanned<Quantity>>,
    /// Its own ceiling, in place of the project's.
    pub ceiling: IndexMap<Spanned<String>, Spanned<Quantity>>,
    /// The settings that it reads through `wasi:config/store`.
    pub config: IndexMap<Spanned<String>, Spanned<SettingText>>,
    /// The rule by which its exports become operations.
    pub exports: ExportsText,
    /// With `exports = "typed"`: what repeating an operation does, by its id.
    pub effects: IndexMap<Spanned<String>, opcell_types::Effects>,
    /// `true` if the arguments and answers of its host calls are recorded with its runs; as `[journal]` says by
    /// default.
    pub record_host_calls: Option<bool>,
    /// The treatment of a call that was refused something.
    pub on_denied: OnDenied,
}

/// A value of `[plugins.NAME.config]`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum SettingText {
    /// As it has to be.
    Text(String),
    /// Anything else.
    Other(serde::de::IgnoredAny),
}

/// The rule by which a component's exports become operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExportsText {
    /// As `opcell:plugin` says.
    #[default]
    Contract,
    /// Each exported function by its types.
    Typed,
}

/// `[plugins.NAME.grants]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GrantsText {
    /// Host tools.
    pub tools: Vec<Spanned<String>>,
    /// Skills.
    pub skills: Vec<Spanned<String>>,
    /// Directories.
    pub files: IndexMap<Spanned<String>, FileText>,
    /// The stores in which it keeps values from one call to the next.
    pub stores: IndexMap<Spanned<String>, StoreText>,
    /// Requests.
    pub http: Vec<Spanned<HttpText>>,
    /// WASI directories.
    pub preopens: IndexMap<Spanned<String>, Spanned<PreopenText>>,
    /// `true` if the manifest's text is added to prompts.
    pub prompt: bool,
    /// Rules for its calls of tools that wait for a person.
    pub approve: Option<Spanned<ApprovalRules>>,
}

/// `[skills.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct SkillText {
    /// The scripts that models may call; without it, each that runs in a cell.
    pub scripts: Option<Vec<Spanned<String>>>,
    /// The capabilities that the scripts are granted beside the skill's folder.
    pub grants: GrantsText,
    /// The limits of each script.
    pub limits: IndexMap<Spanned<String>, Spanned<Quantity>>,
}

/// `[plugins.NAME.grants.files.ROOT]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FileText {
    /// The directory.
    pub path: Spanned<String>,
    /// `read` by default.
    #[serde(default)]
    pub access: AccessText,
    /// Patterns.
    #[serde(default)]
    pub globs: Vec<Spanned<String>>,
    /// Bytes that one call may write.
    pub quota: Option<Spanned<Quantity>>,
    /// `true` if the grant extends to files that decide what runs, and to secrets.
    #[serde(default)]
    pub control_files: bool,
}

/// `[plugins.NAME.grants.stores.STORE]`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StoreText {
    /// Bytes of keys and values.
    pub quota: Option<Spanned<Quantity>>,
    /// Entries.
    pub entries: Option<Spanned<Quantity>>,
    /// `project` by default.
    pub per: PerText,
}

/// To what a store belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PerText {
    /// One for the plugin in this project.
    #[default]
    Project,
    /// One for each run.
    Run,
}

/// `[[plugins.NAME.grants.http]]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HttpText {
    /// The hosts.
    pub hosts: Vec<Spanned<String>>,
    /// `GET` and `HEAD` by default.
    pub methods: Option<Vec<Spanned<String>>>,
    /// `true` if the hosts may be this machine or in a private network.
    #[serde(default)]
    pub private: bool,
    /// A header that the host adds.
    pub credential: Option<Spanned<CredentialText>>,
}

/// `credential = { header = …, prefix = …, env = … }`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CredentialText {
    /// `authorization` by default.
    pub header: Option<Spanned<String>>,
    /// `Bearer ` by default, for `authorization`; empty for other headers.
    pub prefix: Option<String>,
    /// An environment variable.
    pub env: Option<String>,
    /// A file.
    pub file: Option<Spanned<String>>,
}

/// `[plugins.NAME.grants.preopens."/data"]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PreopenText {
    /// The directory.
    pub path: Spanned<String>,
    /// `read` by default.
    #[serde(default)]
    pub access: AccessText,
    /// Must be `true`, as a warning to readers of the file.
    #[serde(default)]
    pub dangerous: bool,
    /// `true` if the directory may hold files that decide what runs.
    #[serde(default)]
    pub control_files: bool,
}

/// A number, or a text with a unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// `1000`.
    Number(u64),
    /// `64 MiB`, `5 s`.
    Text(String),
    /// Anything else, refused with its place.
    Other(serde::de::IgnoredAny),
}

/// The access to files.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessText {
    /// No.
    #[default]
    Read,
    /// Yes.
    ReadWrite,
}

/// Reads the text.
///
/// # Errors
/// The first mistake of TOML, of a key's name or of a value's type, with its place.
pub fn parse(source: &Arc<SourceFile>) -> Result<ProjectText, Rejected> {
    toml_edit::de::from_str(source.text()).map_err(|error| {
        // serde speaks of fields, sequences and maps; people who write TOML do not.
        let message = error
            .message()
            .trim()
            .replace("unknown field", "unknown key")
            .replace("unknown variant", "unknown value")
            .replace("a sequence", "a list")
            .replace("type: sequence", "type: list")
            .replace("a map", "a table")
            .replace("type: map", "type: table");
        let message = in_words_of_authors(&message);
        let is_key = message.starts_with("unknown key");
        let unknown = is_key || message.starts_with("unknown value");
        let code = if is_key { "unknown-key" } else { "project-file-invalid" };
        let mut diagnostic =
            Diagnostic::error(code, message.clone()).at(error.span().map(|span| Span::new(span.start, span.end)));
        if unknown && let Some(meant) = meant(&message) {
            diagnostic = diagnostic.help(format!("did you mean `{meant}`?"));
        } else if is_key && let Some(places) = elsewhere(&message, source.text(), error.span()) {
            diagnostic = diagnostic.help(places);
        } else if let Some(help) = other_form(&message, source.text(), error.span()) {
            diagnostic = diagnostic.help(help);
        }
        Rejected::in_source(source.clone(), vec![diagnostic])
    })
}

/// Tables that have a key of this name, those near its place first.
fn elsewhere(message: &str, text: &str, span: Option<std::ops::Range<usize>>) -> Option<String> {
    let key = message.split('`').nth(1)?;
    let before = text.get(..span?.start)?;
    let table = before.lines().rev().find(|line| line.starts_with('[')).unwrap_or_default();
    let first = table.trim_start_matches('[').split(['.', ']']).next().unwrap_or_default();
    let mut tables = schema::tables_with(key);
    tables.sort_by_key(|table| !table.starts_with(&format!("[{first}.")));
    tables.truncate(SHOWN_TABLES);
    (!tables.is_empty()).then(|| format!("`{key}` is a key of {}", tables.join(", ")))
}

/// The form that was meant by a text in the place of a list, or by a list in the place of a table.
fn other_form(message: &str, text: &str, span: Option<std::ops::Range<usize>>) -> Option<String> {
    let written = text.get(span?)?.lines().next()?;
    if message.ends_with("expected a list") && written.starts_with(['"', '\'']) {
        return Some(format!("write a list: `[{}]`", one_line(written, SHOWN_BYTES)));
    }
    let name = written.strip_prefix("[[").and_then(|rest| rest.split_once("]]"))?.0;
    message.ends_with("expected a table").then(|| {
        let name = one_line(name, SHOWN_BYTES);
        format!("its entries have names: write `[{name}.NAME]` with a name of yours")
    })
}

/// serde quotes the unknown word first and the known ones after it.
fn meant(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let word = quoted.next()?;
    // A webhook's own keys, written beside it.
    let of_webhook = quoted.clone().any(|known| known == "webhook").then_some(match word {
        "body" => "webhook.body",
        "on" | "events" => "webhook.on",
        "secret" | "secrets" => "webhook.secrets",
        "signature" => "webhook.signature",
        "window" => "webhook.window",
        _ => "",
    });
    of_webhook.filter(|key| !key.is_empty()).or_else(|| did_you_mean(word, quoted))
}
