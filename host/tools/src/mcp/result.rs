//! What a tool returned, as one value.

use super::{Binary, MESSAGE_BYTES, failed};
use opcell_types::{Failure, Value, text::printable};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Structured content; else the one text, as data where it is a JSON object or array; else all parts.
pub(super) fn output(result: CallToolResult, binary: Binary) -> Result<Value, Failure> {
    if result.is_error == Some(true) {
        let texts = result.content.iter().filter_map(|part| part.as_text()).map(|part| part.text.as_str());
        let message = printable(&texts.collect::<Vec<_>>().join("\n"), MESSAGE_BYTES);
        let message = if message.is_empty() { "the tool failed and gave no reason".to_owned() } else { message };
        return Err(failed("tool-failed", message, true));
    }
    if let Some(structured) = result.structured_content {
        return Ok(structured.into());
    }
    if let [ContentBlock::Text(only)] = result.content.as_slice() {
        let is_data = only.text.trim_start().starts_with(['{', '[']);
        let data = is_data.then(|| Value::from_json(&only.text).ok()).flatten();
        return Ok(data.unwrap_or_else(|| only.text.as_str().into()));
    }
    result.content.into_iter().map(|block| part(block, binary)).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn part(block: ContentBlock, binary: Binary) -> Result<Value, Failure> {
    if binary == Binary::Omit {
        match &block {
            ContentBlock::Image(image) => return Ok(omitted("image", Some(&image.mime_type), None, &image.data)),
            ContentBlock::Audio(audio) => return Ok(omitted("audio", Some(&audio.mime_type), None, &audio.data)),
            ContentBlock::Resource(embedded) => {
                if let ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } = &embedded.resource {
                    return Ok(omitted("resource", mime_type.as_deref(), Some(uri), blob));
                }
            }
            _ => {}
        }
    }
    let json = serde_json::to_value(&block)
        .map_err(|error| failed("mcp-error", format!("the result of the tool is not JSON: {error}"), false))?;
    Ok(json.into())
}

/// What takes the place of binary content that a model cannot read.
fn omitted(kind: &str, mime_type: Option<&str>, uri: Option<&str>, base64: &str) -> Value {
    let bytes = i64::try_from(base64.len() / 4 * 3).unwrap_or(i64::MAX);
    let known = [("mimeType", mime_type), ("uri", uri)];
    let known = known.into_iter().filter_map(|(key, value)| Some((key, Value::from(printable(value?, 500)))));
    Value::object(
        [("type", Value::from(kind)), ("bytes", Value::from(bytes)), ("omitted", Value::from("binary content"))]
            .into_iter()
            .chain(known),
    )
}
