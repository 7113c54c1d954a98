//! psi's `{{name}}` templates.
//!
//! One pass over the text: a value that contains `{{other}}` stays as it is. A token without a binding is an error, at
//! check time and at run time. What does not look like a name (`{{}}`, `{{1bad}}`, `{{ a b }}`) is text, unless a
//! binding has that very name.

use std::ops::Range;

/// A `{{name}}` in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// The name.
    pub name: &'a str,
    /// Its byte range, braces included.
    pub range: Range<usize>,
}

/// The tokens of a text: names that `is_bound` knows, and everything else that looks like a name
/// (`[a-zA-Z][a-zA-Z0-9_-]*`, the rule of psi's Markdown workflows).
pub fn tokens<'a>(text: &'a str, is_bound: impl Fn(&str) -> bool) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(close) = text.get(at..).and_then(|rest| rest.find("}}")).map(|offset| at + offset) {
        // The innermost opening braces: `{{{x}}` holds the token `{{x}}`.
        let open = text.get(at..close).and_then(|part| part.rfind("{{")).map(|offset| at + offset);
        let name = open.and_then(|open| text.get(open + 2..close));
        match (open, name) {
            (Some(open), Some(name)) if is_bound(name) || looks_like_a_name(name) => {
                found.push(Token { name, range: open..close + 2 });
                at = close + 2;
            }
            _ => at = close + 1,
        }
    }
    found
}

/// Returns the texts that would be tokens but for blanks around their names, `{{ name }}`, each once, in order.
pub fn spaced_tokens(text: &str, is_bound: impl Fn(&str) -> bool) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(close) = text.get(at..).and_then(|rest| rest.find("}}")).map(|offset| at + offset) {
        let open = text.get(at..close).and_then(|part| part.rfind("{{")).map(|offset| at + offset);
        if let Some((open, name)) = open.and_then(|open| Some((open, text.get(open + 2..close)?)))
            && name.trim() != name
            && looks_like_a_name(name.trim())
            && !is_bound(name)
            && let Some(token) = text.get(open..close + 2)
            && !found.contains(&token)
        {
            found.push(token);
        }
        at = close + 2;
    }
    found
}

fn looks_like_a_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The bytes that [`render`] would make: a few hundred kilobytes of tokens may stand for terabytes.
#[must_use]
pub fn rendered_bytes<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> u64 {
    let filled = tokens(text, |name| value(name).is_some());
    let added = filled.iter().map(|token| value(token.name).map_or(0, |text| text.len() as u64));
    (text.len() as u64).saturating_add(added.fold(0, u64::saturating_add))
}

/// Fills in the tokens of a text; `value` gives `None` for a name without a binding.
///
/// # Errors
/// The name of the first token without a binding.
pub fn render<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for token in tokens(text, |name| value(name).is_some()) {
        out.push_str(text.get(at..token.range.start).unwrap_or_default());
        out.push_str(value(token.name).ok_or_else(|| token.name.to_owned())?);
        at = token.range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{render, tokens};

    fn bind(name: &str) -> Option<&'static str> {
        match name {
            "a" => Some("1"),
            "b" => Some("{{a}} }} {{"),
            "odd name" => Some("!"),
            _ => None,
        }
    }

    #[test]
    fn every_occurrence_is_filled_in() {
        assert_eq!(render("{{a}}-{{a}}{{a}}", bind).unwrap(), "1-11");
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        assert_eq!(render("{{b}}{{a}}", bind).unwrap(), "{{a}} }} {{1");
    }

    #[test]
    fn a_token_without_a_binding_is_an_error() {
        assert_eq!(render("{{a}} {{missing}}", bind), Err("missing".to_owned()));
    }

    #[test]
    fn what_is_no_name_is_text() {
        for text in ["{{}}", "{{1bad}}", "{{ a }}", "{{a b}}", "{a}", "{{a", "a}}", "}}{{", "{{é}}"] {
            assert_eq!(render(text, bind).unwrap(), text);
        }
    }

    #[test]
    fn any_bound_name_is_a_token() {
        assert_eq!(render("{{odd name}}", bind).unwrap(), "!");
    }

    #[test]
    fn extra_braces_stay() {
        assert_eq!(render("{{{a}}}", bind).unwrap(), "{1}");
        assert_eq!(render("{{{{a}}}}", bind).unwrap(), "{{1}}");
    }

    #[test]
    fn tokens_know_their_range() {
        let text = "é {{a}} {{b}}";
        let ranges: Vec<_> = tokens(text, |_| false).into_iter().map(|t| &text[t.range]).collect();
        assert_eq!(ranges, ["{{a}}", "{{b}}"]);
    }

    #[test]
    fn a_megabyte_of_braces_takes_no_time() {
        for text in ["{".repeat(1 << 20), "}".repeat(1 << 20), "{{".repeat(1 << 19) + &"}}".repeat(1 << 10)] {
            assert_eq!(render(&text, bind).unwrap(), text);
        }
    }
}
