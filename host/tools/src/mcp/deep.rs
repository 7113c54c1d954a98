//! A list of tools of which some are nested deeper than JSON is read: only these are left out of it.

use serde_json::{Map, Value as Json, value::RawValue};
use std::collections::BTreeMap;

/// In place of what is nested too deep; reads as the end of a sentence.
pub(super) const TOO_DEEP: &str = "nested deeper than 128 levels";

/// Levels that the parser reads.
const MAX_LEVELS: usize = 127;

/// Levels around an entry of the list: the message, its result and the list itself.
const LEVELS_AROUND: usize = 3;

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The message of a list of tools, with [`TOO_DEEP`] for each member of a tool that is; `None` for any other message.
pub(super) fn with_shallow_tools(text: &[u8]) -> Option<Json> {
    let message: Members<'_> = serde_json::from_slice(text).ok()?;
    let result: Members<'_> = serde_json::from_str(message.get("result")?.get()).ok()?;
    let tools: Vec<&RawValue> = serde_json::from_str(result.get("tools")?.get()).ok()?;
    let tools = tools.into_iter().map(|tool| shallow(tool, LEVELS_AROUND)).collect();
    let mut listed = others(&result, "tools")?;
    listed.insert("tools".to_owned(), Json::Array(tools));
    let mut read = others(&message, "result")?;
    read.insert("result".to_owned(), Json::Object(listed));
    Some(Json::Object(read))
}

/// The members but one, if all of them can be read.
fn others(members: &Members<'_>, but: &str) -> Option<Map<String, Json>> {
    let others = members.iter().filter(|(name, _)| *name != but);
    others.map(|(name, value)| Some((name.clone(), serde_json::from_str(value.get()).ok()?))).collect()
}

/// An entry, or a member of one, as far as it can be read.
fn shallow(value: &RawValue, around: usize) -> Json {
    let fits = |value: &RawValue, around: usize| levels(value.get()) + around <= MAX_LEVELS;
    let read = |value: &RawValue| serde_json::from_str(value.get()).unwrap_or_else(|_| TOO_DEEP.into());
    if fits(value, around) {
        return read(value);
    }
    let Ok(members) = serde_json::from_str::<Members<'_>>(value.get()) else { return TOO_DEEP.into() };
    let member = |member: &RawValue| if fits(member, around + 1) { read(member) } else { TOO_DEEP.into() };
    members.into_iter().map(|(name, value)| (name, member(value))).collect()
}

/// The levels of lists and objects in a JSON text.
fn levels(text: &str) -> usize {
    let (mut deepest, mut depth, mut in_text, mut is_escaped) = (0_usize, 0_usize, false, false);
    for byte in text.bytes() {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_nested_too_deep_is_left_out_of_a_list_of_tools() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let list = |levels: usize| {
            let tool = format!(r#"{{"name":"deep","inputSchema":{{"default":{}}}}}"#, nested(levels));
            let odd = nested(200);
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"nextCursor":"c","tools":[{{"name":"a"}},{tool},{odd}]}}}}"#)
        };
        let read = with_shallow_tools(list(200).as_bytes()).unwrap_or_default();
        let tools = json!([{"name": "a"}, {"name": "deep", "inputSchema": TOO_DEEP}, TOO_DEEP]);
        assert_eq!(read, json!({"jsonrpc": "2.0", "id": 1, "result": {"nextCursor": "c", "tools": tools}}));
        // What the parser would read is read.
        let deepest = MAX_LEVELS - LEVELS_AROUND - 2;
        let schema =
            |levels| with_shallow_tools(list(levels).as_bytes()).unwrap_or_default()["result"]["tools"][1].clone();
        assert!(schema(deepest)["inputSchema"].is_object());
        assert_eq!(schema(deepest + 1)["inputSchema"], TOO_DEEP);
        for other in ["[1]".to_owned(), nested(200), format!(r#"{{"id":1,"result":{{"content":{}}}}}"#, nested(200))] {
            assert_eq!(with_shallow_tools(other.as_bytes()), None, "{other}");
        }
    }
}
