//! The updates of a run, and between them the text of its models as it comes.

use crate::data;
use futures_util::{Stream, StreamExt as _};
use opcell::{EffectId, RunText, RunUpdate, Value};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::broadcast;

/// Pieces of text that wait for a reader. A reader that is further behind misses the oldest ones: the answer has them.
const MAX_PIECES: usize = 4_096;

type Piece = (EffectId, Arc<str>);

/// The text of a run's models.
#[derive(Debug)]
pub struct TextFeed {
    pieces: broadcast::Sender<Piece>,
    /// For the first reader: what has come since the run was started.
    first: Mutex<Option<broadcast::Receiver<Piece>>>,
}

impl Default for TextFeed {
    fn default() -> Self {
        let (pieces, first) = broadcast::channel(MAX_PIECES);
        Self { pieces, first: Mutex::new(Some(first)) }
    }
}

impl RunText for TextFeed {
    fn text(&self, effect: EffectId, piece: &str) {
        // No one reads it: the answer has it.
        let _ = self.pieces.send((effect, piece.into()));
    }
}

impl TextFeed {
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

    /// Waits for the next update: an object with `event`, with `questions`, or with `text` and `effect`; `null` at the
    /// end. Nothing is lost if the waiting is cancelled.
    pub async fn next(&mut self) -> Value {
        loop {
            let Some(pieces) = self.pieces.as_mut() else {
                return self.updates.next().await.as_ref().map_or(Value::Null, data::update);
            };
            tokio::select! {
                // What a model said comes before the event that it has answered.
                biased;
                piece = pieces.recv() => match piece {
                    Ok(piece) => return text(&piece),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => self.pieces = None,
                },
                update = self.updates.next() => match update {
                    Some(update) => return data::update(&update),
                    // The rest of the text has come while the last update did.
                    None => match pieces.try_recv() {
                        Ok(piece) => return text(&piece),
                        Err(_) => return Value::Null,
                    },
                },
            }
        }
    }
}

fn text((effect, piece): &Piece) -> Value {
    Value::object([("text", Value::from(&**piece)), ("effect", Value::from(effect.0))])
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
        let feed = TextFeed::default();
        feed.text(EffectId(3), "one");
        let suspended = || stream::iter([RunUpdate::Suspended(Vec::new())]);
        let mut first = Updates::new(suspended(), Some(&feed));
        let piece = first.next().await;
        assert_eq!(piece.get("text").and_then(Value::as_str), Some("one"));
        assert_eq!((kinds(&first.next().await), kinds(&first.next().await)), ("questions", "end"));

        let mut slow = Updates::new(stream::pending(), Some(&feed));
        for n in 0..=MAX_PIECES {
            feed.text(EffectId(4), &n.to_string());
        }
        assert_eq!(slow.next().await.get("text").and_then(Value::as_str), Some("1"));

        let mut without = Updates::new(suspended(), None);
        assert_eq!((kinds(&without.next().await), kinds(&without.next().await)), ("questions", "end"));
    }
}
