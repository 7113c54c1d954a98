//! Shapes of what the API hands on as others serialize it: questions, denials, receipts, events, findings. They are
//! described here and never made; a test compares them with what is sent.

#![allow(dead_code, clippy::large_enum_variant, reason = "they describe what others serialize, and are never made")]

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Status of a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunStatus {
    /// Started, and no process has driven it yet.
    Pending,
    /// A process drives it.
    Running,
    /// Pauses until a timer ends.
    Waiting,
    /// Could continue, and no process drives it.
    Interrupted,
    /// Waits for a signal, an approval, a grant or a decision.
    Suspended,
    /// Ended well.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended because a model gave no structured output to a psi workflow; a fork continues before the step.
    Blocked,
    /// Ended because someone asked for it.
    Cancelled,
}

/// A step that a run is in.
#[derive(Serialize, ToSchema)]
pub(crate) struct CurrentStep {
    /// Its name.
    step: String,
    /// The number of times that it has been entered, from 1.
    visit: u32,
}

/// Totals of a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct UsedByRun {
    /// Entries into steps.
    visits: u64,
    /// Calls of tools and operations, by models and by steps.
    tool_calls: u64,
    /// Model rounds.
    rounds: u64,
    /// Model tokens, in and out.
    tokens: u64,
    /// The tokens among them that came from a provider's cache; absent if none did.
    #[schema(required = false)]
    cache_read_tokens: u64,
    /// The tokens among them that a provider kept in its cache; absent if it kept none.
    #[schema(required = false)]
    cache_write_tokens: u64,
    /// US dollars.
    cost: f64,
    /// Cells that ran.
    cells: u64,
    /// Host calls by cells.
    host_calls: u64,
}

/// Something that a run waits for: an object with one key, the kind of the question.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RunQuestion {
    /// A signal or an approval.
    Signal(SignalQuestion),
    /// An effect that may have happened before a crash: to be repeated, skipped or taken as failed.
    Doubt(DoubtQuestion),
    /// A call that was refused something, and may get it.
    Grant(GrantQuestion),
    /// A form of a tool that asks for input.
    Input(InputQuestion),
}

/// A signal or an approval that a step waits for.
#[derive(Serialize, ToSchema)]
pub(crate) struct SignalQuestion {
    /// Its name.
    name: String,
    /// The step that waits.
    step: String,
    /// The text of the question.
    question: Option<String>,
    /// `true` if the answer is an approval.
    approval: bool,
    /// ID of the question; an answer that carries it answers this question and no other.
    id: String,
    /// The step after those that it belongs to, such as `review/law` or `each[2]`.
    path: String,
    /// The number of times that the step has been entered, from 1.
    visit: u32,
    /// Present if an approval of this name was answered before: only the `id` says which one is meant.
    again: Option<bool>,
}

/// An effect in doubt.
#[derive(Serialize, ToSchema)]
pub(crate) struct DoubtQuestion {
    /// ID of the effect.
    effect: u64,
    /// The step whose effect is in doubt.
    step: String,
    /// Its description.
    what: String,
}

/// A call that was refused something.
#[derive(Serialize, ToSchema)]
pub(crate) struct GrantQuestion {
    /// ID of the effect.
    effect: u64,
    /// The step whose call was refused.
    step: String,
    /// The call, in words.
    what: String,
    /// The refusal.
    denial: DeniedCapability,
    /// The plugin's reason for needing it.
    why: Option<String>,
    /// ID of the question; an answer that carries it answers this question and no other.
    id: String,
    /// Present if the same was granted or refused before: only the `id` says which call is meant.
    again: Option<bool>,
}

/// A form of a tool that asks for input in the middle of a call.
#[derive(Serialize, ToSchema)]
pub(crate) struct InputQuestion {
    /// ID of the effect.
    effect: u64,
    /// ID of the question; an answer carries it.
    id: String,
    /// The step whose call asks.
    step: String,
    /// The step after those that it belongs to, such as `review/law` or `each[2]`.
    path: String,
    /// The number of times that the step has been entered, from 1.
    visit: u32,
    /// The MCP server that asks, by its name in the project.
    server: String,
    /// The server's own name of the tool.
    tool: String,
    /// The server's question.
    message: String,
    /// A flat JSON Schema of the answer: an object of texts, numbers, booleans and choices.
    #[schema(value_type = Object)]
    schema: Value,
    /// The number of times that the tool has asked in this call, from 1.
    round: u32,
}

/// A refusal by a rule.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeniedCapability {
    /// Such as `tool http.fetch` or `http GET https://example.com`.
    capability: String,
    /// The rule that refused it, as a clause.
    rule: String,
    /// The remedy.
    remedy: DenialRemedy,
    /// The same as a command to copy, where there is one.
    command: Option<String>,
}

/// A remedy of a refusal.
#[derive(Serialize, ToSchema)]
pub(crate) struct DenialRemedy {
    /// `grant`, `allow-http`, `cover-path`, `ask-in-manifest`, `leave-in-step`, `declare-in-session`, `open-folder`,
    /// `write-folder`, `control-files` or `nothing`.
    kind: String,
    /// The plugin that would get it.
    plugin: Option<String>,
    /// Name of the tool, skill, store, file root or workflow.
    name: Option<String>,
    /// `tool`, `skill`, `files` or `store`.
    capability: Option<String>,
    /// For files: `read` or `read-write`.
    access: Option<String>,
    /// For a session: `tool`, `skill` or `workflow`.
    part: Option<String>,
    /// For HTTP: whose rules have to allow it.
    #[schema(value_type = Option<Value>)]
    scope: Option<Value>,
    /// For HTTP: scheme, host and port.
    origin: Option<String>,
    /// For HTTP: the method that is missing.
    method: Option<String>,
    /// For HTTP: whether private addresses have to be allowed.
    private: Option<bool>,
}

/// A receipt of a call. One of a cell has `plugin` and `digest`, one of a tool has `status`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CallReceipt {
    /// The plugin whose cell it was.
    plugin: Option<String>,
    /// Digest of the component.
    digest: Option<String>,
    /// The operation or judge that was called.
    operation: Option<String>,
    /// The tool that was called.
    tool: Option<String>,
    /// Of a tool: how the call ended.
    status: Option<String>,
    /// Microseconds from asking for it to its end.
    duration_us: Option<u64>,
    /// Of this, microseconds of waiting for a free cell.
    queued_us: Option<u64>,
    /// Ticks of 10 ms in which the guest was running.
    ticks: Option<u64>,
    /// Most linear memory at one time, in bytes.
    peak_memory: Option<u64>,
    /// Calls of host functions, by interface.
    host_calls: Option<Value>,
    /// Bytes of the arguments.
    bytes_in: Option<u64>,
    /// Bytes of the result.
    bytes_out: Option<u64>,
    /// Requests made and files used.
    #[schema(value_type = Option<Object>)]
    touched: Option<Map<String, Value>>,
    /// Its refusals.
    denials: Option<Vec<DeniedCapability>>,
    /// Kind of the failure, if it failed.
    error: Option<String>,
}

/// A receipt of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunReceipt {
    /// Number of the event that brought it.
    seq: u64,
    /// The receipt.
    receipt: CallReceipt,
}

/// A denial of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunDenial {
    /// Number of the event that brought it.
    seq: u64,
    /// The denial.
    denial: DeniedCapability,
}

/// A receipt among those of many runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoundReceipt {
    /// ID of the run.
    run: String,
    /// Number of the event that brought it.
    seq: u64,
    /// When that happened, RFC 3339.
    at: String,
    /// The receipt.
    receipt: CallReceipt,
}

/// A denial among those of many runs.
#[derive(Serialize, ToSchema)]
pub(crate) struct FoundDenial {
    /// ID of the run.
    run: String,
    /// Number of the event that brought it.
    seq: u64,
    /// When that happened, RFC 3339.
    at: String,
    /// The denial.
    denial: DeniedCapability,
}

/// A run that could not be read to its end.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnreadableRun {
    /// ID of the run.
    run: String,
    /// Error code.
    code: String,
    /// The reason, as a sentence.
    detail: String,
}

/// An event of a run.
#[derive(Serialize, ToSchema)]
pub(crate) struct RunEvent {
    /// Its number, from 1.
    seq: u64,
    /// When it happened, RFC 3339.
    at: String,
    /// Such as `step-entered`.
    kind: String,
    /// The event as the journal keeps it: an object whose only key is the kind, or the kind alone.
    event: Value,
}

/// A finding about a document or a project file.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Finding {
    /// Name of the file.
    file: Option<String>,
    /// Line of its beginning, from 1.
    line: Option<u64>,
    /// Column of its beginning, from 1.
    column: Option<u64>,
    /// Line of its end.
    end_line: Option<u64>,
    /// Column of its end.
    end_column: Option<u64>,
    /// Stable kebab-case identifier.
    code: String,
    /// `error` or `warning`.
    severity: String,
    /// One sentence.
    message: String,
    /// A remedy.
    help: Option<String>,
    /// Its place in the document's structure.
    path: Option<String>,
    /// Other places that matter.
    related: Vec<RelatedPlace>,
}

/// A place that matters for a finding.
#[derive(Serialize, ToSchema)]
pub(crate) struct RelatedPlace {
    /// Its line, from 1.
    line: Option<u64>,
    /// Its column, from 1.
    column: Option<u64>,
    /// The reason for which it matters.
    message: String,
}

/// A plugin in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct PluginItem {
    /// Its name in the project.
    name: String,
    /// Digest of the component.
    digest: String,
}

/// A plugin that was left out.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeftOutPlugin {
    /// Its name in the project.
    name: String,
    /// The reasons.
    findings: Vec<Finding>,
}

/// A plugin that was exchanged.
#[derive(Serialize, ToSchema)]
pub(crate) struct LoadedPlugin {
    /// Its name in the project.
    plugin: String,
    /// Digest of the component that is loaded now.
    digest: String,
    /// Digest of the one before; runs that began earlier continue with that one.
    before: Option<String>,
}

/// A plugin that stays as it is.
#[derive(Serialize, ToSchema)]
pub(crate) struct RefusedPlugin {
    /// Its name in the project.
    plugin: String,
    /// The reasons.
    findings: Vec<Finding>,
}

/// An operation or a judge.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct OperationItem {
    /// The name that it is called by.
    id: String,
    /// The plugin that offers it.
    plugin: String,
    /// One sentence.
    summary: String,
    /// `operation` or `judge`.
    kind: String,
    /// JSON Schema of the arguments.
    arguments_schema: Value,
    /// Of an operation: JSON Schema 2020-12 of its data.
    data_schema: Option<Value>,
    /// Of an operation: what repeating it does.
    effects: Option<Value>,
    /// Of a judge: its outcomes.
    outcomes: Option<Value>,
}

/// The first event that would have been decided otherwise.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayDivergence {
    /// Its number.
    seq: u64,
    /// Kind of the event in the journal.
    recorded: String,
    /// Kind of the event that this version decides; null: none.
    decided: Option<String>,
}
