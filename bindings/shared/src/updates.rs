//! The updates of a run, and between them the answers of its models as they come.

use crate::data;
use futures_util::{Stream, StreamExt as _};
use opcell::{AnswerPiece, EffectId, RunText, RunUpdate, Value};
use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
};
use tokio::sync::broadcast;

/// Pieces of answers that wait for a reader. A reader that is further behind misses the oldest ones: the answer has them.
const MAX_PIECES: usize = 4_096;

type Piece = Value;

/// The answers of a run's models.
#[derive(Debug)]
pub struct TextFeed {
    pieces: broadcast::Sender<Piece>,
    reasoning: bool,
    /// For the first reader: what has come since the run was started.
    first: Mutex<Option<broadcast::Receiver<Piece>>>,
}

impl RunText for TextFeed {
    fn text(&self, effect: EffectId, piece: &str) {
        self.piece(effect, AnswerPiece::Text(piece));
    }

    fn piece(&self, effect: EffectId, piece: AnswerPiece<'_>) {
        match piece {
            AnswerPiece::Reasoning(_) if !self.reasoning => {}
            // The event that follows says so.
            AnswerPiece::Ended => {}
            // It is of a call, and no part of what a model says.
            AnswerPiece::Progress { .. } => {}
            // No one reads it: the answer has it.
            piece => drop(self.pieces.send(piece.to_value(effect))),
        }
    }
}

impl TextFeed {
    /// A feed of text and tool calls; of reasoning as well, if it is asked for.
    #[must_use]
    pub fn new(reasoning: bool) -> Self {
        let (pieces, first) = broadcast::channel(MAX_PIECES);
        Self { pieces, reasoning, first: Mutex::new(Some(first)) }
    }

    fn reader(&self) -> broadcast::Receiver<Piece> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.unwrap_or_else(|| self.pieces.subscribe())
    }
}

/// The updates of a run, for one reader.
pub struct Updates {
    updates: Pin<Box<dyn Stream<Item = RunUpdate> + Send>>,
    pieces: Option<broadcast::Receiver<Piece>>,
}

impl Updates {
    /// Updates with the text of a feed, where there is one.
    pub fn new(updates: impl Stream<Item = RunUpdate> + Send + 'static, text: Option<&TextFeed>) -> Self {
        Self { updates: Box::pin(updates), pieces: text.map(TextFeed::reader) }
    }

    /// Waits for the next update: an object with `event`, with `questions`, or with `effect` and `text`, `reasoning`,
    /// `call` or `restarted`; `null` at the end. Nothing is lost if the waiting is cancelled.
    pub async fn next(&mut self) -> Value {
        loop {
            let Some(pieces) = self.pieces.as_mut() else {
                return self.updates.next().await.as_ref().map_or(Value::Null, data::update);
            };
            tokio::select! {
                // What a model said comes before the event that it has answered.
                biased;
                piece = pieces.recv() => match piece {
                    Ok(piece) => return piece,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => self.pieces = None,
                },
                update = self.updates.next() => match update {
                    Some(update) => return data::update(&update),
                    // The rest of the text has come while the last update did.
                    None => match pieces.try_recv() {
                        Ok(piece) => return piece,
                        Err(_) => return Value::Null,
                    },
                },
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use futures_util::stream;

    fn kinds(value: &Value) -> &'static str {
        match () {
            () if value.get("text").is_some() => "text",
            () if value.get("questions").is_some() => "questions",
            () => "end",
        }
    }

    #[tokio::test]
    async fn the_first_reader_has_the_text_from_the_start_and_a_slow_one_the_newest() {
        let feed = TextFeed::new(false);
        feed.piece(EffectId(3), AnswerPiece::Reasoning("not asked for"));
        feed.text(EffectId(3), "one");
        let suspended = || stream::iter([RunUpdate::Suspended(Vec::new())]);
        let mut first = Updates::new(suspended(), Some(&feed));
        let piece = first.next().await;
        assert_eq!(piece.get("text").and_then(Value::as_str), Some("one"));
        assert_eq!((kinds(&first.next().await), kinds(&first.next().await)), ("questions", "end"));

        let curious = TextFeed::new(true);
        let mut told = Updates::new(suspended(), Some(&curious));
        curious.piece(EffectId(3), AnswerPiece::Reasoning("hm"));
        curious.piece(EffectId(3), AnswerPiece::CallBegan { call: 0, tool: "read" });
        curious.piece(EffectId(3), AnswerPiece::Ended);
        assert_eq!(told.next().await.to_json(), r#"{"reasoning":"hm","effect":3}"#);
        assert_eq!(told.next().await.to_json(), r#"{"call":{"number":0,"tool":"read"},"effect":3}"#);
        assert_eq!((kinds(&told.next().await), kinds(&told.next().await)), ("questions", "end"));

        let mut slow = Updates::new(stream::pending(), Some(&feed));
        for n in 0..=MAX_PIECES {
            feed.text(EffectId(4), &n.to_string());
        }
        assert_eq!(slow.next().await.get("text").and_then(Value::as_str), Some("1"));

        let mut without = Updates::new(suspended(), None);
        assert_eq!((kinds(&without.next().await), kinds(&without.next().await)), ("questions", "end"));
    }
}
