//! Text that untrusted code or documents wrote, made safe to keep and to print.

use std::borrow::Cow;

/// `true` if a character can steer a terminal, reorder a line or hide text: everything that a person does not see as
/// written.
///
/// Line breaks and tabs are not among them; [`one_line`] replaces those too.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            // Soft hyphen, combining grapheme joiner, fillers and separators that have no glyph.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Zero-width spaces and joiners, direction marks, line and paragraph separators, bidirectional overrides
            // and isolates.
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // Variation selectors and tags: models read text that is encoded in them, people do not see it.
            | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
}

/// `true` if a character belongs to a picture that may be joined to others, or be asked for in colour.
fn is_picture(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// `true` if a letter is of a script whose words are written with joiners.
fn is_joined_script(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{dff}') && !is_invisible(c)
}

/// The characters of a text, with every one that a person does not see as U+FFFD.
///
/// Two that are invisible by themselves are kept where people write them: one variation selector after a picture
/// (`⚠️`), and a joiner between two pictures or two letters of a script that needs it.
pub fn visible(text: &str) -> impl Iterator<Item = char> {
    let (mut chars, mut before) = (text.chars().peekable(), None);
    std::iter::from_fn(move || {
        let c = chars.next()?;
        let next = chars.peek().copied();
        let around = |fits: fn(char) -> bool| before.is_some_and(fits) && next.is_some_and(fits);
        let coloured = |c: char| is_picture(c) || c == '\u{fe0f}';
        let is_kept = match c {
            '\u{fe0f}' => before.is_some_and(is_picture),
            '\u{200c}' => around(is_joined_script),
            '\u{200d}' => around(is_joined_script) || (before.is_some_and(coloured) && next.is_some_and(is_picture)),
            c => !is_invisible(c),
        };
        let shown = if is_kept { c } else { char::REPLACEMENT_CHARACTER };
        before = Some(shown);
        Some(shown)
    })
}

/// Returns `true` if a text has characters that [`is_invisible`] names. ASCII is looked at byte by byte, which is
/// several times as fast.
fn has_invisible(text: &str) -> bool {
    match text.is_ascii() {
        true => text.bytes().any(|byte| byte < b' ' && byte != b'\n' && byte != b'\t' || byte == 0x7f),
        false => text.contains(is_invisible),
    }
}

/// The whole text without invisible characters; see [`visible`].
#[must_use]
pub fn cleaned(text: &str) -> Cow<'_, str> {
    if !has_invisible(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(visible(text).collect())
}

/// The text with invisible characters replaced by U+FFFD, cut at a character boundary to at most `limit` bytes and then
/// marked with `…`.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    let head = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    // Most texts have nothing to replace, and plugins write many of them.
    if !has_invisible(head) {
        return if head.len() < text.len() { format!("{head}…") } else { head.to_owned() };
    }
    let mut out = String::with_capacity(text.len().min(limit));
    for c in visible(text) {
        if out.len() + c.len_utf8() > limit {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// As [`printable`], for a place where a line break would look like the next line.
#[must_use]
pub fn one_line(text: &str, limit: usize) -> String {
    printable(text, limit).replace(['\n', '\t'], " ")
}

/// The text with each byte of an invisible character replaced by `?`, so that byte offsets into it stay valid.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    if !has_invisible(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) { (0..c.len_utf8()).for_each(|_| shown.push('?')) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// An estimate of the tokens that a model reads a text as: four bytes of ASCII, or one other character.
#[must_use]
pub fn estimated_tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().count() - ascii;
    (ascii.div_ceil(4) + others) as u64
}

#[cfg(test)]
mod tests {
    use super::{cleaned, masked, one_line, printable};

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(printable("aé", 2), "a…");
        assert_eq!(printable("aé", 3), "aé");
    }

    #[test]
    fn replacements_count_towards_the_limit() {
        let kept = printable(&"\u{1b}".repeat(1_000), 100);
        assert_eq!(kept, format!("{}…", "\u{fffd}".repeat(33)));
    }

    #[test]
    fn whatever_a_person_cannot_see_is_replaced() {
        assert_eq!(printable("\u{1b}[2J\u{202e}ok\n", 100), "\u{fffd}[2J\u{fffd}ok\n");
        for hidden in [
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{2060}',
            '\u{feff}',
            '\u{fe0f}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{ad}',
            '\u{61c}',
            '\u{2066}',
            '\u{85}',
        ] {
            assert_eq!(printable(&format!("a{hidden}b"), 100), "a\u{fffd}b", "{hidden:?}");
        }
        assert_eq!(printable("naïve 漢字 العربية\tok", 100), "naïve 漢字 العربية\tok");
    }

    #[test]
    fn pictures_and_scripts_that_need_joiners_stay_as_they_are_written() {
        for text in ["⚠️ Careful", "👩‍💻 and 👨‍👩‍👧", "❤️‍🔥", "می‌خواهم", "ක්‍ෂ"]
        {
            assert_eq!(cleaned(text), text);
            assert_eq!(printable(text, 1_000), text);
        }
        for (text, shown) in [
            ("⚠\u{fe0f}\u{fe0f}", "⚠\u{fe0f}\u{fffd}"),
            ("⚠\u{fe01}", "⚠\u{fffd}"),
            ("👩\u{200d}a", "👩\u{fffd}a"),
            ("م\u{200c}\u{200c}م", "م\u{fffd}\u{fffd}م"),
            ("a\u{e0061}", "a\u{fffd}"),
        ] {
            assert_eq!(cleaned(text), shown);
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(one_line("a\nb\tc", 100), "a b c");
    }

    #[test]
    fn masking_keeps_every_offset() {
        assert_eq!(masked("a\u{1b}[2Jb\u{202e}c\td\n"), "a?[2Jb???c\td\n");
        assert!(matches!(masked("plain"), std::borrow::Cow::Borrowed(_)));
    }
}
