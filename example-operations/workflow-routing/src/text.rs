//! What psi means by a token, a line, blank space and the path of a task.

/// A route, a marker's label or a field's label: `[A-Z_]+`.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Blank as in the reference runtime, which runs on the JVM: no-break spaces are not, separators of files and records
/// are.
fn is_blank_char(character: char) -> bool {
    match character {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}' => false,
        '\u{1c}'..='\u{1f}' => true,
        other => other.is_whitespace(),
    }
}

pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank_char)
}

pub fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_blank_char)
}

pub fn is_blank(text: &str) -> bool {
    trim(text).is_empty()
}

/// Whether blank space and then a colon come first.
pub fn is_colon_after_space(text: &str) -> bool {
    let rest = text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    rest.len() < text.len() && rest.starts_with(':')
}

/// The lines of `text` that look like a field `label`, exact or not.
pub fn field_lines<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    let is_field = |line: &&str| {
        trim_start(line).strip_prefix(label).is_some_and(|rest| rest.starts_with(':') || is_colon_after_space(rest))
    };
    text.lines().filter(is_field).collect()
}

/// `munera/open/NNN-slug`, in full.
pub fn is_open_task_path(text: &str) -> bool {
    text.strip_prefix("munera/open/").is_some_and(is_task_name)
}

/// `NNN-slug`: at least three digits, then words of a-z and 0-9 joined by single dashes.
fn is_task_name(text: &str) -> bool {
    let Some((number, slug)) = text.split_once('-') else { return false };
    let word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    number.len() >= 3 && number.bytes().all(|byte| byte.is_ascii_digit()) && slug.split('-').all(word)
}

/// The folder of an open task from its path or its bare name; `None` for anything else.
pub fn open_task_folder(task: &str) -> Option<String> {
    let task = trim(task);
    if is_open_task_path(task) {
        return Some(task.to_owned());
    }
    is_task_name(task).then(|| format!("munera/open/{task}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_its_path_or_its_bare_name() {
        assert_eq!(open_task_folder(" munera/open/230-x "), Some("munera/open/230-x".to_owned()));
        assert_eq!(open_task_folder("1230-two-words"), Some("munera/open/1230-two-words".to_owned()));
        for other in
            ["", "23-x", "230", "230-", "230--x", "munera/closed/230-x", "munera/open/230-x/..", "work on 230-x"]
        {
            assert_eq!(open_task_folder(other), None, "{other}");
        }
    }

    #[test]
    fn a_no_break_space_is_text() {
        assert_eq!(trim("\u{a0}x \t"), "\u{a0}x");
    }
}
