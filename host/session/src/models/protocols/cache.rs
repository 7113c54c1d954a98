//! The parts of a request that later requests repeat, for providers that keep what they have read.
//!
//! Rounds of a session differ in their last messages alone: its prompt and its tools are journaled when it opens, and
//! are sent in that order. Sessions of other steps and other days share the tools and the first sections of the prompt.

use super::request::set;
use crate::prompt::Component;
use opcell_engine::ports::OpenedSession;
use opcell_types::Value;
use reqwest::Url;
use serde_json::{Value as Json, json};

/// The text between two sections of a system prompt.
const BETWEEN_SECTIONS: usize = "\n\n".len();

/// The hosts that take `prompt_cache_key`; other servers of the protocol refuse parameters that they do not know.
const TAKES_KEY: [&str; 2] = ["api.openai.com", ".openai.azure.com"];

/// Returns the length of the sections at the beginning of a system prompt that other sessions have as well, in bytes; 0
/// if there is none.
pub(super) fn stable_bytes(session: &OpenedSession) -> usize {
    let sections = session.sections.get("sections").and_then(Value::as_array);
    let is_stable = |section: &&Value| {
        let name = section.get("component").and_then(Value::as_str);
        name.and_then(Component::parse).is_some_and(Component::is_stable)
    };
    let bytes = |section: &Value| section.get("text").and_then(Value::as_str).map_or(0, str::len);
    let stable = sections.into_iter().flatten().take_while(is_stable).map(|section| bytes(section) + BETWEEN_SECTIONS);
    let end = stable.sum::<usize>().saturating_sub(BETWEEN_SECTIONS);
    if session.system.is_char_boundary(end) { end } else { 0 }
}

/// Returns a `prompt_cache_key`: the same for all requests that begin alike, which the provider then sends to the same
/// machines.
pub(super) fn openai_key(base_url: &Url, session: &OpenedSession) -> Option<String> {
    let host = base_url.host_str()?;
    let takes = |known: &str| host == known || known.starts_with('.') && host.ends_with(known);
    TAKES_KEY.iter().any(|known| takes(known)).then_some(())?;
    let mut hasher = blake3::Hasher::new();
    for tool in &session.tools {
        hasher.update(tool.name.as_bytes()).update(b"\0").update(tool.parameters.to_json().as_bytes()).update(b"\0");
    }
    hasher.update(session.system.get(..stable_bytes(session)).unwrap_or_default().as_bytes());
    let digest = hasher.finalize().to_hex();
    Some(format!("opcell-{}", digest.get(..32).unwrap_or(digest.as_str())))
}

/// Sets breakpoints of Anthropic, at most the four that it takes: after the tools, after the stable part of the prompt,
/// and after the last message if another round is likely. The fourth is where the last round had its last one, because
/// only a breakpoint at the same place finds what was kept however much was added since; before there was a round, it is
/// at the end of the prompt, which sessions of the same step share.
pub(super) fn set_breakpoints(tools: &mut [Json], system: &mut [Json], messages: &mut [Json]) {
    let has_tools = !tools.is_empty();
    tools.last_mut().into_iter().for_each(mark);
    system.first_mut().into_iter().for_each(mark);
    let answered = messages.iter().rposition(|message| message["role"] == "assistant");
    match answered {
        Some(at) => at.checked_sub(1).and_then(|before| messages.get_mut(before)).into_iter().for_each(mark_message),
        None => system.last_mut().into_iter().for_each(mark),
    }
    if has_tools || answered.is_some() {
        messages.last_mut().into_iter().for_each(mark_message);
    }
}

fn mark(block: &mut Json) {
    set(block, "cache_control", json!({"type": "ephemeral"}));
}

/// Marks the end of what the user or tools said. An empty text cannot be marked.
fn mark_message(message: &mut Json) {
    if message["role"] != "user" {
        return;
    }
    let last = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut());
    if let Some(last) = last.filter(|last| last["text"].as_str().is_none_or(|text| !text.is_empty())) {
        mark(last);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use opcell_types::ToolDescription;

    fn session(prompt: &[(&str, &str)]) -> OpenedSession {
        let sections: Vec<Json> = prompt.iter().map(|(name, text)| json!({"component": name, "text": text})).collect();
        let texts: Vec<&str> = prompt.iter().map(|(_, text)| *text).collect();
        OpenedSession {
            sections: Value::from(json!({ "sections": sections })),
            ..crate::testing::session(&texts.join("\n\n"))
        }
    }

    #[test]
    fn the_stable_part_of_a_prompt_ends_before_the_facts_of_its_session_and_the_text_of_its_workflow() {
        let stable = |prompt: &[(&str, &str)]| {
            let session = session(prompt);
            session.system.get(..stable_bytes(&session)).unwrap().to_owned()
        };
        assert_eq!(stable(&[("preamble", "é"), ("tools", "t"), ("runtime-metadata", "r")]), "é\n\nt");
        assert_eq!(stable(&[("preamble", "p"), ("instructions", "i")]), "p");
        assert_eq!(stable(&[("preamble", "p"), ("tools", "t")]), "p\n\nt");
        assert_eq!(stable(&[("replacement", "r")]), "");
        assert_eq!(stable(&[]), "");
    }

    #[test]
    fn only_openai_itself_gets_a_cache_key_which_is_the_same_for_requests_that_begin_alike() {
        let key = |url: &str, session: &OpenedSession| openai_key(&Url::parse(url).unwrap(), session);
        let openai = "https://api.openai.com/v1/";
        let one = session(&[("preamble", "p"), ("instructions", "one")]);
        let two = session(&[("preamble", "p"), ("instructions", "two")]);
        let other = session(&[("preamble", "q"), ("instructions", "one")]);
        let found = key(openai, &one).unwrap();
        assert!(found.len() <= 64 && found.starts_with("opcell-"), "{found}");
        assert_eq!(key(openai, &two).unwrap(), found);
        assert_ne!(key(openai, &other).unwrap(), found);
        let tool = ToolDescription::new("t", "", json!({"type": "object"}));
        assert_ne!(key(openai, &OpenedSession { tools: vec![tool], ..one.clone() }).unwrap(), found);
        assert!(key("https://house.openai.azure.com/openai/v1/", &one).is_some());
        for other in ["http://localhost:8000/v1/", "https://api.openai.com.example/v1/", "https://xapi.openai.com/v1/"]
        {
            assert_eq!(key(other, &one), None, "{other}");
        }
    }
}
