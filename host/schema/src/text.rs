//! Text that untrusted code wrote, made safe to keep and to print.

/// The text with what is hostile in it replaced, and then cut at a character boundary to at most `limit` bytes and marked with `…`.
#[must_use]
pub fn printable(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        let c = if is_hostile(c) { char::REPLACEMENT_CHARACTER } else { c };
        if out.len() + c.len_utf8() > limit {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}

/// Control characters other than newline and tab drive terminals; bidirectional overrides make a line read as something it is not;
/// tag characters are seen by models and by nobody else.
fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(printable("aé", 2), "a…");
        assert_eq!(printable("aé", 3), "aé");
    }

    #[test]
    fn what_is_put_in_the_place_of_control_characters_counts_as_well() {
        let kept = printable(&"\u{1b}".repeat(1_000), 100);
        assert_eq!(kept, format!("{}…", "\u{fffd}".repeat(33)));
    }

    #[test]
    fn escape_sequences_overrides_and_hidden_text_lose_their_power() {
        assert_eq!(printable("\u{1b}[2J\u{202e}ok\n", 100), "\u{fffd}[2J\u{fffd}ok\n");
        assert_eq!(printable("a\u{e0041}b", 100), "a\u{fffd}b");
    }
}
