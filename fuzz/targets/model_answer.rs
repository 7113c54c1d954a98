//! What a provider answers: its first byte says which protocol, the rest is the body, whole or as a stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_session::models::{Api, fuzzing};
use opcell_types::Value;

const APIS: [Api; 4] = [Api::OpenaiCompletions, Api::OpenaiResponses, Api::AnthropicMessages, Api::Gemini];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else { return };
    let api = APIS[usize::from(*first) % APIS.len()];
    let whole = fuzzing::answer(api, body, usize::MAX);
    for piece in [1, 7] {
        assert_eq!(fuzzing::answer(api, body, piece), whole, "read otherwise in pieces of {piece}");
    }
    let Ok(read) = whole else { return };
    assert!(!read.text.trim().is_empty() || !read.calls.is_empty(), "an answer without anything in it");
    assert!(read.text.len() <= body.len() * 3 && read.calls.len() <= 1024, "more than was sent");
    for (_, arguments) in &read.calls {
        assert!(!matches!(arguments, Value::Null | Value::Undefined), "arguments that are absent are an object");
        assert!(arguments.to_json().len() <= body.len() * 6 + 2, "more than was sent");
    }
});
