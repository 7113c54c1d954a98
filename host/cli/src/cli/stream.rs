//! The answers of models, shown as they come: each after the event that requested it and before the one that ends it.
//! On a terminal whose lines move, the progress of calls instead.

use super::{
    Terminal,
    progress::{PartKind, StepProgress},
};
use opcell_engine::{
    event::{EffectId, Event, Request},
    ports::{AnswerPiece, RunText},
};
use opcell_types::CallProgress;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// The most bytes of the arguments of a call that are shown.
const MAX_ARGUMENT_BYTES: usize = 2_000;

/// A piece of an answer, as it is shown.
#[derive(Debug)]
enum Piece {
    Part(PartKind, String),
    /// A part that follows none.
    Begin(PartKind, String),
    /// The progress of a call; `None` at its end.
    Progress(Option<String>),
}

/// Receives the answers of a run's models.
pub struct TextSender {
    pieces: mpsc::UnboundedSender<(EffectId, Piece)>,
    kinds: PieceKinds,
}

/// The pieces that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKinds {
    /// Text and tool calls.
    Answers,
    /// Text, tool calls and reasoning.
    Reasoning,
    /// The progress of calls, and nothing of answers.
    Progress,
}

impl RunText for TextSender {
    fn text(&self, round: EffectId, piece: &str) {
        self.piece(round, AnswerPiece::Text(piece));
    }

    fn piece(&self, round: EffectId, piece: AnswerPiece<'_>) {
        let piece = match piece {
            AnswerPiece::Progress { done, total, message } if self.kinds == PieceKinds::Progress => {
                Piece::Progress(CallProgress::new(done, total, message).map(|progress| progress.to_string()))
            }
            AnswerPiece::Ended if self.kinds == PieceKinds::Progress => Piece::Progress(None),
            _ if self.kinds == PieceKinds::Progress => return,
            AnswerPiece::Text(text) => Piece::Part(PartKind::Text, text.to_owned()),
            AnswerPiece::Reasoning(text) if self.kinds == PieceKinds::Reasoning => {
                Piece::Part(PartKind::Reasoning, text.to_owned())
            }
            AnswerPiece::CallBegan { call, tool } => Piece::Begin(PartKind::Call(call), format!("{tool} ")),
            AnswerPiece::CallArguments { call, text } => Piece::Part(PartKind::Call(call), text.to_owned()),
            // What is on a terminal stays there; text is never shown twice.
            AnswerPiece::Restarted => Piece::Begin(PartKind::Text, "(asked again)\n".to_owned()),
            _ => return,
        };
        // No one listens any more when the command is over.
        let _ = self.pieces.send((round, piece));
    }

    fn takes_answers(&self) -> bool {
        self.kinds != PieceKinds::Progress
    }
}

/// The end that shows it.
pub struct Text {
    pieces: mpsc::UnboundedReceiver<(EffectId, Piece)>,
    /// The parts that came and are not shown yet; of concurrent rounds, only the oldest is shown until it ends.
    waiting: BTreeMap<EffectId, Vec<Piece>>,
    /// The rounds in flight.
    open: Vec<EffectId>,
    /// The progress of calls that is not shown yet.
    progress: BTreeMap<EffectId, Option<String>>,
    /// The bytes shown of the arguments of the call that is shown.
    arguments: usize,
}

/// The pieces that a command shows, if any: of answers where it is asked to, else the progress of calls on a terminal.
pub fn piece_kinds(streams: bool, reasoning: bool, terminal: &Terminal) -> Option<PieceKinds> {
    match (streams, reasoning) {
        (true, true) => Some(PieceKinds::Reasoning),
        (true, false) => Some(PieceKinds::Answers),
        (false, _) => terminal.has_moving_lines().then_some(PieceKinds::Progress),
    }
}

/// The two ends.
pub fn text(kinds: PieceKinds) -> (TextSender, Text) {
    let (sender, pieces) = mpsc::unbounded_channel();
    let text = Text { pieces, waiting: BTreeMap::new(), open: Vec::new(), progress: BTreeMap::new(), arguments: 0 };
    (TextSender { pieces: sender, kinds }, text)
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

    /// Shows the answer of the oldest round in flight, and the progress of each call.
    pub fn show(&mut self, progress: &mut StepProgress) {
        for (call, told) in std::mem::take(&mut self.progress) {
            progress.call(call, told);
        }
        if let Some(pieces) = self.open.first().and_then(|round| self.waiting.remove(round)) {
            self.show_all(pieces, progress);
        }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, event: &Event, progress: &mut StepProgress) {
        if let Event::Requested { effect, request: Request::Round { .. }, .. } = event {
            self.open.push(*effect);
        }
        // The two ways in which a round ends.
        let (Event::Replied { effect, .. } | Event::Abandoned { effect, .. }) = event else { return };
        if !self.open.contains(effect) {
            return;
        }
        while let Ok(piece) = self.pieces.try_recv() {
            self.keep(piece);
        }
        if self.open.first() != Some(effect) {
            progress.end_text();
        }
        if let Some(pieces) = self.waiting.remove(effect) {
            self.show_all(pieces, progress);
        }
        progress.end_text();
        self.open.retain(|open| open != effect);
    }

    fn show_all(&mut self, pieces: Vec<Piece>, progress: &mut StepProgress) {
        for piece in pieces {
            match piece {
                Piece::Begin(kind, text) => {
                    self.arguments = 0;
                    progress.end_text();
                    progress.part(kind, &text);
                }
                Piece::Part(kind @ PartKind::Call(_), text) => {
                    let room = MAX_ARGUMENT_BYTES.saturating_sub(self.arguments);
                    let shown = text.split_at(text.floor_char_boundary(room)).0;
                    self.arguments = self.arguments.saturating_add(text.len());
                    progress.part(kind, shown);
                    if room > 0 && shown.len() < text.len() {
                        progress.part(kind, "…");
                    }
                }
                Piece::Part(kind, text) => progress.part(kind, &text),
                Piece::Progress(_) => {}
            }
        }
    }

    fn keep(&mut self, (round, piece): (EffectId, Piece)) {
        let piece = match piece {
            Piece::Progress(told) => {
                self.progress.insert(round, told);
                return;
            }
            piece => piece,
        };
        let waiting = self.waiting.entry(round).or_default();
        match (waiting.last_mut(), piece) {
            (Some(Piece::Part(last, there) | Piece::Begin(last, there)), Piece::Part(kind, more))
                if *last == kind && !matches!(kind, PartKind::Call(_)) =>
            {
                there.push_str(&more);
            }
            (_, piece) => waiting.push(piece),
        }
    }
}
