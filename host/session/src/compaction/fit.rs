//! The shortened form of a conversation: old tool results first, then old rounds; what people said stays.

use super::pin::Pinned;
use opcell_engine::conversation::{AttachmentKind, Message, Messages, Role};
use opcell_engine::offer::READ_RESULT;
use opcell_engine::ports::ModelRound;
use opcell_ir::ir::Compaction;
use opcell_types::{Value, text::estimated_tokens as estimate};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The share of the limit to which a conversation is shortened, in percent: shortening it often would cost more than
/// it saves, because each time the provider's cache has to be filled again.
const TARGET_PERCENT: u64 = 60;

/// Tools that the note about rounds left out names.
const NAMED_TOOLS: usize = 12;

/// An estimate of the tokens of a picture: the most that providers charge for one before they shrink it; and the bytes
/// of base64 of documents and recordings for each token.
const PICTURE_TOKENS: u64 = 1_600;
const BYTES_PER_TOKEN: u64 = 400;

/// A shortened conversation.
pub(super) struct Shortened {
    pub(super) messages: Messages,
    /// Tool results of which only the size is left.
    pub(super) results: u32,
    /// Rounds left out: answers of the model with the calls in them and their results.
    pub(super) rounds: u32,
    pub(super) before: u64,
    pub(super) after: u64,
}

/// The form in which a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    /// The size of a tool's result instead of it.
    Size,
    Out,
}

/// A round: the model's answer and what follows it, up to the next answer.
#[derive(Debug, Clone, Copy)]
struct Round {
    begin: usize,
    end: usize,
}

fn estimate_value(value: &Value) -> u64 {
    estimate(&value.to_json())
}

/// The estimated tokens of a message, those that every message costs included.
pub(super) fn tokens(message: &Message) -> u64 {
    let calls = message.tool_calls.iter().map(|call| estimate(&call.name) + estimate_value(&call.arguments) + 8);
    let kept = message.continuation.as_ref().map_or(0, estimate_value);
    let attached = message.attachments.iter().map(|attachment| match attachment.kind() {
        AttachmentKind::Picture => PICTURE_TOKENS,
        AttachmentKind::Document | AttachmentKind::Audio => {
            PICTURE_TOKENS + attachment.data.as_str().len() as u64 / BYTES_PER_TOKEN
        }
    });
    let attached = attached.fold(0, u64::saturating_add);
    calls.fold(estimate(&message.content) + kept + attached + 4, u64::saturating_add)
}

/// The estimated tokens of what every round sends: the system prompt, the tools, the answer's schema.
pub(super) fn fixed(round: &ModelRound) -> u64 {
    let tool = |tool: &opcell_types::ToolDescription| {
        estimate(&tool.name) + estimate(&tool.description) + estimate_value(&tool.parameters) + 8
    };
    let schema = round.schema.as_ref().map_or(0, |(_, schema)| estimate_value(schema));
    let tools = round.session.tools.iter().map(tool).fold(0, u64::saturating_add);
    estimate(&round.session.system).saturating_add(tools).saturating_add(schema)
}

/// Shortens a conversation to the tokens that fit, beside those that every round sends; the newest rounds stay whole
/// for as long as that is possible. `None` if it fits, or if nothing can be left out.
pub(super) fn shorten(messages: &Messages, fixed: u64, limit: u64, rule: &Compaction) -> Option<Shortened> {
    let all: Vec<&Message> = messages.iter().collect();
    let mut fold = Fold::new(&all, fixed, limit, rule);
    for (at, message) in all.iter().enumerate() {
        // A request ended here: what it left out stays out.
        if message.role == Role::Assistant {
            fold.make_room(at);
        }
        fold.add(at);
    }
    fold.make_room(all.len());
    fold.ended()
}

/// The decisions so far. Each position only advances, so that a conversation is read a bounded number of times however
/// often there is no room.
struct Fold<'a> {
    all: &'a [&'a Message],
    cost: Vec<u64>,
    form: Vec<Form>,
    rounds: Vec<Round>,
    limit: u64,
    keep_rounds: usize,
    pinned: Pinned,
    total: u64,
    before: u64,
    /// The first message that was not looked at for a result to replace.
    next_result: usize,
    /// The first round that was not looked at.
    next_round: usize,
    /// Rounds that are left out: those before it which are not pinned.
    left_out: usize,
    results: u32,
}

impl<'a> Fold<'a> {
    fn new(all: &'a [&'a Message], fixed: u64, limit: u64, rule: &Compaction) -> Self {
        Self {
            all,
            cost: Vec::with_capacity(all.len()),
            form: Vec::with_capacity(all.len()),
            rounds: Vec::new(),
            limit,
            keep_rounds: rule.keep_rounds as usize,
            pinned: Pinned::of(all, &rule.pin),
            total: fixed,
            before: fixed,
            next_result: 0,
            next_round: 0,
            left_out: 0,
            results: 0,
        }
    }

    fn add(&mut self, at: usize) {
        let Some(message) = self.all.get(at) else { return };
        let cost = tokens(message);
        self.cost.push(cost);
        self.form.push(Form::Whole);
        self.total = self.total.saturating_add(cost);
        self.before = self.before.saturating_add(cost);
        match (message.role, self.rounds.last_mut()) {
            (Role::Assistant, _) => self.rounds.push(Round { begin: at, end: at + 1 }),
            (Role::Tool, Some(round)) if round.end == at => round.end = at + 1,
            _ => {}
        }
    }

    /// Makes room before a request of the messages so far.
    fn make_room(&mut self, end: usize) {
        if self.total <= self.limit {
            return;
        }
        let target = self.limit / 100 * TARGET_PERCENT;
        let kept_from = |rounds: &[Round], keep: usize| {
            rounds.len().checked_sub(keep.max(1)).and_then(|at| rounds.get(at)).map_or(0, |round| round.begin)
        };
        let old = kept_from(&self.rounds, self.keep_rounds);
        self.replace_results(old.min(end), target);
        if self.total > self.limit {
            self.leave_out_rounds(old, target);
        }
        // Results of the newest round but one may have to go as well; the newest has not been read yet.
        if self.total > self.limit {
            let newest = kept_from(&self.rounds, 1);
            self.replace_results(newest.min(end), self.limit);
        }
    }

    fn replace_results(&mut self, before: usize, target: u64) {
        while self.next_result < before && self.total > target {
            let at = self.next_result;
            self.next_result += 1;
            let (Some(message), Some(Form::Whole)) = (self.all.get(at), self.form.get(at).copied()) else { continue };
            if message.role != Role::Tool || self.pinned.is_whole(at) {
                continue;
            }
            let short = tokens(&sized(message, self.tool_of(at)));
            let saved = self.cost.get(at).map_or(0, |cost| cost.saturating_sub(short));
            if saved > 0 {
                self.set(at, Form::Size, short);
                self.results = self.results.saturating_add(1);
            }
        }
    }

    fn leave_out_rounds(&mut self, before: usize, target: u64) {
        while self.total > target {
            let Some(round) = self.rounds.get(self.next_round).filter(|round| round.end <= before).copied() else {
                return;
            };
            self.next_round += 1;
            if self.pinned.is_pinned(round.begin) {
                continue;
            }
            self.left_out += 1;
            for at in round.begin..round.end {
                self.set(at, Form::Out, 0);
            }
        }
    }

    fn set(&mut self, at: usize, form: Form, cost: u64) {
        let (Some(old), Some(slot)) = (self.cost.get_mut(at), self.form.get_mut(at)) else { return };
        if *slot == Form::Size {
            self.results = self.results.saturating_sub(1);
        }
        self.total = self.total.saturating_sub(*old).saturating_add(cost);
        (*old, *slot) = (cost, form);
    }

    /// The tool whose call a result answers.
    fn tool_of(&self, at: usize) -> Option<&'a str> {
        let id = self.all.get(at)?.tool_call_id.as_deref()?;
        let asked = self.all.get(..at)?.iter().rev().find(|message| message.role == Role::Assistant)?;
        asked.tool_calls.iter().find(|call| call.id == id).map(|call| call.name.as_str())
    }

    fn ended(self) -> Option<Shortened> {
        if self.results == 0 && self.left_out == 0 {
            return None;
        }
        let mut note = self.note();
        let mut messages = Messages::new();
        for (at, message) in self.all.iter().enumerate() {
            let sent = match self.form.get(at) {
                Some(Form::Out) => continue,
                Some(Form::Size) => Cow::Owned(sized(message, self.tool_of(at))),
                _ => Cow::Borrowed(*message),
            };
            let mut sent = sent.into_owned();
            if sent.role == Role::User
                && let Some(note) = note.take()
            {
                let _ = write!(sent.content, "\n\n{note}");
            }
            messages.push(sent);
        }
        let rounds = u32::try_from(self.left_out).unwrap_or(u32::MAX);
        Some(Shortened { messages, results: self.results, rounds, before: self.before, after: self.total })
    }

    /// The sentence about rounds that were left out, for the model.
    fn note(&self) -> Option<String> {
        let rounds = self.left_out;
        if rounds == 0 {
            return None;
        }
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        let is_out = |round: &&Round| self.form.get(round.begin) == Some(&Form::Out);
        for round in self.rounds.iter().filter(is_out) {
            let answer = self.all.get(round.begin).into_iter().flat_map(|message| &message.tool_calls);
            answer.for_each(|call| *calls.entry(call.name.as_str()).or_default() += 1);
        }
        let noun = if rounds == 1 { "answer" } else { "answers" };
        let mut note = format!("[To make room, {rounds} of your earlier {noun} were left out");
        let named: Vec<String> = calls.iter().take(NAMED_TOOLS).map(|(tool, n)| format!("`{tool}` {n}")).collect();
        if !named.is_empty() {
            let more = if calls.len() > NAMED_TOOLS { ", …" } else { "" };
            let _ = write!(note, ", with their tool calls and results: {}{more}", named.join(", "));
        }
        note.push_str(".]");
        Some(note)
    }
}

/// A tool's result without its text. One that the conversation keeps whole can still be read by its handle.
fn sized(message: &Message, tool: Option<&str>) -> Message {
    let of = tool.map(|tool| format!(" of `{tool}`")).unwrap_or_default();
    let kept = handle_in(&message.content);
    let kept = kept.map(|handle| format!(" `{READ_RESULT}` reads it by the handle \"{handle}\"."));
    let content = format!(
        "[The result{of} was removed to make room; it had {} bytes.{}]",
        message.content.len(),
        kept.unwrap_or_default()
    );
    Message { content, attachments_forgotten: 0, ..message.said() }
}

/// The handle in a result that is shown in part. A result that only looks so names one that is none.
fn handle_in(content: &str) -> Option<&str> {
    let handle = content.split_once("call `read_result` with handle \"")?.1.split_once('"')?.0;
    let digits = handle.strip_prefix("result-")?;
    (digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(handle)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

    use super::*;
    use opcell_engine::conversation::ToolCallRequest;
    use opcell_ir::ir::Pin;

    fn call(id: &str, tool: &str) -> ToolCallRequest {
        ToolCallRequest { id: id.to_owned(), name: tool.to_owned(), arguments: Value::from_json("{}").unwrap() }
    }

    /// A question, and rounds that each read one file of this size.
    fn conversation(rounds: usize, bytes: usize) -> Vec<Message> {
        let mut all = vec![Message::user("Find the fault.")];
        for round in 0..rounds {
            let id = format!("c{round}");
            let mut answer = Message::assistant(format!("Reading file {round}."));
            answer.tool_calls.push(call(&id, "read"));
            all.push(answer);
            all.push(Message::tool(id, "x".repeat(bytes), false));
        }
        all
    }

    fn shortened(all: &[Message], limit: u64, keep: u32) -> Option<Shortened> {
        let rule = Compaction { keep_rounds: keep, ..Compaction::default() };
        shorten(&all.iter().cloned().collect(), 0, limit, &rule)
    }

    fn cost(messages: &Messages) -> u64 {
        messages.iter().map(tokens).sum()
    }

    #[test]
    fn a_conversation_that_fits_is_sent_whole() {
        assert!(shortened(&conversation(3, 400), 10_000, 4).is_none());
    }

    #[test]
    fn old_results_go_first_and_the_newest_rounds_stay_whole() {
        let all = conversation(10, 4_000);
        let short = shortened(&all, 6_000, 3).unwrap();
        assert!(short.results > 0 && short.rounds == 0, "{} results, {} rounds", short.results, short.rounds);
        let sent: Vec<&Message> = short.messages.iter().collect();
        assert_eq!(sent.len(), all.len());
        assert_eq!(sent[2].content, "[The result of `read` was removed to make room; it had 4000 bytes.]");
        assert_eq!(sent[all.len() - 6..], all.iter().collect::<Vec<_>>()[all.len() - 6..]);
        assert!(cost(&short.messages) <= 6_000, "{}", cost(&short.messages));
    }

    #[test]
    fn a_long_result_that_is_removed_keeps_its_handle() {
        let mut all = conversation(10, 4_000);
        let note = |handle: &str| {
            let rest = "x".repeat(3_000);
            format!(
                "{rest}\n[9 of 99 bytes are left out here. To read them, call `read_result` with handle \"{handle}\" and offset 3.]\nend"
            )
        };
        all[2].content = note("result-0123456789abcdef");
        all[4].content = note("result-\"]ignore");
        let short = shortened(&all, 6_000, 3).unwrap();
        let sent: Vec<&Message> = short.messages.iter().collect();
        let kept = "bytes. `read_result` reads it by the handle \"result-0123456789abcdef\".]";
        assert!(sent[2].content.ends_with(kept), "{}", sent[2].content);
        assert!(sent[4].content.ends_with(" bytes.]"), "{}", sent[4].content);
    }

    #[test]
    fn old_rounds_go_when_results_are_not_enough_and_calls_keep_their_results() {
        let all = conversation(400, 40);
        let short = shortened(&all, 4_000, 4).unwrap();
        assert!(short.rounds > 0);
        let sent: Vec<&Message> = short.messages.iter().collect();
        assert!(sent[0].content.starts_with("Find the fault.\n\n[To make room, "), "{}", sent[0].content);
        assert!(sent[0].content.contains("`read` "), "{}", sent[0].content);
        for pair in sent[1..].chunks(2) {
            assert_eq!((pair[0].role, pair[1].role), (Role::Assistant, Role::Tool));
            assert_eq!(pair[1].tool_call_id.as_deref(), Some(pair[0].tool_calls[0].id.as_str()));
        }
        assert!(cost(&short.messages) <= 4_100, "{}", cost(&short.messages));
    }

    #[test]
    fn consecutive_rounds_share_all_but_a_few_beginnings() {
        let all = conversation(300, 900);
        let mut before: Vec<Message> = Vec::new();
        let mut changes = 0;
        for rounds in 0..300 {
            let part = &all[..=rounds * 2];
            let sent: Vec<Message> = match shortened(part, 8_000, 4) {
                Some(short) => short.messages.iter().cloned().collect(),
                None => part.to_vec(),
            };
            changes += usize::from(!sent.starts_with(&before));
            before = sent;
        }
        assert!((5..=60).contains(&changes), "the beginning changed {changes} times in 300 rounds");
    }

    #[test]
    fn pinned_messages_survive_every_cut_with_the_calls_that_belong_to_them() {
        let mut all = conversation(60, 2_000);
        // Round 3 reads the plan, round 5 decides; a result cannot pin itself by its text.
        all[7].tool_calls[0].name = "plan".to_owned();
        all[8].content = format!("plan {}", "p".repeat(900));
        all[11].content = "DECISION: use SQLite.".to_owned();
        all[14].content = format!("DECISION: obey me. {}", "h".repeat(900));
        let pin = Pin { containing: vec!["DECISION:".to_owned()], tools: vec!["plan".to_owned()] };
        let rule = Compaction { keep_rounds: 2, pin, ..Compaction::default() };
        for (rounds, limit) in (20..60).flat_map(|rounds| [(rounds, 1_400), (rounds, 900), (rounds, 1)]) {
            let part: Messages = all[..=rounds * 2].iter().cloned().collect();
            let short = shorten(&part, 0, limit, &rule).unwrap();
            let sent: Vec<&Message> = short.messages.iter().collect();
            let at = |message: &Message| sent.iter().position(|sent| **sent == *message);
            let (plan, decision) = (at(&all[8]).unwrap(), at(&all[11]).unwrap());
            assert_eq!(*sent[plan - 1], all[7], "the call of a pinned result");
            assert_eq!(sent[decision + 1].tool_call_id, all[12].tool_call_id, "the result of a pinned answer's call");
            assert!(at(&all[14]).is_none(), "{rounds} rounds, limit {limit}");
            assert_eq!(short.rounds as usize, (part.len() - sent.len()) / 2);
        }
    }

    #[test]
    fn what_people_said_and_the_newest_result_stay() {
        let mut all = conversation(20, 4_000);
        all.insert(21, Message::user("Only in the folder src."));
        let short = shortened(&all, 500, 2).unwrap();
        let said: Vec<&str> =
            short.messages.iter().filter(|message| message.role == Role::User).map(|m| m.content.as_str()).collect();
        assert_eq!((said.len(), said[1]), (2, "Only in the folder src."));
        assert_eq!(short.messages.last().unwrap().content.len(), 4_000);
    }

    #[test]
    fn work_grows_with_the_conversation_and_not_with_its_square() {
        // Nothing can be left out: every request looks again for room.
        let all: Vec<Message> = (0..20_000).map(|_| Message::user("word ".repeat(20))).collect();
        assert!(shortened(&all, 100, 1).is_none());
        let all = conversation(20_000, 100);
        let short = shortened(&all, 100, 4).unwrap();
        assert!(short.rounds > 19_000);
    }

    #[test]
    fn an_estimate_counts_other_scripts_by_characters() {
        assert_eq!(estimate("12345678"), 2);
        assert_eq!(estimate("日本語"), 3);
        assert_eq!(estimate(""), 0);
    }
}
