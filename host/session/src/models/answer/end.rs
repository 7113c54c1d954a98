//! The end of an answer: the reason for it, and the judgement if it is one.

use super::{Answer, Fault};

/// The reason for which a model stopped, whatever the protocol calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in super::super) enum Finish {
    /// The answer is complete.
    Done,
    /// The model waits for the results of its calls.
    Calls,
    /// The limit of tokens for an answer was reached.
    TokenLimit,
    /// The conversation fills the model's context.
    ContextFull,
    /// The model refused, or a filter stopped it.
    Refused,
    /// The model wrote something that its provider could not read.
    Malformed,
    /// The provider broke off.
    Broken,
    /// The provider wants to be asked to continue.
    Paused,
    /// The provider says only that it stopped.
    Stopped,
    /// A word that is not known.
    Unknown,
    /// The provider does not say.
    #[default]
    Unsaid,
}

/// The reason for which an answer ended, with the provider's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct AnswerEnd {
    pub finish: Finish,
    /// The word that the protocol has for it.
    pub said: String,
    /// A sentence that the provider or the model adds.
    pub words: Option<String>,
}

impl AnswerEnd {
    /// The ending that a word of any of the protocols names. Gateways use each other's.
    pub(in super::super) fn of(said: &str) -> Self {
        // Google's endpoint for chat completions has its own word after a general one: `content_filter: SAFETY`.
        let mut parts = said.rsplit(':').map(finish_of_word);
        let known = parts.clone().find(|finish| !matches!(finish, Finish::Unknown | Finish::Unsaid));
        let finish = known.or_else(|| parts.next_back()).unwrap_or(Finish::Unsaid);
        Self { finish, said: said.trim().to_owned(), words: None }
    }

    /// The ending that a number names, as Google's protocol buffers have it. From 6 on its two interfaces differ.
    pub(in super::super) fn of_number(number: u64) -> Self {
        let said = match number {
            0 => "FINISH_REASON_UNSPECIFIED",
            1 => "STOP",
            2 => "MAX_TOKENS",
            3 => "SAFETY",
            4 => "RECITATION",
            _ => return Self { finish: Finish::Stopped, said: number.to_string(), words: None },
        };
        Self::of(said)
    }

    /// Returns `true` if the answer is as the model meant it.
    pub(in super::super) fn is_success(&self) -> bool {
        matches!(self.finish, Finish::Done | Finish::Calls | Finish::Unsaid)
    }

    /// Takes a later word over an earlier one, unless the earlier one says that something went wrong.
    pub(in super::super) fn update(&mut self, later: Self) {
        let says_more = later.finish != Finish::Unsaid && (self.is_success() || !later.is_success());
        if says_more {
            let words = later.words.or_else(|| self.words.take());
            *self = Self { words, ..later };
        }
    }

    fn shown(&self) -> String {
        let said = opcell_types::text::one_line(&self.said, 64);
        match &self.words {
            Some(words) => format!("`{said}`: {words}"),
            None => format!("`{said}`"),
        }
    }
}

/// Returns a name in snake case.
pub(super) fn snake_case(word: &str) -> String {
    let mut out = String::with_capacity(word.len() + 4);
    let mut was_lower = false;
    for next in word.trim().chars() {
        if next.is_ascii_uppercase() && was_lower {
            out.push('_');
        }
        was_lower = next.is_ascii_lowercase() || next.is_ascii_digit();
        out.push(if matches!(next, '-' | ' ') { '_' } else { next.to_ascii_lowercase() });
    }
    out
}

fn finish_of_word(said: &str) -> Finish {
    let word = snake_case(said);
    let word = word.rsplit('.').next().unwrap_or_default();
    let word = word.strip_prefix("finish_reason_").unwrap_or(word);
    match word {
        "" | "null" | "none" | "unspecified" | "not_finished" => Finish::Unsaid,
        "stop" | "end_turn" | "completed" | "complete" | "stop_sequence" | "stop_sequences" | "eos" | "eos_token"
        | "end" | "done" | "finish" | "finished" | "success" | "end_of_turn" | "end_of_text" | "endoftext"
        | "stop_token" => Finish::Done,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" | "function_calls" => Finish::Calls,
        "length"
        | "max_token"
        | "max_tokens"
        | "max_output"
        | "max_predicted_tokens_reached"
        | "max_output_tokens"
        | "max_completion_tokens"
        | "max_new_tokens"
        | "max_length"
        | "token_limit" => Finish::TokenLimit,
        "model_context_window_exceeded"
        | "model_length"
        | "context_length_exceeded"
        | "context_window_exceeded"
        | "context_length"
        | "context_length_reached"
        | "error_limit"
        | "exceed_context_size" => Finish::ContextFull,
        "refusal"
        | "refused"
        | "content_filter"
        | "content_filtered"
        | "safety"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "language"
        | "image_safety"
        | "image_prohibited_content"
        | "image_recitation"
        | "error_toxic"
        | "sensitive"
        | "guardrail_intervened"
        | "blocked"
        | "moderation"
        | "content_policy_violation"
        | "jailbreak"
        | "model_armor" => Finish::Refused,
        "malformed_function_call"
        | "unexpected_tool_call"
        | "too_many_tool_calls"
        | "malformed_response"
        | "malformed_tool_call"
        | "malformed_tool_use"
        | "malformed_model_output"
        | "invalid_tool_call"
        | "missing_thought_signature" => Finish::Malformed,
        "error"
        | "network_error"
        | "failed"
        | "abort"
        | "aborted"
        | "cancelled"
        | "canceled"
        | "user_cancel"
        | "model_unloaded"
        | "time_out"
        | "interrupted"
        | "server_error"
        | "internal_error"
        | "overloaded"
        | "timeout"
        | "insufficient_system_resource"
        | "unavailable"
        | "deadline_exceeded" => Finish::Broken,
        "pause_turn" | "pause" | "paused" => Finish::Paused,
        "other" | "unknown" | "image_other" | "no_image" | "time_limit" | "repetition" | "incomplete" => {
            Finish::Stopped
        }
        word if is_bad_end(word) => Finish::Stopped,
        _ => Finish::Unknown,
    }
}

/// Returns `true` if a word that is not known has a part by which other servers say that an answer is not complete.
fn is_bad_end(word: &str) -> bool {
    const PARTS: [&str; 22] = [
        "max",
        "limit",
        "length",
        "context",
        "error",
        "fail",
        "filter",
        "blocked",
        "safety",
        "cancel",
        "abort",
        "time_out",
        "timeout",
        "incomplete",
        "malformed",
        "repet",
        "unload",
        "truncat",
        "preempt",
        "shutdown",
        "interrupt",
        "violation",
    ];
    PARTS.iter().any(|part| word.contains(part))
}

impl Answer {
    /// The answer, if it is one; else why not.
    pub(in super::super) fn judged(self, model: &str, accepts_unknown: bool) -> Result<Self, Fault> {
        let has_answered = !self.calls.is_empty() || !self.text.trim().is_empty();
        let shown = self.ending.shown();
        let fault = match self.ending.finish {
            Finish::Calls if self.calls.is_empty() => {
                Fault::malformed(format!("it says that it calls a tool ({shown}), and there is no call in it"))
            }
            Finish::Done | Finish::Calls | Finish::Unsaid if has_answered => return Ok(self),
            Finish::Unknown if has_answered && accepts_unknown => {
                tracing::warn!(model, finish = %shown, "a model ended its answer for a reason that is not known");
                return Ok(self);
            }
            Finish::Unsaid => Fault::malformed("it has neither a text nor a call".to_owned()),
            Finish::Done | Finish::Calls => {
                Fault::malformed(format!("it has neither a text nor a call (finish reason {shown})"))
            }
            Finish::TokenLimit => {
                let limit = match self.tokens.output {
                    0 => "its limit of tokens".to_owned(),
                    tokens => format!("its limit of {tokens} tokens"),
                };
                Fault::of_answer("answer-truncated", format!("`{model}` stopped at {limit}; raise `max-tokens`"))
            }
            Finish::ContextFull => Fault {
                retriable: true,
                ..Fault::of_answer(
                    "context-full",
                    format!(
                        "the conversation fills the context of `{model}` (finish reason {shown}); shorten it, or choose a model with a larger context"
                    ),
                )
            },
            Finish::Refused => Fault::of_answer("answer-refused", self.ending.refusal(model)),
            Finish::Malformed => Fault::malformed(format!(
                "the model made a call that its provider could not read (finish reason {shown})"
            )),
            Finish::Broken => Fault::unavailable(format!("it broke off (finish reason {shown})")),
            Finish::Paused => Fault::of_answer(
                "answer-paused",
                format!(
                    "`{model}` paused in the middle of a long turn (finish reason {shown}); ask for less in one turn"
                ),
            ),
            Finish::Stopped | Finish::Unknown => Fault {
                retriable: true,
                ..Fault::of_answer(
                    "answer-stopped",
                    format!(
                        "`{model}` stopped before its answer was complete, and its provider does not say why (finish reason {shown}); ask again, or in other words"
                    ),
                )
            },
        };
        Err(fault.with_answer(self))
    }
}

impl AnswerEnd {
    fn refusal(&self, model: &str) -> String {
        let advice = match self.said.to_ascii_lowercase().as_str() {
            "recitation" | "image_recitation" => "the answer would repeat a published text; ask for it in other words",
            "language" => "the language is not supported; choose another model",
            "spii" => "the answer would contain personal data; ask without them",
            "refusal" | "" => "ask in other words, or choose another model",
            _ => "a filter of the provider stopped it; ask in other words, or choose another model",
        };
        let said = opcell_types::text::one_line(&self.said, 64);
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        match self.words.as_deref().map(|words| words.trim().trim_end_matches('.')) {
            Some(words) => format!("`{model}` or its provider refused to answer{said}: {words}; {advice}"),
            None => format!("`{model}` or its provider refused to answer{said}; {advice}"),
        }
    }
}
