//! The result of a tool, as one value. Nothing of it is lost because of its form.

use super::{Binary, MESSAGE_BYTES, failed};
use opcell_types::{Failure, Value, text::printable};
use serde_json::{Map, Value as Json};

/// Keys of a result that are about it and no part of it.
const ABOUT: [&str; 4] = ["_meta", "isError", "resultType", "structuredContent"];

/// Bytes that are shown of what is beside structured content.
const BESIDE_BYTES: usize = 1_000;

/// Texts that are looked for in structured content. Each takes a look at all of it.
const MAX_COMPARED_TEXTS: usize = 32;

/// Steps of a check of a result: some milliseconds.
const CHECK_STEPS: u64 = 1_000_000;

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    pub(super) value: Value,
    /// The structured content, where there is some: what `outputSchema` is about.
    pub(super) structured: Option<Json>,
    /// Parts of the content that the structured content does not repeat.
    pub(super) beside: Option<String>,
}

/// Structured content; else the one text, as data where it is a JSON object or array; else all parts.
pub(super) fn output(tool: &str, result: Json, binary: Binary) -> Result<Output, Failure> {
    let mut result = match result {
        Json::Object(result) => result,
        // No result of the protocol, and what the tool said.
        other => return Ok(Output { value: Value::from(other), structured: None, beside: None }),
    };
    let structured = result.get("structuredContent").filter(|content| !content.is_null()).cloned();
    let is_error = match result.get("isError") {
        None | Some(Json::Null | Json::Bool(false)) => false,
        // As languages write a falsehood.
        Some(Json::String(text)) => {
            !matches!(text.trim().to_ascii_lowercase().as_str(), "" | "false" | "0" | "0.0" | "no" | "none" | "null")
        }
        Some(Json::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    };
    if is_error {
        return Err(failed("tool-failed", reason(&result, structured.as_ref()), true));
    }
    if let Some(structured) = structured {
        let beside = beside(&result, &structured);
        return Ok(Output { value: structured.clone().into(), structured: Some(structured), beside });
    }
    let of = |value: Value| Ok(Output { value, structured: None, beside: None });
    let blocks = match result.remove("content") {
        Some(Json::Array(blocks)) => blocks,
        Some(Json::Null) | None => {
            if result.get("resultType").and_then(Json::as_str) == Some("input_required") {
                let message =
                    format!("MCP tool `{tool}` asks for input, which calls of plugins and programs cannot wait for");
                return Err(failed("mcp-input-required", message, false));
            }
            if result.get("task").is_some_and(Json::is_object)
                || result.get("resultType").and_then(Json::as_str) == Some("task")
            {
                let message =
                    format!("MCP tool `{tool}` began a task, which calls of plugins and programs cannot wait for");
                return Err(failed("mcp-input-required", message, false));
            }
            result.retain(|key, _| !ABOUT.contains(&key.as_str()));
            // Revisions of the protocol before the first had this one.
            if result.len() == 1
                && let Some(only) = result.remove("toolResult")
            {
                return of(only.into());
            }
            return of(if result.is_empty() { Vec::<Value>::new().into() } else { Json::Object(result).into() });
        }
        Some(single) => vec![single],
    };
    if let [only] = blocks.as_slice()
        && let Some(text) = text_of(only)
    {
        let is_data = text.trim_start().starts_with(['{', '[']);
        let data = is_data.then(|| Value::from_json(text).ok()).flatten();
        return of(data.unwrap_or_else(|| text.into()));
    }
    of(blocks.into_iter().map(|block| part(block, binary)).collect::<Vec<Value>>().into())
}

/// The text of a block that is one.
pub(super) fn text_of(block: &Json) -> Option<&str> {
    match block {
        Json::String(text) => Some(text),
        Json::Object(entries) => match entries.get("type") {
            None | Some(Json::Null) => entries.get("text")?.as_str(),
            Some(kind) if kind == "text" => entries.get("text")?.as_str(),
            Some(_) => None,
        },
        _ => None,
    }
}

/// Content that is not the structured content once more: texts, and the number of other parts.
fn beside(result: &Map<String, Json>, structured: &Json) -> Option<String> {
    let blocks = match result.get("content")? {
        Json::Array(blocks) => blocks.as_slice(),
        Json::Null => return None,
        single => std::slice::from_ref(single),
    };
    let written = structured.to_string();
    // Servers write the structured content as a text, or the one value that they had to wrap.
    let is_said = |text: &str| {
        let text = text.trim();
        let is_whole = serde_json::from_str::<Json>(text).is_ok_and(|data| {
            data == *structured || structured.get("result") == Some(&data) || written.contains(&data.to_string())
        });
        text.is_empty() || is_whole || written.contains(&Json::from(text).to_string())
    };
    // What comes after many texts is noted whether it says the same or not.
    let texts = blocks.iter().filter_map(text_of).enumerate();
    let texts: Vec<&str> =
        texts.filter(|(at, text)| *at >= MAX_COMPARED_TEXTS || !is_said(text)).map(|(_, text)| text).collect();
    let others = blocks.iter().filter(|block| text_of(block).is_none() && !is_nothing(block)).count();
    let others = match others {
        0 => None,
        1 => Some("a part that is no text".to_owned()),
        others => Some(format!("{others} parts that are no text")),
    };
    let said: Vec<String> = texts.into_iter().map(str::to_owned).chain(others).collect();
    (!said.is_empty()).then(|| printable(&said.join("\n"), BESIDE_BYTES))
}

/// Why a tool failed: its texts, and its structured content unless a text says the same.
fn reason(result: &Map<String, Json>, structured: Option<&Json>) -> String {
    let blocks = match result.get("content") {
        Some(Json::Array(blocks)) => blocks.as_slice(),
        Some(Json::Null) | None => &[],
        Some(single) => std::slice::from_ref(single),
    };
    let embedded = |block: &'_ Json| block.get("resource")?.get("text")?.as_str().map(str::to_owned);
    let texts = blocks.iter().filter_map(|block| text_of(block).map(str::to_owned).or_else(|| embedded(block)));
    let mut said: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
    let is_said = |said: &[String], structured: &Json| {
        said.iter().any(|text| serde_json::from_str::<Json>(text).is_ok_and(|data| data == *structured))
    };
    if let Some(structured) = structured.filter(|structured| !is_said(&said, structured)) {
        said.push(structured.as_str().map_or_else(|| structured.to_string(), str::to_owned));
    }
    if said.is_empty() {
        let rest: Map<String, Json> = result
            .iter()
            .filter(|(key, value)| !ABOUT.contains(&key.as_str()) && !is_nothing(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        said.extend((!rest.is_empty()).then(|| Json::Object(rest).to_string()));
    }
    let message = printable(&said.join("\n"), MESSAGE_BYTES);
    if message.is_empty() { "the tool failed and gave no reason".to_owned() } else { message }
}

fn is_nothing(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.trim().is_empty(),
        Json::Array(items) => {
            items.iter().all(|item| is_nothing(item) || text_of(item).is_some_and(|text| text.trim().is_empty()))
        }
        Json::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// The type of the block as which a model is shown binary content of a format.
fn attachment_type(mime_type: &str) -> Option<&'static str> {
    match mime_type.split_once('/')? {
        ("image", _) => Some("image"),
        ("audio", _) => Some("audio"),
        ("application", "pdf") => Some("file"),
        _ => None,
    }
}

/// A block as it is, or without its binary content, whatever kind of block holds it.
pub(super) fn part(block: Json, binary: Binary) -> Value {
    if binary != Binary::Keep
        && let Json::Object(entries) = &block
    {
        let text = |of: &Map<String, Json>, key: &str| of.get(key).and_then(Json::as_str).map(str::to_owned);
        let kind = text(entries, "type").unwrap_or_else(|| "content".to_owned());
        if let Some(data) = text(entries, "data") {
            if matches!(kind.as_str(), "image" | "audio") && binary == Binary::Attachments {
                return block.into();
            }
            return omitted(&kind, text(entries, "mimeType").as_deref(), None, &data);
        }
        let held = entries.get("resource").and_then(Json::as_object).unwrap_or(entries);
        if let Some(blob) = text(held, "blob") {
            let (mime_type, uri) = (text(held, "mimeType"), text(held, "uri"));
            let shown_as = mime_type.as_deref().and_then(attachment_type).filter(|_| binary == Binary::Attachments);
            if let Some(shown_as) = shown_as {
                let known = [("uri", uri), ("mimeType", mime_type), ("data", Some(blob))];
                let known = known.into_iter().filter_map(|(key, text)| Some((key, Value::from(text?))));
                return Value::object([("type", Value::from(shown_as))].into_iter().chain(known));
            }
            return omitted(&kind, mime_type.as_deref(), uri.as_deref(), &blob);
        }
    }
    block.into()
}

/// Stands in for binary content that a model cannot read.
fn omitted(kind: &str, mime_type: Option<&str>, uri: Option<&str>, base64: &str) -> Value {
    let bytes = i64::try_from(base64.len() / 4 * 3).unwrap_or(i64::MAX);
    let known = [("mimeType", mime_type), ("uri", uri)];
    let known = known.into_iter().filter_map(|(key, value)| Some((key, Value::from(printable(value?, 500)))));
    Value::object(
        [
            ("type", Value::from(printable(kind, 100))),
            ("bytes", Value::from(bytes)),
            ("omitted", Value::from("binary content")),
        ]
        .into_iter()
        .chain(known),
    )
}

/// Why structured content breaks the tool's own schema, if it does.
pub(super) fn violation(output: &Output, schema: &opcell_schema::Schema) -> Option<String> {
    let Some(structured) = &output.structured else {
        return Some("the result has no structured content, which the tool's outputSchema promises".to_owned());
    };
    if let Err(why) = schema.check_cost(structured, CHECK_STEPS) {
        return Some(format!("the result was not checked against the tool's outputSchema: {why}"));
    }
    let why = schema.check(structured).err()?;
    Some(format!("the result breaks the tool's outputSchema: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(result: Json) -> Result<String, String> {
        output("t", result, Binary::Omit).map(|output| output.value.to_json()).map_err(|failure| failure.message)
    }

    #[test]
    fn nothing_that_a_tool_said_is_lost_whatever_its_form() {
        let text = json!([{"type": "text", "text": "hi"}]);
        for (result, value) in [
            (json!({"content": text, "structuredContent": null}), r#""hi""#),
            (json!({"content": text, "structuredContent": {"a": 1}}), r#"{"a":1}"#),
            (json!({"content": text, "isError": null}), r#""hi""#),
            (json!({"content": text, "isError": "False"}), r#""hi""#),
            (json!({"content": text, "isError": "0"}), r#""hi""#),
            (json!({"content": "hi"}), r#""hi""#),
            (json!({"content": ["hi"]}), r#""hi""#),
            (json!({"content": {"type": "text", "text": "hi"}}), r#""hi""#),
            (json!({"content": [{"text": "hi"}]}), r#""hi""#),
            (json!({"content": [{"type": "text", "text": null}]}), r#"[{"type":"text","text":null}]"#),
            (
                json!({"content": [7, {"type": "text", "text": "a", "annotations": 3}]}),
                r#"[7,{"type":"text","text":"a","annotations":3}]"#,
            ),
            (
                json!({"content": [{"type": "video", "data": "AAAA", "mimeType": "v"}]}),
                r#"[{"type":"video","bytes":3,"omitted":"binary content","mimeType":"v"}]"#,
            ),
            (json!({"content": null}), "[]"),
            (json!({"content": [], "_meta": {"x": 1}}), "[]"),
            (json!({"toolResult": 7}), "7"),
            (json!({"answer": 7, "_meta": {}}), r#"{"answer":7}"#),
            (json!("hi"), r#""hi""#),
            (Json::Null, "null"),
        ] {
            assert_eq!(of(result.clone()), Ok(value.to_owned()), "{result}");
        }
    }

    #[test]
    fn what_is_said_beside_structured_content_is_noted_unless_it_says_the_same() {
        let beside = |content: Json, structured: Json| {
            let result = json!({"content": content, "structuredContent": structured});
            output("t", result, Binary::Omit).unwrap().beside
        };
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        for (said, structured) in [
            ("{\"a\": 1}", json!({"a": 1})),
            ("hi", json!({"result": "hi"})),
            ("5", json!({"result": 5})),
            ("[1, 2]", json!({"result": [1, 2]})),
            ("hi", json!({"message": "hi", "more": 1})),
            (" ", json!({"a": 1})),
        ] {
            assert_eq!(beside(text(said), structured.clone()), None, "{said} {structured}");
        }
        assert_eq!(beside(json!([]), json!({"a": 1})), None);
        assert_eq!(beside(text("Payment is pending."), json!({"a": 1})).as_deref(), Some("Payment is pending."));
        let more = json!([{"type": "text", "text": "See."}, {"type": "image", "data": "aGk=", "mimeType": "i"}]);
        assert_eq!(beside(more, json!({"a": 1})).as_deref(), Some("See.\na part that is no text"));
    }

    #[test]
    fn a_failure_gives_its_reason_wherever_it_is() {
        let quota = json!({"code": "E_QUOTA"});
        for (result, reason) in [
            (json!({"isError": true, "content": [], "structuredContent": quota}), r#"{"code":"E_QUOTA"}"#),
            (
                json!({"isError": true, "content": [{"type": "text", "text": "no"}], "structuredContent": quota}),
                "no\n{\"code\":\"E_QUOTA\"}",
            ),
            (
                json!({"isError": true, "content": [{"type": "text", "text": "{\"code\": \"E_QUOTA\"}"}],
                "structuredContent": quota}),
                r#"{"code": "E_QUOTA"}"#,
            ),
            (json!({"isError": "true", "content": "no"}), "no"),
            (json!({"isError": true, "content": [{"type": "resource", "resource": {"uri": "u", "text": "no"}}]}), "no"),
            (json!({"isError": true, "message": "no"}), r#"{"message":"no"}"#),
            (json!({"isError": true, "content": [{"type": "text", "text": ""}]}), "the tool failed and gave no reason"),
        ] {
            assert_eq!(of(result.clone()), Err(reason.to_owned()), "{result}");
        }
    }
}
