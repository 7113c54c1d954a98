//! The outline of a message that is too long to keep or is not JSON: the ID that it answers, and whether it ends.
//!
//! It is found byte by byte, in constant memory: brackets, quotes, and the keys of the outermost object.

/// Bytes of a key or an ID that are kept.
const TOKEN_BYTES: usize = 64;

/// The parts of a message that are known so far.
#[derive(Debug, Default)]
pub(super) struct Outline {
    depth: usize,
    /// The quote that a text began with. Python prints single ones.
    quote: Option<u8>,
    escaped: bool,
    /// The text or the bare word that is read at the depth of the message's keys.
    token: Vec<u8>,
    /// The key whose value comes.
    key: Option<Vec<u8>>,
    after_colon: bool,
    id: Option<String>,
    keys: Keys,
    /// `true` if the outermost value has ended.
    ended: bool,
    /// `true` if something follows the outermost value.
    trailing: bool,
    /// `true` if the outermost value is a list: the keys of its objects are those of messages.
    is_list: bool,
}

/// Keys of a message that were seen.
#[derive(Debug, Default)]
struct Keys {
    version: bool,
    method: bool,
    answer: bool,
}

impl Outline {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut outline = Self::default();
        outline.feed(text);
        outline
    }

    /// The ID, as JSON.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// `true` if it has a method, and so answers nothing.
    pub(super) fn is_request(&self) -> bool {
        self.keys.method
    }

    /// `true` if it has a key of an answer, or names the protocol.
    pub(super) fn is_message(&self) -> bool {
        self.keys.version || self.keys.answer
    }

    /// `true` if it names the protocol.
    #[cfg(feature = "http")]
    pub(super) fn is_version_named(&self) -> bool {
        self.keys.version
    }

    /// `true` if a value has begun and not ended, and could end in the next line.
    pub(super) fn is_open(&self) -> bool {
        self.depth > 0 && self.quote.is_none() && !self.trailing
    }

    /// `true` if the outermost value is a list.
    pub(super) fn is_list(&self) -> bool {
        self.is_list
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    fn at_keys(&self) -> bool {
        self.depth == if self.is_list { 2 } else { 1 }
    }

    fn step(&mut self, byte: u8) {
        if let Some(quote) = self.quote {
            if self.escaped {
                self.escaped = false;
            } else if byte == b'\\' {
                self.escaped = true;
                return;
            } else if byte == quote {
                self.quote = None;
                self.text_ended();
                return;
            }
            self.keep(byte);
            return;
        }
        match byte {
            b'"' | b'\'' => {
                self.quote = Some(byte);
                self.token.clear();
            }
            b'{' | b'[' => {
                self.trailing |= self.ended;
                if self.depth == 0 && !self.ended {
                    self.is_list = byte == b'[';
                }
                self.value_ended();
                self.depth += 1;
            }
            b'}' | b']' => {
                self.value_ended();
                self.depth = self.depth.saturating_sub(1);
                self.ended |= self.depth == 0;
            }
            b':' if self.at_keys() => {
                self.after_colon = self.key.is_some();
                self.token.clear();
            }
            b',' => self.value_ended(),
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                self.trailing |= self.ended;
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.at_keys() && self.token.len() < TOKEN_BYTES {
            self.token.push(byte);
        }
    }

    /// A text has ended: a key, or the ID.
    fn text_ended(&mut self) {
        if !self.at_keys() {
            return;
        }
        let text = std::mem::take(&mut self.token);
        if !self.after_colon {
            match text.as_slice() {
                b"jsonrpc" => self.keys.version = true,
                b"method" => self.keys.method = true,
                b"result" | b"error" => self.keys.answer = true,
                _ => {}
            }
            self.key = Some(text);
        } else if self.key.as_deref() == Some(b"id") {
            self.id = serde_json::to_string(&String::from_utf8_lossy(&text)).ok();
        }
    }

    /// A value of the message has ended; a number was a bare word until here.
    fn value_ended(&mut self) {
        if !self.at_keys() {
            return;
        }
        if self.after_colon && self.key.as_deref() == Some(b"id") && !self.token.is_empty() {
            self.id = String::from_utf8(std::mem::take(&mut self.token)).ok();
        }
        self.token.clear();
        self.key = None;
        self.after_colon = false;
    }
}

/// Returns `true` if an error says anything. Beside a result, `null`, `false`, nothing and the zero values of a structure
/// are no error.
pub(super) fn says(error: &serde_json::Value) -> bool {
    let is_zero = |value: &serde_json::Value| match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => true,
        serde_json::Value::Number(number) => number.as_f64() == Some(0.0),
        serde_json::Value::String(text) => text.trim().is_empty(),
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(entries) => entries.is_empty(),
        serde_json::Value::Bool(true) => false,
    };
    match error {
        serde_json::Value::Object(entries) => !entries.values().all(is_zero),
        other => !is_zero(other),
    }
}

#[cfg(test)]
mod tests {
    use super::Outline;

    #[test]
    fn the_id_of_an_answer_is_found_wherever_it_is() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":12,"result":{"x":NaN}}"#, Some("12")),
            (r#"{"result":{"id":9,"a":["id",{"id":8}]},"id": "a\"b" }"#, Some("\"a\\\"b\"")),
            (r#"[{"id":3,"result":Infinity}]"#, Some("3")),
            (r"{'jsonrpc': '2.0', 'id': 7, 'result': {}}", Some("7")),
            (r#"{"result":"\"id\":4,"#, None),
            ("[INFO] id: 7", None),
            (r#"{"id":5"#, None),
        ] {
            assert_eq!(Outline::of(text.as_bytes()).id(), id, "{text}");
        }
    }

    #[test]
    fn what_has_not_ended_may_end_in_the_next_line() {
        for (text, open) in [("{", true), ("[\n {", true), ("{}", false), ("{\"a", false), ("[INFO] {", false)] {
            assert_eq!(Outline::of(text.as_bytes()).is_open(), open, "{text}");
        }
        assert!(Outline::of(br#"{"method":"m","params":"#).is_request());
        assert!(Outline::of(br#"{"result":{"#).is_message() && !Outline::of(br#"{"a":{"result""#).is_message());
    }
}
