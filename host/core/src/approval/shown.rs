//! A call's arguments for people: all of them, as the model wrote them, with what hides made visible.

use opcell_types::{Value, text::is_invisible};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt::Write as _};

/// Bytes of a call's arguments, and of its difference, from which on the middle is left out.
pub const MAX_SHOWN_BYTES: usize = 16 << 10;

/// Characters of other scripts that are named at most.
const MAX_NAMED: usize = 8;

/// The arguments of a call for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CallArguments {
    /// JSON over several lines. Characters that a person does not see are written as escapes.
    pub text: String,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of the text that are left out, in its middle; 0 when all of it is there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The change that an edit or a write makes, with `-` and `+` before each line, after the other arguments: nothing
    /// of the call is missing in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// Remarks on what a person may overlook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes the field by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CallArguments {
    /// The arguments as they are shown.
    #[must_use]
    pub fn of(arguments: &Value) -> Self {
        let json = serde_json::Value::from(arguments);
        let pretty = serde_json::to_string_pretty(&json).unwrap_or_default();
        let (text, left_out) = cut(&escaped(&pretty));
        let mut notes = remarks(&pretty);
        if left_out > 0 {
            notes.push(format!("{left_out} of {} bytes are not shown here", pretty.len()));
        }
        let difference = difference(arguments).map(|difference| {
            let (shown, left_out) = cut(&difference);
            if left_out > 0 {
                notes.push(format!("{left_out} of {} bytes of the change are not shown here", difference.len()));
            }
            shown
        });
        Self { text, bytes: pretty.len() as u64, left_out: left_out as u64, difference, notes }
    }
}

/// A text that tells arguments from all others, in the order in which they were written.
pub(crate) fn arguments_key(arguments: &Value) -> String {
    arguments.to_json()
}

/// With every character that a person does not see as an escape.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) {
            let _ = write!(shown, "\\u{{{:04x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The beginning and the end of a long text, with the number of bytes between them, which is how many are left out.
fn cut(text: &str) -> (String, usize) {
    if text.len() <= MAX_SHOWN_BYTES {
        return (text.to_owned(), 0);
    }
    let head = text.floor_char_boundary(MAX_SHOWN_BYTES / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - MAX_SHOWN_BYTES / 4);
    let left_out = tail.saturating_sub(head);
    let (before, after) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    (format!("{before}\n[… {left_out} of {} bytes are not shown …]\n{after}", text.len()), left_out)
}

/// Remarks on what hides in a text: characters that are not seen, and letters of other scripts among Latin ones.
fn remarks(text: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let hidden = text.chars().filter(|c| is_invisible(*c)).count();
    if hidden > 0 {
        let count = if hidden == 1 { "1 character".to_owned() } else { format!("{hidden} characters") };
        notes.push(format!("{count} cannot be seen, shown as \\u{{…}}"));
    }
    let is_letter = |c: &char| c.is_alphanumeric();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| {
        word.chars().any(|c| c.is_ascii_alphanumeric()) && word.chars().any(|c| !c.is_ascii() && !is_latin(c))
    });
    let odd: BTreeSet<char> =
        words.flat_map(str::chars).filter(|c| is_letter(c) && !c.is_ascii() && !is_latin(*c)).collect();
    if !odd.is_empty() {
        let named: Vec<String> = odd.iter().take(MAX_NAMED).map(|c| format!("{c} (U+{:04X})", u32::from(*c))).collect();
        notes.push(format!("letters that look like others may be among these: {}", named.join(", ")));
    }
    notes
}

/// Letters that people do not take for others: Latin with marks.
fn is_latin(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}')
}

/// The lines that an edit replaces, or a write puts there. The model chose the names of the arguments: what else it
/// wrote comes first, whole, so that no pair of texts takes the place of a command.
fn difference(arguments: &Value) -> Option<String> {
    const REPLACED: [(&str, &str); 4] =
        [("old_text", "new_text"), ("old_string", "new_string"), ("oldText", "newText"), ("old", "new")];
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let lines = |mark: char, text: &str| -> String {
        text.split('\n').map(|line| format!("{mark} {}\n", escaped(line))).collect()
    };
    let replaced = REPLACED.iter().find_map(|(old, new)| Some((*old, *new, text(old)?, text(new)?)));
    let (taken, change) = match replaced {
        Some((old_key, new_key, old, new)) => ([old_key, new_key], lines('-', old) + &lines('+', new)),
        None => {
            ["path", "file", "file_path"].into_iter().find_map(text)?;
            let key = ["content", "text"].into_iter().find(|key| text(key).is_some())?;
            ([key, key], lines('+', text(key)?))
        }
    };
    let mut shown = String::new();
    for (key, value) in arguments.as_object()?.iter().filter(|(key, _)| !taken.contains(&&***key)) {
        let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let key = if is_plain { key.to_string() } else { escaped(&Value::from(&**key).to_json()) };
        let _ = writeln!(shown, "{key}: {}", escaped(&value.to_json()));
    }
    Some(shown + &change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> CallArguments {
        CallArguments::of(&Value::from_json(json).unwrap())
    }

    #[test]
    fn what_cannot_be_seen_is_written_out_and_remarked_upon() {
        let arguments = shown("{\"command\": \"echo a\u{202e}b\u{200b}\"}");
        assert!(arguments.text.contains("a\\u{202e}b\\u{200b}"), "{}", arguments.text);
        assert_eq!(arguments.notes, ["2 characters cannot be seen, shown as \\u{…}"]);
    }

    #[test]
    fn letters_of_another_script_within_a_word_are_named() {
        let arguments = shown("{\"command\": \"rm /home/\u{430}lice\"}");
        assert!(arguments.notes[0].contains("U+0430"), "{:?}", arguments.notes);
        assert_eq!(shown("{\"text\": \"déjà vu, Привет, 你好\"}").notes, Vec::<String>::new());
    }

    #[test]
    fn a_line_break_in_an_argument_makes_no_other_argument() {
        let arguments = shown(r#"{"command": "ls\",\n  \"path\": \"x"}"#);
        assert_eq!(arguments.text.lines().count(), 3, "{}", arguments.text);
    }

    #[test]
    fn a_long_text_is_cut_in_the_middle_and_says_how_much_is_missing() {
        let long = format!("{{\"command\": \"{} && rm -rf /\"}}", "a".repeat(100_000));
        let arguments = shown(&long);
        assert!(arguments.text.len() < MAX_SHOWN_BYTES + 200);
        assert!(arguments.text.contains("rm -rf /") && arguments.left_out > 80_000);
        assert!(arguments.notes[0].contains("bytes are not shown here"));
    }

    #[test]
    fn edits_and_writes_are_shown_as_differences() {
        let edit = shown(r#"{"path": "a", "old_text": "x\ny", "new_text": "z"}"#);
        assert_eq!(edit.difference.as_deref(), Some("path: \"a\"\n- x\n- y\n+ z\n"));
        let write = shown(r#"{"path": "a", "content": "x"}"#);
        assert_eq!(write.difference.as_deref(), Some("path: \"a\"\n+ x\n"));
        assert_eq!(shown(r#"{"command": "ls"}"#).difference, None);
    }

    #[test]
    fn a_pair_of_texts_hides_no_other_argument() {
        for extra in [r#""old": "a", "new": "b""#, r#""path": "README.md", "content": "Hello""#] {
            let shown = shown(&format!("{{\"command\": \"rm -rf /home\", {extra}}}")).difference.unwrap();
            assert!(shown.contains("command: \"rm -rf /home\"\n"), "{shown}");
        }
        let path = format!("docs/{}.bashrc", "a/../".repeat(200));
        let shown = shown(&format!("{{\"path\": \"{path}\", \"content\": \"x\"}}")).difference.unwrap();
        assert!(shown.contains(&path), "{shown}");
    }

    #[test]
    fn a_long_change_is_cut_and_says_so() {
        let arguments = shown(&format!(r#"{{"path": "a", "content": "{}"}}"#, "x".repeat(100_000)));
        assert!(arguments.difference.unwrap().len() < MAX_SHOWN_BYTES + 200);
        assert!(
            arguments.notes.iter().any(|note| note.contains("of the change are not shown")),
            "{:?}",
            arguments.notes
        );
    }
}
