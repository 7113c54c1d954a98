//! Reads the body of an answer while it comes.

use super::charset::foreign_text;
use super::frames::{Frame, Frames};
use super::json::{self, NotJson};
use super::{Answer, Close, Event, Fault, Protocol, words_of};
use opcell_engine::ports::AnswerPiece;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Reads one answer: bytes in pieces of any size, then the end.
pub(in super::super) struct AnswerReader<'a> {
    frames: Frames,
    protocol: Box<dyn Protocol>,
    show: Box<dyn FnMut(AnswerPiece<'_>) + Send + 'a>,
    /// The text that was shown.
    shown: String,
    /// Calls that were shown to begin and not to end.
    open: BTreeSet<u32>,
    /// True once the stream's own end mark came.
    is_done: bool,
    /// True if the body is one document that is an answer, and no piece of one.
    is_document: bool,
    /// An event that ends in the middle of a character, until the next one.
    held: Option<(Option<String>, Vec<u8>)>,
    events: u64,
}

impl<'a> AnswerReader<'a> {
    /// A reader that shows the answer while it comes.
    pub(in super::super) fn new(protocol: Box<dyn Protocol>, show: impl FnMut(AnswerPiece<'_>) + Send + 'a) -> Self {
        Self {
            frames: Frames::default(),
            protocol,
            show: Box::new(show),
            shown: String::new(),
            open: BTreeSet::new(),
            is_done: false,
            is_document: false,
            held: None,
            events: 0,
        }
    }

    /// Takes the next bytes.
    pub(in super::super) fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut frames = Vec::new();
        self.frames.push(bytes, &mut frames).map_err(|_| Fault::too_large())?;
        if is_amazon_event(self.frames.head()) {
            return Err(Fault::foreign_stream());
        }
        // UTF-16 and UTF-32 are told apart by four bytes.
        if self.frames.head().len() >= 4 {
            self.check_charset()?;
        }
        frames.into_iter().try_for_each(|frame| self.frame(frame))
    }

    fn check_charset(&self) -> Result<(), Fault> {
        foreign_text(self.frames.head()).map_or(Ok(()), |charset| Err(Fault::foreign_text(charset)))
    }

    /// Returns `true` once nothing more is expected.
    pub(in super::super) fn is_over(&self) -> bool {
        self.is_done || self.protocol.is_over()
    }

    /// The answer, when the body has ended.
    pub(in super::super) fn end(mut self) -> Result<Answer, Fault> {
        self.check_charset()?;
        let mut frames = Vec::new();
        self.frames.end(&mut frames);
        for frame in frames {
            self.frame(frame)?;
        }
        self.release(&mut Vec::new())?;
        if self.events == 0 {
            return Err(self.senseless());
        }
        let is_complete = self.is_over() || self.is_document;
        let close = if is_complete { Close::Complete } else { Close::Unmarked };
        let answer = self.protocol.end(close)?.ok_or_else(Fault::cut)?;
        // What came only with the last event, or in no event of its own.
        let rest = answer.text.strip_prefix(self.shown.as_str()).filter(|_| self.frames.is_stream());
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            (self.show)(AnswerPiece::Text(rest));
        }
        for call in self.open {
            (self.show)(AnswerPiece::CallEnded { call });
        }
        Ok(answer)
    }

    fn frame(&mut self, frame: Frame) -> Result<(), Fault> {
        if self.is_over() {
            // Whatever follows the last event may be there or not, by how the bytes came.
            return Ok(());
        }
        match frame {
            Frame::Event { name, data, is_last } => self.event(name, data, is_last),
            Frame::Whole(body) => match json::parse_all(&body) {
                Ok(mut documents) if documents.len() == 1 => match documents.pop() {
                    // A gateway that writes the text of a document as JSON once more.
                    Some(Json::String(inner)) if inner.trim_start().starts_with('{') => {
                        self.frame(Frame::Whole(inner.into_bytes()))
                    }
                    Some(Json::String(_)) => Err(self.senseless()),
                    // Gemini's stream without server-sent events is one list.
                    Some(Json::Array(events)) => events.into_iter().try_for_each(|event| self.take(None, event, false)),
                    Some(document) => {
                        self.is_document = !is_piece(&document);
                        self.take(None, document, self.is_document)
                    }
                    None => Ok(()),
                },
                Ok(documents) => documents.into_iter().try_for_each(|document| self.take(None, document, false)),
                Err(NotJson::Cut) => Err(Fault::cut()),
                Err(NotJson::Broken(_)) if body.trim_ascii_start().starts_with(b"<") => Err(self.senseless()),
                Err(NotJson::Broken(why)) => Err(Fault::malformed(why)),
            },
        }
    }

    /// Takes an event of a stream, or keeps it for the next one.
    fn event(&mut self, name: Option<String>, mut data: Vec<u8>, is_last: bool) -> Result<(), Fault> {
        if !data.trim_ascii().is_empty() {
            self.release(&mut data)?;
        }
        if !is_last && json::ends_in_half(&data) {
            self.held = Some((name, data));
            return Ok(());
        }
        self.take_event(name.as_deref(), &data, is_last)
    }

    /// Takes the event that was kept, with the next one.
    fn release(&mut self, next: &mut Vec<u8>) -> Result<(), Fault> {
        let Some((name, mut data)) = self.held.take() else { return Ok(()) };
        json::join(&mut data, next);
        self.take_event(name.as_deref(), &data, false)
    }

    fn take_event(&mut self, name: Option<&str>, data: &[u8], is_last: bool) -> Result<(), Fault> {
        let mut data = data.trim_ascii();
        // A gateway that frames the frames of another.
        while let Some(inner) = data.strip_prefix(b"data:") {
            data = inner.trim_ascii_start();
        }
        let unquoted = data.strip_prefix(b"\"").and_then(|data| data.strip_suffix(b"\"")).unwrap_or(data);
        if unquoted.eq_ignore_ascii_case(b"[DONE]") {
            self.is_done = self.protocol.ends_at_mark();
            self.events += 1;
            return Ok(());
        }
        if !matches!(data.first(), Some(b'{' | b'[')) {
            // A sign of life; or the words of an error.
            if name == Some("error") && !data.is_empty() {
                let words = Json::String(String::from_utf8_lossy(data).into_owned());
                return self.take(name, serde_json::json!({"error": words}), false);
            }
            return Ok(());
        }
        match json::parse_all(data) {
            Ok(documents) => documents.into_iter().try_for_each(|document| match document {
                Json::Array(events) => events.into_iter().try_for_each(|event| self.take(name, event, false)),
                event => self.take(name, event, false),
            }),
            Err(NotJson::Cut) if is_last => Ok(()),
            Err(NotJson::Cut) => Err(Fault::malformed("an event of its stream ends too early")),
            Err(NotJson::Broken(why)) => Err(Fault::malformed(format!("an event of its stream is not JSON: {why}"))),
        }
    }

    fn take(&mut self, name: Option<&str>, data: Json, whole: bool) -> Result<(), Fault> {
        self.events += 1;
        if !self.frames.is_stream() {
            return self.protocol.event(Event { name, data, whole }, &mut |_| {});
        }
        let (show, shown, open) = (&mut self.show, &mut self.shown, &mut self.open);
        let mut piece = |piece: AnswerPiece<'_>| {
            match piece {
                AnswerPiece::Text("") | AnswerPiece::Reasoning("") => return,
                // The end of a call is told once.
                AnswerPiece::CallEnded { call } if !open.remove(&call) => return,
                AnswerPiece::Text(text) => shown.push_str(text),
                AnswerPiece::CallBegan { call, .. } => drop(open.insert(call)),
                _ => {}
            }
            show(piece);
        };
        self.protocol.event(Event { name, data, whole }, &mut piece)
    }

    /// The fault of a body without a single event.
    fn senseless(&self) -> Fault {
        let head = String::from_utf8_lossy(self.frames.head());
        match head.trim_start_matches('\u{feff}').trim() {
            "" => Fault::unavailable("its answer is empty"),
            text => {
                let words = serde_json::from_str(text).ok().as_ref().and_then(words_of);
                Fault::malformed(format!("neither JSON nor a stream of events: {}", words.unwrap_or(text.to_owned())))
            }
        }
    }
}

/// Returns `true` if a document is an event of a stream: one that is sent alone is not the whole answer.
fn is_piece(document: &Json) -> bool {
    const KINDS: [&str; 3] = ["content_block_", "message_", "response."];
    let kind = document["type"].as_str().unwrap_or_default();
    document["object"] == "chat.completion.chunk"
        || document["done"] == false
        || KINDS.iter().any(|begin| kind.starts_with(begin))
}

/// Returns `true` if bytes begin as a message of Amazon's event streams: the lengths of the message and of its headers,
/// a sum of both, then the first header with its name's length before it.
fn is_amazon_event(head: &[u8]) -> bool {
    const HEADERS: [&[u8]; 4] = [b":message-type", b":event-type", b":content-type", b":exception-type"];
    let Some((lengths, rest)) = head.split_at_checked(12) else { return false };
    let is_short = lengths.first() == Some(&0) && lengths.get(4) == Some(&0);
    is_short && rest.get(1..).is_some_and(|name| HEADERS.iter().any(|header| name.starts_with(header)))
}
