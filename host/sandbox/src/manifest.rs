//! The manifest: what a plugin says about itself before anything of it runs.
//!
//! It is JSON in the custom section `opcell:manifest`, at the top of the component or in one of its core modules. A
//! component without one asks for nothing. Unknown keys are errors: a misspelt capability must not look like a smaller
//! request.

use crate::{grants::Requests, limits::LimitRequest};
use opcell_types::{Access, names::is_plain_name, suggest::did_you_mean, text::one_line};
use serde_json::{Map, Value};

/// Name of the custom section.
pub const SECTION: &str = "opcell:manifest";

/// The version of the manifest's shape that this host reads.
pub const SCHEMA: u64 = 1;

/// Longest manifest: people read what a plugin asks for.
const MAX_BYTES: usize = 64 << 10;

/// Longest name of a capability.
const MAX_NAME: usize = 200;

/// A manifest that cannot be used, with the path of the offending value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct ManifestError {
    /// Such as `capabilities.tools[0].name`.
    pub at: String,
    /// The problem, and what was expected.
    pub message: String,
}

/// One requested capability.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Request {
    /// The tool's, skill's, file root's or store's name.
    pub name: String,
    /// The access to a file root; absent for everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Why the plugin wants it, in its author's words.
    pub reason: String,
}

/// Text that a plugin would add to prompts. It reaches models only where the operator grants it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PromptRequest {
    /// Lower comes first; 1000 unless said.
    pub priority: i32,
    /// Plain text of several lines.
    pub text: String,
}

/// Longest text that a plugin may add to prompts: models read it in every session.
const MAX_PROMPT: usize = 8 << 10;

/// A plugin's manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Manifest {
    /// `[a-z0-9][a-z0-9-]*`; absent when the component has no manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As its author counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// One sentence for people and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The text that it would add to the prompts of sessions that have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptRequest>,
    /// An SPDX expression, as its author wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Host tools.
    pub tools: Vec<Request>,
    /// Skills.
    pub skills: Vec<Request>,
    /// File roots.
    pub files: Vec<Request>,
    /// Stores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<Request>,
    /// Limits below the operator's ceiling.
    pub limits: LimitRequest,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ManifestError`] with the path of the first offending value.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        if text.len() > MAX_BYTES {
            return Err(wrong("manifest", format!("it has {} bytes, more than {MAX_BYTES}", text.len())));
        }
        let value: Value =
            serde_json::from_slice(text).map_err(|error| wrong("manifest", format!("not JSON: {error}")))?;
        let root = object(
            &value,
            "manifest",
            &["schema", "name", "version", "description", "license", "prompt", "capabilities", "limits"],
        )?;
        match root.get("schema") {
            Some(Value::Number(number)) if number.as_u64() == Some(SCHEMA) => {}
            Some(other) => return Err(wrong("schema", format!("{other} is not served, expected {SCHEMA}"))),
            None => return Err(wrong("schema", format!("missing, expected {SCHEMA}"))),
        }
        let name = text_at(root, "name", "name")?;
        if !is_name(name) {
            return Err(wrong("name", format!("`{name}` is not a plugin name, expected [a-z0-9][a-z0-9-]*")));
        }
        let mut manifest = Self {
            name: Some(name.to_owned()),
            version: Some(one_line(text_at(root, "version", "version")?, 100)),
            license: optional_text(root, "license", 100)?,
            ..Self::default()
        };
        if root.contains_key("description") {
            manifest.description = Some(one_line(text_at(root, "description", "description")?, 300));
        }
        if let Some(prompt) = root.get("prompt") {
            let prompt = object(prompt, "prompt", &["priority", "text"])?;
            let text = text_at(prompt, "text", "prompt.text")?;
            if text.len() > MAX_PROMPT {
                return Err(wrong("prompt.text", format!("it has {} bytes, more than {MAX_PROMPT}", text.len())));
            }
            let priority = match prompt.get("priority") {
                None => 1000,
                Some(value) => value
                    .as_i64()
                    .and_then(|priority| i32::try_from(priority).ok())
                    .ok_or_else(|| wrong("prompt.priority", format!("{value} is not a whole number of 32 bits")))?,
            };
            // What cannot be seen must not be said to a model.
            let text = text.lines().map(|line| one_line(line, MAX_PROMPT)).collect::<Vec<_>>().join("\n");
            manifest.prompt = Some(PromptRequest { priority, text });
        }
        if let Some(capabilities) = root.get("capabilities") {
            let capabilities = object(capabilities, "capabilities", &["tools", "skills", "files", "stores"])?;
            manifest.tools = requests(capabilities, "tools", false)?;
            manifest.skills = requests(capabilities, "skills", false)?;
            manifest.files = requests(capabilities, "files", true)?;
            manifest.stores = requests(capabilities, "stores", false)?;
        }
        if let Some(limits) = root.get("limits") {
            manifest.limits =
                serde_json::from_value(limits.clone()).map_err(|error| wrong("limits", error.to_string()))?;
        }
        Ok(manifest)
    }

    /// The requests without their reasons.
    #[must_use]
    pub fn requests(&self) -> Requests {
        let names = |list: &[Request]| list.iter().map(|request| request.name.clone()).collect();
        Requests {
            tools: names(&self.tools),
            skills: names(&self.skills),
            files: self
                .files
                .iter()
                .map(|request| (request.name.clone(), request.access.unwrap_or(Access::Read)))
                .collect(),
            stores: names(&self.stores),
        }
    }
}

/// Returns `true` if `name` can name a plugin: `[a-z0-9][a-z0-9-]*`, at most 64 bytes.
#[must_use]
pub fn is_name(name: &str) -> bool {
    is_plain_name(name) && name.len() <= 64
}

fn requests(capabilities: &Map<String, Value>, key: &str, with_access: bool) -> Result<Vec<Request>, ManifestError> {
    let at = format!("capabilities.{key}");
    let list = match capabilities.get(key) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong(at, "expected a list")),
    };
    let keys: &[&str] = if with_access { &["name", "access", "reason"] } else { &["name", "reason"] };
    let mut requests: Vec<Request> = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let entry = object(entry, &at, keys)?;
        let name = text_at(entry, "name", &format!("{at}.name"))?;
        if one_line(name, MAX_NAME) != name {
            return Err(wrong(at, format!("`{name}` is not printable; expected at most {MAX_NAME} printable bytes")));
        }
        if requests.iter().any(|earlier| earlier.name == name) {
            return Err(wrong(at, format!("`{name}` is requested twice")));
        }
        let access = match (with_access, entry.get("access")) {
            (false, _) => None,
            (true, Some(value)) => Some(serde_json::from_value(value.clone()).map_err(|_| {
                wrong(format!("{at}.access"), format!("{value} is not an access mode; expected `read` or `read-write`"))
            })?),
            (true, None) => return Err(wrong(format!("{at}.access"), "missing, expected `read` or `read-write`")),
        };
        let reason = one_line(text_at(entry, "reason", &format!("{at}.reason"))?, 1_000);
        requests.push(Request { name: name.to_owned(), access, reason });
    }
    Ok(requests)
}

fn object<'a>(value: &'a Value, at: &str, keys: &[&str]) -> Result<&'a Map<String, Value>, ManifestError> {
    let Value::Object(map) = value else { return Err(wrong(at, "expected an object")) };
    for key in map.keys() {
        if !keys.contains(&key.as_str()) {
            let hint = did_you_mean(key, keys.iter().copied())
                .map(|name| format!(", did you mean `{name}`?"))
                .unwrap_or_default();
            return Err(wrong(at, format!("unknown key `{}`{hint}", one_line(key, 100))));
        }
    }
    Ok(map)
}

fn text_at<'a>(map: &'a Map<String, Value>, key: &str, at: &str) -> Result<&'a str, ManifestError> {
    match map.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(_) => Err(wrong(at, "expected a non-empty string")),
        None => Err(wrong(at, "missing, expected a non-empty string")),
    }
}

fn optional_text(map: &Map<String, Value>, key: &str, longest: usize) -> Result<Option<String>, ManifestError> {
    if !map.contains_key(key) {
        return Ok(None);
    }
    Ok(Some(one_line(text_at(map, key, key)?, longest)))
}

/// Both may hold what the plugin's author wrote.
fn wrong(at: impl AsRef<str>, message: impl AsRef<str>) -> ManifestError {
    ManifestError { at: one_line(at.as_ref(), 200), message: one_line(message.as_ref(), 500) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"schema":1,"name":"triage","version":"0.2.0","capabilities":{
        "tools":[{"name":"http.fetch","reason":"asks the issue tracker"}],
        "files":[{"name":"repo","access":"read","reason":"reads the sources"}]},
        "limits":{"wall-time":"5 s"}}"#;

    fn error(text: &str) -> String {
        Manifest::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_manifest() {
        let manifest = Manifest::parse(FULL.as_bytes()).unwrap();
        assert_eq!(manifest.name.as_deref(), Some("triage"));
        assert_eq!(manifest.limits.wall_time, Some(5_000));
        let requests = manifest.requests();
        assert!(requests.tools.contains("http.fetch") && requests.files.get("repo") == Some(&Access::Read));
    }

    #[test]
    fn a_plugin_says_what_it_would_add_to_prompts_and_hides_nothing_in_it() {
        let manifest = Manifest::parse(
            r#"{"schema":1,"name":"a","version":"1","description":"Keeps accounts.","prompt":{"text":"Book it.\nTwice\u202e."}}"#.as_bytes(),
        )
        .unwrap();
        assert_eq!(manifest.description.as_deref(), Some("Keeps accounts."));
        let prompt = manifest.prompt.unwrap();
        assert_eq!(prompt.priority, 1000);
        assert!(prompt.text.starts_with("Book it.\nTwice") && !prompt.text.contains('\u{202e}'), "{:?}", prompt.text);
        assert!(error(r#"{"schema":1,"name":"a","version":"1","prompt":{"text":""}}"#).starts_with("prompt.text"));
        let long =
            format!(r#"{{"schema":1,"name":"a","version":"1","prompt":{{"text":"{}"}}}}"#, "x".repeat(MAX_PROMPT + 1));
        assert!(error(&long).contains("more than 8192"));
    }

    #[test]
    fn a_misspelt_key_is_an_error_with_a_suggestion() {
        assert_eq!(
            error(r#"{"schema":1,"name":"a","version":"1","capabilites":{}}"#),
            "manifest: unknown key `capabilites`, did you mean `capabilities`?"
        );
        assert_eq!(
            error(r#"{"schema":1,"name":"a","version":"1","limits":{"memroy":1}}"#),
            "limits: `memroy` is not a limit, did you mean `memory`?"
        );
    }

    #[test]
    fn the_path_of_the_offending_value_is_named() {
        for (text, start) in [
            ("[", "manifest: not JSON"),
            (r#"{"name":"a"}"#, "schema: missing"),
            (r#"{"schema":2,"name":"a","version":"1"}"#, "schema: 2 is not served"),
            (r#"{"schema":1,"name":"A b","version":"1"}"#, "name: `A b` is not a plugin name"),
            (
                r#"{"schema":1,"name":"a","version":"1","capabilities":{"tools":[{"name":"x"}]}}"#,
                "capabilities.tools[0].reason: missing",
            ),
            (
                r#"{"schema":1,"name":"a","version":"1","capabilities":{"files":[{"name":"x","access":"rw","reason":"r"}]}}"#,
                "capabilities.files[0].access: \"rw\" is not an access",
            ),
        ] {
            assert!(error(text).starts_with(start), "{text}: {}", error(text));
        }
    }

    #[test]
    fn a_manifest_that_nobody_would_read_is_refused_before_it_is_parsed() {
        let long = format!(r#"{{"schema":1,"name":"a","version":"1{}"}}"#, "0".repeat(MAX_BYTES));
        assert!(Manifest::parse(long.as_bytes()).unwrap_err().to_string().contains("more than 65536"));
    }

    #[test]
    fn whatever_an_author_wrote_can_be_shown() {
        let hostile = r#"\u001b[2J\n\t\u202e"#;
        for text in [
            format!(r#"{{"schema":"{hostile}"}}"#),
            format!(r#"{{"schema":1,"{hostile}":1}}"#),
            r#"{"schema":1,"name":"a","version":"1","capabilities":{"tools":[{"name":"t\n","reason":"r"}]}}"#
                .to_owned(),
            format!(r#"{{"schema":1,"name":"{hostile}","version":"1"}}"#),
            format!(r#"{{"schema":1,"name":"a","version":"1","limits":{{"{hostile}":1}}}}"#),
            format!(r#"{{"schema":1,"name":"a","version":"1","limits":{{"memory":"{hostile}"}}}}"#),
            format!(
                r#"{{"schema":1,"name":"a","version":"1","capabilities":{{"tools":[{{"name":"{hostile}","reason":"r"}}]}}}}"#
            ),
            format!(
                r#"{{"schema":1,"name":"a","version":"1","capabilities":{{"files":[{{"name":"f","access":"{hostile}","reason":"r"}}]}}}}"#
            ),
        ] {
            let error = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(one_line(&error, 1_000), error, "{text}");
        }
        let manifest = Manifest::parse(
            format!(r#"{{"schema":1,"name":"a","version":"{hostile}","capabilities":{{"tools":[{{"name":"t","reason":"{hostile}"}}]}}}}"#)
                .as_bytes(),
        );
        let manifest = manifest.unwrap();
        assert!(
            !manifest.version.unwrap().contains(char::is_control)
                && !manifest.tools[0].reason.contains(char::is_control)
        );
    }
}
