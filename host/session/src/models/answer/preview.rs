//! Calls of an answer while they come: told from what a protocol's reader has put together so far.

use super::Show;
use opcell_engine::ports::AnswerPiece;

/// A call that was told of.
#[derive(Debug, Clone, Copy)]
struct Told {
    number: u32,
    /// Bytes of the arguments that were told.
    bytes: usize,
}

/// The calls that were told of.
#[derive(Debug, Default)]
pub(in super::super) struct CallPreview {
    /// By their places among what the reader has.
    places: Vec<Option<Told>>,
    calls: u32,
}

impl CallPreview {
    /// Tells what is new about the call at a place: that it began, once its tool is known, and the next part of its
    /// arguments.
    pub(in super::super) fn update(&mut self, place: usize, tool: &str, arguments: &str, show: &mut Show<'_>) {
        if tool.is_empty() {
            return;
        }
        if self.places.len() <= place {
            self.places.resize(place.saturating_add(1), None);
        }
        let Some(slot) = self.places.get_mut(place) else { return };
        let calls = &mut self.calls;
        let told = slot.get_or_insert_with(|| {
            let number = *calls;
            *calls = calls.saturating_add(1);
            show(AnswerPiece::CallBegan { call: number, tool });
            Told { number, bytes: 0 }
        });
        if arguments.len() < told.bytes {
            // Some servers begin with an empty object, and then send the real one.
            show(AnswerPiece::CallBegan { call: told.number, tool });
            told.bytes = 0;
        }
        if let Some(rest) = arguments.get(told.bytes..).filter(|rest| !rest.is_empty()) {
            show(AnswerPiece::CallArguments { call: told.number, text: rest });
            told.bytes = arguments.len();
        }
    }

    /// Tells that the arguments of the call at a place are complete.
    pub(in super::super) fn end(&self, place: usize, show: &mut Show<'_>) {
        if let Some(told) = self.places.get(place).copied().flatten() {
            show(AnswerPiece::CallEnded { call: told.number });
        }
    }
}
