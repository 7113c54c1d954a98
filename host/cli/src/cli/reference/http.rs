//! `docs/http.md`: every request of the HTTP API, made of `docs/schemas/openapi.json`.

use super::cell;
use serde_json::{Map, Value};
use std::fmt::Write as _;

const START: &str = "# HTTP API

Every request that `opcell serve` answers, made of [the OpenAPI file](schemas/openapi.json), which the server has at
`/openapi.json`. `{tenant}` is `default` unless the project [declares others](server.md#tenants). With tokens, send
`Authorization: Bearer TOKEN`; a section names the scope if it is not `read`. Errors are `application/problem+json`, each
with a [code](errors.md).

```sh
curl -H 'content-type: application/json' -d '{\"workflow\": \"today\"}' http://127.0.0.1:7878/v1/default/runs
```
";

/// The page.
pub(super) fn page() -> String {
    let api: Value =
        serde_json::from_str(include_str!("../../../../../docs/schemas/openapi.json")).expect("the file is tested");
    let empty = Map::new();
    let object = |value: &'_ Value, key: &str| value.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut page = START.to_owned();
    let mut rows = String::new();
    let mut sections = String::new();
    for (path, methods) in api.get("paths").and_then(Value::as_object).unwrap_or(&empty) {
        for (method, request) in methods.as_object().unwrap_or(&empty) {
            let title = format!("{} {path}", method.to_uppercase());
            let summary = request.get("summary").and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(rows, "| [`{title}`](#{}) | {} |", anchor(&title), cell(summary));
            let _ = write!(sections, "\n## `{title}`\n\n{summary}\n");
            if let Some(more) = request.get("description").and_then(Value::as_str) {
                let _ = write!(sections, "\n{more}\n");
            }
            let mut fields = String::new();
            for parameter in request.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
                // The tenant is in every path, and said once.
                if text("name") != "tenant" {
                    let kind = kind(parameter.get("schema").unwrap_or(&Value::Null));
                    let about = cell(text("description"));
                    let _ = writeln!(fields, "| `{}` | {} | {kind} | {about} |", text("name"), text("in"));
                }
            }
            for (key, field) in object(&body(&api, request), "properties") {
                let about = field.get("description").or_else(|| field.pointer("/oneOf/0/description"));
                let about = cell(about.and_then(Value::as_str).unwrap_or_default());
                let _ = writeln!(fields, "| `{key}` | body | {} | {about} |", kind(&field));
            }
            if !fields.is_empty() {
                let _ = write!(sections, "\n| field | in | value | meaning |\n| --- | --- | --- | --- |\n{fields}");
            }
            let answers: Vec<String> = object(request, "responses").keys().map(|code| format!("`{code}`")).collect();
            let _ = write!(sections, "\nAnswers: {}.\n", answers.join(", "));
        }
    }
    let _ = write!(page, "\n| request | does |\n| --- | --- |\n{rows}{sections}");
    page
}

/// The schema of a request's body.
fn body(api: &Value, request: &Value) -> Value {
    let schema = request.pointer("/requestBody/content/application~1json/schema");
    let name = schema.and_then(|schema| schema.get("$ref")).and_then(Value::as_str);
    let pointer = name.and_then(|name| name.strip_prefix('#'));
    pointer.and_then(|pointer| api.pointer(pointer)).or(schema).cloned().unwrap_or_default()
}

/// The type of a field in words.
fn kind(schema: &Value) -> String {
    let word = |word: &str| match word {
        "string" => "text",
        "integer" | "number" => "number",
        "boolean" => "`true` or `false`",
        "array" => "list",
        "object" => "object",
        _ => "any value",
    };
    match schema.get("type") {
        Some(Value::String(one)) => word(one).to_owned(),
        Some(Value::Array(some)) => {
            let some = some.iter().filter_map(Value::as_str).filter(|one| *one != "null").map(word);
            some.collect::<Vec<_>>().join(" or ")
        }
        _ if schema.get("oneOf").is_some() => "object".to_owned(),
        _ => "any value".to_owned(),
    }
}

/// The anchor of a heading, as mdBook and GitHub make it.
fn anchor(title: &str) -> String {
    let kept = title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}
