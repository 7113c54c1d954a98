//! Values of a description: those that its publisher fixed, those that the user gives, and those in their place.

use super::{
    SHOWN_BYTES,
    document::{ArgumentText, InputText},
};
use opcell_types::text::one_line;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a text that becomes an argument or an address.
const VALUE_BYTES: usize = 4 << 10;

/// Values that the user gives, by the names that the document has for them.
#[derive(Debug, Default)]
pub struct GivenValues {
    given: BTreeMap<String, String>,
    asked: BTreeSet<String>,
    missing: Vec<String>,
}

impl GivenValues {
    /// These values.
    #[must_use]
    pub fn new(given: BTreeMap<String, String>) -> Self {
        Self { given, ..Self::default() }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.asked.insert(name.to_owned());
        self.given.get(name).cloned()
    }

    /// The names of values that nothing asked for.
    #[must_use]
    pub fn unused(&self) -> Vec<&str> {
        self.given.keys().filter(|name| !self.asked.contains(*name)).map(String::as_str).collect()
    }

    /// The names of all values that were asked for.
    pub fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().map(String::as_str)
    }

    /// The names of values that are required and have not been given, printable.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }
}

pub(super) fn argument_of(argument: &ArgumentText, given: &mut GivenValues) -> Result<Option<String>, String> {
    let flag = argument.input.name.as_deref().unwrap_or_default();
    let label = match argument.kind.as_str() {
        "positional" => argument.value_hint.as_deref().unwrap_or("argument"),
        "named" if !flag.is_empty() => flag.trim_start_matches('-'),
        _ => return Err("one of its arguments is neither `positional` nor `named`".to_owned()),
    };
    if argument.input.is_secret || argument.input.variables.values().any(|variable| variable.is_secret) {
        let label = one_line(label, SHOWN_BYTES);
        return Err(format!("its argument `{label}` is a secret, which every process of this machine could read"));
    }
    let value = resolved(&argument.input, label, given)?;
    let value = match (argument.kind.as_str(), value) {
        ("named", Some(value)) => Some(format!("{flag}={value}")),
        (_, value) => value,
    };
    value.map(|value| plain(value, label)).transpose()
}

/// A text without what a terminal or a program would read otherwise than it is shown.
pub(super) fn plain(value: String, label: &str) -> Result<String, String> {
    if value.len() <= VALUE_BYTES && one_line(&value, VALUE_BYTES) == value {
        return Ok(value);
    }
    Err(format!("the value of `{}` is too long or cannot be printed", one_line(label, SHOWN_BYTES)))
}

/// The value of an input: the publisher's, else the user's, else the default; nothing where it may be left out.
pub(super) fn resolved(input: &InputText, label: &str, given: &mut GivenValues) -> Result<Option<String>, String> {
    if let Some(value) = &input.value {
        return filled(value, &input.variables, given).map(Some);
    }
    let value = given.take(label).or_else(|| input.default.clone());
    let shown = one_line(label, SHOWN_BYTES);
    match value {
        Some(value) if !input.choices.is_empty() && !input.choices.contains(&value) => {
            let choices = one_line(&input.choices.join("`, `"), SHOWN_BYTES);
            Err(format!("`{shown}` is one of `{choices}`, and not `{}`", one_line(&value, SHOWN_BYTES)))
        }
        None if input.is_required => {
            let about = input.description.as_deref().unwrap_or_default();
            let about = one_line(about, SHOWN_BYTES);
            let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
            let problem = format!("it needs a value for `{shown}`{about}");
            given.missing.push(shown);
            Err(problem)
        }
        value => Ok(value),
    }
}

/// A text with its variables in place. Other text in braces stays.
pub(super) fn filled(
    text: &str,
    variables: &BTreeMap<String, InputText>,
    given: &mut GivenValues,
) -> Result<String, String> {
    let mut rest = text;
    let mut filled = String::new();
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, rest)| Some((name, variables.get(name)?, rest))) {
            Some((name, variable, after)) => {
                let own = InputText { is_required: true, variables: BTreeMap::new(), ..variable.clone() };
                filled.push_str(&resolved(&own, name, given)?.unwrap_or_default());
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
        if filled.len() > VALUE_BYTES {
            return Err(format!("one of its values has more than {VALUE_BYTES} bytes"));
        }
    }
    filled.push_str(rest);
    Ok(filled)
}
