//! A sink that remembers what it was shown.

use opcell_engine::ports::{AnswerPiece, TextSink};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A sink of a round: what was shown is not shown again, unless the sink takes it back.
pub(crate) struct Shown<'a> {
    sink: &'a dyn TextSink,
    text: AtomicBool,
    anything: AtomicBool,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(sink: &'a dyn TextSink) -> Self {
        Self { sink, text: AtomicBool::new(false), anything: AtomicBool::new(false) }
    }

    /// Returns `true` if text was shown.
    pub(crate) fn has_text(&self) -> bool {
        self.text.load(Relaxed)
    }

    /// Returns `true` if the answer may begin again.
    pub(crate) fn may_restart(&self) -> bool {
        !self.has_text() || self.sink.takes_back()
    }

    /// Takes back what was shown, before the answer begins again.
    pub(crate) fn restart(&self) {
        self.text.store(false, Relaxed);
        if self.anything.swap(false, Relaxed) {
            self.sink.piece(AnswerPiece::Restarted);
        }
    }
}

impl TextSink for Shown<'_> {
    fn text(&self, piece: &str) {
        self.piece(AnswerPiece::Text(piece));
    }

    fn piece(&self, piece: AnswerPiece<'_>) {
        if piece.text().is_some() {
            self.text.store(true, Relaxed);
        }
        self.anything.store(true, Relaxed);
        self.sink.piece(piece);
    }

    fn takes_back(&self) -> bool {
        self.sink.takes_back()
    }
}
