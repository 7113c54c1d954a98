//! Answers of models while they come, and the progress of calls, for those who follow a run that this process drives.
//!
//! A round's pieces are kept until it ends, up to a size, so that a reader that comes late, or reads slowly, has them
//! from the beginning and holds none of them. They are a preview: the event that ends the round has the answer.

use axum::body::Bytes;
use opcell::{CallProgress, EffectId, RunText, Value};
use opcell_engine::ports::AnswerPiece;
use opcell_journal::RunId;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::watch;

/// Bytes of one round that are kept for its readers; of the rest, the event that ends it tells.
const ROUND_BYTES: usize = 256 << 10;

/// Bytes after which pieces of one kind are no longer put together.
const JOINED_BYTES: usize = 4 << 10;

/// Bytes that a piece costs beside its text.
const PIECE_COST: usize = 64;

/// Rounds that are kept at a time; of more, the oldest is not told of any further.
const MAX_ROUNDS: usize = 64;

/// The pieces that a reader is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PieceKinds {
    /// None.
    #[default]
    None,
    /// Text, tool calls and progress.
    Text,
    /// Text, tool calls, progress and reasoning.
    All,
}

/// The answers of a tenant's models.
#[derive(Default)]
pub(crate) struct Answers {
    runs: Mutex<HashMap<RunId, Weak<RunAnswers>>>,
}

impl Answers {
    /// The answers of a run, now and later.
    pub(crate) fn of(&self, run: &RunId) -> Arc<RunAnswers> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = runs.get(run).and_then(Weak::upgrade) {
            return known;
        }
        if runs.len() == runs.capacity() {
            runs.retain(|_, answers| answers.strong_count() > 0);
        }
        let fresh = Arc::new(RunAnswers::default());
        runs.insert(run.clone(), Arc::downgrade(&fresh));
        fresh
    }

    /// A reader of the progress of a run's calls.
    pub(crate) fn progress(&self, run: &RunId) -> ProgressReader {
        let answers = self.of(run);
        let news = answers.news.subscribe();
        ProgressReader { answers, news, told: BTreeMap::new() }
    }

    /// A reader of the answers of a run.
    pub(crate) fn reader(&self, run: &RunId, kinds: PieceKinds) -> Option<AnswerReader> {
        let answers = match kinds {
            PieceKinds::None => return None,
            PieceKinds::Text | PieceKinds::All => self.of(run),
        };
        let news = answers.news.subscribe();
        Some(AnswerReader { answers, news, kinds, places: BTreeMap::new(), is_new: true })
    }
}

/// The rounds of a run that are in flight, and the calls that have told their progress.
pub(crate) struct RunAnswers {
    rounds: Mutex<BTreeMap<EffectId, Round>>,
    news: watch::Sender<u64>,
}

impl Default for RunAnswers {
    fn default() -> Self {
        Self { rounds: Mutex::default(), news: watch::Sender::new(0) }
    }
}

#[derive(Default)]
struct Round {
    pieces: Vec<Piece>,
    bytes: usize,
    /// Times that it began again.
    restarts: u64,
    /// Of a call, the progress that it told last.
    progress: Option<CallProgress>,
    /// Times that it told any.
    told: u64,
}

/// A piece, or several of one kind together.
enum Piece {
    Text(String),
    Reasoning(String),
    CallBegan(u32, String),
    CallArguments(u32, String),
    CallEnded(u32),
}

impl Piece {
    fn of(piece: AnswerPiece<'_>) -> Option<Self> {
        Some(match piece {
            AnswerPiece::Text(text) => Self::Text(text.to_owned()),
            AnswerPiece::Reasoning(text) => Self::Reasoning(text.to_owned()),
            AnswerPiece::CallBegan { call, tool } => Self::CallBegan(call, tool.to_owned()),
            AnswerPiece::CallArguments { call, text } => Self::CallArguments(call, text.to_owned()),
            AnswerPiece::CallEnded { call } => Self::CallEnded(call),
            _ => return None,
        })
    }

    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::CallBegan(_, text) | Self::CallArguments(_, text) => text,
            Self::CallEnded(_) => "",
        }
    }

    /// The piece from an offset on.
    fn after(&self, offset: usize) -> AnswerPiece<'_> {
        let rest = self.text().get(offset..).unwrap_or_default();
        match self {
            Self::Text(_) => AnswerPiece::Text(rest),
            Self::Reasoning(_) => AnswerPiece::Reasoning(rest),
            Self::CallBegan(call, tool) => AnswerPiece::CallBegan { call: *call, tool },
            Self::CallArguments(call, _) => AnswerPiece::CallArguments { call: *call, text: rest },
            Self::CallEnded(call) => AnswerPiece::CallEnded { call: *call },
        }
    }

    /// Adds a piece to one of the same kind.
    fn join(&mut self, piece: AnswerPiece<'_>) -> bool {
        let (there, more) = match (self, piece) {
            (Self::Text(there), AnswerPiece::Text(more)) | (Self::Reasoning(there), AnswerPiece::Reasoning(more)) => {
                (there, more)
            }
            (Self::CallArguments(call, there), AnswerPiece::CallArguments { call: same, text }) if *call == same => {
                (there, text)
            }
            _ => return false,
        };
        let fits = there.len().saturating_add(more.len()) <= JOINED_BYTES;
        if fits {
            there.push_str(more);
        }
        fits
    }
}

impl Round {
    fn push(&mut self, piece: AnswerPiece<'_>) {
        if self.bytes >= ROUND_BYTES {
            return;
        }
        let before = self.pieces.last().map_or(0, |last| last.text().len());
        if self.pieces.last_mut().is_some_and(|last| last.join(piece)) {
            let after = self.pieces.last().map_or(0, |last| last.text().len());
            self.bytes = self.bytes.saturating_add(after.saturating_sub(before));
        } else if let Some(piece) = Piece::of(piece) {
            self.bytes = self.bytes.saturating_add(piece.text().len().saturating_add(PIECE_COST));
            self.pieces.push(piece);
        }
    }
}

impl RunAnswers {
    fn rounds(&self) -> MutexGuard<'_, BTreeMap<EffectId, Round>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunText for RunAnswers {
    fn text(&self, round: EffectId, piece: &str) {
        self.piece(round, AnswerPiece::Text(piece));
    }

    fn piece(&self, round: EffectId, piece: AnswerPiece<'_>) {
        {
            let mut rounds = self.rounds();
            match piece {
                AnswerPiece::Ended => drop(rounds.remove(&round)),
                AnswerPiece::Restarted => {
                    let of = rounds.entry(round).or_default();
                    *of = Round { restarts: of.restarts.saturating_add(1), ..Round::default() };
                }
                AnswerPiece::Progress { done, total, message } => {
                    let of = rounds.entry(round).or_default();
                    of.progress = CallProgress::new(done, total, message);
                    of.told = of.told.wrapping_add(1);
                }
                piece => rounds.entry(round).or_default().push(piece),
            }
            while rounds.len() > MAX_ROUNDS {
                rounds.pop_first();
            }
        }
        self.news.send_modify(|news| *news = news.wrapping_add(1));
    }

    fn takes_back(&self) -> bool {
        true
    }
}

/// Reads the progress of the calls of one run, without what its models say.
pub(crate) struct ProgressReader {
    answers: Arc<RunAnswers>,
    news: watch::Receiver<u64>,
    told: BTreeMap<EffectId, u64>,
}

impl ProgressReader {
    /// Waits for the next progress of any call. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Vec<CallProgress> {
        loop {
            self.news.borrow_and_update();
            let found = self.read();
            if !found.is_empty() {
                return found;
            }
            if self.news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn read(&mut self) -> Vec<CallProgress> {
        let rounds = self.answers.rounds();
        self.told.retain(|call, _| rounds.contains_key(call));
        let mut found = Vec::new();
        for (call, of) in rounds.iter() {
            if let Some(progress) = of.progress.as_ref().filter(|_| self.told.get(call) != Some(&of.told)) {
                self.told.insert(*call, of.told);
                found.push(progress.clone());
            }
        }
        found
    }
}

/// The place of a reader in a round.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    restarts: u64,
    piece: usize,
    offset: usize,
    told: u64,
}

/// Reads the answers of one run.
pub(crate) struct AnswerReader {
    answers: Arc<RunAnswers>,
    news: watch::Receiver<u64>,
    kinds: PieceKinds,
    places: BTreeMap<EffectId, Place>,
    /// `true` before the first look.
    is_new: bool,
}

impl AnswerReader {
    /// Waits for the next pieces: server-sent events without an ID, for `Last-Event-ID` counts the journal's. Dropping
    /// the future loses nothing.
    pub(crate) async fn next(&mut self) -> Bytes {
        loop {
            if !std::mem::take(&mut self.is_new) && self.news.changed().await.is_err() {
                return std::future::pending().await;
            }
            self.news.borrow_and_update();
            let text = self.read();
            if !text.is_empty() {
                return text.into();
            }
        }
    }

    /// The pieces since the last look.
    fn read(&mut self) -> String {
        let mut text = String::new();
        let mut tell = |round: EffectId, piece: AnswerPiece<'_>| {
            let data: Value = piece.to_value(round);
            // JSON text has no line breaks.
            let _ = write!(text, "event: piece\ndata: {}\n\n", data.to_json());
        };
        let rounds = self.answers.rounds();
        for (round, of) in rounds.iter() {
            let place = self.places.entry(*round).or_default();
            if place.restarts != of.restarts {
                *place = Place { restarts: of.restarts, ..Place::default() };
                tell(*round, AnswerPiece::Restarted);
            }
            if let Some(CallProgress { done, total, message }) = of.progress.as_ref().filter(|_| place.told != of.told)
            {
                place.told = of.told;
                tell(*round, AnswerPiece::Progress { done: *done, total: *total, message });
            }
            for (at, piece) in of.pieces.iter().enumerate().skip(place.piece) {
                let offset = if at == place.piece { place.offset } else { 0 };
                let is_told = offset > 0 && offset == piece.text().len();
                let is_wanted = self.kinds == PieceKinds::All || !matches!(piece, Piece::Reasoning(_));
                if !is_told && is_wanted {
                    tell(*round, piece.after(offset));
                }
                // Of a piece without text, that it was told.
                (place.piece, place.offset) = match piece.text().len() {
                    0 => (at + 1, 0),
                    _ if matches!(piece, Piece::CallBegan(..)) => (at + 1, 0),
                    bytes => (at, bytes),
                };
            }
        }
        self.places.retain(|round, _| {
            let is_open = rounds.contains_key(round);
            if !is_open {
                tell(*round, AnswerPiece::Ended);
            }
            is_open
        });
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    const ROUND: EffectId = EffectId(3);

    fn run() -> RunId {
        "run-1".into()
    }

    fn told(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
    }

    #[test]
    fn a_reader_that_comes_late_has_the_round_from_its_beginning_and_each_piece_once() {
        let answers = Answers::default();
        let sink = answers.of(&run());
        sink.piece(ROUND, AnswerPiece::Reasoning("hm"));
        sink.text(ROUND, "one ");
        sink.text(ROUND, "two");
        let mut reader = answers.reader(&run(), PieceKinds::Text).unwrap();
        let mut curious = answers.reader(&run(), PieceKinds::All).unwrap();
        assert_eq!(told(&reader.read()), [r#"{"text":"one two","effect":3}"#]);
        assert!(reader.read().is_empty());
        sink.text(ROUND, " three");
        sink.piece(ROUND, AnswerPiece::CallBegan { call: 0, tool: "read" });
        sink.piece(ROUND, AnswerPiece::CallArguments { call: 0, text: "{" });
        let expected = [
            r#"{"text":" three","effect":3}"#,
            r#"{"call":{"number":0,"tool":"read"},"effect":3}"#,
            r#"{"call":{"number":0,"arguments":"{"},"effect":3}"#,
        ];
        assert_eq!(told(&reader.read()), expected);
        sink.piece(ROUND, AnswerPiece::CallArguments { call: 0, text: "}" });
        sink.piece(ROUND, AnswerPiece::CallEnded { call: 0 });
        let expected =
            [r#"{"call":{"number":0,"arguments":"}"},"effect":3}"#, r#"{"call":{"number":0,"ended":true},"effect":3}"#];
        assert_eq!(told(&reader.read()), expected);
        assert!(reader.read().is_empty());
        sink.piece(ROUND, AnswerPiece::Ended);
        assert_eq!(told(&reader.read()), [r#"{"ended":true,"effect":3}"#]);
        assert!(reader.read().is_empty());
        assert!(curious.read().is_empty(), "a round that has ended is the event's");
    }

    #[test]
    fn reasoning_is_for_those_who_ask_and_a_restart_takes_everything_back() {
        let answers = Answers::default();
        let sink = answers.of(&run());
        let mut plain = answers.reader(&run(), PieceKinds::Text).unwrap();
        let mut curious = answers.reader(&run(), PieceKinds::All).unwrap();
        assert!(answers.reader(&run(), PieceKinds::None).is_none());
        sink.piece(ROUND, AnswerPiece::Reasoning("hm"));
        assert_eq!((plain.read(), told(&curious.read())), (String::new(), vec![r#"{"reasoning":"hm","effect":3}"#]));
        sink.piece(ROUND, AnswerPiece::Restarted);
        sink.text(ROUND, "so");
        let expected = [r#"{"restarted":true,"effect":3}"#, r#"{"text":"so","effect":3}"#];
        assert_eq!((told(&plain.read()), told(&curious.read())), (expected.to_vec(), expected.to_vec()));
    }

    #[test]
    fn of_a_call_the_newest_progress_is_told_once_and_its_end() {
        let answers = Answers::default();
        let sink = answers.of(&run());
        let mut reader = answers.reader(&run(), PieceKinds::Text).unwrap();
        let mut progress = answers.progress(&run());
        let of = |done: f64| AnswerPiece::Progress { done, total: Some(9.0), message: "copying" };
        (0..1_000).for_each(|_| sink.piece(ROUND, of(1.0)));
        sink.piece(ROUND, of(2.0));
        sink.text(EffectId(4), "hi");
        let expected =
            [r#"{"progress":{"done":2,"total":9,"message":"copying"},"effect":3}"#, r#"{"text":"hi","effect":4}"#];
        assert_eq!(told(&reader.read()), expected);
        let lines = |found: Vec<CallProgress>| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(lines(progress.read()), ["2 of 9: copying"]);
        assert!(reader.read().is_empty() && progress.read().is_empty());
        sink.piece(ROUND, of(3.0));
        assert_eq!(lines(progress.read()), ["3 of 9: copying"]);
        sink.piece(ROUND, AnswerPiece::Ended);
        assert_eq!(told(&reader.read()), [r#"{"ended":true,"effect":3}"#]);
        assert!(progress.read().is_empty() && progress.told.is_empty());
    }

    #[test]
    fn a_round_that_never_ends_keeps_a_bounded_part_and_a_run_a_bounded_number_of_rounds() {
        let answers = Answers::default();
        let sink = answers.of(&run());
        let mut reader = answers.reader(&run(), PieceKinds::All).unwrap();
        for _ in 0..4_096 {
            sink.piece(ROUND, AnswerPiece::Reasoning(&"é".repeat(500)));
            sink.piece(ROUND, AnswerPiece::CallEnded { call: 0 });
        }
        let kept = sink.rounds().get(&ROUND).unwrap().bytes;
        assert!((ROUND_BYTES..ROUND_BYTES + JOINED_BYTES).contains(&kept), "{kept}");
        assert!(reader.read().len() < 2 * ROUND_BYTES);
        (0..1_000).for_each(|round| sink.text(EffectId(round), "x"));
        assert_eq!(sink.rounds().len(), MAX_ROUNDS);
    }

    #[tokio::test]
    async fn a_reader_before_the_run_is_driven_hears_of_it_and_what_no_one_holds_is_forgotten() {
        let answers = Arc::new(Answers::default());
        let mut reader = answers.reader(&run(), PieceKinds::Text).unwrap();
        let later = answers.clone();
        let telling = async move { later.of(&run()).text(ROUND, "now") };
        let (heard, ()) = tokio::join!(reader.next(), telling);
        assert!(std::str::from_utf8(&heard).unwrap().contains("now"));
        drop(reader);
        (0..64).for_each(|run| drop(answers.of(&format!("run-{run}").as_str().into())));
        let runs = answers.runs.lock().unwrap();
        assert!(runs.len() <= runs.capacity() && runs.values().all(|run| run.upgrade().is_none()));
    }
}
