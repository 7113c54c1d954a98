//! The head of a skill, as the Agent Skills format has it, with psi's keys beside it.

use opcell_types::suggest::hint;
use opcell_yaml::front_matter::{Field, read};

/// The front matter of a skill.
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

/// Reads the head that begins on a line of its file; each warning is a sentence.
pub(super) fn parse(head: &str, line: usize) -> (FrontMatter, Vec<String>) {
    let read = read(head, line);
    let mut warnings = read.notes;
    let mut front = FrontMatter { advertise: true, ..FrontMatter::default() };
    for (key, field) in &read.fields {
        let text = || field.text().map(str::to_owned);
        let kebab = kebab_case(key);
        let is_meant = KEYS.contains(&kebab.as_str()) && !read.fields.contains_key(&kebab);
        let known = if is_meant && kebab != *key {
            warnings.push(format!("the front matter key `{key}` is read as `{kebab}`"));
            kebab.as_str()
        } else {
            key.as_str()
        };
        match known {
            "name" => front.name = text(),
            "description" => front.description = text(),
            "lambda" => front.lambda = text(),
            "license" => front.license = text(),
            "compatibility" => front.compatibility = text(),
            "allowed-tools" => front.allowed_tools = field.words(),
            "disable-model-invocation" => {
                front.disable_model_invocation = flag(key, field, false, &mut warnings);
            }
            "advertise" => front.advertise = flag(key, field, true, &mut warnings),
            "metadata" => {}
            other => warnings.push(format!("unknown front matter key `{other}`{}", hint(other, KEYS))),
        }
    }
    (front, warnings)
}

/// A key as the format writes it: `allowed-tools` for `allowedTools`, `allowed_tools` and `Allowed Tools`.
fn kebab_case(key: &str) -> String {
    let mut kebab = String::with_capacity(key.len());
    let mut before = ' ';
    for c in key.chars() {
        if before.is_ascii_lowercase() && c.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(if matches!(c, '_' | ' ') { '-' } else { c.to_ascii_lowercase() });
        before = c;
    }
    kebab
}

/// `true` and `false`, or the words that YAML 1.1 has for them, in any case.
fn flag(key: &str, field: &Field, default: bool, warnings: &mut Vec<String>) -> bool {
    let text = field.text().unwrap_or_default();
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => true,
        "false" | "no" | "off" => false,
        _ => {
            warnings.push(format!("`{key}` must be true or false, but is `{text}`; {default} applies"));
            default
        }
    }
}
