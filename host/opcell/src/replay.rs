//! Calling a plugin again with what a journal has of a call: the same arguments, the same context, and the host's
//! answers as they were. Nothing outside of the cell is reached.
//!
//! A call is in the journal with its host calls where the project says `record-host-calls = true`, for the whole
//! journal or for one plugin. The record is beside the call's receipt; secrets are in neither, because the host adds
//! them after a plugin has asked and takes them out of what comes back.

mod program;

pub use program::{RecordedProgram, ReplayedProgram, programs};

use crate::{
    config::{Config, origin},
    host::{HostError, PluginError},
    places::Places,
    report::Rejected,
};
use opcell_engine::{
    Recorded,
    call::Call,
    decide::outcome_of,
    event::{EffectReply, Event, Request},
    located::{Located, Locator},
    receipt::{Receipt, cell_of},
};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_sandbox::{
    CellRequest, CompileMode, Exports, HostCall, LoadRequest, Metering, PluginSource, Recording, Sandbox,
    SandboxConfig, Tape, recording::MAX_BYTES,
};
use opcell_types::{CallContext, Digest, FollowUp, Value, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The maximum nesting of arguments that a record repeats: it lies deeper in its event than they do.
const MAX_DEPTH: u32 = 48;

/// The record of a call, beside its receipt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Record {
    id: Arc<str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    judge: bool,
    /// Absent: as the event says that requested the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    context: CallContext,
    #[serde(flatten)]
    recording: Recording,
}

impl Record {
    pub(crate) fn of(id: &Arc<str>, judge: bool, call: &Call, recording: Recording) -> Self {
        let measure = call.arguments.measure();
        let fits = measure.bytes() <= MAX_BYTES && measure.depth() <= MAX_DEPTH;
        let arguments = fits.then(|| call.arguments.clone());
        Self { id: id.clone(), judge, arguments, context: call.context.clone(), recording }
    }

    /// Made of texts, numbers and values; none of them is refused.
    pub(crate) fn to_value(&self) -> Option<Value> {
        Value::of(self).ok()
    }
}

/// The caller of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// A step, or its judge: the result is what the plugin gave.
    Step,
    /// A step that asks an operation where to go: its data is the outcome, its summary the rationale.
    Routing,
    /// A model: the result is the data, or an object of data and summary where there is one.
    Model,
}

/// A call of a plugin whose host calls were recorded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedCall {
    /// The event of the journal that has it.
    pub seq: u64,
    /// The plugin's name in the project.
    pub plugin: String,
    /// BLAKE3 of the component that was called, as the journal has it.
    pub digest: String,
    /// The operation or the judge.
    pub id: Arc<str>,
    /// `true` if it is a judge.
    pub judge: bool,
    /// The arguments.
    pub arguments: Value,
    /// The place in the run.
    pub context: CallContext,
    /// The arguments and answers of its host calls.
    pub recording: Arc<Recording>,
    /// The result: `data`, `summary` and `details`, or `outcome` and `rationale`, or `failure`. Nothing where the
    /// journal has only a part of it.
    pub result: Option<serde_json::Value>,
    /// The cell's receipt.
    pub receipt: serde_json::Value,
    /// The caller, which says what the result was made into.
    pub caller: Caller,
}

/// The recorded calls that a step made, in the order in which they were asked for: calls that a model makes at once end
/// in any order.
///
/// # Errors
/// When the run has no such step, the step called no plugin, or nothing was recorded.
pub fn calls(run: &str, events: &[Recorded], step: &str) -> Result<Vec<RecordedCall>, Box<Diagnostic>> {
    let (mut calls, mut unrecorded) = (Vec::new(), 0_u64);
    let mut locator = Locator::default();
    for Located { recorded, step: around, request, .. } in events.iter().flat_map(|event| locator.locate(event)) {
        // A call that was stopped has no result to compare with; only replies are repeated.
        let (Event::Replied { reply, .. }, Some((asked, request))) = (&recorded.event, request) else { continue };
        let Some(receipt) = receipt_of(reply).filter(|receipt| receipt.host_calls().is_some()) else { continue };
        match RecordedCall::of(recorded.seq, &request, reply, receipt) {
            Some(call) if *call.context.step == *step => calls.push((asked, call)),
            Some(_) => {}
            None if around.is_some_and(|name| *name == *step) => unrecorded += 1,
            None => {}
        }
    }
    if !calls.is_empty() {
        calls.sort_by_key(|(asked, _)| *asked);
        return Ok(calls.into_iter().map(|(_, call)| call).collect());
    }
    let finding = |code, message: String| Box::new(Diagnostic::error(code, message));
    let show_run = FollowUp::ShowRun(run.to_string());
    let known: BTreeMap<&str, ()> = locator.entered().map(|name| (&**name, ())).collect();
    if !known.contains_key(step) {
        let unknown = finding("unknown-step", format!("run {run} entered no step `{step}`"));
        return Err(Box::new(unknown.help(match did_you_mean(step, known.keys().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("{show_run} lists its steps"),
        })));
    }
    if unrecorded == 0 {
        let message = format!("step `{step}` of run {run} called no plugin, or its call has not ended");
        return Err(Box::new(finding("no-plugin-call", message).help(format!("{show_run} shows what it did"))));
    }
    let message = format!("run {run} has no record of the host calls of step `{step}`");
    let help = "set `record-host-calls = true` in [journal] of the project file, or in [plugins.NAME] for one plugin, \
                and run the workflow again";
    Err(Box::new(finding("not-recorded", message).help(help.to_owned())))
}

fn receipt_of(reply: &EffectReply) -> Option<&Receipt> {
    match reply {
        EffectReply::Invoke(reply) => reply.receipt.as_ref(),
        EffectReply::Judge(reply) => reply.receipt.as_ref(),
        EffectReply::Tool(reply) => reply.receipt.as_ref(),
        _ => None,
    }
}

impl RecordedCall {
    fn of(seq: u64, request: &Request, reply: &EffectReply, receipt: &Receipt) -> Option<Self> {
        let record: Record = receipt.record()?.to().ok()?;
        let arguments = match (record.arguments, request) {
            (Some(arguments), _) => arguments,
            (None, Request::Invoke { arguments } | Request::Judge { arguments }) => arguments.clone(),
            (None, _) => return None,
        };
        let cell = serde_json::Value::from(cell_of(receipt)?);
        let text = |name: &str| cell.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let truncated = receipt.get("truncated").is_some();
        Some(Self {
            seq,
            plugin: text("plugin"),
            digest: text("digest"),
            id: record.id,
            judge: record.judge,
            arguments,
            context: record.context,
            recording: Arc::new(record.recording),
            result: (!truncated).then(|| result_of(reply)).flatten(),
            receipt: cell,
            caller: match reply {
                EffectReply::Tool(_) => Caller::Model,
                EffectReply::Judge(_) if !record.judge => Caller::Routing,
                _ => Caller::Step,
            },
        })
    }
}

fn result_of(reply: &EffectReply) -> Option<serde_json::Value> {
    let result = match reply {
        EffectReply::Invoke(reply) => reply.result.as_ref().map(|success| {
            let mut members = Map::from_iter([("data".to_owned(), serde_json::Value::from(&success.data))]);
            members.extend(success.summary.as_ref().map(|text| ("summary".to_owned(), json!(text))));
            members.extend(success.details.as_ref().map(|value| ("details".to_owned(), value.into())));
            serde_json::Value::Object(members)
        }),
        EffectReply::Judge(reply) => reply.result.as_ref().map(|verdict| json!(verdict)),
        EffectReply::Tool(reply) => reply.result.as_ref().map(serde_json::Value::from),
        _ => return None,
    };
    Some(result.unwrap_or_else(|failure| json!({ "failure": failure })))
}

/// A difference of a replay from the record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Difference {
    /// `result`, or `receipt` and the name of a part of it.
    pub what: String,
    /// As the journal has it.
    pub recorded: serde_json::Value,
    /// As it is now.
    pub replayed: serde_json::Value,
}

/// The result of a call that was made again.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Replayed {
    /// BLAKE3 of the component that was called now.
    pub digest: Digest,
    /// As [`RecordedCall::result`].
    pub result: serde_json::Value,
    /// The receipt of the cell.
    pub receipt: serde_json::Value,
    /// The differences; times are not compared, and neither is what the plugin touched, because it touched nothing.
    pub differences: Vec<Difference>,
    /// Recorded host calls that were not made again.
    pub not_made: Vec<HostCall>,
}

/// The parts of a receipt that depend on the plugin and on what it was answered, and on nothing else.
const COMPARED: [&str; 12] = [
    "error",
    "panic",
    "host-calls",
    "bytes-in",
    "bytes-out",
    "file-bytes",
    "peak-memory",
    "refused-growths",
    "fuel",
    "denials",
    "more-denials",
    "log",
];

/// The options of making a call again.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The component to call, if not the project's.
    pub plugin: Option<PathBuf>,
    /// The place in which it is compiled; [`CompileMode::find`] unless set.
    pub compile: Option<CompileMode>,
}

/// Calls the plugin again. It gets the limits of the project and no grant.
///
/// # Errors
/// When the plugin cannot be loaded. What the call itself comes to is in the answer.
pub async fn replay(config: &Config, call: &RecordedCall, options: ReplayOptions) -> Result<Replayed, HostError> {
    let file = options.plugin.as_deref();
    let source = source(config, call, file)?;
    let known = config.plugins.get(&call.plugin);
    let mut load = LoadRequest::new(call.plugin.as_str(), source);
    load.limits = known.map_or_else(|| config.limits.clone(), |plugin| plugin.limits_within(&config.limits));
    load.exports = known.map_or(Exports::Contract, |plugin| plugin.exports.clone());
    let mut settings = SandboxConfig::new(options.compile.map_or_else(CompileMode::find, Ok)?);
    settings.cache = Places::of_user().compiled();
    settings.limits = config.limits.clone();
    // Only then are instructions counted.
    if call.receipt.get("fuel").is_some() {
        settings.metering = Metering::Deterministic;
    }
    let plugin = Sandbox::new(settings)?.load(load).await.map_err(|error| {
        let path = file.or(known.map(|plugin| plugin.path.as_path())).unwrap_or(Path::new("")).to_owned();
        Box::new(PluginError { plugin: call.plugin.clone(), path, error, place: None })
    })?;
    let arguments = call.arguments.to_json();
    let request = CellRequest {
        context: call.context.clone(),
        tape: Tape::Replay(call.recording.clone()),
        ..CellRequest::new(&call.id, &arguments)
    };
    let (result, mut receipt) = if call.judge {
        let done = plugin.judge(request).await;
        (done.result.map(|verdict| json!(verdict)), done.receipt)
    } else {
        let done = plugin.invoke(request).await;
        (done.result.map(|success| json!(success)), done.receipt)
    };
    let not_made = receipt.recording.take().map(|rest| rest.calls).unwrap_or_default();
    let result = match result {
        Ok(success) => match call.caller {
            Caller::Step => success,
            Caller::Routing => as_verdict(success),
            Caller::Model => as_models_see(success),
        },
        Err(error) => json!({ "failure": opcell_types::Failure::from(error) }),
    };
    // Numbers as the journal writes them.
    let (result, receipt) = (as_journaled(result), as_journaled(json!(receipt)));
    let differences = differences(call, &result, &receipt);
    Ok(Replayed { digest: plugin.digest().clone(), result, receipt, differences, not_made })
}

fn source(config: &Config, call: &RecordedCall, file: Option<&Path>) -> Result<PluginSource, HostError> {
    if let Some(file) = file {
        return component_at(file, &config.root);
    }
    let Some(plugin) = config.plugins.get(&call.plugin) else {
        let message = format!("the call was made to plugin `{}`, which the project does not have", call.plugin);
        let name_component = FollowUp::NameComponent;
        let help = format!("{name_component}");
        return Err(Rejected::plain(Diagnostic::error("unknown-plugin", message).help(help)).into());
    };
    if plugin.origin.is_none() && (plugin.script.is_some() || crate::source::is_source(&plugin.path)) {
        let made = plugin.read(opcell_registry::MAX_COMPONENT);
        return Ok(PluginSource::Bytes(made.map_err(|why| crate::source::rejected(&plugin.path, &why))?.into()));
    }
    if plugin.origin.is_none() {
        return Ok(PluginSource::File(plugin.path.clone()));
    }
    let locked = config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name));
    let stored = origin::verified(plugin, locked, &config.store);
    let stored = stored.map_err(|finding| origin::rejected(config, plugin, *finding))?;
    Ok(PluginSource::Bytes(stored.component.into()))
}

/// The component of a file, or the one that is made of a source.
fn component_at(path: &Path, project: &Path) -> Result<PluginSource, HostError> {
    if !crate::source::is_source(path) {
        return Ok(PluginSource::File(path.to_owned()));
    }
    let made = crate::source::read_component(path, Some(project), opcell_registry::MAX_COMPONENT);
    Ok(PluginSource::Bytes(made.map_err(|why| crate::source::rejected(path, &why))?.into()))
}

fn as_journaled(value: serde_json::Value) -> serde_json::Value {
    serde_json::Value::from(&Value::from(value))
}

/// As the engine takes an operation's data for an outcome.
fn as_verdict(mut success: serde_json::Value) -> serde_json::Value {
    let data = success.get_mut("data").map(serde_json::Value::take).unwrap_or_default();
    let rationale = success.get("summary").and_then(serde_json::Value::as_str).map(str::to_owned);
    match outcome_of(&Value::from(data)) {
        Ok(outcome) => json!(Verdict { outcome, rationale }),
        Err(failure) => json!({ "failure": failure }),
    }
}

/// The data; with the summary beside it where there is one.
fn as_models_see(mut success: serde_json::Value) -> serde_json::Value {
    let data = success.get_mut("data").map(serde_json::Value::take).unwrap_or_default();
    match success.get_mut("summary").map(serde_json::Value::take) {
        Some(summary) => json!({ "summary": summary, "data": data }),
        None => data,
    }
}

fn differences(call: &RecordedCall, result: &serde_json::Value, receipt: &serde_json::Value) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(recorded) = call.result.as_ref().filter(|recorded| *recorded != result) {
        found.push(Difference { what: "result".to_owned(), recorded: recorded.clone(), replayed: result.clone() });
    }
    for name in COMPARED {
        let part = |receipt: &serde_json::Value| receipt.get(name).cloned().unwrap_or_default();
        let (recorded, replayed) = (part(&call.receipt), part(receipt));
        if recorded != replayed {
            found.push(Difference { what: format!("receipt {name}"), recorded, replayed });
        }
    }
    found
}

impl RecordedCall {
    /// The call for machines: where it was, and what is known to be missing from its record.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut shown = Map::from_iter([
            ("seq".to_owned(), json!(self.seq)),
            ("operation".to_owned(), json!(self.id)),
            ("judge".to_owned(), json!(self.judge)),
            ("plugin".to_owned(), json!(self.plugin)),
            ("digest".to_owned(), json!(self.digest)),
            ("context".to_owned(), json!(self.context)),
            ("host-calls".to_owned(), json!(self.recording.calls.len())),
        ]);
        if let Some(left_out) = self.left_out() {
            shown.insert("left-out".to_owned(), json!(left_out));
        }
        serde_json::Value::Object(shown)
    }

    /// Returns what is not in the record, as a sentence; `None` where it is whole.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let answers = self.recording.calls.iter().filter(|call| call.answer_left_out > 0).count();
        let mut parts = Vec::new();
        if answers > 0 || self.recording.calls_left_out > 0 {
            parts.push(format!(
                "the record was full at {MAX_BYTES} bytes: answers left out: {answers}, calls left out: {}, {} bytes in \
                 all",
                self.recording.calls_left_out, self.recording.bytes_left_out
            ));
        }
        if self.recording.preopens {
            parts.push("what the plugin did in directories that it has through WASI is not recorded".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
