//! Models' answers while they come, piece by piece. A preview: the event that ends the round has the answer, and what
//! was received of an answer that failed.

use opcell_core::event::EffectReply;
use opcell_core::id::EffectId;
use opcell_types::Value;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// The most bytes of one piece: a longer one is told in parts.
pub const MAX_PIECE_BYTES: usize = 16 << 10;

/// The most bytes of pieces of one round: far more than a model writes. Of the rest, the event of the round tells.
pub const MAX_ROUND_PIECE_BYTES: usize = 16 << 20;

/// The most bytes of a text that are kept with the failure of its round.
const RECEIVED_BYTES: usize = 64 << 10;

/// A piece of a model's answer, or the progress of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum AnswerPiece<'a> {
    /// Text.
    Text(&'a str),
    /// The model's reasoning, as far as its provider shows it.
    Reasoning(&'a str),
    /// A call of a tool begins. One that begins again replaces what came of it.
    CallBegan {
        /// The call's number in the answer, from 0.
        call: u32,
        /// The tool.
        tool: &'a str,
    },
    /// The next part of a call's arguments, which are JSON.
    CallArguments {
        /// The call's number.
        call: u32,
        /// The part.
        text: &'a str,
    },
    /// The arguments of a call are complete. Of a call that was cut, this does not come.
    CallEnded {
        /// The call's number.
        call: u32,
    },
    /// The progress of a call that a step, a judge or a model makes: the newest counts. Its effect is the call's, which
    /// [`Self::Ended`] ends as well.
    Progress {
        /// Done so far.
        done: f64,
        /// All that is to be done, where it is known.
        total: Option<f64>,
        /// One line of printable text; may be empty.
        message: &'a str,
    },
    /// The model is asked again: what came of this round does not count.
    Restarted,
    /// The round, or the call, is over, whatever the reason: nothing more comes of it.
    Ended,
}

impl<'a> AnswerPiece<'a> {
    /// The text, if this is a piece of the answer's text.
    #[must_use]
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of any kind that a piece carries.
    fn carried(self) -> &'a str {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::CallArguments { text, .. } => text,
            Self::CallBegan { tool, .. } => tool,
            Self::Progress { message, .. } => message,
            Self::CallEnded { .. } | Self::Restarted | Self::Ended => "",
        }
    }

    /// The same piece with another text.
    fn with(self, part: &'a str) -> Self {
        match self {
            Self::Text(_) => Self::Text(part),
            Self::Reasoning(_) => Self::Reasoning(part),
            Self::CallArguments { call, .. } => Self::CallArguments { call, text: part },
            Self::CallBegan { call, .. } => Self::CallBegan { call, tool: part },
            other => other,
        }
    }

    /// The piece as data: `{"text"}`, `{"reasoning"}`, `{"call": {"number", "tool"}}`, `{"call": {"number",
    /// "arguments"}}`, `{"call": {"number", "ended": true}}`, `{"progress": {"done", "total", "message"}}`, in which
    /// what is not known is absent, `{"restarted": true}` or `{"ended": true}`, and the number of its round or call as
    /// `effect`.
    #[must_use]
    pub fn to_value(self, round: EffectId) -> Value {
        let call = |number: u32, key: &str, value: Value| {
            Value::object([("number", Value::from(u64::from(number))), (key, value)])
        };
        let (key, value) = match self {
            Self::Text(text) => ("text", text.into()),
            Self::Reasoning(text) => ("reasoning", text.into()),
            Self::CallBegan { call: number, tool } => ("call", call(number, "tool", tool.into())),
            Self::CallArguments { call: number, text } => ("call", call(number, "arguments", text.into())),
            Self::CallEnded { call: number } => ("call", call(number, "ended", true.into())),
            Self::Progress { done, total, message } => {
                let total = total.map(|total| ("total", number_of(total)));
                let message = Some(("message", Value::from(message))).filter(|_| !message.is_empty());
                let known = [Some(("done", number_of(done))), total, message];
                ("progress", Value::object(known.into_iter().flatten()))
            }
            Self::Restarted => ("restarted", true.into()),
            Self::Ended => ("ended", true.into()),
        };
        Value::object([(key, value), ("effect", Value::from(round.0))])
    }
}

/// A count as it is usually written: most are whole.
#[allow(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
fn number_of(count: f64) -> Value {
    if count.fract() == 0.0 && count.abs() < 9e15 { Value::from(count as i64) } else { Value::from(count) }
}

/// Receives the answers of all models of a run while they come, and the progress of its calls.
pub trait RunText: Send + Sync {
    /// The next piece of a text, between the `requested` and `replied` events of its model round.
    fn text(&self, round: EffectId, piece: &str);

    /// The next piece of any kind. Unless said otherwise, all but text is ignored.
    fn piece(&self, round: EffectId, piece: AnswerPiece<'_>) {
        if let AnswerPiece::Text(text) = piece {
            self.text(round, text);
        }
    }

    /// Returns `false` if only the progress of calls is wanted: models are then not asked to answer in pieces.
    fn takes_answers(&self) -> bool {
        true
    }

    /// Returns `true` if [`AnswerPiece::Restarted`] takes back what was shown. A model whose answer broke off is then
    /// asked again; otherwise only if it had shown no text.
    fn takes_back(&self) -> bool {
        false
    }
}

/// Receives a model's answer while it comes.
pub trait TextSink: Send + Sync {
    /// The next piece of the text.
    fn text(&self, piece: &str);

    /// The next piece of any kind. Unless said otherwise, all but text is ignored.
    fn piece(&self, piece: AnswerPiece<'_>) {
        if let AnswerPiece::Text(text) = piece {
            self.text(text);
        }
    }

    /// As [`RunText::takes_back`].
    fn takes_back(&self) -> bool {
        false
    }
}

/// One round's part of what a run receives, within its bounds. Dropped, it says that the round is over.
pub(crate) struct RoundSink {
    sink: Arc<dyn RunText>,
    round: EffectId,
    /// Bytes that may still be told.
    room: AtomicUsize,
    /// The beginning of the text: it is kept with a failure.
    received: Mutex<String>,
}

impl RoundSink {
    pub(crate) fn new(sink: Arc<dyn RunText>, round: EffectId) -> Self {
        Self { sink, round, room: AtomicUsize::new(MAX_ROUND_PIECE_BYTES), received: Mutex::default() }
    }

    /// Adds to the failure of a round what was received of its answer, unless it says so itself.
    pub(crate) fn keep(&self, reply: EffectReply) -> EffectReply {
        let EffectReply::Round(Err(mut failure)) = reply else { return reply };
        let received = std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner));
        if failure.details.is_none() && !received.is_empty() {
            failure.details = Some(Value::object([("received", Value::from(received))]));
        }
        EffectReply::Round(Err(failure))
    }
}

impl Drop for RoundSink {
    fn drop(&mut self) {
        if self.room.load(Ordering::Relaxed) < MAX_ROUND_PIECE_BYTES {
            self.sink.piece(self.round, AnswerPiece::Ended);
        }
    }
}

impl TextSink for RoundSink {
    fn text(&self, piece: &str) {
        self.piece(AnswerPiece::Text(piece));
    }

    fn piece(&self, piece: AnswerPiece<'_>) {
        match piece {
            AnswerPiece::Ended | AnswerPiece::Progress { .. } => return,
            AnswerPiece::Restarted => self.received.lock().unwrap_or_else(PoisonError::into_inner).clear(),
            AnswerPiece::Text(text) => {
                let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
                let room = RECEIVED_BYTES.saturating_sub(received.len());
                received.push_str(text.split_at(text.floor_char_boundary(room)).0);
            }
            _ => {}
        }
        let mut rest = piece.carried();
        // A piece costs its bytes and one more, so that empty ones have an end as well.
        loop {
            let (part, next) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
            let cost = part.len() + 1;
            let taken = |room: usize| room.checked_sub(cost);
            if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_err() {
                return;
            }
            self.sink.piece(self.round, piece.with(part));
            rest = next;
            // The name of a tool is told once, however long it is.
            if rest.is_empty() || matches!(piece, AnswerPiece::CallBegan { .. }) {
                return;
            }
        }
    }

    fn takes_back(&self) -> bool {
        self.sink.takes_back()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

    use super::*;
    use opcell_core::failure::Failure;

    #[derive(Default)]
    struct Collected(Mutex<Vec<Value>>);

    impl RunText for Collected {
        fn text(&self, round: EffectId, piece: &str) {
            self.piece(round, AnswerPiece::Text(piece));
        }

        fn piece(&self, round: EffectId, piece: AnswerPiece<'_>) {
            self.0.lock().unwrap().push(piece.to_value(round));
        }
    }

    fn told(tell: impl FnOnce(&RoundSink)) -> Vec<Value> {
        let collected = Arc::new(Collected::default());
        tell(&RoundSink::new(collected.clone(), EffectId(7)));
        let mut told = collected.0.lock().unwrap();
        std::mem::take(&mut *told)
    }

    #[test]
    fn a_round_ends_once_and_one_that_said_nothing_not_at_all() {
        let of = |told: Vec<Value>| told.iter().map(Value::to_json).collect::<Vec<_>>();
        assert!(told(|_| {}).is_empty());
        let all = told(|sink| {
            sink.piece(AnswerPiece::Reasoning("hm"));
            sink.piece(AnswerPiece::CallBegan { call: 0, tool: "read" });
            sink.piece(AnswerPiece::CallArguments { call: 0, text: "{}" });
            sink.piece(AnswerPiece::CallEnded { call: 0 });
            sink.piece(AnswerPiece::Ended);
            sink.text("é");
        });
        let expected = [
            r#"{"reasoning":"hm","effect":7}"#,
            r#"{"call":{"number":0,"tool":"read"},"effect":7}"#,
            r#"{"call":{"number":0,"arguments":"{}"},"effect":7}"#,
            r#"{"call":{"number":0,"ended":true},"effect":7}"#,
            r#"{"text":"é","effect":7}"#,
            r#"{"ended":true,"effect":7}"#,
        ];
        assert_eq!(of(all), expected);
    }

    #[test]
    fn pieces_and_rounds_have_a_size() {
        let long = "é".repeat(MAX_PIECE_BYTES);
        let all = told(|sink| sink.piece(AnswerPiece::Reasoning(&long)));
        let parts: Vec<&str> =
            all.iter().filter_map(|piece| piece.get("reasoning")).filter_map(Value::as_str).collect();
        assert_eq!((parts.len(), parts.concat()), (2, long.clone()));
        assert!(parts.iter().all(|part| part.len() <= MAX_PIECE_BYTES));

        let all = told(|sink| {
            for _ in 0..=MAX_ROUND_PIECE_BYTES / long.len() {
                sink.piece(AnswerPiece::CallArguments { call: 0, text: &long });
            }
            sink.text("too late for this one");
        });
        let bytes: usize = all.iter().map(|piece| piece.to_json().len()).sum();
        let last = all.last().unwrap();
        assert!((MAX_ROUND_PIECE_BYTES / 2..MAX_ROUND_PIECE_BYTES + (1 << 20)).contains(&bytes), "{bytes} bytes");
        assert_eq!(last.get("ended"), Some(&Value::from(true)), "{last:?}");

        let empty = told(|sink| (0..=MAX_ROUND_PIECE_BYTES).for_each(|_| sink.text("")));
        assert_eq!(empty.len(), MAX_ROUND_PIECE_BYTES + 1);
    }

    #[test]
    fn a_failure_keeps_the_text_of_the_last_attempt_and_no_more_than_its_bound() {
        let sink = RoundSink::new(Arc::new(Collected::default()), EffectId(1));
        let failed = || EffectReply::Round(Err(Failure::host("timeout", "late")));
        sink.text("first");
        sink.piece(AnswerPiece::Restarted);
        sink.text("second");
        sink.piece(AnswerPiece::Reasoning("never kept"));
        let EffectReply::Round(Err(failure)) = sink.keep(failed()) else { panic!() };
        assert_eq!(failure.details.unwrap().to_json(), r#"{"received":"second"}"#);
        sink.text(&"é".repeat(RECEIVED_BYTES));
        let EffectReply::Round(Err(failure)) = sink.keep(failed()) else { panic!() };
        let details = failure.details.unwrap();
        let received = details.get("received").and_then(Value::as_str).unwrap();
        assert_eq!(received.len(), RECEIVED_BYTES);
    }
}
