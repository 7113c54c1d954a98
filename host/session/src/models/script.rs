//! The scripted model: a file of turns, matched in order or by pattern. When a round and the file differ, it says what
//! it was asked and what the file expected.

use super::{Model, failure};
use async_trait::async_trait;
use opcell_engine::conversation::{Message, Role, ToolCallRequest, Usage};
use opcell_engine::ports::{AnswerPiece, Failure, ModelReply, ModelRound, TextSink};
use opcell_types::{Denial, Source, Value, files::read_text_bounded, input::InputRequest, suggest::reader_message};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// The most that is read of a script.
const MAX_BYTES: u64 = 64 << 20;

/// The JSON Schema of scripts.
pub const SCHEMA: &str = include_str!("../../schemas/script.json");

/// A file of turns, as YAML or JSON.
///
/// ```yaml
/// version: 1
/// order: strict            # or any
/// turns:
///   - text: "Here is the plan."
///   - when: { step: review, contains: "diff" }
///     tool-calls: [{ name: read, arguments: { path: README.md } }]
///   - json: { decision: APPROVED }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Script {
    /// Of this format: 1.
    pub version: u32,
    /// The order in which turns are chosen.
    #[serde(default)]
    pub order: Order,
    /// The answers of the model.
    pub turns: Vec<Turn>,
}

/// The order in which turns are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each round takes the next turn, which must match it.
    #[default]
    Strict,
    /// Each round takes the first turn not yet used that matches it: for parallel steps and for runs that are resumed.
    Any,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Turn {
    /// The conditions on the round; absent: none.
    #[serde(skip_serializing_if = "When::is_anything")]
    pub when: When,
    /// `true` if it answers any number of rounds in a row (strict) or at all (any) instead of one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// The reasoning that is shown while the answer comes; no part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The text of the model's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The answer to a structured question, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// The calls of tools that it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ScriptedCall>,
    /// That it fails instead.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "scripted_failure")]
    pub fail: Option<Failure>,
    /// The log probabilities of its tokens; given only to a session that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// The usage.
    #[serde(skip_serializing_if = "is_unused", with = "UsageKeys")]
    pub usage: Usage,
}

/// The keys of `usage`: a script has no others, and may leave out each.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", rename_all = "kebab-case", deny_unknown_fields)]
struct UsageKeys {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    cache_read_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    cache_write_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The keys of `fail`.
#[derive(Deserialize)]
#[serde(remote = "Failure", rename_all = "kebab-case", deny_unknown_fields)]
struct FailureKeys {
    #[serde(default)]
    source: Source,
    reason: std::sync::Arc<str>,
    message: String,
    #[serde(default)]
    details: Option<Value>,
    #[serde(default)]
    denial: Option<Box<Denial>>,
    #[serde(default)]
    retriable: bool,
    #[serde(skip)]
    input: Option<Box<InputRequest>>,
}

fn scripted_failure<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Failure>, D::Error> {
    #[derive(Deserialize)]
    struct Scripted(#[serde(with = "FailureKeys")] Failure);
    Ok(Option::<Scripted>::deserialize(deserializer)?.map(|Scripted(failure)| failure))
}

/// A tool call of a scripted turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool that is called.
    pub name: String,
    /// The arguments; an empty object where the script has none.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The call's id; made up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

fn no_arguments() -> Value {
    Value::object::<&str>([])
}

fn is_unused(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// The conditions on a round. Every key that is there must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct When {
    /// The step's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The step's visit, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visit: Option<u32>,
    /// Assistant messages before this round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    /// The model that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The last message, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// A part of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// A regular expression that the last message matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// A part of the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_contains: Option<String>,
}

impl When {
    fn is_anything(&self) -> bool {
        *self == Self::default()
    }

    /// The first key that does not hold, as "`key` to be X, got Y".
    fn mismatch(&self, pattern: Option<&Regex>, round: &ModelRound) -> Option<String> {
        let last = round.messages.last().map_or("", |message| message.content.as_str());
        let differs = |key: &str, expected: &dyn std::fmt::Display, got: &dyn std::fmt::Display| {
            Some(format!("`{key}` {expected}, got {got}"))
        };
        if let Some(step) = self.step.as_deref().filter(|step| *step != round.context.step.as_ref()) {
            return differs("step", &step, &round.context.step);
        }
        if let Some(visit) = self.visit.filter(|visit| *visit != round.context.visit) {
            return differs("visit", &visit, &round.context.visit);
        }
        if let Some(number) = self.round.filter(|number| *number != round_number(round)) {
            return differs("round", &number, &round_number(round));
        }
        if let Some(model) = self.model.as_ref().filter(|model| **model != round.model) {
            return differs("model", model, &round.model);
        }
        if let Some(text) = self.last.as_deref().filter(|text| *text != last) {
            return differs("last", &quoted(text), &quoted(last));
        }
        if let Some(part) = self.contains.as_deref().filter(|part| !last.contains(part)) {
            return differs("contains", &quoted(part), &quoted(last));
        }
        if let Some(pattern) = pattern.filter(|pattern| !pattern.is_match(last)) {
            return differs("matches", &pattern, &quoted(last));
        }
        if let Some(part) = self.system_contains.as_deref().filter(|part| !round.session.system.contains(part)) {
            return differs("system-contains", &quoted(part), &quoted(&round.session.system));
        }
        None
    }
}

/// A script that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file could not be read.
    #[error("cannot read the model script {}: {error}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The text is not a script.
    #[error("the model script {name} is not valid: {message}")]
    Parse {
        /// The file's name.
        name: String,
        /// With line and column.
        message: String,
    },
    /// A turn that makes no sense.
    #[error("turn {number} of the model script {name}: {message}")]
    Turn {
        /// The file's name.
        name: String,
        /// Position of the turn in the script, from 1.
        number: usize,
        /// The problem, and what was expected.
        message: String,
    },
}

/// Answers from a [`Script`], whatever model it is asked as.
#[derive(Debug)]
pub struct ScriptedModel {
    name: String,
    order: Order,
    turns: Vec<(Turn, Option<Regex>)>,
    used: Mutex<Vec<bool>>,
}

impl ScriptedModel {
    /// Reads a script from a file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a script.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text =
            read_text_bounded(path, MAX_BYTES).map_err(|error| ScriptError::Read { path: path.to_owned(), error })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a script from text: JSON when it starts with `{`, else YAML.
    ///
    /// # Errors
    /// When it is not a script.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptError> {
        let parsed: Result<Script, String> = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| reader_message(&error.to_string()))
        } else {
            // As workflow documents are read: `n` and `yes` are texts.
            let options = serde_saphyr::options! { strict_booleans: true };
            serde_saphyr::from_str_with_options(text, options).map_err(|error| reader_message(&error.to_string()))
        };
        Self::new(name, parsed.map_err(|message| ScriptError::Parse { name: name.to_owned(), message })?)
    }

    /// Uses a script.
    ///
    /// # Errors
    /// When a turn makes no sense.
    pub fn new(name: &str, script: Script) -> Result<Self, ScriptError> {
        if script.version != 1 {
            let message = format!("`version` must be 1, got {}", script.version);
            return Err(ScriptError::Parse { name: name.to_owned(), message });
        }
        let mut turns = Vec::with_capacity(script.turns.len());
        for (index, turn) in script.turns.into_iter().enumerate() {
            let error = |message| ScriptError::Turn { name: name.to_owned(), number: index + 1, message };
            let says = [turn.text.is_some(), turn.json.is_some(), turn.fail.is_some()];
            if says.iter().filter(|says| **says).count() > 1 || (turn.fail.is_some() && !turn.tool_calls.is_empty()) {
                return Err(error("needs one of `text`, `json` and `fail`, not several".to_owned()));
            }
            if !says.contains(&true) && turn.tool_calls.is_empty() {
                return Err(error("needs one of `text`, `json`, `tool-calls` and `fail`".to_owned()));
            }
            let pattern = turn.when.matches.as_deref().map(Regex::new).transpose();
            let pattern =
                pattern.map_err(|problem| error(format!("`matches` is not a regular expression: {problem}")))?;
            turns.push((turn, pattern));
        }
        let used = Mutex::new(vec![false; turns.len()]);
        Ok(Self { name: name.to_owned(), order: script.order, turns, used })
    }

    /// The numbers, from 1, of turns that answered nothing, `repeat` turns aside.
    #[must_use]
    pub fn unused(&self) -> Vec<usize> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = self.turns.iter().zip(used.iter()).enumerate();
        turns.filter(|(_, ((turn, _), used))| !**used && !turn.repeat).map(|(index, _)| index + 1).collect()
    }

    fn choose(&self, round: &ModelRound) -> Result<&Turn, Failure> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tried = Vec::new();
        for (index, ((turn, pattern), used)) in self.turns.iter().zip(used.iter_mut()).enumerate() {
            if *used {
                continue;
            }
            match turn.when.mismatch(pattern.as_ref(), round) {
                None => {
                    *used = !turn.repeat;
                    return Ok(turn);
                }
                Some(difference) => tried.push(format!("turn {} expects {difference}", index + 1)),
            }
            // A repeating turn that no longer matches has had its rounds.
            if self.order == Order::Strict && turn.repeat {
                *used = true;
            } else if self.order == Order::Strict {
                break;
            }
        }
        Err(self.differs(round, &tried))
    }

    fn differs(&self, round: &ModelRound, tried: &[String]) -> Failure {
        const SHOWN: usize = 5;
        let asked = format!(
            "step `{}`, visit {}, round {}, model `{}`, last message {}",
            round.context.step,
            round.context.visit,
            round_number(round),
            round.model,
            quoted(round.messages.last().map_or("", |message| message.content.as_str()))
        );
        if tried.is_empty() {
            let count = self.turns.len();
            let message = format!(
                "the model script {} has no turns left (all {count} were used); the request was: {asked}. Add a turn for it",
                self.name
            );
            return failure("script-exhausted", message);
        }
        let mut expected = tried.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
        if let Some(more) = tried.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            expected.push_str(&format!("; and {more} more"));
        }
        failure(
            "script-mismatch",
            format!("the model script {} does not match: {expected}. The request was: {asked}", self.name),
        )
    }
}

#[async_trait]
impl Model for ScriptedModel {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let turn = self.choose(round)?;
        if let Some(failure) = &turn.fail {
            return Err(failure.clone());
        }
        let content = turn.json.as_ref().map(Value::to_json).or_else(|| turn.text.clone()).unwrap_or_default();
        if let Some(sink) = sink {
            let words = |text: &str, tell: &dyn Fn(&str)| text.split_inclusive(' ').for_each(tell);
            words(turn.reasoning.as_deref().unwrap_or_default(), &|piece| sink.piece(AnswerPiece::Reasoning(piece)));
            words(&content, &|piece| sink.text(piece));
            for (call, asked) in (0..).zip(&turn.tool_calls) {
                sink.piece(AnswerPiece::CallBegan { call, tool: &asked.name });
                sink.piece(AnswerPiece::CallArguments { call, text: &asked.arguments.to_json() });
                sink.piece(AnswerPiece::CallEnded { call });
            }
        }
        let number = round_number(round);
        let tool_calls = turn.tool_calls.iter().enumerate().map(|(index, call)| ToolCallRequest {
            id: call.id.clone().unwrap_or_else(|| format!("call-{number}-{index}")),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        let message = Message { tool_calls: tool_calls.collect(), ..Message::assistant(content) };
        let logprobs = turn.logprobs.clone().filter(|_| round.session.settings.logprobs == Some(true));
        Ok(ModelReply { message, usage: turn.usage, logprobs, ..ModelReply::text(round.model.clone(), "") })
    }
}

/// Assistant messages before this round.
pub(super) fn round_number(round: &ModelRound) -> usize {
    round.messages.iter().filter(|message| message.role == Role::Assistant).count()
}

/// A text short enough for a message.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 160;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
