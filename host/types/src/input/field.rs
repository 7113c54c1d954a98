//! The fields of a form, for whoever shows it and reads what a person typed.

use crate::value::Value;

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    /// Its name, under which its value is sent.
    pub name: &'a str,
    /// Its title for people.
    pub title: Option<&'a str>,
    /// An explanation.
    pub description: Option<&'a str>,
    /// `true` if the form takes no answer without it.
    pub required: bool,
    /// The kind of its values.
    pub kind: FieldKind<'a>,
    /// The value that it has where a person gives none.
    pub default: Option<&'a Value>,
}

/// The kind of a field's values.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldKind<'a> {
    /// Text; with its format, such as `email`, if it has one.
    Text(Option<&'a str>),
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// One of these.
    Choice(Vec<Choice<'a>>),
    /// Some of these.
    Choices(Vec<Choice<'a>>),
}

/// A choice of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The value that is sent.
    pub value: &'a str,
    /// The title for people.
    pub title: &'a str,
}

/// The fields of a form, in the order of its schema.
#[must_use]
pub fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = schema.get("required").and_then(Value::as_array).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties else { return Vec::new() };
    properties
        .iter()
        .map(|(name, property)| Field {
            name,
            title: property.get("title").and_then(Value::as_str),
            description: property.get("description").and_then(Value::as_str),
            required: required.iter().any(|one| one.as_str() == Some(name)),
            kind: kind(property),
            default: property.get("default"),
        })
        .collect()
}

fn kind(property: &Value) -> FieldKind<'_> {
    match property.get("type").and_then(Value::as_str) {
        Some("number") => FieldKind::Number,
        Some("integer") => FieldKind::Integer,
        Some("boolean") => FieldKind::Boolean,
        Some("array") => FieldKind::Choices(property.get("items").map(choices).unwrap_or_default()),
        _ => match choices(property) {
            none if none.is_empty() => FieldKind::Text(property.get("format").and_then(Value::as_str)),
            choices => FieldKind::Choice(choices),
        },
    }
}

fn choices(property: &Value) -> Vec<Choice<'_>> {
    let listed = property.get("oneOf").and_then(Value::as_array).unwrap_or_default();
    let of = |one| {
        let value = Value::get(one, "const")?.as_str()?;
        Some(Choice { value, title: Value::get(one, "title").and_then(Value::as_str).unwrap_or(value) })
    };
    listed.iter().filter_map(of).collect()
}

impl Field<'_> {
    /// The value that a person typed. Several choices have commas between them.
    ///
    /// # Errors
    /// With the kind of values that the field takes.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let wrong = |expected: &str| Err(format!("`{}` takes {expected}", self.name));
        match &self.kind {
            FieldKind::Text(_) => Ok(Value::from(text)),
            FieldKind::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::from_json(text).unwrap_or_else(|_| Value::from(number))),
                _ => wrong("a number"),
            },
            FieldKind::Integer => text.parse::<i64>().map(Value::from).or_else(|_| wrong("a whole number")),
            FieldKind::Boolean => match text.to_lowercase().as_str() {
                "true" | "yes" | "y" | "on" | "1" => Ok(Value::from(true)),
                "false" | "no" | "n" | "off" | "0" => Ok(Value::from(false)),
                _ => wrong("yes or no"),
            },
            FieldKind::Choice(choices) => self.chosen(choices, text),
            FieldKind::Choices(choices) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                let chosen: Result<Vec<Value>, String> = parts.map(|part| self.chosen(choices, part)).collect();
                Ok(Value::from(chosen?))
            }
        }
    }

    /// A choice by its value, else by its title.
    fn chosen(&self, choices: &[Choice<'_>], text: &str) -> Result<Value, String> {
        let by_value = choices.iter().find(|choice| choice.value == text);
        let found = by_value.or_else(|| choices.iter().find(|choice| choice.title == text));
        found.map(|choice| Value::from(choice.value)).ok_or_else(|| {
            let known: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
            format!("`{}` takes one of: {}", self.name, known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        let json = r#"{"type":"object","required":["n"],"properties":{
            "t":{"type":"string","format":"date","title":"T","description":"d","default":"x"},
            "n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},
            "c":{"type":"string","oneOf":[{"const":"a","title":"b"},{"const":"b","title":"B"}]},
            "m":{"type":"array","items":{"type":"string","oneOf":[{"const":"a"},{"const":"z","title":"Z"}]}}}}"#;
        Value::from_json(json).unwrap()
    }

    #[test]
    fn a_form_has_the_fields_of_its_schema() {
        let schema = schema();
        let fields = fields(&schema);
        assert_eq!(fields.iter().map(|field| field.name).collect::<Vec<_>>(), ["t", "n", "i", "b", "c", "m"]);
        let text = &fields[0];
        assert_eq!((text.title, text.description, text.required), (Some("T"), Some("d"), false));
        assert_eq!((&text.kind, text.default), (&FieldKind::Text(Some("date")), Some(&Value::from("x"))));
        assert!(fields[1].required);
        assert!(super::fields(&Value::Null).is_empty());
    }

    #[test]
    fn a_typed_text_is_a_value_of_the_field_or_refused_with_its_kind() {
        let schema = schema();
        let read = |name: &str, text: &str| {
            let fields = fields(&schema);
            let field = fields.iter().find(|field| field.name == name).unwrap();
            field.read(text).map(|value| value.to_json())
        };
        for (name, text, json) in [
            ("t", " a, b ", r#""a, b""#),
            ("n", "1.5", "1.5"),
            ("n", "7", "7"),
            ("i", "-7", "-7"),
            ("b", "Yes", "true"),
            ("b", "0", "false"),
            ("c", "b", r#""b""#),
            ("c", "B", r#""b""#),
            ("m", "Z,a", r#"["z","a"]"#),
            ("m", "", "[]"),
        ] {
            assert_eq!(read(name, text), Ok(json.to_owned()), "{name} {text}");
        }
        for (name, text, expected) in [
            ("n", "x", "`n` takes a number"),
            ("n", "inf", "`n` takes a number"),
            ("i", "1.5", "`i` takes a whole number"),
            ("b", "maybe", "`b` takes yes or no"),
            ("c", "q", "`c` takes one of: a, b"),
            ("m", "a,q", "`m` takes one of: a, z"),
        ] {
            assert_eq!(read(name, text), Err(expected.to_owned()));
        }
    }
}
