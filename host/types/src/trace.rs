//! W3C trace context: whose trace a run is a part of, and what it tells those that its tools and its models ask.
//!
//! IDs follow from what they name, so that a trace which is exported twice, or a week later, is the same one, and what
//! another program recorded below a request finds its place in it. A run says something to others only if whoever
//! started it did: without a `traceparent`, no request carries one.

use crate::CallContext;
use std::fmt::Write as _;

/// The header, and the key of a message of MCP.
pub const TRACEPARENT: &str = "traceparent";

/// A `traceparent` of version 00.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// ID of the trace, 32 hexadecimal digits.
    pub trace: String,
    /// ID of the span that is the parent, 16 hexadecimal digits.
    pub parent: String,
    /// The flags, two hexadecimal digits.
    pub flags: String,
}

impl TraceContext {
    /// Reads a `traceparent`; `None` if it is not a sound one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_named = |text: &str| text.bytes().any(|b| b != b'0');
        let is_sound = version == "00"
            && parts.next().is_none()
            && hex(trace, 32)
            && hex(parent, 16)
            && hex(flags, 2)
            && is_named(trace)
            && is_named(parent);
        is_sound.then(|| Self { trace: trace.to_owned(), parent: parent.to_owned(), flags: flags.to_owned() })
    }
}

/// The trace of a run that is a part of no other.
#[must_use]
pub fn trace_id(run: &str) -> String {
    id("trace", run, 16)
}

/// The span of something in a run that `name` names: unique in all runs.
#[must_use]
pub fn span_id(name: &str) -> String {
    id("span", name, 8)
}

/// The name of an attempt at a call: its idempotency key, which retries share, and their number.
#[must_use]
pub fn call_name(idempotency_key: &str, attempt: u32) -> String {
    format!("{idempotency_key}#{attempt}")
}

/// The `traceparent` of a request that a call sends, if its run is a part of someone's trace.
#[must_use]
pub fn outgoing(context: &CallContext) -> Option<String> {
    let TraceContext { trace, flags, .. } = TraceContext::parse(context.traceparent.as_deref()?)?;
    Some(format!("00-{trace}-{}-{flags}", span_id(&call_name(&context.idempotency_key, context.attempt))))
}

fn id(kind: &str, name: &str, bytes: usize) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("opcell trace context v1");
    hasher.update(kind.as_bytes()).update(&[0]).update(name.as_bytes());
    let mut text = String::with_capacity(2 * bytes);
    for byte in hasher.finalize().as_bytes().iter().take(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_a_sound_traceparent_counts() {
        assert_eq!(TraceContext::parse(GOOD).unwrap().parent, "00f067aa0ba902b7");
        for bad in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-\r\n",
        ] {
            assert!(TraceContext::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_a_child_of_its_call_and_only_in_a_trace_of_someone() {
        let mut context = CallContext { idempotency_key: "run/7".into(), ..CallContext::default() };
        assert_eq!(outgoing(&context), None);
        context.traceparent = Some(GOOD.into());
        let sent = TraceContext::parse(&outgoing(&context).unwrap()).unwrap();
        assert_eq!((sent.trace.as_str(), sent.flags.as_str()), ("4bf92f3577b34da6a3ce929d0e0e4736", "01"));
        assert_eq!(sent.parent, span_id(&call_name("run/7", 1)));
        context.attempt = 2;
        assert_ne!(TraceContext::parse(&outgoing(&context).unwrap()).unwrap().parent, sent.parent);
    }
}
