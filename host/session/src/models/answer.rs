//! A provider's answer: its bytes become events, a reader of the protocol collects them, and one judgement says whether
//! they are an answer at all. A whole answer is read as a stream of one event, so that both behave alike.
//!
//! Providers are read leniently, and never so that an answer grows: there are at most as many calls as the provider
//! made, and what nothing was said in is a failure.

#![allow(clippy::indexing_slicing, reason = "an absent member of a `serde_json::Value` reads as null and never panics")]

mod calls;
mod charset;
mod end;
mod fault;
mod fault_forms;
mod forms;
mod frames;
mod json;
mod preview;
mod reader;

pub(super) use calls::{CallDrafts, Given, Piece, arguments, arguments_of_text};
pub(super) use charset::foreign_text;
pub(super) use end::{AnswerEnd, Finish};
pub(super) use fault::{Fault, error_in, words_of};
pub(super) use forms::{either, parts_of, text_in, unwrapped, whole_number};
pub(super) use json::parse;
pub(super) use preview::CallPreview;
pub(super) use reader::AnswerReader;

use opcell_engine::ports::AnswerPiece;
use opcell_types::Value;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The most bytes of one answer, decompressed, whole or streamed: far more than a model writes.
pub(super) const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The most calls of one answer.
const MAX_CALLS: usize = 1024;

/// The answer of a provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answer {
    pub text: String,
    pub calls: Vec<Call>,
    pub tokens: Tokens,
    pub ending: AnswerEnd,
    /// The provider's own form of the answer, where it wants more of it back than text and calls. A call in it has
    /// neither name nor arguments: those of the message are sent.
    pub kept: Option<Json>,
    pub logprobs: Option<Value>,
    pub ignored: Ignored,
}

/// A call as a provider gave it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Call {
    /// Empty where the provider gives none.
    pub id: String,
    pub name: String,
    /// An object, or whatever the model wrote instead: text that is not JSON is a text here.
    pub arguments: Value,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tokens {
    /// Those of the cache included.
    pub input: u64,
    pub output: u64,
    /// Input that came from the provider's cache.
    pub cache_read: u64,
    /// Input that the provider kept in its cache, and charges for.
    pub cache_write: u64,
}

impl Tokens {
    /// Takes a later count over an earlier one; a count of nothing says nothing.
    pub(super) fn update(&mut self, input: Option<u64>, output: Option<u64>) {
        if let Some(input) = input.filter(|tokens| *tokens > 0) {
            self.input = input;
        }
        if let Some(output) = output.filter(|tokens| *tokens > 0) {
            self.output = output;
        }
    }

    /// As [`Tokens::update`], for the parts of the input that the provider's cache gave or kept.
    pub(super) fn update_cached(&mut self, read: Option<u64>, write: Option<u64>) {
        if let Some(read) = read.filter(|tokens| *tokens > 0) {
            self.cache_read = read;
        }
        if let Some(write) = write.filter(|tokens| *tokens > 0) {
            self.cache_write = write;
        }
    }
}

/// A count of tokens; some servers write it as a float or a text.
pub(super) fn count(value: &Json) -> Option<u64> {
    let float = || value.as_f64().filter(|count| *count >= 0.0 && *count < 1e15).map(|count| count as u64);
    value.as_u64().or_else(float).or_else(|| value.as_str()?.trim().parse().ok())
}

/// Kinds of events, blocks and parts that this host does not know, with how many there were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ignored(BTreeMap<String, u64>);

impl Ignored {
    /// The most kinds that are told apart.
    const KINDS: usize = 32;

    /// Counts one more.
    pub(super) fn note(&mut self, kind: &str) {
        let kind = opcell_types::text::one_line(kind, 64);
        let kind = if self.0.len() >= Self::KINDS && !self.0.contains_key(&kind) { "others".to_owned() } else { kind };
        *self.0.entry(kind).or_default() += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Ignored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<String> = self.0.iter().map(|(kind, count)| format!("{kind} ×{count}")).collect();
        f.write_str(&shown.join(", "))
    }
}

/// One event of a stream, or a whole answer.
pub(super) struct Event<'a> {
    /// The event's name in the stream, where it has one.
    pub name: Option<&'a str>,
    pub data: Json,
    /// True if this is the whole answer.
    pub whole: bool,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    /// The protocol's last event came, or the answer was whole.
    Complete,
    /// The connection ended without it.
    Unmarked,
}

/// A function that shows an answer while it comes.
pub(super) type Show<'a> = dyn FnMut(AnswerPiece<'_>) + 'a;

/// A reader of one protocol: a state machine over events.
pub(super) trait Protocol: Send {
    /// Takes one event, and shows what it adds.
    fn event(&mut self, event: Event<'_>, show: &mut Show<'_>) -> Result<(), Fault>;

    /// The collected answer; `None` when the answer had not ended.
    fn end(&mut self, close: Close) -> Result<Option<Answer>, Fault>;

    /// Returns `true` once the protocol's last event came.
    fn is_over(&self) -> bool;

    /// Returns `true` if the end mark of chat completions, `[DONE]`, is the end of the answer here.
    fn ends_at_mark(&self) -> bool {
        false
    }
}
