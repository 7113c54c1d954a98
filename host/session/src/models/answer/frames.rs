//! Bytes of a body become events: server-sent events, lines of JSON, or one whole document, told apart by how the body
//! begins. What the content type says is not asked: servers say one and send the other.

use super::MAX_ANSWER_BYTES;

/// Bytes of a body that are kept to be shown when it makes no sense.
const HEAD_BYTES: usize = 1024;

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// An event of a stream.
    Event {
        name: Option<String>,
        data: Vec<u8>,
        /// True if the body ended within it.
        is_last: bool,
    },
    /// The body, which is not a stream of events.
    Whole(Vec<u8>),
}

/// The body is larger than an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// Nothing but white space so far.
    #[default]
    Unknown,
    Events,
    Whole,
}

/// Splits a body.
#[derive(Debug, Default)]
pub(super) struct Frames {
    mode: Mode,
    total: usize,
    head: Vec<u8>,
    /// The bytes of the line that is being read, or of the whole body.
    line: Vec<u8>,
    after_return: bool,
    name: Option<String>,
    data: Vec<u8>,
    data_lines: usize,
    /// True if the event is JSON over several lines without a field name.
    is_raw: bool,
}

impl Frames {
    /// The first bytes of the body.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns `true` if the body is a stream of events.
    pub(super) fn is_stream(&self) -> bool {
        self.mode == Mode::Events
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLarge> {
        self.total = self.total.saturating_add(bytes.len());
        if self.total > MAX_ANSWER_BYTES {
            return Err(TooLarge);
        }
        let kept = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..kept).unwrap_or_default());
        if self.mode == Mode::Unknown {
            self.line.extend_from_slice(bytes);
            if !self.begin() {
                return Ok(());
            }
            if self.mode == Mode::Whole {
                return Ok(());
            }
            let begun = std::mem::take(&mut self.line);
            self.lines(&begun, frames);
            return Ok(());
        }
        if self.mode == Mode::Whole {
            self.line.extend_from_slice(bytes);
            bytes = &[];
        }
        self.lines(bytes, frames);
        Ok(())
    }

    /// Ends the body.
    pub(super) fn end(&mut self, frames: &mut Vec<Frame>) {
        match self.mode {
            Mode::Unknown => {}
            Mode::Whole => frames.push(Frame::Whole(std::mem::take(&mut self.line))),
            Mode::Events => {
                let line = std::mem::take(&mut self.line);
                if !line.is_empty() {
                    self.line(&line, frames);
                }
                self.dispatch(true, frames);
            }
        }
    }

    /// Looks at how the body begins; `false` while that is not known.
    fn begin(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if self.line.len() < MARK.len() && MARK.starts_with(&self.line) {
            return false;
        }
        if self.line.starts_with(MARK) {
            self.line.drain(..MARK.len());
        }
        let first = self.line.iter().position(|byte| !byte.is_ascii_whitespace());
        // What was looked at is not looked at again with the next piece.
        let blank = first.unwrap_or(self.line.len());
        if blank > HEAD_BYTES {
            self.line.drain(..blank);
        }
        let Some(first) = self.line.iter().find(|byte| !byte.is_ascii_whitespace()) else { return false };
        self.mode = if matches!(first, b'{' | b'[' | b'<' | b'"') { Mode::Whole } else { Mode::Events };
        true
    }

    fn lines(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) {
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(at);
            let (end, rest) = rest.split_at(1);
            bytes = rest;
            let is_rest_of_end = self.after_return && line.is_empty() && self.line.is_empty() && end == b"\n";
            self.after_return = end == b"\r";
            if is_rest_of_end {
                continue;
            }
            let mut whole = std::mem::take(&mut self.line);
            whole.extend_from_slice(line);
            self.line(&whole, frames);
        }
        if !bytes.is_empty() {
            self.after_return = false;
            self.line.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &[u8], frames: &mut Vec<Frame>) {
        if line.is_empty() {
            return self.dispatch(false, frames);
        }
        if self.is_raw {
            self.data.push(b'\n');
            self.data.extend_from_slice(line);
            return;
        }
        if matches!(line.first(), Some(b'{' | b'[')) {
            // JSON without a field name: an error that something between the provider and here wrote, mostly.
            self.dispatch(false, frames);
            self.data.extend_from_slice(line);
            self.data_lines = 1;
            match super::parse(line).is_ok() {
                true => self.dispatch(false, frames),
                false => self.is_raw = true,
            }
            return;
        }
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(at);
        let value = value.strip_prefix(b":").unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                // Some servers leave out the empty line between events.
                if self.data_lines == 1 && self.data.ends_with(b"}") && super::parse(&self.data).is_ok() {
                    self.dispatch(false, frames);
                }
                if self.data_lines > 0 {
                    self.data.push(b'\n');
                }
                self.data_lines += 1;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                if self.data_lines > 0 {
                    self.dispatch(false, frames);
                }
                self.name = Some(String::from_utf8_lossy(value).trim().to_owned()).filter(|name| !name.is_empty());
            }
            // A comment, `id`, `retry`, or an unknown field.
            _ => {}
        }
    }

    fn dispatch(&mut self, is_last: bool, frames: &mut Vec<Frame>) {
        let name = self.name.take();
        self.is_raw = false;
        if self.data_lines == 0 {
            return;
        }
        self.data_lines = 0;
        frames.push(Frame::Event { name, data: std::mem::take(&mut self.data), is_last });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The events of a body, given in pieces of a size.
    fn events(body: &[u8], piece: usize) -> Vec<(Option<String>, String)> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for bytes in body.chunks(piece) {
            frames.push(bytes, &mut found).unwrap();
        }
        frames.end(&mut found);
        let text = |frame| match frame {
            Frame::Event { name, data, .. } => (name, String::from_utf8(data).unwrap()),
            Frame::Whole(body) => (Some("whole".to_owned()), String::from_utf8(body).unwrap()),
        };
        found.into_iter().map(text).collect()
    }

    fn plain(data: &[&str]) -> Vec<(Option<String>, String)> {
        data.iter().map(|data| (None, (*data).to_owned())).collect()
    }

    #[test]
    fn a_stream_reads_alike_in_pieces_of_every_size_and_with_every_end_of_line() {
        let expected = plain(&["{\"a\": \"é\"}", "line one\nline two", "", "[DONE]"]);
        let body = "data: {\"a\": \"é\"}\n\n: keep-alive\n\nid: 7\nretry: 3\ndata:line one\ndata: line two\n\n\n\ndata:\n\ndata: [DONE]\n\n";
        for end in ["\n", "\r\n", "\r"] {
            let body = body.replace('\n', end);
            for marked in [body.clone(), format!("\u{feff}{body}")] {
                for piece in 1..=marked.len() {
                    assert_eq!(events(marked.as_bytes(), piece), expected, "{end:?} in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn events_without_an_empty_line_between_them_stay_apart() {
        let body = b"event: a\ndata: {\"n\":1}\nevent: b\ndata: {\"n\":2}\ndata: {\"n\":3}\ndata: [DONE]";
        let expected = [(Some("a"), "{\"n\":1}"), (Some("b"), "{\"n\":2}"), (None, "{\"n\":3}"), (None, "[DONE]")];
        let expected: Vec<_> =
            expected.iter().map(|(name, data)| (name.map(str::to_owned), (*data).to_owned())).collect();
        assert_eq!(events(body, 5), expected);
    }

    #[test]
    fn json_among_the_lines_of_a_stream_is_an_event() {
        let body = b"data: {\"n\":1}\n\n{\"error\":\"x\"}\ndata: {\"n\":2}\n\n{\n \"error\": {}\n}\n\n";
        let expected = plain(&["{\"n\":1}", "{\"error\":\"x\"}", "{\"n\":2}", "{\n \"error\": {}\n}"]);
        assert_eq!(events(body, 4), expected);
    }

    #[test]
    fn a_body_that_begins_as_json_is_whole() {
        for body in ["{\"a\": 1}", "\u{feff} \n[1]", "<html>"] {
            let found = events(body.as_bytes(), 2);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].0.as_deref(), Some("whole"));
        }
        assert!(events(b" \n ", 1).is_empty());
    }

    #[test]
    fn a_body_without_end_is_refused() {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        let piece = vec![b'x'; 1 << 20];
        let taken = (0..).take_while(|_| frames.push(&piece, &mut found).is_ok()).count();
        assert_eq!(taken, 16);
    }
}
