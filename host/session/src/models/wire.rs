//! Between the engine's conversations and providers: names of tools, and answers as messages.

use super::answer::{Answer, Tokens};
use super::config::ModelConfig;
use super::script::round_number;
use indexmap::IndexMap;
use opcell_engine::conversation::{Message, ToolCallRequest, Usage};
use opcell_engine::ports::ModelRound;
use opcell_types::Value;
use opcell_types::text::one_line;
use std::collections::HashSet;

/// Providers accept at most this many characters in a tool's name.
const TOOL_NAME_LIMIT: usize = 64;

/// The most bytes of a name that a model made up: each further round sends it back to the model.
const MADE_UP_LIMIT: usize = 128;

/// The most bytes of a call's id. Gateways keep the signatures of thoughts in it, and want it back as it is.
const ID_LIMIT: usize = 16 << 10;

/// Names of tools and schemas as every provider accepts them: letters, digits, `_` and `-`. A plugin's
/// `github/find-issue` is called `github_find-issue` on the wire, and told apart by a number where two names become the
/// same.
pub(super) struct WireNames {
    wire_to_ours: IndexMap<String, String>,
}

impl WireNames {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut wire_to_ours = IndexMap::new();
        for name in names {
            let plain = plain(name);
            let mut wire = plain.clone();
            let mut number = 2;
            while wire_to_ours.contains_key(&wire) {
                let end = format!("_{number}");
                wire = plain.chars().take(TOOL_NAME_LIMIT - end.len()).chain(end.chars()).collect();
                number += 1;
            }
            wire_to_ours.insert(wire, name.to_owned());
        }
        Self { wire_to_ours }
    }

    /// The names on the wire.
    pub(super) fn known(&self) -> HashSet<String> {
        self.wire_to_ours.keys().cloned().collect()
    }

    pub(super) fn to_wire(&self, name: &str) -> String {
        self.wire_to_ours.iter().find(|(_, ours)| *ours == name).map_or_else(|| plain(name), |(wire, _)| wire.clone())
    }

    /// The tool that a model calls. A name that no tool has stays what it is, within a bound.
    pub(super) fn to_ours(&self, wire: &str) -> String {
        let wire = wire.trim();
        // Models write the namespace that some servers show them, and marks of their own format.
        let plain = wire.split_once("<|").map_or(wire, |(plain, _)| plain).trim();
        let inner = ["functions.", "default_api.", "default_api:"].iter().find_map(|space| plain.strip_prefix(space));
        // Kimi's ids of calls, which some servers show it as names: `functions.NAME:0`.
        let counted = inner.unwrap_or(plain).rsplit_once(':').filter(|(_, at)| at.parse::<u32>().is_ok());
        let names = [Some(wire), Some(plain), inner, counted.map(|(name, _)| name)];
        let known = names.into_iter().flatten().find_map(|name| self.wire_to_ours.get(name));
        known.cloned().unwrap_or_else(|| one_line(wire, MADE_UP_LIMIT))
    }
}

/// A name with the characters that every provider accepts.
pub(super) fn plain(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(TOOL_NAME_LIMIT)
        .collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// The answer as a message. Calls get ids that are unique in the conversation: not every provider gives any.
pub(super) fn reply(round: &ModelRound, names: &WireNames, answer: Answer) -> Message {
    let mut ids: HashSet<String> =
        round.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.id.clone()).collect();
    let number = round_number(round);
    let mut tool_calls = Vec::new();
    for call in answer.calls {
        let mut id = call.id;
        if id.is_empty() || id.len() > ID_LIMIT || !ids.insert(id.clone()) {
            id = format!("call-{number}-{}", tool_calls.len());
            let mut again = 2;
            while !ids.insert(id.clone()) {
                id = format!("call-{number}-{}-{again}", tool_calls.len());
                again += 1;
            }
        }
        tool_calls.push(ToolCallRequest { id, name: names.to_ours(&call.name), arguments: call.arguments });
    }
    let continuation = answer
        .kept
        .map(|kept| Value::object([("model", Value::from(round.model.as_str())), ("kept", Value::from(kept))]));
    Message { tool_calls, continuation, ..Message::assistant(answer.text) }
}

/// Tokens as the provider counted them, and their price where the operator said it. Of the input, no more is from the
/// cache or kept in it than there is.
pub(super) fn usage(tokens: Tokens, model: Option<&ModelConfig>) -> Usage {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let cache_read = cache_read.min(input);
    let cache_write = cache_write.min(input - cache_read);
    let uncached = input - cache_read - cache_write;
    let price = model.and_then(|model| Some((model.cache_costs()?, model.input_cost?, model.output_cost?)));
    let cost = price.map(|((from_cache, kept), read, written)| {
        let counts = [(uncached, read), (cache_read, from_cache), (cache_write, kept), (output, written)];
        counts.into_iter().map(|(tokens, price)| tokens as f64 * price).sum::<f64>() / 1e6
    });
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
        cost,
    }
}
