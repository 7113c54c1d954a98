//! The text of models, shown as it comes: each answer after the event that requested it and before the one that ends
//! it.

use super::progress::StepProgress;
use opcell_engine::{
    event::{EffectId, Event, Request},
    ports::RunText,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

type Piece = (EffectId, String);

/// Receives the text of a run's models.
pub struct TextSender(mpsc::UnboundedSender<Piece>);

impl RunText for TextSender {
    fn text(&self, round: EffectId, piece: &str) {
        // No one listens any more when the command is over.
        let _ = self.0.send((round, piece.to_owned()));
    }
}

/// The end that shows it.
pub struct Text {
    pieces: mpsc::UnboundedReceiver<Piece>,
    /// The text that came and is not shown yet; of concurrent rounds, only the oldest is shown until it ends.
    waiting: BTreeMap<EffectId, String>,
    /// The rounds in flight.
    open: Vec<EffectId>,
}

/// The two ends.
pub fn text() -> (TextSender, Text) {
    let (sender, pieces) = mpsc::unbounded_channel();
    (TextSender(sender), Text { pieces, waiting: BTreeMap::new(), open: Vec::new() })
}

impl Text {
    /// Waits for the next piece; forever if no text is shown.
    pub async fn next_piece(text: &mut Option<Self>) {
        let Some(text) = text else { return std::future::pending().await };
        match text.pieces.recv().await {
            Some(piece) => text.keep(piece),
            None => std::future::pending().await,
        }
    }

    /// Shows the text of the oldest round in flight.
    pub fn show(&mut self, progress: &mut StepProgress) {
        if let Some(text) = self.open.first().and_then(|round| self.waiting.remove(round)) {
            progress.text(&text);
        }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, event: &Event, progress: &mut StepProgress) {
        match event {
            Event::Requested { effect, request: Request::Round { .. }, .. } => self.open.push(*effect),
            Event::Replied { effect, .. } | Event::Abandoned { effect, .. } if self.open.contains(effect) => {
                while let Ok(piece) = self.pieces.try_recv() {
                    self.keep(piece);
                }
                if self.open.first() != Some(effect) {
                    progress.end_text();
                }
                if let Some(text) = self.waiting.remove(effect) {
                    progress.text(&text);
                }
                progress.end_text();
                self.open.retain(|open| open != effect);
            }
            _ => {}
        }
    }

    fn keep(&mut self, (round, piece): Piece) {
        self.waiting.entry(round).or_default().push_str(&piece);
    }
}
