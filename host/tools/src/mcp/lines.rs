//! The transport to a server that is a process: a message per line, as a rule.
//!
//! Servers also print a message over several lines, or something else between messages, and end lines in CR alone. A
//! line that is too long, or is no JSON, ends the request that it was to answer; what answers nothing is kept for the
//! message of a time-out.

use super::{
    jsonish::Outline,
    repair::{UTF16, is_utf16},
    wire::{Answer, Wire},
};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use std::{collections::VecDeque, io, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::Mutex,
};

/// Lengths of a message after which a line fails every request, where it is not known which one it answers.
const OVERLONG_FACTOR: usize = 4;

/// Messages are read from one stream and written to another.
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    write: Arc<Mutex<Option<W>>>,
    wire: Arc<Wire>,
    /// The longest message.
    most: usize,
    /// The line that is read. Kept here because reading is given up and resumed at any byte.
    line: Vec<u8>,
    overlong: Option<Overlong>,
    /// The lines of a message that has not ended.
    open: Option<(Vec<u8>, Outline)>,
    messages: VecDeque<ServerJsonRpcMessage>,
}

/// A line that is longer than a message.
struct Overlong {
    outline: Outline,
    length: usize,
    /// `true` if the request that it answers was ended.
    told: bool,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W, most: usize, wire: Arc<Wire>) -> Self {
        Self {
            read: BufReader::new(read),
            write: Arc::new(Mutex::new(Some(write))),
            wire,
            most,
            line: Vec::new(),
            overlong: None,
            open: None,
            messages: VecDeque::new(),
        }
    }

    /// Takes in what there is. `false` at the end of the stream.
    async fn advance(&mut self) -> bool {
        let available = match self.read.fill_buf().await {
            Ok(available) if !available.is_empty() => available,
            Ok(_) => return false,
            Err(error) => {
                self.wire.end(&format!("reading from it failed: {error}"));
                return false;
            }
        };
        // The LF after a CR ends an empty line.
        let end = available.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (piece, taken) = match end {
            Some(end) => (available.get(..end).unwrap_or_default(), end + 1),
            None => (available, available.len()),
        };
        match &mut self.overlong {
            Some(overlong) => {
                overlong.outline.feed(piece);
                overlong.length += piece.len();
            }
            None if self.line.len() + piece.len() > self.most => {
                let mut outline = Outline::of(&self.line);
                outline.feed(piece);
                self.overlong = Some(Overlong { outline, length: self.line.len() + piece.len(), told: false });
            }
            None => self.line.extend_from_slice(piece),
        }
        self.read.consume(taken);
        if self.overlong.is_some() {
            self.overlong_grew(end.is_some());
        } else if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.line_ended(line);
        }
        true
    }

    /// Ends the request that an overlong line answers, as soon as it is known which.
    fn overlong_grew(&mut self, ended: bool) {
        let Some(mut overlong) = self.overlong.take() else { return };
        let begins_as_one = self.line.trim_ascii_start().first() == Some(&b'{');
        if !overlong.told {
            let known = overlong.outline.id().is_some() || self.wire.only_waiting().is_some();
            let told = match self.wire.addressee_of(&overlong.outline) {
                Some(id) if known => vec![id],
                _ if begins_as_one && !overlong.outline.is_request() => {
                    let hopeless = overlong.length / OVERLONG_FACTOR > self.most;
                    match self.wire.only_waiting() {
                        Some(id) => vec![id],
                        None if ended || hopeless => self.wire.all_waiting(),
                        None => Vec::new(),
                    }
                }
                _ => Vec::new(),
            };
            let why = format!("its answer has more than {} bytes", self.most);
            for id in told {
                overlong.told = true;
                self.messages.extend(self.wire.answer(&id, Answer::Unreadable(why.clone())));
            }
        }
        if ended {
            if !overlong.told {
                self.wire.not_understood(&self.line);
            }
            self.line = Vec::new();
        } else {
            self.overlong = Some(overlong);
        }
    }

    fn line_ended(&mut self, line: Vec<u8>) {
        if line.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace()) {
            return;
        }
        let Some((mut text, mut outline)) = self.open.take() else {
            return self.text_ended(line);
        };
        // A message by itself: what came before it was none, or is the beginning of a list of such lines.
        let alone = line.trim_ascii_end().strip_suffix(b",").filter(|_| outline.is_list()).unwrap_or(&line);
        let starts = alone.trim_ascii_start().first() == Some(&b'{');
        if starts && Outline::of(alone).is_message() && opcell_schema::json::is_json(alone) {
            if outline.is_list() {
                self.open = Some((text, outline));
            } else {
                self.wire.not_understood(&text);
            }
            let alone = alone.to_vec();
            return self.text_ended(alone);
        }
        text.push(b'\n');
        text.extend_from_slice(&line);
        outline.feed(b"\n");
        outline.feed(&line);
        if text.len() > self.most {
            let why = format!("its answer has more than {} bytes", self.most);
            self.unreadable(&text, &outline, why);
        } else if outline.is_open() {
            self.open = Some((text, outline));
        } else {
            self.text_ended(text);
        }
    }

    /// Reads a text that may be a message, or that ends in one of the next lines.
    fn text_ended(&mut self, text: Vec<u8>) {
        if is_utf16(&text) {
            // Nothing that it sends can be read, whatever it answers.
            let why = format!("its answer cannot be read: {UTF16}");
            let waiting = self.wire.all_waiting();
            self.messages.extend(waiting.iter().filter_map(|id| self.wire.answer(id, Answer::Unreadable(why.clone()))));
            return;
        }
        match self.wire.read(&text, None) {
            Ok(messages) => self.messages.extend(messages),
            Err(why) => {
                let outline = Outline::of(&text);
                let first = text.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(&text).trim_ascii_start().first();
                if outline.is_open() && matches!(first, Some(b'{' | b'[')) {
                    self.open = Some((text, outline));
                } else if let Some(messages) = self.wire.read_within(&text, None) {
                    self.messages.extend(messages);
                } else {
                    self.unreadable(&text, &outline, format!("its answer cannot be read: {why}"));
                }
            }
        }
    }

    fn unreadable(&mut self, text: &[u8], outline: &Outline, why: String) {
        match self.wire.addressee_of(outline) {
            Some(id) => self.messages.extend(self.wire.answer(&id, Answer::Unreadable(why))),
            None => self.wire.not_understood(text),
        }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.wire.sent(&message);
        let (write, wire) = (self.write.clone(), self.wire.clone());
        async move {
            let id = request_id(&message);
            let sent = write_line(&write, &message).await;
            if let (Some(id), Err(_)) = (id, &sent) {
                // The library ends the request by itself.
                wire.not_sent(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            if !self.advance().await {
                if let Some((text, _)) = self.open.take() {
                    self.wire.not_understood(&text);
                }
                if !self.line.trim_ascii().is_empty() && self.overlong.is_none() {
                    // A line that was cut is not an answer: the end of the process says why it did not finish.
                    let line = std::mem::take(&mut self.line);
                    match self.wire.read(&line, None).ok().or_else(|| self.wire.read_within(&line, None)) {
                        Some(messages) => self.messages.extend(messages),
                        None => self.wire.not_understood(&line),
                    }
                    if let Some(message) = self.messages.pop_front() {
                        return Some(message);
                    }
                }
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

async fn write_line<W: AsyncWrite + Unpin>(
    write: &Mutex<Option<W>>,
    message: &ClientJsonRpcMessage,
) -> Result<(), io::Error> {
    let mut text = serde_json::to_vec(message).map_err(io::Error::other)?;
    text.push(b'\n');
    let mut write = write.lock().await;
    let Some(write) = write.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
    write.write_all(&text).await?;
    write.flush().await
}
