//! The head of a skill: YAML between two `---` lines, as the Agent Skills format has it, with psi's keys beside it.

use indexmap::IndexMap;
use opcell_types::suggest::hint;
use serde_json::Value;

/// What a skill says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FrontMatter {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) lambda: Option<String>,
    pub(super) license: Option<String>,
    pub(super) compatibility: Option<String>,
    pub(super) allowed_tools: Vec<String>,
    pub(super) disable_model_invocation: bool,
    pub(super) advertise: bool,
}

const KEYS: [&str; 9] = [
    "name",
    "description",
    "lambda",
    "license",
    "compatibility",
    "allowed-tools",
    "disable-model-invocation",
    "advertise",
    "metadata",
];

/// Splits a skill into its head and its body. Without an opening and a closing `---` everything is body.
pub(super) fn split(text: &str) -> (Option<&str>, &str) {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = text.strip_prefix("---").and_then(|rest| rest.strip_prefix("\r\n").or(rest.strip_prefix('\n')))
    else {
        return (None, text);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (head, body) = rest.split_at(at);
            return (Some(head), body.get(line.len()..).unwrap_or_default());
        }
        at += line.len();
    }
    (None, text)
}

/// Reads the head; each warning is a sentence.
pub(super) fn parse(head: &str) -> (FrontMatter, Vec<String>) {
    let mut warnings = Vec::new();
    let entries = match serde_saphyr::from_str::<IndexMap<String, Value>>(head) {
        Ok(entries) => entries,
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            warnings.push(format!("front matter is not YAML ({reason}); read as `key: value` lines"));
            lines(head)
        }
    };
    let mut front = FrontMatter { advertise: true, ..FrontMatter::default() };
    for (key, value) in &entries {
        let text = || scalar(value).filter(|text| !text.is_empty());
        match key.as_str() {
            "name" => front.name = text(),
            "description" => front.description = text(),
            "lambda" => front.lambda = text(),
            "license" => front.license = text(),
            "compatibility" => front.compatibility = text(),
            "allowed-tools" => front.allowed_tools = words(value),
            "disable-model-invocation" => {
                front.disable_model_invocation = flag(key, value, false, &mut warnings);
            }
            "advertise" => front.advertise = flag(key, value, true, &mut warnings),
            "metadata" => {}
            other => warnings.push(format!("unknown front matter key `{other}`{}", hint(other, KEYS))),
        }
    }
    (front, warnings)
}

/// psi's subset: split at the first colon, one pair of double quotes stripped, `- item` lines under a key without a
/// value.
fn lines(head: &str) -> IndexMap<String, Value> {
    let mut entries = IndexMap::new();
    let mut list: Option<(String, Vec<Value>)> = None;
    for line in head.lines() {
        if let (Some((_, items)), Some(item)) = (&mut list, line.trim_start().strip_prefix("- ")) {
            items.push(Value::String(unquote(item)));
            continue;
        }
        if let Some((key, items)) = list.take() {
            entries.insert(key, Value::Array(items));
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        match value.trim() {
            "" => list = Some((key.trim().to_owned(), Vec::new())),
            value => {
                entries.insert(key.trim().to_owned(), Value::String(unquote(value)));
            }
        }
    }
    if let Some((key, items)) = list {
        entries.insert(key, Value::Array(items));
    }
    entries
}

fn unquote(text: &str) -> String {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(scalar).collect(),
        other => scalar(other).unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
    }
}

/// Only the literals `true` and `false`, in any case.
fn flag(key: &str, value: &Value, default: bool, warnings: &mut Vec<String>) -> bool {
    match scalar(value).unwrap_or_default().to_ascii_lowercase().as_str() {
        "true" => true,
        "false" => false,
        _ => {
            warnings.push(format!("`{key}` must be true or false, got {value}; using {default}"));
            default
        }
    }
}
